//! Pods that fit, broken in one way or two that are known: the remedy must be as small as undoing that, and every proposal
//! must work.

use plimsoll_advisor::size;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use crate::world::{POD, STRICT, World};

/// A way to break a pod, or its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    Cpu,
    Memory,
    Selector,
    Affinity,
    Cordon,
    Taint,
    Port,
    AntiAffinity,
    Spread,
    Gate,
    /// Other nodes have more pods than one that is closed.
    Skew,
    /// Less important pods use all that is left.
    Full,
    /// Another profile decides the pod.
    Profile,
}

/// The number of the first breaks, which hardly change which nodes miss by least. Remedies of storage are only looked for on a few
/// nodes, so claims are only broken together with these.
pub(crate) const PLAIN: usize = 10;

pub(crate) const BREAKS: [Break; 13] = [
    Break::Cpu,
    Break::Memory,
    Break::Selector,
    Break::Affinity,
    Break::Cordon,
    Break::Taint,
    Break::Port,
    Break::AntiAffinity,
    Break::Spread,
    Break::Gate,
    Break::Skew,
    Break::Full,
    Break::Profile,
];

/// What is left of the CPU of a node.
fn free_cpu(world: &World, node: &str) -> u32 {
    let milli = |text: &Value| -> u32 {
        let text = text.as_str().expect("it is a text");
        match text.strip_suffix('m') {
            Some(milli) => milli.parse().expect("it is a number"),
            None => 1000 * text.parse::<u32>().expect("it is a number"),
        }
    };
    let used = world
        .pods_on(node)
        .map(|pod| milli(&pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]));
    milli(&world.get("Node", node)["status"]["allocatable"]["cpu"]) - used.sum::<u32>()
}

pub(crate) fn container(cpu: u32, mebibytes: u32) -> Value {
    let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{mebibytes}Mi")});
    json!({"containers": [{"name": "app", "image": "app", "resources": {"requests": requests}}]})
}

/// A small cluster with a pod that fits.
pub(crate) fn cluster(rng: &mut impl Rng) -> World {
    let mut world = World::default();
    let n_nodes = rng.random_range(3..9);
    for node in 0..n_nodes {
        let (name, zone) = (format!("node-{node}"), node % 3);
        let disk = ["ssd", "hdd"][rng.random_range(0..2)];
        let labels = json!({"zone": zone.to_string(), "disk": disk});
        let cores = [4, 8, 16][rng.random_range(0..3)];
        let allocatable =
            json!({"cpu": cores.to_string(), "memory": format!("{}Gi", cores * 4), "pods": "20"});
        world.node(&name, &labels, &allocatable);
        for pod in 0..rng.random_range(0..4) {
            let mut spec = container(rng.random_range(1..10) * 100, rng.random_range(1..10) * 128);
            spec["nodeName"] = json!(name);
            spec["priority"] = json!(rng.random_range(0..3) * 10);
            let app = ["web", "db"][rng.random_range(0..2)];
            world.pod(&format!("pod-{node}-{pod}"), &json!({"app": app}), &spec);
        }
    }
    let mut spec = container(rng.random_range(1..5) * 100, rng.random_range(1..5) * 128);
    spec["preemptionPolicy"] = json!("Never");
    if rng.random_bool(0.3) {
        spec["nodeSelector"] = json!({"disk": "ssd"});
    }
    world.pod(POD, &json!({"app": "web"}), &spec);
    world
}

pub(crate) fn nodes(world: &World) -> Vec<String> {
    (0..9).map(|node| format!("node-{node}")).filter(|name| world.has("Node", name)).collect()
}

/// Breaks the pod, and returns the size of undoing that at most.
pub(crate) fn break_it(world: &mut World, how: Break, rng: &mut impl Rng) -> u32 {
    let nodes = nodes(world);
    match how {
        Break::Cpu | Break::Memory => {
            let spec = &mut world.get_mut("Pod", POD)["spec"];
            let requests = &mut spec["containers"][0]["resources"]["requests"];
            let (name, unit) = if how == Break::Cpu { ("cpu", 1000) } else { ("memory", 1024) };
            let whole: u32 = rng.random_range(65..130);
            let before = requests[name].as_str().expect("it is a text");
            let before: u32 =
                before.trim_end_matches(['m', 'M', 'i']).parse().expect("it is a number");
            requests[name] = json!(format!("{whole}{}", if how == Break::Cpu { "" } else { "Gi" }));
            let after = whole * unit;
            size::REQUEST + size::WHOLE_REQUEST * (after - before) / after
        }
        Break::Selector => {
            world.get_mut("Pod", POD)["spec"]["nodeSelector"]["color"] = json!("red");
            size::SELECTOR
        }
        Break::Affinity => {
            let affinity = &mut world.get_mut("Pod", POD)["spec"]["affinity"];
            affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
                "nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "zone", "operator": "Exists"},
                    {"key": "generation", "operator": "In", "values": ["9", "10"]},
                ]}],
            });
            size::SELECTOR
        }
        Break::Cordon => {
            for node in nodes {
                world.get_mut("Node", &node)["spec"]["unschedulable"] = json!(true);
            }
            size::UNCORDON
        }
        Break::Taint => {
            for node in nodes {
                let spec = &mut world.get_mut("Node", &node)["spec"];
                spec["taints"] = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
            }
            size::TAINT
        }
        Break::Port => {
            for node in nodes {
                let mut spec = container(1, 1);
                spec["nodeName"] = json!(node);
                spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
                world.pod(&format!("port-{node}"), &json!({}), &spec);
            }
            let spec = &mut world.get_mut("Pod", POD)["spec"];
            spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
            size::PORT
        }
        Break::AntiAffinity => {
            for node in nodes {
                let mut spec = container(1, 1);
                spec["nodeName"] = json!(node);
                world.pod(&format!("rival-{node}"), &json!({"app": "rival"}), &spec);
            }
            let affinity = &mut world.get_mut("Pod", POD)["spec"]["affinity"];
            affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "rival"}},
            }]);
            size::POD_AFFINITY
        }
        Break::Spread => {
            // No node has this label.
            spread(world, "rack", &json!({"app": "web"}));
            size::NO_SPREAD
        }
        Break::Skew => skew(world, nodes, rng),
        Break::Full => {
            for node in nodes {
                let mut spec = container(free_cpu(world, &node), 1);
                spec["nodeName"] = json!(node);
                spec["priority"] = json!(-1);
                world.pod(&format!("filler-{node}"), &json!({}), &spec);
            }
            size::EVICTION + size::ONE_EVICTION
        }
        Break::Profile => {
            world.get_mut("Pod", POD)["spec"]["schedulerName"] = json!(STRICT);
            size::PROFILE
        }
        Break::Gate => {
            world.get_mut("Pod", POD)["spec"]["schedulingGates"] = json!([{"name": "a.example/b"}]);
            size::GATE
        }
    }
}

