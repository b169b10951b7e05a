//! For fuzz targets: reads watches and lists as reflectors read them.

use plimsoll_api::wire::Reader;

use super::decode::{Bookmark, PartialObjectMeta, split, split_beginning};
use super::frames::{LineSplitter, Text};
use super::list_parser::{ListParseError, ListParser};
use crate::request::StatusError;

/// Small, so that inputs exceed it.
const LIMIT: usize = 512;
/// The sizes of the pieces in which the bytes arrive.
const PIECES: [usize; 3] = [1, 7, usize::MAX];

/// Reads the body of a watch on pods. Its frames must not depend on how the bytes arrive.
pub fn watch(input: &[u8]) {
    let [first, others @ ..] = PIECES.map(|size| {
        let mut lines = LineSplitter::new(LIMIT);
        let mut frames = Vec::new();
        for piece in input.chunks(size) {
            lines.push(piece);
            frames.extend(std::iter::from_fn(|| lines.take()));
        }
        frames.iter().map(shown).collect::<Vec<_>>()
    });
    for other in others {
        assert_eq!(first, other, "the frames depend on how the bytes arrive");
    }
    first.iter().flatten().for_each(|frame| read_frame(frame));
    if let Ok(text) = std::str::from_utf8(input)
        && let Some((_, object)) = split_beginning(text)
    {
        drop(PartialObjectMeta::read(object));
    }
}

fn read_frame(frame: &str) {
    let Ok((_, object)) = split(frame) else { return };
    drop(PartialObjectMeta::read(object));
    drop(Bookmark::read(object));
    drop(StatusError::read(500, object.as_bytes()));
    read_pod(object);
}

/// Reads the body of a list of pods. Its items must not depend on how the bytes arrive.
pub fn list(input: &[u8]) {
    let [first, others @ ..] = PIECES.map(|size| {
        let mut parser = ListParser::new();
        let mut all = Vec::new();
        for piece in input.chunks(size) {
            parser.push(piece)?;
            all.extend(std::iter::from_fn(|| parser.take()));
        }
        let meta = parser.finish()?;
        Ok::<_, ListParseError>((all.iter().map(shown).collect::<Vec<_>>(), meta))
    });
    for other in others {
        assert_eq!(first.as_ref().ok(), other.as_ref().ok(), "the list depends on how it arrives");
    }
    let Ok((items, meta)) = first else { return };
    meta.resource_version();
    meta.next();
    for item in items.iter().flatten() {
        drop(PartialObjectMeta::read(item));
        read_pod(item);
    }
}

/// The text of a complete object.
fn shown(text: &Text) -> Option<String> {
    match text {
        Text::Whole(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Text::Beginning(_) => None,
    }
}

fn read_pod(json: &str) {
    let reader = Reader::of("v1", "Pod").expect("pods can be read");
    drop(reader.read(json));
}
