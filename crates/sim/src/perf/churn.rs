//! Clusters that change while pods are placed: pods come and go in a nearly full one, and nodes in a large one.

use plimsoll_api::{Effect, Labels, Node, Pod, PodTemplate, Resources, Taint, Toleration};
use plimsoll_engine::Event;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::plan::{PODS, Round, WorkloadPlan, come, nodes};
use super::spreading::{DEPLOYMENTS, deployments, templates};
use super::template::{
    DEFAULT, GIB, MOONS, in_turn, like, node_in, node_is, node_is_gone, node_name, pod, pod_asking,
    pod_asking_nothing, pod_is,
};
use super::{Sizes, Workload, WorkloadGroups};

/// What a pod requests, in thousandths of a core and in MiB.
const REQUEST: (u32, u32) = (200, 250);
/// How full a node is at the beginning.
const PERCENT: i64 = 90;
/// How many pods are deleted and added at once.
const AT_ONCE: u32 = 100;
/// One of this many nodes has a taint, and the pods of one of this many Deployments tolerate it.
const TAINTED: u32 = 10;
const TAINT: (&str, &str) = ("dedicated", "batch");

pub(super) const WORKLOADS: [Workload; 2] = [CHURN, NODE_CHURN];

const CHURN: Workload = Workload {
    name: "Churn",
    about: "20 kinds of nodes that are 90% full, where 100 pods at a time go and as many come",
    sizes: Sizes { nodes: 5_000, init_pods: 180_000, pods: 50_000, groups: 100 },
    groups: WorkloadGroups::Deployments,
    configuration: None,
    plan: churn,
};

const NODE_CHURN: Workload = Workload {
    name: "NodeChurn",
    about: "DefaultTopologySpreading, where with every 100 pods a node comes, one goes, one is relabelled, and one tainted",
    sizes: Sizes { nodes: 5_000, init_pods: 5_000, pods: 50_000, groups: 100 },
    groups: WorkloadGroups::Deployments,
    configuration: None,
    plan: node_churn,
};

fn churn(sizes: Sizes, seed: u64) -> WorkloadPlan {
    let templates = templates(pod_asking(REQUEST.0, REQUEST.1), sizes.groups);
    let templates = templates.zip(0..).map(|(template, number)| tolerating(template, number));
    let make = in_turn(templates, DEPLOYMENTS);
    let there = sizes.init_pods.min((0..sizes.nodes).map(room).sum());
    let rounds = rounds(sizes, there, make.clone(), seed);
    // The initial pods are already on their nodes: placing them would be a separate workload.
    let on_nodes = (0..sizes.nodes).flat_map(|number| (0..room(number)).map(move |_| number));
    let init_pods = (0..sizes.init_pods).zip(on_nodes).map(move |(number, node)| {
        pod_is(Pod { node_name: Some(node_name(node)), ..make("init", number) })
    });
    WorkloadPlan {
        objects: Box::new(deployments(sizes.groups).chain(nodes(sizes.nodes, node))),
        init_pods: Box::new(init_pods),
        rounds: Box::new(rounds),
    }
}

/// One of 20 kinds: five sizes by four, in three zones, some with a taint.
fn node(number: u32) -> Node {
    let of_20 = i64::from(number % 20);
    let allocatable = Resources {
        milli_cpu: 4_000 + 2_000 * (of_20 % 5),
        memory: (16 + 16 * (of_20 / 5)) * GIB,
        pods: 110,
        ..Resources::default()
    };
    let taints = if number.is_multiple_of(TAINTED) { vec![taint()] } else { vec![] };
    Node { allocatable, taints, ..node_in(&MOONS, number) }
}

/// How many pods the node with this number initially has.
fn room(number: u32) -> u32 {
    let pods = node(number).allocatable.milli_cpu * PERCENT / 100 / i64::from(REQUEST.0);
    u32::try_from(pods).expect("a node holds few pods")
}

fn tolerating(template: PodTemplate, deployment: u32) -> PodTemplate {
    if !deployment.is_multiple_of(TAINTED) {
        return template;
    }
    let (key, value) = TAINT;
    let effect = Some(Effect::NoSchedule);
    let toleration = Toleration {
        key: Some(key.into()),
        value: Some(value.into()),
        effect,
        ..Toleration::default()
    };
    PodTemplate { tolerations: vec![toleration], ..template }
}

