//! Strategic merge patch: as a merge patch, but lists of objects that have a key are merged by it, and
//! directives (`$patch`, `$setElementOrder`, `$deleteFromPrimitiveList`, `$retainKeys`) express what a
//! merge cannot.

use serde_json::{Map, Value};

use crate::failure::FailureStatus;

/// Lists that are merged, with the key of their elements (`patchStrategy` and `patchMergeKey` in the API types). Some
/// fields have the same name in several types: the first key that all elements have is taken. All other lists are
/// replaced.
const KEYS: &[(&str, &[&str])] = &[
    ("conditions", &["type"]),
    ("addresses", &["type"]),
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("env", &["name"]),
    ("volumes", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("ports", &["containerPort", "port"]),
    ("imagePullSecrets", &["name"]),
    ("secrets", &["name"]),
    ("hostAliases", &["ip"]),
    ("topologySpreadConstraints", &["topologyKey"]),
    ("schedulingGates", &["name"]),
    ("resourceClaims", &["name"]),
    ("resourceClaimStatuses", &["name"]),
    ("reservedFor", &["uid"]),
    ("ownerReferences", &["uid"]),
    ("podIPs", &["ip"]),
    ("hostIPs", &["ip"]),
    ("drivers", &["name"]),
];

/// Lists of plain values that are merged.
const SETS: &[&str] = &["finalizers"];

const ORDER: &str = "$setElementOrder/";
const REMOVE: &str = "$deleteFromPrimitiveList/";

/// Applies a patch to an object.
pub(super) fn apply(object: &mut Value, patch: &Value) -> Result<(), FailureStatus> {
    let wrong = || FailureStatus::bad_request("error decoding patch: it is no JSON object");
    let patch = patch.as_object().ok_or_else(wrong)?;
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if let Some(object) = object.as_object_mut() {
        merge(object, patch)?;
    }
    Ok(())
}

fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), FailureStatus> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            object.clear();
            let plain = patch.iter().filter(|(key, _)| !key.starts_with('$'));
            object.extend(plain.map(|(key, value)| (key.clone(), value.clone())));
            return Ok(());
        }
        Some("delete") => {
            object.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => {
            let why = format!("unknown patch type found in patch: {other:?}");
            return Err(FailureStatus::bad_request(why));
        }
    }
    if let Some(kept) = patch.get("$retainKeys").and_then(Value::as_array) {
        object.retain(|key, _| kept.iter().any(|kept| kept.as_str() == Some(key)));
    }
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix(REMOVE) {
            remove_values(object, field, value);
        } else if !key.starts_with('$') {
            merge_field(object, key, value)?;
        }
    }
    // `$setElementOrder` of lists that are not in the patch themselves: it only moves elements.
    for (key, order) in patch {
        if let Some(field) = key.strip_prefix(ORDER)
            && let (Some(list), Some(order)) = (list_of(object, field), order.as_array())
        {
            sort(list, field, order);
        }
    }
    Ok(())
}

fn list_of<'a>(object: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Vec<Value>> {
    object.get_mut(field).and_then(Value::as_array_mut)
}

fn merge_field(
    object: &mut Map<String, Value>,
    key: &str,
    value: &Value,
) -> Result<(), FailureStatus> {
    match value {
        Value::Null => {
            object.remove(key);
        }
        Value::Object(changes) => {
            let present = object.entry(key).or_insert_with(|| Value::Object(Map::new()));
            if !present.is_object() {
                *present = Value::Object(Map::new());
            }
            if let Some(present) = present.as_object_mut() {
                merge(present, changes)?;
            }
        }
        Value::Array(changes) => {
            let present = object.entry(key).or_insert_with(|| Value::Array(Vec::new()));
            if !present.is_array() {
                *present = Value::Array(Vec::new());
            }
            if let Some(present) = present.as_array_mut() {
                merge_list(present, key, changes)?;
            }
        }
        plain => {
            object.insert(key.to_owned(), plain.clone());
        }
    }
    Ok(())
}

