//! What a pod requests of a node.
//!
//! Upstream computes it in three ways with small differences, and so does this module: once for a pod
//! to be placed ([`incoming_request`]), once for a pod on a node ([`requests_on_node`]), and once for
//! scores ([`Asks`]). All three rest on [`pod_requests`], which is `PodRequests` in `helpers.go` of
//! component-helpers. The request during a resize differs between releases: see `resize`.
//!
//! Limits do not matter for requests. If a limit is set and a request is not, the API server has copied
//! the limit to the request before a scheduler sees the pod (`defaults.go` of core/v1,
//! SetDefaults_Pod). They are only kept in [`Limits`], and completely for metrics ([`limits_of`]).
//! Amounts that dynamic resource allocation adds to a pod's status (gate DRANodeAllocatableResources,
//! alpha) are not counted.

mod demand;
mod input;
mod limits;
mod resize;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::demand::{Asks, Demand};
pub use self::input::{
    ContainerResources, PodLevelResources, PodResourcesInput, PodStatusResources, Resize,
};
pub use self::limits::{Limits, limits_of};
pub use self::resize::Footprint;
use crate::quantity::{Format, Quantity};
use crate::resources::{CPU, HUGE_PAGES_PREFIX, MEMORY, ResourceList, Resources, is_full};
use crate::{Release, Str};

/// The CPU that scores assume for a container without a CPU request, in thousandths of a core. As in
/// pod_resources.go, DefaultMilliCPURequest.
pub const DEFAULT_MILLI_CPU: i64 = 100;
/// The memory that scores assume for a container without a memory request, in bytes. As in
/// pod_resources.go, DefaultMemoryRequest.
pub const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// The release and the feature gates that a pod's request depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestGates {
    /// `PodLevelResources`: whether pod-level resources count at all.
    pub pod_level_resources: bool,
    /// `InPlacePodLevelResourcesVerticalScaling`: whether the pod-level resources in the status count.
    pub pod_level_resize: bool,
    /// What counts during a resize.
    pub footprint: Footprint,
}

impl RequestGates {
    /// As `release` has them: both gates on.
    pub fn of(release: Release) -> Self {
        let footprint = Footprint::of(release);
        Self { pod_level_resources: true, pod_level_resize: true, footprint }
    }
}

impl Default for RequestGates {
    /// As the newest release has them.
    fn default() -> Self {
        Self::of(Release::NEWEST)
    }
}

/// The options of [`pod_requests`].
#[derive(Debug, Clone, Copy)]
pub struct RequestOptions<'a> {
    /// The feature gates.
    pub gates: RequestGates,
    /// Whether the resources in the status count.
    pub status: Status,
    /// The assumed request of a container for a resource it does not name. A request of 0 is a request.
    pub missing: Option<&'a ResourceList>,
}

/// Whether the status of a pod counts towards its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Only the spec counts.
    Ignored,
    /// During a resize, the largest of the desired, allocated and actual resources counts.
    Counted,
}

/// What a pod uses of the node it is on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodRequests {
    /// What it requests.
    pub requests: Resources,
    /// The same for scores, where containers that request nothing count with a default.
    pub non_zero: NonZero,
}

/// CPU and memory, where containers that request nothing count with a default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NonZero {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
}

impl NonZero {
    /// Adds `other`, as [`Resources::add`] does.
    pub fn add(&mut self, other: Self) {
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu);
        self.memory = self.memory.saturating_add(other.memory);
    }

    /// Subtracts `other`.
    pub fn sub(&mut self, other: Self) {
        self.milli_cpu = self.milli_cpu.saturating_sub(other.milli_cpu);
        self.memory = self.memory.saturating_sub(other.memory);
    }

    /// Whether one of them is saturated: see [`Resources::is_full`].
    pub fn is_full(self) -> bool {
        is_full(self.milli_cpu) || is_full(self.memory)
    }
}

/// The resources that must be free on a node for a pod to be placed there.
///
/// The status does not count, since the pod has not run yet, and a negative amount counts as 0.
/// As in fit.go, computePodResourceRequest.
pub fn incoming_request(pod: &PodResourcesInput, gates: RequestGates) -> Resources {
    let options = RequestOptions { gates, status: Status::Ignored, missing: None };
    let mut request = Resources::default();
    request.raise_to(&pod_requests(pod, &options));
    request
}

