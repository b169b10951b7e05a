//! The rest of the cluster in a benchmark: it carries out the writes of the scheduler at once.

use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll_api::Pod;
use plimsoll_engine::{Effect, Event, Write, WriteError};

use super::template::pod_is;

/// The rest of the cluster. It knows about a pod only what an effect contains.
#[derive(Debug, Default)]
pub(super) struct InstantCluster {
    /// The hash of all bindings.
    placements: DefaultHasher,
}

impl InstantCluster {
    /// A hash of all bindings in their order.
    pub(super) fn placements(&self) -> u64 {
        self.placements.finish()
    }

    /// The events for a write: the answer, and then the change of the pod.
    pub(super) fn answer(&mut self, effect: Effect, events: &mut Vec<Event>) {
        let done = |answer| Event::Done(effect.id, answer);
        let pod = &*effect.pod;
        match effect.write {
            Write::Bind(binding) => {
                (&pod.key.name, &binding.node).hash(&mut self.placements);
                let node_name = Some(binding.node);
                events.extend([done(Ok(())), pod_is(Pod { node_name, ..pod.clone() })]);
            }
            Write::Evict(eviction) => {
                // As in pod-low-priority.yaml, a victim terminates at once.
                let gone = Event::pod_gone(eviction.victim.key.clone());
                events.extend([done(Ok(())), gone]);
            }
            Write::Nominate(nominated_node) => {
                events.push(pod_is(Pod { nominated_node, ..pod.clone() }));
            }
            Write::Object(_) => {
                let text = "no volume of a workload is left to be bound";
                events.push(done(Err(WriteError::other(text))));
            }
            // No workload has extenders.
            Write::Condition(_) | Write::Record(_) | Write::Extender(_) => {}
        }
    }
}
