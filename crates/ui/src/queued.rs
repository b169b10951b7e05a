//! What a picture is made of: the cluster, and what its queue knows of the pods that are not bound.

use plimsoll_engine::{ClusterSnapshot, QueuePlace, QueuedPodInfo, Scheduler};
use plimsoll_framework::{PodInfo, Time};

use crate::picture::{KnownDecision, PodState};

/// A cluster, and apart the pods of its queue. Objects are shared with the scheduler.
#[derive(Debug)]
pub struct ClusterAndQueue {
    /// The cluster. Those of its pods that are in the queue count as they are there.
    pub cluster: ClusterSnapshot,
    /// The pods that are not bound.
    pub queue: Vec<QueuedRow>,
}

/// A pod that is not bound, with what the queue knows of it. There may be as many as pods, so it is small.
#[derive(Debug)]
pub struct QueuedRow {
    pub(crate) info: PodInfo,
    pub(crate) state: PodState,
    pub(crate) attempts: u32,
    pub(crate) since: Time,
    pub(crate) rejectors: Box<[&'static str]>,
    /// What holds it back, if something does.
    pub(crate) gate: Option<Box<str>>,
    pub(crate) decision: Option<Box<KnownDecision>>,
}

impl ClusterAndQueue {
    /// What a scheduler knows.
    pub fn of(scheduler: &Scheduler, now: Time) -> Self {
        ClusterAndQueue {
            cluster: scheduler.snapshot_of_bound(now),
            queue: QueuedRow::all_of(scheduler),
        }
    }
}

impl QueuedRow {
    /// The pods of a scheduler that are not bound, in no particular order.
    pub fn all_of(scheduler: &Scheduler) -> Vec<Self> {
        let queue = scheduler.pending_in_any_order();
        queue.map(|(pod, info)| QueuedRow::of(pod, info)).collect()
    }

    fn of(pod: &PodInfo, info: &QueuedPodInfo) -> Self {
        QueuedRow {
            info: pod.clone(),
            state: PodState::of(&info.place),
            attempts: info.attempts,
            since: info.queued,
            rejectors: info.rejectors().collect(),
            gate: match &info.place {
                QueuePlace::Gated { why, .. } => Some(why.to_string().into()),
                _ => None,
            },
            decision: None,
        }
    }

    /// This is decided about it if it is the next one.
    pub(crate) fn decided(&mut self, decision: KnownDecision) {
        if self.state == PodState::Active && matches!(decision, KnownDecision::Rejected(_)) {
            self.state = PodState::Unschedulable;
        }
        self.decision = Some(Box::new(decision));
    }
}