/// What a pod uses of the node it is on.
///
/// Containers without a request for CPU or memory count with a default in `non_zero`. If the pod has
/// pod-level requests, this applies only to a resource that neither the pod nor any of its containers
/// requests. As in types.go, PodInfo.CalculateResource and getNonMissingContainerRequests.
pub fn requests_on_node(pod: &PodResourcesInput, gates: RequestGates) -> PodRequests {
    let mut options = RequestOptions { gates, status: Status::Counted, missing: None };
    let list = pod_requests(pod, &options);
    let mut missing = default_requests();
    if gates.pod_level_resources && pod.pod_level.as_ref().is_some_and(has_requests) {
        missing.retain(|name, _| !list.contains_key(name));
    }
    options.missing = Some(&missing);
    let with_defaults = Resources::from_list(&pod_requests(pod, &options));
    let non_zero = NonZero { milli_cpu: with_defaults.milli_cpu, memory: with_defaults.memory };
    // Whatever a pod requests of `pods`, it counts as one pod on the node, which is counted elsewhere.
    PodRequests { requests: Resources { pods: 0, ..Resources::from_list(&list) }, non_zero }
}

/// Without gates, only the spec, and no default for missing requests.
const PLAIN: RequestOptions<'static> = RequestOptions {
    gates: RequestGates {
        pod_level_resources: false,
        pod_level_resize: false,
        footprint: Footprint::ByContainer,
    },
    status: Status::Ignored,
    missing: None,
};

/// What a pod requests, overhead included.
///
/// The requests of containers and sidecars add up. An init container runs together with the sidecars
/// started before it. If these need more of a resource than everything that runs later, they count
/// instead. Pod-level requests replace the sum for CPU, memory and huge pages. As in helpers.go,
/// PodRequests.
pub fn pod_requests(pod: &PodResourcesInput, options: &RequestOptions<'_>) -> ResourceList {
    let mut total = resize::container_requests(pod, options);
    if options.gates.pod_level_resources
        && let Some(pod_level) = &pod.pod_level
    {
        resize::replace_by_pod_level(&mut total, pod, pod_level, options);
    }
    add_list(&mut total, &pod.overhead);
    total
}

/// The total of the containers of a pod; `of` gives the resources of each. As in helpers.go,
/// aggregateContainerResourcesByFn.
fn sum_of_containers(
    pod: &PodResourcesInput,
    missing: Option<&ResourceList>,
    of: impl Fn(&ContainerResources, Role) -> ResourceList,
) -> ResourceList {
    let of = |container: &ContainerResources, role| {
        let mut list = of(container, role);
        for (name, quantity) in missing.into_iter().flatten() {
            list.entry(name.clone()).or_insert_with(|| quantity.clone());
        }
        list
    };
    let mut total = ResourceList::new();
    for container in &pod.containers {
        add_list(&mut total, &of(container, Role::Runs));
    }
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for container in &pod.init_containers {
        if container.restart_always {
            let request = of(container, Role::Runs);
            add_list(&mut total, &request);
            add_list(&mut sidecars, &request);
            raise_list(&mut starting, &sidecars);
        } else {
            let mut request = of(container, Role::Starts);
            add_list(&mut request, &sidecars);
            raise_list(&mut starting, &request);
        }
    }
    raise_list(&mut total, &starting);
    total
}

/// When a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// As long as the pod.
    Runs,
    /// Before the others: an init container that is not a sidecar.
    Starts,
}

/// As in helpers.go, IsPodLevelRequestsSet.
fn has_requests(pod_level: &PodLevelResources) -> bool {
    pod_level.requests.keys().any(|name| is_pod_level_resource(name))
}

/// Whether a resource can be requested at pod level: CPU, memory and huge pages.
///
/// As in helpers.go, IsSupportedPodLevelResource.
pub fn is_pod_level_resource(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with(HUGE_PAGES_PREFIX)
}

fn default_requests() -> ResourceList {
    BTreeMap::from([
        (Str::const_new(CPU), Quantity::from_milli(DEFAULT_MILLI_CPU, Format::DecimalSi)),
        (Str::const_new(MEMORY), Quantity::new(DEFAULT_MEMORY, Format::DecimalSi)),
    ])
}

fn add_list(list: &mut ResourceList, more: &ResourceList) {
    for (name, quantity) in more {
        match list.get_mut(name) {
            Some(sum) => sum.add(quantity),
            None => {
                list.insert(name.clone(), quantity.clone());
            }
        }
    }
}

/// Raises every quantity to that in `other`.
fn raise_list(list: &mut ResourceList, other: &ResourceList) {
    for (name, quantity) in other {
        match list.get_mut(name) {
            Some(highest) if quantity <= highest => {}
            Some(highest) => *highest = quantity.clone(),
            None => {
                list.insert(name.clone(), quantity.clone());
            }
        }
    }
}
