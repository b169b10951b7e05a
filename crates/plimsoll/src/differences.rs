//! What differs between two configurations.

use std::collections::BTreeSet;

use serde_json::Value;

/// The fields that identify the elements of a list, in the order in which they are tried.
const NAMES: [&str; 3] = ["schedulerName", "name", "urlPrefix"];

/// What differs between two values, a line for each field: `profiles[a].plugins.multiPoint.disabled[X].weight: 1 -> 2`.
/// Elements of lists are matched by their names, if all of them have one; what is on one side only is `(none)` on the
/// other.
pub(crate) fn differences(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", Some(before), Some(after), &mut lines);
    lines
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, lines: &mut Vec<String>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, one.get(key), other.get(key), lines);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            let (Some(names), Some(other_names)) = (names(one), names(other)) else {
                for index in 0..one.len().max(other.len()) {
                    let path = format!("{path}[{index}]");
                    compare(&path, one.get(index), other.get(index), lines);
                }
                return;
            };
            let find = |all: &[&str], name: &str| all.iter().position(|one| *one == name);
            let mut all = names.clone();
            all.extend(other_names.iter().filter(|name| !names.contains(name)));
            for name in all {
                let of_one = find(&names, name).map(|at| &one[at]);
                let of_other = find(&other_names, name).map(|at| &other[at]);
                compare(&format!("{path}[{name}]"), of_one, of_other, lines);
            }
            let kept: Vec<_> = names.iter().filter(|name| other_names.contains(name)).collect();
            let other_kept: Vec<_> =
                other_names.iter().filter(|name| names.contains(name)).collect();
            if kept != other_kept {
                lines.push(format!(
                    "{path}: the order {} -> {}",
                    names.join(" "),
                    other_names.join(" ")
                ));
            }
        }
        (before, after) => {
            let text = |value: Option<&Value>| match value {
                Some(value) => value.to_string(),
                None => "(none)".to_owned(),
            };
            lines.push(format!("{path}: {} -> {}", text(before), text(after)));
        }
    }
}

/// The names of all elements, if each has one of its own.
fn names(list: &[Value]) -> Option<Vec<&str>> {
    let name = |value: &'_ Value| NAMES.iter().find_map(|name| value.get(name).map(|_| *name));
    let names: Option<Vec<&str>> =
        list.iter().map(|value| value.get(name(value)?)?.as_str()).collect();
    let names = names?;
    let own: BTreeSet<&&str> = names.iter().collect();
    (own.len() == names.len()).then_some(names)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_and_named_elements_that_differ_are_named() {
        let before = json!({
            "podMaxBackoffSeconds": 10,
            "profiles": [
                {"schedulerName": "a", "plugins": {"score": {"enabled": [
                    {"name": "X", "weight": 1}, {"name": "Y", "weight": 1},
                ]}}},
                {"schedulerName": "b"},
            ],
            "list": [1, 2],
        });
        let after = json!({
            "podMaxBackoffSeconds": 20,
            "profiles": [
                {"schedulerName": "c"},
                {"schedulerName": "a", "plugins": {"score": {"enabled": [
                    {"name": "Y", "weight": 1}, {"name": "X", "weight": 2},
                ]}}},
            ],
            "list": [1, 3, 4],
        });
        assert_eq!(
            differences(&before, &after),
            [
                "list[1]: 2 -> 3",
                "list[2]: (none) -> 4",
                "podMaxBackoffSeconds: 10 -> 20",
                "profiles[a].plugins.score.enabled[X].weight: 1 -> 2",
                "profiles[a].plugins.score.enabled: the order X Y -> Y X",
                r#"profiles[b]: {"schedulerName":"b"} -> (none)"#,
                r#"profiles[c]: (none) -> {"schedulerName":"c"}"#,
            ]
        );
        assert!(differences(&before, &before).is_empty());
    }
}
