//! Pods without conditions on other pods.

use plimsoll_api::node_selector::NAME_FIELD;
use plimsoll_api::{
    Node, NodeSelection, NodeSelectorTerm, PodTemplate, Requirement, Resources, Test,
};

use super::plan::WorkloadPlan;
use super::template::{
    DEFAULT, HOSTNAME, ZONE, like, node, node_in_zone, node_is, pod, pod_asking_nothing,
};
use super::{Sizes, Workload, WorkloadGroups};

/// The node of all pods of SchedulingDaemonset.
const THE_NODE: &str = "scheduler-perf-node";

pub(super) const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "SchedulingBasic",
        about: "pods of 100m CPU and 500Mi memory",
        sizes: Sizes { nodes: 5_000, init_pods: 1_000, pods: 10_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| WorkloadPlan::alike(sizes, node, like(pod(), DEFAULT)),
    },
    Workload {
        name: "SchedulingNodeAffinity",
        about: "pods that must be in one of two zones, where all nodes are in the first",
        sizes: Sizes { nodes: 5_000, init_pods: 5_000, pods: 10_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| {
            let zones = Test::In(vec!["zone1".into(), "zone2".into()]);
            let labels = vec![Requirement { key: ZONE.into(), test: zones }];
            let terms = Some(vec![NodeSelectorTerm { labels, ..NodeSelectorTerm::default() }]);
            let node_selection = NodeSelection { terms, ..NodeSelection::default() };
            let pods = like(PodTemplate { node_selection, ..pod() }, DEFAULT);
            WorkloadPlan::alike(sizes, |number| node_in_zone("zone1", number), pods)
        },
    },
    Workload {
        name: "SchedulingDaemonset",
        about: "pods that name the one node on which they must be, as those of a DaemonSet do",
        sizes: Sizes { nodes: 15_000, init_pods: 0, pods: 30_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| {
            let fields = vec![Requirement::equals(NAME_FIELD, THE_NODE)];
            let terms = Some(vec![NodeSelectorTerm { fields, ..NodeSelectorTerm::default() }]);
            let node_selection = NodeSelection { terms, ..NodeSelection::default() };
            let pods = like(PodTemplate { node_selection, ..pod_asking_nothing() }, DEFAULT);
            // This node comes first, and does not count towards the number of nodes.
            WorkloadPlan::alike(sizes, node, pods).with(std::iter::once(node_is(the_node())))
        },
    },
];

/// As in node-with-name.yaml.
fn the_node() -> Node {
    let like = node(0);
    Node {
        name: THE_NODE.into(),
        labels: [(HOSTNAME, THE_NODE)].into_iter().collect(),
        allocatable: Resources { pods: 90_000, ..like.allocatable.clone() },
        ..like
    }
}
