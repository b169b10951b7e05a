//! The rest of the cluster, as the scheduler meets it.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{Labels, Namespace, Node, Pod, PodKey, Selecting, Str};
use plimsoll_engine::{Effect, Event, Seen, Write, WriteError};

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
}

/// The label with its own name that every namespace has.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

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
        events.extend(self.nodes.into_iter().map(|one| Event::Node(Box::new(Seen::Is(one)))));
        let (placed, mut pending): (Vec<Pod>, Vec<Pod>) =
            self.pods.into_iter().partition(|pod| pod.node_name.is_some());
        pending.sort_by_key(|pod| pod.created);
        events.extend(placed.into_iter().chain(pending).map(seen));
        events
    }
}

fn seen(pod: Pod) -> Event {
    Event::Pod(Box::new(Seen::Is(pod)))
}

/// The rest of the cluster: it does what the scheduler asks for and says what became of it.
#[derive(Debug, Default)]
pub struct World {
    pods: BTreeMap<PodKey, Pod>,
    nodes: BTreeSet<Str>,
}

impl World {
    /// Takes note of what happened in the cluster.
    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::Pod(seen) => match seen.as_ref() {
                Seen::Is(pod) => {
                    self.pods.insert(pod.key.clone(), pod.clone());
                }
                Seen::Gone(key) => {
                    self.pods.remove(key);
                }
            },
            Event::Node(seen) => match seen.as_ref() {
                Seen::Is(node) => {
                    self.nodes.insert(node.name.clone());
                }
                Seen::Gone(name) => {
                    self.nodes.remove(name);
                }
            },
            Event::Namespace(_) | Event::Selecting(_) | Event::Done(..) => {}
        }
    }

    /// Does what the scheduler asks for; what it sees of that.
    pub fn perform(&mut self, effect: Effect) -> Vec<Event> {
        match effect.write {
            Write::Bind(binding) => match self.bind(&effect.pod, &binding.node) {
                Ok(pod) => vec![Event::Done(effect.id, Ok(())), seen(pod)],
                Err(error) => vec![Event::Done(effect.id, Err(error))],
            },
            Write::Patch(_) => vec![Event::Done(effect.id, Ok(()))],
            Write::Evict(eviction) => {
                let gone = self.pods.remove(&eviction.victim);
                let gone = gone.map(|pod| Event::Pod(Box::new(Seen::Gone(pod.key))));
                std::iter::once(Event::Done(effect.id, Ok(()))).chain(gone).collect()
            }
            Write::Nominate(node) => {
                let Some(pod) = self.pods.get_mut(&effect.pod) else { return Vec::new() };
                pod.nominated_node = node;
                vec![seen(pod.clone())]
            }
            // Nobody who reads conditions and events takes part in a simulation.
            Write::Condition(_) | Write::Record(_) => Vec::new(),
        }
    }

    fn bind(&mut self, key: &PodKey, node: &Str) -> Result<Pod, WriteError> {
        let Some(pod) = self.pods.get_mut(key) else {
            return Err(WriteError(format!("pods {:?} not found", key.name)));
        };
        if let Some(on) = &pod.node_name {
            let text = format!("pod {} is already assigned to node {on:?}", pod.key.name);
            return Err(WriteError(text));
        }
        pod.node_name = Some(node.clone());
        Ok(pod.clone())
    }
}
