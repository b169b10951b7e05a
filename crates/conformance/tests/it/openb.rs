//! A production trace (Alibaba's GPU cluster of 2023): every pod goes where kube-scheduler 1.36 put it.
//!
//! The trace is not part of the repository; without it nothing is compared.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_api::wire::{self, Object};
use plimsoll_config::GivenGates;
use plimsoll_conformance::{ExpectedDecision, RECORDED, differences, profiles, read};
use plimsoll_engine::{Detail, Options, Scheduler};
use plimsoll_sim::{InitialCluster, simulate};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/openb")
}

fn cluster() -> InitialCluster {
    let mut cluster = InitialCluster::default();
    for file in ["nodes.json", "pods.json"] {
        let text = std::fs::read_to_string(folder().join(file)).expect("the trace is whole");
        for object in wire::objects_from_str(&text).expect("the trace is valid") {
            match object {
                Object::Pod(pod) => cluster.pods.push(*pod),
                Object::Node(node) => cluster.nodes.push(*node),
                other => panic!("the trace has nodes and pods only, not {other:?}"),
            }
        }
    }
    cluster
}

#[test]
fn every_pod_of_the_trace_is_decided_as_recorded() {
    if !folder().exists() {
        println!("skipped: {} is not there", folder().display());
        return;
    }
    let mut expected: BTreeMap<String, ExpectedDecision> =
        read::<ExpectedDecision>(&folder().join("expected.jsonl"))
            .into_iter()
            .map(|decision| (decision.pod.clone(), decision))
            .collect();
    let options = Options {
        release: RECORDED,
        detail: Detail::Outcome,
        audit_every: 1,
        ..Options::default()
    };
    let scheduler = Scheduler::new(profiles(None, &GivenGates::of(RECORDED).plugins), options, 0)
        .expect("the default profile works");
    let (n_expected, mut failures) = (expected.len(), Vec::new());
    simulate(scheduler, cluster(), |ours| {
        let name = ours.pod.to_string();
        match expected.remove(&name) {
            None => failures.push(format!("{name}: decided again, attempt {}", ours.attempt)),
            Some(expected) => {
                let found = differences(&expected, ours);
                failures.extend(found.iter().map(|difference| format!("{name}: {difference}")));
            }
        }
    });
    failures.extend(expected.keys().map(|name| format!("{name}: not decided")));
    let shown = failures.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {n_expected} differ\n{shown}", failures.len());
}
