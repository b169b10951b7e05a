//! The pods that go by themselves, each shelf in the order in which it is emptied.

use plimsoll_framework::{SortKey, Time};

use super::early::Early;
use super::pod::Place;
use crate::class::ClassId;
use crate::lane::Lane;
use crate::names::PodId;

/// Where a pod stands among the ready ones: of two with equal keys the one that came earlier goes first.
pub(super) type ActiveKey = (SortKey, u64);

/// Which pods may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Those whose backoff is over.
    Due,
    /// If there is none, one whose backoff is not over, too. As PopFromBackoffQ has it, but for those of
    /// whom it is known that it would be in vain.
    Early,
}

/// The pods that are ready or in backoff. Pods in flight and pods that wait are on no shelf.
#[derive(Debug, Default)]
pub(super) struct Shelves {
    active: Lane<ActiveKey>,
    backoff: Lane<(Time, ActiveKey)>,
    /// Those in backoff again, as they are tried before it is over.
    early: Early,
    error_backoff: Lane<(Time, ActiveKey)>,
}

impl Shelves {
    /// Puts a pod where its place says; `class` is that of pods that are tried in vain if it is.
    pub(super) fn put(
        &mut self,
        place: &Place,
        key: ActiveKey,
        class: Option<ClassId>,
        pod: PodId,
    ) {
        match place {
            Place::Active => self.active.insert(key, pod),
            &Place::Backoff { until } => {
                self.backoff.insert((until, key.clone()), pod);
                self.early.put((until, key), class, pod);
            }
            &Place::ErrorBackoff { until } => self.error_backoff.insert((until, key), pod),
            Place::Unschedulable | Place::Gated { .. } | Place::InFlight => {}
        }
    }

    /// Takes a pod from where its place says.
    pub(super) fn take(&mut self, place: &Place, key: ActiveKey, class: Option<ClassId>) {
        match place {
            Place::Active => self.active.remove(&key),
            &Place::Backoff { until } => {
                let key = (until, key);
                self.backoff.remove(&key);
                self.early.take(&key, class);
            }
            &Place::ErrorBackoff { until } => self.error_backoff.remove(&(until, key)),
            Place::Unschedulable | Place::Gated { .. } | Place::InFlight => {}
        }
    }

    /// The pod to be tried next.
    pub(super) fn first(&self, ready: Ready) -> Option<PodId> {
        match (self.active.first(), ready) {
            (Some((_, pod)), _) => Some(pod),
            (None, Ready::Early) => self.early.first(),
            (None, Ready::Due) => None,
        }
    }

    /// A pod whose backoff is over.
    pub(super) fn backoff_over(&self, now: Time) -> Option<PodId> {
        let over = |lane: &Lane<(Time, ActiveKey)>| {
            lane.first().filter(|((until, _), _)| *until <= now).map(|(_, pod)| pod)
        };
        over(&self.backoff).or_else(|| over(&self.error_backoff))
    }

    /// When the next pod leaves backoff.
    pub(super) fn next_backoff_over(&self) -> Option<Time> {
        let over = |lane: &Lane<(Time, ActiveKey)>| lane.first().map(|((until, _), _)| *until);
        over(&self.error_backoff).into_iter().chain(over(&self.backoff)).min()
    }

    /// The pods whose last attempt met an error and that are not ready yet, in no particular order.
    pub(super) fn after_errors(&self) -> impl Iterator<Item = PodId> {
        self.error_backoff.iter()
    }

    /// Whether a pod can be tried now.
    pub(super) fn has_ready(&self, ready: Ready) -> bool {
        !self.active.is_empty() || (ready == Ready::Early && self.early.has_any())
    }

    /// Whether a pod is in backoff after a rejection.
    pub(super) fn has_backoff(&self) -> bool {
        !self.backoff.is_empty()
    }

    /// A pod of a class was tried in vain: none of them is tried before its backoff is over, until something
    /// [changes](Self::changed).
    pub(super) fn tried_in_vain(&mut self, class: ClassId) {
        self.early.pass_over(class);
    }

    /// Something has changed.
    pub(super) fn changed(&mut self) {
        self.early.pass_over_none();
    }
}
