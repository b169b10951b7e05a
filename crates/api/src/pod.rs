//! The pod.

use crate::{
    Asks, Edition, HostPort, Labels, NodeSelection, NonZero, ObjectKey, PodAffinity, PodImages,
    PodVolume, PreferredNodes, Resources, SpreadConstraint, Str, Timestamp, Toleration,
};

/// Namespace and name of a pod.
pub type PodKey = ObjectKey;

/// How far a pod has come in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodPhase {
    /// Not yet running.
    #[default]
    Pending,
    /// Running, or in a phase that is not known.
    Running,
    /// Ended, with success or without: it holds nothing any more.
    Ended,
}

/// Whether a pod may evict others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PreemptionPolicy {
    /// It may evict pods of lower priority.
    #[default]
    PreemptLowerPriority,
    /// It waits.
    Never,
}

/// The controller that owns a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Controller {
    /// `apiVersion` of the controller, such as `apps/v1`.
    pub api_version: Str,
    /// `kind` of the controller, such as `ReplicaSet`.
    pub kind: Str,
    /// Its name.
    pub name: Str,
    /// Its unique identity; a controller that is made again under the same name has another one.
    pub uid: Str,
}

/// A pod: what scheduling reads of it, defaulted as the API server would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub key: PodKey,
    /// Its unique identity; a pod that is made again under the same name has another one.
    pub uid: Str,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// When it must be gone: a pod that has this is terminating.
    pub deletion: Option<Timestamp>,
    /// Whether it is being evicted for a pod of higher priority (condition `DisruptionTarget` with
    /// reason `PreemptionByScheduler`).
    pub preempted: bool,
    /// When it was first seen by its node.
    pub started: Option<Timestamp>,
    /// How far it has come.
    pub phase: PodPhase,
    /// The controller that owns it.
    pub controller: Option<Controller>,

    /// The scheduler that must place it.
    pub scheduler_name: Str,
    /// Its priority; higher goes first.
    pub priority: i32,
    /// Whether it may evict others.
    pub preemption_policy: PreemptionPolicy,
    /// The node it is on or asks for (`spec.nodeName`).
    pub node_name: Option<Str>,
    /// The node that was cleared for it (`status.nominatedNodeName`).
    pub nominated_node: Option<Str>,
    /// Names of the gates that keep it from being scheduled.
    pub scheduling_gates: Vec<Str>,

    /// On which nodes it may run.
    pub node_selection: NodeSelection,
    /// On which nodes it would rather run.
    pub preferred_nodes: PreferredNodes,
    /// Which taints it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Which pods it wants near and far.
    pub affinity: PodAffinity,
    /// How it wants to be spread.
    pub spread: Vec<SpreadConstraint>,
    /// What it asks of a node.
    pub asks: Asks,
    /// What it takes of the node it is on.
    pub requests: Resources,
    /// The same for scoring: containers that ask nothing count with a default.
    pub non_zero_requests: NonZero,
    /// The ports of the host it asks for.
    pub host_ports: Vec<HostPort>,
    /// The images it wants.
    pub images: PodImages,
    /// Names of the node features that its spec needs, sorted.
    pub required_features: Vec<Str>,
    /// Its volumes, as far as scheduling reads them.
    pub volumes: Vec<PodVolume>,
    /// Names of its resource claims (`spec.resourceClaims`).
    pub resource_claims: Vec<Str>,

    /// Which edition of it was seen.
    pub edition: Edition,
}

impl Pod {
    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.deletion.is_some()
    }
}
