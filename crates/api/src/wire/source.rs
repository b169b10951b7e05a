//! The sources of objects: a JSON text, or a tree of values.
//!
//! A text is read twice: once up to its `apiVersion` and `kind`, which almost always come first,
//! and once into the small structs of that kind. No tree is built.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment, Track};

use super::Json;
use super::error::{Result, WireError};
use super::kind::TypeMeta;

/// Fields that are maps. A path shows their keys in brackets.
const TABLES: [&str; 15] = [
    "labels",
    "annotations",
    "requests",
    "limits",
    "allocatable",
    "allocatedResources",
    "overhead",
    "capacity",
    "disruptedPods",
    "nodeSelector",
    "matchLabels",
    "attributes",
    "counters",
    "consumedCapacity",
    "nodeAllocatableResourceMappings",
];

/// The part of an object that decides how to read the rest.
#[derive(Debug)]
pub(super) struct Head<S> {
    pub(super) meta: TypeMeta,
    /// The items, if it is a list.
    pub(super) items: Vec<S>,
}

/// The text or tree of one object or list.
pub(super) trait Source<'a>: Copy {
    /// Its JSON.
    fn json(self) -> Json<'a>;

    /// Reads its head.
    fn head(self) -> Result<Head<Self>>;

    /// Reads all of it.
    fn parse<T: DeserializeOwned>(self) -> Result<T>;
}

impl<'a> Source<'a> for &'a Value {
    fn json(self) -> Json<'a> {
        Json::Tree(self)
    }

    fn head(self) -> Result<Head<Self>> {
        if !self.is_object() {
            return Err(misshapen(""));
        }
        let text = |field| match &self[field] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.into())),
            _ => Err(misshapen(field)),
        };
        let meta = TypeMeta { api_version: text("apiVersion")?, kind: text("kind")? };
        let items = match &self["items"] {
            Value::Array(items) if meta.may_have_items() => items.iter().collect(),
            other if meta.may_have_items() && !other.is_null() => return Err(misshapen("items")),
            _ => Vec::new(),
        };
        Ok(Head { meta, items })
    }

    fn parse<T: DeserializeOwned>(self) -> Result<T> {
        tracked(self)
    }
}

impl<'a> Source<'a> for &'a str {
    fn json(self) -> Json<'a> {
        Json::Text(self)
    }

    fn head(self) -> Result<Head<Self>> {
        let mut head = HeadVisitor::default();
        let mut json = serde_json::Deserializer::from_str(self);
        match json.deserialize_map(&mut head).and_then(|()| json.end()) {
            Err(error) if error.is_data() && !head.told => Err(misshapen(head.field)),
            Err(error) if !head.told => Err(WireError::new("", error.to_string())),
            _ => Ok(Head { items: head.items()?, meta: head.meta }),
        }
    }

    fn parse<T: DeserializeOwned>(self) -> Result<T> {
        // Tracking the path costs as much as reading itself, so this is only done after an error.
        match serde_json::from_str(self) {
            Ok(parsed) => Ok(parsed),
            Err(error) if error.is_data() => tracked(&mut serde_json::Deserializer::from_str(self)),
            Err(error) => Err(WireError::new("", error.to_string())),
        }
    }
}

/// The error of a head in which `field` has the wrong type.
fn misshapen(field: &str) -> WireError {
    let message = match field {
        "" => "an object is expected, with apiVersion and kind",
        "items" => "must be a list",
        _ => "must be a string",
    };
    WireError::new(field, message)
}

/// Reads a head. It returns an error to stop reading once it has all of it.
#[derive(Default)]
struct HeadVisitor<'a> {
    meta: TypeMeta,
    items: Option<Items<'a>>,
    /// The field that is being read.
    field: &'static str,
    told: bool,
}

impl<'a> HeadVisitor<'a> {
    fn items(&mut self) -> Result<Vec<&'a str>> {
        match self.items.take().filter(|_| self.meta.may_have_items()) {
            None => Ok(Vec::new()),
            Some(Items(Some(items))) => Ok(items),
            Some(Items(None)) => Err(misshapen("items")),
        }
    }
}

/// The value of `items`: the text of each item, or `None` if it is not a list. Objects other than lists of
/// Kubernetes may have anything there.
struct Items<'a>(Option<Vec<&'a str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(ItemsVisitor).map(Items)
    }
}

struct ItemsVisitor;

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Option<Vec<&'de str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(
        self,
        mut list: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<&RawValue>()? {
            items.push(item.get());
        }
        Ok(Some(items))
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> std::result::Result<Self::Value, E> {
        Ok(Some(Vec::new()))
    }

    fn visit_bool<E: Error>(self, _: bool) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E: Error>(self, _: i64) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E: Error>(self, _: u64) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E: Error>(self, _: f64) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: Error>(self, _: &str) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }
}

impl<'a> Visitor<'a> for &mut HeadVisitor<'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with apiVersion and kind")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => {
                    self.field = "apiVersion";
                    self.meta.api_version = map.next_value()?;
                }
                "kind" => {
                    self.field = "kind";
                    self.meta.kind = map.next_value()?;
                }
                "items" => self.items = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
            if self.meta.is_complete() && !self.meta.may_have_items() {
                self.told = true;
                return Err(A::Error::custom("the rest is not needed"));
            }
        }
        Ok(())
    }
}

/// Reads, and names the field in an error. The type of the deserializer is erased, so that the code that reads each kind is not
/// compiled once more for this: it runs for values, and after an error.
fn tracked<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T> {
    let mut track = Track::new();
    let tracking = serde_path_to_error::Deserializer::new(deserializer, &mut track);
    let result: std::result::Result<T, _> =
        erased_serde::deserialize(&mut <dyn erased_serde::Deserializer<'_>>::erase(tracking));
    result.map_err(|error| {
        let error = error.to_string();
        // The position in the text of this one object does not help the author of a list.
        let message = error.rsplit_once(" at line ").map_or(error.as_str(), |(message, _)| message);
        WireError::new(&field(&track.path()), message)
    })
}

fn field(path: &Path) -> String {
    let mut field = String::new();
    let mut in_table = false;
    for segment in path {
        match segment {
            Segment::Seq { index } => field = format!("{field}[{index}]"),
            Segment::Map { key } if in_table => field = format!("{field}[{key}]"),
            Segment::Map { key } => {
                if !field.is_empty() {
                    field.push('.');
                }
                field.push_str(key);
            }
            Segment::Enum { .. } | Segment::Unknown => (),
        }
        in_table = matches!(segment, Segment::Map { key } if TABLES.contains(&key.as_str()));
    }
    field
}
