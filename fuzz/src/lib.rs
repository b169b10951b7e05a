//! Fuzz targets for everything that reads bytes from outside.
//!
//! A target takes any bytes. It panics if the program would, or if a property of the reader is violated.
//! `tests/replay.rs` runs every target with its corpus, so every input that once broke something remains a test.
//! `libfuzzer` looks for new inputs:
//!
//! ```sh
//! RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir fuzz/libfuzzer --sanitizer none yaml fuzz/corpus/yaml
//! ```
//!
//! The targets call the same functions as the program and contain no parsers.

mod configurations;
mod documents;
mod objects;
mod over_the_network;
mod selectors;

/// A fuzz target: its name, which is that of its corpus, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("yaml", documents::yaml),
    ("json", documents::json),
    ("objects", objects::objects),
    ("quantities", objects::quantities),
    ("selectors", selectors::selectors),
    ("configurations", configurations::configurations),
    ("policies", configurations::policies),
    ("flags", configurations::flags),
    ("watches", over_the_network::watches),
    ("lists", over_the_network::lists),
    ("extenders", over_the_network::extenders),
    ("kubeconfigs", over_the_network::kubeconfigs),
    ("requests", over_the_network::requests),
];

/// Gives `input` to the target called `name`. Panics if there is no such target.
pub fn run(name: &str, input: &[u8]) {
    let (_, target) =
        TARGETS.iter().find(|(known, _)| *known == name).expect("a target of TARGETS");
    target(input);
}
