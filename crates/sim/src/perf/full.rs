//! Pods for which there is no room.

use plimsoll_api::{Node, PodTemplate, Resources};

use super::plan::{Round, WorkloadPlan, at_once, come};
use super::template::{DEFAULT, like, node, node_is, pod, pod_asking};
use super::{Sizes, Workload, WorkloadGroups};

/// The priority of the pods that may evict others, as in the templates.
const HIGH: i32 = 10;

pub(super) const WORKLOADS: [Workload; 2] = [
    Workload {
        name: "PreemptionBasic",
        about: "pods of high priority, each of which evicts three of the four pods of a node",
        sizes: Sizes { nodes: 5_000, init_pods: 20_000, pods: 5_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| {
            let high = PodTemplate { priority: HIGH, ..pod_asking(3_000, 500) };
            WorkloadPlan::of(sizes, node, like(pod_asking(900, 500), DEFAULT), like(high, DEFAULT))
        },
    },
    Workload {
        name: "Unschedulable",
        about: "pods that no node can hold (park), and then a node that could hold one of them (wake)",
        sizes: Sizes { nodes: 5_000, init_pods: 100, pods: 10_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: unschedulable,
    },
];

fn unschedulable(sizes: Sizes, _: u64) -> WorkloadPlan {
    // As in pod-high-priority-large-cpu.yaml.
    let large = PodTemplate { priority: HIGH, ..pod_asking(9_000, 500) };
    let large_pod = like(large, DEFAULT);
    let plan = WorkloadPlan::of(sizes, node, like(pod(), DEFAULT), large_pod.clone());
    let like = node(sizes.nodes);
    let allocatable = Resources { milli_cpu: 16_000, ..like.allocatable.clone() };
    let large_node = node_is(Node { allocatable, ..like });
    let parked = at_once("park", come("pod", large_pod, 0..sizes.pods));
    let wake = Round::new("wake", Box::new(std::iter::once(large_node)));
    WorkloadPlan { rounds: Box::new(parked.chain([wake])), ..plan }
}
