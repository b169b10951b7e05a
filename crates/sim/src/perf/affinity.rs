//! Pods with affinity or anti-affinity to other pods.

use std::sync::Arc;

use plimsoll_api::{AffinityTerm, Node, PodAffinity, PodTemplate, Requirement, Selector};

use super::plan::WorkloadPlan;
use super::template::{
    DEFAULT, HOSTNAME, SCHED, ZONE, like, named, namespace, near, node, node_in_zone, pod,
    pod_of_colour, preferably,
};
use super::{Sizes, Workload, WorkloadGroups};

const SIZES: Sizes = Sizes { nodes: 5_000, init_pods: 5_000, pods: 5_000, groups: 0 };
/// The number of namespaces of the initial pods in SchedulingRequiredPodAntiAffinityWithNSSelector.
const NAMESPACES: u32 = 100;
const MEASURED: &str = "measure-ns-0";
const TEAM: (&str, &str) = ("team", "devops");

pub(super) const WORKLOADS: [Workload; 6] = [
    Workload {
        name: "SchedulingPodAffinity",
        about: "pods that must be in the zone of the others, where all nodes are in one",
        sizes: SIZES,
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| alike(sizes, in_zone_1, attached()),
    },
    Workload {
        name: "SchedulingPreferredPodAffinity",
        about: "pods that would rather be on the nodes of the others",
        sizes: SIZES,
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| alike(sizes, node, rather_near()),
    },
    Workload {
        name: "SchedulingPodAntiAffinity",
        about: "pods that must be on a node each",
        sizes: Sizes { init_pods: 1_000, pods: 2_000, ..SIZES },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| alike(sizes, node, apart()),
    },
    Workload {
        name: "SchedulingPreferredPodAntiAffinity",
        about: "pods that would rather be on a node each",
        sizes: SIZES,
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| alike(sizes, node, rather_apart()),
    },
    Workload {
        name: "SchedulingRequiredPodAntiAffinityWithNSSelector",
        about: "pods that must be on a node each, in 101 namespaces that a selector finds",
        sizes: Sizes { nodes: 6_000, init_pods: 4_000, pods: 2_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: with_namespace_selector,
    },
    Workload {
        name: "MixedSchedulingBasePod",
        about: "plain pods among five kinds of pods, four of them with affinities",
        sizes: Sizes { init_pods: 10_000, ..SIZES },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: mixed,
    },
];

/// All pods are of this kind, both the initial and the measured ones.
pub(super) fn alike(sizes: Sizes, node: fn(u32) -> Node, template: PodTemplate) -> WorkloadPlan {
    let template = Arc::new(template);
    WorkloadPlan::of(sizes, node, like(Arc::clone(&template), SCHED[0]), like(template, SCHED[1]))
        .with(SCHED.into_iter().map(|name| namespace(name, None)))
}

fn in_zone_1(number: u32) -> Node {
    node_in_zone("zone1", number)
}

/// As in pod-with-pod-affinity.yaml.
fn attached() -> PodTemplate {
    let affinity = PodAffinity { required: vec![near("blue", ZONE)], ..PodAffinity::default() };
    PodTemplate { affinity, ..pod_of_colour("blue") }
}

/// As in pod-with-preferred-pod-affinity.yaml.
fn rather_near() -> PodTemplate {
    let preferred = vec![preferably(near("red", HOSTNAME))];
    PodTemplate {
        affinity: PodAffinity { preferred, ..PodAffinity::default() },
        ..pod_of_colour("red")
    }
}

/// As in pod-with-pod-anti-affinity.yaml.
fn apart() -> PodTemplate {
    let required_anti = vec![near("green", HOSTNAME)];
    let affinity = PodAffinity { required_anti, ..PodAffinity::default() };
    PodTemplate { affinity, ..pod_of_colour("green") }
}

/// As in pod-with-preferred-pod-anti-affinity.yaml.
fn rather_apart() -> PodTemplate {
    let preferred_anti = vec![preferably(near("yellow", HOSTNAME))];
    let affinity = PodAffinity { preferred_anti, ..PodAffinity::default() };
    PodTemplate { affinity, ..pod_of_colour("yellow") }
}

/// As in pod-anti-affinity-ns-selector.yaml.
fn apart_in_the_team() -> PodTemplate {
    let term = AffinityTerm {
        namespaces: vec![],
        namespace_selector: Selector::All(vec![Requirement::equals(TEAM.0, TEAM.1)]),
        ..near("green", HOSTNAME)
    };
    let affinity = PodAffinity { required_anti: vec![term], ..PodAffinity::default() };
    PodTemplate { affinity, ..pod_of_colour("green") }
}

fn with_namespace_selector(sizes: Sizes, _: u64) -> WorkloadPlan {
    let template = Arc::new(apart_in_the_team());
    let measured = like(Arc::clone(&template), MEASURED);
    // The same number of pods in each namespace, one namespace after the other.
    let in_each = sizes.init_pods.div_ceil(NAMESPACES).max(1);
    let init_namespace = |number: u32| format!("init-ns-{number}");
    let namespaces = (0..NAMESPACES).map(init_namespace).chain([MEASURED.to_owned()]);
    WorkloadPlan::of(
        sizes,
        node,
        move |group, number| named(&template, &init_namespace(number / in_each), group, number),
        measured,
    )
    .with(namespaces.map(|name| namespace(&name, Some(TEAM))))
}

fn mixed(sizes: Sizes, _: u64) -> WorkloadPlan {
    let kinds = [pod(), attached(), apart(), rather_near(), rather_apart()].map(Arc::new);
    let plain = like(Arc::clone(&kinds[0]), DEFAULT);
    let of_each = sizes.init_pods.div_ceil(5).max(1);
    WorkloadPlan::of(
        sizes,
        in_zone_1,
        move |group, number| named(&kinds[(number / of_each) as usize], SCHED[0], group, number),
        plain,
    )
    .with(std::iter::once(namespace(SCHED[0], None)))
}
