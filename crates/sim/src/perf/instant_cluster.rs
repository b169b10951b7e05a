//! The rest of the cluster in a benchmark: it carries out the writes of the scheduler at once.

use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll_api::{Pod, ResourceClaim};
use plimsoll_engine::{Effect, Event, Write, WriteError};
use plimsoll_framework::{ObjectWrite, Time};

use super::template::pod_is;
use crate::claims::{ClaimObjects, patched_pod};

/// The rest of the cluster. It knows about a pod only what an effect contains.
#[derive(Debug, Default)]
pub(super) struct InstantCluster {
    /// The hash of all bindings.
    placements: DefaultHasher,
    claims: ClaimObjects,
}

impl InstantCluster {
    /// A hash of all bindings in their order.
    pub(super) fn placements(&self) -> u64 {
        self.placements.finish()
    }

    /// An event of the workload, which the scheduler is told.
    pub(super) fn observe(&mut self, event: &Event) {
        if let Event::Object(seen) = event {
            self.claims.observe(seen);
        }
    }

    /// The events for a write: the answer, and then the change of the object.
    pub(super) fn answer(&mut self, now: Time, effect: Effect, events: &mut Vec<Event>) {
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
            Write::Object(write) => match self.written(now, pod, &write) {
                Ok(event) => {
                    self.observe(&event);
                    events.extend([done(Ok(())), event]);
                }
                Err(error) => events.push(done(Err(error))),
            },
            // No workload has extenders.
            Write::Condition(_)
            | Write::GroupCondition(_)
            | Write::Record(_)
            | Write::Extender(_) => {}
        }
    }

    fn written(&mut self, now: Time, pod: &Pod, write: &ObjectWrite) -> Result<Event, WriteError> {
        if write.kind.is::<ResourceClaim>() {
            return self.claims.written(now, write);
        }
        match patched_pod(Some(pod), write) {
            Some(done) => done.map(pod_is),
            None => Err(WriteError::other("no volume of a workload is left to be bound")),
        }
    }
}
