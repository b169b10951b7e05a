//! The cluster at one moment, for questions that are answered beside the scheduler.
//!
//! A snapshot of a large cluster takes milliseconds, and the scheduler decides nothing meanwhile. So it can also be taken in
//! parts, between which the scheduler goes on. What changes before it is read is kept as it was
//! ([`AsTheyWere`](crate::as_they_were::AsTheyWere)), so that the snapshot is of one moment all the same.

use std::sync::Arc;

use plimsoll_api::{AnyObject, Node, PodKey, Str};
use plimsoll_framework::{PodInfo, Row, Time, WaitingPod};

use crate::groups::ReservedRoom;
use crate::names::PodId;
use crate::queue::{QueuePlace, QueuedPodInfo};
use crate::scheduler::Scheduler;

/// The cluster as a scheduler has it at one moment. Objects are shared with the scheduler, so taking a snapshot copies none.
#[derive(Clone, Debug)]
pub struct ClusterSnapshot {
    /// When it was taken.
    pub taken: Time,
    /// The nodes.
    pub nodes: Vec<Arc<Node>>,
    /// The pods: on nodes, assumed to be on nodes, and pending.
    pub pods: Vec<PodInfo>,
    /// The nodes to which pending pods are nominated.
    pub nominated: Vec<(PodKey, Str)>,
    /// Everything else that the profiles read. What is assumed stands in place of what was observed.
    pub objects: Vec<AnyObject>,
}

/// A snapshot that is not complete.
#[derive(Debug)]
pub(crate) struct SnapshotInParts {
    /// What has been read.
    read: ClusterSnapshot,
    /// The number of ids of pods and of rows at the beginning, and how many of them have been read.
    n_pods: usize,
    pods_read: usize,
    n_rows: usize,
    rows_read: usize,
}

impl SnapshotInParts {
    /// How much has been read.
    #[cfg(test)]
    pub(crate) fn n_read(&self) -> usize {
        self.pods_read + self.rows_read + self.read.objects.len()
    }
}

/// A pod that is not bound yet, and what a scheduler knows of it.
#[derive(Clone, Debug)]
pub struct PendingPod {
    /// The pod with its place in the queue.
    pub info: QueuedPodInfo,
    /// Where it waits at Permit, and for which plugins; `None` if it does not.
    pub at_permit: Option<WaitingPod>,
    /// The node that was chosen for it, and on which it is assumed to be.
    pub assumed_node: Option<Str>,
    /// The node to which it is nominated.
    pub nominated_node: Option<Str>,
    /// The room that is reserved for a group, because of which it is not tried wherever it is in the queue; `None` if there is
    /// none.
    pub behind: Option<ReservedRoom>,
    /// When it is tried next at the latest; `None` if it is ready, or only a change can free it.
    pub next_attempt: Option<Time>,
}

impl Scheduler {
    /// The cluster at this moment.
    pub fn snapshot(&self, now: Time) -> ClusterSnapshot {
        self.snapshot_with(now, self.pods().cloned().collect())
    }

    /// The cluster at this moment, without the pods that are not bound yet.
    pub fn snapshot_of_bound(&self, now: Time) -> ClusterSnapshot {
        // Nearly all pods on nodes are bound.
        let [_, n_on_nodes, _] = self.cache.sizes();
        let mut pods = Vec::with_capacity(n_on_nodes);
        pods.extend(self.bound().cloned());
        self.snapshot_with(now, pods)
    }

    /// Begins a snapshot of the cluster at this moment, which is taken by [`go_on_with_snapshot`](Self::go_on_with_snapshot). One
    /// that is not complete is given up. Its cost grows only with the number of nominated pods.
    pub fn begin_snapshot(&mut self, now: Time) {
        self.cache.begin_to_read();
        self.queue.begin_to_read();
        let (n_pods, n_rows) = (self.names.n_ids(), self.cache.n_rows());
        let nominated = self.nominated.iter();
        let read = ClusterSnapshot {
            taken: now,
            nodes: Vec::with_capacity(n_rows),
            pods: Vec::with_capacity(n_pods),
            nominated: nominated.map(|(node, pod)| (pod.key.clone(), node.clone())).collect(),
            objects: Vec::new(),
        };
        let parts = SnapshotInParts { read, n_pods, pods_read: 0, n_rows, rows_read: 0 };
        self.snapshot_in_parts = Some(Box::new(parts));
    }

