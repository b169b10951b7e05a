//! The rest of the cluster in a benchmark: it does at once what the scheduler asks for.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use plimsoll_api::{Pod, PodKey, Str};
use plimsoll_engine::{Effect, Event, Write, WriteError};

use super::plan::Pods;
use super::template::pod_is;

/// The rest of the cluster. Of a pod it knows only how it was made.
#[derive(Debug)]
pub(super) struct World {
    pods: Rc<Pods>,
    /// The nodes that were cleared for pods that are not bound yet.
    nominated: BTreeMap<PodKey, Str>,
    /// Of every binding.
    placements: DefaultHasher,
}

impl World {
    pub(super) fn new(pods: Rc<Pods>) -> Self {
        World { pods, nominated: BTreeMap::new(), placements: DefaultHasher::new() }
    }

    /// A number that follows from all bindings and their order.
    pub(super) fn placements(&self) -> u64 {
        self.placements.finish()
    }

    /// What the scheduler sees of a write: the answer, then what became of the pod.
    pub(super) fn answer(&mut self, effect: Effect, events: &mut Vec<Event>) {
        let done = |answer| Event::Done(effect.id, answer);
        match effect.write {
            Write::Bind(binding) => {
                (&effect.pod.key.name, &binding.node).hash(&mut self.placements);
                let nominated_node = self.nominated.remove(&effect.pod.key);
                let pod = self.pods.make(&effect.pod.key).expect("the scheduler binds what came");
                let node_name = Some(binding.node.clone());
                events.extend([done(Ok(())), pod_is(Pod { node_name, nominated_node, ..pod })]);
            }
            Write::Evict(eviction) => {
                // As in pod-low-priority.yaml, a victim needs no time to terminate.
                let gone = Event::pod_gone(eviction.victim.key.clone());
                events.extend([done(Ok(())), gone]);
            }
            Write::Nominate(nominated_node) => {
                match nominated_node.clone() {
                    Some(node) => self.nominated.insert(effect.pod.key.clone(), node),
                    None => self.nominated.remove(&effect.pod.key),
                };
                let pod =
                    self.pods.make(&effect.pod.key).expect("the scheduler nominates what came");
                events.push(pod_is(Pod { nominated_node, ..pod }));
            }
            Write::Patch(_) => {
                let text = "no volume of a workload is left to be bound";
                events.push(done(Err(WriteError(text.to_owned()))));
            }
            Write::Condition(_) | Write::Record(_) => {}
        }
    }
}
