//! Parses a list while its body arrives: only one item is held, never the whole list.

use std::collections::VecDeque;

use bytes::Bytes;
use serde::Deserialize;

use super::frames::{BEGINNING, OBJECT_LIMIT, Text};

/// The maximum size of a list without its items.
const ENVELOPE_LIMIT: usize = 1 << 20;

/// A list that could not be parsed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListParseError {
    #[error("the list is larger than {ENVELOPE_LIMIT} bytes without its items")]
    TooLarge,
    #[error("the items of the list are not objects")]
    NoObject,
    #[error("the list is not JSON")]
    NotJson,
    #[error("the list broke off")]
    Incomplete,
    #[error("this is not a list: {0}")]
    NotList(serde_json::Error),
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ListMeta {
    metadata: Option<ListMetadata>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl ListMeta {
    /// The version from which to watch.
    pub(super) fn resource_version(&self) -> Option<&str> {
        let version = self.metadata.as_ref()?.resource_version.as_deref();
        version.filter(|version| !version.is_empty())
    }

    /// The token of the next page, if there is one.
    pub(super) fn next(&self) -> Option<&str> {
        let next = self.metadata.as_ref()?.next.as_deref();
        next.filter(|next| !next.is_empty())
    }
}

/// Extracts the items from the text of a list.
#[derive(Debug)]
pub(super) struct ListParser {
    position: Position,
    /// The nesting depth of objects and lists.
    depth: usize,
    in_string: bool,
    /// The last byte was a backslash.
    is_escaped: bool,
    /// The list without its items.
    envelope: Vec<u8>,
    item: Vec<u8>,
    is_too_large: bool,
    ready: VecDeque<Text>,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Outside the items.
    Envelope,
    /// Between two items.
    Between,
    /// Inside an item.
    Item,
}

impl ListParser {
    pub(super) fn new() -> Self {
        ListParser::with_limit(OBJECT_LIMIT)
    }

    fn with_limit(limit: usize) -> Self {
        ListParser {
            position: Position::Envelope,
            depth: 0,
            in_string: false,
            is_escaped: false,
            envelope: Vec::new(),
            item: Vec::new(),
            is_too_large: false,
            ready: VecDeque::new(),
            limit,
        }
    }

    /// Returns the next complete item.
    pub(super) fn take(&mut self) -> Option<Text> {
        self.ready.pop_front()
    }

    /// Parses the next part of the text.
    pub(super) fn push(&mut self, mut text: &[u8]) -> Result<(), ListParseError> {
        while !text.is_empty() {
            let used = match self.position {
                Position::Between => self.between(text)?,
                Position::Envelope | Position::Item => self.value(text)?,
            };
            text = &text[used..];
        }
        Ok(())
    }

    /// Returns the metadata of the list, at its end.
    pub(super) fn finish(self) -> Result<ListMeta, ListParseError> {
        if self.position != Position::Envelope || self.depth != 0 {
            return Err(ListParseError::Incomplete);
        }
        serde_json::from_slice(&self.envelope).map_err(ListParseError::NotList)
    }

    fn between(&mut self, text: &[u8]) -> Result<usize, ListParseError> {
        match text[0] {
            b' ' | b'\t' | b'\r' | b'\n' | b',' => (),
            b']' => {
                self.position = Position::Envelope;
                self.depth -= 1;
                self.keep(b"]")?;
            }
            b'{' => {
                self.position = Position::Item;
                // The brace is also the first byte of the item.
                return Ok(0);
            }
            _ => return Err(ListParseError::NoObject),
        }
        Ok(1)
    }

    /// Parses a value up to and including the next significant byte. Returns the number of bytes used.
    fn value(&mut self, text: &[u8]) -> Result<usize, ListParseError> {
        let at = if self.is_escaped {
            self.is_escaped = false;
            return self.keep(&text[..1]).map(|()| 1);
        } else if self.in_string {
            memchr::memchr2(b'"', b'\\', text)
        } else {
            text.iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))
        };
        let Some(at) = at else {
            return self.keep(text).map(|()| text.len());
        };
        let begins_items =
            text[at] == b'[' && self.keep(&text[..at]).map(|()| self.is_at_items())?;
        if text[at] == b'[' {
            self.keep(b"[")?;
        } else {
            self.keep(&text[..=at])?;
        }
        match text[at] {
            b'"' => self.in_string = !self.in_string,
            b'\\' => self.is_escaped = true,
            b'{' | b'[' => self.depth += 1,
            _ => self.depth = self.depth.checked_sub(1).ok_or(ListParseError::NotJson)?,
        }
        if begins_items {
            self.position = Position::Between;
        } else if self.position == Position::Item && self.depth == ITEMS_DEPTH && !self.in_string {
            self.end_item();
        }
        Ok(at + 1)
    }

    /// Whether the JSON list that begins here is that of the items.
    fn is_at_items(&self) -> bool {
        let before = self.envelope.trim_ascii_end().strip_suffix(b":").unwrap_or_default();
        self.position == Position::Envelope
            && self.depth == ITEMS_DEPTH - 1
            && before.trim_ascii_end().ends_with(b"\"items\"")
    }

    fn keep(&mut self, text: &[u8]) -> Result<(), ListParseError> {
        if self.position != Position::Item {
            if ENVELOPE_LIMIT < self.envelope.len() + text.len() {
                return Err(ListParseError::TooLarge);
            }
            self.envelope.extend_from_slice(text);
        } else if !self.is_too_large {
            self.item.extend_from_slice(text);
            if self.limit < self.item.len() {
                self.is_too_large = true;
                self.item.truncate(BEGINNING);
            }
        }
        Ok(())
    }

    fn end_item(&mut self) {
        self.position = Position::Between;
        let item = Bytes::from(std::mem::take(&mut self.item));
        let is_too_large = std::mem::take(&mut self.is_too_large);
        self.ready.push_back(if is_too_large { Text::Beginning(item) } else { Text::Whole(item) });
    }
}

