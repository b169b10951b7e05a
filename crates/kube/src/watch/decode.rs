//! Decodes the events of a watch, and the metadata that identifies an object and its version. The rest of
//! an object is decoded only if its version is new.

use std::borrow::Cow;
use std::fmt;

use plimsoll_api::Str;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::frames::OBJECT_LIMIT;

/// The annotation of the bookmark that ends a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Text that could not be decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error(transparent)]
    NotUtf8(#[from] std::str::Utf8Error),
    #[error(transparent)]
    NotJson(#[from] serde_json::Error),
    #[error("metadata.name: Required value")]
    NoName,
    #[error("an event is larger than {OBJECT_LIMIT} bytes")]
    TooLarge,
}

/// The metadata that identifies an object and its version.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PartialObjectMeta<'a> {
    pub(super) namespace: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) uid: Cow<'a, str>,
    /// The `resourceVersion`.
    pub(super) version: Cow<'a, str>,
}

impl<'a> PartialObjectMeta<'a> {
    /// Reads the metadata of an object and stops there, so the rest of the text may be missing. An object
    /// without a name is an error.
    pub(super) fn read(json: &'a str) -> Result<Self, DecodeError> {
        let mut reading = MetaReading::default();
        let mut reader = serde_json::Deserializer::from_str(json);
        let result = reader.deserialize_map(ObjectVisitor(&mut reading));
        match result {
            Err(error) if !reading.is_done => Err(error.into()),
            _ if reading.meta.name.is_empty() => Err(DecodeError::NoName),
            _ => Ok(reading.meta),
        }
    }

    fn is_complete(&self) -> bool {
        // The API server writes the namespace, if there is one, before these.
        !(self.name.is_empty() || self.uid.is_empty() || self.version.is_empty())
    }
}

/// Metadata that are being read.
#[derive(Default)]
struct MetaReading<'a> {
    meta: PartialObjectMeta<'a>,
    /// The rest of the text is not needed.
    is_done: bool,
}

// Both borrow the text unless it contains escapes.

#[derive(Deserialize)]
struct KeyText<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct OptionalText<'a>(#[serde(borrow)] Option<Cow<'a, str>>);

const ENOUGH: &str = "the rest is not needed";

struct ObjectVisitor<'h, 'a>(&'h mut MetaReading<'a>);

impl<'a> Visitor<'a> for ObjectVisitor<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with metadata")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(KeyText(key)) = map.next_key()? {
            if key == "metadata" {
                map.next_value_seed(MetadataVisitor(self.0))?;
                self.0.is_done = true;
                return Err(A::Error::custom(ENOUGH));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

struct MetadataVisitor<'h, 'a>(&'h mut MetaReading<'a>);

impl<'a> DeserializeSeed<'a> for MetadataVisitor<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for MetadataVisitor<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a name")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let MetaReading { meta, is_done } = self.0;
        while let Some(KeyText(key)) = map.next_key()? {
            let field = match &*key {
                "name" => &mut meta.name,
                "namespace" => &mut meta.namespace,
                "uid" => &mut meta.uid,
                "resourceVersion" => &mut meta.version,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = map.next_value::<OptionalText<'a>>()?.0.unwrap_or_default();
            if meta.is_complete() {
                *is_done = true;
                return Err(A::Error::custom(ENOUGH));
            }
        }
        Ok(())
    }
}

/// The type of an event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventType {
    /// `ADDED` or `MODIFIED`.
    Applied,
    /// `DELETED`.
    Deleted,
    /// `BOOKMARK`: all changes up to this version have been sent.
    Bookmark,
    /// `ERROR`: the watch ends.
    Error,
    /// A type that this client does not know.
    Unknown,
}

#[derive(Deserialize)]
struct WireFrame<'a> {
    #[serde(borrow, rename = "type")]
    event_type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Splits an event into its type and the text of its object.
pub(super) fn split(frame: &str) -> Result<(EventType, &str), DecodeError> {
    // The API server writes it in this form, which needs no parser. The object is validated when it is
    // read.
    let fast = frame.trim_end().strip_prefix(r#"{"type":""#).and_then(|rest| {
        let (name, rest) = rest.split_once('"')?;
        let object = rest.strip_prefix(r#","object":"#)?.strip_suffix('}')?;
        (!name.contains('\\') && object.ends_with('}')).then(|| (event_type(name), object))
    });
    if let Some(split) = fast {
        return Ok(split);
    }
    let frame: WireFrame<'_> = serde_json::from_str(frame)?;
    Ok((event_type(&frame.event_type), frame.object.get()))
}

