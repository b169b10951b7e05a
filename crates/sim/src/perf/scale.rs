//! Workloads that show how cost grows with nodes, pods and kinds of pods.

use plimsoll_api::{Labels, PodTemplate};

use super::plan::WorkloadPlan;
use super::spreading::{DEPLOYMENTS, deployments, templates};
use super::template::{DEFAULT, MOONS, in_turn, like, node, node_in, pod, pod_asking};
use super::{Sizes, Workload, WorkloadGroups};

pub(super) const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "Scale",
        about: "SchedulingBasic at 100,000 nodes, all of them empty",
        sizes: Sizes { nodes: 100_000, init_pods: 0, pods: 100_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| WorkloadPlan::alike(sizes, node, like(pod(), DEFAULT)),
    },
    Workload {
        name: "ScaleDeployments",
        about: "pods of Deployments with Services at 1,000,000 nodes, all of them empty",
        sizes: Sizes { nodes: 1_000_000, init_pods: 0, pods: 1_000_000, groups: 1_000 },
        groups: WorkloadGroups::Deployments,
        configuration: None,
        plan: |sizes, _| {
            let pods = in_turn(templates(pod(), sizes.groups), DEPLOYMENTS);
            WorkloadPlan::alike(sizes, |number| node_in(&MOONS, number), pods)
                .with(deployments(sizes.groups))
        },
    },
    Workload {
        name: "ClassSweep",
        about: "pods of so many classes in turn, each with its own requests and labels",
        sizes: Sizes { nodes: 5_000, init_pods: 0, pods: 50_000, groups: 1_000 },
        groups: WorkloadGroups::Classes,
        configuration: None,
        plan: |sizes, _| WorkloadPlan::alike(sizes, node, in_turn(classes(sizes.groups), DEFAULT)),
    },
];

/// The templates of `n` classes with different requests.
pub(super) fn classes(n: u32) -> impl Iterator<Item = PodTemplate> {
    // A tenth more than half of what SchedulingBasic requests, on average.
    (0..n.max(1)).map(|number| PodTemplate {
        labels: Labels::from_iter([("app", format!("class-{number}"))]),
        ..pod_asking(20 + number % 100, 100 + number / 100)
    })
}
