//! Laws of groups of pods, over random clusters, pods and faults.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_api::pod_group::GroupPolicy;
use plimsoll_api::wire::{self, Object};
use plimsoll_api::{AnyObject, CompositePodGroup, KindRef, ObjectKey, PodGroup, PodKey};
use plimsoll_config::{Catalogue, Configuration, GivenGates};
use plimsoll_engine::metrics::Family;
use plimsoll_engine::{
    Detail, Engine, Event, Gates, GroupDecision, GroupResult, Options, Profile, QueuePlace,
    Scheduler, metrics,
};
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{GroupForest, GroupRef, PodGroupState, Release, Time};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_sim::{Extent, InitialCluster, RequestFaults, SimulatedCluster, Simulation};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

const SEEDS: u64 = 1000;
/// The releases whose rules for groups differ.
pub(crate) const RULES: [Release; 2] = [Release::V1_36, Release::V1_37];
const ZONES: usize = 3;

/// A random cluster with groups, of which some fit. In half of them priorities differ, so that groups and pods evict.
pub(crate) fn cluster(rng: &mut impl Rng) -> InitialCluster {
    let mut objects = Vec::new();
    for number in 0..rng.random_range(2..8_usize) {
        objects.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("n{number}"), "labels": {"zone": format!("z{}", number % ZONES)}},
            "status": {"allocatable": {"cpu": rng.random_range(2..9_u32).to_string(), "memory": "64Gi", "pods": "20"}},
        }));
    }
    let most = if rng.random_bool(0.5) { 1 } else { 3 };
    let mut pods = Vec::new();
    for number in 0..rng.random_range(0..4_u32) {
        let mut pod = pod(&format!("old{number}"), None, 10 * rng.random_range(0..most), rng);
        pod["spec"]["nodeName"] = json!(format!("n{}", number % 2));
        objects.push(pod);
    }
    for number in 0..rng.random_range(1..5_u32) {
        let name = format!("g{number}");
        let n_pods = rng.random_range(1..7_u32);
        let policy = match rng.random_bool(0.7) {
            true => json!({"gang": {"minCount": rng.random_range(1..=n_pods)}}),
            false => json!({"basic": {}}),
        };
        let own = 10 * rng.random_range(0..most);
        let mode = if rng.random_bool(0.5) { "Pod" } else { "PodGroup" };
        let mut spec = json!({"schedulingPolicy": policy, "priority": own, "disruptionMode": mode});
        if rng.random_bool(0.3) {
            spec["schedulingConstraints"] = json!({"topology": [{"key": "zone"}]});
        }
        objects.push(json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec,
        }));
        let alike = rng.random_bool(0.5).then(|| requests(rng));
        for member in 0..n_pods {
            let mut pod = pod(&format!("{name}-{member}"), Some(&name), own, rng);
            if let Some(requests) = &alike {
                pod["spec"]["containers"][0]["resources"]["requests"] = requests.clone();
            }
            pods.push(pod);
        }
    }
    for number in 0..rng.random_range(0..6_u32) {
        let own = 10 * rng.random_range(0..most);
        pods.push(pod(&format!("solo{number}"), None, own, rng));
    }
    let mut cluster = InitialCluster::default();
    while !pods.is_empty() {
        objects.push(pods.swap_remove(rng.random_range(0..pods.len())));
    }
    for object in &objects {
        match wire::object(object).expect("it is right") {
            Object::Pod(pod) => cluster.pods.push(*pod),
            Object::Node(node) => cluster.nodes.push(*node),
            Object::Other(object) => cluster.objects.push(object),
            Object::Unknown { kind, .. } => panic!("{kind} is not known"),
        }
    }
    cluster
}

