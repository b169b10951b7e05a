//! Reads the given files as text.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use flate2::read::MultiGzDecoder;

/// The name of standard input on the command line.
pub(crate) const STDIN: &str = "-";
/// The name of standard input in messages.
const STDIN_NAME: &str = "<stdin>";
/// The extensions of manifests.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// The first bytes of a file that is compressed with gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// At most this many bytes come out of a compressed file: a small file could otherwise fill the memory.
const MAX_UNPACKED: u64 = 16 << 30;

/// A file that has been read.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its name, for messages.
    pub(crate) name: String,
    /// Its content.
    pub(crate) text: String,
}

impl Source {
    /// Reads the file at `path`, or standard input for `-`. It may be compressed with gzip.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let (name, bytes) = if path == Path::new(STDIN) {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
            (STDIN_NAME.to_owned(), bytes)
        } else {
            let name = path.display().to_string();
            let bytes = fs::read(path).with_context(|| format!("{name}: cannot be read"))?;
            (name, bytes)
        };
        let bytes = if bytes.starts_with(&GZIP) { unpacked(&name, &bytes)? } else { bytes };
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Source { name, text }),
            Err(error) => {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = valid.split(|byte| *byte == b'\n').count();
                bail!("{name}:{line}: is not UTF-8 text");
            }
        }
    }
}

/// The content of a file that is compressed with gzip.
fn unpacked(name: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(MAX_UNPACKED).read_to_end(&mut content);
    read.with_context(|| format!("{name}: is compressed with gzip, and cannot be unpacked"))?;
    let is_whole = u64::try_from(content.len()).is_ok_and(|length| length < MAX_UNPACKED);
    ensure!(is_whole, "{name}: has more than {} GiB unpacked", MAX_UNPACKED >> 30);
    Ok(content)
}

/// Reads all `files`, with those of directories, in order.
pub(crate) fn read_all(files: &[PathBuf]) -> Result<Vec<Source>> {
    let mut seen = BTreeSet::new();
    let mut sources = Vec::new();
    for file in files {
        for path in expand(file)? {
            ensure!(seen.insert(path.clone()), "{}: is named twice", path.display());
            sources.push(Source::read(&path)?);
        }
    }
    Ok(sources)
}

/// The manifests in `path` if it is a directory, else `path` itself.
fn expand(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let name = path.display();
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.with_context(|| format!("{name}: cannot be read"))?;
    let mut files: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| !file.is_dir() && is_manifest(file));
    files.sort();
    ensure!(
        !files.is_empty(),
        "{name}: the directory has no files *.yaml, *.yml or *.json; its subdirectories are not read"
    );
    Ok(files)
}

fn is_manifest(file: &Path) -> bool {
    let is_compressed = file.extension().is_some_and(|end| end == "gz");
    let file = if is_compressed { &file.with_extension("") } else { file };
    file.extension().is_some_and(|end| EXTENSIONS.iter().any(|known| end == *known))
}
