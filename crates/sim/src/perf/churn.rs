//! A nearly full cluster of many kinds of nodes, where pods are added and deleted.

use plimsoll_api::{Effect, Node, Pod, PodTemplate, Resources, Taint, Toleration};
use plimsoll_engine::Event;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::plan::{PODS, Round, WorkloadPlan, come, nodes};
use super::spreading::{DEPLOYMENTS, deployments, templates};
use super::template::{GIB, MOONS, in_turn, node_in, node_name, pod_asking, pod_is};
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

pub(super) const WORKLOADS: [Workload; 1] = [Workload {
    name: "Churn",
    about: "20 kinds of nodes that are 90% full, where 100 pods at a time go and as many come",
    sizes: Sizes { nodes: 5_000, init_pods: 180_000, pods: 50_000, groups: 100 },
    groups: WorkloadGroups::Deployments,
    plan: churn,
}];

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
    let (key, value) = TAINT;
    let taint = Taint { key: key.into(), value: value.into(), effect: Effect::NoSchedule };
    let taints = if number.is_multiple_of(TAINTED) { vec![taint] } else { vec![] };
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