fn pod(name: &str, group: Option<&str>, priority: i32, rng: &mut impl Rng) -> Value {
    let containers = json!([{"name": "c", "resources": {"requests": requests(rng)}}]);
    let mut spec = json!({"containers": containers, "priority": priority});
    if let Some(group) = group {
        spec["schedulingGroup"] = json!({"podGroupName": group});
    }
    let metadata = json!({"name": name, "namespace": "default", "uid": name});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

fn requests(rng: &mut impl Rng) -> Value {
    json!({"cpu": format!("{}m", 500 * rng.random_range(1..5_u32))})
}

/// A scheduler with all gates of groups.
pub(crate) fn scheduler(release: Release, engine: Engine) -> Scheduler {
    let audit_every = u32::from(engine == Engine::Fast);
    scheduler_with(release, |options| Options { engine, audit_every, ..options })
}

/// The same with these options.
pub(crate) fn scheduler_with(release: Release, with: impl Fn(Options) -> Options) -> Scheduler {
    gated_scheduler(&[], release, with)
}

/// The same with more gates.
pub(crate) fn gated_scheduler(
    more: &[&'static str],
    release: Release,
    with: impl Fn(Options) -> Options,
) -> Scheduler {
    let mut gates = vec![
        "GenericWorkload",
        "GangScheduling",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
    ];
    if release == Release::V1_37 {
        gates.push("CompositePodGroup");
    }
    gates.extend(more);
    let gates: Vec<String> = gates.iter().map(|gate| format!("{gate}=true")).collect();
    let gates = GivenGates::parse(release, &gates, &[]).expect("they exist").plugins;
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.clone());
    let specs = Configuration::default_for(&catalogue).profile_specs();
    let profiles = Profile::all_of(&specs, &registry, &gates).expect("the profile is right");
    let options = Options {
        release,
        gates: Gates::of(&gates),
        detail: Detail::Outcome,
        ..Options::default()
    };
    Scheduler::new(profiles, with(options), 0).expect("the profiles make a scheduler")
}

/// Runs a cluster to its end.
fn run(
    (release, engine): (Release, Engine),
    cluster: InitialCluster,
    faults: RequestFaults,
) -> (Simulation, Vec<GroupDecision>) {
    let world = SimulatedCluster::new(plimsoll_sim::Lifecycle::default(), faults);
    let mut simulation =
        Simulation::audited(world, scheduler(release, engine), cluster, Extent::Placements);
    let mut decided = Vec::new();
    while simulation.advance().is_some() {
        decided.extend(simulation.take_group_decisions());
    }
    (simulation, decided)
}

/// How many pods of each group are on nodes.
fn n_bound(simulation: &Simulation) -> BTreeMap<ObjectKey, u32> {
    let mut bound = BTreeMap::new();
    for pod in simulation.world().pods().filter(|pod| pod.node_name.is_some()) {
        if let Some(group) = group_of(pod) {
            *bound.entry(group).or_default() += 1;
        }
    }
    bound
}

#[test]
fn a_gang_is_bound_as_a_whole_or_not_at_all_and_none_sleeps_that_would_fit() {
    for release in RULES {
        let (mut n_scheduled, mut n_left, mut n_evicted) = (0, 0, 0);
        for seed in 0..SEEDS {
            let cluster = cluster(&mut Pcg64::seed_from_u64(seed));
            let objects = cluster.objects.iter();
            let groups: Vec<PodGroup> =
                objects.filter_map(|object| object.get::<PodGroup>()).cloned().collect();
            let n_pods = cluster.pods.len();
            let how = (release, Engine::Fast);
            let (mut simulation, _) = run(how, cluster, RequestFaults::default());
            assert_eq!(simulation.violations(), [], "{release}, seed {seed}");
            let bound = n_bound(&simulation);
            let now = simulation.now() + Duration::from_mins(1);
            for group in groups {
                let n = bound.get(&group.key).copied().unwrap_or_default();
                let least = group.min_count().unwrap_or(1);
                // A pod that evicts by itself takes members one by one.
                let are_all_there = simulation.world().pods().count() == n_pods;
                n_evicted += usize::from(!are_all_there);
                let is_whole = n == 0 || least <= n || !are_all_there;
                assert!(is_whole, "{release}, seed {seed}: {n} of {least} pods of {}", group.key);
                n_scheduled += usize::from(0 < n);
                if n == 0 {
                    let scheduler = simulation.scheduler_mut();
                    let again = scheduler.try_group_now(now, &group.key, &mut Vec::new());
                    let fits = again.is_some_and(|again| again.result == GroupResult::Scheduled);
                    assert!(!fits, "{release}, seed {seed}: {} would fit", group.key);
                    n_left += 1;
                }
            }
        }
        let counts = [n_scheduled, n_left, n_evicted];
        assert!(counts.iter().all(|n| 50 < *n), "fit, do not fit, lost pods: {counts:?}");
    }
}

#[test]
fn groups_are_decided_alike_from_memory_and_from_scratch() {
    for (release, seed) in RULES.into_iter().flat_map(|one| (0..SEEDS).map(move |n| (one, n))) {
        let run = |engine| {
            let cluster = with_trees(release, &mut Pcg64::seed_from_u64(seed));
            let (simulation, decided) = run((release, engine), cluster, RequestFaults::default());
            (decided, simulation.decisions_audit().differences.len())
        };
        let (fast, slow) = (run(Engine::Fast), run(Engine::Reference));
        assert_eq!(fast, slow, "{release}, seed {seed}");
    }
}

/// With all reasons wanted, members are taken back after their trial and placed again. Otherwise those of a group that fits stay
/// where they are.
#[test]
fn members_that_stay_on_their_nodes_are_bound_as_if_they_had_been_taken_back() {
    let mut n_written = 0;
    let ways = RULES.into_iter().flat_map(|release| [(release, false), (release, true)]);
    for ((release, faulty), seed) in ways.flat_map(|one| (0..100).map(move |n| (one, n))) {
        let written = |detail| {
            let cluster = with_trees(release, &mut Pcg64::seed_from_u64(seed));
            let faults = match faulty {
                true => {
                    let until = cluster.begins() + Duration::from_mins(1);
                    RequestFaults::by_chance(seed, 30, until)
                }
                false => RequestFaults::default(),
            };
            let scheduler = scheduler_with(release, |options| Options { detail, ..options });
            let world = SimulatedCluster::new(plimsoll_sim::Lifecycle::default(), faults);
            let mut simulation = Simulation::audited(world, scheduler, cluster, Extent::Placements);
            while simulation.advance().is_some() {}
            simulation.take_written()
        };
        let (stayed, taken_back) = (written(Detail::Choice), written(Detail::Outcome));
        n_written += stayed.len();
        assert_eq!(stayed, taken_back, "{release}, seed {seed}, with faults: {faulty}");
    }
    assert!(2_000 < n_written, "{n_written}");
}

/// Of equal members it is counted how many fit in each zone, unless all reasons are wanted: then they are placed in each.
#[test]
fn the_same_placement_is_chosen_whether_members_are_counted_or_placed_on_each() {
    let seeds = 0..SEEDS / 4;
    for (release, seed) in RULES.into_iter().flat_map(|one| seeds.clone().map(move |n| (one, n))) {
        let written = |detail, audit_every| {
            let mut cluster = with_trees(release, &mut Pcg64::seed_from_u64(seed));
            for object in &mut cluster.objects {
                if let Some(group) = object.get::<PodGroup>() {
                    let topology = Some(vec!["zone".into()]);
                    *object = PodGroup { topology, ..group.clone() }.into();
                }
            }
            let with = |options| Options { detail, audit_every, ..options };
            let scheduler = scheduler_with(release, with);
            let world =
                SimulatedCluster::new(plimsoll_sim::Lifecycle::default(), RequestFaults::default());
            let mut simulation = Simulation::audited(world, scheduler, cluster, Extent::Placements);
            while simulation.advance().is_some() {}
            assert_eq!(simulation.decisions_audit().differences, [], "{release}, seed {seed}");
            simulation.take_written()
        };
        let placed = written(Detail::Outcome, 0);
        let of = format!("{release}, seed {seed}");
        assert_eq!(written(Detail::Choice, 0), placed, "{of}");
        assert_eq!(written(Detail::Choice, 2), placed, "{of}, every second one audited");
    }
}

/// A pod whose binding fails is tried again by itself, as in kube-scheduler: others may have taken its room by then.
#[test]
fn no_rule_is_broken_by_groups_under_faults() {
    for (release, seed) in RULES.into_iter().flat_map(|one| (0..SEEDS).map(move |n| (one, n))) {
        let cluster = with_trees(release, &mut Pcg64::seed_from_u64(seed));
        let until = cluster.begins() + Duration::from_mins(1);
        let faults = RequestFaults::by_chance(seed, 30, until);
        let (simulation, _) = run((release, Engine::Fast), cluster, faults);
        assert_eq!(simulation.violations(), [], "{release}, seed {seed}");
        let audit = simulation.decisions_audit();
        assert!(audit.differences.is_empty(), "{release}, seed {seed}: {:?}", audit.differences);
    }
}

/// The same clusters, in which under the rules of 1.37 some groups are part of groups of groups, which have the same priority.
fn with_trees(release: Release, rng: &mut Pcg64) -> InitialCluster {
    let mut cluster = cluster(rng);
    if release == Release::V1_36 {
        return cluster;
    }
    let mut of_priority = BTreeMap::<i32, u32>::new();
    for object in &mut cluster.objects {
        let Some(group) = object.get::<PodGroup>() else { continue };
        if rng.random_bool(0.5) {
            *of_priority.entry(group.priority).or_default() += 1;
            let parent = Some(format!("tree{}", group.priority).into());
            *object = PodGroup { parent, ..group.clone() }.into();
        }
    }
    for (priority, n_groups) in of_priority {
        let policy = match rng.random_bool(0.5) {
            true => GroupPolicy::Gang { min_count: rng.random_range(1..=n_groups) },
            false => GroupPolicy::Basic,
        };
        let tree = CompositePodGroup {
            key: ObjectKey::new("default", format!("tree{priority}")),
            uid: format!("tree{priority}").into(),
            policy,
            priority,
            topology: rng.random_bool(0.3).then(|| vec!["zone".into()]),
            ..CompositePodGroup::default()
        };
        cluster.objects.push(tree.into());
    }
    cluster
}

/// Of a gang of groups enough have their pods, or no pod has a node.
#[test]
fn a_group_of_groups_is_bound_with_enough_of_its_groups_or_not_at_all() {
    let (mut n_scheduled, mut n_left) = (0, 0);
    for seed in 0..SEEDS {
        let cluster = with_trees(Release::V1_37, &mut Pcg64::seed_from_u64(seed));
        let n_pods = cluster.pods.len();
        let how = (Release::V1_37, Engine::Fast);
        let (mut simulation, _) = run(how, cluster, RequestFaults::default());
        assert_eq!(simulation.violations(), [], "seed {seed}");
        if simulation.world().pods().count() != n_pods {
            continue;
        }
        let now = simulation.now() + Duration::from_mins(1);
        let stores = simulation.scheduler().view().stores;
        let trees: Vec<_> = stores.of::<CompositePodGroup>().iter().cloned().collect();
        for tree in trees {
            let stores = simulation.scheduler().view().stores;
            let (groups, composites) = (stores.of::<PodGroup>(), stores.of::<CompositePodGroup>());
            let forest = GroupForest::new(groups, Some(composites));
            let root = GroupRef::Composite(tree.key.clone());
            let placed = |leaf: &ObjectKey| {
                stores.groups.get(leaf).is_some_and(|state| 0 < state.n_placed())
            };
            let is_ready = forest.is_ready(&root, &stores.groups, PodGroupState::n_placed);
            if forest.leaves(&root).iter().any(placed) {
                assert!(is_ready, "seed {seed}: {} is bound in part", tree.key);
                n_scheduled += 1;
            } else {
                let again =
                    simulation.scheduler_mut().try_group_now(now, &tree.key, &mut Vec::new());
                let fits = again.is_some_and(|again| again.result == GroupResult::Scheduled);
                assert!(!fits, "seed {seed}: {} would fit", tree.key);
                n_left += 1;
            }
        }
    }
    assert!(50 < n_scheduled && 50 < n_left, "fit, do not fit: {n_scheduled}, {n_left}");
}

fn event(object: &Value) -> Event {
    Event::is(wire::object(object).expect("it is right")).expect("it is read")
}

fn node(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "1Gi", "pods": "9"}}})
}

