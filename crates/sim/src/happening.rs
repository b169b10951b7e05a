//! What happens in a cluster without the scheduler's doing.

use std::time::Duration;

use plimsoll_api::{Labels, Pod, PodKey, PodPhase, Str};
use plimsoll_engine::Event;
use plimsoll_framework::Time;

use crate::lifecycle;
use crate::world::gone;

/// Something that happens without the scheduler's doing. What it means depends on how the cluster then
/// stands: a pod that has got a node meanwhile keeps it when its labels change.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// A pod is made, unless there is one of that name.
    Arrives(Box<Pod>),
    /// A pod is told to go; it is gone after this span.
    IsDeleted(PodKey, Duration),
    /// A pod gets other labels.
    IsRelabelled(PodKey, Labels),
    /// Somebody else says, or no longer says, that a node was cleared for a pod that waits for one.
    IsNominated(PodKey, Option<Str>),
    /// The gates of a pod are opened.
    IsUngated(PodKey),
    /// Anything that does not depend on what the scheduler has done meanwhile.
    Other(Event),
}

impl Happening {
    /// The pod that it is about.
    pub(crate) fn pod(&self) -> Option<&PodKey> {
        match self {
            Happening::Arrives(pod) => Some(&pod.key),
            Happening::IsDeleted(pod, _)
            | Happening::IsRelabelled(pod, _)
            | Happening::IsNominated(pod, _)
            | Happening::IsUngated(pod) => Some(pod),
            Happening::Other(_) => None,
        }
    }

    /// What becomes of it at `now`, where `pod` is how the pod that it is about stands.
    pub(crate) fn event(self, now: Time, pod: Option<&Pod>) -> Option<Event> {
        let alive = pod.filter(|pod| pod.phase != PodPhase::Ended);
        let changed = |pod: Pod| Some(Event::pod(pod));
        match self {
            Happening::Arrives(arrived) => pod.is_none().then_some(*arrived).and_then(changed),
            Happening::IsDeleted(_, span) => {
                let pod = pod?;
                // A pod that is on no node has nothing to terminate.
                if span.is_zero() || pod.node_name.is_none() || pod.phase == PodPhase::Ended {
                    return Some(gone(&pod.key));
                }
                let deletion = pod.deletion.or_else(|| lifecycle::timestamp(now + span));
                changed(Pod { deletion, ..pod.clone() })
            }
            Happening::IsRelabelled(_, labels) => {
                let mut pod = alive?.clone();
                pod.labels = labels;
                changed(pod)
            }
            Happening::IsNominated(_, node) => {
                let pod = alive.filter(|pod| pod.node_name.is_none())?;
                changed(Pod { nominated_node: node, ..pod.clone() })
            }
            Happening::IsUngated(_) => {
                let mut pod = alive?.clone();
                pod.scheduling_gates.clear();
                changed(pod)
            }
            Happening::Other(event) => Some(event),
        }
    }
}
