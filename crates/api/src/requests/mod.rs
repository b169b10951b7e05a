//! What a pod requests of a node.
//!
//! Upstream reckons it three times with small differences, and so does this module: once for a pod
//! to be placed ([`incoming_request`]), once for a pod on a node ([`requests_on_node`]), and once
//! for scores ([`Asks`]). All three rest on [`pod_requests`], which is `PodRequests` in
//! `helpers.go` of component-helpers 0.36.
//!
//! Limits play no part in it. Where a limit is set and a request is not, the API server has copied
//! the one to the other before a scheduler sees the pod (`defaults.go` of core/v1, SetDefaults_Pod).
//! They are only kept in [`Limits`], and in full for those who watch what pods may take
//! ([`limits_of`]).
//! Amounts that dynamic resource allocation adds to a pod's status (gate
//! DRANodeAllocatableResources, alpha) are not counted.

mod demand;
mod input;
mod limits;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use self::demand::{Asks, Demand};
pub use self::input::{ContainerResources, PodLevelResources, PodResourcesInput, Resize};
pub use self::limits::{Limits, limits_of};
use crate::Str;
use crate::quantity::{Format, Quantity};
use crate::resources::{CPU, HUGE_PAGES_PREFIX, MEMORY, ResourceList, Resources};

/// What a container without a request for CPU counts with in scores, in thousandths of a core.
/// As in pod_resources.go, DefaultMilliCPURequest.
pub const DEFAULT_MILLI_CPU: i64 = 100;
/// What a container without a request for memory counts with in scores, in bytes.
/// As in pod_resources.go, DefaultMemoryRequest.
pub const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// The feature gates that a pod's request depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestGates {
    /// `PodLevelResources`: whether resources of the pod as a whole count at all.
    pub pod_level_resources: bool,
    /// `InPlacePodLevelResourcesVerticalScaling`: whether what the status says of them counts.
    pub pod_level_resize: bool,
}

impl Default for RequestGates {
    /// As release 1.36 has them: both on.
    fn default() -> Self {
        Self { pod_level_resources: true, pod_level_resize: true }
    }
}

/// How [`pod_requests`] reckons.
#[derive(Debug, Clone, Copy)]
pub struct RequestOptions<'a> {
    /// The feature gates.
    pub gates: RequestGates,
    /// Whether what the status says of resources counts.
    pub status: Status,
    /// What a container requests of a resource it does not name. A request of 0 is a request.
    pub missing: Option<&'a ResourceList>,
}

/// Whether the status of a pod counts towards its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Only the spec counts.
    Ignored,
    /// While a change of resources is under way, the largest of what is asked, granted and in
    /// force counts.
    Counted,
}

/// What a pod takes of the node it is on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodRequests {
    /// What it requests.
    pub requests: Resources,
    /// The same for scores, where containers that request nothing count with a default.
    pub non_zero: NonZero,
}

/// CPU and memory, where containers that request nothing count with a default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct NonZero {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
}

impl NonZero {
    /// Adds `other`, wrapping around like [`Resources::add`].
    pub fn add(&mut self, other: Self) {
        self.milli_cpu = self.milli_cpu.wrapping_add(other.milli_cpu);
        self.memory = self.memory.wrapping_add(other.memory);
    }

    /// Takes `other` away.
    pub fn sub(&mut self, other: Self) {
        self.milli_cpu = self.milli_cpu.wrapping_sub(other.milli_cpu);
        self.memory = self.memory.wrapping_sub(other.memory);
    }
}

/// What a pod that is to be placed needs free on a node.
///
/// The status does not count, since the pod has not run yet, and a negative amount counts as 0.
/// As in fit.go, computePodResourceRequest.
pub fn incoming_request(pod: &PodResourcesInput, gates: RequestGates) -> Resources {
    let options = RequestOptions { gates, status: Status::Ignored, missing: None };
    let mut request = Resources::default();
    request.raise_to(&pod_requests(pod, &options));
    request
}

/// What a pod takes of the node it is on.
///
/// Containers without a request for CPU or memory count with a default in `non_zero`. Of a pod
/// with requests of its own they do so only for a resource that neither the pod nor any of its
/// containers requests. As in types.go, PodInfo.CalculateResource and
/// getNonMissingContainerRequests.
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
    // Whatever a pod says of `pods`, it takes one place on the node, which is counted elsewhere.
    PodRequests { requests: Resources { pods: 0, ..Resources::from_list(&list) }, non_zero }
}

