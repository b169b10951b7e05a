//! Objects of the API server, and the quantities in them.

use plimsoll_api::Quantity;
use plimsoll_api::wire;
use serde_json::Value;

/// Objects as `kubectl get -o json` prints them. Both ways of reading them agree.
pub(crate) fn objects(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let from_text = wire::objects_from_str(text);
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return;
    };
    // A field that occurs twice is one field in a tree of values.
    let canonical = value.to_string();
    let (again, from_value) = (wire::objects_from_str(&canonical), wire::objects(&value));
    assert_eq!(again.ok(), from_value.ok(), "text and tree differ");
    drop(from_text);
}

/// A quantity. Its canonical form has the same value, and is its own canonical form.
pub(crate) fn quantities(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // The integer part of a negative fraction depends on how it is written, as in kube-scheduler. No API server accepts
    // one.
    if text.starts_with('-') {
        return;
    }
    let Ok(quantity) = Quantity::parse(text) else { return };
    let canonical = quantity.canonical();
    let again = Quantity::parse(&canonical).expect("a canonical form is a quantity");
    // Values that do not fit into 64 bits wrap in `value`, as in kube-scheduler, so that is not called.
    let [a, b] = [&again, &quantity].map(Quantity::at_most_value);
    assert_eq!(a, b, "{text} and {canonical} are different amounts");
    let [a, b] = [&again, &quantity].map(Quantity::at_most_milli_value);
    assert_eq!(a, b, "{text} and {canonical} differ");
    assert_eq!(again.canonical(), canonical, "the canonical form of {text} is not canonical");
}
