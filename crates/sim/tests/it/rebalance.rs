//! Laws of plans to move pods, over random clusters.

use std::collections::BTreeMap;

use plimsoll_api::wire::{self, Object};
use plimsoll_api::{Node, Pod, PodDisruptionBudget, Str};
use plimsoll_engine::{Options, Scheduler};
use plimsoll_sim::{
    Fate, InitialCluster, Objective, RebalanceOptions, RebalancePlan, RebalanceStep, Simulation,
    rebalance,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use crate::profiles::default_profiles;

const SEEDS: u64 = 300;

fn read(objects: &[Value]) -> InitialCluster {
    let mut cluster = InitialCluster::default();
    for object in objects {
        match wire::object(object).expect("it is right") {
            Object::Pod(pod) => cluster.pods.push(*pod),
            Object::Node(node) => cluster.nodes.push(*node),
            Object::Other(object) => cluster.objects.push(object),
            Object::Unknown { kind, .. } => panic!("{kind} is not known"),
        }
    }
    cluster
}

fn node(name: &str, zone: usize, cpu: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "topology.kubernetes.io/zone": format!("z{zone}"), "kubernetes.io/hostname": name,
        }},
        "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "20"}},
    })
}

fn pod(name: &str, on: &str, owner: Option<(&str, &str)>, milli_cpu: u32) -> Value {
    let owners = owner.map(|(kind, name)| {
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}])
    });
    let app = owner.map_or("none", |(_, name)| name);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "labels": {"app": app},
            "ownerReferences": owners.unwrap_or_else(|| json!([])),
        },
        "spec": {"nodeName": on, "containers": [{
            "name": "c", "resources": {"requests": {"cpu": format!("{milli_cpu}m")}},
        }]},
        "status": {"phase": "Running"},
    })
}

/// A random cluster: controllers with and without spread constraints and budgets, single pods, and agents.
fn cluster(rng: &mut impl Rng) -> InitialCluster {
    let n_nodes = rng.random_range(3..9_usize);
    let mut objects: Vec<Value> =
        (0..n_nodes).map(|at| node(&format!("n{at}"), at % 3, rng.random_range(4..9))).collect();
    for at in 0..n_nodes {
        let name = format!("n{at}");
        objects.push(pod(&format!("agent-{at}"), &name, Some(("DaemonSet", "agent")), 100));
        for number in 0..rng.random_range(0..4) {
            let owner = ["web", "db", "cache"][rng.random_range(0..3)];
            let owner = rng.random_bool(0.9).then_some(("ReplicaSet", owner));
            let milli = 100 * rng.random_range(1..9);
            let mut pod = pod(&format!("p{at}-{number}"), &name, owner, milli);
            if owner == Some(("ReplicaSet", "db")) {
                pod["spec"]["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"app": "db"}},
                }]);
            }
            objects.push(pod);
        }
    }
    for app in ["web", "cache"] {
        if rng.random_bool(0.5) {
            objects.push(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": app, "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": {"disruptionsAllowed": rng.random_range(0..3)},
            }));
        }
    }
    read(&objects)
}

fn scheduler() -> Scheduler {
    Scheduler::new(default_profiles(), Options::default(), 0).expect("there is one")
}

fn plan(cluster: &InitialCluster, options: &RebalanceOptions) -> RebalancePlan {
    let mut simulation = Simulation::new(scheduler(), cluster.clone());
    let now = simulation.now();
    let plan = rebalance(simulation.scheduler_mut(), now, options);
    assert_eq!(rebalance(simulation.scheduler_mut(), now, options), plan, "it changes nothing");
    plan
}

/// Carries out one step in a cluster of files, with a scheduler that knows nothing else.
fn carry_out(cluster: &mut InitialCluster, step: &RebalanceStep) {
    match step {
        RebalanceStep::Cordon { cordon } => {
            let is_meant = |node: &&mut Node| node.name == *cordon;
            cluster.nodes.iter_mut().find(is_meant).expect("it is there").unschedulable = true;
        }
        RebalanceStep::Move(one) => {
            let is_meant = |pod: &&mut Pod| pod.key == one.pod;
            let pod = cluster.pods.iter_mut().find(is_meant).expect("it is there");
            assert_eq!(pod.node_name, Some(one.from.clone()), "{one:?}");
            (pod.node_name, pod.phase) = (None, <_>::default());
            let mut simulation = Simulation::new(scheduler(), cluster.clone());
            while simulation.advance().is_some() {}
            let placed: BTreeMap<_, Option<Str>> = simulation
                .scheduler()
                .pods()
                .map(|pod| (pod.key.clone(), pod.node().cloned()))
                .collect();
            assert_eq!(placed[&one.pod], Some(one.to.clone()), "{one:?}");
            let pending = simulation.scheduler().pending().count();
            assert_eq!(pending, 0, "nothing becomes pending: {one:?}");
            let pod = cluster.pods.iter_mut().find(|pod| pod.key == one.pod).expect("it is there");
            pod.node_name = Some(one.to.clone());
        }
    }
}

