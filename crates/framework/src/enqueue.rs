//! Into the queue, through it, and back: PreEnqueue, QueueSort and queueing hints.

use crate::events::{Change, ClusterEvent, Hint};
use crate::parts::{ClusterPart, PodPart, Ref};
use crate::plugin::Plugin;
use crate::pod_info::PodInfo;
use crate::status::Rejection;
use crate::time::Time;

/// Whether a pod may enter the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It may.
    Open,
    /// It waits outside, until it or the cluster changes.
    Closed(Rejection),
}

/// Whether a pod may enter the queue of pods to be scheduled. A pod that may not is *gated*.
pub trait PreEnqueue: Plugin {
    /// What it reads of the pod.
    type Pod: PodPart;
    /// What it reads of everything else.
    type Cluster: ClusterPart;
    /// Judges one pod.
    fn pre_enqueue(&self, pod: Ref<'_, Self::Pod>, cluster: Ref<'_, Self::Cluster>) -> Gate;
}

/// A pod in the queue.
#[derive(Clone, Copy, Debug)]
pub struct QueuedPod<'a> {
    /// The pod.
    pub pod: &'a PodInfo,
    /// When it came into the queue, or came back after its last attempt.
    pub queued: Time,
}

/// Where a pod stands in the queue: the smaller key goes first, and of equal keys the earlier
/// arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortKey(pub i64, pub i64);

/// The order of the queue. All profiles of a scheduler use the same one.
pub trait QueueSort: Plugin {
    /// Where `pod` stands. A key in place of a comparison is always a total order.
    fn key(&self, pod: &QueuedPod<'_>) -> SortKey;
}

/// When a pod that this plugin rejected is worth another attempt (EventsToRegister and its hints).
///
/// Only for plugins for which what the engine derives from their parts is not right.
pub trait Requeue: Plugin {
    /// The events that may help.
    fn events(&self) -> Vec<ClusterEvent>;
    /// Whether this change helps this pod.
    ///
    /// Pods that differ in nothing but key, uid, annotations and age are asked as one, unless the plugin
    /// reads any of these, or nothing at all, where it judges: what a hint reads of a pod must be among
    /// the parts that the plugin names there.
    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint;
}
