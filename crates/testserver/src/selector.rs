//! Label selectors, in the form of queries and of objects, and field selectors.

use serde_json::Value;

use crate::failure::FailureStatus;
use crate::kinds::ResourceKind;
use crate::store::Stored;

/// The selection of a list or a watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// Only this namespace.
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Vec<SelectorRequirement>,
    pub(crate) fields: Vec<FieldRequirement>,
}

impl Selection {
    pub(crate) fn is_narrow(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Stored) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == object.namespace)
            && self.labels.iter().all(|requirement| requirement.matches(object.labels()))
            && self.fields.iter().all(|requirement| requirement.matches(object))
    }
}

/// One part of a label selector; all must hold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SelectorRequirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

impl SelectorRequirement {
    pub(crate) fn matches(&self, labels: &[(String, String)]) -> bool {
        let value = labels.iter().find(|(key, _)| *key == self.key).map(|(_, value)| value);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::Greater(bound) => number().is_some_and(|number| *bound < number),
            Operator::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// Reads `app=web,tier in (a, b),!old,cores>3`.
pub(crate) fn parse_labels(text: &str) -> Result<Vec<SelectorRequirement>, FailureStatus> {
    let parts = split_outside_parentheses(text);
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.map(|part| requirement(part).ok_or_else(|| unreadable(text, part))).collect()
}

fn unreadable(text: &str, part: &str) -> FailureStatus {
    FailureStatus::bad_request(format!("unable to parse requirement {part:?} of selector {text:?}"))
}

/// Splits at commas, except within sets.
fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let is_end = move |c: char| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        c == ',' && depth == 0
    };
    text.split(is_end).collect()
}

fn requirement(part: &str) -> Option<SelectorRequirement> {
    if let Some(key) = part.strip_prefix('!') {
        return Some(SelectorRequirement { key: key_of(key)?, operator: Operator::Absent });
    }
    if let Some(set) = part.strip_suffix(')') {
        let (head, values) = set.split_once('(')?;
        let mut head = head.split_whitespace();
        let (key, word) = (head.next()?, head.next()?);
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let operator = match word {
            "in" => Operator::In(values),
            "notin" => Operator::NotIn(values),
            _ => return None,
        };
        return head
            .next()
            .is_none()
            .then_some(SelectorRequirement { key: key_of(key)?, operator });
    }
    let Some(at) = part.find(['=', '!', '<', '>']) else {
        return Some(SelectorRequirement { key: key_of(part)?, operator: Operator::Exists });
    };
    let (key, rest) = part.split_at(at);
    let operator = if let Some(value) = rest.strip_prefix("!=") {
        Operator::NotIn(vec![value.trim().to_owned()])
    } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        Operator::In(vec![value.trim().to_owned()])
    } else if let Some(value) = rest.strip_prefix('>') {
        Operator::Greater(value.trim().parse().ok()?)
    } else {
        Operator::Less(rest.strip_prefix('<')?.trim().parse().ok()?)
    };
    Some(SelectorRequirement { key: key_of(key)?, operator })
}

fn key_of(text: &str) -> Option<String> {
    let key = text.trim();
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    (!key.is_empty() && key.chars().all(is_word)).then(|| key.to_owned())
}

/// Reads a `LabelSelector` object. `None` if it cannot be read or is empty: such a selector of a budget covers nothing.
pub(crate) fn of_object(selector: &Value) -> Option<Vec<SelectorRequirement>> {
    let mut all = Vec::new();
    if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
        for (key, value) in labels {
            let values = vec![value.as_str()?.to_owned()];
            all.push(SelectorRequirement { key: key.clone(), operator: Operator::In(values) });
        }
    }
    for expression in
        selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten()
    {
        let values = expression.get("values").and_then(Value::as_array);
        let values = values.into_iter().flatten().filter_map(Value::as_str);
        let values = values.map(str::to_owned).collect();
        let operator = match expression.get("operator")?.as_str()? {
            "In" => Operator::In(values),
            "NotIn" => Operator::NotIn(values),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::Absent,
            _ => return None,
        };
        all.push(SelectorRequirement {
            key: expression.get("key")?.as_str()?.to_owned(),
            operator,
        });
    }
    (!all.is_empty()).then_some(all)
}

