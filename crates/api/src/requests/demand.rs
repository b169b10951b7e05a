//! All that scheduling wants to know of what a pod requests.

use super::input::PodResourcesInput;
use super::limits::{Limits, container_limits, limits_of, with_overhead};
use super::{
    NonZero, PLAIN, PodRequests, RequestGates, RequestOptions, Status, default_requests,
    incoming_request, pod_requests, requests_on_node,
};
use crate::resources::Resources;

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

/// CPU and memory as the spec has them, with a default for containers that ask nothing.
fn non_zero(pod: &PodResourcesInput) -> NonZero {
    let defaults = default_requests();
    let options = RequestOptions { missing: Some(&defaults), ..PLAIN };
    let sum = Resources::from_list(&pod_requests(pod, &options));
    NonZero { milli_cpu: sum.milli_cpu, memory: sum.memory }
}
