//! Reading the corpus.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use serde::de::DeserializeOwned;

use crate::case::Case;
use crate::compare::Expected;

/// Where the corpus lies.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// All cases of a suite with what is expected of them.
///
/// # Panics
/// If the suite is not in the corpus, or broken.
pub fn suite(name: &str) -> Vec<(Case, Expected)> {
    let cases: Vec<Case> = compressed(&folder().join(format!("{name}.cases.jsonl.zst")));
    let expected: Vec<Expected> = compressed(&folder().join(format!("{name}.expected.jsonl.zst")));
    assert_eq!(cases.len(), expected.len(), "suite {name}: as many cases as expectations");
    cases.into_iter().zip(expected).collect()
}

fn compressed<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let decoder = StreamingDecoder::new(open(path)).expect("the file is compressed with zstd");
    lines(BufReader::new(decoder), path)
}

/// Every line of a file of JSON lines.
///
/// # Panics
/// If the file is missing or broken.
pub fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    lines(open(path), path)
}

fn open(path: &Path) -> BufReader<File> {
    let file = File::open(path);
    BufReader::new(file.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn lines<T: DeserializeOwned>(from: impl BufRead, path: &Path) -> Vec<T> {
    let parse = |(i, line): (usize, std::io::Result<String>)| {
        let line = line.unwrap_or_else(|error| panic!("{}:{}: {error}", path.display(), i + 1));
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{}:{}: {error}", path.display(), i + 1))
    };
    from.lines().enumerate().map(parse).collect()
}
