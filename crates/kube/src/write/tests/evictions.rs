//! A victim gets a condition with the reason, is deleted, and an event is recorded.

use std::sync::Arc;

use plimsoll_api::{Edition, Pod, Timestamp};
use plimsoll_engine::{Effect, Eviction, Write};
use serde_json::json;

use super::fixture::{WriterFixture, effect, pod};
use crate::events::EventObject;
use crate::fake::{FakeApiServer, FakeResponse};

const STATUS: &str = "PATCH /api/v1/namespaces/ns/pods/low/status";
const DELETE: &str = "DELETE /api/v1/namespaces/ns/pods/low";

fn evict(victim: Arc<Pod>) -> Effect {
    let message = "lab: preempting to accommodate a higher priority pod".to_owned();
    let note = "Preempted by pod uid-high on node n".to_owned();
    effect(1, &pod("high"), Write::Evict(Eviction { victim, message, note, for_group: false }))
}

/// Checks the answer, the requests, and how many events were recorded.
async fn check(
    script: &[(&str, &[FakeResponse])],
    expected: Result<(), &str>,
    lines: &[&str],
    n: usize,
) {
    let mut fixture = WriterFixture::new(FakeApiServer::scripted(script));
    let answer = fixture.answer_to(evict(pod("low"))).await;
    fixture.rest().await;
    assert_eq!(answer, expected.map_err(str::to_owned));
    assert_eq!(fixture.fake.lines(), lines);
    assert_eq!(fixture.events.0.lock().expect("no test panics in it").len(), n);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_written_as_kube_scheduler_writes_it() {
    let mut fixture = WriterFixture::new(FakeApiServer::scripted(&[]));
    let edition = Edition { generation: 3, ..Edition::default() };
    let victim = Arc::new(Pod { edition, ..(*pod("low")).clone() });
    assert_eq!(fixture.answer_to(evict(victim.clone())).await, Ok(()));
    let seen = fixture.fake.requests();
    assert_eq!(fixture.fake.lines(), [STATUS, DELETE]);
    assert_eq!(seen[0].content_type, "application/strategic-merge-patch+json");
    let mut patch = seen[0].body.clone();
    let time = patch["status"]["conditions"][0]["lastTransitionTime"].take();
    assert!(time.is_string(), "it says since when");
    let expected = json!({
        "metadata": { "uid": "uid-low" },
        "status": { "conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": "lab: preempting to accommodate a higher priority pod",
            "observedGeneration": 3, "lastProbeTime": null, "lastTransitionTime": null,
        }] },
    });
    assert_eq!(patch, expected);
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": "uid-low" },
    });
    assert_eq!(seen[1].body, options);
    let events = fixture.events.0.lock().expect("no test panics in it");
    let [event] = events.as_slice() else { panic!("one event is recorded, not {events:?}") };
    assert_eq!(event.regarding, EventObject::Pod(victim));
    assert_eq!(event.related, Some(EventObject::Pod(pod("high"))));
    let words = [event.kind, event.reason, event.action, &event.note, &event.controller];
    let note = "Preempted by pod uid-high on node n";
    assert_eq!(words, ["Normal", "Preempted", "Preempting", note, "lab"]);
}

#[tokio::test(start_paused = true)]
async fn a_victim_that_is_gone_has_been_evicted() {
    check(&[(STATUS, &[FakeResponse::not_found()])], Ok(()), &[STATUS], 0).await;
    check(&[(DELETE, &[FakeResponse::not_found()])], Ok(()), &[STATUS, DELETE], 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_is_left_alone() {
    let text = "Operation cannot be fulfilled on uid: the UID in the precondition (uid-low) does \
                not match the UID in record (x)";
    let conflict = [FakeResponse::error(409, "Conflict", text)];
    check(&[(DELETE, &conflict)], Ok(()), &[STATUS, DELETE], 0).await;
    let mut invalid = FakeResponse::error(422, "Invalid", "metadata.uid: field is immutable");
    if let FakeResponse::Response(_, body) = &mut invalid {
        body["details"] = json!({ "causes": [{ "field": "metadata.uid" }] });
    }
    check(&[(STATUS, &[invalid])], Ok(()), &[STATUS], 0).await;
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_tried_again_whatever_happened() {
    let trouble = [
        FakeResponse::Broken,
        FakeResponse::RetryAfter(429, 1),
        FakeResponse::RetryAfter(503, 1),
        FakeResponse::ok(),
    ];
    let lines = [STATUS, STATUS, STATUS, STATUS, DELETE, DELETE, DELETE, DELETE];
    check(&[(STATUS, &trouble), (DELETE, &trouble)], Ok(()), &lines, 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_is_refused_is_an_error() {
    let no = [FakeResponse::error(403, "Forbidden", "no")];
    check(&[(STATUS, &no)], Err("no"), &[STATUS], 0).await;
    check(&[(DELETE, &no)], Err("no"), &[STATUS, DELETE], 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_victim_that_is_about_to_go_is_let_go() {
    let mut fixture = WriterFixture::new(FakeApiServer::scripted(&[]));
    let deletion = Some(Timestamp::UNIX_EPOCH);
    let victim = Arc::new(Pod { deletion, ..(*pod("low")).clone() });
    assert_eq!(fixture.answer_to(evict(victim)).await, Ok(()));
    assert!(fixture.fake.lines().is_empty());
}
