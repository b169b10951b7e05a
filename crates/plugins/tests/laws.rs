//! Every in-tree plugin keeps the laws of the framework, whatever the cluster.

use std::thread;

use plimsoll_framework::Entry;
use plimsoll_plugins::in_tree;
use plimsoll_testkit::{laws, random_scenarios};

/// Args with which plugins do what they do not do by default.
const ARGS: [(&str, &str); 8] = [
    (
        "NodeResourcesFit",
        r#"{"scoringStrategy": {"type": "MostAllocated",
            "resources": [{"name": "cpu", "weight": 3}, {"name": "example.com/gpu", "weight": 2}]}}"#,
    ),
    (
        "NodeResourcesFit",
        r#"{"ignoredResources": ["example.com/gpu"], "scoringStrategy": {
            "type": "RequestedToCapacityRatio", "resources": [{"name": "memory", "weight": 1}],
            "requestedToCapacityRatio": {"shape": [
                {"utilization": 0, "score": 3}, {"utilization": 40, "score": 9},
                {"utilization": 100, "score": 0}]}}}"#,
    ),
    (
        "NodeResourcesBalancedAllocation",
        r#"{"resources": [{"name": "cpu"}, {"name": "memory"}, {"name": "example.com/gpu"}]}"#,
    ),
    ("PodTopologySpread", r#"{"defaultingType": "List", "defaultConstraints": []}"#),
    (
        "PodTopologySpread",
        r#"{"defaultingType": "List", "defaultConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
            {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}]}"#,
    ),
    ("InterPodAffinity", r#"{"hardPodAffinityWeight": 0}"#),
    (
        "InterPodAffinity",
        r#"{"hardPodAffinityWeight": 70, "ignorePreferredTermsOfExistingPods": true}"#,
    ),
    (
        "NodeAffinity",
        r#"{"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}}"#,
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
    let registry = in_tree();
    thread::scope(|all| {
        for entry in registry.iter() {
            all.spawn(|| keeps_the_laws(entry));
        }
    });
}

#[test]
fn args_are_given_to_plugins_that_are_there() {
    let registry = in_tree();
    for (name, _) in ARGS {
        assert!(registry.iter().any(|entry| entry.name() == name), "{name}");
    }
}