fn check(seed: u64, options: &RebalanceOptions) -> usize {
    let rng = &mut Pcg64::seed_from_u64(seed);
    let cluster = cluster(rng);
    let plan = plan(&cluster, options);
    assert!(plan.moves().count() <= options.max_moves, "seed {seed}: {plan:#?}");
    let controlled = |one: &plimsoll_sim::PodMove| {
        let pod = cluster.pods.iter().find(|pod| pod.key == one.pod).expect("it is there");
        Fate::of(pod) == Fate::Recreated
    };
    assert!(plan.moves().all(controlled), "seed {seed}: {plan:#?}");
    for object in &cluster.objects {
        let Some(budget) = object.get::<PodDisruptionBudget>() else { continue };
        let is_protected = |one: &&plimsoll_sim::PodMove| {
            let pod = cluster.pods.iter().find(|pod| pod.key == one.pod).expect("it is there");
            budget.selector.matches(&pod.labels)
        };
        let used = plan.moves().filter(is_protected).count();
        let allowed = usize::try_from(budget.disruptions_allowed).unwrap_or(0);
        assert!(used <= allowed, "seed {seed}: {} allows {allowed}: {plan:#?}", budget.key);
    }
    let mut after = cluster.clone();
    for step in &plan.steps {
        carry_out(&mut after, step);
    }
    for freed in &plan.freed {
        let is_left = |pod: &&Pod| {
            pod.node_name.as_ref() == Some(freed) && Fate::of(pod) != Fate::GoesWithItsNode
        };
        assert_eq!(after.pods.iter().find(is_left), None, "seed {seed}: {plan:#?}");
    }
    for one in &plan.spread {
        assert!(one.after <= one.before, "seed {seed}: {plan:#?}");
    }
    // Nodes that were freed stay so, and no other one was emptied or filled for them.
    let free = |cluster: &InitialCluster| {
        let has_guests = |node: &Node| {
            cluster.pods.iter().any(|pod| {
                pod.node_name.as_ref() == Some(&node.name) && Fate::of(pod) != Fate::GoesWithItsNode
            })
        };
        cluster.nodes.iter().filter(|node| !has_guests(node)).count()
    };
    if options.objectives == [Objective::FreeNodes] {
        assert_eq!(free(&after), free(&cluster) + plan.freed.len(), "seed {seed}: {plan:#?}");
    }
    plan.moves().count()
}

fn options(objectives: &[Objective], max_moves: usize) -> RebalanceOptions {
    RebalanceOptions { objectives: objectives.to_vec(), max_moves }
}

#[test]
fn plans_that_free_nodes_do_what_they_say() {
    let all = options(&[Objective::FreeNodes], 10);
    let moves: usize = (0..SEEDS).map(|seed| check(seed, &all)).sum();
    assert!(100 < moves, "many nodes can be freed: {moves} moves");
}

#[test]
fn plans_that_spread_pods_do_what_they_say() {
    let all = options(&[Objective::Spread], 10);
    let moves: usize = (0..SEEDS).map(|seed| check(seed, &all)).sum();
    assert!(100 < moves, "many pods can be spread: {moves} moves");
}

#[test]
fn plans_for_both_do_what_they_say() {
    let both = options(&[Objective::FreeNodes, Objective::Spread], 4);
    (0..SEEDS).for_each(|seed| _ = check(seed, &both));
}

#[test]
fn without_moves_nothing_is_proposed() {
    let none = options(&[Objective::FreeNodes, Objective::Spread], 0);
    (0..20).for_each(|seed| assert_eq!(check(seed, &none), 0));
}

#[test]
fn a_node_is_freed_with_the_fewest_moves_and_single_pods_stay() {
    let mut objects: Vec<Value> = (0..3).map(|at| node(&format!("n{at}"), at, 4)).collect();
    objects.push(pod("web-1", "n0", Some(("ReplicaSet", "web")), 500));
    objects.push(pod("web-2", "n1", Some(("ReplicaSet", "web")), 500));
    objects.push(pod("web-3", "n1", Some(("ReplicaSet", "web")), 500));
    objects.push(pod("single", "n2", None, 500));
    let plan = plan(&read(&objects), &options(&[Objective::FreeNodes], 20));
    let freed: Vec<&str> = plan.freed.iter().map(Str::as_str).collect();
    assert_eq!(freed, ["n0", "n1"], "{plan:#?}");
    assert_eq!(plan.moves().count(), 3, "{plan:#?}");
}

#[test]
fn a_controller_whose_pods_are_in_one_zone_is_spread() {
    let mut objects: Vec<Value> = (0..3).map(|at| node(&format!("n{at}"), at, 8)).collect();
    for number in 0..4 {
        let name = format!("web-{number}");
        objects.push(pod(&name, "n0", Some(("ReplicaSet", "web")), 500));
    }
    let plan = plan(&read(&objects), &options(&[Objective::Spread], 20));
    let zone = plan.spread.iter().find(|one| one.key == "topology.kubernetes.io/zone");
    let zone = zone.expect("it is uneven");
    assert_eq!((zone.before, zone.after), (4, 1), "{plan:#?}");
    assert_eq!(plan.moves().count(), 2, "{plan:#?}");
}
