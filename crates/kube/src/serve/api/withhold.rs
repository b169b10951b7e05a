//! Withholds the names of pods from users who may not list them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Stands in place of a pod that must not be named.
const A_POD: &str = "a pod that you may not list";

/// The namespaces among `known` whose pods `answer` names.
pub(super) fn named_namespaces(answer: &Value, known: &BTreeSet<String>) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    collect(answer, known, &mut named);
    named
}

fn collect(value: &Value, known: &BTreeSet<String>, named: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let found = keys(text).map(|(_, namespace, _)| namespace.to_owned());
            named.extend(found.filter(|namespace| known.contains(namespace)));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, known, named)),
        Value::Object(fields) => {
            let namespace = namespace_of(fields).filter(|name| known.contains(*name));
            named.extend(namespace.map(str::to_owned));
            for (key, value) in fields {
                collect(&json!(key), known, named);
                collect(value, known, named);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces all pods of the namespaces `hidden`, except the pod that was asked about.
pub(super) fn withhold(answer: &mut Value, hidden: &BTreeSet<String>, asked: &str) {
    match answer {
        Value::String(text) => *text = without(text, hidden, asked),
        Value::Array(values) => {
            for value in values {
                withhold(value, hidden, asked);
            }
        }
        Value::Object(fields) => {
            let of_asked = named(fields).is_some_and(|name| name == asked);
            let is_hidden = namespace_of(fields).is_some_and(|name| hidden.contains(name));
            if is_hidden && !of_asked {
                let kind = fields.get("kind").cloned().unwrap_or_default();
                *answer = json!({"kind": kind, "withheld": true});
                return;
            }
            let taken = std::mem::take(fields);
            for (key, mut value) in taken {
                withhold(&mut value, hidden, asked);
                fields.insert(without(&key, hidden, asked), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The namespace of an object, or of a reference to one.
fn namespace_of(fields: &Map<String, Value>) -> Option<&str> {
    fields.get("kind")?;
    let place = fields.get("metadata").and_then(Value::as_object).unwrap_or(fields);
    place.get("namespace")?.as_str()
}

/// `namespace/name` of an object, or of a reference to one.
fn named(fields: &Map<String, Value>) -> Option<String> {
    let place = fields.get("metadata").and_then(Value::as_object).unwrap_or(fields);
    Some(format!("{}/{}", namespace_of(fields)?, place.get("name")?.as_str()?))
}

/// All `namespace/name` in a text, with the places where they begin, also behind a kind: `podgroup/namespace/name`. Names of
/// resources and labels look alike.
fn keys(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/');
    let words = text.split(move |c: char| !is_part(c)).flat_map(move |word| {
        // A dot or a slash at the end belongs to the sentence.
        let word = word.trim_end_matches(['.', '/']);
        let behind_kind = word.split_once('/').filter(|(kind, _)| !kind.is_empty());
        let behind_kind = behind_kind.map(|(_, rest)| rest).filter(|rest| rest.contains('/'));
        [Some(word), behind_kind].into_iter().flatten().filter_map(move |key| {
            let (namespace, name) = key.split_once('/')?;
            let at = key.as_ptr().addr() - text.as_ptr().addr();
            (!namespace.is_empty() && !name.is_empty()).then_some((at, namespace, name))
        })
    });
    words.into_iter()
}

fn without(text: &str, hidden: &BTreeSet<String>, asked: &str) -> String {
    let (mut result, mut from) = (String::new(), 0);
    for (at, namespace, name) in keys(text) {
        let end = at + namespace.len() + 1 + name.len();
        if from <= at && hidden.contains(namespace) && text[at..end] != *asked {
            result.push_str(&text[from..at]);
            result.push_str(A_POD);
            from = end;
        }
    }
    result.push_str(&text[from..]);
    result
}

#[cfg(test)]
mod tests {
    use plimsoll_api::ObjectKey;
    use plimsoll_framework::GroupRef;

    use super::*;

    fn answer() -> Value {
        json!({
            "pod": "shop/web-0",
            "remedies": [{
                "text": "evict pay/card-1, pay/card-10 and shop/web-9 from n1",
                "changes": [
                    {"delete": {"kind": "Pod", "namespace": "pay", "name": "card-1"}},
                    {"delete": {"kind": "Pod", "namespace": "shop", "name": "web-9"}},
                    {"create": {"kind": "Pod", "metadata": {"namespace": "pay", "name": "agent"}}},
                ],
            }, {"text": "request 1 example.com/gpu instead of 2"}],
            "byPod": {"pay/card-1": 1},
            "victims": ["pay/card-1"],
        })
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn the_namespaces_whose_pods_are_named_are_found() {
        let known = set(&["pay", "shop", "other", "default"]);
        assert_eq!(named_namespaces(&answer(), &known), set(&["pay", "shop"]));
    }

    #[test]
    fn pods_of_hidden_namespaces_are_not_named() {
        let mut told = answer();
        withhold(&mut told, &set(&["pay"]), "shop/web-0");
        let expected = json!({
            "pod": "shop/web-0",
            "remedies": [{
                "text": "evict a pod that you may not list, a pod that you may not list and shop/web-9 from n1",
                "changes": [
                    {"delete": {"kind": "Pod", "withheld": true}},
                    {"delete": {"kind": "Pod", "namespace": "shop", "name": "web-9"}},
                    {"create": {"kind": "Pod", "withheld": true}},
                ],
            }, {"text": "request 1 example.com/gpu instead of 2"}],
            "byPod": {"a pod that you may not list": 1},
            "victims": ["a pod that you may not list"],
        });
        assert_eq!(told, expected);
        assert!(!told.to_string().contains("card"));
    }

    #[test]
    fn the_pod_that_was_asked_about_is_named_though_others_of_its_namespace_are_not() {
        let mut told = answer();
        withhold(&mut told, &set(&["pay", "shop"]), "shop/web-0");
        assert_eq!(told["pod"], "shop/web-0");
        assert!(!told.to_string().contains("web-9"), "{told}");
    }

    #[test]
    fn a_group_is_not_named_behind_its_kind() {
        let group = |kind: fn(ObjectKey) -> GroupRef| kind(ObjectKey::new("pay", "cards"));
        for group in [group(GroupRef::Pods), group(GroupRef::Composite)] {
            let mut told =
                json!({"message": format!("{group} waits"), "byGroup": {group.to_string(): 1}});
            assert_eq!(named_namespaces(&told, &set(&["pay", "shop"])), set(&["pay"]), "{group}");
            withhold(&mut told, &set(&["pay"]), "");
            assert!(!told.to_string().contains("cards"), "{told}");
            let mut asked = json!(format!("{group} waits"));
            withhold(&mut asked, &set(&["pay"]), "pay/cards");
            assert_eq!(asked, format!("{group} waits"), "it was asked about");
        }
        // A pointer into a manifest names no namespace.
        let mut told = json!("/spec/template/spec");
        withhold(&mut told, &set(&["spec", "template"]), "");
        assert_eq!(told, "/spec/template/spec");
    }

    #[test]
    fn a_name_at_the_end_of_a_sentence_is_found() {
        let mut told = json!("wait for pay/card-1.");
        withhold(&mut told, &set(&["pay"]), "");
        assert_eq!(told, "wait for a pod that you may not list.");
    }
}
