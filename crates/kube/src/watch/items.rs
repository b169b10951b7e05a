//! The items of a list, taken out of its body as it arrives: the list itself is never held.

use std::collections::VecDeque;

use bytes::Bytes;
use serde::Deserialize;

use super::frames::{BEGINNING, OBJECT_LIMIT, Text};

/// How large a list may be without its items.
const SHELL_LIMIT: usize = 1 << 20;

/// What a list says beside its items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ListMeta {
    metadata: Option<Metadata>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl ListMeta {
    /// The version from which on to watch.
    pub(super) fn resource_version(&self) -> Option<&str> {
        let version = self.metadata.as_ref()?.resource_version.as_deref();
        version.filter(|version| !version.is_empty())
    }

    /// By what to ask for the next page, if there is one.
    pub(super) fn next(&self) -> Option<&str> {
        let next = self.metadata.as_ref()?.next.as_deref();
        next.filter(|next| !next.is_empty())
    }
}

/// Takes the items out of the text of a list.
#[derive(Debug)]
pub(super) struct Items {
    place: Place,
    /// How deep in objects and lists.
    depth: usize,
    in_string: bool,
    /// After a backslash.
    is_escaped: bool,
    /// All but the items.
    shell: Vec<u8>,
    item: Vec<u8>,
    is_too_large: bool,
    ready: VecDeque<Text>,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Outside the items.
    Shell,
    /// Between two items.
    Between,
    /// In an item.
    Item,
}

impl Items {
    pub(super) fn new() -> Self {
        Items::with_limit(OBJECT_LIMIT)
    }

    fn with_limit(limit: usize) -> Self {
        Items {
            place: Place::Shell,
            depth: 0,
            in_string: false,
            is_escaped: false,
            shell: Vec::new(),
            item: Vec::new(),
            is_too_large: false,
            ready: VecDeque::new(),
            limit,
        }
    }

    /// The next item that has been received.
    pub(super) fn take(&mut self) -> Option<Text> {
        self.ready.pop_front()
    }

    /// Takes more of the text in. An error, in words, if it is no list.
    pub(super) fn push(&mut self, mut text: &[u8]) -> Result<(), String> {
        while !text.is_empty() {
            let used = match self.place {
                Place::Between => self.between(text)?,
                Place::Shell | Place::Item => self.value(text)?,
            };
            text = &text[used..];
        }
        Ok(())
    }

    /// What the list says beside its items, once it is whole.
    pub(super) fn finish(self) -> Result<ListMeta, String> {
        if self.place != Place::Shell || self.depth != 0 {
            return Err("the list broke off".to_owned());
        }
        serde_json::from_slice(&self.shell).map_err(|error| format!("this is no list: {error}"))
    }

    fn between(&mut self, text: &[u8]) -> Result<usize, String> {
        match text[0] {
            b' ' | b'\t' | b'\r' | b'\n' | b',' => (),
            b']' => {
                self.place = Place::Shell;
                self.depth -= 1;
                self.keep(b"]")?;
            }
            b'{' => {
                self.place = Place::Item;
                // The brace is looked at again, as the first byte of the item.
                return Ok(0);
            }
            _ => return Err("the items of the list are no objects".to_owned()),
        }
        Ok(1)
    }

    /// Reads on in a value, up to where something happens, and says how far.
    fn value(&mut self, text: &[u8]) -> Result<usize, String> {
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
            _ => self.depth = self.depth.checked_sub(1).ok_or("the list is no JSON")?,
        }
        if begins_items {
            self.place = Place::Between;
        } else if self.place == Place::Item && self.depth == ITEMS_DEPTH && !self.in_string {
            self.end_item();
        }
        Ok(at + 1)
    }

    /// Whether a list that begins now is that of the items.
    fn is_at_items(&self) -> bool {
        let before = self.shell.trim_ascii_end().strip_suffix(b":").unwrap_or_default();
        self.place == Place::Shell
            && self.depth == ITEMS_DEPTH - 1
            && before.trim_ascii_end().ends_with(b"\"items\"")
    }

    fn keep(&mut self, text: &[u8]) -> Result<(), String> {
        if self.place != Place::Item {
            if SHELL_LIMIT < self.shell.len() + text.len() {
                return Err(format!(
                    "the list is larger than {SHELL_LIMIT} bytes without its items"
                ));
            }
            self.shell.extend_from_slice(text);
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
        self.place = Place::Between;
        let item = Bytes::from(std::mem::take(&mut self.item));
        let is_too_large = std::mem::take(&mut self.is_too_large);
        self.ready.push_back(if is_too_large { Text::Beginning(item) } else { Text::Whole(item) });
    }
}

/// How deep the items are: in a list in an object.
const ITEMS_DEPTH: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// The items of a list that arrives in pieces of `size` bytes, and what it says beside them.
    fn read(text: &str, size: usize, limit: usize) -> String {
        let mut items = Items::with_limit(limit);
        let mut all = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            if let Err(error) = items.push(piece) {
                return error;
            }
            while let Some(item) = items.take() {
                all.push(match item {
                    Text::Whole(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    Text::Beginning(_) => "…".to_owned(),
                });
            }
        }
        match items.finish() {
            Ok(meta) => {
                format!("{} @{:?} {:?}", all.join(" "), meta.resource_version(), meta.next())
            }
            Err(error) => error,
        }
    }

    #[test]
    fn items_are_taken_out_however_they_arrive() {
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
            (r#"{"items":[1]}"#, "the items of the list are no objects"),
            (r#"{"items":[{"a":1}"#, "the list broke off"),
            (r#"{"items":[{"a":1}]"#, "the list broke off"),
            ("}", "the list is no JSON"),
            ("", "this is no list: EOF while parsing a value at line 1 column 0"),
        ] {
            for size in [1, 2, 3, 5, 1000] {
                assert_eq!(read(text, size, 1000), expected, "{text} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_item_that_is_too_large_does_not_hide_the_next() {
        let text = r#"{"items":[{"a":"0123456789"},{"b":1}]}"#;
        for size in [1, 4, 1000] {
            assert_eq!(read(text, size, 12), r#"… {"b":1} @None None"#, "in pieces of {size}");
        }
    }
}
