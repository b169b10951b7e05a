//! Pods that wait for many reasons, and a stream of events, each of which may help some of them.

use std::sync::Arc;

use plimsoll_api::{
    AccessModes, Labels, Node, Pod, PodKey, PodTemplate, PodVolume, PodVolumeKind, Str, Taint,
};
use plimsoll_engine::Event;

use super::plan::{Events, WorkloadPlan, at_once, at_rate, come};
use super::template::{
    HOSTNAME, in_turn, like, named, namespace, node, node_is, pod_asking_nothing, pod_is,
    pod_written,
};
use super::volumes::{csi_node, limited_node, volume};
use super::{Sizes, Workload, WorkloadGroups};

/// How many pods are deleted or changed per second.
const PER_SECOND: u32 = 100;
/// The phase in which pods are added and wait.
const PARK: &str = "park";
/// The phase in which events wake them.
const WAKE: &str = "wake";

pub(super) const WORKLOADS: [Workload; 2] = [
    Workload {
        name: "EventHandlingPodDelete",
        about: "pods that wait for room, ports, volumes, spreading and others to go (park), and pods that go (wake)",
        sizes: Sizes { nodes: 50, init_pods: 480, pods: 500, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: pods_go,
    },
    Workload {
        name: "EventHandlingPodUpdate",
        about: "pods that wait until they or those on nodes are changed (park), and changes of each (wake)",
        sizes: Sizes { nodes: 1, init_pods: 1_000, pods: 1_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: pods_change,
    },
];

/// How many volumes a node can attach.
const VOLUMES: i32 = 20;
/// The namespaces of the deleted pods: those that use resources, ports and volumes, and those that
/// anti-affinity of others matches.
const TAKING: &str = "blockertopologyportsresources";
const AVOIDED: &str = "blockeraffinity";

/// As EventHandlingPodDelete: `init_pods` of each of two kinds are on nodes and are deleted, while
/// `pods` of each of four kinds and `init_pods` of each of two kinds wait.
fn pods_go(sizes: Sizes, _: u64) -> WorkloadPlan {
    let Sizes { nodes, init_pods: n_there, pods: n_waiting, .. } = sizes;
    let limited = "limited";
    let spaces = [TAKING, AVOIDED, "nodeports", "noderesources", limited, "interpodaffinity"];
    let volumes = [
        (TAKING, AccessModes::READ_ONLY_MANY),
        (AVOIDED, AccessModes::READ_WRITE_ONCE_POD),
        (limited, AccessModes::READ_ONLY_MANY),
    ];
    let volumes = volumes.into_iter().flat_map(move |(space, modes)| {
        (0..n_there).flat_map(move |number| volume(space, claim(number), modes))
    });
    let nodes = (0..nodes)
        .flat_map(|number| [node_is(limited_node(number, VOLUMES)), csi_node(number, VOLUMES)]);
    let spaces = spaces.into_iter().map(|name| namespace(name, None));

    let there = [(TAKING, taking()), (AVOIDED, avoided())]
        .map(|(space, templates)| come("there", with_volumes(templates, space), 0..n_there));
    let waiting: [Events; 6] = [
        come("spread", like(spread(11, 10_000, UNSCHED), TAKING), 0..n_waiting),
        come("claim", with_volumes(vec![pod_asking_nothing()], AVOIDED), 0..n_there),
        come("port", in_turn(ports(""), "nodeports"), 0..n_waiting),
        come("room", like(asking("0.2", "1Gi", "{}"), "noderesources"), 0..n_waiting),
        come("volume", with_volumes(vec![pod_asking_nothing()], limited), 0..n_there),
        come("apart", like(apart("green", AVOIDED), "interpodaffinity"), 0..n_waiting),
    ];
    let parked = waiting.into_iter().flat_map(|events| at_once(PARK, events));
    let gone = move |number| {
        let of = |space| Event::pod_gone(PodKey::new(space, format!("there-{number}")));
        vec![of(TAKING), of(AVOIDED)]
    };
    let [taking, avoided] = there;
    WorkloadPlan {
        objects: Box::new(spaces.chain(nodes).chain(volumes)),
        init_pods: Box::new(taking.chain(avoided)),
        rounds: Box::new(parked.chain(at_rate(WAKE, PER_SECOND, (0..n_there).map(gone)))),
    }
}

/// The name of the claim of the pod of this number.
fn claim(number: u32) -> Str {
    format!("pvc-{number}").into()
}

/// Pods of these templates in turn, each with the claim of its number.
fn with_volumes(
    templates: Vec<PodTemplate>,
    space: &'static str,
) -> impl Fn(&'static str, u32) -> Pod + 'static {
    move |group, number| {
        let kind = PodVolumeKind::Claim(claim(number));
        let volumes = vec![PodVolume { name: "vol".into(), kind }];
        let template = &templates[number as usize % templates.len()];
        named(&Arc::new(PodTemplate { volumes, ..template.clone() }), space, group, number)
    }
}

/// The labels of waiting pods.
const UNSCHED: &str = r#"{"topology": "blue", "type": "unsched"}"#;

/// A pod with these requests.
fn asking(cpu: &str, memory: &str, labels: &str) -> PodTemplate {
    let resources =
        format!(r#""resources": {{"requests": {{"cpu": "{cpu}", "memory": "{memory}"}}}}"#);
    pod_written(labels, &resources, "")
}

/// Twelve templates, each with a host port.
fn ports(of_container: &str) -> Vec<PodTemplate> {
    let with = |port| {
        let port = format!(
            r#""ports": [{{"hostPort": 8{port}, "containerPort": 8{port}}}]{of_container}"#
        );
        pod_written("{}", &port, "")
    };
    (0..12).map(with).collect()
}

/// A pod that is spread over nodes with the others of its topology.
fn spread(max_skew: u32, min_domains: u32, labels: &str) -> PodTemplate {
    let constraint = format!(
        r#""topologySpreadConstraints": [{{
            "maxSkew": {max_skew}, "minDomains": {min_domains}, "topologyKey": "{HOSTNAME}",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {{"matchLabels": {{"topology": "blue"}}}}
        }}]"#
    );
    pod_written(labels, "", &constraint)
}

/// A pod with anti-affinity to pods of this colour in that namespace.
fn apart(colour: &str, space: &str) -> PodTemplate {
    let labels = format!(r#"{{"color": "{colour}", "type": "unsched"}}"#);
    let affinity = format!(
        r#""affinity": {{"podAntiAffinity": {{"requiredDuringSchedulingIgnoredDuringExecution": [{{
            "labelSelector": {{"matchLabels": {{"color": "{colour}"}}}},
            "topologyKey": "{HOSTNAME}", "namespaces": ["{space}"]
        }}]}}}}"#
    );
    pod_written(&labels, "", &affinity)
}