fn gang(name: &str, min_count: u32) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}}})
}

/// A pod that wants one processor.
fn single(name: &str, priority: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
}

/// One of the gang `g`.
fn member(name: &str) -> Value {
    let mut pod = single(name, 0);
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
    pod
}

/// The pods that are left once each of these steps is over, in which these pods come.
fn left_after(release: Release, objects: &[Value], steps: &[&[Value]]) -> Vec<String> {
    let mut simulation =
        Simulation::new(scheduler(release, Engine::Fast), InitialCluster::default());
    for object in objects {
        simulation.happens(event(object));
    }
    for pods in steps {
        for pod in *pods {
            simulation.happens(event(pod));
        }
        while simulation.advance().is_some() {}
    }
    let mut left: Vec<String> =
        simulation.world().pods().map(|pod| pod.key.name.to_string()).collect();
    left.sort_unstable();
    left
}

/// As in preemption.go, MoreImportantPod: of two equally important pods the one that was started last is evicted, whatever their
/// names.
#[test]
fn of_the_pods_that_a_simulation_has_bound_the_last_one_is_evicted() {
    let pods = ["first", "between", "after"].map(|name| [single(name, 0)]);
    let urgent = [single("urgent", 1)];
    let steps = [&pods[0][..], &pods[1][..], &pods[2][..], &urgent[..]];
    for release in RULES {
        let left = left_after(release, &[node("a", "3")], &steps);
        assert_eq!(left, ["between", "first", "urgent"], "{release}");
    }
}

