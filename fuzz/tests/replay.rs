//! Every target with every input of its corpus.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_fuzz::TARGETS;

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
            // The test names the input that breaks a target: the panic itself does not.
            println!("{name}/{input}");
            target(&fs::read(folder.join(&input)).expect("a file that can be read"));
        }
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
