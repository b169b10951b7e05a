//! The args of the plugin.

use plimsoll_framework::prelude::*;
use serde::Deserialize;

/// `PodTopologySpreadArgs` of `kubescheduler.config.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct PodTopologySpreadArgs {
    /// The constraints of pods that have none; only with [`DefaultingType::List`].
    pub default_constraints: Vec<DefaultConstraint>,
    /// Where the default constraints come from.
    pub defaulting_type: DefaultingType,
}

/// Where the constraints of a pod without any come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum DefaultingType {
    /// The built-in ones: spread over hosts and zones if possible.
    #[default]
    System,
    /// `defaultConstraints`, which may be none.
    List,
}

/// A constraint for pods that have none. It has no selector: this is derived from the Services and the
/// controller of each pod.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefaultConstraint {
    /// The largest allowed difference between two domains; at least 1.
    pub max_skew: i32,
    /// The node label whose value makes a domain.
    pub topology_key: Str,
    /// What happens when it cannot be met.
    pub when_unsatisfiable: Unsatisfiable,
    /// With fewer eligible domains than this the least count is taken as 0; 1 unless given.
    pub min_domains: Option<i32>,
    /// Whether nodes that the pod's node selection excludes count as domains; `Honor` by default.
    pub node_affinity_policy: Option<InclusionPolicy>,
    /// Whether nodes with untolerated taints count as domains; `Ignore` by default.
    pub node_taints_policy: Option<InclusionPolicy>,
    /// Without effect, since the selector is derived for each pod.
    #[serde(default)]
    pub match_label_keys: Vec<Str>,
}

/// What happens when a constraint cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Unsatisfiable {
    /// The node is rejected.
    DoNotSchedule,
    /// The node scores less.
    ScheduleAnyway,
}

/// Whether nodes that the pod cannot use are excluded from counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum InclusionPolicy {
    /// It does.
    Honor,
    /// It does not.
    Ignore,
}

impl From<DefaultConstraint> for SpreadConstraint {
    fn from(default: DefaultConstraint) -> Self {
        let honored = |policy: Option<InclusionPolicy>, otherwise| match policy {
            Some(InclusionPolicy::Honor) => true,
            Some(InclusionPolicy::Ignore) => false,
            None => otherwise,
        };
        SpreadConstraint {
            max_skew: default.max_skew,
            topology_key: default.topology_key,
            when_unsatisfiable: match default.when_unsatisfiable {
                Unsatisfiable::DoNotSchedule => WhenUnsatisfiable::DoNotSchedule,
                Unsatisfiable::ScheduleAnyway => WhenUnsatisfiable::ScheduleAnyway,
            },
            selector: Selector::default(),
            without_label_keys: None,
            min_domains: default.min_domains.unwrap_or(1),
            honor_node_affinity: honored(default.node_affinity_policy, true),
            honor_node_taints: honored(default.node_taints_policy, false),
        }
    }
}
