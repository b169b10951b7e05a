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

use std::collections::BTreeMap;

use crate::Str;
use crate::quantity::{Format, Quantity};
use crate::resources::{CPU, HUGE_PAGES_PREFIX, MEMORY, ResourceList, Resources};

/// What a container without a request for CPU counts with in scores, in thousandths of a core.
/// As in pod_resources.go, DefaultMilliCPURequest.
pub const DEFAULT_MILLI_CPU: i64 = 100;
/// What a container without a request for memory counts with in scores, in bytes.
/// As in pod_resources.go, DefaultMemoryRequest.
pub const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// Everything about a pod that its request depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodResourcesInput {
    /// The containers, which run side by side.
    pub containers: Vec<ContainerResources>,
    /// The init containers in the order they start, sidecars among them.
    pub init_containers: Vec<ContainerResources>,
    /// What running the pod takes beside its containers (`spec.overhead`).
    pub overhead: ResourceList,
    /// Resources of the pod as a whole (`spec.resources` and what the status says of them).
    pub pod_level: Option<PodLevelResources>,
    /// Whether a change of resources waits to be carried out.
    pub resize: Resize,
}

impl PodResourcesInput {
    fn all_containers(&self) -> impl Iterator<Item = &ContainerResources> {
        self.containers.iter().chain(&self.init_containers)
    }

    /// Whether neither gates nor the status make a difference to what it requests.
    fn is_plain(&self) -> bool {
        self.pod_level.is_none() && self.all_containers().all(|one| one.actual.is_none())
    }

    /// Whether no container counts with a default.
    fn requests_cpu_and_memory_everywhere(&self) -> bool {
        let names_both = |list: &ResourceList| list.contains_key(CPU) && list.contains_key(MEMORY);
        self.all_containers().all(|container| names_both(&container.requests))
    }
}

/// The resources of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerResources {
    /// `resources.requests`.
    pub requests: ResourceList,
    /// `resources.limits`. Carried for whoever applies the API server's defaults; only [`Limits`]
    /// reads them here.
    pub limits: ResourceList,
    /// Whether this is an init container with `restartPolicy: Always`: a sidecar, which goes on
    /// running beside the containers. Not read of other containers.
    pub restart_always: bool,
    /// `allocatedResources` in the status of the container, wherever its name is found: among the
    /// statuses of init containers, else of containers.
    pub allocated: Option<ResourceList>,
    /// `resources.requests` in the same status; present and maybe empty if the status has
    /// `resources`.
    pub actual: Option<ResourceList>,
}

/// The resources of the pod as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodLevelResources {
    /// `spec.resources.requests`.
    pub requests: ResourceList,
    /// `spec.resources.limits`. Carried like those of a container; not read here.
    pub limits: ResourceList,
    /// `status.allocatedResources`.
    pub allocated: Option<ResourceList>,
    /// `status.resources.requests`; present and maybe empty if there is `status.resources`.
    pub actual: Option<ResourceList>,
}

/// Whether a change of a running pod's resources waits to be carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Resize {
    /// None does, or nothing is known of why.
    #[default]
    None,
    /// It waits for room on the node.
    Deferred,
    /// It can never be carried out on this node, so that what the spec asks does not count.
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

/// All that scheduling wants to know of what a pod requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// What it asks of a node that it is not yet on.
    pub asks: Asks,
    /// What it takes of the node it is on.
    pub on_node: PodRequests,
    /// What it may take at most, see [`limits_of`].
    pub limits: Resources,
}

impl Demand {
    /// What `pod` requests.
    pub fn of(pod: &PodResourcesInput, gates: RequestGates) -> Self {
        if pod.is_plain() {
            return Demand::of_plain(pod);
        }
        let limits = limits_of(pod, gates);
        Demand { asks: Asks::of(pod, gates), on_node: requests_on_node(pod, gates), limits }
    }

