//! When to try a pod again for which there was no room.

use std::collections::BTreeSet;

use plimsoll_api::resources::{CPU, DEVICE_CLASS_PREFIX, EPHEMERAL_STORAGE, MEMORY};
use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;

use super::{NodeResourcesFit, Room};

/// As in fit.go, `isSchedulableAfterPodEvent` and `isSchedulableAfterNodeChange`, which wake more pods
/// than running the filter on the changed node would: a deleted pod may always have made room, and the
/// other pods of a node that was added or has grown may be deleted or evicted.
impl Requeue for NodeResourcesFit {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::of::<Pod>(Action::DELETE | Action::UPDATE_POD_SCALE_DOWN),
            ClusterEvent::of::<Node>(Action::ADD | Action::UPDATE_NODE_ALLOCATABLE),
            ClusterEvent::of::<DeviceClass>(Action::ADD | Action::UPDATE),
        ]
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let worth_it = match change.object {
            Object::Assigned { before: Some(before), after: Some(after), .. } => {
                let gave_back = |name| after.requests.get(name) < before.requests.get(name);
                self.counted(&pod.asks.fit).any(gave_back)
            }
            Object::Assigned { before: None, .. } | Object::Node { after: None, .. } => false,
            Object::Node { before, after: Some(row) } => {
                let before = before.map(|node| &node.allocatable);
                let provided = change.view.nodes.provided();
                let after = &change.view.nodes.node(row).allocatable;
                self.may_fit(&pod.asks.fit, before, after, provided)
            }
            Object::Other(_) => {
                change.of::<DeviceClass>().is_none_or(|class| stands_for(&class, pod))
            }
            Object::Assigned { after: None, .. } | Object::Itself { .. } => true,
        };
        if worth_it { Hint::Queue } else { Hint::Skip }
    }
}

/// Whether a class that came or changed stands for a resource that the pod requests. As in fit.go,
/// isSchedulableAfterDeviceClassEvent.
fn stands_for(class: &Versions<DeviceClass>, pod: &PodInfo) -> bool {
    let Some(after) = &class.after else { return false };
    let requests = |name: &str| pod.asks.fit.get(name) != 0;
    let name_of = |class: &DeviceClass| class.extended_resource.clone();
    let before = class.before.as_ref().map(|class| name_of(class));
    let is_new = before.as_ref() != Some(&name_of(after));
    let by_name = is_new && after.extended_resource.as_ref().is_some_and(|name| requests(name));
    by_name || before.is_none() && requests(&format!("{DEVICE_CLASS_PREFIX}{}", after.name))
}

impl NodeResourcesFit {
    /// Whether a change of a node may help: the pod would fit on the empty node, and the node has more
    /// of a requested resource, or room for more pods, or no longer offers a resource itself for which devices stand.
    fn may_fit(
        &self,
        requests: &Resources,
        before: Option<&Resources>,
        after: &Resources,
        provided: &BTreeSet<Str>,
    ) -> bool {
        let none = Resources::default();
        let empty = Room { allocatable: after, requested: &none, pods: 0, provided };
        if self.lacks(requests, &empty).is_some() {
            return false;
        }
        before.is_none_or(|before| {
            before.pods < after.pods
                || self.counted(requests).any(|name| {
                    let (before, after) = (before.get(name), after.get(name));
                    before < after || (before != 0 && after == 0 && provided.contains(name))
                })
        })
    }

