//! The nominated node of a pod, which is tried before all other nodes.
//!
//! As in schedule_one.go, evaluateNominatedNode: a node was cleared for the pod, or somebody proposed one. If
//! it is feasible, no other node is judged. If not, all nodes are judged, and its rejection is reported
//! beside those of the others. As for any node, other pods that are nominated to it and have the same or a
//! higher priority must have room there, too. If it cannot be judged, it counts like any other node.
//!
//! This is the rule, and [`NominatedNodeJudge`] the two ways to apply it: by filters that were prepared for
//! the pod, and from a node ranking. Extenders are asked only after the filters, by the
//! [cycle](crate::cycle).

use plimsoll_api::Str;
use plimsoll_framework::{NodeRejection, NominatedPods, PodInfo, Row};

/// What is known of a pod's nominated node after the filters.
pub(crate) enum NominatedNode<R = NodeRejection> {
    /// The pod has none, or it counts like any other node.
    None,
    /// All filters pass it.
    Passes(Row),
    /// A filter rejects it.
    Rejected(R),
}

/// Judges the nominated node of one pod.
pub(crate) trait NominatedNodeJudge {
    /// How a node is named.
    type Node;
    /// How a rejection is described.
    type Rejection;
    /// Why there may be no verdict.
    type Error;

    /// The node with this name; `None` if the cluster has no such node.
    fn find(&self, name: &Str) -> Option<Self::Node>;

    /// Judges the node for this pod with the other nominated pods ahead of it, and as it is.
    fn judge(&mut self, node: Self::Node) -> Result<NominatedNode<Self::Rejection>, Self::Error>;
}

/// Tries the nominated node of a pod, if it has one.
pub(crate) fn try_nominated_node<J: NominatedNodeJudge>(
    pod: &PodInfo,
    nominated: &NominatedPods,
    judge: impl FnOnce() -> J,
) -> Result<NominatedNode<J::Rejection>, J::Error> {
    let Some(name) = nominated.node_of(&pod.key) else { return Ok(NominatedNode::None) };
    let mut judge = judge();
    match judge.find(name) {
        Some(node) => judge.judge(node),
        None => Ok(NominatedNode::None),
    }
}
