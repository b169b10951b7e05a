//! Runs every target with every input of its corpus, and with those that its fuzzer found.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use plimsoll_fuzz::TARGETS;
use ruzstd::decoding::StreamingDecoder;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn names(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("a file that can be read").file_name().into_string().expect("a plain name")
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

#[test]
fn no_input_of_the_corpus_breaks_its_target() {
    for (name, target) in TARGETS {
        let folder = corpus().join(name);
        let inputs = names(&folder);
        assert!(!inputs.is_empty(), "target {name} has no corpus");
        for input in inputs {
            // The panic itself does not name the input.
            println!("{name}/{input}");
            target(&fs::read(folder.join(&input)).expect("a file that can be read"));
        }
    }
}

/// Hundreds of inputs that each cover code that no other does. `fuzz/pack` stores them in one file for each target.
#[test]
fn no_input_found_by_a_fuzzer_breaks_its_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("found");
    for (name, target) in TARGETS {
        let file = fs::File::open(folder.join(format!("{name}.zst")));
        let file = file.unwrap_or_else(|error| panic!("found/{name}.zst: {error}"));
        let mut text = String::new();
        let mut inputs = StreamingDecoder::new(file).expect("it is compressed with zstd");
        inputs.read_to_string(&mut text).expect("it is whole");
        for (line, input) in (1..).zip(text.lines()) {
            // To show it: zstd -dc fuzz/found/TARGET.zst | sed -n LINEp | base64 -d
            println!("{name}, line {line}");
            target(&BASE64_STANDARD.decode(input).expect("each line is base64"));
        }
        assert!(!text.is_empty(), "nothing was found for {name}");
    }
}

#[test]
fn every_corpus_belongs_to_a_target_and_every_target_has_a_fuzzer() {
    let mut targets: Vec<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    targets.sort();
    assert_eq!(names(&corpus()), targets);
    let fuzzers = Path::new(env!("CARGO_MANIFEST_DIR")).join("libfuzzer/fuzz_targets");
    let fuzzers: Vec<String> =
        names(&fuzzers).iter().map(|name| name.trim_end_matches(".rs").to_owned()).collect();
    assert_eq!(fuzzers, targets);
}