/// Splits the beginning of an event that is cut off.
pub(super) fn split_beginning(frame: &str) -> Option<(EventType, &str)> {
    let (name, rest) = frame.strip_prefix(r#"{"type":""#)?.split_once('"')?;
    Some((event_type(name), rest.strip_prefix(r#","object":"#)?))
}

fn event_type(name: &str) -> EventType {
    match name {
        "ADDED" | "MODIFIED" => EventType::Applied,
        "DELETED" => EventType::Deleted,
        "BOOKMARK" => EventType::Bookmark,
        "ERROR" => EventType::Error,
        _ => EventType::Unknown,
    }
}

/// The contents of a bookmark.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bookmark {
    /// All changes up to this version have been sent.
    pub(super) version: Option<Str>,
    /// Whether a streaming list ends here.
    pub(super) ends_list: bool,
}

impl Bookmark {
    pub(super) fn read(json: &str) -> Result<Self, DecodeError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct BookmarkObject {
            metadata: Option<BookmarkMetadata>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct BookmarkMetadata {
            resource_version: Option<Str>,
            annotations: Option<std::collections::BTreeMap<String, String>>,
        }
        let object: BookmarkObject = serde_json::from_str(json)?;
        let BookmarkMetadata { resource_version, annotations } =
            object.metadata.unwrap_or_default();
        let annotations = annotations.unwrap_or_default();
        Ok(Bookmark {
            version: resource_version.filter(|version| !version.is_empty()),
            ends_list: annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> String {
        match PartialObjectMeta::read(json) {
            Ok(meta) => format!("{}/{} {} {}", meta.namespace, meta.name, meta.uid, meta.version),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn metadata_are_read_from_any_position_and_without_the_rest_of_the_object() {
        for (json, expected) in [
            (
                r#"{"kind":"Pod","metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"7","labels":{"#,
                "b/a u 7",
            ),
            (
                r#"{"spec":{"x":[1]},"metadata":{"labels":{"name":"x"},"resourceVersion":"7","name":"a"}}"#,
                "/a  7",
            ),
            (r#"{"metadata":{"name":"a\u0062","uid":null}}"#, "/ab  "),
            (r#"{"metadata":{}}"#, "metadata.name: Required value"),
            (r#"{"spec":{}}"#, "metadata.name: Required value"),
            (r#"{"metadata":{"name":"a""#, "EOF while parsing an object at line 1 column 23"),
            ("[]", "invalid type: sequence, expected an object with metadata at line 1 column 0"),
        ] {
            assert_eq!(read(json), expected, "{json}");
        }
    }

    #[test]
    fn an_event_is_split_in_any_form() {
        for (frame, expected) in [
            (r#"{"type":"ADDED","object":{"a":{}}}"#, (EventType::Applied, r#"{"a":{}}"#)),
            ("{\"type\":\"DELETED\",\"object\":{}}\r", (EventType::Deleted, "{}")),
            (r#"{"object": {"a":1}, "type": "MODIFIED"}"#, (EventType::Applied, r#"{"a":1}"#)),
            (r#"{ "type":"BOOKMARK","object":{},"x":{}}"#, (EventType::Bookmark, "{}")),
            (r#"{"type":"NEWS","object":{}}"#, (EventType::Unknown, "{}")),
        ] {
            assert_eq!(split(frame).expect("it is an event"), expected, "{frame}");
        }
        assert!(split("{}").is_err());
        let cut = r#"{"type":"ADDED","object":{"metadata":{"na"#;
        assert_eq!(split_beginning(cut), Some((EventType::Applied, r#"{"metadata":{"na"#)));
    }

    #[test]
    fn the_bookmark_at_the_end_of_a_streaming_list_is_recognised() {
        let read = |json| Bookmark::read(json).expect("the case is JSON");
        let plain = read(r#"{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":null}}"#);
        assert_eq!(plain, Bookmark { version: Some("9".into()), ends_list: false });
        let end = read(
            r#"{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#,
        );
        assert!(end.ends_list);
    }
}
