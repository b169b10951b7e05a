//! Nodes that can be cleared for a pod, where somebody beside the plugin has a say in which one is.

use plimsoll_api::Str;

use crate::pod_info::PodInfo;
use crate::post_filter::Nomination;

/// The text when extenders have left no node. As in preemption.go, Preempt.
pub(crate) const NO_CANDIDATE: &str = "no candidate node for preemption";

/// A node that can be cleared for a pod: what extenders are asked about, and what they leave.
#[derive(Clone, Debug)]
pub struct CandidateNode {
    /// The name of the node.
    pub node: Str,
    /// All pods that have to go, those that are going already among them. At least one.
    pub victims: Vec<PodInfo>,
    /// How many of the evictions would break a PodDisruptionBudget; not negative, unless an extender
    /// said so.
    pub broken_budgets: i64,
}

impl CandidateNode {
    /// The choice of this node. Who is going already need not be told to.
    pub fn nomination(&self) -> Nomination {
        let staying = self.victims.iter().filter(|victim| !victim.is_terminating());
        let victims = staying.map(|victim| victim.key.clone()).collect();
        Nomination { node: self.node.clone(), victims, says: "".into() }
    }
}
