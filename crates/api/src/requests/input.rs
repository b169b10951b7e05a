//! Everything about a pod that its request depends on.

use serde::{Deserialize, Serialize};

use crate::resources::{CPU, MEMORY, ResourceList};

/// Everything about a pod that its request depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodResourcesInput {
    /// The containers, which run concurrently.
    pub containers: Vec<ContainerResources>,
    /// The init containers in the order they start, sidecars among them.
    pub init_containers: Vec<ContainerResources>,
    /// The overhead of running the pod (`spec.overhead`).
    pub overhead: ResourceList,
    /// Pod-level resources (`spec.resources`).
    pub pod_level: Option<PodLevelResources>,
    /// The pod-level resources in the status, whether or not the spec has any.
    pub status: PodStatusResources,
    /// Whether a resize is pending.
    pub resize: Resize,
}

impl PodResourcesInput {
    pub(super) fn all_containers(&self) -> impl Iterator<Item = &ContainerResources> {
        self.containers.iter().chain(&self.init_containers)
    }

    /// Whether its requests depend neither on gates nor on the status.
    pub(crate) fn is_plain(&self) -> bool {
        let is_plain = |one: &ContainerResources| one.actual.is_none() && one.allocated.is_none();
        self.pod_level.is_none()
            && self.resize != Resize::Infeasible
            && self.status == PodStatusResources::default()
            && self.all_containers().all(is_plain)
    }

    /// Whether no container counts with a default.
    pub(super) fn requests_cpu_and_memory_everywhere(&self) -> bool {
        let names_both = |list: &ResourceList| list.contains_key(CPU) && list.contains_key(MEMORY);
        self.all_containers().all(|container| names_both(&container.requests))
    }
}

/// The resources of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerResources {
    /// `resources.requests`.
    pub requests: ResourceList,
    /// `resources.limits`. Kept for code that applies the API server's defaults; only
    /// [`Limits`](super::Limits) reads them here.
    pub limits: ResourceList,
    /// Whether this is an init container with `restartPolicy: Always`: a sidecar, which keeps running
    /// with the containers. Ignored for other containers.
    pub restart_always: bool,
    /// `allocatedResources` in the status of the container, wherever its name is found: among the
    /// statuses of init containers, else of containers.
    pub allocated: Option<ResourceList>,
    /// `resources.requests` in the same status; present and maybe empty if the status has
    /// `resources`.
    pub actual: Option<ResourceList>,
}

/// Pod-level resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodLevelResources {
    /// `spec.resources.requests`.
    pub requests: ResourceList,
    /// `spec.resources.limits`. Kept like those of a container; not read here.
    pub limits: ResourceList,
}

/// The pod-level resources in the status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodStatusResources {
    /// `status.allocatedResources`.
    pub allocated: Option<ResourceList>,
    /// `status.resources.requests`; present and maybe empty if there is `status.resources`.
    pub actual: Option<ResourceList>,
}

/// Whether a resize of a running pod is pending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resize {
    /// None is pending, or its reason is unknown.
    #[default]
    None,
    /// It waits for room on the node.
    Deferred,
    /// It can never succeed on this node, so the requests in the spec do not count.
    Infeasible,
}

impl Resize {
    /// Reads the reason of the first condition of type `PodResizePending` in a pod's status.
    ///
    /// As in helpers.go, IsPodResizeInfeasible and IsPodResizeDeferred.
    pub fn from_pending_reason(reason: Option<&str>) -> Self {
        match reason {
            Some("Infeasible") => Self::Infeasible,
            Some("Deferred") => Self::Deferred,
            _ => Self::None,
        }
    }
}
