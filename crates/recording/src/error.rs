//! What can go wrong with recordings.

use std::io;
use std::path::PathBuf;

use plimsoll_engine::ProfileError;

/// Why a recording cannot be read or replayed. Each message names the file, the byte, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("{}: cannot be read: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file does not begin as a recording does.
    #[error(
        "{}: byte 0: is not a recording: give a file that `--record` of run or simulate wrote",
        path.display()
    )]
    NotARecording {
        /// The file.
        path: PathBuf,
    },
    /// The file has a version of the format that this program does not read.
    #[error(
        "{}: byte 8: has version {found} of the format, and this program reads version {read}: replay it with the \
         program that wrote it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u16,
        /// The version that is read.
        read: u16,
    },
    /// The file ends before the first frame, which says how it was recorded.
    #[error(
        "{}: byte {offset}: ends before its header is complete: nothing can be replayed",
        path.display()
    )]
    NoHeader {
        /// The file.
        path: PathBuf,
        /// Where it ends.
        offset: u64,
    },
    /// A frame is not as it was written.
    #[error(
        "{}: byte {offset}: {what}: the file is damaged; copy it again, or replay only what is before this byte \
         with --until",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the frame begins.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// An object has a kind that no plugin of this program reads.
    #[error(
        "{}: byte {offset}: has objects of kind {version} {kind}, which no plugin of this program reads: replay it \
         with the program that has the plugin (App::with_plugin)",
        path.display()
    )]
    UnknownKind {
        /// The file.
        path: PathBuf,
        /// Where the frame begins.
        offset: u64,
        /// The API version.
        version: String,
        /// The kind.
        kind: String,
    },
    /// The profiles of the recording cannot be made.
    #[error(
        "{}: {error}: replay it with the program that recorded it, with the same plugins (App::with_plugin)",
        path.display()
    )]
    Profile {
        /// The file.
        path: PathBuf,
        /// Why.
        error: ProfileError,
    },
    /// The file is not the first part of its recording, and the part before it was not replayed.
    #[error(
        "{}: is part {part} of a recording: {remedy}",
        path.display()
    )]
    Part {
        /// The file.
        path: PathBuf,
        /// Its number.
        part: u32,
        /// What to do.
        remedy: String,
    },
}

/// Why a recording ended early.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file cannot be written.
    #[error("{}: cannot be written: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The scheduler was faster than the disk for so long that the queue of the recording is full.
    #[error(
        "{}: the disk is too slow: {waiting} events waited to be written; the recording ends before event {event}",
        path.display()
    )]
    TooSlow {
        /// The file.
        path: PathBuf,
        /// How many inputs waited.
        waiting: usize,
        /// The number of the first event that is not recorded, starting with 0.
        event: u64,
    },
    /// An object was made by a program and not read from a manifest, so that its form is unknown.
    #[error("{}: {kind} {key} was not read from a manifest: it cannot be recorded", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The kind of the object.
        kind: &'static str,
        /// Its namespace and name.
        key: String,
    },
}
