//! PreferredTopology and PodGroupFragmentation against a slow statement of what they promise.

use std::collections::BTreeMap;

use plimsoll_api::pod_group::PREFERRED_TOPOLOGY;
use plimsoll_api::{ObjectKey, wire};
use plimsoll_config::{Catalogue, Configuration, GivenGates, load};
use plimsoll_engine::{
    Detail, Engine, Event, Gates, GroupDecision, GroupResult, MemberResult, Options, Profile,
    Scheduler,
};
use plimsoll_framework::{Release, Time};
use plimsoll_plugins::{default_profile, in_tree};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use crate::groups::RULES;

const SEEDS: u64 = 100;

/// Only what a placement leaves decides among those of a level.
const CONFIGURATION: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    placementGenerate:
      enabled: [{name: PreferredTopology}]
      disabled: [{name: TopologyPlacementGenerator}]
    placementScore:
      enabled: [{name: PodGroupFragmentation}]
      disabled: [{name: '*'}]
";

/// A node: its labels, its CPUs and how many pods it takes.
#[derive(Clone, Debug)]
struct TestNode {
    name: String,
    labels: BTreeMap<&'static str, String>,
    cpu: i64,
    pods: i64,
}

/// A pod with its CPUs, and its node if it runs.
#[derive(Clone, Debug)]
struct TestPod {
    name: String,
    in_group: bool,
    cpu: i64,
    on: Option<String>,
}

/// A cluster with one group.
#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<TestNode>,
    pods: Vec<TestPod>,
    min_count: usize,
    preferred: Option<Vec<&'static str>>,
    required: Option<&'static str>,
}

fn case(rng: &mut impl Rng) -> Case {
    let mut nodes = Vec::new();
    for number in 0..rng.random_range(3..14_usize) {
        let mut labels = BTreeMap::new();
        if rng.random_bool(0.9) {
            labels.insert("zone", format!("z{}", number % 2));
        }
        if rng.random_bool(0.9) {
            // Racks of different zones may have the same name.
            labels.insert("rack", format!("r{}", rng.random_range(0..3_u32)));
        }
        let (cpu, pods) = (rng.random_range(1..9), rng.random_range(2..9));
        nodes.push(TestNode { name: format!("n{number:02}"), labels, cpu, pods });
    }
    let mut pods = Vec::new();
    for number in 0..rng.random_range(0..4_u32) {
        let on = nodes[rng.random_range(0..nodes.len())].name.clone();
        pods.push(TestPod { name: format!("old{number}"), in_group: false, cpu: 1, on: Some(on) });
    }
    let n_members = rng.random_range(1..8_usize);
    for number in 0..n_members {
        let node = &nodes[rng.random_range(0..nodes.len())];
        let on = rng.random_bool(0.05).then(|| node.name.clone());
        let cpu = rng.random_range(1..3);
        pods.push(TestPod { name: format!("train-{number}"), in_group: true, cpu, on });
    }
    let preferred =
        [vec!["rack"], vec!["rack", "zone"], vec!["zone"], vec!["rack", "none", "zone"]];
    let preferred = rng.random_bool(0.9).then(|| preferred[rng.random_range(0..4_usize)].clone());
    let required = [None, None, Some("zone"), Some("rack")][rng.random_range(0..4_usize)];
    Case { nodes, pods, min_count: rng.random_range(1..=n_members), preferred, required }
}

