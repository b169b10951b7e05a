//! Files in YAML and JSON.

use plimsoll_document::{Document, FieldPath};
use serde_json::Value;

/// A file of YAML documents. What was read can be written as JSON and read again.
pub(crate) fn yaml(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // A text that starts as JSON is read as JSON.
    for document in Document::parse_all("input.yaml", text).unwrap_or_default() {
        check(&document);
    }
}

/// A file of JSON values, in JSON Lines too.
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
        assert_eq!(found, Some(&expected), "serde_json reads another value");
    }
}

fn check(document: &Document) {
    let root = FieldPath::root();
    let Some(value) = document.get(&root) else { return };
    document.line_of(&root);
    let text = value.to_string();
    let again = Document::parse_all("again.json", &text).expect("JSON that was just written");
    // A scalar alone is no JSON document: it would be read as YAML, by other rules.
    if value.is_object() || value.is_array() {
        assert_eq!(again.len(), 1, "one value is one document");
        assert_eq!(again[0].get(&root), Some(value), "it is another value when it is read again");
    }
}