    /// The same for a pod for which neither gates nor its status make a difference: its request is reckoned
    /// once for all.
    fn of_plain(pod: &PodResourcesInput) -> Self {
        let list = pod_requests(pod, &PLAIN);
        let sum = Resources::from_list(&list);
        let mut fit = Resources::default();
        fit.raise_to(&list);
        let non_zero = match pod.requests_cpu_and_memory_everywhere() {
            true => NonZero { milli_cpu: sum.milli_cpu, memory: sum.memory },
            false => non_zero(pod),
        };
        let limits = container_limits(pod);
        let asks = Asks {
            fit,
            balance: sum.clone(),
            room: sum.clone(),
            room_non_zero: non_zero,
            overhead_milli_cpu: Resources::from_list(&pod.overhead).milli_cpu,
            limits: Limits::of(&limits),
        };
        let on_node = PodRequests { requests: Resources { pods: 0, ..sum }, non_zero };
        Demand { asks, on_node, limits: with_overhead(limits, pod) }
    }
}

/// The limits of a pod's containers together: what it may take at most. 0 for a resource without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
}

impl Limits {
    /// The limits of containers together, which add up as requests do; overhead does not count.
    ///
    /// As in resource_limits.go of release 1.19, getResourceLimits, which knew no sidecars.
    fn of(container_limits: &ResourceList) -> Self {
        let sum = Resources::from_list(container_limits);
        Limits { milli_cpu: sum.milli_cpu, memory: sum.memory }
    }
}

/// What the containers of a pod may take at most, together.
fn container_limits(pod: &PodResourcesInput) -> ResourceList {
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

/// What a pod may take at most, overhead included where there is a limit at all. No decision depends on
/// it. As in helpers.go, PodLimits.
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

fn with_overhead(mut limits: ResourceList, pod: &PodResourcesInput) -> Resources {
    for (name, quantity) in &pod.overhead {
        if let Some(limit) = limits.get_mut(name).filter(|limit| **limit != Quantity::default()) {
            limit.add(quantity);
        }
    }
    Resources::from_list(&limits)
}

/// What a pod asks of a node that it is not yet on. For most pods all of these say the same; they part
/// with requests of the pod as a whole, and with a resize under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Asks {
    /// What must fit.
    pub fit: Resources,
    /// What counts when the balance of a node is scored.
    pub balance: Resources,
    /// What counts when the room on a node is scored.
    pub room: Resources,
    /// The same for CPU and memory, with a default for containers that ask nothing.
    pub room_non_zero: NonZero,
    /// The CPU in all of these that running the pod takes beside its containers (`spec.overhead`), in
    /// thousandths of a core.
    pub overhead_milli_cpu: i64,
    /// What its containers may take at most.
    pub limits: Limits,
}

impl Asks {
    /// What `pod` asks for.
    ///
    /// As in resource_allocation.go, calculatePodResourceRequest: the scorer of
    /// NodeResourcesBalancedAllocation is made with the gates of the scheduler, that of
    /// NodeResourcesFit without any, so it counts neither requests of the pod as a whole nor a
    /// resize, and gives the default to every container without a request.
    pub fn of(pod: &PodResourcesInput, gates: RequestGates) -> Self {
        let counted = RequestOptions { gates, status: Status::Counted, missing: None };
        Asks {
            fit: incoming_request(pod, gates),
            balance: Resources::from_list(&pod_requests(pod, &counted)),
            room: Resources::from_list(&pod_requests(pod, &PLAIN)),
            room_non_zero: non_zero(pod),
            overhead_milli_cpu: Resources::from_list(&pod.overhead).milli_cpu,
            limits: Limits::of(&container_limits(pod)),
        }
    }
}

/// With no gates, as the spec says, and nothing for what is not named.
const PLAIN: RequestOptions<'static> = RequestOptions {
    gates: RequestGates { pod_level_resources: false, pod_level_resize: false },
    status: Status::Ignored,
    missing: None,
};

