//! The initial objects of a simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::{
    AnyObject, KindRef, Labels, Namespace, Node, ObjectKey, Pod, PodKey, ResourceClaimTemplate,
    Str, Timestamp,
};
use plimsoll_engine::{ClusterSnapshot, Event, Observation};
use plimsoll_framework::Time;
use serde_json::Value;

/// The objects of a cluster, each kind in the order in which they were given.
#[derive(Clone, Debug, Default)]
pub struct InitialCluster {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Pods, on nodes and pending.
    pub pods: Vec<Pod>,
    /// Everything else. A namespace that has pods but is not listed has only the label of its own name, which the
    /// API server gives to every namespace.
    pub objects: Vec<AnyObject>,
    /// Those of them that are of kinds which plugins bring, as their manifests say, so that plugins can change them.
    pub manifests: Vec<(KindRef, ObjectKey, Value)>,
}

/// The label with its own name that every namespace has.
pub(crate) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

impl InitialCluster {
    /// From these a controller makes claims for pods. The scheduler does not read them.
    pub(crate) fn claim_templates(&self) -> impl Iterator<Item = &ResourceClaimTemplate> {
        self.objects.iter().filter_map(AnyObject::get)
    }

    /// The events for the start of the scheduler: all objects, then the pending pods sorted by creation
    /// time, and by their given order if that is equal.
    pub fn into_events(self) -> Vec<Event> {
        let mut events = Vec::new();
        let namespaces = self.objects.iter().filter_map(AnyObject::get::<Namespace>);
        let listed: BTreeSet<Str> = namespaces.map(|one| one.name.clone()).collect();
        let used: BTreeSet<Str> = self.pods.iter().map(|pod| pod.key.namespace.clone()).collect();
        let implied = used.difference(&listed).map(|name| Namespace {
            name: name.clone(),
            labels: Labels::from_iter([(NAMESPACE_NAME, name.as_str())]),
        });
        events.extend(implied.map(Event::object));
        // As an API server lists them. Of two device classes with one resource it matters which is seen first.
        let mut objects = self.objects;
        objects.retain(|object| !object.kind().is::<ResourceClaimTemplate>());
        objects.sort_by_cached_key(AnyObject::key);
        events.extend(objects.into_iter().map(Event::object));
        events
            .extend(self.nodes.into_iter().map(|one| Event::Node(Box::new(Observation::Is(one)))));
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

/// The cluster as a scheduler had it. A pod that was assumed to be on a node is there, and a nominated pod says so.
impl From<ClusterSnapshot> for InitialCluster {
    fn from(snapshot: ClusterSnapshot) -> Self {
        let ClusterSnapshot { taken: _, nodes, pods, nominated, objects } = snapshot;
        let nominated: BTreeMap<PodKey, Str> = nominated.into_iter().collect();
        let pods = pods.into_iter().map(|info| {
            let mut pod = Pod::clone(info.seen());
            pod.node_name = info.node().cloned();
            if pod.node_name.is_none() {
                pod.nominated_node = nominated.get(&pod.key).cloned();
            }
            pod
        });
        InitialCluster {
            nodes: nodes.into_iter().map(Arc::unwrap_or_clone).collect(),
            pods: pods.collect(),
            objects,
            manifests: Vec::new(),
        }
    }
}

/// Converts a time in an object to the scheduler's time.
pub(crate) fn time_of(timestamp: Timestamp) -> Time {
    Time::from_millis(timestamp.as_millisecond())
}

fn seen(pod: Pod) -> Event {
    Event::pod(pod)
}