/// Pods of a gang are started in the order in which they came. The one that completes the gang is bound before those that waited
/// for it.
#[test]
fn of_a_gang_that_a_simulation_has_bound_the_last_pod_is_evicted() {
    let members = ["b", "c", "a"].map(member);
    let objects = [node("n", "3"), gang("g", 3)];
    for release in RULES {
        let left = left_after(release, &objects, &[&members, &[single("urgent", 1)]]);
        assert_eq!(left, ["b", "c", "urgent"], "{release}");
    }
}

/// Nothing but a finalizer keeps such a pod, and nothing in a simulation takes that away.
#[test]
fn a_gang_whose_pods_are_being_deleted_before_they_have_a_node_waits_to_the_end() {
    let mut simulation =
        Simulation::new(scheduler(Release::V1_36, Engine::Fast), InitialCluster::default());
    simulation.happens(event(&node("a", "3")));
    simulation.happens(event(&gang("g", 3)));
    let mut going = member("going");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    simulation.happens(event(&going));
    while simulation.advance().is_some() {}
    let waiting = simulation.scheduler().waiting_groups();
    let messages: Vec<_> = waiting.iter().map(|group| group.message.as_deref()).collect();
    let message = "waiting for minCount pods from a gang to appear in scheduling queue";
    assert_eq!(messages, [Some(message)]);
}

