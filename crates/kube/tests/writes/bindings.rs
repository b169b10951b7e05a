//! Whatever becomes of requests and answers, every pod ends bound once.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use plimsoll_engine::Write;
use plimsoll_framework::Binding;
use plimsoll_testserver::{FaultKind, InjectedFault, Options, TestServer};
use serde_json::Value;

use crate::kit::{Edge, client, create, effect, field, seen, sharing_client};

const N_PODS: u64 = 120;

/// Binds pods, as a scheduler would: one whose binding failed is looked at and bound again, to another node.
async fn bind_all(server: &TestServer, client: Client, n_pods: u64) -> u64 {
    let mut edge = Edge::over(client, |options| {
        options.in_flight = 8;
        options.request_timeout = Duration::from_secs(3);
    });
    let bind = |id: u64, attempt: u64| {
        let pod = seen(server, &format!("p{id}"));
        let node = format!("n{id}-{attempt}").into();
        effect(1000 * attempt + id, &pod, Write::Bind(Binding { node }))
    };
    edge.writer.perform((0..n_pods).map(|id| bind(id, 0)).collect());
    let (mut n_open, mut n_failed) = (n_pods, 0);
    while 0 < n_open {
        let (id, answer) = edge.answer().await;
        let (id, attempt) = (id % 1000, id / 1000);
        let node = field(server, &format!("p{id}"), "/spec/nodeName");
        match answer {
            Ok(()) => {
                assert_eq!(node, format!("n{id}-{attempt}"), "what was answered is true");
                n_open -= 1;
            }
            // The watch would tell.
            Err(_) if node != Value::Null => n_open -= 1,
            Err(_) => {
                n_failed += 1;
                edge.writer.perform(vec![bind(id, attempt + 1)]);
            }
        }
    }
    edge.finish().await;
    n_failed
}

async fn check(server: &TestServer, client: Client, fault: InjectedFault) {
    server.faults().clear();
    for i in 0..N_PODS {
        server.store().delete("pods", "ns", &format!("p{i}"));
        create(server, &format!("p{i}"), None);
    }
    server.faults().add(fault.clone());
    let n_failed = bind_all(server, client, N_PODS).await;
    assert!(0 < server.faults().done(), "something went wrong: {fault:?}");
    let bound: BTreeMap<String, usize> = server
        .counts()
        .bindings()
        .into_iter()
        .map(|(pod, nodes)| (pod, nodes.len()))
        .filter(|(_, n)| *n != 1)
        .collect();
    assert!(bound.is_empty(), "bound more than once: {bound:?}");
    let unbound =
        (0..N_PODS).filter(|i| field(server, &format!("p{i}"), "/spec/nodeName").is_null());
    assert_eq!(unbound.count(), 0, "{fault:?}, {n_failed} tried again");
}

fn server() -> TestServer {
    TestServer::start(Options::default().plain())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tenth_binding_is_lost_before_it_is_done_or_after() {
    let server = server();
    for trouble in [FaultKind::Hangup, FaultKind::Reset] {
        let fault = InjectedFault::every(10, trouble).resources(&["pods/binding"]);
        for client in [client(&server), sharing_client(&server)] {
            check(&server, client.clone(), fault.clone()).await;
            check(&server, client, fault.clone().after()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tenth_binding_is_answered_with_an_error() {
    let server = server();
    for trouble in [FaultKind::Status(500), FaultKind::TooManyRequests { retry_after: 1 }] {
        check(
            &server,
            client(&server),
            InjectedFault::every(10, trouble).resources(&["pods/binding"]),
        )
        .await;
    }
    let lie = InjectedFault::every(10, FaultKind::Status(500)).resources(&["pods/binding"]).after();
    check(&server, client(&server), lie).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_and_looks_are_both_lost_at_times() {
    let server = server();
    let all = ["create", "get"];
    for client in [client(&server), sharing_client(&server)] {
        check(&server, client, InjectedFault::every(7, FaultKind::Hangup).after().verbs(&all))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_is_away_for_a_while() {
    let server = server();
    for i in 0..N_PODS {
        create(&server, &format!("p{i}"), None);
    }
    server.faults().add(InjectedFault::every(1, FaultKind::Slow(Duration::from_millis(20))));
    let away = async {
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            server.stop();
            tokio::time::sleep(Duration::from_millis(400)).await;
            server.restart().expect("the port is still free");
        }
    };
    let (n_failed, ()) = tokio::join!(bind_all(&server, sharing_client(&server), N_PODS), away);
    let bindings = server.counts().bindings();
    assert_eq!(bindings.len() as u64, N_PODS, "{n_failed} were tried again");
    assert!(bindings.values().all(|nodes| nodes.len() == 1), "{bindings:?}");
}
