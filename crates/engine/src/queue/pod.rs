//! A pod of the queue, with where it is and what has become of it so far.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_framework::{PodInfo, Rejection, Time};

use crate::metrics::{Bound, Lap};
use crate::names::PodId;

/// Where a pod of the queue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Ready to be tried.
    Active,
    /// To be tried when its backoff ends, or earlier if nothing else is ready.
    Backoff {
        /// When it ends.
        until: Time,
    },
    /// As [`Place::Backoff`], after an error; never tried earlier.
    ErrorBackoff {
        /// When it ends.
        until: Time,
    },
    /// Waits for a change that may help.
    Unschedulable,
    /// Kept out.
    Gated {
        /// The plugin that keeps it out.
        plugin: &'static str,
        /// Why.
        why: Rejection,
    },
    /// Being scheduled or bound.
    InFlight,
}

/// So many errors in a row, while nothing changes in the cluster, are no accident: a write that is refused by
/// chance, or a node that is met only in some samples, is tried again that often.
const MOST_ERRORS: u32 = 5;

/// A pod of the queue.
#[derive(Clone, Debug)]
pub struct QueuedPodInfo {
    /// The pod.
    pub pod: PodInfo,
    /// Where it is.
    pub place: Place,
    /// How often it was tried.
    pub attempts: u32,
    /// When it came, or came back after its last attempt.
    pub queued: Time,
    /// When it was first ready to be tried.
    pub first_ready: Option<Time>,
    /// When the last attempt began, for metrics.
    pub(super) began: Lap,
    /// Whether it is only tried since it has waited too long.
    pub(super) flushed: bool,
    /// How often plugins rejected it.
    unschedulable_count: u32,
    /// How many errors it has met in a row.
    consecutive_errors: u32,
    /// How many of them since the cluster last changed, and what was [heard](super::Queue::hears) then.
    vain_errors: (u32, u64),
    /// Which plugins rejected it last time; `None` if none did.
    pub(super) verdict: Option<Arc<Verdict>>,
    /// The order of its arrival: of two pods with equal keys the earlier goes first.
    pub(super) arrival: u64,
}

/// An attempt at a pod begins.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) id: PodId,
    pub(crate) pod: PodInfo,
    /// The how-manieth attempt at the pod it is, from 1.
    pub(crate) number: u32,
}

/// Why an attempt failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Verdict {
    /// The plugins that rejected the pod; none after an error.
    pub(crate) rejectors: BTreeSet<&'static str>,
    /// Those of them that wait for something outside.
    pub(crate) pending: BTreeSet<&'static str>,
}

impl QueuedPodInfo {
    /// A pod that has just come.
    pub(super) fn new(pod: PodInfo, now: Time, arrival: u64) -> Self {
        QueuedPodInfo {
            pod,
            place: Place::Active,
            attempts: 0,
            queued: now,
            first_ready: None,
            began: Lap::default(),
            flushed: false,
            unschedulable_count: 0,
            consecutive_errors: 0,
            vain_errors: (0, 0),
            verdict: None,
            arrival,
        }
    }

    /// An attempt begins.
    pub(super) fn begin(&mut self, began: Lap) {
        self.attempts += 1;
        self.began = began;
        self.verdict = None;
    }

    /// The attempt failed. As in scheduling_queue.go, AddUnschedulableIfNotPresent: errors count by
    /// themselves, and a rejection ends their row. `heard` tells apart what was heard of the cluster.
    pub(super) fn fail(&mut self, now: Time, verdict: Verdict, heard: u64) {
        if verdict.rejectors.is_empty() {
            self.consecutive_errors = self.consecutive_errors.saturating_add(1);
            self.vain_errors = match self.vain_errors {
                (errors, since) if since == heard => (errors.saturating_add(1), since),
                _ => (1, heard),
            };
        } else {
            self.unschedulable_count = self.unschedulable_count.saturating_add(1);
            self.consecutive_errors = 0;
        }
        self.verdict = (!verdict.rejectors.is_empty()).then(|| Arc::new(verdict));
        self.queued = now;
        self.flushed = false;
    }

    /// Which plugins keep it out, or rejected it last time.
    pub(crate) fn rejectors(&self) -> impl Iterator<Item = &'static str> {
        let gate = match self.place {
            Place::Gated { plugin, .. } => Some(plugin),
            _ => None,
        };
        let verdict = self.verdict.as_ref().filter(|_| gate.is_none());
        let rejectors = verdict.into_iter().flat_map(|verdict| &verdict.rejectors).copied();
        gate.into_iter().chain(rejectors)
    }

    /// What metrics say of it once it is bound.
    pub(super) fn bound(&self) -> Bound {
        let &QueuedPodInfo { attempts, first_ready, began, flushed, .. } = self;
        Bound { attempts, first_ready, flushed, began }
    }

    /// Whether it has erred so often since the cluster last changed that it will err again.
    pub(super) fn errs_in_vain(&self, heard: u64) -> bool {
        MOST_ERRORS <= self.vain_errors.0 && self.vain_errors.1 == heard
    }

    /// The failures that its backoff counts.
    pub(super) fn failures(&self) -> u32 {
        match self.consecutive_errors {
            0 => self.unschedulable_count,
            errors => errors,
        }
    }
}
