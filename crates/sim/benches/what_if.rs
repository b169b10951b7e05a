//! Measures what happens when one of three zones is lost: 1,667 of 5,000 nodes with 50,010 of 150,000 pods. The copy of the
//! cluster is part of it. The snapshot, for which decisions wait, is measured by itself.

mod cluster;

use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use plimsoll_api::{Controller, PodTemplate};
use plimsoll_engine::{Detail, Options};
use plimsoll_framework::Time;
use plimsoll_sim::InitialCluster;
use plimsoll_sim::what_if::{Action, NodeChoice, Scenario};
use serde_json::Value;

use crate::cluster::{empty, kinds, scheduler};

const NODES: u32 = 5_000;
const PER_NODE: u32 = 30;
const ZONE: &str = "topology.kubernetes.io/zone";

/// The cluster. Its pods belong to a ReplicaSet, which makes them again.
fn initial(kind: &Value, n_nodes: u32, per_node: u32) -> InitialCluster {
    let snapshot = scheduler(kind, "8", n_nodes, per_node).snapshot(Time::ZERO);
    let mut cluster = InitialCluster::from(snapshot);
    let mut template: PodTemplate = (*cluster.pods[0].template).clone();
    template.controller = Some(Controller {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "web".into(),
        uid: "web".into(),
    });
    let template = Arc::new(template);
    cluster.pods.iter_mut().for_each(|pod| pod.template = template.clone());
    cluster
}

/// As `plimsoll what-if` and a running instance answer.
fn options() -> Options {
    Options { detail: Detail::Choice, audit_every: 0, ..Options::default() }
}

fn lose(cluster: InitialCluster) {
    let mut scenario = Scenario::new(empty(options()), cluster);
    let zone = NodeChoice::Label(ZONE.into(), "zone-1".into());
    scenario.act(Action::Lose(zone)).expect("there is such a zone");
    let plan = scenario.run();
    assert_eq!(plan.placed.len(), 50_010, "there is room for all pods");
}

fn scenarios(c: &mut Criterion) {
    let mut group = c.benchmark_group("lose one of three zones");
    group.sample_size(10);
    for (name, kind) in kinds() {
        let cluster = initial(&kind, NODES, PER_NODE);
        group.bench_function(name, |b| {
            b.iter_batched(|| cluster.clone(), lose, BatchSize::PerIteration);
        });
    }
    group.finish();
    let scheduler = scheduler(&kinds()[0].1, "8", NODES, PER_NODE);
    c.bench_function("snapshot of 5,000 nodes and 150,000 pods", |b| {
        b.iter(|| scheduler.snapshot(Time::ZERO));
    });
}

/// Drains one of three zones whose pods must be spread over zones: the zone still counts, so no pod fits elsewhere.
fn hopeless(c: &mut Criterion) {
    let (name, kind) = &kinds()[1];
    let mut group = c.benchmark_group("drain one of three zones of 600 nodes, in vain");
    group.sample_size(10);
    let cluster = initial(kind, 600, 10);
    group.bench_function(*name, |b| {
        let drain = |cluster| {
            let mut scenario = Scenario::new(empty(options()), cluster);
            let zone = NodeChoice::Label(ZONE.into(), "zone-1".into());
            scenario.act(Action::Drain(zone)).expect("there is such a zone");
            assert!(!scenario.run().pending.is_empty(), "the zone counts");
        };
        b.iter_batched(|| cluster.clone(), drain, BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, scenarios, hopeless);
criterion_main!(benches);
