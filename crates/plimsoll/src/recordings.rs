//! Writes recordings, and makes those of audit differences small.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_engine::{AuditDifference, Engine, Options, Scheduler};
use plimsoll_framework::Registry;
use plimsoll_recording::{
    Destination, Effort, Ending, Entry, Header, Limits, ReadError, Reader, Recording, Summary,
    WhenFull, part_path, shrink,
};
use thiserror::Error;

use crate::options::Setup;

/// The name of this program in recordings.
pub(crate) const PROGRAM: &str = concat!("plimsoll ", env!("CARGO_PKG_VERSION"));

/// To make a recording small, at most 20 million entries are replayed: about a minute.
pub(crate) const MOST_REPLAYED: u64 = 20_000_000;

/// What is done if somebody waits for the result.
pub(crate) const FULL_EFFORT: Effort = Effort { entries: MOST_REPLAYED, time: Duration::MAX };

/// What a file is called while it is written.
const UNFINISHED: &str = ".unfinished";

/// What an audit difference of a recording is written to.
const DIFFERENCE: &str = ".difference";

/// A recording with more entries than are read here.
#[derive(Debug, Error)]
#[error("{}: has more than {most} entries", .path.display())]
pub(crate) struct TooLong {
    path: PathBuf,
    most: usize,
}

/// The header for a scheduler of this setup.
pub(crate) fn header(command: &str, setup: &Setup, options: &Options, seed: u64) -> Header {
    let specs = setup.configuration.profile_specs();
    Header::new((PROGRAM, command), &specs, &setup.gates, options, seed)
}

/// Begins a recording of a simulation, for which the simulation waits.
pub(crate) fn begin(path: &Path, header: Header) -> Result<Recording> {
    let destination = Destination { path: path.to_owned(), limits: Limits::NONE };
    Ok(Recording::start(destination, header, WhenFull::Wait, |_| {})?)
}

/// Says what was recorded, as `recorded 12 events: 345 bytes`.
pub(crate) fn describe(summary: Summary) -> String {
    let Summary { events, bytes, parts: _ } = summary;
    format!("recorded {events} events: {bytes} bytes")
}

/// The file for the smallest recording that shows an audit difference of the one in `path`.
pub(crate) fn difference_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(DIFFERENCE);
    name.into()
}

/// Writes the smallest recording that shows the first audit difference of the one that begins with `path`. `None` if
/// no audit finds a difference in the replay. It is an error if the recording has more than `most` entries.
pub(crate) fn write_smallest(
    path: &Path,
    to: &Path,
    registry: &Registry,
    (most, effort): (usize, Effort),
) -> Result<Option<(AuditDifference, Summary)>> {
    let (header, entries) = read(path, registry, most)?;
    let options = Options { engine: Engine::Fast, audit_every: 1, ..header.options() };
    let new = || header.scheduler(registry, options);
    // Whatever is wrong with the profiles is reported once; later it is right.
    new().map_err(|error| ReadError::Profile { path: path.to_owned(), error })?;
    let scheduler = || -> Scheduler { new().expect("the same profiles were right before") };
    let Some(shrunk) = shrink(entries, &scheduler, effort) else { return Ok(None) };
    let audited = header.clone().with_options(&options);
    // Whoever finds the file finds it whole.
    let mut unfinished: OsString = to.as_os_str().to_owned();
    unfinished.push(UNFINISHED);
    let unfinished = PathBuf::from(unfinished);
    let written = begin(&unfinished, audited).and_then(|recording| {
        shrunk.record(scheduler(), recording.recorder());
        let summary = recording.finish()?;
        rename(&unfinished, to)?;
        Ok(summary)
    });
    if written.is_err() {
        // The error says what is wrong. A part of a recording is of no use.
        let _ = fs::remove_file(&unfinished);
    }
    Ok(Some((shrunk.difference, written?)))
}

/// All entries of a recording from its first part on, with the header. It is an error if there are more than `most`.
fn read(path: &Path, registry: &Registry, most: usize) -> Result<(Header, Vec<Entry>)> {
    let mut reader = Reader::open(path, registry.kinds())?;
    let header = reader.header().clone();
    if header.part != 1 {
        let remedy = "give its first part, since the state before this one is not known".to_owned();
        return Err(ReadError::Part { path: path.to_owned(), part: header.part, remedy }.into());
    }
    let mut entries = Vec::new();
    loop {
        let mut in_picture = false;
        while let Some(entry) = reader.next()? {
            match entry {
                Entry::PictureBegins => in_picture = true,
                Entry::PictureEnds => in_picture = false,
                entry if !in_picture => entries.push(entry),
                _ => {}
            }
            if most < entries.len() {
                return Err(TooLong { path: path.to_owned(), most }.into());
            }
        }
        match next_part(path, &reader, registry)? {
            Some(next) => reader = next,
            None => return Ok((header, entries)),
        }
    }
}

