//! Nodes that can be cleared for a pod, where extenders help to choose among them.

use plimsoll_api::Str;

use crate::pod_info::PodInfo;
use crate::post_filter::Nomination;

/// The reason if extenders have left no node. As in preemption.go, Preempt.
pub(crate) const NO_CANDIDATE: &str = "no candidate node for preemption";

/// A node that can be cleared for a pod. Extenders are asked about these nodes, and return those that remain.
#[derive(Clone, Debug)]
pub struct CandidateNode {
    /// The name of the node.
    pub node: Str,
    /// All pods that have to go, including those that are terminating. At least one.
    pub victims: Vec<PodInfo>,
    /// How many of the evictions would violate a PodDisruptionBudget. It is negative only if an extender
    /// said so.
    pub broken_budgets: i64,
}

impl CandidateNode {
    /// Nominates this node. Pods that are terminating already are not evicted again.
    pub fn nomination(&self) -> Nomination {
        let staying = self.victims.iter().filter(|victim| !victim.is_terminating());
        let victims = staying.map(|victim| victim.key.clone()).collect();
        let broken_budgets = self.broken_budgets;
        Nomination { node: self.node.clone(), victims, broken_budgets, says: "".into() }
    }
}
