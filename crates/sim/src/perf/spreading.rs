//! Pods that are spread over zones and nodes.

use plimsoll_api::{
    Controller, Labels, PodTemplate, Requirement, SelectingKind, Selector, SpreadConstraint,
    WhenUnsatisfiable,
};
use plimsoll_engine::Event;

use super::plan::WorkloadPlan;
use super::template::{
    DEFAULT, MOONS, ZONE, in_turn, like, namespace, node_in, pod, pod_asking_nothing,
    pod_of_colour, selecting,
};
use super::{Sizes, Workload, WorkloadGroups};

const SIZES: Sizes = Sizes { nodes: 5_000, init_pods: 5_000, pods: 5_000, groups: 0 };
/// The namespace of the Deployments and their Services.
pub(super) const DEPLOYMENTS: &str = "service-ns";

pub(super) const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "DefaultTopologySpreading",
        about: "pods of Deployments with Services, spread over 3 zones and all nodes by default",
        sizes: Sizes { pods: 50_000, groups: 100, ..SIZES },
        groups: WorkloadGroups::Deployments,
        configuration: None,
        plan: |sizes, _| {
            WorkloadPlan::of(
                sizes,
                |number| node_in(&MOONS, number),
                like(pod(), DEFAULT),
                in_turn(templates(pod_asking_nothing(), sizes.groups), DEPLOYMENTS),
            )
            .with(deployments(sizes.groups))
        },
    },
    Workload {
        name: "TopologySpreading",
        about: "pods that must be spread over 3 zones with a skew of at most 5",
        sizes: SIZES,
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| over_zones(sizes, WhenUnsatisfiable::DoNotSchedule),
    },
    Workload {
        name: "PreferredTopologySpreading",
        about: "pods that would rather be spread over 3 zones",
        sizes: SIZES,
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| over_zones(sizes, WhenUnsatisfiable::ScheduleAnyway),
    },
];

fn over_zones(sizes: Sizes, when_unsatisfiable: WhenUnsatisfiable) -> WorkloadPlan {
    let spread = vec![SpreadConstraint {
        max_skew: 5,
        ..constraint(ZONE, when_unsatisfiable, Requirement::equals("color", "blue"))
    }];
    let spreading = PodTemplate { spread, ..pod_of_colour("blue") };
    WorkloadPlan::of(
        sizes,
        |number| node_in(&MOONS, number),
        like(pod(), DEFAULT),
        like(spreading, DEFAULT),
    )
}

/// A constraint with `maxSkew` 1 and the defaults of the API server.
pub(super) fn constraint(
    topology_key: &str,
    when_unsatisfiable: WhenUnsatisfiable,
    pods: Requirement,
) -> SpreadConstraint {
    SpreadConstraint {
        max_skew: 1,
        topology_key: topology_key.into(),
        when_unsatisfiable,
        selector: Selector::All(vec![pods]),
        without_label_keys: None,
        min_domains: 1,
        honor_node_affinity: true,
        honor_node_taints: false,
    }
}

/// The ReplicaSet and the Service of each of `n` Deployments.
pub(super) fn deployments(n: u32) -> impl Iterator<Item = Event> {
    let of_each = (0..n).flat_map(|number| {
        let name = deployment(number);
        [SelectingKind::ReplicaSet, SelectingKind::Service]
            .map(|kind| selecting(kind, DEPLOYMENTS, &name))
    });
    std::iter::once(namespace(DEPLOYMENTS, None)).chain(of_each)
}

/// The templates of `n` Deployments, each like `pod`.
pub(super) fn templates(pod: PodTemplate, n: u32) -> impl Iterator<Item = PodTemplate> {
    (0..n.max(1)).map(move |number| {
        let name = deployment(number);
        let controller = Controller {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: name.as_str().into(),
            uid: name.as_str().into(),
        };
        PodTemplate {
            labels: Labels::from_iter([("app", name)]),
            controller: Some(controller),
            ..pod.clone()
        }
    })
}

fn deployment(number: u32) -> String {
    format!("deployment-{number}")
}
