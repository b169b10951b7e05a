//! Measures one decision among 1,000 nodes with one pod each.
//!
//! Each decided pod is removed before the next one is added, so that every decision is about the same
//! cluster.

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use plimsoll_api::wire::{self, Object};
use plimsoll_api::{Pod, PodKey};
use plimsoll_config::{Catalogue, Configuration};
use plimsoll_engine::{Event, Observation, Options, Profile, Scheduler};
use plimsoll_framework::{FeatureGates, Time};
use plimsoll_plugins::{default_profile, in_tree};
use serde_json::{Value, json};

const NODES: u32 = 1_000;
const ZONES: u32 = 3;

/// The kinds of pods, with their fields in addition to requests.
fn kinds() -> [(&'static str, Value); 4] {
    let pods = json!({"matchLabels": {"app": "web"}});
    let spread = |when: &str| {
        json!({"topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": when,
            "labelSelector": pods,
        }]})
    };
    let apart = json!({"labelSelector": pods, "topologyKey": "kubernetes.io/hostname"});
    let apart = json!({"weight": 1, "podAffinityTerm": apart});
    let apart =
        json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}});
    [
        ("plain", json!({})),
        ("must be spread over zones", spread("DoNotSchedule")),
        ("would rather be spread over zones", spread("ScheduleAnyway")),
        ("would rather be apart", json!({"affinity": apart})),
    ]
}

fn object(manifest: &Value) -> Object {
    wire::object(manifest).expect("the manifest is right")
}

fn pod(name: &str, more: &Value) -> Pod {
    let requests = json!({"cpu": "100m", "memory": "500Mi"});
    let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": requests}}]});
    let fields = spec.as_object_mut().expect("it is an object");
    fields.extend(more.as_object().expect("it is an object").clone());
    let metadata = json!({"name": name, "uid": name, "labels": {"app": "web"}});
    let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    match object(&manifest) {
        Object::Pod(pod) => *pod,
        other => unreachable!("the manifest is that of a pod: {other:?}"),
    }
}

/// A scheduler that knows the cluster.
fn scheduler(kind: &Value) -> Scheduler {
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile());
    let specs = Configuration::default_for(&catalogue).profile_specs();
    let profiles = Profile::all_of(&specs, &registry, &FeatureGates::default())
        .expect("the default profile is right");
    let mut scheduler =
        Scheduler::new(profiles, Options::default(), 0).expect("the profiles make a scheduler");
    for number in 0..NODES {
        let name = format!("node-{number}");
        let zone = format!("zone-{}", number % ZONES);
        let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
        let allocatable = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": allocatable},
        });
        let Object::Node(node) = object(&node) else { unreachable!("it is a node") };
        scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(*node))));
        let placed = pod(&format!("placed-{number}"), kind);
        let placed = Pod { node_name: Some(name.into()), ..placed };
        scheduler.observe(Time::ZERO, Event::pod(placed));
    }
    scheduler
}

/// The time of `n` decisions.
fn decide(scheduler: &mut Scheduler, pod: &Pod, n: u64) -> Duration {
    let mut took = Duration::ZERO;
    let mut effects = Vec::new();
    for number in 0..n {
        let key = PodKey::new("default", format!("pod-{number}"));
        let pod = Pod { uid: key.name.clone(), key: key.clone(), ..pod.clone() };
        scheduler.observe(Time::ZERO, Event::pod(pod));
        let begun = Instant::now();
        scheduler.step(Time::ZERO, &mut effects);
        took += begun.elapsed();
        assert!(effects.drain(..).any(|effect| effect.pod.key == key), "it was decided");
        scheduler.observe(Time::ZERO, Event::pod_gone(key));
    }
    took
}

fn decisions(c: &mut Criterion) {
    let mut group = c.benchmark_group("decision among 1,000 nodes");
    for (name, kind) in kinds() {
        let mut scheduler = scheduler(&kind);
        let pod = pod("pod", &kind);
        group.bench_function(name, |b| b.iter_custom(|n| decide(&mut scheduler, &pod, n)));
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
