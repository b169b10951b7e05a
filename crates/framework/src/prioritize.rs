//! A ranking of its own for a profile: one object in place of all Score plugins.

use std::fmt;
use std::sync::Arc;

use crate::columns::Row;
use crate::pod_info::PodInfo;
use crate::view::View;

/// Ranks the feasible nodes of a pod all at once, in place of the Score plugins of a profile. It is for
/// rules that are no plugins, such as priorities of old releases: their points may be on another scale, and
/// those of one node may depend on all others.
///
/// It may look at the whole cluster, so that every decision by it is made from scratch. Each
/// [`Prioritized`] times its weight is added up, and the nodes with the highest sum are the best.
pub trait Prioritize: fmt::Debug + Send + Sync {
    /// The most points that one rule may give a node, before its weight. Extenders, which rank by 0 to 10,
    /// are brought to the same scale.
    fn most(&self) -> i64;

    /// What each rule says of each of `feasible`, in their order.
    fn prioritize(&self, pod: &PodInfo, view: View<'_>, feasible: &[Row]) -> Vec<Prioritized>;
}

/// What one rule says of every feasible node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prioritized {
    /// The name of the rule.
    pub name: Arc<str>,
    /// What its points are multiplied with.
    pub weight: i64,
    /// The points before the weight, in the order of the nodes.
    pub points: Vec<i64>,
}
