//! Label selectors and node selectors on the wire.

use serde::Deserialize;

use super::error::{Result, WireError, Within, each};
use super::primitive::{List, Table};
use crate::devices::{DeviceNodeTerm, WrittenRequirement};
use crate::label_syntax::{label_key_faults, label_value_faults};
use crate::node_selector::NAME_FIELD;
use crate::{Labels, NodeSelectorTerm, Requirement, Selector, Str, Test};

const NOT_AN_OPERATOR: &str = "not a valid selector operator";

/// A `LabelSelector`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LabelSelector {
    match_labels: Table<Str>,
    match_expressions: List<Expression>,
}

/// A `NodeSelectorTerm`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeTerm {
    match_expressions: List<Expression>,
    match_fields: List<Expression>,
}

/// A `TopologySelectorTerm`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TopologyTerm {
    match_label_expressions: List<TopologyRequirement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TopologyRequirement {
    key: Option<Str>,
    values: List<Str>,
}

/// A requirement of a `LabelSelector` or a `NodeSelectorTerm`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Expression {
    key: Option<Str>,
    operator: Option<Str>,
    values: List<Str>,
}

impl LabelSelector {
    /// The selector, in canonical order.
    pub(super) fn take(self) -> Result<Selector> {
        let mut requirements: Vec<Requirement> =
            Labels::from(self.match_labels).iter().map(|(k, v)| equals(k, v)).collect();
        requirements.extend(each("matchExpressions", self.match_expressions, |expression| {
            let (key, operator, values) = expression.parts()?;
            set_test(&operator, values)?
                .map(|test| Requirement { key, test })
                .ok_or_else(|| WireError::invalid("operator", &operator, NOT_AN_OPERATOR))
        })?);
        Ok(Selector::All(canonical(requirements)))
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys`.
#[derive(Debug, Default)]
pub(super) struct LabelKeys {
    pub(super) matching: List<Str>,
    pub(super) mismatching: List<Str>,
}

impl LabelKeys {
    /// The selector with the label keys merged in, as the API server does when it stores a pod
    /// (pkg/registry/core/pod/strategy.go). If the selector already has a requirement for a key, the key has
    /// been merged before.
    pub(super) fn merged_into(&self, selector: &Selector, pod: &Labels) -> Selector {
        let Selector::All(named) = selector else { return Selector::Nothing };
        let matching = self.matching.0.iter().map(|key| (key, true));
        let mismatching = self.mismatching.0.iter().map(|key| (key, false));
        let added = matching.chain(mismatching).filter_map(|(key, matches)| {
            let is_merged = named.iter().any(|requirement| requirement.key == *key);
            let values = vec![pod.get(key).filter(|_| !is_merged)?.clone()];
            let test = if matches { Test::In(values) } else { Test::NotIn(values) };
            Some(Requirement { key: key.clone(), test })
        });
        Selector::All(canonical(named.iter().cloned().chain(added).collect()))
    }
}

/// The selector of a Service or ReplicationController: a plain map of labels, which selects nothing
/// when it is empty.
pub(super) fn plain_selector(labels: Table<Str>) -> Selector {
    if labels.0.is_empty() {
        return Selector::Nothing;
    }
    Selector::All(Labels::from(labels).iter().map(|(key, value)| equals(key, value)).collect())
}

impl NodeTerm {
    /// A term of these requirements.
    pub(super) fn new(term: &DeviceNodeTerm) -> Self {
        let expressions = |written: &[WrittenRequirement]| {
            let expressions = written.iter().cloned().map(|one| Expression {
                key: Some(one.key),
                operator: Some(one.operator),
                values: List(one.values),
            });
            List(expressions.collect())
        };
        NodeTerm {
            match_expressions: expressions(&term.expressions),
            match_fields: expressions(&term.fields),
        }
    }

    /// The term, in canonical order.
    pub(super) fn take(self) -> Result<NodeSelectorTerm> {
        let (mut faults, mut labels) = (Vec::new(), Vec::new());
        for (index, expression) in self.match_expressions.into_iter().enumerate() {
            let field = "matchExpressions";
            match expression.on_node_label().within_item(field, index)? {
                Ok(requirement) => labels.push(requirement),
                Err(found) => {
                    faults
                        .extend(found.into_iter().map(|fault| format!("{field}[{index}].{fault}")));
                }
            }
        }
        let fields = each("matchFields", self.match_fields, Expression::on_node_field)?;
        let faults = faults.into_iter().map(Str::from).collect();
        Ok(NodeSelectorTerm { labels: canonical(labels), fields: canonical(fields), faults })
    }
}

impl TopologyTerm {
    /// The same as a term of a node selector, in canonical order.
    pub(super) fn take(self) -> NodeSelectorTerm {
        let requirements = self.match_label_expressions.into_iter().map(|one| Requirement {
            key: one.key.unwrap_or_default(),
            test: Test::In(one.values.0),
        });
        NodeSelectorTerm {
            labels: canonical(requirements.collect()),
            ..NodeSelectorTerm::default()
        }
    }
}

impl Expression {
    fn parts(self) -> Result<(Str, Str, Vec<Str>)> {
        let key = self.key.unwrap_or_default();
        if key.is_empty() {
            return Err(WireError::required("key", "name the key that is tested"));
        }
        Ok((key, self.operator.unwrap_or_default(), self.values.0))
    }

    /// As in validation.go, ValidateNodeSelectorRequirement: the outer error is for what the API server rejects. The
    /// inner error is for what only the scheduler's parser rejects, as in labels/selector.go, NewRequirement.
    fn on_node_label(self) -> Result<std::result::Result<Requirement, Vec<WireError>>> {
        let (key, operator, values) = self.parts()?;
        let (of_key, of_values) = (key_fault(&key), value_faults(&key, &values));
        let test = match operator.as_str() {
            "Gt" => bound(&values)?.map(Test::Gt),
            "Lt" => bound(&values)?.map(Test::Lt),
            other => set_test(other, values)?
                .map(Ok)
                .ok_or_else(|| WireError::invalid("operator", other, NOT_AN_OPERATOR))?,
        };
        Ok(match (test, of_key) {
            (Ok(test), None) if of_values.is_empty() => Ok(Requirement { key, test }),
            (test, of_key) => Err(of_key.into_iter().chain(test.err()).chain(of_values).collect()),
        })
    }

    /// As in validation.go, ValidateNodeFieldSelectorRequirement.
    fn on_node_field(self) -> Result<Requirement> {
        let (key, operator, values) = self.parts()?;
        let one = || match values.len() {
            1 => Ok(values.clone()),
            _ => Err(WireError::required(
                "values",
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            )),
        };
        let test = match operator.as_str() {
            "In" => Test::In(one()?),
            "NotIn" => Test::NotIn(one()?),
            other => return Err(WireError::invalid("operator", other, NOT_AN_OPERATOR)),
        };
        if key != NAME_FIELD {
            return Err(WireError::invalid("key", &key, "not a valid field selector key"));
        }
        Ok(Requirement { key, test })
    }
}

fn equals(key: &Str, value: &Str) -> Requirement {
    Requirement::equals(key.clone(), value.clone())
}

/// The operators that all label selectors have; `None` for any other.
fn set_test(operator: &str, values: Vec<Str>) -> Result<Option<Test>> {
    match (operator, values.is_empty()) {
        ("In", false) => Ok(Some(Test::In(values))),
        ("NotIn", false) => Ok(Some(Test::NotIn(values))),
        ("In" | "NotIn", true) => Err(WireError::required(
            "values",
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        ("Exists", true) => Ok(Some(Test::Exists)),
        ("DoesNotExist", true) => Ok(Some(Test::DoesNotExist)),
        ("Exists" | "DoesNotExist", false) => Err(WireError::forbidden(
            "values",
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        _ => Ok(None),
    }
}

/// The only value of `Gt` and `Lt`. The inner error is for a value that is no integer, which the API server accepts.
fn bound(values: &[Str]) -> Result<std::result::Result<i64, WireError>> {
    let [value] = values else {
        return Err(WireError::required(
            "values",
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        ));
    };
    Ok(value.parse().map_err(|_| {
        let rule = "for 'Gt', 'Lt' operators, the value must be an integer";
        WireError::invalid("values[0]", value, rule)
    }))
}

/// The fault of a label key, if any.
fn key_fault(key: &str) -> Option<WireError> {
    let faults = label_key_faults(key);
    (!faults.is_empty()).then(|| WireError::invalid("key", key, faults.join("; ")))
}

/// The faults of the values that a label is compared with.
fn value_faults(key: &str, values: &[Str]) -> Vec<WireError> {
    let fault = |(index, value): (usize, &Str)| {
        let faults = label_value_faults(value);
        let field = || format!("values[{index}][{key}]");
        (!faults.is_empty()).then(|| WireError::invalid(&field(), value, faults.join("; ")))
    };
    values.iter().enumerate().filter_map(fault).collect()
}

/// Sorts requirements. All must hold, so their order does not matter, and equal sets become equal values.
fn canonical(mut requirements: Vec<Requirement>) -> Vec<Requirement> {
    for requirement in &mut requirements {
        if let Test::In(values) | Test::NotIn(values) = &mut requirement.test {
            values.sort_unstable();
            values.dedup();
        }
    }
    requirements.sort_unstable();
    requirements.dedup();
    requirements
}

/// The selector in `field`, if it is given.
pub(super) fn optional(field: &str, selector: Option<LabelSelector>) -> Result<Selector> {
    selector.map_or(Ok(Selector::Nothing), LabelSelector::take).within(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{show_requirements, show_selector, table};

    #[test]
    fn a_label_selector_becomes_requirements_in_canonical_order() {
        table(
            LabelSelector::take,
            &[
                ("{}", "everything"),
                (r#"{"matchLabels":{"b":"2","a":"1"}}"#, "a in [1], b in [2]"),
                (
                    r#"{"matchExpressions":[{"key":"b","operator":"NotIn","values":["z","y","z"]},
                        {"key":"a","operator":"Exists","values":null}],"matchLabels":{"c":"1"}}"#,
                    "a exists, b not in [y, z], c in [1]",
                ),
                (r#"{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}"#, "a absent"),
                (
                    r#"{"matchExpressions":[{"key":"a","operator":"In"}]}"#,
                    "matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                ),
                (
                    r#"{"matchExpressions":[{"key":"a","operator":"Exists","values":["b"]}]}"#,
                    "matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ),
                (
                    r#"{"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]}"#,
                    r#"matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator"#,
                ),
                (
                    r#"{"matchExpressions":[{"operator":"Exists"}]}"#,
                    "matchExpressions[0].key: Required value: name the key that is tested",
                ),
                (
                    r#"{"matchExpressions":[{"key":"a","operator":"In","values":"b"}]}"#,
                    r#"matchExpressions[0].values: invalid type: string "b", expected a sequence"#,
                ),
            ],
            |selector| show_selector(&selector),
        );
    }

    #[test]
    fn label_keys_are_merged_once_and_only_where_the_pod_has_the_label() {
        let pod: Labels = [("app", "web"), ("rev", "7")].into_iter().collect();
        let keys = || LabelKeys {
            matching: List(vec!["rev".into(), "none".into()]),
            mismatching: List(vec!["app".into()]),
        };
        table(
            |selector: LabelSelector| Ok(keys().merged_into(&selector.take()?, &pod)),
            &[
                ("{}", "app not in [web], rev in [7]"),
                (r#"{"matchLabels":{"a":"b"}}"#, "a in [b], app not in [web], rev in [7]"),
                (r#"{"matchLabels":{"rev":"6"}}"#, "app not in [web], rev in [6]"),
                (
                    r#"{"matchExpressions":[{"key":"app","operator":"NotIn","values":["db"]}]}"#,
                    "app not in [db], rev in [7]",
                ),
            ],
            |selector| show_selector(&selector),
        );
    }

    #[test]
    fn a_plain_selector_without_labels_selects_nothing() {
        table(
            |labels| Ok(plain_selector(labels)),
            &[("{}", "nothing"), ("null", "nothing"), (r#"{"a":"b"}"#, "a in [b]")],
            |selector| show_selector(&selector),
        );
    }

    #[test]
    fn a_node_selector_term_is_read_as_the_api_server_validates_it() {
        table(
            NodeTerm::take,
            &[
                ("{}", " / "),
                (
                    r#"{"matchExpressions":[{"key":"gen","operator":"Gt","values":["4"]},
                        {"key":"disk","operator":"In","values":["ssd"]}]}"#,
                    "disk in [ssd], gen > 4 / ",
                ),
                (
                    r#"{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["a"]}]}"#,
                    " / metadata.name not in [a]",
                ),
                (
                    r#"{"matchExpressions":[{"key":"gen","operator":"Lt","values":["1","2"]}]}"#,
                    "matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                ),
                (
                    r#"{"matchExpressions":[{"key":"gen","operator":"NotIn","values":[]}]}"#,
                    "matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                ),
                (
                    r#"{"matchExpressions":[{"key":"a","operator":"in"}]}"#,
                    r#"matchExpressions[0].operator: Invalid value: "in": not a valid selector operator"#,
                ),
                (
                    r#"{"matchFields":[{"key":"metadata.uid","operator":"In","values":["a"]}]}"#,
                    r#"matchFields[0].key: Invalid value: "metadata.uid": not a valid field selector key"#,
                ),
                (
                    r#"{"matchFields":[{"key":"metadata.name","operator":"Exists"}]}"#,
                    r#"matchFields[0].operator: Invalid value: "Exists": not a valid selector operator"#,
                ),
                (
                    r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["a","b"]}]}"#,
                    "matchFields[0].values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
                ),
            ],
            |term| {
                format!("{} / {}", show_requirements(&term.labels), show_requirements(&term.fields))
            },
        );
    }

    #[test]
    fn a_term_that_only_the_parser_of_the_scheduler_rejects_is_kept_with_its_faults() {
        let label = "a valid label must be an empty string or consist of alphanumeric characters, '-', \
                     '_' or '.', and must start and end with an alphanumeric character (e.g. \
                     'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        let integer = "for 'Gt', 'Lt' operators, the value must be an integer";
        table(
            NodeTerm::take,
            &[
                (
                    r#"{"matchExpressions":[{"key":"gen","operator":"Gt","values":["four"]},
                        {"key":"disk","operator":"Exists"}],
                        "matchFields":[{"key":"metadata.name","operator":"In","values":["a"]}]}"#,
                    &format!(
                        r#"metadata.name in [a]; matchExpressions[0].values[0]: Invalid value: "four": {integer}"#
                    ),
                ),
                (
                    r#"{"matchExpressions":[{"key":"disk","operator":"Exists"},
                        {"key":"gen","operator":"Lt","values":["9223372036854775808"]}]}"#,
                    &format!(
                        r#"; matchExpressions[1].values[0]: Invalid value: "9223372036854775808": {integer}"#
                    ),
                ),
                (
                    r#"{"matchExpressions":[{"key":"gen","operator":"Gt","values":["-4"]}]}"#,
                    &format!(
                        r#"; matchExpressions[0].values[0][gen]: Invalid value: "-4": {label}"#
                    ),
                ),
                (
                    r#"{"matchExpressions":[{"key":"disk","operator":"In","values":["ssd","a b"]}]}"#,
                    &format!(
                        r#"; matchExpressions[0].values[1][disk]: Invalid value: "a b": {label}"#
                    ),
                ),
            ],
            |term| format!("{}; {}", show_requirements(&term.fields), term.faults.join(", ")),
        );
    }
}
