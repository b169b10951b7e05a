//! The initial objects of a simulation.

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
    /// Namespaces. A namespace that has pods but is not listed gets only the label with its name, which
    /// the API server adds to every namespace.
    pub namespaces: Vec<Namespace>,
    /// Services, ReplicationControllers, ReplicaSets and StatefulSets.
    pub selecting: Vec<Selecting>,
    /// Volumes, claims, and their providers.
    pub volumes: Vec<VolumeObject>,
    /// PodDisruptionBudgets.
    pub budgets: Vec<PodDisruptionBudget>,
}

/// The label with its own name that every namespace has.
pub(crate) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

impl Cluster {
    /// The events for the start of the scheduler: all objects, then the pending pods sorted by creation
    /// time, and by their given order if that is equal.
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

    /// When a simulation of it begins: at the latest time in the past of any object. Times in the
    /// future, such as deletion deadlines of pods, come later.
    pub fn begins(&self) -> Time {
        let pods = self.pods.iter().flat_map(|pod| [pod.created, pod.started]);
        let nodes = self.nodes.iter().map(|node| node.created);
        pods.chain(nodes).flatten().map(time_of).max().unwrap_or(Time::ZERO)
    }
}

/// Converts a time in an object to the scheduler's time.
pub(crate) fn time_of(timestamp: Timestamp) -> Time {
    Time::from_millis(timestamp.as_millisecond())
}

fn seen(pod: Pod) -> Event {
    Event::pod(pod)
}