    /// The names of the resources that a node may lack for a pod with these `requests`.
    fn counted<'a>(&self, requests: &'a Resources) -> impl Iterator<Item = &'a str> + use<'a> {
        let all_count = self.counts_unasked(requests);
        let scalar = requests.scalar.keys().map(Str::as_str);
        [CPU, MEMORY, EPHEMERAL_STORAGE]
            .into_iter()
            .chain(scalar)
            .filter(move |name| all_count || requests.get(name) != 0)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Node;
    use plimsoll_framework::columns::Columns;

    use super::super::NodeResourcesFitArgs;
    use super::*;

    const GPU: &str = "example.com/gpu";

    fn amounts(memory: i64, gpus: i64) -> Resources {
        let scalar = [(Str::const_new(GPU), gpus)].into();
        Resources { memory, scalar, ..Resources::default() }
    }

    fn pod(requests: Resources) -> PodInfo {
        let asks = Asks { fit: requests.clone(), ..Asks::default() };
        PodInfo::new(PodTemplate { asks, requests, ..PodTemplate::default() })
    }

    fn node(memory: i64, gpus: i64, pods: i64) -> Node {
        Node { allocatable: Resources { pods, ..amounts(memory, gpus) }, ..Node::default() }
    }

    fn hint(plugin: &NodeResourcesFit, pod: &PodInfo, nodes: &Columns, object: Object<'_>) -> Hint {
        let event = ClusterEvent::of::<Node>(Action::empty());
        let view = View { nodes, stores: &Stores::default() };
        plugin.hint(pod, &Change { event, object, view })
    }

    fn plugin() -> NodeResourcesFit {
        NodeResourcesFit::new(NodeResourcesFitArgs::default(), &FeatureGates::default())
    }

    fn on_node(pod: &PodInfo, before: Option<&Node>, after: Node) -> Hint {
        on_node_of(&plugin(), pod, before, after)
    }

    fn on_node_of(
        plugin: &NodeResourcesFit,
        pod: &PodInfo,
        before: Option<&Node>,
        after: Node,
    ) -> Hint {
        let mut nodes = Columns::default();
        let after = Some(nodes.add(after));
        hint(plugin, pod, &nodes, Object::Node { before, after })
    }

    fn on_pod(waiting: &PodInfo, before: Option<&PodInfo>, after: Option<&PodInfo>) -> Hint {
        let object = Object::Assigned { before, after, row: None };
        hint(&plugin(), waiting, &Columns::default(), object)
    }

    #[test]
    fn a_pod_that_leaves_may_always_have_made_room() {
        let waiting = pod(amounts(1, 0));
        assert_eq!(on_pod(&waiting, Some(&pod(amounts(0, 1))), None), Hint::Queue);
        assert_eq!(on_pod(&waiting, None, Some(&pod(amounts(0, 1)))), Hint::Skip);
    }

    #[test]
    fn a_pod_that_asks_for_less_helps_if_it_is_less_of_what_the_waiting_pod_asks_for() {
        let shrinks = |waiting: Resources| {
            let (before, after) = (pod(amounts(2, 2)), pod(amounts(1, 2)));
            on_pod(&pod(waiting), Some(&before), Some(&after))
        };
        assert_eq!(shrinks(amounts(1, 0)), Hint::Queue);
        assert_eq!(shrinks(amounts(0, 1)), Hint::Skip);
        let before = &pod(amounts(9, 9));
        let itself =
            hint(&plugin(), &pod(amounts(1, 0)), &Columns::default(), Object::Itself { before });
        assert_eq!(itself, Hint::Queue);
    }

    #[test]
    fn a_new_node_helps_if_the_pod_would_fit_were_it_empty() {
        let waiting = pod(amounts(2, 1));
        assert_eq!(on_node(&waiting, None, node(4, 2, 9)), Hint::Queue);
        assert_eq!(on_node(&waiting, None, node(1, 2, 9)), Hint::Skip);
        assert_eq!(on_node(&waiting, None, node(4, 0, 9)), Hint::Skip);
        assert_eq!(on_node(&waiting, None, node(4, 2, 0)), Hint::Skip);
    }

    #[test]
    fn a_changed_node_helps_if_it_also_has_more_of_what_the_pod_asks_for() {
        let waiting = pod(amounts(2, 1));
        let from = |before: Node, after| on_node(&waiting, Some(&before), after);
        assert_eq!(from(node(2, 1, 9), node(2, 2, 9)), Hint::Queue);
        assert_eq!(from(node(1, 2, 9), node(4, 2, 9)), Hint::Queue);
        assert_eq!(from(node(2, 2, 9), node(2, 1, 9)), Hint::Skip);
        assert_eq!(from(node(4, 2, 9), node(1, 3, 9)), Hint::Skip);
        assert_eq!(from(node(4, 2, 9), node(4, 2, 10)), Hint::Queue);
        let only_memory = pod(amounts(2, 0));
        assert_eq!(on_node(&only_memory, Some(&node(2, 1, 9)), node(2, 2, 9)), Hint::Skip);
    }

    #[test]
    fn a_node_that_stops_offering_a_resource_helps_if_devices_stand_for_it() {
        let waiting = pod(amounts(2, 1));
        let hint_of = |provided: BTreeSet<Str>| {
            let mut nodes = Columns::default();
            nodes.set_provided(provided);
            let (before, after) = (node(4, 1, 9), Some(nodes.add(node(4, 0, 9))));
            hint(&plugin(), &waiting, &nodes, Object::Node { before: Some(&before), after })
        };
        assert_eq!(hint_of(BTreeSet::from([GPU.into()])), Hint::Queue);
        assert_eq!(hint_of(BTreeSet::new()), Hint::Skip);
    }

    #[test]
    fn where_overdrawn_nodes_are_left_alone_more_of_what_is_not_asked_for_helps_too() {
        let args = NodeResourcesFitArgs {
            reject_overcommitted_nodes: true,
            ..NodeResourcesFitArgs::default()
        };
        let plugin = NodeResourcesFit::new(args, &FeatureGates::default());
        let waiting = pod(amounts(0, 1));
        let (before, after) = (pod(amounts(2, 0)), pod(amounts(1, 0)));
        let shrinks = Object::Assigned { before: Some(&before), after: Some(&after), row: None };
        assert_eq!(hint(&plugin, &waiting, &Columns::default(), shrinks), Hint::Queue);
        let grows = |waiting| on_node_of(&plugin, waiting, Some(&node(1, 1, 9)), node(2, 1, 9));
        assert_eq!(grows(&waiting), Hint::Queue);
        assert_eq!(grows(&pod(Resources::default())), Hint::Skip);
    }

    #[test]
    fn a_new_node_without_an_ignored_resource_helps() {
        let ignored_resources = [GPU.to_owned()].into();
        let args = NodeResourcesFitArgs { ignored_resources, ..NodeResourcesFitArgs::default() };
        let plugin = NodeResourcesFit::new(args, &FeatureGates::default());
        let waiting = pod(amounts(2, 1));
        assert_eq!(on_node_of(&plugin, &waiting, None, node(4, 0, 9)), Hint::Queue);
    }
}
