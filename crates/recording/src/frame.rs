//! Frames: a part is a preamble and then frames, each compressed by itself and with a checksum, so that whatever was
//! written before a crash can be read.

use std::hash::Hasher;
use std::io::{self, Read};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use twox_hash::XxHash64;

use crate::form::FORMAT;

/// The first bytes of every part.
const MAGIC: [u8; 8] = *b"plimrec\n";

/// Magic, version of the format, and two bytes that are 0.
pub(crate) const PREAMBLE: usize = 12;

/// The length of the compressed data, the length of the data, and the checksum.
pub(crate) const HEAD: usize = 16;

/// The largest frame that is read: more than any that is written, which is the picture of a large cluster's object.
const LARGEST: u32 = 1 << 30;

/// The preamble of a part.
pub(crate) fn preamble() -> [u8; PREAMBLE] {
    let mut bytes = [0; PREAMBLE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
    bytes
}

/// What a preamble says.
pub(crate) enum Preamble {
    /// It is of this version.
    Version(u16),
    /// It is not one.
    Other,
}

/// Reads a preamble.
pub(crate) fn read_preamble(bytes: &[u8; PREAMBLE]) -> Preamble {
    match bytes {
        [magic @ .., low, high, 0, 0] if *magic == MAGIC => {
            Preamble::Version(u16::from_le_bytes([*low, *high]))
        }
        _ => Preamble::Other,
    }
}

/// A frame with this data.
pub(crate) fn frame(data: &[u8]) -> Vec<u8> {
    let compressed = compress_to_vec(data, CompressionLevel::Fastest);
    let stored = u32::try_from(compressed.len()).expect("frames are small");
    let plain = u32::try_from(data.len()).expect("frames are small");
    let mut frame = Vec::with_capacity(HEAD + compressed.len());
    frame.extend(stored.to_le_bytes());
    frame.extend(plain.to_le_bytes());
    frame.extend(checksum(stored, plain, &compressed).to_le_bytes());
    frame.extend(compressed);
    frame
}

fn checksum(stored: u32, plain: u32, compressed: &[u8]) -> u64 {
    let mut hash = XxHash64::default();
    hash.write(&stored.to_le_bytes());
    hash.write(&plain.to_le_bytes());
    hash.write(compressed);
    hash.finish()
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// The length of the compressed data.
    pub(crate) stored: u32,
    plain: u32,
    checksum: u64,
}

impl Head {
    /// Reads a head. `None` if no frame can have it.
    pub(crate) fn read(bytes: [u8; HEAD]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let head = Head {
            stored: word(0),
            plain: word(4),
            checksum: u64::from_le_bytes(std::array::from_fn(|i| bytes[8 + i])),
        };
        (head.stored <= LARGEST && head.plain <= LARGEST).then_some(head)
    }

    /// The data of the frame; `None` if `compressed` is not what was written.
    pub(crate) fn data(self, compressed: &[u8]) -> Option<Vec<u8>> {
        if checksum(self.stored, self.plain, compressed) != self.checksum {
            return None;
        }
        decompress(compressed, self.plain).ok()
    }
}

fn decompress(compressed: &[u8], plain: u32) -> io::Result<Vec<u8>> {
    let decoder = StreamingDecoder::new(compressed).map_err(io::Error::other)?;
    let mut data = Vec::new();
    decoder.take(u64::from(plain)).read_to_end(&mut data)?;
    match data.len() == plain as usize {
        true => Ok(data),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
