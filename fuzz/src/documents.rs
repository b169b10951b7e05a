//! Files in YAML and JSON.

use plimsoll_document::{Document, FieldPath};
use serde_json::Value;

/// A file of YAML documents. What was read is the same after it is written as JSON and read again.
pub(crate) fn yaml(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // A text that starts as JSON is read as JSON.
    for document in Document::parse_all("input.yaml", text).unwrap_or_default() {
        check(&document);
    }
}

/// A file of JSON values, also as JSON Lines.
pub(crate) fn json(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let read = Document::parse_all("input.json", text);
    if let Ok(documents) = &read {
        documents.iter().for_each(check);
    }
    if let (Ok(expected), Ok(documents)) = (serde_json::from_str::<Value>(text), read)
        && let [document] = documents.as_slice()
    {
        let found = document.get(&FieldPath::root());
        let found = found.expect("there is a document");
        assert!(is_same(found, &expected), "serde_json reads another value: {expected} {found}");
    }
}

fn check(document: &Document) {
    let root = FieldPath::root();
    let Some(value) = document.get(&root) else { return };
    document.line_of(&root);
    let text = value.to_string();
    let again = Document::parse_all("again.json", &text).expect("JSON that was just written");
    // A single scalar is not a JSON document: it would be read as YAML, with other rules.
    if value.is_object() || value.is_array() {
        assert_eq!(again.len(), 1, "one value is one document");
        let again = again[0].get(&root).expect("it was just written");
        assert!(
            is_same(again, value),
            "it is another value when it is read again: {value} {again}"
        );
    }
}

/// Whether two values are the same, except for the last digit of fractions and of numbers beyond 64 bits: serde_json is
/// not more exact.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_f64(), other.as_f64()) {
            (Some(a), Some(b)) if one.is_f64() && other.is_f64() => {
                (a - b).abs() <= a.abs() * 2.0 * f64::EPSILON
            }
            // Zero may have a sign.
            (a, b) => one == other || ((one.is_f64() || other.is_f64()) && a == b),
        },
        (Value::Array(some), Value::Array(others)) => {
            some.len() == others.len() && some.iter().zip(others).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(some), Value::Object(others)) => {
            let is_there =
                |(key, a): (&String, &Value)| others.get(key).is_some_and(|b| is_same(a, b));
            some.len() == others.len() && some.iter().all(is_there)
        }
        _ => one == other,
    }
}
