//! Writes the parts of a recording: one file after another, of which the newest are kept.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::encode::{Encoder, Unwritable};
use crate::error::RecordError;
use crate::form::Form;
use crate::frame::{frame, preamble};
use crate::header::Header;

/// A frame is written when its data has this many bytes: the window of the compression.
const FRAME: u64 = 128 << 10;

/// A part has at least this many times the bytes of the picture with which it begins, so that a recording does not
/// consist of pictures.
const PICTURES: u64 = 2;

/// How large a recording may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A part that has this many bytes is closed, and the next one begins.
    pub part_size: u64,
    /// This many parts are kept, at least 1; older ones are deleted.
    pub parts: u32,
}

impl Limits {
    /// One part of any size.
    pub const NONE: Self = Limits { part_size: u64::MAX, parts: 1 };
}

/// Where a recording goes.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The first part; those that follow have its name with `.2`, `.3` and so on.
    pub path: PathBuf,
    /// How large it may become.
    pub limits: Limits,
}

/// The file of a part; the first one has number 1.
pub fn part_path(first: &Path, part: u32) -> PathBuf {
    if part <= 1 {
        return first.to_owned();
    }
    let mut name = first.as_os_str().to_owned();
    name.push(format!(".{part}"));
    name.into()
}

/// Writes entries to the parts.
#[derive(Debug)]
pub(crate) struct Writer {
    destination: Destination,
    /// The header of the present part.
    header: Header,
    encoder: Encoder,
    path: PathBuf,
    file: File,
    /// How many bytes the present part has.
    written: u64,
    /// How many of them are the picture.
    picture: u64,
    /// How many bytes all parts have had.
    total: u64,
    events: u64,
    digest: u64,
}

impl Writer {
    /// Creates the first part.
    pub(crate) fn create(destination: Destination, header: Header) -> Result<Self, RecordError> {
        let path = destination.path.clone();
        let file = File::create(&path).map_err(|error| io_error(&path, error))?;
        let mut writer = Writer {
            destination,
            header,
            encoder: Encoder::default(),
            path,
            file,
            written: 0,
            picture: 0,
            total: 0,
            events: 0,
            digest: crate::EffectDigest::default().value(),
        };
        writer.begin()?;
        Ok(writer)
    }

    /// The first file.
    pub(crate) fn path(&self) -> &Path {
        &self.destination.path
    }

    /// How many events were written.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// How many bytes all parts have had, and the number of the present part.
    pub(crate) fn size(&self) -> (u64, u32) {
        (self.total, self.header.part)
    }

    /// Adds entries, and writes the frame if it is full.
    pub(crate) fn add(
        &mut self,
        entry: impl FnOnce(&mut Encoder) -> Result<Added, Unwritable>,
    ) -> Result<(), RecordError> {
        let added = entry(&mut self.encoder).map_err(|error| unwritable(&self.path, &error))?;
        self.events += u64::from(added.events);
        self.digest = added.digest.unwrap_or(self.digest);
        let part_size = self.destination.limits.part_size;
        if (self.encoder.len() as u64) < FRAME.min(part_size) {
            return Ok(());
        }
        self.flush()?;
        let most = part_size.max(self.picture.saturating_mul(PICTURES));
        if self.written < most { Ok(()) } else { self.next_part() }
    }

    /// Writes what is encoded up to now.
    pub(crate) fn flush(&mut self) -> Result<(), RecordError> {
        if self.encoder.is_empty() {
            return Ok(());
        }
        self.encoder.mark(&Form::Digest(self.digest));
        let data = self.encoder.take();
        self.write(&frame(&data))
    }

    /// Writes the rest and `last`.
    pub(crate) fn finish(&mut self, last: &Form) -> Result<(), RecordError> {
        self.encoder.mark(last);
        self.flush()?;
        self.file.sync_all().map_err(|error| io_error(&self.path, error))
    }

    fn begin(&mut self) -> Result<(), RecordError> {
        let header = serde_json::to_vec(&self.header).expect("a header has only texts as keys");
        self.write(&preamble())?;
        self.write(&frame(&header))
    }

    fn next_part(&mut self) -> Result<(), RecordError> {
        self.encoder.mark(&Form::Continues);
        self.flush()?;
        let encoder = std::mem::take(&mut self.encoder);
        self.encoder = encoder.next_part().map_err(|error| unwritable(&self.path, &error))?;
        self.header.part += 1;
        self.header.digest = format!("{:016x}", self.digest);
        self.header.events_before = self.events;
        self.path = part_path(&self.destination.path, self.header.part);
        self.file = File::create(&self.path).map_err(|error| io_error(&self.path, error))?;
        self.written = 0;
        self.begin()?;
        self.flush()?;
        self.picture = self.written;
        let kept = self.destination.limits.parts.max(1);
        match self.header.part.checked_sub(kept) {
            None | Some(0) => Ok(()),
            Some(old) => remove(&part_path(&self.destination.path, old)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        self.file.write_all(bytes).map_err(|error| io_error(&self.path, error))?;
        self.written += bytes.len() as u64;
        self.total += bytes.len() as u64;
        Ok(())
    }
}

/// What an entry adds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Added {
    /// How many events.
    pub(crate) events: u32,
    /// The digest after it, if it has effects.
    pub(crate) digest: Option<u64>,
}

/// Deletes a file that need not exist any more.
fn remove(path: &Path) -> Result<(), RecordError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path, error)),
        _ => Ok(()),
    }
}

fn io_error(path: &Path, error: io::Error) -> RecordError {
    RecordError::Io { path: path.to_owned(), error }
}

fn unwritable(path: &Path, error: &Unwritable) -> RecordError {
    RecordError::Unwritable {
        path: path.to_owned(),
        kind: error.kind.as_str(),
        key: error.key.to_string(),
    }
}
