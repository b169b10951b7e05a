//! The law of reservations: a gang behind a stream of small pods gets its turn within a bound, and without a reservation it
//! does not.

use std::time::Duration;

use plimsoll_api::wire::{self, Object};
use plimsoll_api::{Pod, PodKey};
use plimsoll_engine::{Event, Options, QueuePlace, Reservations, Scheduler};
use plimsoll_framework::{Release, Time};
use plimsoll_sim::{
    Happening, InitialCluster, Lifecycle, RequestFaults, SimulatedCluster, Simulation,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use crate::groups::{RULES, scheduler_with};

const SEEDS: u64 = 10;
/// How long a pod runs.
const RUN: Duration = Duration::from_secs(30);
const RULE: Reservations =
    Reservations { after: Duration::from_mins(1), at_most: Duration::from_mins(2) };
/// The longest backoff.
const BACKOFF: Duration = Duration::from_secs(10);
/// When the gang comes: the cluster is full then.
const COMES: Duration = Duration::from_mins(1);
/// When the last small pod comes.
const ENDS: Duration = Duration::from_mins(5);

fn pod(name: &str, group: Option<&str>, cpu: u32, priority: i32) -> Pod {
    let containers = json!([{"name": "c", "resources": {"requests": {"cpu": cpu.to_string()}}}]);
    let mut spec = json!({"containers": containers, "priority": priority});
    if let Some(group) = group {
        spec["schedulingGroup"] = json!({"podGroupName": group});
    }
    let metadata = json!({"name": name, "namespace": "default", "uid": name});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    match wire::object(&pod).expect("it is right") {
        Object::Pod(pod) => *pod,
        other => panic!("{other:?} is no pod"),
    }
}

/// Full nodes, to which small pods come faster than others end, and after a while a gang that needs half of the nodes as a
/// whole.
struct Stream {
    simulation: Simulation,
    n_members: usize,
}

impl Stream {
    fn new(release: Release, seed: u64, options: impl Fn(Options) -> Options) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let (n_nodes, cpu) = (rng.random_range(2..6_usize), rng.random_range(2..5_u32));
        let n_members = n_nodes.div_ceil(2);
        let mut cluster = InitialCluster::default();
        let mut add = |object: Value| match wire::object(&object).expect("it is right") {
            Object::Node(node) => cluster.nodes.push(*node),
            Object::Other(object) => cluster.objects.push(object),
            other => panic!("{other:?} is not in the cluster"),
        };
        for number in 0..n_nodes {
            let allocatable = json!({"cpu": cpu.to_string(), "memory": "64Gi", "pods": "20"});
            add(json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")},
                "status": {"allocatable": allocatable},
            }));
        }
        add(json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": "gang", "namespace": "default", "uid": "gang"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": n_members}}},
        }));
        let lifecycle = Lifecycle { completion_after: Some(RUN), ..Lifecycle::default() };
        let mut world = SimulatedCluster::new(lifecycle, RequestFaults::default());
        for number in 0..n_members {
            let member = pod(&format!("gang-{number}"), Some("gang"), cpu, 0);
            world.plan(Time::ZERO + COMES, Happening::Arrives(member.into()));
        }
        // In the time for which a pod runs, a third more come than there is room for.
        let n_slots = u32::try_from(n_nodes).expect("they are few") * cpu;
        let pause = RUN * 3 / (4 * n_slots);
        let mut at = Duration::ZERO;
        for number in 0.. {
            if ENDS < at {
                break;
            }
            let small = pod(&format!("small-{number}"), None, 1, 0);
            world.plan(Time::ZERO + at, Happening::Arrives(small.into()));
            at += pause.mul_f64(rng.random_range(0.5..1.5));
        }
        let scheduler: Scheduler = scheduler_with(release, options);
        Stream { simulation: Simulation::within(world, scheduler, cluster), n_members }
    }

    /// When all members have a node; `None` if they do not get any while the stream lasts.
    fn gang_is_placed(&mut self) -> Option<Time> {
        let until = Time::ZERO + ENDS;
        loop {
            let names = 0..self.n_members;
            let n_placed = names
                .filter(|number| {
                    let key = PodKey::new("default", format!("gang-{number}"));
                    let pod = self.simulation.world().pod(&key);
                    pod.is_some_and(|pod| pod.node_name.is_some())
                })
                .count();
            if n_placed == self.n_members {
                return Some(self.simulation.now());
            }
            self.simulation.advance_until(Some(until))?;
        }
    }
}

