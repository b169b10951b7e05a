//! Whatever goes wrong, nothing is lost and nothing is done twice.

use std::time::Duration;

use plimsoll_kube::run::Exit;
use plimsoll_testserver::{Break, FaultKind, InjectedFault, Options, TestServer};
use serde_json::json;

use crate::lab::{Instance, check, eventually, fill, node, placed, pod, pods, until_placed};

const PODS: usize = 400;

/// A cluster with room for all pods, and an instance at work.
fn at_work() -> (TestServer, Instance) {
    let server = TestServer::start(Options::default());
    fill(&server, (0..60).map(node));
    let instance = Instance::alone(&server);
    fill(&server, pods("before", 1));
    until_placed(&server, 1);
    (server, instance)
}

/// All pods end bound once.
#[track_caller]
fn all_is_well(server: &TestServer, instance: Instance, n: usize) {
    until_placed(server, n);
    assert_eq!(instance.stop(), Exit::Stopped);
    check(server);
}

#[test]
fn the_api_server_goes_and_comes_back() {
    let (server, instance) = at_work();
    fill(&server, pods("web", PODS));
    eventually("some are bound", || 20 < placed(&server).len());
    server.stop();
    fill(&server, pods("meanwhile", 20));
    server.restart().expect("the port is free");
    all_is_well(&server, instance, 1 + PODS + 20);
}

#[test]
fn watches_break_and_their_place_is_forgotten() {
    let (server, instance) = at_work();
    for round in 0..4 {
        fill(&server, pods(&format!("round{round}"), 50));
        server.faults().compact();
        server.faults().break_watches(Break::Torn);
    }
    all_is_well(&server, instance, 1 + 200);
}

#[track_caller]
fn with_trouble(fault: InjectedFault) {
    let (server, instance) = at_work();
    server.faults().add(fault);
    fill(&server, pods("web", PODS));
    until_placed(&server, 1 + PODS);
    server.faults().clear();
    all_is_well(&server, instance, 1 + PODS);
}

#[test]
fn every_tenth_write_is_answered_500() {
    with_trouble(InjectedFault::every(10, FaultKind::Status(500)));
}

#[test]
fn every_tenth_write_is_answered_429() {
    with_trouble(InjectedFault::every(10, FaultKind::TooManyRequests { retry_after: 1 }));
}

#[test]
fn every_tenth_write_is_lost() {
    with_trouble(InjectedFault::every(10, FaultKind::Reset));
}

#[test]
fn the_answer_to_every_tenth_write_is_lost() {
    with_trouble(InjectedFault::every(10, FaultKind::Reset).after());
}

#[test]
fn writes_are_slow() {
    with_trouble(InjectedFault::every(1, FaultKind::Slow(Duration::from_millis(50))));
}

#[test]
fn events_come_twice_and_nodes_late() {
    let (server, instance) = at_work();
    server.faults().duplicate_events(3);
    assert!(server.faults().delay("nodes", Duration::from_millis(300)));
    fill(&server, (60..80).map(node));
    fill(&server, pods("web", PODS));
    all_is_well(&server, instance, 1 + PODS);
}

#[test]
fn a_node_goes_while_a_pod_is_being_bound_to_it() {
    let server = TestServer::start(Options::default());
    fill(&server, [node(0)]);
    let instance = Instance::alone(&server);
    let slow = InjectedFault::every(1, FaultKind::Slow(Duration::from_secs(2)))
        .resources(&["pods/binding"]);
    server.faults().add(slow.times(1));
    fill(&server, [pod("web", 100)]);
    eventually("the binding is under way", || {
        0 < server.counts().requests("create", "pods/binding")
    });
    assert!(server.store().delete("nodes", "", "node-00000"));
    fill(&server, [node(1)]);
    until_placed(&server, 1);
    // It goes with its node, and the next one of its name finds the other node.
    server.store().delete("pods", "default", "web");
    fill(&server, [pod("web", 100)]);
    eventually("there is a node for it", || {
        placed(&server).get("web").is_some_and(|node| node == "node-00001")
    });
    assert_eq!(instance.stop(), Exit::Stopped);
    check(&server);
}

#[test]
fn a_pod_of_a_megabyte_is_a_pod() {
    let (server, instance) = at_work();
    let mut large = pod("large", 100);
    large["metadata"]["annotations"] = json!({"note": "x".repeat(1 << 20)});
    fill(&server, [large]);
    all_is_well(&server, instance, 2);
}

#[test]
fn a_flood_of_events_passes_and_nothing_is_lost_in_it() {
    let (server, instance) = at_work();
    fill(&server, pods("web", PODS));
    for round in 0..50 {
        let beat = |number| {
            let mut node = node(number);
            node["metadata"]["annotations"] = json!({"beat": round.to_string()});
            node
        };
        fill(&server, (0..60).map(beat));
        let mut noise = pod(&format!("noise-{round}"), 0);
        noise["spec"]["schedulerName"] = json!("another");
        for edition in 0..140 {
            noise["metadata"]["annotations"] = json!({"edition": edition.to_string()});
            fill(&server, [noise.clone()]);
        }
    }
    all_is_well(&server, instance, 1 + PODS);
}
