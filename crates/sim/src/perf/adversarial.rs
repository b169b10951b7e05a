//! Pods for which remembered results help little.

use plimsoll_api::{
    Labels, Node, NodeSelectorTerm, Pod, PodAffinity, PodTemplate, PreferredNodes, Requirement,
    Resources, WhenUnsatisfiable,
};

use super::affinity::alike;
use super::plan::{PODS, WorkloadPlan, at_once, come, nodes};
use super::scale::classes;
use super::spreading::constraint;
use super::template::{
    DEFAULT, HOSTNAME, ZONE, in_turn, like, near, node, node_in_zone, node_name,
    pod_asking_nothing, pod_is, pod_of_colour,
};
use super::{Sizes, Workload, WorkloadGroups};

/// All pods of HotNodes prefer one of this many nodes.
const HOT: u32 = 50;
/// The nodes of HostnameSpread initially have fewer than this many pods each.
const COUNTS: u32 = 100;

pub(super) const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "HotNodes",
        about: "pods of different classes in turn that all prefer the same few nodes",
        sizes: Sizes { nodes: 5_000, init_pods: 0, pods: 10_000, groups: 100 },
        groups: WorkloadGroups::Classes,
        configuration: None,
        plan: |sizes, _| {
            let hot = vec![Requirement::equals("hot", "yes")];
            let wanted = NodeSelectorTerm { labels: hot, ..NodeSelectorTerm::default() };
            let preferred_nodes = PreferredNodes(vec![(100, wanted)]);
            let hot = classes(sizes.groups)
                .map(|cold| PodTemplate { preferred_nodes: preferred_nodes.clone(), ..cold });
            let cold = in_turn(classes(sizes.groups), DEFAULT);
            WorkloadPlan::of(sizes, maybe_hot, cold, in_turn(hot, DEFAULT))
        },
    },
    Workload {
        name: "ZoneAntiAffinity",
        about: "pods that must be in a zone each, where each node is a zone",
        sizes: Sizes { nodes: 5_000, init_pods: 0, pods: 5_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| {
            let required_anti = vec![near("green", ZONE)];
            let affinity = PodAffinity { required_anti, ..PodAffinity::default() };
            let template = PodTemplate { affinity, ..pod_of_colour("green") };
            alike(sizes, |number| node_in_zone(&format!("zone-{number}"), number), template)
        },
    },
    Workload {
        name: "HostnameSpread",
        about: "pods that would rather be spread over all nodes, which hold 0 to 99 of them already",
        sizes: Sizes { nodes: 5_000, init_pods: 247_500, pods: 10_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: hostname_spread,
    },
];

fn maybe_hot(number: u32) -> Node {
    let node = node(number);
    let hot = number.is_multiple_of(HOT).then_some(("hot", "yes"));
    let labels: Labels = [(HOSTNAME, node.name.as_str())].into_iter().chain(hot).collect();
    Node { labels, ..node }
}

fn hostname_spread(sizes: Sizes, _: u64) -> WorkloadPlan {
    let labels = Labels::from_iter([("app", "web")]);
    let web = Requirement::equals("app", "web");
    let spread = vec![constraint(HOSTNAME, WhenUnsatisfiable::ScheduleAnyway, web)];
    let like = like(PodTemplate { spread, labels, ..pod_asking_nothing() }, DEFAULT);
    let measured = come("pod", like.clone(), 0..sizes.pods);
    // In layers: the node with number `n` is in the first `n % COUNTS` of them.
    let n_nodes = sizes.nodes;
    let layers = (1..COUNTS)
        .flat_map(move |layer| (0..n_nodes).filter(move |number| layer <= number % COUNTS));
    let init_pods = (0..sizes.init_pods).zip(layers).map(move |(number, node)| {
        pod_is(Pod { node_name: Some(node_name(node)), ..like("init", number) })
    });
    let roomy = |number| {
        let like = node(number);
        let allocatable = Resources { pods: 1_000, ..like.allocatable.clone() };
        Node { allocatable, ..like }
    };
    WorkloadPlan {
        objects: nodes(sizes.nodes, roomy),
        init_pods: Box::new(init_pods),
        rounds: at_once(PODS, measured),
    }
}
