//! Writes JSON as readable YAML: important fields first, short objects on one line.

use serde_json::{Map, Value};

use crate::catalogue::Point;

/// The fields that come first, in this order.
const FIRST: [&str; 10] = [
    "apiVersion",
    "kind",
    "name",
    "schedulerName",
    "urlPrefix",
    "percentageOfNodesToScore",
    "plugins",
    "multiPoint",
    "maxSkew",
    "type",
];

/// Objects up to 80 characters are written on one line.
const MAX_LINE: usize = 80;

/// The value as readable YAML, with a line break at its end.
pub fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) => write_fields(&mut text, fields, 0),
        _ => text.push_str(&(on_a_line(value) + "\n")),
    }
    text
}

fn write_fields(text: &mut String, fields: &Map<String, Value>, indent: usize) {
    for (position, (key, value)) in in_order(fields).into_iter().enumerate() {
        // The first field of a list element follows its dash.
        if 0 < position || !text.ends_with("- ") {
            text.push_str(&" ".repeat(indent));
        }
        text.push_str(&scalar(key));
        text.push(':');
        match value {
            Value::Object(inner) if !is_short(value) => {
                text.push('\n');
                write_fields(text, inner, indent + 2);
            }
            Value::Array(elements) if !elements.is_empty() && !is_short(value) => {
                text.push('\n');
                for element in elements {
                    text.push_str(&(" ".repeat(indent) + "- "));
                    match element {
                        Value::Object(inner) if !is_short(element) => {
                            write_fields(text, inner, indent + 2);
                        }
                        _ => text.push_str(&(on_a_line(element) + "\n")),
                    }
                }
            }
            _ => {
                text.push(' ');
                text.push_str(&on_a_line(value));
                text.push('\n');
            }
        }
    }
}

/// The fields in reading order: first those of [`FIRST`], then extension points in the order of a scheduling cycle,
/// then the rest in alphabetical order.
fn in_order(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let rank = |key: &str| {
        let first = FIRST.iter().position(|other| *other == key);
        let point = Point::ALL.iter().position(|point| point.key() == key);
        first.or(point.map(|point| FIRST.len() + point)).unwrap_or(usize::MAX)
    };
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(key, _)| rank(key));
    fields
}

/// Whether a value is written on one line.
fn is_short(value: &Value) -> bool {
    let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
    let is_flat = match value {
        Value::Object(fields) => {
            fields.values().all(is_scalar) && !fields.contains_key("schedulerName")
        }
        Value::Array(elements) => elements.iter().all(is_scalar),
        _ => true,
    };
    is_flat && on_a_line(value).len() <= MAX_LINE
}

fn on_a_line(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = in_order(fields).into_iter();
            let fields: Vec<_> = fields
                .map(|(key, value)| format!("{}: {}", scalar(key), on_a_line(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(on_a_line).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// A text as a YAML scalar, in quotes unless every YAML reader reads it as this text.
fn scalar(text: &str) -> String {
    let starts_as_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let means_else = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let is_word = starts_as_word
        && text.chars().all(is_plain)
        && means_else.iter().all(|word| !text.eq_ignore_ascii_case(word));
    if is_word { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use plimsoll_document::Document;
    use serde_json::json;

    use super::*;

    fn check(value: &Value, expected: &str) {
        let text = to_yaml(value);
        assert_eq!(text, expected);
        let documents = Document::parse_all("a.yaml", &text).expect("it is YAML");
        assert_eq!(documents[0].value, *value);
    }

    #[test]
    fn names_come_first_and_points_in_the_order_of_a_cycle() {
        let set = json!({"enabled": [{"weight": 2, "name": "A"}]});
        check(
            &json!({"profiles": [{"plugins": {"score": set, "filter": set, "multiPoint": set},
                                  "schedulerName": "a"}], "kind": "K", "apiVersion": "v"}),
            "\
apiVersion: v
kind: K
profiles:
- schedulerName: a
  plugins:
    multiPoint:
      enabled:
      - {name: A, weight: 2}
    filter:
      enabled:
      - {name: A, weight: 2}
    score:
      enabled:
      - {name: A, weight: 2}
",
        );
    }

    #[test]
    fn texts_that_mean_something_else_are_quoted() {
        check(
            &json!({"a": ["*", "yes", "1", "x: y", "a b", "#", "", "é", "x\ny", "0x1", "NULL"], "yes": 1}),
            "a: [\"*\", \"yes\", \"1\", \"x: y\", \"a b\", \"#\", \"\", \"é\", \"x\\ny\", \"0x1\", \"NULL\"]\n\"yes\": 1\n",
        );
    }

    #[test]
    fn lists_in_lists_and_empty_objects_are_on_one_line() {
        check(
            &json!({"a": {}, "b": [], "c": [[1, {"d": true}], {"e": {"f": [null]}}], "g": -1.5}),
            "a: {}\nb: []\nc:\n- [1, {d: true}]\n- e:\n    f: [null]\ng: -1.5\n",
        );
    }
}
