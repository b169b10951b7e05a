//! Node selectors of devices and allocations, as they are written and as they are tested.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::node_selector::NAME_FIELD;
use crate::{Labels, NodeSelectorTerm, Requirement, Str, Test};

/// A requirement of a node selector, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenRequirement {
    /// The label or field.
    pub key: Str,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, or anything else.
    pub operator: Str,
    /// The values, in their order.
    pub values: Vec<Str>,
}

/// A term of a node selector, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNodeTerm {
    /// `matchExpressions`, in their order.
    pub expressions: Vec<WrittenRequirement>,
    /// `matchFields`, in their order.
    pub fields: Vec<WrittenRequirement>,
}

/// A node selector of a slice, a device or an allocation. An allocation repeats the requirements of its devices, so they
/// are kept as they are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNodeSelector {
    terms: Vec<DeviceNodeTerm>,
    parsed: Result<Vec<NodeSelectorTerm>, Str>,
}

impl DeviceNodeSelector {
    /// A selector of these terms. `parsed` has what they mean, or the error of kube-scheduler's parser.
    pub(crate) fn new(
        terms: Vec<DeviceNodeTerm>,
        parsed: Result<Vec<NodeSelectorTerm>, Str>,
    ) -> Self {
        DeviceNodeSelector { terms, parsed }
    }

    /// The selector of one node, by its name.
    pub fn of_node(name: &str) -> Self {
        let values = vec![Str::from(name)];
        let written = WrittenRequirement {
            key: Str::const_new(NAME_FIELD),
            operator: Str::const_new("In"),
            values: values.clone(),
        };
        let parsed = Requirement { key: Str::const_new(NAME_FIELD), test: Test::In(values) };
        DeviceNodeSelector {
            terms: vec![DeviceNodeTerm { fields: vec![written], ..DeviceNodeTerm::default() }],
            parsed: Ok(vec![NodeSelectorTerm {
                fields: vec![parsed],
                ..NodeSelectorTerm::default()
            }]),
        }
    }

    /// The terms as they are written.
    pub fn terms(&self) -> &[DeviceNodeTerm] {
        &self.terms
    }

    /// The names of the only nodes that can be selected; `None` if labels decide, or the selector is not understood.
    pub fn names(&self) -> Option<Vec<Str>> {
        let [term] = &self.parsed.as_ref().ok()?[..] else { return None };
        term.fields.iter().find_map(|field| match &field.test {
            Test::In(names) if field.key == NAME_FIELD => Some(names.clone()),
            _ => None,
        })
    }

    /// Whether a node with this name and these labels is selected: one of the terms must match. The error is that of
    /// kube-scheduler's parser. As in component-helpers' nodeaffinity.go, NewNodeSelector.
    pub fn matches(&self, name: &str, labels: &Labels) -> Result<bool, &Str> {
        let terms = self.parsed.as_ref()?;
        Ok(terms.iter().any(|term| term.matches(name, labels)))
    }
}

/// As kube-scheduler prints it in errors.
impl fmt::Display for DeviceNodeSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requirements = |f: &mut fmt::Formatter<'_>, all: &[WrittenRequirement]| {
            f.write_str("[]NodeSelectorRequirement{")?;
            for WrittenRequirement { key, operator, values } in all {
                let values = values.join(" ");
                write!(f, "NodeSelectorRequirement{{Key:{key},Operator:{operator},")?;
                write!(f, "Values:[{values}],}},")?;
            }
            f.write_str("},")
        };
        f.write_str("&NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{")?;
        for term in &self.terms {
            f.write_str("NodeSelectorTerm{MatchExpressions:")?;
            requirements(f, &term.expressions)?;
            f.write_str("MatchFields:")?;
            requirements(f, &term.fields)?;
            f.write_str("},")?;
        }
        f.write_str("},}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_of_a_node_is_the_one_that_is_read_from_its_terms() {
        let selector = DeviceNodeSelector::of_node("n");
        assert_eq!(selector, DeviceNodeSelector::of(selector.terms().to_vec()));
        let none = Labels::default();
        assert_eq!(selector.matches("n", &none), Ok(true));
        assert_eq!(selector.matches("m", &none), Ok(false));
        assert_eq!(selector.names(), Some(vec!["n".into()]));
        assert_eq!(DeviceNodeSelector::of(Vec::new()).names(), None);
    }
}
