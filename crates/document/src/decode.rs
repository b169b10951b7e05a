//! Strict decoding of a JSON value to a type; errors have the path of the field.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::path::{FieldPath, Segment};

/// At most this many faults of one value are found; nobody reads more.
const MOST_FAULTS: usize = 100;

/// What does not fit the type, and where, relative to the decoded value.
pub(crate) struct Fault {
    pub(crate) path: FieldPath,
    pub(crate) message: String,
}

/// The value as a `T`, or the first fault in it.
pub(crate) fn first<T: DeserializeOwned>(value: Option<&Value>) -> Result<T, Fault> {
    try_decode(&without_nulls(value.unwrap_or(&Value::Null)))
}

/// The value as a `T` without the fields at fault, and all faults.
pub(crate) fn all<T: DeserializeOwned>(value: Option<&Value>) -> (Option<T>, Vec<Fault>) {
    all_with(value, try_decode)
}

/// The same by `decode`.
pub(crate) fn all_with<T>(
    value: Option<&Value>,
    decode: impl Fn(&Value) -> Result<T, Fault>,
) -> (Option<T>, Vec<Fault>) {
    let mut value = without_nulls(value.unwrap_or(&Value::Null));
    let mut faults: Vec<Fault> = Vec::new();
    loop {
        let fault = match decode(&value) {
            Ok(decoded) => return (Some(decoded), faults),
            Err(fault) => fault,
        };
        // A fault is fixed by removing the field; decoding the rest finds the next one.
        let is_mended = remove(value.to_mut(), &fault.path);
        let is_new = faults.iter().all(|known| known.path != fault.path);
        if is_new {
            faults.push(fault);
        }
        if !is_mended || !is_new || MOST_FAULTS <= faults.len() {
            return (None, faults);
        }
    }
}

fn try_decode<T: DeserializeOwned>(value: &Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(value).map_err(|error| Fault {
        path: FieldPath::from(error.path()),
        message: error.inner().to_string(),
    })
}

/// Removes the field at `path` from `value`, or the nearest enclosing field if it is an element.
fn remove(value: &mut Value, path: &FieldPath) -> bool {
    let is_key = |segment: &Segment| matches!(segment, Segment::Key(_));
    let Some(position) = path.segments().iter().rposition(is_key) else {
        return false;
    };
    let (parents, last) = path.segments().split_at(position);
    let parent = parents.iter().try_fold(value, |value, segment| match segment {
        Segment::Key(name) => value.get_mut(name),
        Segment::Index(index) => value.get_mut(index),
    });
    match (parent, last.first()) {
        (Some(Value::Object(fields)), Some(Segment::Key(name))) => fields.remove(name).is_some(),
        _ => false,
    }
}

fn without_nulls(value: &Value) -> Cow<'_, Value> {
    if !has_null_field(value) {
        return Cow::Borrowed(value);
    }
    let mut value = value.clone();
    drop_null_fields(&mut value);
    Cow::Owned(value)
}

fn has_null_field(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(|v| v.is_null() || has_null_field(v)),
        Value::Array(values) => values.iter().any(has_null_field),
        _ => false,
    }
}

fn drop_null_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_null_fields);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_null_fields),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Plan {
        name: String,
        size: i32,
        steps: Vec<i32>,
        next: Option<Box<Plan>>,
    }

    fn check(value: &Value, expected: &[&str]) -> Option<Plan> {
        let (plan, faults) = all::<Plan>(Some(value));
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.to_string()).collect();
        assert_eq!(paths, expected);
        plan
    }

    #[test]
    fn every_fault_is_found_and_the_rest_is_kept() {
        let value =
            json!({"name": 5, "size": 7, "typo": 1, "next": {"size": "x", "steps": [1, "b"]}});
        let plan = check(&value, &["name", "next.size", "next.steps[1]", "typo"]);
        let next = Some(Box::default());
        assert_eq!(plan, Some(Plan { size: 7, next, ..Plan::default() }));
    }

    #[test]
    fn a_value_of_another_kind_has_no_result() {
        assert_eq!(check(&json!("text"), &[""]), None);
    }

    #[test]
    fn a_null_leaves_a_field_at_its_default() {
        let value = json!({"name": null, "size": 1, "next": {"steps": null}});
        let plan = first::<Plan>(Some(&value)).map_err(|fault| fault.message);
        let next = Some(Box::default());
        assert_eq!(plan, Ok(Plan { size: 1, next, ..Plan::default() }));
    }
}
