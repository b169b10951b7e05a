//! Pods that are held back while their victims are being evicted, and pods that are woken one by one.

use plimsoll_framework::{Rejection, Time};

use super::Queue;
use super::groups::{GroupId, WaitReason, WaitingGroup};
use super::pod::QueuePlace;
use super::worth::{QueueingStrategy, Surroundings};
use crate::metrics::EventLabel;
use crate::names::PodId;

/// For whom the victims are evicted for which a pod is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// For the pod.
    Pod,
    /// For its group.
    Group,
}

impl Hold {
    /// The reason why the pod is held back. As in default_preemption.go, PreEnqueue.
    fn reason(self) -> Rejection {
        Rejection::unresolvable(match self {
            Hold::Pod => "waiting for the preemption for this pod to be finished",
            Hold::Group => "waiting for the preemption for this pod group to be finished",
        })
    }
}

impl Queue {
    /// Holds a pod back until its victims have been evicted.
    pub(crate) fn hold(&mut self, id: PodId, plugin: &'static str, hold: Hold) {
        self.held.insert(id, (plugin, hold));
    }

    /// Ends the hold of a pod after the evictions of its victims were done or have `failed`. A pod that
    /// was woken meanwhile may be tried again after its backoff; after a failure also one that was not,
    /// since nothing else might wake it.
    pub(crate) fn release(&mut self, now: Time, id: PodId, failed: bool, with: Surroundings<'_>) {
        let Some((plugin, _)) = self.held.remove(&id) else { return };
        let Some(place) = self.get(id).map(|info| &info.place) else { return };
        let kept_out = matches!(place, QueuePlace::Gated { plugin: by, .. } if *by == plugin);
        if kept_out || (failed && *place == QueuePlace::Unschedulable) {
            if failed {
                // After an error a pod is not tried before its backoff is over, even if the scheduler
                // is idle.
                self.pods[id].info.verdict = None;
            }
            self.wake_one(now, id, with);
        }
    }

    /// A pod was nominated that was not before. One of a group tries its node first then, and a group that cannot have that node for
    /// its first pod may fit on another one, so what has failed may fit.
    pub(crate) fn nominates(&mut self) {
        self.changed += 1;
    }

    /// Wakes a waiting pod, which is tried again after its backoff.
    pub(crate) fn retry(&mut self, now: Time, id: PodId, with: Surroundings<'_>) {
        self.shelves.changed();
        if self.get(id).is_some_and(|info| info.place == QueuePlace::Unschedulable) {
            self.wake_one(now, id, with);
        }
    }

    /// Records that an attempt has failed without a preemption: attempts for equal pods would fail,
    /// too.
    pub(crate) fn tried_in_vain(&mut self, id: PodId, with: Surroundings<'_>) {
        let waits = self.get(id).is_some_and(|info| info.place == QueuePlace::Unschedulable);
        if let Some(like) = waits.then(|| self.like(id, with)).flatten() {
            self.shelves.tried_in_vain(like);
        }
    }

    fn wake_one(&mut self, now: Time, id: PodId, with: Surroundings<'_>) {
        self.take(id);
        self.requeue(now, id, QueueingStrategy::AfterBackoff, EventLabel::FORCE_ACTIVATE, with);
    }

    /// Whether all pods of a group are held back for the same reason as so far, where `gate` is the gate of those whose victims are
    /// not being evicted.
    pub(super) fn are_gated_as_before(&self, group: GroupId, gate: Option<&QueuePlace>) -> bool {
        let WaitingGroup { key, pods } = self.groups.get(group);
        let WaitReason::Gate(by, so_far) = &key.wait else { return false };
        let is_gated = match gate {
            Some(QueuePlace::Gated { plugin, why }) => plugin == by && why == so_far,
            _ => false,
        };
        let is_held_by =
            |(plugin, hold): &(&'static str, Hold)| plugin == by && hold.reason() == *so_far;
        match self.held.is_empty() {
            true => is_gated,
            false => pods.iter().all(|pod| self.held.get(pod).map_or(is_gated, is_held_by)),
        }
    }

    /// The place of a pod that is held back while its victims are being evicted.
    pub(super) fn hold_of(&self, id: PodId) -> Option<QueuePlace> {
        let &(plugin, hold) = self.held.get(&id)?;
        Some(QueuePlace::Gated { plugin, why: hold.reason() })
    }
}
