//! The configuration, and how it differs from the default one.

use serde::Serialize;
use serde_json::Value;

/// The configuration as the page shows it.
#[derive(Debug, Serialize)]
pub struct SeenConfiguration {
    /// The configuration in effect, as `/configz` has it.
    pub configuration: Value,
    /// How it differs from the default one, in the order of the fields.
    pub differences: Vec<Difference>,
}

/// A field of which the value is not the default one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The field, such as `profiles[0].schedulerName`.
    pub field: String,
    /// Its value; left out if the field is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The value by default; left out if the field is not there by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

impl SeenConfiguration {
    /// What there is to see of a configuration.
    pub fn new(configuration: Value, default: &Value) -> Self {
        let differences = differences(&configuration, default);
        SeenConfiguration { configuration, differences }
    }
}

/// The fields in which two documents differ. Elements of lists that have names are compared with those of the same name.
pub fn differences(value: &Value, default: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), Some(value), Some(default), &mut found);
    found
}

fn compare(
    field: String,
    value: Option<&Value>,
    default: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    match (value, default) {
        (Some(Value::Object(fields)), Some(Value::Object(defaults))) => {
            let added = defaults.keys().filter(|key| !fields.contains_key(*key));
            for key in fields.keys().chain(added) {
                let field = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
                compare(field, fields.get(key), defaults.get(key), found);
            }
        }
        (Some(Value::Array(values)), Some(Value::Array(defaults))) => {
            match (by_name(values), by_name(defaults)) {
                (Some(values), Some(defaults)) => {
                    for &(name, value) in &values {
                        let default = defaults.iter().find(|(other, _)| *other == name);
                        let default = default.map(|(_, default)| *default);
                        compare(format!("{field}[{name}]"), Some(value), default, found);
                    }
                    for &(name, default) in &defaults {
                        if !values.iter().any(|(other, _)| *other == name) {
                            compare(format!("{field}[{name}]"), None, Some(default), found);
                        }
                    }
                }
                _ => {
                    for at in 0..values.len().max(defaults.len()) {
                        let field = format!("{field}[{at}]");
                        compare(field, values.get(at), defaults.get(at), found);
                    }
                }
            }
        }
        _ if value == default => {}
        _ => found.push(Difference { field, value: value.cloned(), default: default.cloned() }),
    }
}

/// The elements of a list by their names, if all have different ones.
fn by_name(values: &[Value]) -> Option<Vec<(&str, &Value)>> {
    let mut named = Vec::new();
    for value in values {
        let name = value.get("name").and_then(Value::as_str)?;
        if named.iter().any(|(other, _)| *other == name) {
            return None;
        }
        named.push((name, value));
    }
    (!named.is_empty()).then_some(named)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plugin_is_compared_with_that_of_the_same_name() {
        let default =
            json!({"a": 1, "plugins": [{"name": "A", "weight": 1}, {"name": "B"}], "list": [1]});
        let value = json!({"a": 1, "plugins": [{"name": "B"}, {"name": "A", "weight": 2}], "list": [1, 2], "b": 3});
        let fields: Vec<String> = differences(&value, &default)
            .into_iter()
            .map(|one| format!("{}: {:?} instead of {:?}", one.field, one.value, one.default))
            .collect();
        assert_eq!(
            fields,
            [
                "b: Some(Number(3)) instead of None",
                "list[1]: Some(Number(2)) instead of None",
                "plugins[A].weight: Some(Number(2)) instead of Some(Number(1))",
            ]
        );
        assert_eq!(differences(&default, &default), []);
    }
}
