//! The args of NodeAffinity, which are valid, and what they ask of nodes.

use plimsoll_api::node_selector::NodeSelectorTerm;
use plimsoll_framework::label_syntax::{label_key_faults, label_value_faults};
use plimsoll_framework::prelude::*;
use serde::{Deserialize, Serialize};

use super::Added;

const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const FIELD_OPERATORS: [&str; 2] = ["In", "NotIn"];

/// `NodeAffinityArgs` of `kubescheduler.config.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct NodeAffinityArgs {
    #[serde(skip_serializing)]
    api_version: String,
    #[serde(skip_serializing)]
    kind: String,
    /// Node affinity that the profile adds to that of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_affinity: Option<AddedAffinity>,
}

/// The node affinity of a pod, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct AddedAffinity {
    #[serde(skip_serializing_if = "Option::is_none")]
    required_during_scheduling_ignored_during_execution: Option<WrittenNodeSelector>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    preferred_during_scheduling_ignored_during_execution: Vec<WrittenPreferredTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
struct WrittenNodeSelector {
    node_selector_terms: Vec<WrittenTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
struct WrittenPreferredTerm {
    weight: i32,
    preference: WrittenTerm,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
struct WrittenTerm {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<WrittenRequirement>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_fields: Vec<WrittenRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
struct WrittenRequirement {
    key: String,
    operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
}

impl AddedAffinity {
    /// Reports what is invalid in the node affinity at `field`.
    ///
    /// As in nodeaffinity.go, NewNodeSelector and NewPreferredSchedulingTerms: the path of a
    /// preferred term leaves `preference` out, and a term of weight 0 is not looked at.
    pub(super) fn validate(&self, field: &ArgsField, faults: &mut ArgsFaults) {
        if let Some(required) = &self.required_during_scheduling_ignored_during_execution {
            let field = field.key("requiredDuringSchedulingIgnoredDuringExecution");
            for (index, term) in required.node_selector_terms.iter().enumerate() {
                term.validate(&field.key("nodeSelectorTerms").index(index), faults);
            }
        }
        let field = field.key("preferredDuringSchedulingIgnoredDuringExecution");
        for (index, term) in
            self.preferred_during_scheduling_ignored_during_execution.iter().enumerate()
        {
            if term.weight != 0 {
                term.preference.validate(&field.index(index), faults);
            }
        }
    }
}

impl WrittenTerm {
    fn validate(&self, field: &ArgsField, faults: &mut ArgsFaults) {
        for (index, requirement) in self.match_expressions.iter().enumerate() {
            requirement.validate(&field.key("matchExpressions").index(index), faults);
        }
        for (index, requirement) in self.match_fields.iter().enumerate() {
            requirement.validate_as_field(&field.key("matchFields").index(index), faults);
        }
    }
}

impl WrittenRequirement {
    /// As in labels/selector.go, NewRequirement.
    fn validate(&self, field: &ArgsField, faults: &mut ArgsFaults) {
        if !OPERATORS.contains(&self.operator.as_str()) {
            faults.not_supported(field.key("operator"), &self.operator, &OPERATORS);
            return;
        }
        let key_faults = label_key_faults(&self.key);
        if !key_faults.is_empty() {
            faults.invalid(field.key("key"), &self.key, &key_faults.join("; "));
        }
        let values = field.key("values");
        match self.operator.as_str() {
            "In" | "NotIn" if self.values.is_empty() => {
                let rule = "for 'in', 'notin' operators, values set can't be empty";
                faults.invalid(values.clone(), &self.values, rule);
            }
            "Exists" | "DoesNotExist" if !self.values.is_empty() => {
                let rule = "values set must be empty for exists and does not exist";
                faults.invalid(values.clone(), &self.values, rule);
            }
            "Gt" | "Lt" => {
                if self.values.len() != 1 {
                    let rule = "for 'Gt', 'Lt' operators, exactly one value is required";
                    faults.invalid(values.clone(), &self.values, rule);
                }
                for (index, value) in self.values.iter().enumerate() {
                    if value.parse::<i64>().is_err() {
                        let rule = "for 'Gt', 'Lt' operators, the value must be an integer";
                        faults.invalid(values.index(index), value, rule);
                    }
                }
            }
            _ => {}
        }
        for (index, value) in self.values.iter().enumerate() {
            let value_faults = label_value_faults(value);
            if !value_faults.is_empty() {
                // Upstream's path goes on with the key of the label, which is no field there.
                faults.invalid(values.index(index), value, &value_faults.join("; "));
            }
        }
    }

    fn validate_as_field(&self, field: &ArgsField, faults: &mut ArgsFaults) {
        if !FIELD_OPERATORS.contains(&self.operator.as_str()) {
            faults.not_supported(field.key("operator"), &self.operator, &FIELD_OPERATORS);
        } else if self.values.len() != 1 {
            faults.invalid(field.key("values"), &self.values, "must have one element");
        }
    }
}

/// What valid args ask of nodes.
impl From<NodeAffinityArgs> for Added {
    fn from(args: NodeAffinityArgs) -> Self {
        let added = args.added_affinity.unwrap_or_default();
        let required = added.required_during_scheduling_ignored_during_execution;
        let terms = required
            .map(|selector| selector.node_selector_terms.into_iter().map(Into::into).collect());
        // As in nodeaffinity.go, NewPreferredSchedulingTerms: a term of weight 0 is not even read.
        let weighty = added
            .preferred_during_scheduling_ignored_during_execution
            .into_iter()
            .filter(|preferred| preferred.weight != 0)
            .map(|preferred| (preferred.weight, preferred.preference.into()));
        Added {
            required: terms
                .map(|terms| NodeSelection { selector: Labels::empty(), terms: Some(terms) }),
            preferred: PreferredNodes(weighty.collect()),
        }
    }
}

impl From<WrittenTerm> for NodeSelectorTerm {
    fn from(term: WrittenTerm) -> Self {
        let requirements =
            |all: Vec<WrittenRequirement>| all.into_iter().map(Requirement::from).collect();
        NodeSelectorTerm {
            labels: requirements(term.match_expressions),
            fields: requirements(term.match_fields),
            faults: Vec::new(),
        }
    }
}

impl From<WrittenRequirement> for Requirement {
    fn from(requirement: WrittenRequirement) -> Self {
        let WrittenRequirement { key, operator, values } = requirement;
        let bound = || values[0].parse().expect("a valid bound is one integer");
        let test = match operator.as_str() {
            "NotIn" => Test::NotIn(values.into_iter().map(Str::from).collect()),
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::DoesNotExist,
            "Gt" => Test::Gt(bound()),
            "Lt" => Test::Lt(bound()),
            _ => Test::In(values.into_iter().map(Str::from).collect()),
        };
        Requirement { key: key.into(), test }
    }
}