/// The part after one that was read to its end, if it is there. `first` is the first part, or the one from which its
/// name follows.
pub(crate) fn next_part(
    first: &Path,
    reader: &Reader,
    registry: &Registry,
) -> Result<Option<Reader>, ReadError> {
    if reader.ending() != Some(Ending::Continues) {
        return Ok(None);
    }
    let base = base(first, reader.header().part);
    let next = part_path(&base, reader.header().part + 1);
    next.exists().then(|| Reader::open(&next, registry.kinds())).transpose()
}

/// The name of the first part, given that of some part.
fn base(path: &Path, part: u32) -> PathBuf {
    let text = path.as_os_str().to_string_lossy();
    match text.rsplit_once('.') {
        Some((base, number)) if number.parse() == Ok(part) && 1 < part => base.into(),
        _ => match text.rsplit_once('.') {
            // A later part is read from an earlier one that is not the first.
            Some((base, number)) if number.parse().is_ok_and(|n: u32| 1 < n && n < part) => {
                base.into()
            }
            _ => path.to_owned(),
        },
    }
}

/// Renames the parts of an earlier recording, so that they are not overwritten. What was renamed before is deleted.
pub(crate) fn keep_earlier(path: &Path) -> Result<()> {
    if !path.exists() && earlier_parts(path)?.is_empty() {
        return Ok(());
    }
    let mut before: OsString = path.as_os_str().to_owned();
    before.push(".before");
    let before = PathBuf::from(before);
    for (_, old) in earlier_parts(&before)? {
        remove(&old)?;
    }
    remove(&before)?;
    for (part, old) in earlier_parts(path)? {
        rename(&old, &part_path(&before, part))?;
    }
    if path.exists() {
        rename(path, &before)?;
    }
    tracing::info!(from = %path.display(), to = %before.display(), "renamed an earlier recording");
    Ok(())
}

/// The parts of a recording except the first, with their numbers.
fn earlier_parts(path: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return Ok(Vec::new());
    };
    let entries = fs::read_dir(directory)
        .with_context(|| format!("{}: cannot be read", directory.display()))?;
    let part = |entry: fs::DirEntry| {
        let found = entry.file_name().to_string_lossy().into_owned();
        let number = found.strip_prefix(&name)?.strip_prefix('.')?.parse().ok()?;
        (1 < number).then(|| (number, entry.path()))
    };
    Ok(entries.filter_map(|entry| part(entry.ok()?)).collect())
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}: cannot be removed", path.display()))
        }
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to)
        .with_context(|| format!("{}: cannot be renamed to {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_first_part_follows_from_that_of_any_part() {
        let base = |path: &str, part| base(Path::new(path), part).display().to_string();
        assert_eq!(base("a/rec", 1), "a/rec");
        assert_eq!(base("a/rec", 7), "a/rec");
        assert_eq!(base("a/rec.3", 3), "a/rec");
        assert_eq!(base("a/rec.3", 5), "a/rec");
        // A name that looks like that of a part.
        assert_eq!(base("v1.2", 1), "v1.2");
    }

    #[test]
    fn an_earlier_recording_is_renamed_with_all_its_parts() {
        let directory = tempfile::tempdir().expect("there is room");
        let path = |name: &str| directory.path().join(name);
        for name in ["rec", "rec.2", "rec.12", "rec.before", "rec.before.3", "record.2"] {
            fs::write(path(name), name).expect("there is room");
        }
        keep_earlier(&path("rec")).expect("they can be renamed");
        let entries = fs::read_dir(directory.path()).expect("it is there");
        let mut left: Vec<String> = entries
            .map(|entry| entry.expect("it is there").file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        assert_eq!(left, ["rec.before", "rec.before.12", "rec.before.2", "record.2"]);
        assert_eq!(fs::read_to_string(path("rec.before")).ok().as_deref(), Some("rec"));
    }
}
