//! An API server that loses requests and answers: no pod is bound twice, and every answer is correct.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_engine::Write;
use serde_json::json;

use super::fixture::{WriterFixture, bind, effect, pod};
use crate::events::{EventRecorder, Occurrence};
use crate::fake::{FakeApiServer, FakeResponse, ReceivedRequest};

/// The nodes of pods, and how often each was bound.
type BoundNodes = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

fn pod_of(seen: &ReceivedRequest) -> String {
    let name = seen.line.split('/').nth(6).expect("every line names a pod");
    name.to_owned()
}

/// Carries out a request as an API server does, whether or not its answer arrives.
fn done(bound: &BoundNodes, seen: &ReceivedRequest) -> FakeResponse {
    let pod = pod_of(seen);
    let mut bound = bound.lock().expect("no test panics in it");
    let nodes = bound.entry(pod.clone()).or_default();
    if seen.line.starts_with("GET") {
        return FakeResponse::Response(
            200,
            json!({
                "metadata": { "uid": format!("uid-{pod}") }, "spec": { "nodeName": nodes.first() },
            }),
        );
    }
    let node = seen.body["target"]["name"].as_str().expect("a binding names a node").to_owned();
    nodes.push(node);
    match nodes.len() {
        1 => FakeResponse::Response(201, json!({})),
        _ => FakeResponse::error(409, "Conflict", "is already assigned"),
    }
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_bound_twice_and_answers_are_true_whatever_is_lost() {
    let bound = BoundNodes::default();
    let (server, mut n) = (bound.clone(), 0);
    let fake = FakeApiServer::new(move |seen, _| {
        n += 1;
        match n % 10 {
            0 if n % 50 == 0 => FakeResponse::Silence,
            0 => FakeResponse::Broken,
            1 => {
                done(&server, seen);
                if n % 50 == 1 { FakeResponse::Silence } else { FakeResponse::Broken }
            }
            4 => FakeResponse::RetryAfter(429, 1),
            5 => {
                done(&server, seen);
                FakeResponse::error(500, "InternalError", "etcdserver: request timed out")
            }
            6 => FakeResponse::Unreachable,
            _ => match done(&server, seen) {
                FakeResponse::Response(code, body) => {
                    FakeResponse::Slow(Duration::from_millis(20), code, body)
                }
                other => other,
            },
        }
    });
    let mut fixture = WriterFixture::with(fake, |options| options.in_flight = 16);
    fixture.writer.perform((0..300).map(|i| bind(i, &format!("p{i}"), &format!("n{i}"))).collect());
    let mut answers = BTreeMap::new();
    for _ in 0..300 {
        let (id, answer) = fixture.answer().await;
        assert!(answers.insert(id, answer).is_none(), "{id} was answered twice");
    }
    fixture.rest().await;
    let bound = bound.lock().expect("no test panics in it");
    for (id, answer) in answers {
        let nodes = bound.get(&format!("p{id}")).map_or(&[][..], Vec::as_slice);
        assert!(nodes.len() <= 1, "p{id} was bound to {nodes:?}");
        if answer.is_ok() {
            assert_eq!(nodes, [format!("n{id}")]);
        }
    }
    let n_bound = bound.values().filter(|nodes| !nodes.is_empty()).count();
    assert!(150 < n_bound, "only {n_bound} of 300 were bound");
}

/// A recorder of events that panics.
struct Breaks;

impl EventRecorder for Breaks {
    fn record(&self, _: Occurrence) {
        panic!("the record breaks down, on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn who_relies_on_the_writer_hears_if_it_breaks_down() {
    let fixture = WriterFixture::with(FakeApiServer::scripted(&[]), |options| {
        options.events = Arc::new(Breaks);
    });
    assert!(tokio::time::timeout(Duration::from_hours(1), fixture.writer.ended()).await.is_err());
    let record = plimsoll_engine::EventRecord {
        kind: "Normal",
        reason: "Scheduled",
        action: "Binding",
        note: String::new(),
    };
    fixture.writer.perform(vec![effect(1, &pod("p"), Write::Record(record))]);
    fixture.writer.ended().await;
}