fn merge_list(
    present: &mut Vec<Value>,
    field: &str,
    changes: &[Value],
) -> Result<(), FailureStatus> {
    if SETS.contains(&field) {
        for value in changes {
            if !present.contains(value) {
                present.push(value.clone());
            }
        }
        return Ok(());
    }
    let is_replace = |change: &&Value| directive(change) == Some("replace");
    let Some(key) = key_of(field, changes).filter(|_| !changes.iter().any(|c| is_replace(&c)))
    else {
        let plain = changes.iter().filter(|change| !is_replace(change));
        *present = plain.cloned().collect();
        return Ok(());
    };
    for change in changes {
        let at = present.iter().position(|element| element.get(key) == change.get(key));
        match (directive(change), at) {
            (Some("delete"), Some(at)) => {
                present.remove(at);
            }
            (Some("delete"), None) => {}
            (_, Some(at)) => apply(&mut present[at], change)?,
            (_, None) => {
                let mut element = Value::Object(Map::new());
                apply(&mut element, change)?;
                present.push(element);
            }
        }
    }
    Ok(())
}

fn directive(change: &Value) -> Option<&str> {
    change.get("$patch").and_then(Value::as_str)
}

/// The merge key of the elements; `None` if the list is replaced as a whole.
fn key_of(field: &str, changes: &[Value]) -> Option<&'static str> {
    let (_, keys) = KEYS.iter().find(|(name, _)| *name == field)?;
    let all_have = |key: &&&str| {
        changes.iter().all(|c| c.get(**key).is_some() || directive(c) == Some("replace"))
    };
    keys.iter().find(all_have).copied()
}

fn remove_values(object: &mut Map<String, Value>, field: &str, values: &Value) {
    if let (Some(list), Some(values)) = (list_of(object, field), values.as_array()) {
        list.retain(|value| !values.contains(value));
    }
}

/// Sorts the elements that `order` names by it; each other element stays behind its predecessor.
fn sort(list: &mut [Value], field: &str, order: &[Value]) {
    let key = key_of(field, order);
    let same = |element: &Value, wanted: &Value| match key {
        Some(key) => element.get(key) == wanted.get(key),
        None => element == wanted,
    };
    let place = |element: &Value| order.iter().position(|wanted| same(element, wanted));
    let mut named: Vec<(usize, Value)> =
        list.iter().filter_map(|element| Some((place(element)?, element.clone()))).collect();
    named.sort_by_key(|(place, _)| *place);
    let mut named = named.into_iter().map(|(_, element)| element);
    for slot in list.iter_mut().filter(|element| place(element).is_some()) {
        if let Some(element) = named.next() {
            *slot = element;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(mut object: Value, patch: &Value) -> Value {
        apply(&mut object, patch).expect("the patch is valid");
        object
    }

    #[test]
    fn a_condition_is_changed_by_its_type_and_the_others_stay() {
        let pod = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "False", "reason": "X"},
        ]}});
        let patch = json!({"status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}, {"type": "New"}, {"type": "Ready"}],
            "conditions": [{"type": "PodScheduled", "message": "m"}, {"type": "New", "status": "True"}],
            "nominatedNodeName": "n",
        }});
        assert_eq!(
            patched(pod, &patch)["status"],
            json!({"nominatedNodeName": "n", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "X", "message": "m"},
                {"type": "New", "status": "True"}, {"type": "Ready", "status": "False"},
            ]})
        );
    }

    #[test]
    fn null_removes_and_directives_do_the_rest() {
        let object = json!({
            "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]},
            "spec": {"containers": [{"name": "c", "args": ["1"]}, {"name": "d"}], "tolerations": [{"key": "k"}]},
        });
        let patch = json!({
            "metadata": {"labels": {"a": null, "c": "3"}, "finalizers": ["z"],
                         "$deleteFromPrimitiveList/finalizers": ["x"]},
            "spec": {"containers": [{"name": "d", "$patch": "delete"}, {"name": "c", "args": ["2"]}],
                     "tolerations": [{"key": "l"}]},
        });
        assert_eq!(
            patched(object, &patch),
            json!({
                "metadata": {"labels": {"b": "2", "c": "3"}, "finalizers": ["y", "z"]},
                "spec": {"containers": [{"name": "c", "args": ["2"]}], "tolerations": [{"key": "l"}]},
            })
        );
    }

    #[test]
    fn a_list_can_be_replaced_although_it_would_be_merged() {
        let object = json!({"conditions": [{"type": "A"}]});
        let patch = json!({"conditions": [{"$patch": "replace"}, {"type": "B"}]});
        assert_eq!(patched(object, &patch), json!({"conditions": [{"type": "B"}]}));
    }
}
