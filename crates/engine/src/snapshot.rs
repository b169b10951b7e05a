//! The cluster at one moment, for questions that are answered beside the scheduler.

use std::sync::Arc;

use plimsoll_api::{AnyObject, Node, PodKey, Str};
use plimsoll_framework::{PodInfo, Time, WaitingPod};

use crate::groups::ReservedRoom;
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
