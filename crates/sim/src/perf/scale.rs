//! How cost grows with nodes, pods and kinds of pods.

use plimsoll_api::{Labels, Pod};

use super::plan::Plan;
use super::spreading::{deployments, of_deployments};
use super::template::{DEFAULT, MOONS, like, named, node, node_in, pod, pod_asking};
use super::{Groups, Sizes, Workload};

pub(super) const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "Scale",
        about: "SchedulingBasic at 100,000 nodes, all of them empty",
        sizes: Sizes { nodes: 100_000, init_pods: 0, pods: 100_000, groups: 0 },
        groups: Groups::None,
        plan: |sizes, _| Plan::of(sizes, node, like(pod(), DEFAULT), like(pod(), DEFAULT)),
    },
    Workload {
        name: "ScaleDeployments",
        about: "pods of Deployments with Services at 1,000,000 nodes, all of them empty",
        sizes: Sizes { nodes: 1_000_000, init_pods: 0, pods: 1_000_000, groups: 1_000 },
        groups: Groups::Deployments,
        plan: |sizes, _| {
            let of_deployments = |like| of_deployments(like, sizes.groups);
            let node = |number| node_in(&MOONS, number);
            Plan::of(sizes, node, of_deployments(pod()), of_deployments(pod()))
                .with(deployments(sizes.groups))
        },
    },
    Workload {
        name: "ClassSweep",
        about: "pods of so many classes in turn, each with its own requests and labels",
        sizes: Sizes { nodes: 5_000, init_pods: 0, pods: 50_000, groups: 1_000 },
        groups: Groups::Classes,
        plan: |sizes, _| Plan::of(sizes, node, of_classes(sizes.groups), of_classes(sizes.groups)),
    },
];

/// Pods of so many classes in turn, no two of which request the same.
pub(super) fn of_classes(n: u32) -> impl Fn(&'static str, u32) -> Pod {
    // A tenth more than half of what SchedulingBasic requests, on average.
    let class = |number: u32| Pod {
        labels: Labels::from_iter([("app", format!("class-{number}"))]),
        ..pod_asking(20 + number % 100, 100 + number / 100)
    };
    let classes: Vec<Pod> = (0..n.max(1)).map(class).collect();
    move |group, number| named(&classes[number as usize % classes.len()], DEFAULT, group, number)
}
