//! The cluster as it was at some time of a recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::{AnyObject, KindRef, Node, ObjectKey, Pod, PodKey, Str};
use plimsoll_engine::{Event, Observation};
use plimsoll_framework::Time;

use crate::decode::Entry;
use crate::effects::{RecordedEffect, What};

/// The objects that were known, and what the scheduler had decided about pods.
///
/// A pod that was being bound counts as on its node until its binding fails.
#[derive(Clone, Debug, Default)]
pub struct RecordedState {
    nodes: BTreeMap<Str, Node>,
    pods: BTreeMap<PodKey, Arc<Pod>>,
    objects: BTreeMap<(KindRef, ObjectKey), AnyObject>,
    /// Pods that are being bound and were not observed on their nodes yet.
    assumed: BTreeMap<PodKey, Str>,
    nominated: BTreeMap<PodKey, Str>,
}

impl RecordedState {
    /// Takes in an entry. Of a picture, only that at the beginning of the first part that is read is needed.
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Event(_, event) => self.observe(event),
            Entry::Assumed(pod, node) => {
                self.assumed.insert(pod, node);
            }
            Entry::Effects(effects, _) => {
                for effect in effects {
                    self.decide(effect);
                }
            }
            Entry::Steps(..)
            | Entry::WindUp(_)
            | Entry::Digest(_)
            | Entry::Waiting(_)
            | Entry::PictureBegins
            | Entry::PictureEnds
            | Entry::End
            | Entry::Continues
            | Entry::Dropped => {}
        }
    }

    /// The nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// The pods, by name: those that are being bound with their nodes, and those for which preemption makes room with the
    /// nominated ones.
    pub fn pods(&self) -> impl Iterator<Item = Pod> {
        self.pods.values().map(|pod| {
            let mut pod = Pod::clone(pod);
            if pod.node_name.is_none() {
                pod.node_name = self.assumed.get(&pod.key).cloned();
            }
            if pod.node_name.is_none() {
                let nominated = self.nominated.get(&pod.key).cloned();
                pod.nominated_node = nominated.or(pod.nominated_node);
            }
            pod
        })
    }

    /// Everything else.
    pub fn objects(&self) -> impl Iterator<Item = &AnyObject> {
        self.objects.values()
    }

    fn observe(&mut self, event: Event) {
        match event {
            Event::Pod(Observation::Is(pod)) => {
                if pod.node_name.is_some() {
                    self.assumed.remove(&pod.key);
                    self.nominated.remove(&pod.key);
                }
                self.pods.insert(pod.key.clone(), pod);
            }
            Event::Pod(Observation::Gone(key)) => {
                self.pods.remove(&key);
                self.assumed.remove(&key);
                self.nominated.remove(&key);
            }
            Event::Node(observation) => match *observation {
                Observation::Is(node) => {
                    self.nodes.insert(node.name.clone(), node);
                }
                Observation::Gone(name) => {
                    self.nodes.remove(&name);
                }
            },
            Event::Object(Observation::Is(object)) => {
                self.objects.insert((object.kind(), object.key()), object);
            }
            Event::Object(Observation::Gone((kind, key))) => {
                self.objects.remove(&(kind, key));
            }
            // What these answer is known from the effects and from what is observed.
            Event::Done(..) | Event::Extended(..) => {}
        }
    }

    fn decide(&mut self, RecordedEffect { pod, what }: RecordedEffect) {
        match what {
            What::Bind(node) => {
                self.nominated.remove(&pod);
                self.assumed.insert(pod, node);
            }
            // If the pod was being bound, that has failed.
            What::Condition(..) => {
                self.assumed.remove(&pod);
            }
            What::Nominate(Some(node)) => {
                self.nominated.insert(pod, node);
            }
            What::Nominate(None) => {
                self.nominated.remove(&pod);
            }
            What::Write(_)
            | What::Evict(_)
            | What::Scheduled
            | What::Failed(_)
            | What::Event(..)
            | What::Ask(..) => {}
        }
    }
}

impl Entry {
    /// When it was recorded, if it says so. What follows up to the next time has the same.
    pub fn time(&self) -> Option<Time> {
        match self {
            Entry::Event(now, _) | Entry::Steps(now, _) | Entry::WindUp(now) => Some(*now),
            Entry::Effects(..)
            | Entry::Digest(_)
            | Entry::Waiting(_)
            | Entry::PictureBegins
            | Entry::PictureEnds
            | Entry::Assumed(..)
            | Entry::End
            | Entry::Continues
            | Entry::Dropped => None,
        }
    }
}
