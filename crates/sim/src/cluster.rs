//! The objects that a simulation begins with.

use std::collections::BTreeSet;

use plimsoll_api::{
    Labels, Namespace, Node, Pod, PodDisruptionBudget, Selecting, Str, Timestamp, VolumeObject,
};
use plimsoll_engine::{Event, Seen};
use plimsoll_framework::Time;

/// The objects of a cluster, each kind in the order in which they were given.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Pods, on nodes and pending.
    pub pods: Vec<Pod>,
    /// Namespaces. One that has pods but is not listed has only the label of its own name, which the
    /// API server gives to every namespace.
    pub namespaces: Vec<Namespace>,
    /// Services, ReplicationControllers, ReplicaSets and StatefulSets.
    pub selecting: Vec<Selecting>,
    /// Volumes, the claims on them, and what provides them.
    pub volumes: Vec<VolumeObject>,
    /// PodDisruptionBudgets.
    pub budgets: Vec<PodDisruptionBudget>,
}

/// The label with its own name that every namespace has.
pub(crate) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

impl Cluster {
    /// What the scheduler sees when it starts: everything that is there, then the pending pods in the
    /// order in which they were made, and in the order given where that is equal.
    pub fn into_events(self) -> Vec<Event> {
        let mut events = Vec::new();
        let listed: BTreeSet<Str> = self.namespaces.iter().map(|one| one.name.clone()).collect();
        let used: BTreeSet<Str> = self.pods.iter().map(|pod| pod.key.namespace.clone()).collect();
        let implied = used.difference(&listed).map(|name| Namespace {
            name: name.clone(),
            labels: Labels::from_iter([(NAMESPACE_NAME, name.as_str())]),
        });
        let namespaces: Vec<Namespace> = implied.chain(self.namespaces).collect();
        events.extend(namespaces.into_iter().map(|one| Event::Namespace(Seen::Is(one))));
        events.extend(self.selecting.into_iter().map(|one| Event::Selecting(Seen::Is(one))));
        events.extend(self.volumes.into_iter().map(|one| Event::Volume(Box::new(Seen::Is(one)))));
        events.extend(self.budgets.into_iter().map(|one| Event::Budget(Seen::Is(one))));
        events.extend(self.nodes.into_iter().map(|one| Event::Node(Box::new(Seen::Is(one)))));
        let (placed, mut pending): (Vec<Pod>, Vec<Pod>) =
            self.pods.into_iter().partition(|pod| pod.node_name.is_some());
        pending.sort_by_key(|pod| pod.created);
        events.extend(placed.into_iter().chain(pending).map(seen));
        events
    }

    /// When a simulation of it begins: at the latest time at which something in it is known to have
    /// happened. What its pods say of the time to come, such as when they must be gone, comes later.
    pub fn begins(&self) -> Time {
        let pods = self.pods.iter().flat_map(|pod| [pod.created, pod.started]);
        let nodes = self.nodes.iter().map(|node| node.created);
        pods.chain(nodes).flatten().map(time_of).max().unwrap_or(Time::ZERO)
    }
}

/// A time in an object, as the scheduler counts.
pub(crate) fn time_of(timestamp: Timestamp) -> Time {
    Time::from_millis(timestamp.as_millisecond())
}

fn seen(pod: Pod) -> Event {
    Event::pod(pod)
}
