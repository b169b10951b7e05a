//! What became of a node, as queueing hints look at it.

use plimsoll_api::Node;
use plimsoll_framework::events::Object;
use plimsoll_framework::{Change, Hint};

/// A node as it was and as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeChange<'a> {
    /// As it was; `None` for a new node.
    pub(crate) before: Option<&'a Node>,
    /// As it is.
    pub(crate) after: &'a Node,
}

impl<'a> NodeChange<'a> {
    /// `None` where the change is not one of a node, and where the node is gone.
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

    /// Queue where the node `suits` and did not before. A node that suited before was not what the
    /// pod waits for.
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

    /// What `plugin` says to `pod` about a node that was `before` and is `after`.
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

    /// What `plugin` says to `pod` about what happened to a pod.
    pub(crate) fn hint_after_pod(plugin: &impl Requeue, pod: &PodInfo, object: Object<'_>) -> Hint {
        let (nodes, stores) = (Columns::default(), Stores::default());
        let event = ClusterEvent::of::<Pod>(Action::DELETE | Action::UPDATE);
        let view = View { nodes: &nodes, stores: &stores };
        plugin.hint(pod, &Change { event, object, view })
    }
}
