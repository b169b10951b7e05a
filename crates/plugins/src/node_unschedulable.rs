//! NodeUnschedulable: cordoned nodes.

use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;

use crate::node_change::NodeChange;

const UNSCHEDULABLE: &str = "node(s) were unschedulable";

/// The taint that stands for a cordoned node.
static CORDON: Taint = Taint {
    key: Str::const_new("node.kubernetes.io/unschedulable"),
    value: Str::const_new(""),
    effect: Effect::NoSchedule,
};

/// Rejects cordoned nodes (`spec.unschedulable`), unless the pod tolerates the taint
/// `node.kubernetes.io/unschedulable:NoSchedule`.
///
/// An operator cordons a node before draining it; pods that are placed there now would soon be evicted.
/// The pods of a DaemonSet belong on every node and have the toleration.
///
/// ```yaml
/// kind: Node
/// spec: {unschedulable: true}   # what `kubectl cordon` sets
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeUnschedulable {
    comparisons: Comparisons,
}

impl Plugin for NodeUnschedulable {
    const NAME: &'static str = "NodeUnschedulable";
    type Args = NoArgs;
    fn new(_: NoArgs, gates: &FeatureGates) -> Self {
        NodeUnschedulable {
            comparisons: Comparisons::from_gate(gates.enabled(Comparisons::GATE, false)),
        }
    }
}

impl Filter for NodeUnschedulable {
    type Pod = Tolerations;
    type Node = Unschedulable;
    fn applies(&self, tolerations: &[Toleration]) -> bool {
        !self.tolerates_cordon(tolerations)
    }
    fn filter(&self, _: &[Toleration], cordoned: bool) -> Verdict {
        if cordoned { Verdict::unresolvable(UNSCHEDULABLE) } else { Verdict::Pass }
    }
}

impl NodeUnschedulable {
    fn tolerates_cordon(self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|one| one.tolerates(&CORDON, self.comparisons))
    }
}

/// As in node_unschedulable.go, the functions isSchedulableAfter…: a node that is no longer cordoned, a
/// new node that is not cordoned, and a new toleration of the pod itself.
impl Requeue for NodeUnschedulable {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::of::<Node>(Action::ADD | Action::UPDATE_NODE_TAINT),
            ClusterEvent::of::<Pod>(Action::UPDATE_POD_TOLERATION),
        ]
    }
    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        match change.object {
            Object::Itself { .. } if self.tolerates_cordon(&pod.tolerations) => Hint::Queue,
            Object::Itself { .. } | Object::Assigned { .. } => Hint::Skip,
            Object::Node { .. } | Object::Other(_) => NodeChange::of(change)
                .map_or(Hint::Queue, |node| node.now(|node| !node.unschedulable)),
        }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<NodeUnschedulable>().filter().requeue().done()
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Node;

    use super::*;
    use crate::node_change::tests::{hint_after_node, hint_after_pod};

    fn plain() -> NodeUnschedulable {
        NodeUnschedulable::default()
    }

    fn tolerant() -> Vec<Toleration> {
        let key = Some(CORDON.key.clone());
        vec![Toleration { key, effect: Some(Effect::NoSchedule), ..Toleration::default() }]
    }

    fn node(unschedulable: bool) -> Node {
        Node { unschedulable, ..Node::default() }
    }

    #[test]
    fn a_cordoned_node_is_rejected() {
        assert!(plain().applies(&[]));
        assert_eq!(plain().filter(&[], true), Verdict::unresolvable("node(s) were unschedulable"));
        assert!(plain().filter(&[], false).passes());
    }

    #[test]
    fn a_pod_that_tolerates_the_taint_of_a_cordon_may_run_on_any_node() {
        assert!(!plain().applies(&tolerant()));
        let every_key = Toleration::default();
        assert!(!plain().applies(&[every_key]));
        let evictions = Toleration { effect: Some(Effect::NoExecute), ..Toleration::default() };
        assert!(plain().applies(&[evictions]));
    }

    #[test]
    fn the_end_of_a_cordon_is_worth_another_attempt_and_a_cordon_is_not() {
        let pod = PodInfo::new(Pod::default());
        let hint = |before: Option<bool>, after| {
            hint_after_node(&plain(), &pod, before.map(node).as_ref(), node(after))
        };
        assert_eq!(hint(Some(true), false), Hint::Queue);
        assert_eq!(hint(None, false), Hint::Queue);
        assert_eq!(hint(None, true), Hint::Skip);
        assert_eq!(hint(Some(false), true), Hint::Skip);
        assert_eq!(hint(Some(false), false), Hint::Skip);
    }

    #[test]
    fn only_the_toleration_of_a_cordon_is_worth_another_attempt() {
        let before = PodInfo::new(Pod::default());
        let itself = Object::Itself { before: &before };
        let pod = PodInfo::new(PodTemplate { tolerations: tolerant(), ..PodTemplate::default() });
        assert_eq!(hint_after_pod(&plain(), &pod, itself), Hint::Queue);
        assert_eq!(hint_after_pod(&plain(), &before, itself), Hint::Skip);
        let other = Object::Assigned { before: Some(&before), after: Some(&pod), row: None };
        assert_eq!(hint_after_pod(&plain(), &pod, other), Hint::Skip);
    }
}