/// Puts pods on all nodes but a closed one, which keeps the skew high. Returns the size of allowing that skew.
fn skew(world: &mut World, nodes: Vec<String>, rng: &mut impl Rng) -> u32 {
    let most = rng.random_range(2..5);
    for node in nodes {
        for number in 0..most - rng.random_range(0..2) {
            let mut spec = container(1, 1);
            spec["nodeName"] = json!(node);
            world.pod(&format!("spread-{node}-{number}"), &json!({"group": "s"}), &spec);
        }
    }
    let allocatable = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
    world.node("closed", &json!({"zone": "3", "disk": "ssd"}), &allocatable);
    world.get_mut("Node", "closed")["spec"]["unschedulable"] = json!(true);
    world.get_mut("Pod", POD)["metadata"]["labels"]["group"] = json!("s");
    spread(world, "kubernetes.io/hostname", &json!({"group": "s"}));
    // The closed node has none of these pods, and counts.
    (size::SPREAD + size::ONE_SKEW * most).min(size::NO_SPREAD)
}

/// Adds a constraint: pods with these labels are spread.
fn spread(world: &mut World, topology_key: &str, labels: &Value) {
    let constraints = &mut world.get_mut("Pod", POD)["spec"]["topologySpreadConstraints"];
    if !constraints.is_array() {
        *constraints = json!([]);
    }
    constraints.as_array_mut().expect("it is a list").push(json!({
        "maxSkew": 1, "topologyKey": topology_key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }));
}

fn check(seed: u64, n_breaks: usize) {
    let rng = &mut Pcg64::seed_from_u64(seed);
    let mut world = cluster(rng);
    if world.placed(None).is_none() {
        return;
    }
    let (mut breaks, mut undone) = (Vec::new(), 0);
    while breaks.len() < n_breaks {
        let how = BREAKS[rng.random_range(0..BREAKS.len())];
        if !breaks.contains(&how) {
            undone += break_it(&mut world, how, rng);
            breaks.push(how);
        }
    }
    check_remedies(&world, undone, &format!("seed {seed}: {breaks:?}"));
}

/// Asks about a pod that was broken, which could be undone by changes of the size `undone`: some remedy is as small, and all
/// of them work.
pub(crate) fn check_remedies(world: &World, undone: u32, of: &str) {
    assert_eq!(world.placed(None), None, "{of} breaks it");
    let why = world.ask(&[]);
    let shown: Vec<_> = why.remedies.iter().map(|one| (one.size, &one.text)).collect();
    let first = why.remedies.first();
    assert!(
        first.is_some_and(|first| first.size <= undone),
        "{of} can be undone by {undone}: {shown:#?}"
    );
    for remedy in &why.remedies {
        let placed = world.changed(&remedy.changes).placed(None);
        let expected = Some((remedy.node.clone(), remedy.also_fits + 1));
        assert_eq!(placed, expected, "{of}: {remedy:#?}");
    }
}

#[test]
fn what_is_broken_in_one_way_has_a_remedy_that_is_as_small() {
    (0..200).for_each(|seed| check(seed, 1));
}

#[test]
fn what_undoes_a_break_is_proposed_also_if_something_else_is_smaller() {
    for (how, text) in [
        (Break::Skew, "instead of 1 over kubernetes.io/hostname"),
        (Break::Full, "evict default/filler-node-"),
        (Break::Profile, "use the profile default-scheduler"),
    ] {
        let mut n_asked = 0;
        for seed in 2000..2040 {
            let rng = &mut Pcg64::seed_from_u64(seed);
            let mut world = cluster(rng);
            if world.placed(None).is_none() {
                continue;
            }
            break_it(&mut world, how, rng);
            let remedies = world.ask(&[]).remedies;
            let shown: Vec<&String> = remedies.iter().map(|one| &one.text).collect();
            let is_known = shown.iter().any(|shown| shown.contains(text));
            assert!(is_known, "seed {seed}, {how:?}: {shown:#?}");
            n_asked += 1;
        }
        assert!(20 < n_asked, "most clusters have a node for the pod");
    }
}

#[test]
fn what_is_broken_in_two_ways_has_a_remedy_that_is_as_small() {
    (1000..1200).for_each(|seed| check(seed, 2));
}