/// CPU and memory as the spec has them, with a default for containers that ask nothing.
fn non_zero(pod: &PodResourcesInput) -> NonZero {
    let defaults = default_requests();
    let options = RequestOptions { missing: Some(&defaults), ..PLAIN };
    let sum = Resources::from_list(&pod_requests(pod, &options));
    NonZero { milli_cpu: sum.milli_cpu, memory: sum.memory }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a pod of lines such as `sidecar cpu=4 memory=1Gi allocated cpu=3 actual cpu=2`.
    ///
    /// A line is an `app`, an `init` container, a `sidecar`, the `pod` as a whole, its `overhead`,
    /// or how a resize stands: `infeasible` or `deferred`.
    fn pod(text: &str) -> PodResourcesInput {
        let mut pod = PodResourcesInput::default();
        for line in text.split(';').map(str::trim).filter(|line| !line.is_empty()) {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            let (rest, actual) = cut(rest, "actual");
            let (requests, allocated) = cut(rest, "allocated");
            let requests = list(requests);
            let restart_always = kind == "sidecar";
            let container = ContainerResources {
                requests: requests.clone(),
                restart_always,
                allocated: allocated.clone(),
                actual: actual.clone(),
                ..ContainerResources::default()
            };
            match kind {
                "app" => pod.containers.push(container),
                "init" | "sidecar" => pod.init_containers.push(container),
                "pod" => {
                    let limits = ResourceList::new();
                    pod.pod_level = Some(PodLevelResources { requests, limits, allocated, actual });
                }
                "overhead" => pod.overhead = requests,
                "infeasible" => pod.resize = Resize::from_pending_reason(Some("Infeasible")),
                "deferred" => pod.resize = Resize::from_pending_reason(Some("Deferred")),
                _ => panic!("unknown line {line:?}"),
            }
        }
        pod
    }

    fn cut<'a>(text: &'a str, word: &str) -> (&'a str, Option<ResourceList>) {
        match text.split_once(word) {
            Some((before, after)) => (before, Some(list(after))),
            None => (text, None),
        }
    }

    fn list(text: &str) -> ResourceList {
        let entry = |word: &str| {
            let (name, quantity) = word.split_once('=').unwrap();
            (Str::from(name), Quantity::parse(quantity).unwrap())
        };
        text.split_whitespace().map(entry).collect()
    }

    fn check(cases: &[(&str, &str)], options: &RequestOptions<'_>) {
        for (text, expected) in cases {
            assert_eq!(pod_requests(&pod(text), options), list(expected), "{text}");
        }
    }

    const SPEC: RequestOptions<'_> = RequestOptions {
        gates: RequestGates { pod_level_resources: true, pod_level_resize: true },
        status: Status::Ignored,
        missing: None,
    };
    const WITH_STATUS: RequestOptions<'_> = RequestOptions { status: Status::Counted, ..SPEC };

    #[test]
    fn containers_add_up_and_a_larger_init_container_counts_instead() {
        let cases = [
            ("", ""),
            ("app", ""),
            ("app cpu=9; app cpu=9", "cpu=18"),
            ("init cpu=4; app cpu=1", "cpu=4"),
            ("init cpu=2; app cpu=2; app cpu=3", "cpu=5"),
            ("init cpu=9; app cpu=9", "cpu=9"),
            ("init cpu=4m memory=5Mi; app cpu=2m memory=6Mi", "cpu=4m memory=6Mi"),
            ("init cpu=1 memory=2Gi; init cpu=3 memory=1Gi; app", "cpu=3 memory=2Gi"),
            ("init a.com/gpu=2; app a.com/gpu=1; app cpu=1", "a.com/gpu=2 cpu=1"),
            ("app cpu=0; app memory=-1", "cpu=0 memory=-1"),
        ];
        check(&cases, &SPEC);
    }

    #[test]
    fn overhead_comes_on_top_of_whatever_counts() {
        let cases = [
            ("overhead cpu=1 memory=1Gi; init cpu=2; app cpu=2; app cpu=3", "cpu=6 memory=1Gi"),
            ("overhead cpu=1; init cpu=4; app cpu=1", "cpu=5"),
            ("overhead cpu=1 memory=1; app cpu=1; pod cpu=4", "cpu=5 memory=1"),
        ];
        check(&cases, &SPEC);
    }

    #[test]
    fn a_sidecar_runs_beside_containers_and_later_init_containers() {
        let cases = [
            ("sidecar cpu=1; app cpu=1", "cpu=2"),
            ("sidecar cpu=5", "cpu=5"),
            ("init cpu=5; sidecar cpu=1; sidecar cpu=2; sidecar cpu=3; app cpu=1", "cpu=7"),
            (
                "init cpu=5; sidecar cpu=1; sidecar cpu=2; init cpu=5; sidecar cpu=3; app cpu=1",
                "cpu=8",
            ),
            ("sidecar cpu=10; init cpu=200; app cpu=100", "cpu=210"),
            ("sidecar cpu=8; init cpu=6; app cpu=9", "cpu=17"),
            ("sidecar cpu=4m memory=5Mi; app cpu=2m memory=3Mi", "cpu=6m memory=8Mi"),
            (
                "sidecar cpu=4m memory=5Mi; init cpu=8m memory=6Mi; app cpu=2m memory=3Mi",
                "cpu=12m memory=11Mi",
            ),
        ];
        check(&cases, &SPEC);
    }

    #[test]
    fn requests_of_the_pod_replace_the_sum_for_what_a_pod_can_request() {
        let cases = [
            ("pod memory=2Mi", "memory=2Mi"),
            ("pod memory=2Mi; app cpu=2m", "memory=2Mi cpu=2m"),
            ("pod cpu=8m memory=6Mi; app cpu=2m memory=3Mi", "cpu=8m memory=6Mi"),
            ("pod cpu=1; app cpu=2", "cpu=1"),
            (
                "pod cpu=18m memory=15Mi; sidecar cpu=4m memory=5Mi; init cpu=8m memory=6Mi; \
                 app cpu=2m memory=3Mi",
                "cpu=18m memory=15Mi",
            ),
            ("pod storage=2Mi; app storage=3Mi", "storage=3Mi"),
            ("pod storage=2Mi; app memory=3Mi", "memory=3Mi"),
            ("pod cpu=1 a.com/gpu=9 ephemeral-storage=9; app a.com/gpu=2", "cpu=1 a.com/gpu=2"),
            ("pod memory=10Mi hugepages-2Mi=2Mi", "memory=10Mi hugepages-2Mi=2Mi"),
            (
                "pod cpu=1 hugepages-2Mi=2Mi hugepages-1Gi=1Gi",
                "cpu=1 hugepages-2Mi=2Mi hugepages-1Gi=1Gi",
            ),
            ("pod cpu=1 hugepages-2Mi=10Mi; app hugepages-2Mi=6Mi", "cpu=1 hugepages-2Mi=10Mi"),
            (
                "pod cpu=1 hugepages-2Mi=10Mi; app memory=4Mi hugepages-1Gi=1Gi",
                "cpu=1 memory=4Mi hugepages-2Mi=10Mi hugepages-1Gi=1Gi",
            ),
        ];
        check(&cases, &SPEC);
    }

    #[test]
    fn requests_of_the_pod_count_for_nothing_while_their_gate_is_off() {
        let gates = RequestGates { pod_level_resources: false, pod_level_resize: false };
        let cases = [("pod memory=2Mi", ""), ("pod cpu=9; init cpu=4; app cpu=2", "cpu=4")];
        check(&cases, &RequestOptions { gates, ..SPEC });
    }

    #[test]
    fn while_a_container_changes_the_largest_of_asked_granted_and_in_force_counts() {
        let cases = [
            ("app cpu=4 actual cpu=2", "cpu=4"),
            ("app cpu=1 actual cpu=2", "cpu=2"),
            ("app actual cpu=2", "cpu=2"),
            ("sidecar actual cpu=2", "cpu=2"),
            ("app cpu=1 allocated cpu=3 actual cpu=2", "cpu=3"),
            (
                "app cpu=30m memory=20M ephemeral-storage=10G \
                 allocated cpu=20m memory=10M ephemeral-storage=30G \
                 actual cpu=10m memory=30M ephemeral-storage=20G",
                "cpu=30m memory=30M ephemeral-storage=30G",
            ),
            ("deferred; app cpu=4 actual cpu=2", "cpu=4"),
            ("infeasible; app cpu=4 actual cpu=2", "cpu=2"),
            ("infeasible; app cpu=6 allocated cpu=4 actual cpu=2", "cpu=4"),
            ("infeasible; app cpu=6 memory=1 actual cpu=2", "cpu=2"),
            ("infeasible; sidecar cpu=4 actual cpu=2", "cpu=2"),
            ("sidecar cpu=4 actual cpu=2; app cpu=1 actual cpu=2", "cpu=6"),
            // What was granted counts only beside what is in force.
            ("app cpu=1 allocated cpu=3", "cpu=1"),
            ("infeasible; app cpu=6", "cpu=6"),
            // What ended before the change does not change.
            ("init cpu=1 actual cpu=9; app cpu=2", "cpu=2"),
        ];
        check(&cases, &WITH_STATUS);
    }

    #[test]
    fn without_the_status_only_the_spec_counts() {
        let cases = [
            ("app cpu=4 actual cpu=9", "cpu=4"),
            ("infeasible; app cpu=4 actual cpu=2", "cpu=4"),
            ("infeasible; sidecar cpu=4 actual cpu=2", "cpu=4"),
            ("pod cpu=4 allocated cpu=9 actual cpu=9", "cpu=4"),
        ];
        check(&cases, &SPEC);
    }

    #[test]
    fn while_a_pod_as_a_whole_changes_the_same_holds_for_what_it_requests() {
        let cases = [
            ("pod cpu=4 actual cpu=2; app cpu=1", "cpu=4"),
            ("pod cpu=1 allocated cpu=3 actual cpu=2; app cpu=9", "cpu=3"),
            ("infeasible; pod cpu=4 actual cpu=2", "cpu=2"),
            ("infeasible; pod cpu=4 memory=1Gi actual cpu=2", "cpu=2 memory=0"),
            ("pod cpu=1 allocated cpu=3", "cpu=1"),
            // Only what the spec of the pod names is replaced.
            ("pod cpu=1 actual cpu=2 memory=9; app memory=3", "cpu=2 memory=3"),
        ];
        check(&cases, &WITH_STATUS);
    }

    #[test]
    fn the_status_of_a_pod_as_a_whole_counts_for_nothing_while_its_gate_is_off() {
        let gates = RequestGates { pod_level_resources: true, pod_level_resize: false };
        let cases = [
            ("pod cpu=1 allocated cpu=3 actual cpu=2", "cpu=1"),
            ("app cpu=1 allocated cpu=3 actual cpu=2", "cpu=3"),
        ];
        check(&cases, &RequestOptions { gates, ..WITH_STATUS });
    }

    #[test]
    fn a_pod_to_be_placed_needs_what_its_spec_asks_and_never_less_than_nothing() {
        let text = "app cpu=1 memory=-1 pods=2 a.com/gpu=0 storage=1 actual cpu=3";
        let request = incoming_request(&pod(text), RequestGates::default());
        let scalar = [("a.com/gpu".into(), 0)].into();
        assert_eq!(request, Resources { milli_cpu: 1000, scalar, ..Resources::default() });
    }

    #[test]
    fn a_pod_on_a_node_takes_what_its_status_says_and_no_further_place() {
        let text = "app cpu=1 memory=-1 pods=2 ephemeral-storage=5 a.com/gpu=1 actual cpu=3";
        let requests = requests_on_node(&pod(text), RequestGates::default()).requests;
        let expected = Resources {
            milli_cpu: 3000,
            memory: -1,
            ephemeral_storage: 5,
            pods: 0,
            scalar: [("a.com/gpu".into(), 1)].into(),
        };
        assert_eq!(requests, expected);
    }

    const MI: i64 = 1024 * 1024;

    #[test]
    fn containers_without_requests_count_with_a_default() {
        let cases = [
            // pod, on a node: milli-CPU, memory; in scores: the same
            ("", (0, 0), (0, 0)),
            ("app", (100, 200 * MI), (100, 200 * MI)),
            ("app cpu=0 memory=0", (0, 0), (0, 0)),
            ("app cpu=1; app memory=1Mi", (1100, 201 * MI), (1100, 201 * MI)),
            ("init; init; app cpu=50m memory=1Mi", (100, 200 * MI), (100, 200 * MI)),
            ("sidecar; init cpu=1; app cpu=1", (1100, 400 * MI), (1100, 400 * MI)),
            ("overhead cpu=1; app", (1100, 200 * MI), (1100, 200 * MI)),
            // Scores look neither at the status nor at requests of the pod as a whole.
            ("app actual cpu=3", (3000, 200 * MI), (100, 200 * MI)),
            ("pod cpu=1 memory=1Mi; app; app", (1000, MI), (200, 400 * MI)),
            ("pod cpu=1; app; app", (1000, 400 * MI), (200, 400 * MI)),
            ("pod cpu=1; app memory=1Mi; app", (1000, MI), (200, 201 * MI)),
            ("pod hugepages-2Mi=2Mi; app cpu=1; app", (1000, 400 * MI), (1100, 400 * MI)),
            ("pod cpu=1; overhead memory=1Mi; app", (1000, MI), (100, 201 * MI)),
            ("pod a.com/gpu=1; app cpu=1; app", (1100, 400 * MI), (1100, 400 * MI)),
        ];
        for (text, on_node, scored) in cases {
            let (pod, gates) = (pod(text), RequestGates::default());
            let non_zero = requests_on_node(&pod, gates).non_zero;
            assert_eq!((non_zero.milli_cpu, non_zero.memory), on_node, "{text}");
            let counted = Asks::of(&pod, gates).room_non_zero;
            assert_eq!((counted.milli_cpu, counted.memory), scored, "{text}");
        }
    }

    #[test]
    fn balance_is_scored_by_what_is_requested_with_no_default() {
        let text = "app; app a.com/gpu=1 actual a.com/gpu=2";
        let asks = Asks::of(&pod(text), RequestGates::default());
        assert_eq!(asks.balance, Resources::from_list(&list("a.com/gpu=2")));
        assert_eq!(asks.room, Resources::from_list(&list("a.com/gpu=1")));
    }

    #[test]
    fn limits_add_up_as_requests_do_and_overhead_is_no_limit() {
        for (text, expected) in [
            ("app", (0, 0)),
            ("app cpu=1; app cpu=2 memory=1Mi", (3000, MI)),
            ("init cpu=4 memory=1Ki; app cpu=1 memory=1Mi", (4000, MI)),
            ("sidecar cpu=1; init cpu=2; app cpu=1", (3000, 0)),
            ("overhead cpu=1 memory=1Mi; app cpu=1", (1000, 0)),
        ] {
            let mut pod = pod(text);
            for container in pod.containers.iter_mut().chain(&mut pod.init_containers) {
                container.limits = std::mem::take(&mut container.requests);
            }
            let asks = Asks::of(&pod, RequestGates::default());
            assert_eq!((asks.limits.milli_cpu, asks.limits.memory), expected, "{text}");
        }
    }

    #[test]
    fn a_pod_reckoned_once_for_all_demands_what_it_does_reckoned_in_each_way() {
        for text in [
            "",
            "app",
            "app cpu=1 memory=1Gi",
            "app cpu=1; app memory=1Gi a.com/gpu=2",
            "app cpu=1 memory=-1 pods=2 a.com/gpu=0 storage=1; overhead cpu=250m pods=1",
            "init cpu=4 memory=1; sidecar cpu=1 memory=2; app cpu=2 memory=4; infeasible",
            "init; app cpu=2 memory=4 hugepages-2Mi=4Mi",
            "app cpu=1 memory=1 allocated cpu=3 memory=1; deferred",
            "app cpu=1 memory=1 actual cpu=3 memory=1",
            "app cpu=1 memory=1; pod cpu=5",
        ] {
            let mut pod = pod(text);
            pod.containers.iter_mut().for_each(|one| one.limits = list("cpu=9 a.com/gpu=3"));
            let gates = RequestGates::default();
            let expected = Demand {
                asks: Asks::of(&pod, gates),
                on_node: requests_on_node(&pod, gates),
                limits: limits_of(&pod, gates),
            };
            assert_eq!(Demand::of(&pod, gates), expected, "{text}");
        }
    }

    #[test]
    fn the_overhead_in_cpu_is_told_apart() {
        let of = |text| Asks::of(&pod(text), RequestGates::default()).overhead_milli_cpu;
        assert_eq!(of("app cpu=1"), 0);
        assert_eq!(of("overhead cpu=250m memory=1Mi; app cpu=1"), 250);
    }

    #[test]
    fn removing_what_was_added_leaves_no_trace() {
        let pod = NonZero { milli_cpu: i64::MAX, memory: 7 };
        let mut sum = pod;
        sum.add(pod);
        assert_ne!(sum, pod);
        sum.sub(pod);
        assert_eq!(sum, pod);
    }

    #[test]
    fn only_cpu_memory_and_huge_pages_can_be_requested_for_a_pod() {
        for (name, can) in [
            ("cpu", true),
            ("memory", true),
            ("hugepages-2Mi", true),
            ("hugepages-1Gi", true),
            ("ephemeral-storage", false),
            ("a.com/gpu", false),
        ] {
            assert_eq!(is_pod_level_resource(name), can, "{name}");
        }
    }
}