fn manifest(pod: &TestPod) -> Value {
    let requests = json!({"cpu": pod.cpu.to_string()});
    let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": requests}}]});
    if pod.in_group {
        spec["schedulingGroup"] = json!({"podGroupName": "train"});
    }
    if let Some(node) = &pod.on {
        spec["nodeName"] = json!(node);
    }
    let metadata = json!({"name": pod.name, "namespace": "default", "uid": pod.name});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// A scheduler that knows this case, with the plugins at test or with the default profile.
fn scheduler(case: &Case, (release, engine): (Release, Engine), at_test: bool) -> Scheduler {
    let mut gates = vec!["GenericWorkload=true".to_owned(), "GangScheduling=true".to_owned()];
    gates.push(format!("TopologyAwareWorkloadScheduling={at_test}"));
    let gates = GivenGates::parse(release, &gates, &[]).expect("they exist").plugins;
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.clone());
    let configuration = match at_test {
        true => load("test.yaml", CONFIGURATION, &catalogue).expect("it is right"),
        false => Configuration::default_for(&catalogue),
    };
    let profiles = Profile::all_of(&configuration.profile_specs(), &registry, &gates);
    let options = Options {
        release,
        engine,
        audit_every: u32::from(engine == Engine::Fast),
        gates: Gates::of(&gates),
        detail: Detail::Nodes,
        ..Options::default()
    };
    let profiles = profiles.expect("the profile is right");
    let mut scheduler = Scheduler::new(profiles, options, 0).expect("they make a scheduler");
    let mut group = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "uid": "train"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": case.min_count}}},
    });
    if let Some(keys) = &case.preferred {
        group["metadata"]["annotations"] = json!({PREFERRED_TOPOLOGY: keys.join(", ")});
    }
    if let Some(key) = case.required {
        group["spec"]["schedulingConstraints"] = json!({"topology": [{"key": key}]});
    }
    let nodes = case.nodes.iter().map(|node| {
        let allocatable =
            json!({"cpu": node.cpu.to_string(), "memory": "64Gi", "pods": node.pods.to_string()});
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node.name, "labels": node.labels},
            "status": {"allocatable": allocatable},
        })
    });
    for object in std::iter::once(group).chain(nodes).chain(case.pods.iter().map(manifest)) {
        let object = wire::object(&object).expect("it is right");
        scheduler.observe(Time::ZERO, Event::is(object).expect("its kind is read"));
    }
    scheduler
}

fn decide(scheduler: &mut Scheduler) -> Option<GroupDecision> {
    let key = ObjectKey::new("default", "train");
    scheduler.try_group_now(Time::ZERO, &key, &mut Vec::new())
}

/// Pods with their nodes, by name.
type Assigned = BTreeMap<String, String>;

/// The nodes of the members that get one.
fn nodes_of(decision: &GroupDecision) -> Assigned {
    let placed = decision.pods.iter().filter_map(|member| match &member.result {
        MemberResult::Scheduled { node, .. } => {
            Some((member.pod.name.to_string(), node.to_string()))
        }
        _ => None,
    });
    placed.collect()
}

/// The domains of each level, narrowest first, by name with their nodes. `None` if the pods that run are in no domain that is
/// required.
fn levels(case: &Case) -> Option<Vec<BTreeMap<String, Vec<TestNode>>>> {
    let mut keys = case.preferred.clone().unwrap_or_default();
    if let Some(required) = case.required {
        keys = keys.into_iter().take_while(|key| *key != required).collect();
        keys.push(required);
    }
    let runs = |node: &TestNode| {
        case.pods.iter().any(|pod| pod.in_group && pod.on.as_ref() == Some(&node.name))
    };
    let mut levels = Vec::new();
    for level in 0..keys.len() {
        let mut domains = BTreeMap::<String, Vec<TestNode>>::new();
        for node in &case.nodes {
            let values = keys[level..].iter().rev().map(|key| node.labels.get(key).cloned());
            if let Some(values) = values.collect::<Option<Vec<String>>>() {
                domains.entry(values.join("/")).or_default().push(node.clone());
            }
        }
        for node in case.nodes.iter().filter(|node| runs(node)) {
            domains.retain(|_, nodes| nodes.iter().any(|one| one.name == node.name));
        }
        let is_required = case.required.is_some() && level + 1 == keys.len();
        if is_required && domains.is_empty() && case.nodes.iter().any(runs) {
            return None;
        }
        levels.push(domains);
    }
    if case.required.is_none() {
        levels.push(BTreeMap::from([("*".to_owned(), case.nodes.clone())]));
    }
    Some(levels)
}