/// Pods that use ports and resources, and are spread.
fn taking() -> Vec<PodTemplate> {
    let spread = spread(10, 10_000, r#"{"topology": "blue", "type": "blocker"}"#);
    let resources = r#", "resources": {"requests": {"cpu": "0.35", "memory": "3Gi"}}"#;
    let all = ports(resources).into_iter();
    let (constraints, labels) = (spread.spread, spread.labels);
    all.map(|one| PodTemplate { spread: constraints.clone(), labels: labels.clone(), ..one })
        .collect()
}

/// Pods that anti-affinity of others matches.
fn avoided() -> Vec<PodTemplate> {
    vec![pod_written(r#"{"color": "green", "type": "blocker"}"#, "", "")]
}

/// The node of the pods that are changed.
const NODE: &str = "scheduler-perf-node";
/// The namespace of the pods on it that are changed.
const CHANGED: &str = "blocker";
/// How much all pods on it request, in MiB.
const MEMORY_MIB: u32 = 30_000;
/// The pod limit of nodes.
const MANY_PODS: i64 = 90_000;

/// As EventHandlingPodUpdate: `pods` wait for each of five reasons, and `init_pods` for a sixth.
fn pods_change(sizes: Sizes, _: u64) -> WorkloadPlan {
    let Sizes { init_pods: n_there, pods: n_waiting, .. } = sizes;
    let spaces = [
        "nodeunschedulable",
        "tainttoleration",
        CHANGED,
        "interpodaffinity",
        "noderesources",
        "schedulinggates",
    ];
    let plain = || pod_asking_nothing();
    let first = [
        at_once(PARK, come("cordoned", like(plain(), "nodeunschedulable"), 0..n_waiting)),
        at_once(PARK, tainted(come("tainted", like(plain(), "tainttoleration"), 0..n_waiting))),
        each(
            "cordoned",
            tolerating("node.kubernetes.io/unschedulable"),
            "nodeunschedulable",
            n_waiting,
        ),
        each("tainted", tolerating("toleration"), "tainttoleration", n_waiting),
    ];
    let filled = Box::new(std::iter::once(node_is(large(NODE))).chain(come(
        "there",
        there(n_there),
        0..n_there,
    )));
    let share = format!("{}Mi", MEMORY_MIB / n_waiting.max(1));
    let gated = PodTemplate { scheduling_gates: vec!["test.k8s.io/hold".into()], ..plain() };
    let avoiding = |group: &'static str, number: u32| {
        let template = apart(&colour(number), CHANGED);
        named(&Arc::new(template), "interpodaffinity", group, number)
    };
    let spread = spread(n_there, 100, UNSCHED);
    let parked = [
        at_once(PARK, filled),
        at_once(PARK, come("apart", avoiding, 0..n_waiting)),
        at_once(
            PARK,
            come("room", like(asking("0.0001", &share, "{}"), "noderesources"), 0..n_waiting),
        ),
        at_once(PARK, come("spread", like(spread, CHANGED), 0..n_there)),
        at_once(PARK, come("gated", like(gated, "schedulinggates"), 0..n_waiting)),
    ];
    let (before, after) = (there(n_there), asking("0.0001", "1Mi", "{}"));
    let without_labels = move |group, number| {
        let pod = on_node(before(group, number));
        let template = PodTemplate { labels: Labels::default(), ..(*pod.template).clone() };
        Pod { template: Arc::new(template), ..pod }
    };
    let smaller = like(after, CHANGED);
    let woken = [
        at_rate(
            WAKE,
            PER_SECOND,
            (0..n_there).map(move |number| vec![pod_is(without_labels("there", number))]),
        ),
        at_rate(
            WAKE,
            PER_SECOND,
            (0..n_there).map(move |number| vec![pod_is(on_node(smaller("there", number)))]),
        ),
        each("gated", plain(), "schedulinggates", n_waiting),
    ];
    let cordoned = node_is(Node { unschedulable: true, ..large("unschedulable-node") });
    let spaces = spaces.into_iter().map(|name| namespace(name, None));
    WorkloadPlan {
        objects: Box::new(spaces.chain([cordoned])),
        init_pods: Box::new(std::iter::empty()),
        rounds: Box::new(first.into_iter().chain(parked).chain(woken).flatten()),
    }
}

/// A node for many pods.
fn large(name: &str) -> Node {
    let like = node(0);
    let labels = Labels::from_iter([(HOSTNAME, name)]);
    let mut allocatable = like.allocatable.clone();
    allocatable.pods = MANY_PODS;
    Node { name: name.into(), labels, allocatable, ..like }
}

/// A node with a taint, followed by these events.
fn tainted(events: Events) -> Events {
    let taint = Taint {
        key: "toleration".into(),
        value: Str::default(),
        effect: plimsoll_api::Effect::NoSchedule,
    };
    let node = Node { taints: vec![taint], ..large("node-with-taint") };
    Box::new(std::iter::once(node_is(node)).chain(events))
}

/// A pod that tolerates a taint of this key.
fn tolerating(key: &str) -> PodTemplate {
    let toleration = format!(
        r#""tolerations": [{{"key": "{key}", "operator": "Exists", "effect": "NoSchedule"}}]"#
    );
    pod_written(r#"{"type": "unsched"}"#, "", &toleration)
}

/// The pods of a group change to this template, one after the other.
fn each(
    group: &'static str,
    template: PodTemplate,
    space: &'static str,
    n: u32,
) -> Box<dyn Iterator<Item = super::plan::Round>> {
    let become_so = like(template, space);
    at_rate(WAKE, PER_SECOND, (0..n).map(move |number| vec![pod_is(become_so(group, number))]))
}

fn colour(number: u32) -> String {
    format!("green-{number}")
}

/// The pods on the node before they are changed: `n` pods, each with its own colour.
fn there(n: u32) -> impl Fn(&'static str, u32) -> Pod + 'static {
    let share = format!("{}Mi", MEMORY_MIB / n.max(1));
    let like = asking("0.0001", &share, "{}");
    move |group, number| {
        let labels = Labels::from_iter([("color", colour(number).as_str()), ("topology", "blue")]);
        let template = PodTemplate { labels, ..like.clone() };
        named(&Arc::new(template), CHANGED, group, number)
    }
}

fn on_node(pod: Pod) -> Pod {
    Pod { node_name: Some(NODE.into()), ..pod }
}
