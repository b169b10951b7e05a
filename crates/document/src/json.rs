//! JSON documents. They are parsed as fast as serde_json does, and lines are only computed on request.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::path::{FieldPath, Segment};

/// Why a text is not a sequence of JSON values.
pub(crate) enum JsonError {
    /// The text is not JSON; it may be YAML in flow notation. The JSON error, if it looks like JSON.
    NotJson(Option<Broken>),
    /// The text is JSON but broken.
    Broken(Broken),
}

/// An error in JSON.
pub(crate) struct Broken {
    /// The line, counted from 1.
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// All values of a text that holds one JSON value after another, with the offset of each.
pub(crate) fn parse(text: &str) -> Result<Vec<(Value, usize)>, JsonError> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<UniqueKeys>();
    let mut values = Vec::new();
    loop {
        let offset = stream.byte_offset();
        match stream.next() {
            None => return Ok(values),
            Some(Ok(UniqueKeys(Value::Null))) => {}
            Some(Ok(UniqueKeys(value))) => values.push((value, offset)),
            Some(Err(error)) => return Err(explain(&error, &text[offset..])),
        }
    }
}

/// The line of the field at `path`, or of the nearest enclosing value that exists, in the JSON value
/// that starts at byte `offset` of `text`. Counted from 1.
pub(crate) fn line_of(text: &str, offset: usize, path: &FieldPath) -> usize {
    let mut cursor = Cursor { bytes: text.as_bytes(), at: offset };
    cursor.skip_space();
    let mut found = cursor.at;
    for segment in path.segments() {
        let part = match segment {
            Segment::Key(name) => cursor.enter_field(name),
            Segment::Index(index) => cursor.enter_item(*index),
        };
        match part {
            Some(at) => found = at,
            None => break,
        }
    }
    1 + text[..found].matches('\n').count()
}

/// The meaning of `error` for the value at the start of `text`.
fn explain(error: &serde_json::Error, text: &str) -> JsonError {
    let whole = error.to_string();
    let message = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(head, _)| head);
    // An unexpected line feed counts as the start of the next line.
    let is_line_feed = error.column() == 0 && !error.is_eof();
    let line = error.line() - usize::from(is_line_feed);
    let broken = Broken { line, message: format!("is not valid JSON: {message}") };
    match error.classify() {
        Category::Syntax | Category::Io => {
            JsonError::NotJson(looks_like_json(text).then_some(broken))
        }
        Category::Data | Category::Eof => JsonError::Broken(broken),
    }
}

/// Whether the text is meant to be JSON: YAML in flow notation rarely has quotes around keys.
fn looks_like_json(text: &str) -> bool {
    let mut significant = text.chars().filter(|c| !c.is_whitespace());
    matches!(significant.next(), Some('{' | '['))
        && matches!(significant.next(), Some('"' | '{' | '['))
}

/// A JSON value without duplicate keys.
struct UniqueKeys(Value);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeysVisitor).map(Self)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueKeys(value)) = access.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            match fields.entry(name) {
                Entry::Vacant(entry) => {
                    let UniqueKeys(value) = access.next_value()?;
                    entry.insert(value);
                }
                Entry::Occupied(entry) => {
                    return Err(A::Error::custom(format!("duplicate key `{}`", entry.key())));
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

/// Walks over valid JSON without decoding the skipped parts.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// Moves to the value of field `name` of the current object, and returns where its key starts.
    fn enter_field(&mut self, name: &str) -> Option<usize> {
        self.enter(b'{')?;
        while self.peek()? == b'"' {
            let key = self.at;
            self.skip_value();
            let is_it = serde_json::from_slice::<String>(&self.bytes[key..self.at])
                .is_ok_and(|found| found == name);
            self.skip_separator();
            if is_it {
                return Some(key);
            }
            self.skip_value();
            self.skip_separator();
        }
        None
    }

    /// Moves to element `index` of the current list, and returns where it starts.
    fn enter_item(&mut self, index: usize) -> Option<usize> {
        self.enter(b'[')?;
        for _ in 0..index {
            if self.peek()? == b']' {
                return None;
            }
            self.skip_value();
            self.skip_separator();
        }
        (self.peek()? != b']').then_some(self.at)
    }

    fn enter(&mut self, bracket: u8) -> Option<()> {
        if self.peek()? != bracket {
            return None;
        }
        self.at += 1;
        self.skip_space();
        Some(())
    }

    /// Skips a `,` or `:` and the space around it.
    fn skip_separator(&mut self) {
        self.skip_space();
        if matches!(self.peek(), Some(b',' | b':')) {
            self.at += 1;
            self.skip_space();
        }
    }

    fn skip_value(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.skip_string(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth == 0 => return,
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return,
                _ => {
                    self.at += 1;
                    // A bare word or number continues until a delimiter.
                    continue;
                }
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                return;
            }
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}
