//! A change of a node, for queueing hints.

use plimsoll_api::Node;
use plimsoll_framework::events::Object;
use plimsoll_framework::{Change, Hint};

/// A node before and after a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeChange<'a> {
    /// The state before; `None` for a new node.
    pub(crate) before: Option<&'a Node>,
    /// The state after.
    pub(crate) after: &'a Node,
}

impl<'a> NodeChange<'a> {
    /// `None` if the change is not about a node, or if the node was deleted.
    pub(crate) fn of(change: &Change<'a>) -> Option<Self> {
        match change.object {
            Object::Node { before, after: Some(row) } => {
                Some(NodeChange { before, after: change.view.nodes.node(row) })
            }
            Object::Node { after: None, .. }
            | Object::Assigned { .. }
            | Object::Itself { .. }
            | Object::Other(_) => None,
        }
    }

    /// [`Hint::Queue`] if the node `suits` now but did not before: a node that suited before is not
    /// what the pod waits for.
    pub(crate) fn now(self, suits: impl Fn(&Node) -> bool) -> Hint {
        if suits(self.after) && !self.before.is_some_and(suits) { Hint::Queue } else { Hint::Skip }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use plimsoll_api::Pod;
    use plimsoll_framework::View;
    use plimsoll_framework::{Action, ClusterEvent, Columns, PodInfo, Requeue, Stores};

    /// The hint of `plugin` for `pod` after a node changed from `before` to `after`.
    pub(crate) fn hint_after_node(
        plugin: &impl Requeue,
        pod: &PodInfo,
        before: Option<&Node>,
        after: Node,
    ) -> Hint {
        let (mut nodes, stores) = (Columns::default(), Stores::default());
        let row = nodes.add(after);
        plugin.hint(
            pod,
            &Change {
                event: ClusterEvent::of::<Node>(Action::ADD | Action::UPDATE),
                object: Object::Node { before, after: Some(row) },
                view: View { nodes: &nodes, stores: &stores },
            },
        )
    }

    /// The hint of `plugin` for `pod` after a change of another pod.
    pub(crate) fn hint_after_pod(plugin: &impl Requeue, pod: &PodInfo, object: Object<'_>) -> Hint {
        let (nodes, stores) = (Columns::default(), Stores::default());
        let event = ClusterEvent::of::<Pod>(Action::DELETE | Action::UPDATE);
        let view = View { nodes: &nodes, stores: &stores };
        plugin.hint(pod, &Change { event, object, view })
    }
}
