//! Groups of pods that are scheduled together.

use serde::{Deserialize, Serialize};

use crate::{ObjectKey, Str};

/// scheduling.k8s.io PodGroup: pods that name it are scheduled together. It is read only if the feature gate
/// `GenericWorkload` is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodGroup {
    /// Namespace and name. Its pods are in the same namespace.
    pub key: ObjectKey,
    /// Its unique identity.
    pub uid: Str,
    /// The generation of its spec.
    pub generation: i64,
    /// How many of its pods must be placed together.
    pub policy: GroupPolicy,
    /// The labels of nodes of which all its pods must have the same value; `None` without `schedulingConstraints`, which
    /// is not the same as an empty list.
    pub topology: Option<Vec<Str>>,
    /// Whether its pods may be evicted one by one.
    pub disruption: DisruptionMode,
    /// Its priority, which is not that of its pods.
    pub priority: i32,
    /// Whether it was once scheduled: the condition `PodGroupScheduled` (since 1.37 `PodGroupInitiallyScheduled`) is true.
    pub condition: Option<GroupCondition>,
}

/// How many pods of a group must be placed together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupPolicy {
    /// Each pod that fits is bound.
    #[default]
    Basic,
    /// None is bound until so many of them fit.
    Gang {
        /// How many, at least 1. Pods that run already count.
        min_count: u32,
    },
}

/// Whether pods of a group may be evicted one by one for a group of higher priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DisruptionMode {
    /// Each by itself (`Pod`; since 1.37 `single`).
    #[default]
    Single,
    /// All or none (`PodGroup`; since 1.37 `all`).
    All,
}

/// The condition that tells whether a group was scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupCondition {
    /// Whether it was. It stays true.
    pub is_true: bool,
    /// `Scheduled`, `Unschedulable` or `SchedulerError`.
    pub reason: Str,
    /// Why not; empty if it was.
    pub message: String,
}

impl PodGroup {
    /// How many pods must be placed together; `None` for a group that is no gang.
    pub fn min_count(&self) -> Option<u32> {
        match self.policy {
            GroupPolicy::Basic => None,
            GroupPolicy::Gang { min_count } => Some(min_count),
        }
    }

    /// The label of nodes of which all its pods must have the same value. There is at most one.
    pub fn topology_key(&self) -> Option<&Str> {
        self.topology.as_ref()?.first()
    }
}