/// A node that comes wakes the gang that it gives room.
#[test]
fn a_gang_that_did_not_fit_is_bound_once_there_is_room() {
    for release in RULES {
        becomes_bound(release);
    }
}

fn becomes_bound(release: Release) {
    let mut simulation =
        Simulation::new(scheduler(release, Engine::Fast), InitialCluster::default());
    for object in [node("a", "1"), gang("g", 2)] {
        simulation.happens(event(&object));
    }
    let mut results = Vec::new();
    let mut go_on = |simulation: &mut Simulation| {
        while simulation.advance().is_some() {
            results.extend(simulation.take_group_decisions().iter().map(|one| one.result));
        }
    };
    simulation.happens(event(&member("one")));
    go_on(&mut simulation);
    let waiting = simulation.scheduler().waiting_groups();
    let message = "waiting for minCount pods from a gang to appear in scheduling queue";
    assert_eq!(waiting[0].message.as_deref(), Some(message));
    simulation.happens(event(&member("other")));
    go_on(&mut simulation);
    simulation.happens(event(&node("b", "1")));
    go_on(&mut simulation);
    assert_eq!(results.last(), Some(&GroupResult::Scheduled), "{results:?}");
    assert_eq!(n_bound(&simulation).values().sum::<u32>(), 2);
    let metrics = simulation.scheduler().metrics();
    let name = "scheduler_podgroup_schedule_attempts_total";
    let attempts = metrics.iter().find(|family| family.descriptor.name == name);
    let attempts = &attempts.expect("groups were tried").series;
    let told: Vec<String> =
        attempts.iter().map(|one| format!("{:?} {:?}", one.labels, one.value)).collect();
    let [scheduled, unschedulable] = told.as_slice() else { panic!("{told:?}") };
    assert!(scheduled.contains("scheduled") && scheduled.ends_with("Number(1)"), "{told:?}");
    assert!(unschedulable.contains("unschedulable"), "{told:?}");
}

/// A pod with a gate holds back the whole tree of groups that it is part of.
#[test]
fn a_group_is_tried_once_the_group_that_held_it_back_has_left_its_tree() {
    let key = |name: &str| ObjectKey::new("default", name);
    let group = |name: &str| PodGroup {
        key: key(name),
        uid: name.into(),
        parent: Some("tree".into()),
        ..PodGroup::default()
    };
    let tree =
        CompositePodGroup { key: key("tree"), uid: "tree".into(), ..CompositePodGroup::default() };
    let leaves = [
        Event::gone(KindRef::of::<PodGroup>(), key("gated")),
        Event::object(PodGroup { parent: None, ..group("gated") }),
        Event::gone(KindRef::of::<CompositePodGroup>(), key("tree")),
    ];
    for (leaves, is_tried) in leaves.into_iter().zip([true, true, false]) {
        let mut simulation =
            Simulation::new(scheduler(Release::V1_37, Engine::Fast), InitialCluster::default());
        let mut rng = Pcg64::seed_from_u64(0);
        let mut gated = pod("gated-0", Some("gated"), 0, &mut rng);
        gated["spec"]["schedulingGates"] = json!([{"name": "later"}]);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
            "status": {"allocatable": {"cpu": "9", "memory": "1Gi", "pods": "9"}}});
        for object in [node, gated, pod("free-0", Some("free"), 0, &mut rng)] {
            let object = wire::object(&object).expect("it is right");
            simulation.happens(Event::is(object).expect("it is read"));
        }
        let objects: [AnyObject; 3] =
            [group("gated").into(), group("free").into(), tree.clone().into()];
        for object in objects {
            simulation.happens(Event::object(object));
        }
        while simulation.advance().is_some() {}
        assert_eq!(n_bound(&simulation), BTreeMap::new());
        simulation.happens(leaves.clone());
        while simulation.advance().is_some() {}
        let bound = n_bound(&simulation);
        assert_eq!(bound.contains_key(&key("free")), is_tried, "{leaves:?}: {bound:?}");
        assert!(!bound.contains_key(&key("gated")), "{leaves:?}: {bound:?}");
    }
}

