//! The frames of a watch: one JSON object per line, however the body is split into pieces.

use bytes::{Bytes, BytesMut};
use kube::client::Body;

use crate::request::{GetError, piece};

/// The maximum size of an object. The API server accepts none over 3 MiB.
pub(super) const OBJECT_LIMIT: usize = 16 << 20;
/// How much of a larger object is kept: enough to read its name.
pub(super) const BEGINNING: usize = 64 << 10;

/// The text of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// All of it.
    Whole(Bytes),
    /// The beginning of one that is larger than the limit.
    Beginning(Bytes),
}

/// Splits a body into lines.
pub(super) struct Frames {
    body: Body,
    lines: LineSplitter,
}

impl Frames {
    pub(super) fn new(body: Body) -> Self {
        Frames { body, lines: LineSplitter::new(OBJECT_LIMIT) }
    }

    /// Returns the next complete line.
    pub(super) fn take(&mut self) -> Option<Text> {
        self.lines.take()
    }

    /// Waits for more data. `false` at the end of the body; an error if nothing arrives for `silence`.
    pub(super) async fn fill(&mut self, silence: std::time::Duration) -> Result<bool, GetError> {
        match piece(&mut self.body, silence).await? {
            Some(piece) => {
                self.lines.push(&piece);
                Ok(true)
            }
            // An incomplete line is dropped: the stream broke off, and the object will be sent again.
            None => Ok(false),
        }
    }
}

/// Splits bytes into lines.
#[derive(Debug)]
pub(super) struct LineSplitter {
    received: BytesMut,
    /// The length of its beginning that contains no line end.
    searched: usize,
    /// The beginning of a line that is too long. Its rest is not kept.
    beginning: Option<Bytes>,
    limit: usize,
}

impl LineSplitter {
    pub(super) fn new(limit: usize) -> Self {
        LineSplitter { received: BytesMut::new(), searched: 0, beginning: None, limit }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    pub(super) fn take(&mut self) -> Option<Text> {
        loop {
            let Some(length) = memchr::memchr(b'\n', &self.received[self.searched..]) else {
                self.drop_excess();
                return None;
            };
            let line = self.received.split_to(self.searched + length + 1).freeze();
            self.searched = 0;
            if let Some(beginning) = self.beginning.take() {
                return Some(Text::Beginning(beginning));
            }
            let line = line.slice(..line.len() - 1);
            if self.limit < line.len() {
                return Some(Text::Beginning(line.slice(..BEGINNING.min(line.len()))));
            }
            if !line.trim_ascii().is_empty() {
                return Some(Text::Whole(line));
            }
        }
    }

    /// Drops the rest of a line that is too long.
    fn drop_excess(&mut self) {
        if self.beginning.is_none() && self.limit < self.received.len() {
            let length = BEGINNING.min(self.received.len());
            self.beginning = Some(Bytes::copy_from_slice(&self.received[..length]));
        }
        if self.beginning.is_some() {
            self.received = BytesMut::new();
        }
        self.searched = self.received.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a text that arrives in pieces of `size` bytes.
    fn lines(text: &str, size: usize, limit: usize) -> Vec<String> {
        let mut lines = LineSplitter::new(limit);
        let mut all = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            lines.push(piece);
            while let Some(text) = lines.take() {
                all.push(match text {
                    Text::Whole(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    Text::Beginning(bytes) => format!("{}…", String::from_utf8_lossy(&bytes)),
                });
            }
        }
        all
    }

    #[test]
    fn lines_do_not_depend_on_how_they_arrive() {
        for size in [1, 2, 3, 7, 100] {
            let all = lines("one\n\ntwo \r\nthree\nrest", size, 1000);
            assert_eq!(all, ["one", "two \r", "three"], "in pieces of {size}");
        }
    }

    #[test]
    fn only_the_beginning_of_a_line_that_is_too_long_is_kept_and_the_next_line_is_read() {
        for size in [1, 10, 1000] {
            let all = lines("short\nmuch too long\nshort\n", size, 8);
            assert_eq!(all.len(), 3, "in pieces of {size}");
            assert!(all[1].starts_with("much too") && all[1].ends_with('…'), "{all:?}");
            assert_eq!((all[0].as_str(), all[2].as_str()), ("short", "short"));
        }
    }
}
