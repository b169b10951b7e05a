//! The pods that are ready or in backoff, each shelf sorted in the order of removal.

use plimsoll_framework::{SortKey, Time};

use super::early::Early;
use super::pod::QueuePlace;
use crate::names::PodId;
use crate::signature::QueueSignature;
use crate::sorted_pods::SortedPods;

/// The order of a pod among the ready ones: of two with equal keys the earlier one is first.
pub(super) type ActiveKey = (SortKey, u64);

/// Which pods may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Those whose backoff is over.
    Due,
    /// If there is none, also one in backoff. As with PopFromBackoffQ, except for pods that would most
    /// likely fail.
    Early,
}

/// Whether a pod may be tried before its backoff is over.
#[derive(Clone, Copy, Debug)]
pub(super) enum TryEarly {
    /// It may, unless a pod of this signature has failed, which most likely fails like it.
    Unless(Option<QueueSignature>),
    /// It never is. In kube-scheduler a group without room is tried again and again without a pause.
    Never,
}

/// The pods that are ready or in backoff. Pods in flight and waiting pods are on no shelf.
#[derive(Debug, Default)]
pub(super) struct Shelves {
    active: SortedPods<ActiveKey>,
    /// Those of the ready pods that are not tried while room is reserved for a group. Others may come in the meantime, so
    /// not all of them are here.
    aside: SortedPods<ActiveKey>,
    backoff: SortedPods<(Time, ActiveKey)>,
    /// The pods in backoff again, in the order in which they are tried early.
    early: Early,
    error_backoff: SortedPods<(Time, ActiveKey)>,
}

impl Shelves {
    /// Inserts a pod into the shelf of its place.
    pub(super) fn put(
        &mut self,
        place: &QueuePlace,
        key: ActiveKey,
        try_early: TryEarly,
        pod: PodId,
    ) {
        match place {
            QueuePlace::Active => self.active.insert(key, pod),
            &QueuePlace::Backoff { until } => {
                self.backoff.insert((until, key.clone()), pod);
                if let TryEarly::Unless(signature) = try_early {
                    self.early.put((until, key), signature, pod);
                }
            }
            &QueuePlace::ErrorBackoff { until } => self.error_backoff.insert((until, key), pod),
            QueuePlace::Unschedulable | QueuePlace::Gated { .. } | QueuePlace::InFlight => {}
        }
    }

    /// Removes a pod from the shelf of its place.
    pub(super) fn take(&mut self, place: &QueuePlace, key: ActiveKey, try_early: TryEarly) {
        match place {
            QueuePlace::Active => {
                self.active.remove(&key);
                if !self.aside.is_empty() {
                    self.aside.remove(&key);
                }
            }
            &QueuePlace::Backoff { until } => {
                let key = (until, key);
                self.backoff.remove(&key);
                if let TryEarly::Unless(signature) = try_early {
                    self.early.take(&key, signature);
                }
            }
            &QueuePlace::ErrorBackoff { until } => self.error_backoff.remove(&(until, key)),
            QueuePlace::Unschedulable | QueuePlace::Gated { .. } | QueuePlace::InFlight => {}
        }
    }

    /// Sets a ready pod aside.
    pub(super) fn set_aside(&mut self, key: ActiveKey, pod: PodId) {
        self.active.remove(&key);
        self.aside.insert(key, pod);
    }

    /// Takes all pods back that were set aside. Each must be [put](Self::put) again.
    pub(super) fn take_aside(&mut self) -> Vec<PodId> {
        std::mem::take(&mut self.aside).iter().collect()
    }

    /// The pods that were set aside, in no particular order.
    pub(super) fn aside(&self) -> impl Iterator<Item = PodId> {
        self.aside.iter()
    }

    /// The next pod to try.
    pub(super) fn first(&self, ready: Ready) -> Option<PodId> {
        match (self.active.first(), ready) {
            (Some((_, pod)), _) => Some(pod),
            (None, Ready::Early) => self.early.first(),
            (None, Ready::Due) => None,
        }
    }

    /// A pod whose backoff is over.
    pub(super) fn backoff_over(&self, now: Time) -> Option<PodId> {
        let over = |pods: &SortedPods<(Time, ActiveKey)>| {
            pods.first().filter(|((until, _), _)| *until <= now).map(|(_, pod)| pod)
        };
        over(&self.backoff).or_else(|| over(&self.error_backoff))
    }

    /// When the next backoff ends.
    pub(super) fn next_backoff_over(&self) -> Option<Time> {
        let over =
            |pods: &SortedPods<(Time, ActiveKey)>| pods.first().map(|((until, _), _)| *until);
        over(&self.error_backoff).into_iter().chain(over(&self.backoff)).min()
    }

    /// The ready pods, in no particular order.
    pub(super) fn active(&self) -> impl Iterator<Item = PodId> {
        self.active.iter().chain(self.aside.iter())
    }

    /// The pods in backoff after an error, in no particular order.
    pub(super) fn after_errors(&self) -> impl Iterator<Item = PodId> {
        self.error_backoff.iter()
    }

    /// Whether a pod can be tried now.
    pub(super) fn has_ready(&self, ready: Ready) -> bool {
        !self.active.is_empty() || (ready == Ready::Early && self.early.has_any())
    }

    /// The pods in backoff after a rejection, in no particular order.
    pub(super) fn after_rejections(&self) -> impl Iterator<Item = PodId> {
        self.backoff.iter()
    }

    /// Records that a pod of a signature has failed: no pod of the signature is tried early until something
    /// [changes](Self::changed).
    pub(super) fn tried_in_vain(&mut self, signature: QueueSignature) {
        self.early.pass_over(signature);
    }

    /// Records a change of the cluster.
    pub(super) fn changed(&mut self) {
        self.early.pass_over_none();
    }
}