    /// Takes the next part of a snapshot that was begun: it looks at `most` pods, nodes and objects, and at most as many that have
    /// changed. Returns the snapshot with the last part; `None` before, and if none was begun. Whatever happens between the
    /// parts, it is the cluster at the moment at which it was begun. Its lists are in no particular order.
    ///
    /// # Panics
    /// If `most` is 0.
    pub fn go_on_with_snapshot(&mut self, most: usize) -> Option<ClusterSnapshot> {
        assert!(0 < most, "a part is more than nothing");
        let parts = self.snapshot_in_parts.as_deref_mut()?;
        let until = parts.n_pods.min(parts.pods_read + most);
        for index in parts.pods_read..until {
            let id = PodId::from_index(index);
            // An assumed pod is in both. It counts as it is on its node.
            let (queued, placed) = (self.queue.read_pod(id), self.cache.read_pod(id));
            parts.read.pods.extend(placed.or(queued));
        }
        let left = most - (until - parts.pods_read);
        parts.pods_read = until;
        let until = parts.n_rows.min(parts.rows_read + left);
        for index in parts.rows_read..until {
            parts.read.nodes.extend(self.cache.read_node(Row::from_index(index)));
        }
        let mut left = left - (until - parts.rows_read);
        parts.rows_read = until;
        while left != 0 {
            // Objects that have come since are looked at, too, but are not part of it.
            let Some(n_read) = self.cache.read_objects(left, &mut parts.read.objects) else {
                return self.end_snapshot();
            };
            left = left.saturating_sub(n_read);
        }
        None
    }

    /// Gives up a snapshot that is not complete. Nothing is kept for it any more.
    pub fn give_up_snapshot(&mut self) {
        self.end_snapshot();
    }

    fn end_snapshot(&mut self) -> Option<ClusterSnapshot> {
        self.cache.end_reading();
        self.queue.end_reading();
        self.snapshot_in_parts.take().map(|parts| parts.read)
    }

    fn snapshot_with(&self, now: Time, pods: Vec<PodInfo>) -> ClusterSnapshot {
        let view = self.view();
        let nominated = self.nominated.iter();
        ClusterSnapshot {
            taken: now,
            nodes: view.nodes.rows().map(|row| view.nodes.node(row).clone()).collect(),
            pods,
            nominated: nominated.map(|(node, pod)| (pod.key.clone(), node.clone())).collect(),
            objects: view.stores.all().collect(),
        }
    }

    /// A pod that has no node, or is not bound to it yet.
    pub fn pending_state(&self, pod: &PodKey) -> Option<PendingPod> {
        let info = self.queued_pod(pod)?.clone();
        let is_queued = !matches!(info.place, QueuePlace::Gated { .. } | QueuePlace::InFlight);
        let behind = self.reserved_before(&info.pod).filter(|_| is_queued);
        let next_attempt = match &info.place {
            QueuePlace::Backoff { until } | QueuePlace::ErrorBackoff { until } => Some(*until),
            QueuePlace::Unschedulable => Some(info.queued + self.options.max_in_unschedulable),
            QueuePlace::Active | QueuePlace::Gated { .. } | QueuePlace::InFlight => None,
        };
        // It is not tried as long as room is reserved for others, even if its backoff is over.
        let next_attempt = next_attempt.max(behind.as_ref().map(|room| room.until));
        let assumed = self.names.find(pod).and_then(|id| self.cache.pod(id));
        Some(PendingPod {
            at_permit: self.waiting_pods().iter().find(|waiting| waiting.pod.key == *pod).cloned(),
            assumed_node: assumed.and_then(|pod| pod.node().cloned()),
            nominated_node: self.nominated_node(pod).cloned(),
            behind,
            next_attempt,
            info,
        })
    }
}
