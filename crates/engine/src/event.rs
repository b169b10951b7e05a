//! Events: everything that can happen, in one closed list.

use std::sync::Arc;

use plimsoll_api::{
    Namespace, Node, ObjectKey, Pod, PodDisruptionBudget, PodKey, Selecting, SelectingKind, Str,
    VolumeKind, VolumeObject,
};

use crate::effect::EffectId;
use crate::extenders::{ExtenderError, Reply};

/// An observation of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T, K> {
    /// The object exists in this state: created, changed or unchanged.
    Is(T),
    /// The object is deleted.
    Gone(K),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A pod.
    Pod(Seen<Arc<Pod>, PodKey>),
    /// A node.
    Node(Box<Seen<Node, Str>>),
    /// A namespace.
    Namespace(Seen<Namespace, Str>),
    /// A Service, ReplicationController, ReplicaSet or StatefulSet.
    Selecting(Seen<Selecting, (SelectingKind, ObjectKey)>),
    /// A PersistentVolume or PersistentVolumeClaim, a StorageClass, CSINode, CSIDriver,
    /// CSIStorageCapacity or VolumeAttachment.
    Volume(Box<Seen<VolumeObject, (VolumeKind, ObjectKey)>>),
    /// A PodDisruptionBudget.
    Budget(Seen<PodDisruptionBudget, ObjectKey>),
    /// A write was answered. Answers to writes that are not awaited any more are ignored.
    Done(EffectId, Result<(), WriteError>),
    /// An extender has answered or failed. Answers that are not awaited any more are ignored.
    Extended(EffectId, Result<Reply, ExtenderError>),
}

impl Event {
    /// A pod was observed.
    pub fn pod(pod: impl Into<Arc<Pod>>) -> Self {
        Event::Pod(Seen::Is(pod.into()))
    }

    /// A pod was deleted.
    pub fn pod_gone(pod: PodKey) -> Self {
        Event::Pod(Seen::Gone(pod))
    }
}

/// Why a write failed, in the words of the IO layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WriteError(pub String);
