//! Lists, maps and times, which all objects are made of. As in Go, `null` is the same as absent.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::error::{Result, WireError};
use crate::{Labels, Str, Timestamp};

/// A list. Absent, `null` and `[]` are the same. An item that is `null` has its default.
#[derive(Debug)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let items = Option::<Vec<Option<T>>>::deserialize(deserializer)?.unwrap_or_default();
        Ok(List(items.into_iter().map(Option::unwrap_or_default).collect()))
    }
}

/// A map, in the order in which it is written. Absent, `null` and `{}` are the same. A value that is
/// `null` has its default.
#[derive(Debug)]
pub(super) struct Table<V>(pub(super) Vec<(Str, V)>);

impl<V> Default for Table<V> {
    fn default() -> Self {
        Table(Vec::new())
    }
}

impl<'de, V: Deserialize<'de> + Default> Deserialize<'de> for Table<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_option(TableVisitor(PhantomData))
    }
}

struct TableVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de> + Default> Visitor<'de> for TableVisitor<V> {
    type Value = Table<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(Table::default())
    }

    fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(Table::default())
    }

    fn visit_some<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        let mut entries = Vec::with_capacity(map.size_hint().unwrap_or_default());
        while let Some((key, value)) = map.next_entry::<Str, Option<V>>()? {
            entries.push((key, value.unwrap_or_default()));
        }
        Ok(Table(entries))
    }
}

impl From<Table<Str>> for Labels {
    fn from(table: Table<Str>) -> Self {
        table.0.into_iter().collect()
    }
}

/// An item of which only the name matters.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Named {
    name: Option<Str>,
}

/// The names of all `items`.
pub(super) fn names(items: List<Named>) -> Vec<Str> {
    items.into_iter().map(|item| item.name.unwrap_or_default()).collect()
}

/// The text, if it is not empty.
pub(super) fn given(text: Option<Str>) -> Option<Str> {
    text.filter(|text| !text.is_empty())
}

/// The time in `field`, if any. Accepts exactly what Go's `time.RFC3339` accepts.
pub(super) fn time(field: &str, text: Option<&Str>) -> Result<Option<Timestamp>> {
    let Some(text) = text else { return Ok(None) };
    let parsed = if is_rfc_3339(text) { text.parse::<Timestamp>().ok() } else { None };
    match parsed {
        Some(time) => Ok(Some(time)),
        None => Err(WireError::invalid(
            field,
            text,
            "must be a time in RFC 3339, such as \"2006-01-02T15:04:05Z\"",
        )),
    }
}

/// Whether `text` has the shape `YYYY-MM-DDThh:mm:ss[.fraction](Z|±hh:mm)`, the seconds at most 59.
fn is_rfc_3339(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let alike = |text: &[u8], shape: &[u8]| {
        text.len() == shape.len()
            && text.iter().zip(shape).all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                _ => byte == shape,
            })
    };
    let Some((date, rest)) = text.as_bytes().split_at_checked(SHAPE.len()) else { return false };
    let fraction = match rest {
        [b'.', digits @ ..] => 1 + digits.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        _ => 0,
    };
    let zone = &rest[fraction..];
    alike(date, SHAPE)
        && date[17] < b'6'
        && fraction != 1
        && (zone == b"Z" || alike(zone, b"+00:00") || alike(zone, b"-00:00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_the_same_as_absent() {
        let list = |json| serde_json::from_str::<List<Str>>(json).map(|list| list.0);
        assert_eq!(list("null").unwrap(), Vec::<Str>::new());
        assert_eq!(list(r#"["a", null]"#).unwrap(), ["a", ""]);
        let table = |json| serde_json::from_str::<Table<Str>>(json).map(|table| table.0);
        assert_eq!(table("null").unwrap(), []);
        assert_eq!(table(r#"{"a": null}"#).unwrap(), [("a".into(), "".into())]);
        let error = table("[]").unwrap_err().to_string();
        assert_eq!(error, "invalid type: sequence, expected an object at line 1 column 0");
    }

    #[test]
    fn a_time_is_read_as_go_reads_it() {
        let ok = ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5Z", "2026-01-02T05:04:05+02:00"];
        for text in ok {
            let time = time("t", Some(&text.into())).unwrap().expect("it is given");
            assert!(time.to_string().starts_with("2026-01-02T03:04:05"), "{text}: {time}");
        }
        for text in [
            "",
            "yesterday",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:60Z",
            "2026-02-30T03:04:05Z",
            "2026-01-02T03:04:05Z[UTC]",
        ] {
            let error = time("t", Some(&text.into())).unwrap_err().to_string();
            let expected = format!(
                "t: Invalid value: {text:?}: must be a time in RFC 3339, such as \
                 \"2006-01-02T15:04:05Z\""
            );
            assert_eq!(error, expected);
        }
    }
}
