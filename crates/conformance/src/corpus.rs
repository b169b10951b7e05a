//! Reading the corpus.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::case::Case;
use crate::compare::Expected;
use crate::groups::ExpectedRun;

/// The prefix of the names of suites that were recorded from release 1.20.
const LEGACY: &str = "legacy_";

/// The directory of the corpus.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// All cases of a suite with their expected decisions. In suites of release 1.20, a case without a
/// configuration has its `DefaultProvider`.
///
/// # Panics
/// If the suite is not in the corpus, or broken.
pub fn suite(name: &str) -> Vec<(Case, Expected)> {
    let mut cases: Vec<Case> = compressed(&folder().join(format!("{name}.cases.jsonl.zst")));
    let expected: Vec<Expected> = compressed(&folder().join(format!("{name}.expected.jsonl.zst")));
    assert_eq!(cases.len(), expected.len(), "suite {name}: as many cases as expectations");
    if name.starts_with(LEGACY) {
        for case in &mut cases {
            case.config
                .get_or_insert_with(|| json!({"kind": "Provider", "name": "DefaultProvider"}));
        }
    }
    cases.into_iter().zip(expected).collect()
}

/// All cases of a suite with groups of pods, with the records of their runs.
///
/// # Panics
/// If the suite is not in the corpus, or broken.
pub fn runs(name: &str) -> Vec<(Case, ExpectedRun)> {
    let cases: Vec<Case> = compressed(&folder().join(format!("{name}.cases.jsonl.zst")));
    let expected = compressed(&folder().join(format!("{name}.expected.jsonl.zst")));
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
