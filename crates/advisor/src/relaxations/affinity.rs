//! The node selector, the node affinity, and the affinity to other pods.

use serde_json::{Value, json};

use super::{Relaxation, list, remove_at, remove_key};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const NODE_AFFINITY: &str = "/spec/affinity/nodeAffinity";
const NODE_TERMS: &str =
    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
const EXPRESSION_LISTS: [&str; 2] = ["matchExpressions", "matchFields"];
const POD_LISTS: [&str; 2] = ["podAffinity", "podAntiAffinity"];

/// All that the pod could give up of these.
pub(super) fn all_of(manifest: &Value) -> Vec<Relaxation> {
    let mut all = Vec::new();
    if let Some(selector) = manifest["spec"]["nodeSelector"].as_object() {
        all.extend(selector.keys().cloned().map(Relaxation::NodeLabel));
    }
    let terms = list(manifest, NODE_TERMS);
    // Terms are alternatives: less of one of several does not help where another one would do.
    if let [term] = terms {
        let n_expressions: usize =
            EXPRESSION_LISTS.iter().map(|name| list_of(term, name).len()).sum();
        for name in EXPRESSION_LISTS {
            // Without its last expression a term matches nothing.
            let of_term = 0..if 1 < n_expressions { list_of(term, name).len() } else { 0 };
            all.extend(of_term.map(|at| Relaxation::NodeExpression(name, at)));
        }
    }
    if !terms.is_empty() {
        all.push(Relaxation::NodeAffinity);
    }
    for name in POD_LISTS {
        let n_terms = list(manifest, &format!("/spec/affinity/{name}/{REQUIRED}")).len();
        all.extend((0..n_terms).map(|at| Relaxation::PodTerm(name, at)));
    }
    all
}

fn list_of<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn drop_label(manifest: &mut Value, key: &str) {
    remove_key(manifest, "/spec/nodeSelector", key);
}

pub(super) fn drop_expression(manifest: &mut Value, name: &str, at: usize) {
    remove_at(manifest, &format!("{NODE_TERMS}/0/{name}"), at);
}

pub(super) fn drop_node_affinity(manifest: &mut Value) {
    remove_key(manifest, NODE_AFFINITY, REQUIRED);
}

pub(super) fn drop_term(manifest: &mut Value, name: &str, at: usize) {
    remove_at(manifest, &format!("/spec/affinity/{name}/{REQUIRED}"), at);
}

/// Allows one more value of a label: it becomes an expression of the node affinity.
pub(super) fn allow_label(manifest: &mut Value, key: &str, value: &str) {
    let selector = manifest.pointer_mut("/spec/nodeSelector").and_then(Value::as_object_mut);
    let Some(before) = selector.and_then(|selector| selector.remove(key)) else {
        // Another value has been allowed before.
        allow_in_all_terms(manifest, key, value);
        return;
    };
    let expression = json!({"key": key, "operator": "In", "values": [before, value]});
    if list(manifest, NODE_TERMS).is_empty() {
        manifest["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] = json!([{}]);
    }
    let terms = manifest.pointer_mut(NODE_TERMS).and_then(Value::as_array_mut);
    for term in terms.into_iter().flatten() {
        let expressions = &mut term["matchExpressions"];
        match expressions.as_array_mut() {
            Some(all) => all.push(expression.clone()),
            None => *expressions = json!([expression.clone()]),
        }
    }
}

fn allow_in_all_terms(manifest: &mut Value, key: &str, value: &str) {
    let terms = manifest.pointer_mut(NODE_TERMS).and_then(Value::as_array_mut);
    for term in terms.into_iter().flatten() {
        // A term may have had an expression with this key before: the one that stands for the selector is the last.
        let expressions = term["matchExpressions"].as_array_mut().into_iter().flatten();
        let is_it = |one: &&mut Value| one["operator"] == "In" && one["key"] == key;
        let values = expressions.filter(is_it).last().and_then(|one| one["values"].as_array_mut());
        if let Some(values) = values {
            values.push(value.into());
        }
    }
}

/// Allows one more value in an expression with the operator `In`.
pub(super) fn allow_in_expression(manifest: &mut Value, name: &str, at: usize, value: &str) {
    let values = manifest.pointer_mut(&format!("{NODE_TERMS}/0/{name}/{at}/values"));
    if let Some(values) = values.and_then(Value::as_array_mut) {
        values.push(value.into());
    }
}

/// The keys that a node must have one of a few values of, each with these values: what allows one more.
pub(crate) fn widenable(manifest: &Value) -> Vec<Widenable> {
    let mut all = Vec::new();
    for (key, value) in manifest["spec"]["nodeSelector"].as_object().into_iter().flatten() {
        let values = value.as_str().map(ToOwned::to_owned).into_iter().collect();
        all.push(Widenable { key: key.clone(), values, expression: None });
    }
    if let [term] = list(manifest, NODE_TERMS) {
        // The other list names a field of the node, which is not a label.
        let name = EXPRESSION_LISTS[0];
        for (at, expression) in list_of(term, name).iter().enumerate() {
            if expression["operator"] == "In"
                && let Some(key) = expression["key"].as_str()
            {
                let values = list_of(expression, "values").iter().filter_map(Value::as_str);
                let values = values.map(ToOwned::to_owned).collect();
                all.push(Widenable { key: key.to_owned(), values, expression: Some((name, at)) });
            }
        }
    }
    all
}

/// A label of which a node must have one of a few values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Widenable {
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
    /// The expression that says so; `None` if the node selector does.
    expression: Option<(&'static str, usize)>,
}

impl Widenable {
    /// One more value is allowed.
    pub(crate) fn with(&self, value: &str) -> Relaxation {
        match self.expression {
            None => Relaxation::LabelValue(self.key.clone(), value.to_owned()),
            Some((list, at)) => Relaxation::ExpressionValue(list, at, value.to_owned()),
        }
    }
}

/// The key of an expression.
pub(super) fn key<'m>(manifest: &'m Value, name: &str, at: usize) -> &'m str {
    let key = manifest.pointer(&format!("{NODE_TERMS}/0/{name}/{at}/key"));
    key.and_then(Value::as_str).unwrap_or_default()
}

