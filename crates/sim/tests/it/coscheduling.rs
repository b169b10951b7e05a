//! Gangs by a label: Coscheduling in whole simulations, in virtual time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use expect_test::{Expect, expect};
use plimsoll_api::wire::Object;
use plimsoll_api::{KindRef, Kinds, Pod, PodKey};
use plimsoll_engine::{
    Detail, Effect, Engine, Event, Gates, Observation, Options, Outcome, Scheduler, Write,
};
use plimsoll_framework::{FeatureGates, Release, Time};
use plimsoll_plugins::coscheduling::{CoschedulingGroup, LABEL};
use plimsoll_sim::{
    Extent, Happening, InitialCluster, RequestFaults, SimulatedCluster, Simulation,
};
use serde_json::{Value, json};

use crate::profiles::{configured, configured_with};

/// More decisions than any of these simulations needs.
const MANY: usize = 5000;

/// The default profile with Coscheduling at all its points, with these args.
fn configuration(args: &str) -> String {
    format!(
        "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{{name: Coscheduling}}]
    queueSort:
      enabled: [{{name: Coscheduling}}]
      disabled: [{{name: '*'}}]
  pluginConfig:
  - name: Coscheduling
    args: {args}
"
    )
}

fn node(name: &str, cpu: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "100"}},
    })
}

fn group(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec,
    })
}

/// A pod that needs a whole CPU.
fn pod(name: &str, group: &str) -> Value {
    let labels = if group.is_empty() { json!({}) } else { json!({LABEL: group}) };
    let containers = json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "uid": name, "labels": labels}, "spec": {"containers": containers},
    })
}

fn cluster(objects: &[Value]) -> InitialCluster {
    let kinds = Kinds::built_in().with(KindRef::of::<CoschedulingGroup>());
    let mut cluster = InitialCluster::default();
    for object in objects {
        match kinds.object(object).expect("it is right") {
            Object::Pod(pod) => cluster.pods.push(*pod),
            Object::Node(node) => cluster.nodes.push(*node),
            Object::Other(object) => cluster.objects.push(object),
            Object::Unknown { kind, .. } => panic!("{kind} is not known"),
        }
    }
    cluster
}

fn pod_of(manifest: &Value) -> Box<Pod> {
    match plimsoll_api::wire::object(manifest).expect("it is right") {
        Object::Pod(pod) => pod,
        other => panic!("{other:?}"),
    }
}

fn simulation(args: &str, engine: Engine, objects: &[Value]) -> Simulation {
    let options = Options {
        engine,
        audit_every: u32::from(engine == Engine::Fast),
        detail: Detail::Outcome,
        ..Options::default()
    };
    let profiles = configured(&configuration(args), Release::NEWEST);
    let scheduler = Scheduler::new(profiles, options, 0).expect("the profiles make a scheduler");
    let world = SimulatedCluster::new(plimsoll_sim::Lifecycle::default(), RequestFaults::default());
    Simulation::audited(world, scheduler, cluster(objects), Extent::Placements)
}

/// What was decided and bound, line by line with the time in seconds.
fn run_to_end(simulation: &mut Simulation) -> Vec<String> {
    let (mut lines, mut n) = (Vec::new(), 0);
    while let Some(decisions) = simulation.advance() {
        let now = seconds(simulation.now());
        for decision in decisions {
            n += 1;
            let pod = &decision.pod.name;
            lines.push(match decision.outcome {
                Outcome::Scheduled { .. } => format!("{now} {pod} has a node"),
                Outcome::Unschedulable { message, .. } => format!("{now} {pod}: {message}"),
                Outcome::Error { message } => format!("{now} {pod} errs: {message}"),
            });
        }
        assert!(n < MANY, "the simulation does not end");
        lines.extend(bound(simulation));
    }
    lines.extend(bound(simulation));
    let violations: Vec<String> = simulation.violations().iter().map(ToString::to_string).collect();
    assert_eq!(violations, [""; 0]);
    let audit = simulation.decisions_audit();
    assert!(audit.differences.is_empty(), "{:?}", audit.differences);
    lines
}

