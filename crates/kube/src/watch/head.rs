//! What is looked at first in an object: who it is, and which version of it this is. The rest is read
//! only if that version is new.

use std::borrow::Cow;
use std::fmt;

use plimsoll_api::Str;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The annotation of the bookmark that ends a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Who an object is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) namespace: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) uid: Cow<'a, str>,
    pub(super) version: Cow<'a, str>,
}

impl<'a> Head<'a> {
    /// Reads the head of an object, and no further; what follows may be missing. An error, in words, if
    /// it does not say its name.
    pub(super) fn read(json: &'a str) -> Result<Self, String> {
        let mut reading = Reading::default();
        let mut reader = serde_json::Deserializer::from_str(json);
        let result = reader.deserialize_map(Outer(&mut reading));
        match result {
            Err(error) if !reading.is_done => Err(error.to_string()),
            _ if reading.head.name.is_empty() => Err("metadata.name: Required value".to_owned()),
            _ => Ok(reading.head),
        }
    }

    fn is_complete(&self) -> bool {
        // The API server writes the namespace, if there is one, before these.
        !(self.name.is_empty() || self.uid.is_empty() || self.version.is_empty())
    }
}

/// A head that is being read.
#[derive(Default)]
struct Reading<'a> {
    head: Head<'a>,
    /// Nothing that follows is of use.
    is_done: bool,
}

// Strings that are borrowed where they can be.

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Given<'a>(#[serde(borrow)] Option<Cow<'a, str>>);

const ENOUGH: &str = "the rest is not needed";

struct Outer<'h, 'a>(&'h mut Reading<'a>);

impl<'a> Visitor<'a> for Outer<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with metadata")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            if key == "metadata" {
                map.next_value_seed(Inner(self.0))?;
                self.0.is_done = true;
                return Err(A::Error::custom(ENOUGH));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

struct Inner<'h, 'a>(&'h mut Reading<'a>);

impl<'a> DeserializeSeed<'a> for Inner<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Inner<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a name")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let Reading { head, is_done } = self.0;
        while let Some(Key(key)) = map.next_key()? {
            let field = match &*key {
                "name" => &mut head.name,
                "namespace" => &mut head.namespace,
                "uid" => &mut head.uid,
                "resourceVersion" => &mut head.version,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = map.next_value::<Given<'a>>()?.0.unwrap_or_default();
            if head.is_complete() {
                *is_done = true;
                return Err(A::Error::custom(ENOUGH));
            }
        }
        Ok(())
    }
}

/// What a watch says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It is so.
    Is,
    /// It is gone.
    Gone,
    /// Nothing new up to here.
    Bookmark,
    /// The watch ends, for a reason.
    Error,
    /// A word that is not known.
    Unknown,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    word: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// What a frame says, and the text of the object of which it says that.
pub(super) fn split(frame: &str) -> Result<(Word, &str), String> {
    // As the API server writes it: nothing has to be looked for. The object is validated when it is read.
    let at_once = frame.trim_end().strip_prefix(r#"{"type":""#).and_then(|rest| {
        let (word, rest) = rest.split_once('"')?;
        let object = rest.strip_prefix(r#","object":"#)?.strip_suffix('}')?;
        (!word.contains('\\') && object.ends_with('}')).then(|| (self::word(word), object))
    });
    if let Some(read) = at_once {
        return Ok(read);
    }
    let frame: Frame<'_> = serde_json::from_str(frame).map_err(|error| error.to_string())?;
    Ok((word(&frame.word), frame.object.get()))
}

/// Of a frame that is cut off: what it says, and the beginning of the object.
pub(super) fn split_beginning(frame: &str) -> Option<(Word, &str)> {
    let (word, rest) = frame.strip_prefix(r#"{"type":""#)?.split_once('"')?;
    Some((self::word(word), rest.strip_prefix(r#","object":"#)?))
}

fn word(word: &str) -> Word {
    match word {
        "ADDED" | "MODIFIED" => Word::Is,
        "DELETED" => Word::Gone,
        "BOOKMARK" => Word::Bookmark,
        "ERROR" => Word::Error,
        _ => Word::Unknown,
    }
}

/// What a bookmark says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bookmark {
    /// The version up to which nothing is missing.
    pub(super) version: Option<Str>,
    /// Whether a streaming list ends here.
    pub(super) ends_list: bool,
}

impl Bookmark {
    pub(super) fn read(json: &str) -> Result<Self, String> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Object {
            metadata: Option<Metadata>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Metadata {
            resource_version: Option<Str>,
            annotations: Option<std::collections::BTreeMap<String, String>>,
        }
        let object: Object = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let Metadata { resource_version, annotations } = object.metadata.unwrap_or_default();
        let annotations = annotations.unwrap_or_default();
        Ok(Bookmark {
            version: resource_version.filter(|version| !version.is_empty()),
            ends_list: annotations.get(INITIAL_EVENTS_END).is_some_and(|says| says == "true"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> String {
        match Head::read(json) {
            Ok(head) => format!("{}/{} {} {}", head.namespace, head.name, head.uid, head.version),
            Err(error) => error,
        }
    }

    #[test]
    fn a_head_is_read_wherever_it_stands_and_though_the_rest_is_missing() {
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
    fn a_frame_is_split_in_any_form() {
        for (frame, expected) in [
            (r#"{"type":"ADDED","object":{"a":{}}}"#, Ok((Word::Is, r#"{"a":{}}"#))),
            ("{\"type\":\"DELETED\",\"object\":{}}\r", Ok((Word::Gone, "{}"))),
            (r#"{"object": {"a":1}, "type": "MODIFIED"}"#, Ok((Word::Is, r#"{"a":1}"#))),
            (r#"{ "type":"BOOKMARK","object":{},"x":{}}"#, Ok((Word::Bookmark, "{}"))),
            (r#"{"type":"NEWS","object":{}}"#, Ok((Word::Unknown, "{}"))),
        ] {
            assert_eq!(split(frame), expected, "{frame}");
        }
        assert!(split("{}").is_err());
        let cut = r#"{"type":"ADDED","object":{"metadata":{"na"#;
        assert_eq!(split_beginning(cut), Some((Word::Is, r#"{"metadata":{"na"#)));
    }

    #[test]
    fn the_bookmark_that_ends_a_list_says_so() {
        let read = |json| Bookmark::read(json).expect("the case is JSON");
        let plain = read(r#"{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":null}}"#);
        assert_eq!(plain, Bookmark { version: Some("9".into()), ends_list: false });
        let end = read(
            r#"{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#,
        );
        assert!(end.ends_list);
    }
}
