//! What a profile may set, and which of it is valid.

use plimsoll_framework::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) const SYSTEM: &str = "System";
pub(super) const LIST: &str = "List";
const DEFAULTING_TYPES: [&str; 2] = [SYSTEM, LIST];
const SCHEDULE_ANYWAY: &str = "ScheduleAnyway";
const WHEN_UNSATISFIABLE: [&str; 2] = ["DoNotSchedule", SCHEDULE_ANYWAY];
const HONOR: &str = "Honor";
const INCLUSION_POLICIES: [&str; 2] = [HONOR, "Ignore"];

/// `PodTopologySpreadArgs` of `kubescheduler.config.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct PodTopologySpreadArgs {
    #[serde(skip_serializing)]
    api_version: String,
    #[serde(skip_serializing)]
    kind: String,
    /// The constraints of pods that have none, with the defaulting type `List`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub default_constraints: Vec<DefaultConstraint>,
    /// Where the default constraints come from: `System`, the scheduler's own, which spread over hosts and
    /// zones where possible; or `List`, those above, which may be none.
    pub defaulting_type: String,
}

/// A constraint for pods that have none. It has no selector: this is derived from the Services and the
/// controller of each pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct DefaultConstraint {
    /// The largest allowed difference between two domains; at least 1.
    pub max_skew: i32,
    /// The node label whose value makes a domain.
    pub topology_key: String,
    /// What happens when it cannot be met: `DoNotSchedule` rejects the node, with `ScheduleAnyway` it scores
    /// less.
    pub when_unsatisfiable: String,
    /// Must not be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<Value>,
    /// With fewer eligible domains than this the least count is taken as 0; 1 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<i32>,
    /// Whether nodes that the pod's node selection excludes make domains: not if `Honor`, as it is unless
    /// given, but if `Ignore`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_policy: Option<String>,
    /// Whether nodes with untolerated taints make domains, in the same way; `Ignore` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_taints_policy: Option<String>,
    /// Without effect: the selector that is made for the pod takes its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
}

impl PodTopologySpreadArgs {
    pub(super) fn complete(&mut self) {
        if self.defaulting_type.is_empty() {
            SYSTEM.clone_into(&mut self.defaulting_type);
        }
    }

    /// As in validation_pluginargs.go, ValidatePodTopologySpreadArgs.
    pub(super) fn validate(&self, faults: &mut ArgsFaults) {
        let type_field = ArgsField::default().key("defaultingType");
        let defaulting = self.defaulting_type.as_str();
        if !DEFAULTING_TYPES.contains(&defaulting) {
            faults.not_supported(type_field, defaulting, &DEFAULTING_TYPES);
        } else if defaulting == SYSTEM && !self.default_constraints.is_empty() {
            faults.invalid(type_field, defaulting, "when .defaultConstraints are not empty");
        }
        let field = ArgsField::default().key("defaultConstraints");
        for (index, one) in self.default_constraints.iter().enumerate() {
            one.validate(&field.index(index), faults);
            let is_repeated = self.default_constraints[..index].iter().any(|other| {
                other.topology_key == one.topology_key
                    && other.when_unsatisfiable == one.when_unsatisfiable
            });
            if is_repeated {
                let value = format!("{{{}, {}}}", one.topology_key, one.when_unsatisfiable);
                faults.duplicate(field.index(index), value);
            }
        }
    }
}

impl DefaultConstraint {
    fn validate(&self, field: &ArgsField, faults: &mut ArgsFaults) {
        if self.max_skew <= 0 {
            faults.invalid(field.key("maxSkew"), self.max_skew, "not in valid range (0, inf)");
        }
        let key_field = field.key("topologyKey");
        match self.topology_key.as_str() {
            "" => faults.required(key_field, "can not be empty"),
            key => faults.label_key(key, &key_field),
        }
        let when_field = field.key("whenUnsatisfiable");
        match self.when_unsatisfiable.as_str() {
            "" => faults.required(when_field, "can not be empty"),
            when if WHEN_UNSATISFIABLE.contains(&when) => {}
            when => faults.not_supported(when_field, when, &WHEN_UNSATISFIABLE),
        }
        if self.label_selector.is_some() {
            let rule = "constraint must not define a selector, as they deduced for each pod";
            faults.forbidden(field.key("labelSelector"), rule);
        }
        // Upstream does not look at these.
        for (key, policy) in [
            ("nodeAffinityPolicy", &self.node_affinity_policy),
            ("nodeTaintsPolicy", &self.node_taints_policy),
        ] {
            if let Some(policy) = policy
                && !INCLUSION_POLICIES.contains(&policy.as_str())
            {
                let message = format!("unknown variant `{policy}`, expected `Honor` or `Ignore`");
                faults.report(field.key(key), message);
            }
        }
    }
}

/// The constraint of valid args.
impl From<DefaultConstraint> for SpreadConstraint {
    fn from(default: DefaultConstraint) -> Self {
        let honored = |policy: Option<String>, otherwise| match policy {
            Some(policy) => policy == HONOR,
            None => otherwise,
        };
        SpreadConstraint {
            max_skew: default.max_skew,
            topology_key: default.topology_key.into(),
            when_unsatisfiable: match default.when_unsatisfiable.as_str() {
                SCHEDULE_ANYWAY => WhenUnsatisfiable::ScheduleAnyway,
                _ => WhenUnsatisfiable::DoNotSchedule,
            },
            selector: Selector::default(),
            without_label_keys: None,
            min_domains: default.min_domains.unwrap_or(1),
            honor_node_affinity: honored(default.node_affinity_policy, true),
            honor_node_taints: honored(default.node_taints_policy, false),
        }
    }
}