/// With no gates, as the spec says, and nothing for what is not named.
const PLAIN: RequestOptions<'static> = RequestOptions {
    gates: RequestGates { pod_level_resources: false, pod_level_resize: false },
    status: Status::Ignored,
    missing: None,
};

/// What a pod requests, overhead included.
///
/// Containers add up, and sidecars with them. An init container runs beside the sidecars started
/// before it; if that takes more of a resource than all that runs later, it counts instead.
/// Requests of the pod as a whole replace the sum for CPU, memory and huge pages. As in helpers.go,
/// PodRequests.
pub fn pod_requests(pod: &PodResourcesInput, options: &RequestOptions<'_>) -> ResourceList {
    let mut total = container_requests(pod, options);
    if options.gates.pod_level_resources
        && let Some(pod_level) = &pod.pod_level
    {
        replace_by_pod_level(&mut total, pod_level, pod.resize, options);
    }
    add_list(&mut total, &pod.overhead);
    total
}

/// As in helpers.go, AggregateContainerRequests.
fn container_requests(pod: &PodResourcesInput, options: &RequestOptions<'_>) -> ResourceList {
    let mut total = ResourceList::new();
    for container in &pod.containers {
        add_list(&mut total, &requests_of(container, options.status, pod.resize, options.missing));
    }
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for container in &pod.init_containers {
        // A change of resources happens to what keeps running.
        let status = if container.restart_always { options.status } else { Status::Ignored };
        let mut request = requests_of(container, status, pod.resize, options.missing);
        if container.restart_always {
            add_list(&mut total, &request);
            add_list(&mut sidecars, &request);
            raise_list(&mut starting, &sidecars);
        } else {
            add_list(&mut request, &sidecars);
            raise_list(&mut starting, &request);
        }
    }
    raise_list(&mut total, &starting);
    total
}

fn requests_of(
    container: &ContainerResources,
    status: Status,
    resize: Resize,
    missing: Option<&ResourceList>,
) -> ResourceList {
    let mut requests = match (status, &container.actual) {
        (Status::Counted, Some(actual)) => {
            effective(&container.requests, actual, container.allocated.as_ref(), resize)
        }
        _ => container.requests.clone(),
    };
    for (name, quantity) in missing.into_iter().flatten() {
        requests.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
    requests
}

/// What counts while resources change: of each the largest of what is asked, what is in force and
/// what is granted; but what is asked does not count if it cannot be had. As in helpers.go,
/// determineEffectiveRequests.
fn effective(
    asked: &ResourceList,
    actual: &ResourceList,
    allocated: Option<&ResourceList>,
    resize: Resize,
) -> ResourceList {
    let mut effective = match resize {
        Resize::Infeasible => ResourceList::new(),
        Resize::None | Resize::Deferred => asked.clone(),
    };
    raise_list(&mut effective, actual);
    if let Some(allocated) = allocated {
        raise_list(&mut effective, allocated);
    }
    effective
}

fn replace_by_pod_level(
    total: &mut ResourceList,
    pod_level: &PodLevelResources,
    resize: Resize,
    options: &RequestOptions<'_>,
) {
    let PodLevelResources { requests, allocated, actual, .. } = pod_level;
    let counted = options.gates.pod_level_resize && options.status == Status::Counted;
    let effective = match actual {
        Some(actual) if counted => Some(effective(requests, actual, allocated.as_ref(), resize)),
        _ => None,
    };
    for (name, asked) in requests.iter().filter(|(name, _)| is_pod_level_resource(name)) {
        let quantity = match &effective {
            Some(effective) => effective.get(name).cloned().unwrap_or_default(),
            None => asked.clone(),
        };
        total.insert(name.clone(), quantity);
    }
}

/// As in helpers.go, IsPodLevelRequestsSet.
fn has_requests(pod_level: &PodLevelResources) -> bool {
    pod_level.requests.keys().any(|name| is_pod_level_resource(name))
}

/// Whether a pod as a whole can request a resource: CPU, memory and huge pages.
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
