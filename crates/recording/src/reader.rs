//! Reads one part of a recording.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use plimsoll_api::Kinds;

use crate::decode::{Decoder, Entry, Malformed};
use crate::error::ReadError;
use crate::form::FORMAT;
use crate::frame::{HEAD, Head, PREAMBLE, Preamble, read_preamble};
use crate::header::Header;

/// How a part ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The scheduler was stopped in order.
    End,
    /// It goes on in the next part.
    Continues,
    /// The recording could not keep up.
    Dropped,
    /// There is no mark: the scheduler was killed, or is still running. The byte after the last whole frame.
    Cut(u64),
}

/// Reads the entries of one part, in order.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    header: Header,
    decoder: Decoder,
    /// The data of the present frame.
    data: Vec<u8>,
    /// How much of it was decoded.
    decoded: usize,
    /// Where the present frame begins, and where it ends.
    frame: u64,
    offset: u64,
    ending: Option<Ending>,
}

/// What was read of something that may end in the middle.
enum Part<const N: usize> {
    Whole([u8; N]),
    /// So many bytes are there.
    Cut(u64),
}

impl Reader {
    /// Opens a part whose objects are of `kinds`.
    ///
    /// It is an error if it is not a recording, or of another version, or damaged.
    pub fn open(path: &Path, kinds: Kinds) -> Result<Self, ReadError> {
        let of = |error| ReadError::Io { path: path.to_owned(), error };
        let mut file = BufReader::new(File::open(path).map_err(of)?);
        let offset = match read(&mut file).map_err(of)? {
            Part::Whole(bytes) => match read_preamble(&bytes) {
                Preamble::Version(FORMAT) => PREAMBLE as u64,
                Preamble::Version(found) => {
                    return Err(ReadError::Version { path: path.to_owned(), found, read: FORMAT });
                }
                Preamble::Other => {
                    return Err(ReadError::NotARecording { path: path.to_owned() });
                }
            },
            Part::<PREAMBLE>::Cut(0) => {
                return Err(ReadError::NoHeader { path: path.to_owned(), offset: 0 });
            }
            Part::Cut(_) => return Err(ReadError::NotARecording { path: path.to_owned() }),
        };
        let mut reader = Reader {
            path: path.to_owned(),
            file,
            header: Header::empty(),
            decoder: Decoder::new(kinds),
            data: Vec::new(),
            decoded: 0,
            frame: offset,
            offset,
            ending: None,
        };
        if !reader.read_frame()? {
            let offset = reader.offset;
            return Err(ReadError::NoHeader { path: path.to_owned(), offset });
        }
        let header = serde_json::from_slice(&reader.data);
        reader.header = header
            .map_err(|error| reader.damaged(format!("the header cannot be decoded ({error})")))?;
        reader.decoded = reader.data.len();
        Ok(reader)
    }

    /// How it was recorded.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes were read up to now, in whole frames.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How the part ends, once [`next`](Reader::next) has returned `None`.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The next entry; `None` at the end.
    ///
    /// It is an error if the frame is damaged, or has objects of a kind that is not read.
    #[expect(clippy::should_implement_trait, reason = "a reader that has failed cannot go on")]
    pub fn next(&mut self) -> Result<Option<Entry>, ReadError> {
        loop {
            let mut rest = &self.data[self.decoded..];
            let entry = self.decoder.next(&mut rest);
            self.decoded = self.data.len() - rest.len();
            match entry {
                Ok(Some(entry)) => {
                    self.ending = match entry {
                        Entry::End => Some(Ending::End),
                        Entry::Continues => Some(Ending::Continues),
                        Entry::Dropped => Some(Ending::Dropped),
                        _ => self.ending,
                    };
                    return Ok(Some(entry));
                }
                Ok(None) => {}
                Err(Malformed::Entry(what)) => return Err(self.damaged(what)),
                Err(Malformed::Kind { version, kind }) => {
                    let (path, offset) = (self.path.clone(), self.frame);
                    return Err(ReadError::UnknownKind { path, offset, version, kind });
                }
            }
            if !self.read_frame()? {
                self.ending.get_or_insert(Ending::Cut(self.offset));
                return Ok(None);
            }
        }
    }

    /// Reads the next frame. Returns `false` if the file ends before it is whole.
    fn read_frame(&mut self) -> Result<bool, ReadError> {
        let path = self.path.clone();
        let of = |error| ReadError::Io { path, error };
        self.frame = self.offset;
        let Part::Whole(head) = read::<HEAD>(&mut self.file).map_err(of.clone())? else {
            return Ok(false);
        };
        let Some(head) = Head::read(head) else {
            return Err(self.damaged("the head of a frame is not valid"));
        };
        let mut stored = Vec::new();
        let n_read = (&mut self.file).take(u64::from(head.stored)).read_to_end(&mut stored);
        if n_read.map_err(of)? < head.stored as usize {
            return Ok(false);
        }
        let Some(data) = head.data(&stored) else {
            return Err(self.damaged("the checksum of a frame differs"));
        };
        (self.data, self.decoded) = (data, 0);
        self.offset += HEAD as u64 + u64::from(head.stored);
        Ok(true)
    }

    fn damaged(&self, what: impl Into<String>) -> ReadError {
        ReadError::Damaged { path: self.path.clone(), offset: self.frame, what: what.into() }
    }
}

/// Reads `N` bytes, if there are so many.
fn read<const N: usize>(file: &mut impl Read) -> io::Result<Part<N>> {
    let mut bytes = Vec::with_capacity(N);
    file.take(N as u64).read_to_end(&mut bytes)?;
    Ok(match <[u8; N]>::try_from(bytes) {
        Ok(bytes) => Part::Whole(bytes),
        Err(bytes) => Part::Cut(bytes.len() as u64),
    })
}
