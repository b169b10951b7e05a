//! Topology spread constraints.

use serde::{Deserialize, Serialize};

use crate::{Selector, Str};

/// What happens when a constraint cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WhenUnsatisfiable {
    /// The node is rejected.
    DoNotSchedule,
    /// The node scores less.
    ScheduleAnyway,
}

/// Spreads the pods that `selector` matches evenly over the domains of `topology_key`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpreadConstraint {
    /// The largest allowed difference between two domains; at least 1.
    pub max_skew: i32,
    /// The node label whose value makes a domain.
    pub topology_key: Str,
    /// What happens when it cannot be met.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Which pods are counted, in the namespace of the pod; `matchLabelKeys` are merged in.
    pub selector: Selector,
    /// The selector without `matchLabelKeys`, if it differs: it is used if the gate
    /// `MatchLabelKeysInPodTopologySpread` is off.
    pub without_label_keys: Option<Box<Selector>>,
    /// With fewer eligible domains than this the lowest count is taken as 0. The default is 1.
    pub min_domains: i32,
    /// Whether only nodes that the pod's node selection allows count as domains (`Honor`, the default).
    pub honor_node_affinity: bool,
    /// Whether nodes with taints that the pod does not tolerate are excluded from the domains (by
    /// default they are not: `Ignore`).
    pub honor_node_taints: bool,
}