/// The bindings that were written since the last call.
fn bound(simulation: &mut Simulation) -> Vec<String> {
    let written = simulation.take_written();
    let bound = written.iter().filter(|(_, effect)| matches!(effect.write, Write::Bind(_)));
    let line = |(at, effect): &(Time, Effect)| {
        format!("{} {} is bound", seconds(*at), effect.pod.key.name)
    };
    bound.map(line).collect()
}

fn seconds(time: Time) -> i64 {
    time.millis() / 1000
}

/// How many pods of each group are on nodes.
fn n_bound(simulation: &Simulation) -> BTreeMap<String, usize> {
    let mut bound = BTreeMap::new();
    for pod in simulation.world().pods().filter(|pod| pod.node_name.is_some()) {
        let group = pod.labels.get(LABEL).map_or("", |group| group.as_str());
        *bound.entry(group.to_owned()).or_default() += 1;
    }
    bound
}

/// Runs a cluster with both engines, which must decide alike, and compares the first lines.
#[track_caller]
fn check(args: &str, objects: &[Value], n_lines: usize, expected: &Expect) -> Simulation {
    let mut fast = simulation(args, Engine::Fast, objects);
    let lines = run_to_end(&mut fast);
    let slow = run_to_end(&mut simulation(args, Engine::Reference, objects));
    assert_eq!(lines, slow, "both engines decide alike");
    let mut out = String::new();
    for line in lines.iter().take(n_lines) {
        writeln!(out, "{line}").expect("a string can be written");
    }
    expected.assert_eq(&out);
    fast
}

