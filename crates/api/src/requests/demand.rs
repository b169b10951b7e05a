//! Everything that scheduling needs to know about the requests of a pod.

use super::input::PodResourcesInput;
use super::limits::{Limits, container_limits, limits_of, with_overhead};
use super::{
    NonZero, PLAIN, PodRequests, RequestGates, RequestOptions, Status, default_requests,
    incoming_request, pod_requests, requests_on_node,
};
use serde::{Deserialize, Serialize};

use crate::resources::Resources;

/// Everything that scheduling needs to know about the requests of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// What it requests of a node before it is placed there.
    pub asks: Asks,
    /// What it uses of the node it is on.
    pub on_node: PodRequests,
    /// Its limits, see [`limits_of`].
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

    /// The same for a pod whose requests depend neither on gates nor on its status: they are computed
    /// once.
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

/// What a pod requests of a node before it is placed there. For most pods all of these are equal. They
/// differ for pod-level requests, and while a resize is in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asks {
    /// What must fit.
    pub fit: Resources,
    /// The request that counts for the score of balanced allocation.
    pub balance: Resources,
    /// The request that counts for the score of free resources.
    pub room: Resources,
    /// The same for CPU and memory, with a default for containers without a request.
    pub room_non_zero: NonZero,
    /// The CPU overhead of the pod (`spec.overhead`), which all of these include, in thousandths of a
    /// core.
    pub overhead_milli_cpu: i64,
    /// The limits of its containers.
    pub limits: Limits,
}

impl Asks {
    /// The requests of `pod`.
    ///
    /// As in resource_allocation.go, calculatePodResourceRequest: the scorer of
    /// NodeResourcesBalancedAllocation uses the gates of the scheduler. That of NodeResourcesFit uses
    /// none, so it counts neither pod-level requests nor a resize, and gives the default to every
    /// container without a request.
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

/// CPU and memory in the spec, with a default for containers without a request.
fn non_zero(pod: &PodResourcesInput) -> NonZero {
    let defaults = default_requests();
    let options = RequestOptions { missing: Some(&defaults), ..PLAIN };
    let sum = Resources::from_list(&pod_requests(pod, &options));
    NonZero { milli_cpu: sum.milli_cpu, memory: sum.memory }
}
