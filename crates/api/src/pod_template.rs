//! The part of a pod that pods of one controller share.

use serde::{Deserialize, Serialize};

use crate::devices::ContainerDevices;
use crate::{
    Asks, HostPort, Labels, NodeSelection, NonZero, PodAffinity, PodImages, PodResourceClaim,
    PodVolume, PreferredNodes, Resources, SpreadConstraint, Str, Toleration,
};

/// Whether a pod may evict others.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum PreemptionPolicy {
    /// It may evict pods of lower priority.
    #[default]
    PreemptLowerPriority,
    /// It never evicts pods.
    Never,
}

/// The controller that owns a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// The fields that scheduling reads of a pod and that are mostly equal for all pods of one controller.
/// It is created once and shared by them ([`Templates`](crate::Templates)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodTemplate {
    /// The labels.
    pub labels: Labels,
    /// The controller that owns the pod.
    pub controller: Option<Controller>,
    /// The scheduler that is responsible for it.
    pub scheduler_name: Str,
    /// Its priority; higher goes first.
    pub priority: i32,
    /// Whether it may evict others.
    pub preemption_policy: PreemptionPolicy,
    /// Names of the gates that keep it from being scheduled.
    pub scheduling_gates: Vec<Str>,
    /// The name of the group of pods to which it belongs (`spec.schedulingGroup.podGroupName`).
    pub scheduling_group: Option<Str>,

    /// On which nodes it may run.
    pub node_selection: NodeSelection,
    /// Which nodes it prefers.
    pub preferred_nodes: PreferredNodes,
    /// Which taints it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Its affinity and anti-affinity to other pods.
    pub affinity: PodAffinity,
    /// Its topology spread constraints.
    pub spread: Vec<SpreadConstraint>,
    /// What it requests of a node.
    pub asks: Asks,
    /// What it uses of the node it is on.
    pub requests: Resources,
    /// The same for scoring: containers without a request count with a default.
    pub non_zero_requests: NonZero,
    /// Its limits; 0 for a resource without a limit. They are for metrics: no decision depends on them.
    pub limits: Resources,
    /// The host ports it requests.
    pub host_ports: Vec<HostPort>,
    /// The images it uses.
    pub images: PodImages,
    /// Names of the node features that its spec needs, sorted.
    pub required_features: Vec<Str>,
    /// Its volumes, as far as scheduling reads them.
    pub volumes: Vec<PodVolume>,
    /// Its claims on devices (`spec.resourceClaims`), in their order.
    pub resource_claims: Vec<PodResourceClaim>,
    /// The claims that its init containers and containers use (`resources.claims`), if they use some.
    pub container_devices: Vec<ContainerDevices>,
}
