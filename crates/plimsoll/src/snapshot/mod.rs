//! Snapshots: files with everything that decisions depend on, and nothing else.

mod belief;
mod names;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use plimsoll_api::wire::{Reader, WireError};
use serde_json::Value;

pub(crate) use self::belief::{Belief, QUEUE};
pub(crate) use self::names::NameHash;
use crate::input::STDIN;
use crate::wording::count;

/// The extension of compressed files.
const COMPRESSED: &str = "gz";

/// What is kept of objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reduction {
    /// The keys of annotations that are kept beside those that in-tree plugins read.
    pub(crate) annotations: Vec<String>,
}

impl Reduction {
    /// The manifest with only what decisions need.
    pub(crate) fn of(&self, reader: Reader, manifest: &Value) -> Result<Value, WireError> {
        reader.reduce(manifest, &|key| self.annotations.iter().any(|kept| kept == key))
    }
}

/// Writes manifests as a `v1 List`, one a line, so that two snapshots can be compared by line. Compresses if the name of the
/// file says so. `-` is standard output.
pub(crate) fn write<T: AsRef<str>>(
    path: &Path,
    manifests: impl IntoIterator<Item = T>,
) -> Result<()> {
    let name = path.display();
    if path == Path::new(STDIN) {
        return list(BufWriter::new(io::stdout().lock()), manifests)
            .context("cannot write to standard output");
    }
    let file = File::create(path).with_context(|| format!("{name}: cannot be written"))?;
    let file = BufWriter::new(file);
    let written = match path.extension().is_some_and(|end| end == COMPRESSED) {
        true => {
            let mut out = GzEncoder::new(file, Compression::default());
            let written = list(&mut out, manifests);
            written.and_then(|()| out.finish()).and_then(|mut file| file.flush())
        }
        false => list(file, manifests),
    };
    written.with_context(|| format!("{name}: cannot be written"))
}

fn list<T: AsRef<str>>(
    mut out: impl Write,
    manifests: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    writeln!(out, r#"{{"apiVersion":"v1","kind":"List","items":["#)?;
    for (index, manifest) in manifests.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { ",\n" };
        write!(out, "{comma}{}", manifest.as_ref())?;
    }
    writeln!(out, "\n]}}")?;
    out.flush()
}

/// How many objects of each kind there are: `2 Nodes, 1 Pod`.
pub(crate) fn census<'a>(kinds: impl IntoIterator<Item = &'a str>) -> String {
    let mut n_objects = BTreeMap::<&str, usize>::new();
    for kind in kinds {
        *n_objects.entry(kind).or_default() += 1;
    }
    let words: Vec<String> = n_objects.into_iter().map(|(kind, n)| count(n, kind)).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_an_object_a_line() {
        let mut text = Vec::new();
        list(&mut text, [r#"{"a":1}"#, r#"{"b":2}"#]).expect("memory can be written");
        let text = String::from_utf8(text).expect("it is text");
        assert_eq!(
            text,
            "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{\"a\":1},\n{\"b\":2}\n]}\n"
        );
        assert!(serde_json::from_str::<Value>(&text).is_ok());
    }

    #[test]
    fn kinds_are_counted() {
        assert_eq!(census(["Pod", "Node", "Pod"]), "1 Node, 2 Pods");
        assert_eq!(census([]), "nothing");
    }
}
