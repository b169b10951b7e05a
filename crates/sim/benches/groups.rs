//! How long groups of pods take by the rules of each release, beside the same pods one by one.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use plimsoll_api::wire;
use plimsoll_config::{Catalogue, Configuration};
use plimsoll_engine::{Effect, Event, Gates, Options, Profile, Scheduler, Write};
use plimsoll_framework::{FeatureGates, Release, Time};
use plimsoll_plugins::{default_profile, in_tree};
use serde_json::json;

const NODES: u32 = 5_000;
const RACKS: u32 = 100;

fn gates(release: Release) -> FeatureGates {
    let on = ["GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"];
    let off = FeatureGates::of(release).with("WorkloadAwarePreemption", false);
    on.iter().fold(off, |gates, name| gates.with(name, true))
}

/// A scheduler that knows the nodes, of which every hundredth is in the same rack, and a group.
fn scheduler(release: Release, n_members: u32, in_one_rack: bool) -> Scheduler {
    let gates = gates(release);
    let options =
        Options { release, audit_every: 0, gates: Gates::of(&gates), ..Options::default() };
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.clone());
    let specs = Configuration::default_for(&catalogue).profile_specs();
    let profiles = Profile::all_of(&specs, &registry, &gates).expect("the profile is right");
    let mut scheduler = Scheduler::new(profiles, options, 0).expect("they make a scheduler");
    for number in 0..NODES {
        let rack = format!("rack-{}", number % RACKS);
        observe(
            &mut scheduler,
            &json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": format!("node-{number}"), "labels": {"rack": rack}},
                "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}},
            }),
        );
    }
    let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": n_members}}});
    if in_one_rack {
        spec["schedulingConstraints"] = json!({"topology": [{"key": "rack"}]});
    }
    observe(
        &mut scheduler,
        &json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "default"}, "spec": spec,
        }),
    );
    scheduler
}

fn observe(scheduler: &mut Scheduler, manifest: &serde_json::Value) {
    let object = wire::object(manifest).expect("it is right");
    scheduler.observe(Time::ZERO, Event::is(object).expect("its kind is read"));
}

/// How long it takes to decide so many pods, in a group or by themselves.
fn decide(release: Release, n_pods: u32, in_group: bool, in_one_rack: bool) -> Duration {
    let mut scheduler = scheduler(release, n_pods, in_one_rack);
    for number in 0..n_pods {
        let requests = json!({"cpu": "1", "memory": "1Gi"});
        let containers = json!([{"name": "c", "resources": {"requests": requests}}]);
        let mut spec = json!({"containers": containers});
        if in_group {
            spec["schedulingGroup"] = json!({"podGroupName": "train"});
        }
        observe(
            &mut scheduler,
            &json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("pod-{number}"), "namespace": "default"}, "spec": spec,
            }),
        );
    }
    let (began, mut effects) = (Instant::now(), Vec::new());
    let is_bound = |one: &&Effect| matches!(one.write, Write::Bind(_));
    for _ in 0..4 * n_pods {
        scheduler.step(Time::ZERO, &mut effects);
        if effects.iter().filter(is_bound).count() == n_pods as usize {
            break;
        }
    }
    let took = began.elapsed();
    assert_eq!(effects.iter().filter(is_bound).count(), n_pods as usize, "all are bound");
    took
}

fn groups(c: &mut Criterion) {
    let mut group = c.benchmark_group("1,000 pods on 5,000 nodes");
    group.sample_size(10);
    group.bench_function("one by one", |b| {
        b.iter_custom(|n| (0..n).map(|_| decide(Release::NEWEST, 1_000, false, false)).sum());
    });
    for release in Release::ALL {
        group.bench_function(BenchmarkId::new("a gang by the rules of", release), |b| {
            b.iter_custom(|n| (0..n).map(|_| decide(release, 1_000, true, false)).sum());
        });
    }
    group.finish();
    let mut group = c.benchmark_group("a gang of 500 pods in one of 100 racks of 50 nodes");
    group.sample_size(10);
    for release in Release::ALL {
        group.bench_function(BenchmarkId::new("by the rules of", release), |b| {
            b.iter_custom(|n| (0..n).map(|_| decide(release, 500, true, true)).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, groups);
criterion_main!(benches);
