//! A ranking of nodes that a profile uses in place of its Score plugins.

use std::fmt;
use std::sync::Arc;

use crate::columns::Row;
use crate::pod_info::PodInfo;
use crate::view::View;

/// Ranks all feasible nodes of a pod at once, in place of the Score plugins of a profile. It is for rules that are not
/// plugins, such as the priorities of old releases: their points may be on another scale, and the points of a node may
/// depend on all other nodes.
///
/// It may read the whole cluster, so all decisions with it are made from scratch. The points of each [`Prioritized`]
/// are multiplied by its weight and added up. The nodes with the highest sum are the best.
pub trait Prioritize: fmt::Debug + Send + Sync {
    /// The most points that one rule may give a node, before its weight. The scores of extenders, 0 to 10, are
    /// converted to this scale.
    fn most(&self) -> i64;

    /// The points that each rule gives to the nodes `feasible`, in their order.
    fn prioritize(&self, pod: &PodInfo, view: View<'_>, feasible: &[Row]) -> Vec<Prioritized>;
}

/// The points that one rule gives to the feasible nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prioritized {
    /// The name of the rule.
    pub name: Arc<str>,
    /// The factor of its points.
    pub weight: i64,
    /// The points before the weight, in the order of the nodes.
    pub points: Vec<i64>,
}
