//! The points of the queue: PreEnqueue, QueueSort and queueing hints.

use crate::events::{Change, ClusterEvent, Hint};
use crate::parts::{ClusterPart, PodPart, Ref};
use crate::plugin::Plugin;
use crate::pod_info::PodInfo;
use crate::status::Rejection;
use crate::time::Time;
use crate::view::View;

/// Whether a pod may enter the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It may.
    Open,
    /// It waits outside the queue, until it or the cluster changes.
    Closed(Rejection),
}

/// Whether a pod may enter the queue of pods to be scheduled. A pod that may not is *gated*.
pub trait PreEnqueue: Plugin {
    /// What it reads of the pod.
    type Pod: PodPart;
    /// What it reads of everything else.
    type Cluster: ClusterPart;
    /// Whether it may hold such a pod back at all; if not, it is not asked. A plugin that reads what is individual of pods, but
    /// only of those that ask for something special, says so here: the others are then judged together.
    fn applies(&self, _pod: Ref<'_, Self::Pod>) -> bool {
        true
    }
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
    /// When it was first ready to be tried (`InitialAttemptTimestamp`). Of a pod that never was: when it came into the queue.
    pub first_ready: Time,
}

/// The order of the queue. All profiles of a scheduler use the same plugin. The queue uses that of the first profile.
///
/// ```
/// use std::cmp::Reverse;
///
/// use plimsoll_framework::prelude::*;
///
/// /// Pods of one namespace after the other, and within a namespace by priority.
/// struct ByNamespace;
/// # impl Plugin for ByNamespace {
/// #     const NAME: &'static str = "ByNamespace";
/// #     type Args = NoArgs;
/// #     fn new(_: NoArgs, _: &FeatureGates) -> Self {
/// #         ByNamespace
/// #     }
/// # }
///
/// impl QueueSort for ByNamespace {
///     type Key = (Str, Reverse<i32>);
///     fn key(&self, queued: &QueuedPod<'_>) -> Self::Key {
///         (queued.pod.key.namespace.clone(), Reverse(queued.pod.priority))
///     }
/// }
///
/// let entry = Entry::of::<ByNamespace>().queue_sort().done();
/// # assert_eq!(entry.name(), "ByNamespace");
/// ```
pub trait QueueSort: Plugin {
    /// Any type with an order. `(i64, i64)` is the fastest.
    type Key: Ord + Send + Sync + 'static;
    /// The key of `pod`. The pod with the smaller key goes first; if keys are equal, the one that arrived earlier. This
    /// is a key and not a comparison, so that the order is always total.
    fn key(&self, pod: &QueuedPod<'_>) -> Self::Key;
    /// The key of `pod` in this cluster, for an order that depends on objects. The entry must then name them
    /// ([`Builder::queue_sort_reading`](crate::Builder::queue_sort_reading)), so that ready pods are sorted again when
    /// such an object changes. By default the cluster does not matter.
    fn key_in(&self, pod: &QueuedPod<'_>, _cluster: &View<'_>) -> Self::Key {
        self.key(pod)
    }
}

/// When a pod that this plugin rejected is worth another attempt (EventsToRegister and its hints).
///
/// Implement this only if the events that the engine derives from the parts of the plugin are not right.
pub trait Requeue: Plugin {
    /// The events that may help.
    fn events(&self) -> Vec<ClusterEvent>;
    /// Whether this change may help this pod.
    ///
    /// Pods that differ only in key, uid, annotations and age are asked about as one, unless the plugin names one of
    /// these parts where it judges pods, or names no part of the pod. A hint may therefore read only what the
    /// plugin names there.
    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint;
}