/// The nesting depth of the items: in a list in an object.
const ITEMS_DEPTH: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// The items and the metadata of a list that arrives in pieces of `size` bytes.
    fn read(text: &str, size: usize, limit: usize) -> String {
        let mut parser = ListParser::with_limit(limit);
        let mut all = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            if let Err(error) = parser.push(piece) {
                return error.to_string();
            }
            while let Some(item) = parser.take() {
                all.push(match item {
                    Text::Whole(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    Text::Beginning(_) => "…".to_owned(),
                });
            }
        }
        match parser.finish() {
            Ok(meta) => {
                format!("{} @{:?} {:?}", all.join(" "), meta.resource_version(), meta.next())
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn items_are_extracted_however_the_list_is_split() {
        for (text, expected) in [
            (
                r#"{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"c"},"items":[{"a":[1,{}]}, {"b":"]}\"{"}]}"#,
                r#"{"a":[1,{}]} {"b":"]}\"{"} @Some("7") Some("c")"#,
            ),
            (
                r#"{"items" : [ {"items":[{}]} ] , "metadata":{"resourceVersion":"7","items":[1]}}"#,
                r#"{"items":[{}]} @Some("7") None"#,
            ),
            (r#"{"items":[],"metadata":{"continue":""}}"#, " @None None"),
            (r#"{"items":null,"metadata":{"resourceVersion":"0"}}"#, r#" @Some("0") None"#),
            (r#"{"kind":"\"items\":","x":["items"],"metadata":null}"#, " @None None"),
            (r#"{"items":[1]}"#, "the items of the list are not objects"),
            (r#"{"items":[{"a":1}"#, "the list broke off"),
            (r#"{"items":[{"a":1}]"#, "the list broke off"),
            ("}", "the list is not JSON"),
            ("", "this is not a list: EOF while parsing a value at line 1 column 0"),
        ] {
            for size in [1, 2, 3, 5, 1000] {
                assert_eq!(read(text, size, 1000), expected, "{text} in pieces of {size}");
            }
        }
    }

    #[test]
    fn the_item_after_one_that_is_too_large_is_read() {
        let text = r#"{"items":[{"a":"0123456789"},{"b":1}]}"#;
        for size in [1, 4, 1000] {
            assert_eq!(read(text, size, 12), r#"… {"b":1} @None None"#, "in pieces of {size}");
        }
    }
}