/// The pods of a group must have the same priority.
#[test]
fn a_group_is_tried_again_once_the_pod_is_gone_for_which_it_has_failed() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
        "status": {"allocatable": {"cpu": "9", "memory": "1Gi", "pods": "9"}}});
    let group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": {"basic": {}}}});
    let mut rng = Pcg64::seed_from_u64(0);
    let (right, wrong) =
        (pod("right", Some("g"), 0, &mut rng), pod("wrong", Some("g"), 5, &mut rng));
    let mut simulation =
        Simulation::new(scheduler(Release::V1_37, Engine::Fast), InitialCluster::default());
    for object in [node, group, right, wrong] {
        let object = wire::object(&object).expect("it is right");
        simulation.happens(Event::is(object).expect("it is read"));
    }
    let mut go_on = || {
        let mut results = Vec::new();
        while simulation.advance().is_some() {
            results.extend(simulation.take_group_decisions().iter().map(|one| one.result));
            assert!(results.len() < 100, "there is no end: {results:?}");
        }
        simulation.happens(Event::pod_gone(PodKey::new("default", "wrong")));
        results
    };
    let before = go_on();
    assert!(before.iter().all(|one| *one == GroupResult::Error), "{before:?}");
    assert_eq!(go_on(), [GroupResult::Scheduled]);
}

/// A stopwatch that moves on whenever it is read, so that what happens is counted.
fn tick() -> Duration {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    Duration::from_micros(LOOKS.fetch_add(1, Ordering::Relaxed))
}

/// How many values the histograms of a metric have, of the series that have this label.
fn n_values(families: &[Family], name: &str, label: &str) -> u64 {
    let of_name = families.iter().filter(|family| family.descriptor.name == name);
    let series = of_name.flat_map(|family| &family.series);
    let series = series.filter(|series| series.labels.iter().any(|one| one == label));
    let count = |series: &plimsoll_engine::metrics::MetricSeries| match &series.value {
        metrics::Value::Histogram(all) => all.count(),
        _ => 0,
    };
    series.map(count).sum()
}

#[test]
fn each_pod_that_comes_to_a_gang_is_asked_and_not_all_that_wait_with_it() {
    const MEMBERS: u32 = 200;
    for release in RULES {
        let mut scheduler =
            scheduler_with(release, |options| Options { stopwatch: Some(tick), ..options });
        let mut tell = |manifest: Value| {
            let object = wire::object(&manifest).expect("it is right");
            scheduler.observe(Time::ZERO, Event::is(object).expect("its kind is read"));
        };
        tell(json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}},
        }));
        for number in 0..MEMBERS {
            let rng = &mut Pcg64::seed_from_u64(0);
            tell(pod(&format!("train-{number}"), Some("train"), 0, rng));
        }
        let waits = |place: &QueuePlace| matches!(place, QueuePlace::Gated { .. });
        assert!(!scheduler.pending().any(|info| waits(&info.place)), "all are there");
        let metrics = scheduler.metrics();
        let gate = "scheduler_framework_extension_point_duration_seconds";
        let hint = "scheduler_queueing_hint_execution_duration_seconds";
        // The pod itself and one for the others; and all of them when the last one comes.
        for (name, label) in [(gate, "PreEnqueue"), (hint, "GangScheduling")] {
            let n = n_values(&metrics, name, label);
            assert!((1..=4 * u64::from(MEMBERS)).contains(&n), "{release}: {n} times {label}");
        }
    }
}