/// Random pods are deleted, and the same number is added.
fn rounds(
    sizes: Sizes,
    n_init: u32,
    make: impl Fn(&'static str, u32) -> Pod + Clone + 'static,
    seed: u64,
) -> impl Iterator<Item = Round> {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut there: Vec<(&'static str, u32)> = (0..n_init).map(|number| ("init", number)).collect();
    (0..sizes.pods.div_ceil(AT_ONCE)).map(move |round| {
        let numbers = round * AT_ONCE..sizes.pods.min((round + 1) * AT_ONCE);
        let mut gone: Vec<Event> = Vec::new();
        for _ in numbers.clone().take(there.len()) {
            let (group, number) = there.swap_remove(rng.random_range(0..there.len()));
            gone.push(Event::pod_gone(make(group, number).key));
        }
        there.extend(numbers.clone().map(|number| ("pod", number)));
        let events = Box::new(gone.into_iter().chain(come("pod", make.clone(), numbers)));
        Round::new(PODS, events)
    })
}

fn node_churn(sizes: Sizes, seed: u64) -> WorkloadPlan {
    let make = in_turn(templates(pod_asking_nothing(), sizes.groups), DEPLOYMENTS);
    let mut churn = NodeChurn::new(sizes.nodes, seed);
    let rounds = (0..sizes.pods.div_ceil(AT_ONCE)).map(move |round| {
        let numbers = round * AT_ONCE..sizes.pods.min((round + 1) * AT_ONCE);
        let events = churn.round().into_iter().chain(come("pod", make.clone(), numbers));
        Round::new(PODS, Box::new(events))
    });
    WorkloadPlan {
        objects: Box::new(deployments(sizes.groups).chain(nodes(sizes.nodes, plain_node))),
        init_pods: come("init", like(pod(), DEFAULT), 0..sizes.init_pods),
        rounds: Box::new(rounds),
    }
}

fn plain_node(number: u32) -> Node {
    node_in(&MOONS, number)
}

/// The nodes of NodeChurn. Pods on a node that goes stay: it takes a while until they are deleted, in a cluster too.
struct NodeChurn {
    nodes: Vec<Node>,
    /// The number of the next node that comes.
    next: u32,
    rounds: u32,
    rng: Pcg64,
}

impl NodeChurn {
    fn new(n_nodes: u32, seed: u64) -> Self {
        NodeChurn {
            nodes: (0..n_nodes).map(plain_node).collect(),
            next: n_nodes,
            rounds: 0,
            rng: Pcg64::seed_from_u64(seed),
        }
    }

    /// A random one of the nodes.
    fn any(&mut self) -> usize {
        self.rng.random_range(0..self.nodes.len())
    }

    /// One node comes, one goes, one has another label, and one gets a taint or loses it.
    fn round(&mut self) -> Vec<Event> {
        self.rounds += 1;
        let new = plain_node(self.next);
        self.next += 1;
        self.nodes.push(new.clone());
        let gone = self.any();
        let gone = self.nodes.swap_remove(gone).name;
        let (relabelled, tainted) = (self.any(), self.any());
        let one = &mut self.nodes[relabelled];
        let others = one.labels.iter().filter(|(key, _)| key.as_str() != ROUND);
        let others = others.map(|(key, value)| (key.clone(), value.clone()));
        let round = (ROUND.into(), self.rounds.to_string().into());
        one.labels = others.chain([round]).collect::<Labels>();
        let relabelled = one.clone();
        let one = &mut self.nodes[tainted];
        one.taints = if one.taints.is_empty() { vec![taint()] } else { Vec::new() };
        let tainted = one.clone();
        vec![node_is(new), node_is_gone(gone), node_is(relabelled), node_is(tainted)]
    }
}

/// The label of NodeChurn: the round in which it was changed.
const ROUND: &str = "example.com/round";

fn taint() -> Taint {
    let (key, value) = TAINT;
    Taint { key: key.into(), value: value.into(), effect: Effect::NoSchedule }
}
