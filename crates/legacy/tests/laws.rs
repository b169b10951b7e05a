//! Every plugin of earlier releases keeps the laws of the framework, whatever the cluster.

use std::thread;

use plimsoll_framework::Entry;
use plimsoll_legacy::plugins::entries;
use plimsoll_testkit::{laws, random_scenarios};

/// Args with which plugins do what they do not do by default.
const ARGS: [(&str, &str); 7] = [
    (
        "NodeLabel",
        r#"{"presentLabels": ["zone"], "absentLabels": ["rack"],
            "presentLabelsPreference": ["disk"], "absentLabelsPreference": ["size"]}"#,
    ),
    (
        "ServiceAffinity",
        r#"{"affinityLabels": ["zone"], "antiAffinityLabelsPreference": ["rack", "disk"]}"#,
    ),
    ("ServiceAffinity", r#"{"affinityLabels": ["zone", "rack"]}"#),
    ("ServiceAffinity", r#"{"antiAffinityLabelsPreference": ["zone"]}"#),
    (
        "RequestedToCapacityRatio",
        r#"{"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
            "resources": [{"name": "cpu", "weight": 2}, {"name": "example.com/gpu", "weight": 1}]}"#,
    ),
    (
        "NodeResourcesLeastAllocated",
        r#"{"resources": [{"name": "memory", "weight": 2}, {"name": "example.com/gpu", "weight": 1}]}"#,
    ),
    (
        "NodeResourcesMostAllocated",
        r#"{"resources": [{"name": "memory", "weight": 2}, {"name": "example.com/gpu", "weight": 1}]}"#,
    ),
];

/// How many scenarios there are for a plugin with its default args, and how many with other args.
const SCENARIOS: [u64; 2] = [200, 60];

fn keeps_the_laws(entry: &Entry) {
    let [by_default, with_args] = SCENARIOS;
    laws(entry, random_scenarios(0..by_default));
    for (_, args) in ARGS.iter().filter(|(name, _)| *name == entry.name()) {
        let with = |scenario: String| format!("args {args}\n{scenario}");
        laws(entry, random_scenarios(by_default..by_default + with_args).map(with));
    }
}

#[test]
fn every_plugin_keeps_the_laws_in_random_clusters() {
    let entries = entries();
    thread::scope(|all| {
        for entry in &entries {
            all.spawn(|| keeps_the_laws(entry));
        }
    });
}

#[test]
fn args_are_given_to_plugins_that_are_there() {
    for (name, _) in ARGS {
        assert!(entries().iter().any(|entry| entry.name() == name), "{name}");
    }
}