#[test]
fn a_gang_behind_a_stream_of_small_pods_gets_its_turn_within_a_bound() {
    for (release, seed) in RULES.into_iter().flat_map(|one| (0..SEEDS).map(move |n| (one, n))) {
        let none = Stream::new(release, seed, |options| options).gang_is_placed();
        assert_eq!(none, None, "{release}, seed {seed}: nothing is reserved, and it would starve");
        let with = |options| Options { reservations: Some(RULE), ..options };
        let mut stream = Stream::new(release, seed, with);
        let placed = stream.gang_is_placed();
        // It waits for the time of the rule, is tried again after a backoff, and waits for the pods that run by then, and
        // for another backoff.
        let bound = Time::ZERO + COMES + RULE.after + BACKOFF + RUN + BACKOFF;
        assert!(placed.is_some_and(|at| at <= bound), "{release}, seed {seed}: {placed:?}");
        // The small ones go on.
        let before = n_small_placed(&stream.simulation);
        while stream.simulation.advance_until(Some(Time::ZERO + ENDS)).is_some() {}
        assert!(before < n_small_placed(&stream.simulation), "{release}, seed {seed}");
        let series = |name: &str| {
            let metrics = stream.simulation.scheduler().metrics();
            let family = metrics.into_iter().find(|family| family.descriptor.name == name);
            format!("{:?}", family.expect("it is there").series)
        };
        let ended = series("plimsoll_podgroup_reservations_total");
        assert!(ended.contains(r#"["scheduled"], value: Number(1)"#), "{ended}");
        assert!(series("plimsoll_podgroup_reservation_pods").contains("Number(0)"));
    }
}

/// A node that has no room for a gang, but would have without a pod on it that never ends.
fn full() -> InitialCluster {
    let objects = [
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
            "status": {"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "9"}}}),
        json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": "gang", "namespace": "default", "uid": "gang"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}),
    ];
    let mut cluster = InitialCluster::default();
    for object in &objects {
        match wire::object(object).expect("it is right") {
            Object::Node(node) => cluster.nodes.push(*node),
            Object::Other(object) => cluster.objects.push(object),
            other => panic!("{other:?} is not in the cluster"),
        }
    }
    let running = Pod { node_name: Some("a".into()), ..pod("running", None, 1, 0) };
    cluster.pods.push(running);
    cluster.pods.extend((0..2).map(|n| pod(&format!("gang-{n}"), Some("gang"), 2, 0)));
    cluster
}

#[test]
fn a_question_about_a_group_does_not_end_its_reservation() {
    for release in RULES {
        let rule = Reservations { after: Duration::ZERO, at_most: Duration::from_mins(10) };
        let with = |options| Options { reservations: Some(rule), ..options };
        let mut simulation = Simulation::new(scheduler_with(release, with), full());
        while simulation.advance().is_some() {}
        let now = simulation.now();
        let another = pod("gang-2", Some("gang"), 1, 0);
        let placed = simulation.scheduler_mut().transaction(now, |all| all.place(another, "a"));
        assert_eq!(placed, Ok(()));
        let is_ended = |simulation: &Simulation| {
            let metrics = simulation.scheduler().metrics();
            let name = "plimsoll_podgroup_reservations_total";
            let family = metrics.iter().find(|family| family.descriptor.name == name);
            let series = format!("{:?}", family.expect("it is there").series);
            series.contains(r#"["gone"], value: Number(1)"#)
        };
        assert!(!is_ended(&simulation), "{release}");
        simulation.happens(Event::pod_gone(PodKey::new("default", "gang-0")));
        assert!(is_ended(&simulation), "{release}: there was one");
    }
}

/// A cluster with two gangs that wait for the same room in vain, and whose pod changes every second for half a minute. Nobody
/// would try them again for reservations to begin if nothing happened.
fn with_two_gangs(release: Release, more: Option<(u64, Pod)>) -> Simulation {
    let rule = Reservations { after: Duration::from_secs(5), at_most: Duration::from_secs(20) };
    let with = |options| Options { reservations: Some(rule), ..options };
    let mut cluster = full();
    let another = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "other", "namespace": "default", "uid": "other"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}});
    let Object::Other(another) = wire::object(&another).expect("it is right") else {
        panic!("it is a group");
    };
    cluster.objects.push(another);
    cluster.pods.extend((0..2).map(|n| pod(&format!("other-{n}"), Some("other"), 2, 0)));
    let mut world = SimulatedCluster::new(Lifecycle::default(), RequestFaults::default());
    for second in 1..30 {
        let label = [("n", second.to_string())].into_iter().collect();
        let key = PodKey::new("default", "running");
        let at = Time::ZERO + Duration::from_secs(second);
        world.plan(at, Happening::IsRelabelled(key, label));
    }
    if let Some((second, pod)) = more {
        world.plan(Time::ZERO + Duration::from_secs(second), Happening::Arrives(pod.into()));
    }
    Simulation::within(world, scheduler_with(release, with), cluster)
}

/// Room is reserved for one of them, then for the other, and neither fits.
#[test]
fn a_simulation_ends_although_two_groups_take_turns_to_wait_for_room() {
    for release in RULES {
        let mut simulation = with_two_gangs(release, None);
        let mut n_tries = 0;
        while simulation.advance().is_some() {
            n_tries += 1;
            assert!(n_tries < 200, "{release}: there is no end at {:?}", simulation.now());
        }
        assert!(simulation.scheduler().is_settled(), "{release}");
    }
}

#[test]
fn others_have_their_turn_between_the_reservations_of_two_groups() {
    for release in RULES {
        let mut simulation = with_two_gangs(release, Some((10, pod("small", None, 1, 0))));
        // Both gangs have had their reservation by then.
        let until = Time::ZERO + Duration::from_mins(2);
        while simulation.advance_until(Some(until)).is_some() {}
        let small = simulation.world().pod(&PodKey::new("default", "small"));
        assert!(small.is_some_and(|pod| pod.node_name.is_some()), "{release}");
    }
}

fn n_small_placed(simulation: &Simulation) -> u64 {
    let metrics = simulation.scheduler().metrics();
    let name = "scheduler_pod_scheduling_attempts";
    let family = metrics.into_iter().find(|family| family.descriptor.name == name);
    match &family.expect("it is there").series[0].value {
        plimsoll_engine::metrics::Value::Histogram(all) => all.count(),
        other => panic!("it is {other:?}"),
    }
}

#[test]
fn others_wait_no_longer_than_the_limit_and_those_of_a_higher_priority_not_at_all() {
    for release in RULES {
        let rule = Reservations { after: Duration::from_secs(5), at_most: Duration::from_secs(20) };
        let with = |options| Options { reservations: Some(rule), ..options };
        let cluster = full();
        let mut world = SimulatedCluster::new(Lifecycle::default(), RequestFaults::default());
        for (second, name, priority) in [(18, "urgent", 1), (18, "small", 0)] {
            let at = Time::ZERO + Duration::from_secs(second);
            world.plan(at, Happening::Arrives(pod(name, None, 1, priority).into()));
        }
        // Nobody would try the gang again for the reservation to begin unless something happens.
        for second in 1..60 {
            let label = [("n", second.to_string())].into_iter().collect();
            let key = PodKey::new("default", "running");
            let at = Time::ZERO + Duration::from_secs(second);
            world.plan(at, Happening::IsRelabelled(key, label));
        }
        let scheduler = scheduler_with(release, with);
        let mut simulation = Simulation::within(world, scheduler, cluster);
        let mut placed = Vec::new();
        let until = Time::ZERO + Duration::from_mins(1);
        while simulation.advance_until(Some(until)).is_some() {
            for name in ["urgent", "small"] {
                let pod = simulation.world().pod(&PodKey::new("default", name));
                let is_placed = pod.is_some_and(|pod| pod.node_name.is_some());
                if is_placed && placed.iter().all(|(other, _)| *other != name) {
                    placed.push((name, simulation.now()));
                }
                let behind = simulation.scheduler().pending().find(|info| {
                    info.pod.key.name.as_str() == "small" && info.place == QueuePlace::Active
                });
                assert!(behind.is_none_or(|info| info.attempts == 0), "{release}: it is not tried");
            }
        }
        let [("urgent", urgent), ("small", small)] = placed[..] else { panic!("{placed:?}") };
        let second = |seconds| Time::ZERO + Duration::from_secs(seconds);
        assert_eq!(urgent, second(18), "{release}");
        assert!(second(18) < small && small <= second(15 + 20), "{release}: {small:?}");
    }
}
