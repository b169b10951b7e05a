//! The limits of a pod.

use super::input::{ContainerResources, PodResourcesInput};
use super::resize::container_requests;
use super::{PLAIN, RequestGates, is_pod_level_resource};
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;
use crate::resources::{ResourceList, Resources};

/// The total limits of a pod's containers; 0 for a resource without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
}

impl Limits {
    /// The total of container limits, which add up as requests do; overhead does not count.
    ///
    /// As in resource_limits.go of release 1.19, getResourceLimits, which did not have sidecars.
    pub(super) fn of(container_limits: &ResourceList) -> Self {
        let sum = Resources::from_list(container_limits);
        Limits { milli_cpu: sum.milli_cpu, memory: sum.memory }
    }
}

/// The total limits of the containers of a pod.
pub(super) fn container_limits(pod: &PodResourcesInput) -> ResourceList {
    if pod.all_containers().all(|container| container.limits.is_empty()) {
        return ResourceList::new();
    }
    let limited = |container: &ContainerResources| ContainerResources {
        requests: container.limits.clone(),
        restart_always: container.restart_always,
        ..ContainerResources::default()
    };
    let limits = PodResourcesInput {
        containers: pod.containers.iter().map(limited).collect(),
        init_containers: pod.init_containers.iter().map(limited).collect(),
        ..PodResourcesInput::default()
    };
    container_requests(&limits, &PLAIN)
}

/// The limits of a pod, including overhead for resources that have a limit. No decision depends on
/// them. As in helpers.go, PodLimits.
pub fn limits_of(pod: &PodResourcesInput, gates: RequestGates) -> Resources {
    let mut limits = container_limits(pod);
    if gates.pod_level_resources
        && let Some(pod_level) = &pod.pod_level
    {
        let own = pod_level.limits.iter().filter(|(name, _)| is_pod_level_resource(name));
        limits.extend(own.map(|(name, quantity)| (name.clone(), quantity.clone())));
    }
    with_overhead(limits, pod)
}

pub(super) fn with_overhead(mut limits: ResourceList, pod: &PodResourcesInput) -> Resources {
    for (name, quantity) in &pod.overhead {
        if let Some(limit) = limits.get_mut(name).filter(|limit| **limit != Quantity::default()) {
            limit.add(quantity);
        }
    }
    Resources::from_list(&limits)
}
