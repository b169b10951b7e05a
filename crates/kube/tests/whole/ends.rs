//! From pods to bound pods, with what is told about them.

use std::collections::BTreeMap;

use plimsoll_api::Pod;
use plimsoll_api::wire::{self, Object};
use plimsoll_engine::{Detail, Options, Outcome, Scheduler};
use plimsoll_kube::run::Exit;
use plimsoll_sim::{InitialCluster, Simulation};
use plimsoll_testserver::{Options as ServerOptions, TestServer};
use serde_json::{Value, json};

use crate::lab::{
    Instance, check, eventually, fill, node, placed, pod, pods, profiles, until_placed,
};

/// Where `simulate` places the pods of the server.
fn simulated(server: &TestServer) -> BTreeMap<String, String> {
    let mut cluster = InitialCluster::default();
    for object in ["nodes", "pods", "namespaces"].iter().flat_map(|kind| server.store().list(kind))
    {
        match wire::object(&object).expect("the server has valid objects") {
            Object::Node(node) => cluster.nodes.push(*node),
            // A simulation goes by age first, and a list by name; a server may have taken more than a second.
            Object::Pod(pod) => cluster.pods.push(Pod { created: None, ..*pod }),
            Object::Other(object) => cluster.objects.push(object),
            other @ Object::Unknown { .. } => panic!("nobody asked for {other:?}"),
        }
    }
    // As the queue has them: all came at once.
    let options = Options { detail: Detail::Outcome, ..Options::default() };
    let scheduler = Scheduler::new(profiles(), options, 1).expect("the profiles are valid");
    let mut simulation = Simulation::new(scheduler, cluster);
    let mut placed = BTreeMap::new();
    while let Some(decisions) = simulation.advance() {
        for decision in decisions {
            if let Outcome::Scheduled { node, .. } = decision.outcome {
                placed.insert(decision.pod.name.to_string(), node.to_string());
            }
        }
    }
    placed
}

#[test]
fn five_thousand_pods_are_bound_once_as_simulated() {
    let server = TestServer::start(ServerOptions::default());
    fill(&server, (0..1000).map(node));
    fill(&server, pods("web", 5000));
    let expected = simulated(&server);
    let instance = Instance::alone(&server);
    until_placed(&server, 5000);
    assert_eq!(instance.stop(), Exit::Stopped);
    check(&server);
    let found = placed(&server);
    let differs = |(pod, node): &(&String, &String)| expected.get(*pod) != Some(*node);
    let differing: Vec<_> =
        found.iter().filter(differs).map(|(pod, node)| (pod, node, &expected[pod])).collect();
    assert!(differing.is_empty(), "{} of {}: {differing:?}", differing.len(), found.len());
}

/// The events about a pod: type, reason, action and note.
fn events(server: &TestServer, pod: &str) -> Vec<Value> {
    let events = server.store().list("events").into_iter();
    let about = |event: &Value| {
        event["regarding"]["name"].as_str().or(event["involvedObject"]["name"].as_str())
            == Some(pod)
    };
    events.filter(about).collect()
}

fn text<'a>(event: &'a Value, keys: [&str; 2]) -> &'a str {
    keys.iter().find_map(|key| event[*key].as_str()).unwrap_or_default()
}

#[test]
fn what_happens_to_pods_is_told_to_the_letter() {
    let server = TestServer::start(ServerOptions::default());
    fill(&server, (0..2).map(node));
    fill(&server, [pod("small", 100), pod("large", 9000)]);
    let instance = Instance::alone(&server);
    until_placed(&server, 1);
    let message = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, \
                   preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    let condition = || {
        let large = server.store().get("pods", "default", "large").expect("it is pending");
        let conditions = large["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| one["type"] == "PodScheduled")
    };
    eventually("the condition is set", || condition().is_some());
    let condition = condition().expect("it was just there");
    assert_eq!(condition["status"], "False");
    assert_eq!(condition["reason"], "Unschedulable");
    assert_eq!(condition["message"], message);
    eventually("both events are recorded", || {
        !events(&server, "small").is_empty() && !events(&server, "large").is_empty()
    });
    let told = &events(&server, "small")[0];
    assert_eq!(text(told, ["type", "type"]), "Normal");
    assert_eq!(text(told, ["reason", "reason"]), "Scheduled");
    assert_eq!(text(told, ["action", "action"]), "Binding");
    assert_eq!(
        text(told, ["note", "message"]),
        "Successfully assigned default/small to node-00000"
    );
    assert_eq!(text(told, ["reportingController", "reportingComponent"]), "default-scheduler");
    let told = &events(&server, "large")[0];
    assert_eq!(text(told, ["reason", "reason"]), "FailedScheduling");
    assert_eq!(text(told, ["action", "action"]), "Scheduling");
    assert_eq!(text(told, ["note", "message"]), message);
    // A node that is large enough wakes it.
    let mut large = node(2);
    large["status"]["allocatable"]["cpu"] = json!("16");
    fill(&server, [large]);
    until_placed(&server, 2);
    assert_eq!(placed(&server)["large"], "node-00002");
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn pods_of_others_and_pods_that_ended_are_what_they_are() {
    let server = TestServer::start(ServerOptions::default());
    fill(&server, [node(0)]);
    let mut foreign = pod("foreign", 100);
    foreign["spec"]["schedulerName"] = json!("another");
    let mut placed_by_another = pod("theirs", 3000);
    placed_by_another["spec"]["schedulerName"] = json!("another");
    placed_by_another["spec"]["nodeName"] = json!("node-00000");
    let mut over = pod("over", 900);
    over["spec"]["nodeName"] = json!("node-00000");
    over["status"] = json!({"phase": "Succeeded"});
    fill(&server, [foreign, placed_by_another, over]);
    fill(&server, [pod("first", 900), pod("second", 900)]);
    let instance = Instance::alone(&server);
    // Theirs is load, the one that is over is none: one of ours fits.
    until_placed(&server, 3);
    eventually("the other is told", || !events(&server, "second").is_empty());
    assert!(server.store().delete("pods", "default", "theirs"));
    eventually("its room is taken", || placed(&server).contains_key("second"));
    assert_eq!(instance.stop(), Exit::Stopped);
    assert!(!placed(&server).contains_key("foreign"));
}