/// An expression as `kubectl` prints selectors.
pub(super) fn expression(manifest: &Value, name: &str, at: usize) -> String {
    manifest.pointer(&format!("{NODE_TERMS}/0/{name}/{at}")).map_or_else(String::new, requirement)
}

fn requirement(expression: &Value) -> String {
    let key = expression["key"].as_str().unwrap_or_default();
    let operator = expression["operator"].as_str().unwrap_or_default();
    let values: Vec<_> = list_of(expression, "values").iter().filter_map(Value::as_str).collect();
    match (operator, values.join(", ")) {
        ("Exists", _) => key.to_owned(),
        ("DoesNotExist", _) => format!("!{key}"),
        (operator, values) => format!("{key} {} ({values})", operator.to_lowercase()),
    }
}

pub(super) fn term_text(manifest: &Value, name: &str, at: usize) -> String {
    let term = manifest.pointer(&format!("/spec/affinity/{name}/{REQUIRED}/{at}"));
    let Some(term) = term else { return String::new() };
    let topology = term["topologyKey"].as_str().unwrap_or_default();
    let what = if name == "podAffinity" { "affinity" } else { "anti-affinity" };
    format!("drop the {what} to pods with {} in one {topology}", selector(&term["labelSelector"]))
}

/// A label selector in one line.
pub(crate) fn selector(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let expressions = list_of(selector, "matchExpressions").iter().map(requirement);
    let all: Vec<_> = labels.chain(expressions).collect();
    if all.is_empty() { "any labels".to_owned() } else { all.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_more_values_of_a_label_of_the_selector_are_allowed_in_each_term() {
        let own = json!({"key": "zone", "operator": "In", "values": ["c", "d"]});
        let other = json!({"key": "disk", "operator": "Exists"});
        let mut pod = json!({"spec": {"nodeSelector": {"zone": "a"}}});
        pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] =
            json!([{"matchExpressions": [own]}, {"matchExpressions": [other]}]);
        allow_label(&mut pod, "zone", "b");
        allow_label(&mut pod, "zone", "c");
        let allowed = json!({"key": "zone", "operator": "In", "values": ["a", "b", "c"]});
        let terms = [
            json!({"matchExpressions": [own, allowed]}),
            json!({"matchExpressions": [other, allowed]}),
        ];
        assert_eq!(list(&pod, NODE_TERMS), terms);
        assert_eq!(pod["spec"]["nodeSelector"], json!({}));
    }
}
