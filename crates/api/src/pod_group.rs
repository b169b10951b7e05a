//! Groups of pods that are scheduled together.

use serde::{Deserialize, Serialize};

use crate::devices::{PodClaimStatus, PodResourceClaim};
use crate::{ObjectKey, PreemptionPolicy, Str, Timestamp};

/// The annotation of PodGroups and CompositePodGroups with the labels of nodes of which all their pods should have the same
/// values: keys separated by commas, that of the narrowest domains first.
pub const PREFERRED_TOPOLOGY: &str = "plimsoll.io/preferred-topology";

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
    /// The labels of nodes of which all its pods should have the same values, if that is possible
    /// ([`PREFERRED_TOPOLOGY`]), as it was written: what is wrong with it matters only to a scheduler that reads it.
    pub preferred_topology: Option<Str>,
    /// Whether its pods may be evicted one by one.
    pub disruption: DisruptionMode,
    /// Its priority. Since 1.37 its pods must have the same.
    pub priority: i32,
    /// Whether it was once scheduled: the condition `PodGroupScheduled` (since 1.37 `PodGroupInitiallyScheduled`) is true.
    pub condition: Option<GroupCondition>,
    /// Whether it may evict pods of lower priority (`preemptionPolicy`); read only with the feature gate
    /// `PodGroupPreemptionPolicy`.
    pub preemption_policy: PreemptionPolicy,
    /// The name of the CompositePodGroup that it is part of, in the same namespace (`parentCompositePodGroupName`); read
    /// only with the feature gate `CompositePodGroup`.
    pub parent: Option<Str>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The claims on devices that its pods share (`resourceClaims`): those that pods claim by the same name from the same
    /// source. They are read only with the feature gate `DRAWorkloadResourceClaims`.
    pub resource_claims: Vec<PodResourceClaim>,
    /// The claims that were made for it from templates (`status.resourceClaimStatuses`).
    pub claim_statuses: Vec<PodClaimStatus>,
}

/// scheduling.k8s.io CompositePodGroup: groups, and groups of groups, that are scheduled together. It has no pods of its
/// own. It is read only if the feature gate `CompositePodGroup` is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompositePodGroup {
    /// Namespace and name. Its groups are in the same namespace.
    pub key: ObjectKey,
    /// Its unique identity.
    pub uid: Str,
    /// The generation of its spec.
    pub generation: i64,
    /// How many of its groups must be placed together: the count of a gang is `minGroupCount`.
    pub policy: GroupPolicy,
    /// The labels of nodes of which all pods of its groups must have the same value; `None` without
    /// `schedulingConstraints`.
    pub topology: Option<Vec<Str>>,
    /// The labels of nodes of which all its pods should have the same values, if that is possible
    /// ([`PREFERRED_TOPOLOGY`]), as it was written: what is wrong with it matters only to a scheduler that reads it.
    pub preferred_topology: Option<Str>,
    /// Whether the pods of its groups may be evicted one by one.
    pub disruption: DisruptionMode,
    /// Its priority. The pods of all its groups must have that of the root.
    pub priority: i32,
    /// Whether it may evict pods of lower priority (`preemptionPolicy`); read only with the feature gate
    /// `PodGroupPreemptionPolicy`.
    pub preemption_policy: PreemptionPolicy,
    /// The name of the CompositePodGroup that it is part of (`parentCompositePodGroupName`).
    pub parent: Option<Str>,
    /// When it was created.
    pub created: Option<Timestamp>,
}

/// How many pods of a group, or groups of a composite one, must be placed together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupPolicy {
    /// Each one that fits is bound.
    #[default]
    Basic,
    /// None is bound until so many of them fit.
    Gang {
        /// How many, at least 1. Pods that run already count. In a composite group these are groups.
        min_count: u32,
    },
}

/// Whether pods of a group may be evicted one by one for others of higher priority; in 1.36 for groups only.
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

impl GroupPolicy {
    /// How many must be placed together; `None` for a group that is no gang.
    pub fn min_count(self) -> Option<u32> {
        match self {
            GroupPolicy::Basic => None,
            GroupPolicy::Gang { min_count } => Some(min_count),
        }
    }
}

impl PodGroup {
    /// How many pods must be placed together; `None` for a group that is no gang.
    pub fn min_count(&self) -> Option<u32> {
        self.policy.min_count()
    }

    /// The label of nodes of which all its pods must have the same value. There is at most one.
    pub fn topology_key(&self) -> Option<&Str> {
        self.topology.as_ref()?.first()
    }

    /// Whether a claim of one of its pods is one that they share. As in resourceclaim.go, BindTo.
    pub fn shares(&self, claim: &PodResourceClaim) -> bool {
        self.resource_claims.contains(claim)
    }
}

impl CompositePodGroup {
    /// How many groups must be placed together; `None` for one that is no gang.
    pub fn min_group_count(&self) -> Option<u32> {
        self.policy.min_count()
    }

    /// The label of nodes of which all pods must have the same value. There is at most one.
    pub fn topology_key(&self) -> Option<&Str> {
        self.topology.as_ref()?.first()
    }
}
