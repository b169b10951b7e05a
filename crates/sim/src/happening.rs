//! Changes of a cluster that the scheduler does not cause.

use std::time::Duration;

use plimsoll_api::pod_group::GroupPolicy;
use plimsoll_api::{Labels, ObjectKey, Pod, PodGroup, PodKey, PodPhase, ResourceClaim, Str};
use plimsoll_engine::Event;
use plimsoll_framework::Time;

use crate::simulated_cluster::gone;
use crate::{claims, lifecycle};

/// A change that the scheduler does not cause. Its effect depends on the state of the cluster at that
/// time: a pod that was bound meanwhile keeps its node when its labels change.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// A pod is created, unless one with that name exists.
    Arrives(Box<Pod>),
    /// A pod is deleted and terminates for this span.
    IsDeleted(PodKey, Duration),
    /// The labels of a pod change.
    IsRelabelled(PodKey, Labels),
    /// Another controller sets or clears the nominated node of a pending pod.
    IsNominated(PodKey, Option<Str>),
    /// The scheduling gates of a pod are removed.
    IsUngated(PodKey),
    /// A ResourceClaim is deleted. With a finalizer it terminates.
    ClaimIsDeleted(ObjectKey),
    /// Something changes about a ResourceClaim that scheduling does not read.
    ClaimIsTouched(ObjectKey),
    /// A gang needs another number of its pods.
    GroupNeeds(ObjectKey, u32),
    /// Anything that does not depend on what the scheduler has done.
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
            Happening::ClaimIsDeleted(_)
            | Happening::ClaimIsTouched(_)
            | Happening::GroupNeeds(..)
            | Happening::Other(_) => None,
        }
    }

    /// The claim on devices that it is about.
    pub(crate) fn claim(&self) -> Option<&ObjectKey> {
        match self {
            Happening::ClaimIsDeleted(claim) | Happening::ClaimIsTouched(claim) => Some(claim),
            _ => None,
        }
    }

    /// The group that it is about.
    pub(crate) fn group(&self) -> Option<&ObjectKey> {
        match self {
            Happening::GroupNeeds(group, _) => Some(group),
            _ => None,
        }
    }

    /// The event for it at `now`, if `pod`, `claim` and `group` are the present states of what it is about.
    pub(crate) fn event(
        self,
        now: Time,
        pod: Option<&Pod>,
        (claim, group): (Option<&ResourceClaim>, Option<&PodGroup>),
    ) -> Option<Event> {
        let alive = pod.filter(|pod| pod.phase != PodPhase::Ended);
        let changed = |pod: Pod| Some(Event::pod(pod));
        match self {
            Happening::Arrives(arrived) => pod.is_none().then_some(*arrived).and_then(changed),
            Happening::IsDeleted(_, span) => {
                let pod = pod?;
                // A pod without a node has nothing to terminate.
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
            Happening::ClaimIsDeleted(_) => claim.map(|claim| claims::deleted(claim, now)),
            Happening::ClaimIsTouched(_) => {
                claim.map(|claim| Event::object(claims::next(claim.clone())))
            }
            Happening::GroupNeeds(_, min_count) => {
                // A policy can neither be set nor unset.
                let group = group.filter(|group| group.min_count().is_some())?.clone();
                let (policy, generation) = (GroupPolicy::Gang { min_count }, group.generation + 1);
                Some(Event::object(PodGroup { policy, generation, ..group }))
            }
            Happening::Other(event) => Some(event),
        }
    }
}