/// How many pods like this one fit, one after the other.
fn room(nodes: &[TestNode], pods: &[TestPod], asked: i64) -> usize {
    let mut room = 0;
    for node in nodes {
        let here: Vec<&TestPod> =
            pods.iter().filter(|pod| pod.on.as_ref() == Some(&node.name)).collect();
        let mut cpu = node.cpu - here.iter().map(|pod| pod.cpu).sum::<i64>();
        let mut n_pods = node.pods - i64::try_from(here.len()).expect("they are few");
        while asked <= cpu && 0 < n_pods {
            (cpu, n_pods, room) = (cpu - asked, n_pods - 1, room + 1);
        }
    }
    room
}

/// How many pods of groups of 1, 2, 4, and so on fit into a room.
fn usable(room: usize) -> usize {
    let (mut used, mut size) = (0, 1);
    while size <= room {
        let mut left = room;
        while size <= left {
            (left, used) = (left - size, used + size);
        }
        size *= 2;
    }
    used
}

/// What is promised: the placement with the nodes of the members. Each placement of each level is tried in a cluster that has
/// only its nodes.
fn promised(case: &Case, release: Release) -> Option<(String, Assigned)> {
    for level in levels(case)? {
        let mut best: Option<((usize, usize), (String, Assigned))> = None;
        for (name, nodes) in level {
            let has = |pod: &&TestPod| {
                pod.on.as_ref().is_none_or(|on| nodes.iter().any(|node| node.name == *on))
            };
            let pods: Vec<TestPod> = case.pods.iter().filter(has).cloned().collect();
            let alone = Case { nodes, pods, preferred: None, required: None, ..case.clone() };
            let decided = decide(&mut scheduler(&alone, (release, Engine::Reference), false));
            let decided = decided.expect("it has pending pods");
            if decided.result != GroupResult::Scheduled {
                continue;
            }
            let on = nodes_of(&decided);
            let mut with_group = alone.pods.clone();
            for pod in &mut with_group {
                pod.on = pod.on.take().or(on.get(&pod.name).cloned());
            }
            let members = alone.pods.iter().filter(|pod| pod.in_group && pod.on.is_none());
            let cost = members.map(|pod| {
                let before = usable(room(&alone.nodes, &alone.pods, pod.cpu));
                before.saturating_sub(usable(room(&alone.nodes, &with_group, pod.cpu)))
            });
            let rank = (case.pods.len() - on.len(), cost.sum());
            if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                best = Some((rank, (name, on)));
            }
        }
        if let Some((_, best)) = best {
            return Some(best);
        }
    }
    None
}

#[test]
fn a_group_goes_to_the_narrowest_domain_with_room_that_it_breaks_up_least() {
    let mut seen = BTreeMap::<String, usize>::new();
    for seed in 0..SEEDS {
        let case = case(&mut Pcg64::seed_from_u64(seed));
        if !case.pods.iter().any(|pod| pod.in_group && pod.on.is_none()) {
            continue;
        }
        for release in RULES {
            let promised = promised(&case, release);
            for engine in [Engine::Fast, Engine::Reference] {
                let about = format!("seed {seed}, {release}, {engine:?}: {case:?}");
                let mut scheduler = scheduler(&case, (release, engine), true);
                let decision = decide(&mut scheduler).expect("it has pending pods");
                let is_plain = case.preferred.is_none() && case.required.is_none();
                let found = (decision.result == GroupResult::Scheduled).then(|| {
                    let name = decision.placement.as_ref().map_or("*", |name| name.as_str());
                    (name.to_owned(), nodes_of(&decision))
                });
                assert_eq!(found, promised, "{about}");
                assert!(found.is_none() || decision.placements.is_empty() == is_plain, "{about}");
                let kind = found.map_or("none".to_owned(), |(name, _)| match name.as_str() {
                    "*" => "anywhere".to_owned(),
                    name => format!("{} values", name.split('/').count()),
                });
                *seen.entry(kind).or_default() += 1;
            }
        }
    }
    for kind in ["none", "anywhere", "1 values", "2 values"] {
        let n = seen.get(kind).copied().unwrap_or_default();
        assert!(10 < n, "{seen:?}");
    }
}
