//! Node selector terms: the conditions of a pod on the labels and the name of a node.

use serde::{Deserialize, Serialize};

use crate::{Labels, Requirement, Str, Test};

/// One term of a node selector. A term without conditions matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeSelectorTerm {
    /// Conditions on the labels of the node.
    pub labels: Vec<Requirement>,
    /// Conditions on its fields; `metadata.name` is the only one there is.
    pub fields: Vec<Requirement>,
    /// The errors that the parser of kube-scheduler reports for the term, with its messages and in its
    /// order. A term with errors matches no node. The API server accepts such terms.
    pub faults: Vec<Str>,
}

/// The one field a node selector may name.
pub const NAME_FIELD: &str = "metadata.name";

impl NodeSelectorTerm {
    /// Whether a node with these labels and this name meets the term.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        if !self.faults.is_empty() || self.labels.is_empty() && self.fields.is_empty() {
            return false;
        }
        self.labels.iter().all(|one| one.matches(labels))
            && self.fields.iter().all(|one| field_matches(one, name))
    }
}

fn field_matches(requirement: &Requirement, name: &str) -> bool {
    let holds = |values: &[Str]| values.iter().any(|value| value == name);
    match &requirement.test {
        Test::In(values) => requirement.key == NAME_FIELD && holds(values),
        // As for labels: a missing field differs from every value.
        Test::NotIn(values) => requirement.key != NAME_FIELD || !holds(values),
        Test::Exists | Test::DoesNotExist | Test::Gt(_) | Test::Lt(_) => false,
    }
}

/// On which nodes a pod may run: `nodeSelector` and the required node affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeSelection {
    /// `spec.nodeSelector`: labels the node must have.
    pub selector: Labels,
    /// Required node affinity: one of these terms must match. `None` where the pod has no such
    /// rule; a rule without terms matches no node.
    pub terms: Option<Vec<NodeSelectorTerm>>,
}

impl NodeSelection {
    /// Whether every node will do.
    pub fn is_any(&self) -> bool {
        self.selector.is_empty() && self.terms.is_none()
    }

    /// Whether a node with this name and these labels will do.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self
                .terms
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
    }
}

/// Preferred node affinity: terms with their weights, 1 to 100.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PreferredNodes(pub Vec<(i32, NodeSelectorTerm)>);

impl PreferredNodes {
    /// The error, if some term cannot be parsed: then nothing is preferred. As in component-helpers'
    /// nodeaffinity.go, `NewPreferredSchedulingTerms`, and in util/errors, where several errors become
    /// one.
    pub fn error(&self) -> Option<String> {
        let mut faults: Vec<String> = Vec::new();
        for (index, (_, term)) in self.0.iter().enumerate() {
            for fault in term.faults.iter().map(|fault| format!("[{index}].{fault}")) {
                if !faults.contains(&fault) {
                    faults.push(fault);
                }
            }
        }
        match faults.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }

    /// The weights of all terms that a node meets, added up.
    pub fn weight(&self, name: &str, labels: &Labels) -> i64 {
        let met = self.0.iter().filter(|(_, term)| term.matches(name, labels));
        met.map(|(weight, _)| i64::from(*weight)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(test: Test) -> NodeSelectorTerm {
        NodeSelectorTerm {
            fields: vec![Requirement { key: NAME_FIELD.into(), test }],
            ..NodeSelectorTerm::default()
        }
    }

    #[test]
    fn an_empty_term_and_a_rule_without_terms_match_no_node() {
        let none = Labels::default();
        assert!(!NodeSelectorTerm::default().matches("a", &none));
        let rule = NodeSelection { terms: Some(vec![]), ..NodeSelection::default() };
        assert!(!rule.matches("a", &none));
        assert!(NodeSelection::default().matches("a", &none));
    }

    #[test]
    fn a_field_term_judges_the_name_of_the_node() {
        let none = Labels::default();
        assert!(named(Test::In(vec!["a".into()])).matches("a", &none));
        assert!(!named(Test::In(vec!["a".into()])).matches("b", &none));
        assert!(named(Test::NotIn(vec!["a".into()])).matches("b", &none));
    }

    #[test]
    fn preferences_add_up_over_all_terms_that_match() {
        let term = |value: &str| NodeSelectorTerm {
            labels: vec![Requirement::equals("disk", value)],
            ..NodeSelectorTerm::default()
        };
        let wanted = PreferredNodes(vec![(3, term("ssd")), (4, term("ssd")), (9, term("hdd"))]);
        let labels = [("disk", "ssd")].into_iter().collect();
        assert_eq!(wanted.weight("a", &labels), 7);
    }

    #[test]
    fn a_term_that_cannot_be_parsed_matches_no_node_but_others_may() {
        let bad = NodeSelectorTerm {
            labels: vec![Requirement::equals("disk", "ssd")],
            faults: vec!["matchExpressions[1].key: bad".into()],
            ..NodeSelectorTerm::default()
        };
        let labels = [("disk", "ssd"), ("gen", "4")].into_iter().collect();
        assert!(!bad.matches("a", &labels));
        let good = NodeSelectorTerm {
            labels: vec![Requirement::equals("gen", "4")],
            ..NodeSelectorTerm::default()
        };
        let rule = |terms| NodeSelection { terms: Some(terms), ..NodeSelection::default() };
        assert!(!rule(vec![bad.clone()]).matches("a", &labels));
        assert!(rule(vec![bad.clone(), good.clone()]).matches("a", &labels));
        let error = |terms: Vec<NodeSelectorTerm>| {
            PreferredNodes(terms.into_iter().map(|term| (1, term)).collect()).error()
        };
        assert_eq!(error(vec![good.clone()]), None);
        let one = "[1].matchExpressions[1].key: bad";
        assert_eq!(error(vec![good, bad.clone()]).as_deref(), Some(one));
        let two = "[[0].matchExpressions[1].key: bad, [1].matchExpressions[1].key: bad]";
        assert_eq!(error(vec![bad.clone(), bad]).as_deref(), Some(two));
    }
}
