//! For fuzz targets: bytes of watches and lists, read as informers read them.

use plimsoll_api::wire::Reader;

use super::frames::{Lines, Text};
use super::head::{Bookmark, Head, split, split_beginning};
use super::items::Items;
use crate::request::Refusal;

/// So small that inputs go beyond it.
const LIMIT: usize = 512;
/// The bytes come in pieces of so many, in turn.
const PIECES: [usize; 3] = [1, 7, usize::MAX];

/// The body of a watch on pods. Its frames are the same however the bytes arrive.
pub fn watch(input: &[u8]) {
    let [first, others @ ..] = PIECES.map(|size| {
        let mut lines = Lines::new(LIMIT);
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
        drop(Head::read(object));
    }
}

fn read_frame(frame: &str) {
    let Ok((_, object)) = split(frame) else { return };
    drop(Head::read(object));
    drop(Bookmark::read(object));
    drop(Refusal::read(500, object.as_bytes()));
    read_pod(object);
}

/// The body of a list of pods. Its items are the same however the bytes arrive.
pub fn list(input: &[u8]) {
    let [first, others @ ..] = PIECES.map(|size| {
        let mut items = Items::new();
        let mut all = Vec::new();
        for piece in input.chunks(size) {
            items.push(piece)?;
            all.extend(std::iter::from_fn(|| items.take()));
        }
        let meta = items.finish()?;
        Ok::<_, String>((all.iter().map(shown).collect::<Vec<_>>(), meta))
    });
    for other in others {
        assert_eq!(first.as_ref().ok(), other.as_ref().ok(), "the list depends on how it arrives");
    }
    let Ok((items, meta)) = first else { return };
    meta.resource_version();
    meta.next();
    for item in items.iter().flatten() {
        drop(Head::read(item));
        read_pod(item);
    }
}

/// The text of what is whole.
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
