//! Measures the answer to "why" on 5,000 nodes with 10 pods each: the decision alone, and everything that would make the pod
//! fit. Before each question something happens in the cluster, so that no answer is known from the last time.

#[path = "../../sim/benches/cluster/mod.rs"]
mod cluster;

use criterion::{Criterion, criterion_group, criterion_main};
use plimsoll_advisor::{Limits, Manifests, Subject, why};
use plimsoll_api::wire::{self, Object};
use plimsoll_api::{Pod, PodKey};
use plimsoll_engine::{Event, Scheduler};
use plimsoll_framework::Time;
use serde_json::{Value, json};

use crate::cluster::{kinds, pod, scheduler};

const NODES: u32 = 5_000;
const PER_NODE: u32 = 10;

/// What is wrong with the pod.
fn faults() -> [(&'static str, &'static str, Value); 3] {
    [
        ("too much cpu", "6", json!({})),
        ("no such node", "100m", json!({"nodeSelector": {"disk": "ssd"}})),
        ("both", "6", json!({"nodeSelector": {"disk": "ssd"}})),
    ]
}

/// Makes the pod known, and returns its manifest.
fn add(scheduler: &mut Scheduler, cpu: &str, more: [&Value; 2]) -> Value {
    let requests = json!({"cpu": cpu, "memory": "500Mi"});
    let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": requests}}]});
    let fields = spec.as_object_mut().expect("it is an object");
    for more in more {
        fields.extend(more.as_object().expect("it is an object").clone());
    }
    let metadata = json!({"name": "pod", "namespace": "default", "labels": {"app": "web"}});
    let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    let Ok(Object::Pod(pod)) = wire::object(&manifest) else { unreachable!("it is a pod") };
    scheduler.observe(Time::ZERO, Event::pod(*pod));
    manifest
}

/// A pod comes to a node, and is gone again.
fn let_something_happen(scheduler: &mut Scheduler) {
    let passing = pod("passing", &json!({}));
    let key = passing.key.clone();
    let placed = Pod { node_name: Some("node-0".into()), ..passing };
    scheduler.observe(Time::ZERO, Event::pod(placed));
    scheduler.observe(Time::ZERO, Event::pod_gone(key));
}

fn ask(scheduler: &mut Scheduler, manifest: &Value) {
    let pod = &PodKey::new("default", "pod");
    let limits = Limits::default();
    let manifests = Manifests::none();
    let subject = Subject { pod, manifest, manifests, alternatives: &[], limits, pending: None };
    let why = why(scheduler, Time::ZERO, &subject).expect("the pod is pending");
    assert!(!why.remedies.is_empty(), "it can be undone");
}

fn questions(c: &mut Criterion) {
    for (kind, fields) in kinds() {
        let mut group = c.benchmark_group(format!("why, 5,000 nodes, pods: {kind}"));
        group.sample_size(10);
        for (fault, cpu, more) in faults() {
            let mut scheduler = scheduler(&fields, "4", NODES, PER_NODE);
            let manifest = add(&mut scheduler, cpu, [&fields, &more]);
            group.bench_function(fault, |b| {
                b.iter(|| {
                    let_something_happen(&mut scheduler);
                    ask(&mut scheduler, &manifest);
                });
            });
            let key = PodKey::new("default", "pod");
            group.bench_function(format!("{fault}, the decision alone"), |b| {
                b.iter(|| scheduler.explain(&key));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, questions);
criterion_main!(benches);