/// One part of a field selector.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldRequirement {
    field: SelectorField,
    value: String,
    equal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum SelectorField {
    Name,
    Namespace,
    /// The place in `ResourceKind::fields`.
    OfKind(usize),
}

impl FieldRequirement {
    fn matches(&self, object: &Stored) -> bool {
        let value = match self.field {
            SelectorField::Name => &object.name,
            SelectorField::Namespace => &object.namespace,
            SelectorField::OfKind(at) => object.field(at),
        };
        (value == self.value) == self.equal
    }
}

/// Reads `spec.nodeName=n1,status.phase!=Failed`; a field that the kind does not offer is an error.
pub(crate) fn parse_fields(
    kind: &ResourceKind,
    text: &str,
) -> Result<Vec<FieldRequirement>, FailureStatus> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| field_requirement(kind, text, part)).collect()
}

fn field_requirement(
    kind: &ResourceKind,
    text: &str,
    part: &str,
) -> Result<FieldRequirement, FailureStatus> {
    let split = |by: &str| part.split_once(by);
    let (name, value, equal) = split("!=")
        .map(|(name, value)| (name, value, false))
        .or_else(|| split("==").or_else(|| split("=")).map(|(name, value)| (name, value, true)))
        .ok_or_else(|| {
            let why = format!("invalid field selector: {text:?}; can't understand {part:?}");
            FailureStatus::bad_request(why)
        })?;
    let field = match name {
        "metadata.name" => SelectorField::Name,
        "metadata.namespace" if kind.namespaced => SelectorField::Namespace,
        name => {
            let place = kind.fields.iter().position(|(field, _)| *field == name);
            let unknown =
                || FailureStatus::bad_request(format!("field label not supported: {name}"));
            SelectorField::OfKind(place.ok_or_else(unknown)?)
        }
    };
    Ok(FieldRequirement { field, value: value.to_owned(), equal })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels: Vec<_> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let requirements = parse_labels(selector).expect("the selector is valid");
        requirements.iter().all(|requirement| requirement.matches(&labels))
    }

    #[test]
    fn every_operator_of_a_query_selects() {
        let web = [("app", "web"), ("tier", "a"), ("cores", "4")];
        for yes in [
            "",
            "app=web",
            "app==web",
            "app!=db",
            "app",
            "!old",
            "tier in (a, b)",
            "tier notin (b,c),app in (web)",
            "cores>3",
            "cores<5,app = web",
            "missing notin (x)",
        ] {
            assert!(matches(yes, &web), "{yes}");
        }
        for no in ["app=db", "app!=web", "old", "!app", "tier in (b)", "tier notin (a)", "cores>4"]
        {
            assert!(!matches(no, &web), "{no}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for bad in ["=x", "a in b", "a within (b)", "a>b", "a b", "a in (b"] {
            assert_eq!(parse_labels(bad).map_err(|failure| failure.code), Err(400), "{bad}");
        }
    }

    #[test]
    fn an_empty_selector_of_a_budget_covers_nothing() {
        assert_eq!(of_object(&json!({})), None);
        let selector =
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]});
        let requirements = of_object(&selector).expect("the selector is valid");
        assert!(requirements[0].matches(&[("a".to_owned(), "b".to_owned())]));
    }

    #[test]
    fn only_fields_of_the_kind_can_be_asked_for() {
        let pods = crate::kinds::named("pods").expect("the table has pods").kind();
        assert!(parse_fields(pods, "spec.nodeName=,status.phase!=Failed").is_ok());
        let failure = parse_fields(pods, "spec.image=x").expect_err("no such field");
        assert_eq!(failure.message, "field label not supported: spec.image");
    }
}