#[test]
fn a_gang_that_fits_is_bound_when_its_last_pod_has_a_node() {
    let objects = [
        node("n", 3),
        group("train", &json!({"minMember": 3})),
        pod("a", "train"),
        pod("b", "train"),
        pod("c", "train"),
    ];
    check(
        "{}",
        &objects,
        20,
        &expect![[r#"
        0 a has a node
        0 b has a node
        0 c has a node
        0 c is bound
        0 a is bound
        0 b is bound
    "#]],
    );
}

#[test]
fn a_gang_that_does_not_fit_is_not_bound_in_part_and_the_simulation_ends() {
    let objects = [
        node("n", 2),
        group("train", &json!({"minMember": 3})),
        pod("a", "train"),
        pod("b", "train"),
        pod("c", "train"),
    ];
    let simulation = check(
        "{}",
        &objects,
        8,
        &expect![[r#"
        0 a has a node
        0 b has a node
        0 c: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod., PodGroup default/train gets rejected due to Pod c is unschedulable even after PostFilter
        0 a: 0/1 nodes are available: 1 optimistic rejection in PostFilter.
        0 b: 0/1 nodes are available: 1 optimistic rejection in PostFilter.
        0 c has a node
        0 a has a node
        0 b: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod., PodGroup default/train gets rejected due to Pod b is unschedulable even after PostFilter
    "#]],
    );
    assert_eq!(n_bound(&simulation), BTreeMap::new());
    assert!(simulation.scheduler().waiting_pods().is_empty(), "nobody keeps a node");
}

#[test]
fn two_gangs_of_which_each_could_hold_half_the_nodes_do_not_block_each_other() {
    let mut objects = vec![node("n", 4)];
    for gang in ["left", "right"] {
        objects.push(group(gang, &json!({"minMember": 3})));
    }
    // They are tried in turn: the groups are equally old, so the names of the pods decide.
    for number in 0..3 {
        objects.push(pod(&format!("p{number}-left"), "left"));
        objects.push(pod(&format!("p{number}-right"), "right"));
    }
    // The first pod without a node gives its gang up, and the other one gets what it held.
    let simulation = check(
        "{}",
        &objects,
        12,
        &expect![[r#"
            0 p0-left has a node
            0 p0-right has a node
            0 p1-left has a node
            0 p1-right has a node
            0 p2-left: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod., PodGroup default/left gets rejected due to Pod p2-left is unschedulable even after PostFilter
            0 p0-left: 0/1 nodes are available: 1 optimistic rejection in PostFilter.
            0 p1-left: 0/1 nodes are available: 1 optimistic rejection in PostFilter.
            0 p2-right has a node
            0 p2-right is bound
            0 p0-right is bound
            0 p1-right is bound
            0 p0-left has a node
        "#]],
    );
    assert_eq!(n_bound(&simulation).into_values().collect::<Vec<_>>(), [3]);

    // Without this rule both hold two nodes until the time of the first is over.
    let args = "{podGroupRejectPercentage: 100, permitWaitingTimeSeconds: 30}";
    let simulation = check(
        args,
        &objects,
        16,
        &expect![[r#"
            0 p0-left has a node
            0 p0-right has a node
            0 p1-left has a node
            0 p1-right has a node
            0 p2-left: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
            0 p2-right: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
            30 p0-left: 0/1 nodes are available: 1 rejected due to timeout after waiting 30s at plugin Coscheduling.
            30 p0-right: 0/1 nodes are available: 1 rejected due to timeout after waiting 30s at plugin Coscheduling.
            30 p1-left: 0/1 nodes are available: 1 rejected due to timeout after waiting 30s at plugin Coscheduling.
            30 p1-right: 0/1 nodes are available: 1 rejected due to timeout after waiting 30s at plugin Coscheduling.
            30 p2-left has a node
            30 p0-left has a node
            30 p1-left has a node
            30 p1-left is bound
            30 p2-left is bound
            30 p0-left is bound
        "#]],
    );
    assert_eq!(n_bound(&simulation).into_values().collect::<Vec<_>>(), [3]);
}

#[test]
fn a_pod_that_takes_the_place_of_a_dead_one_is_bound_at_once() {
    let objects = [
        node("n", 2),
        group("train", &json!({"minMember": 2})),
        pod("a", "train"),
        pod("b", "train"),
    ];
    let mut simulation = simulation("{}", Engine::Fast, &objects);
    run_to_end(&mut simulation);
    assert_eq!(n_bound(&simulation)["train"], 2);
    let now = simulation.now();
    let dead = Happening::IsDeleted(PodKey::new("default", "b"), Duration::ZERO);
    simulation.world_mut().plan(now + Duration::from_secs(10), dead);
    let again = Happening::Arrives(pod_of(&pod("b2", "train")));
    simulation.world_mut().plan(now + Duration::from_secs(20), again);
    let lines = run_to_end(&mut simulation);
    assert_eq!(lines, ["20 b2 has a node", "20 b2 is bound"]);
}

#[test]
fn a_waiting_pod_that_is_deleted_takes_the_others_with_it() {
    let objects = [
        node("n", 3),
        group("train", &json!({"minMember": 3})),
        pod("a", "train"),
        pod("b", "train"),
        pod("c", "train"),
    ];
    let mut simulation = simulation("{podGroupRejectPercentage: 100}", Engine::Fast, &objects);
    // Another pod takes a third of the node, so that two of the gang wait there.
    let mut alone = *pod_of(&pod("alone", ""));
    alone.node_name = Some("n".into());
    simulation.happens(Event::pod(alone));
    let now = simulation.now();
    let dead = Happening::IsDeleted(PodKey::new("default", "a"), Duration::ZERO);
    simulation.world_mut().plan(now + Duration::from_secs(10), dead);
    let lines = run_to_end(&mut simulation);
    let of_b: Vec<&String> = lines.iter().filter(|line| line.contains(" b")).collect();
    assert!(of_b[1].contains("10 b: ") && of_b[1].contains("rejection in Unreserve"), "{lines:#?}");
    assert_eq!(n_bound(&simulation), BTreeMap::from([(String::new(), 1)]));
}

#[test]
fn time_at_permit_runs_out_for_an_incomplete_gang() {
    let spec = json!({"minMember": 2, "scheduleTimeoutSeconds": 15});
    let objects = [node("n", 1), group("train", &spec), pod("a", "train"), pod("b", "train")];
    let args = "{podGroupRejectPercentage: 50}";
    let simulation = check(
        args,
        &objects,
        4,
        &expect![[r#"
        0 a has a node
        0 b: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
        15 a: 0/1 nodes are available: 1 rejected due to timeout after waiting 15s at plugin Coscheduling.
        15 b has a node
    "#]],
    );
    assert_eq!(n_bound(&simulation), BTreeMap::new());
}

#[test]
fn room_that_comes_later_lets_a_gang_in_that_the_simulation_had_given_up() {
    let objects = [
        node("n", 2),
        group("train", &json!({"minMember": 3})),
        pod("a", "train"),
        pod("b", "train"),
        pod("c", "train"),
    ];
    let mut simulation = simulation("{}", Engine::Fast, &objects);
    run_to_end(&mut simulation);
    assert_eq!(n_bound(&simulation), BTreeMap::new());
    let more = Observation::Is(cluster(&[node("m", 1)]).nodes.remove(0));
    simulation.happens(Event::Node(Box::new(more)));
    run_to_end(&mut simulation);
    assert_eq!(n_bound(&simulation)["train"], 3);
}

#[test]
fn a_group_that_was_rejected_waits_for_its_backoff() {
    let objects = [
        node("n", 2),
        group("train", &json!({"minMember": 3})),
        pod("a", "train"),
        pod("b", "train"),
        pod("c", "train"),
    ];
    let args = "{podGroupBackoffSeconds: 20}";
    let simulation = check(
        args,
        &objects,
        6,
        &expect![[r#"
        0 a has a node
        0 b has a node
        0 c: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod., PodGroup default/train gets rejected due to Pod c is unschedulable even after PostFilter
        0 a: 0/1 nodes are available: 1 optimistic rejection in PostFilter.
        0 b: 0/1 nodes are available: 1 optimistic rejection in PostFilter.
        0 c: 0/1 nodes are available: podGroup default/train failed recently. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling., PodGroup default/train gets rejected due to Pod c is unschedulable even after PostFilter
    "#]],
    );
    assert_eq!(n_bound(&simulation), BTreeMap::new());
}

/// How many of two pods that belong to a gang of two in the API, and by their label to one of three, are bound.
fn n_bound_of_both(in_api: bool) -> usize {
    let gates = ["GenericWorkload", "GangScheduling"].into_iter();
    let gates =
        gates.fold(FeatureGates::of(Release::V1_36), |gates, name| gates.with(name, in_api));
    let profiles = configured_with(&configuration("{}"), &gates);
    let release = Release::V1_36;
    let options = Options { release, gates: Gates::of(&gates), ..Options::default() };
    let scheduler = Scheduler::new(profiles, options, 0).expect("the profiles make a scheduler");
    let of_api = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "train"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    });
    let member = |name: &str| {
        let mut pod = pod(name, "train");
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
        pod
    };
    let by_label = group("train", &json!({"minMember": 3}));
    let objects = [node("n", 4), of_api, by_label, member("a"), member("b")];
    let mut simulation = Simulation::new(scheduler, cluster(&objects));
    while simulation.advance().is_some() {}
    simulation.world().pods().filter(|pod| pod.node_name.is_some()).count()
}

#[test]
fn a_pod_of_both_kinds_of_groups_belongs_to_that_of_the_api_while_groups_are_on() {
    assert_eq!(n_bound_of_both(true), 2, "two are enough for the group of the API");
    assert_eq!(n_bound_of_both(false), 0, "the label wants three");
}

#[test]
fn groups_are_watched_only_if_a_profile_has_the_plugin() {
    let kinds = |profiles| {
        let scheduler = Scheduler::new(profiles, Options::default(), 0).expect("it is right");
        scheduler.kinds()
    };
    let group = KindRef::of::<CoschedulingGroup>();
    let with = configured(&configuration("{}"), Release::NEWEST);
    assert!(kinds(with).contains(&group));
    assert!(!kinds(crate::profiles::default_profiles()).contains(&group));
}
