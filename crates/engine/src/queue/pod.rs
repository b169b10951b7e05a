//! A pod of the queue, with its place and history.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_framework::{PodInfo, QueuedPod, Rejection, Time};

use crate::metrics::{BoundPod, EventLabel, Lap};
use crate::names::PodId;

/// Where a pod of the queue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueuePlace {
    /// It is ready to be tried.
    Active,
    /// It is tried when its backoff ends, or earlier if nothing else is ready.
    Backoff {
        /// When it ends.
        until: Time,
    },
    /// As [`QueuePlace::Backoff`], after an error; never tried earlier.
    ErrorBackoff {
        /// When it ends.
        until: Time,
    },
    /// It waits for a change that may help.
    Unschedulable,
    /// It is held back.
    Gated {
        /// The plugin that holds it back.
        plugin: &'static str,
        /// Why.
        why: Rejection,
    },
    /// It is being scheduled or bound.
    InFlight,
}

/// After this many errors in a row without a change of the cluster, errors count as permanent.
/// Transient ones, such as a refused write or a node that is only in some samples, disappear within
/// fewer retries.
const MOST_ERRORS: u32 = 5;

/// After this many errors in a row they count as permanent whatever has changed. A plugin that writes an object in every
/// attempt changes the cluster itself.
const MOST_ERRORS_IN_ALL: u32 = 20;

/// A pod of the queue.
#[derive(Clone, Debug)]
pub struct QueuedPodInfo {
    /// The pod.
    pub pod: PodInfo,
    /// Its place.
    pub place: QueuePlace,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was added, or returned after its last attempt.
    pub queued: Time,
    /// When it was first ready to be tried.
    pub first_ready: Option<Time>,
    /// How often it waited at Permit and was rejected there.
    pub(crate) vain_waits: u32,
    /// When the last attempt began, for metrics.
    pub(super) began: Lap,
    /// What has moved it last, other than the end of its backoff.
    pub(crate) woken_by: EventLabel,
    /// Whether it is tried only because of a flush.
    pub(super) flushed: bool,
    /// How often plugins rejected it.
    unschedulable_count: u32,
    /// How many failures without rejectors in a row it has had, which are errors to kube-scheduler's backoff.
    consecutive_errors: u32,
    /// Whether its last failure was an error.
    is_after_error: bool,
    /// How many failures like the last one, without rejectors, in a row it has had.
    alike: u32,
    /// How many of them since the last change of the cluster, and the [event
    /// count](super::Queue::hears) at that time.
    vain_errors: (u32, u64),
    /// The [change count](super::Queue::on_change) at its last failure.
    failed_at: u64,
    /// Which plugins rejected it last time; `None` if none did.
    pub(super) verdict: Option<Arc<AttemptVerdict>>,
    /// The order of its arrival: of two pods with equal keys the earlier one is first.
    pub(super) arrival: u64,
}

/// An attempt to schedule a pod.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) id: PodId,
    pub(crate) pod: PodInfo,
    /// The number of the attempt, starting with 1.
    pub(crate) number: u32,
}

/// Why an attempt failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AttemptVerdict {
    /// The plugins that rejected the pod; none after an error.
    pub(crate) rejectors: BTreeSet<&'static str>,
    /// Those of them that wait for an external change.
    pub(crate) pending: BTreeSet<&'static str>,
    /// Whether it was an error. A member of a group that does not fit may have no rejectors, either.
    pub(crate) is_error: bool,
}

impl QueuedPodInfo {
    /// A new pod.
    pub(super) fn new(pod: PodInfo, now: Time, arrival: u64) -> Self {
        QueuedPodInfo {
            pod,
            place: QueuePlace::Active,
            attempts: 0,
            queued: now,
            first_ready: None,
            vain_waits: 0,
            began: Lap::default(),
            woken_by: EventLabel::PENDING_POD_ADD,
            flushed: false,
            unschedulable_count: 0,
            consecutive_errors: 0,
            is_after_error: false,
            alike: 0,
            vain_errors: (0, 0),
            failed_at: 0,
            verdict: None,
            arrival,
        }
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, began: Lap) {
        self.attempts += 1;
        self.began = began;
        self.verdict = None;
    }

    /// Records a failed attempt. As in scheduling_queue.go, AddUnschedulableIfNotPresent: errors are
    /// counted separately, and a rejection ends their series. `heard` is the event count of the
    /// cluster, `changed` the count of the changes that pods may wait for.
    pub(super) fn fail(&mut self, now: Time, verdict: AttemptVerdict, heard: u64, changed: u64) {
        self.failed_at = changed;
        if verdict.rejectors.is_empty() {
            self.consecutive_errors = self.consecutive_errors.saturating_add(1);
            let is_alike = verdict.is_error == self.is_after_error;
            self.alike = if is_alike { self.alike.saturating_add(1) } else { 1 };
            self.vain_errors = match self.vain_errors {
                (errors, since) if is_alike && since == heard => (errors.saturating_add(1), since),
                _ => (1, heard),
            };
        } else {
            self.unschedulable_count = self.unschedulable_count.saturating_add(1);
            self.consecutive_errors = 0;
            self.alike = 0;
        }
        self.is_after_error = verdict.is_error;
        self.verdict = (!verdict.rejectors.is_empty()).then(|| Arc::new(verdict));
        self.queued = now;
        self.flushed = false;
    }

    /// The plugins that hold it back, or rejected it last time.
    pub fn rejectors(&self) -> impl Iterator<Item = &'static str> {
        let gate = match self.place {
            QueuePlace::Gated { plugin, .. } => Some(plugin),
            _ => None,
        };
        let verdict = self.verdict.as_ref().filter(|_| gate.is_none());
        let rejectors = verdict.into_iter().flat_map(|verdict| &verdict.rejectors).copied();
        gate.into_iter().chain(rejectors)
    }

    /// Its data for metrics when it is bound.
    pub(super) fn bound(&self) -> BoundPod {
        let &QueuedPodInfo { attempts, first_ready, began, flushed, .. } = self;
        BoundPod { attempts, first_ready, flushed, began }
    }

    /// Whether it has had so many errors in a row, or since the last change of the cluster, that it will fail again.
    pub(super) fn errs_in_vain(&self, heard: u64) -> bool {
        let since_change = MOST_ERRORS <= self.vain_errors.0 && self.vain_errors.1 == heard;
        since_change || MOST_ERRORS_IN_ALL <= self.alike
    }

    /// Whether its attempt after its backoff will fail, too: it belongs to a group, which is tried again and again, and
    /// nothing has changed since it did not fit. After an error, such as a refused write, the next attempt may come out
    /// differently.
    pub(super) fn fails_again(&self, changed: u64) -> bool {
        let is_retried = 0 < self.attempts && self.pod.scheduling_group.is_some();
        is_retried && !self.is_after_error && self.failed_at == changed
    }

    /// What its order in the queue is derived from.
    pub(crate) fn in_queue(&self) -> QueuedPod<'_> {
        let &QueuedPodInfo { ref pod, queued, first_ready, .. } = self;
        QueuedPod { pod, queued, first_ready: first_ready.unwrap_or(queued) }
    }

    /// The order in which it came, among all pods.
    pub fn arrival(&self) -> u64 {
        self.arrival
    }

    /// How often plugins rejected it, and how many errors in a row it has had.
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.unschedulable_count, self.consecutive_errors)
    }

    /// The number of failures for its backoff.
    pub(super) fn failures(&self) -> u32 {
        match self.consecutive_errors {
            0 => self.unschedulable_count,
            errors => errors,
        }
    }
}
