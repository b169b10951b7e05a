//! What people see of pods that cannot be scheduled, are evicted, or are bound.

use plimsoll_api::{KindRef, ObjectKey, PersistentVolumeClaim};
use plimsoll_engine::{Condition, EventRecord, Eviction, Write};
use plimsoll_framework::{Binding, ObjectWrite, WriteCause, WriteVerb};
use plimsoll_testserver::{FaultKind, InjectedFault, Options, Terminating, TestServer};
use serde_json::{Value, json};

use crate::kit::{Edge, create, effect, field, seen, until};

fn condition(message: &str) -> Write {
    Write::Condition(Condition { reason: "Unschedulable", message: message.to_owned() })
}

fn record(kind: &'static str, reason: &'static str, action: &'static str, note: &str) -> Write {
    Write::Record(EventRecord { kind, reason, action, note: note.to_owned() })
}

fn n_status(server: &TestServer) -> u64 {
    server.counts().requests("patch", "pods/status")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_cannot_be_scheduled_says_why_and_since_when() {
    let server = TestServer::start(Options::default().plain());
    create(&server, "p", None);
    let edge = Edge::new(&server, |_| {});
    let told = || field(&server, "p", "/status/conditions/0/message");
    edge.writer.perform(vec![effect(1, &seen(&server, "p"), condition("0/1 nodes"))]);
    until("the condition is written", || (told() == "0/1 nodes").then_some(())).await;
    let mut expected = field(&server, "p", "/status/conditions/0");
    assert_eq!(expected["type"], "PodScheduled");
    assert_eq!(
        (&expected["status"], &expected["reason"]),
        (&json!("False"), &json!("Unschedulable"))
    );
    assert_eq!(expected["observedGeneration"], field(&server, "p", "/metadata/generation"));
    assert!(expected["lastTransitionTime"].is_string());

    // The same again is not written; other words keep the time.
    let pod = seen(&server, "p");
    edge.writer.perform(vec![effect(2, &pod, condition("0/1 nodes"))]);
    edge.writer.perform(vec![effect(3, &pod, Write::Nominate(Some("n".into())))]);
    until("the nomination is written", || {
        (field(&server, "p", "/status/nominatedNodeName") == "n").then_some(())
    })
    .await;
    edge.writer.perform(vec![effect(4, &seen(&server, "p"), condition("0/2 nodes"))]);
    edge.writer.perform(vec![effect(5, &seen(&server, "p"), Write::Nominate(None))]);
    until("the condition is written", || (told() == "0/2 nodes").then_some(())).await;
    edge.finish().await;
    expected["message"] = json!("0/2 nodes");
    assert_eq!(field(&server, "p", "/status/conditions/0"), expected);
    assert_eq!(field(&server, "p", "/status/nominatedNodeName"), Value::Null);
    assert!((3..=4).contains(&n_status(&server)), "{}", n_status(&server));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_about_a_pod_are_counted_as_a_series() {
    let server = TestServer::start(Options::default().plain());
    create(&server, "p", None);
    let edge = Edge::new(&server, |_| {});
    let pod = seen(&server, "p");
    let failed = || record("Warning", "FailedScheduling", "Scheduling", "0/1 nodes");
    for _ in 0..3 {
        edge.writer.perform(vec![effect(1, &pod, failed())]);
    }
    let bound = record("Normal", "Scheduled", "Binding", "Successfully assigned ns/p to n");
    edge.writer.perform(vec![effect(2, &pod, bound)]);
    edge.finish().await;
    let events = server.store().list("events");
    let of = |reason: &str| {
        let found = events.iter().find(|event| event["reason"] == reason);
        found.cloned().expect("it was recorded")
    };
    assert_eq!(events.len(), 2, "{events:?}");
    // As `kubectl describe` sees it.
    let failed = of("FailedScheduling");
    assert_eq!((&failed["message"], &failed["series"]["count"]), (&json!("0/1 nodes"), &json!(2)));
    assert_eq!(failed["involvedObject"]["uid"], json!(pod.uid));
    assert_eq!(of("Scheduled")["reportingInstance"], "lab-host");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_victim_goes_and_says_why() {
    let options = Options { terminating: Terminating::Kept, ..Options::default().plain() };
    let server = TestServer::start(options);
    create(&server, "low", Some("n"));
    create(&server, "high", None);
    let mut edge = Edge::new(&server, |_| {});
    let eviction = Eviction {
        victim: seen(&server, "low"),
        message: "lab: preempting to accommodate a higher priority pod".to_owned(),
        note: "Preempted by pod uid on node n".to_owned(),
        for_group: false,
    };
    let high = seen(&server, "high");
    edge.writer.perform(vec![effect(1, &high, Write::Evict(eviction.clone()))]);
    assert_eq!(edge.answer().await, (1, Ok(())));
    assert!(field(&server, "low", "/metadata/deletionTimestamp").is_string());
    assert!(seen(&server, "low").preempted, "it has the condition");

    // Made again under the same name, it is another pod.
    assert!(server.store().delete("pods", "ns", "low"));
    create(&server, "low", Some("n"));
    edge.writer.perform(vec![effect(2, &high, Write::Evict(eviction))]);
    assert_eq!(edge.answer().await, (2, Ok(())));
    edge.finish().await;
    assert!(field(&server, "low", "/metadata/deletionTimestamp").is_null());
    assert!(!seen(&server, "low").preempted);
    let events = server.store().list("events");
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(
        (&events[0]["reason"], &events[0]["related"]["name"]),
        (&json!("Preempted"), &json!("high"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_that_comes_too_late_is_refused_in_the_words_of_the_api_server() {
    let server = TestServer::start(Options::default().plain());
    create(&server, "p", Some("n1"));
    let mut edge = Edge::new(&server, |_| {});
    let pod = seen(&server, "p");
    let bind = |id, node: &str| effect(id, &pod, Write::Bind(Binding { node: node.into() }));
    edge.writer.perform(vec![bind(1, "n2")]);
    let error = "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to \
                 node \"n1\"";
    let (_, answer) = edge.answer().await;
    assert_eq!(answer.expect_err("it is on another node").to_string(), error);
    edge.writer.perform(vec![bind(2, "n1")]);
    assert_eq!(edge.answer().await, (2, Ok(())));
    server.store().delete("pods", "ns", "p");
    edge.writer.perform(vec![bind(3, "n1")]);
    let (_, answer) = edge.answer().await;
    assert_eq!(answer.expect_err("it is gone").to_string(), "pods \"p\" not found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_changed_unless_it_has_changed_meanwhile() {
    let server = TestServer::start(Options::default().plain());
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "namespace": "ns", "name": "c" },
        "spec": { "accessModes": ["ReadWriteOnce"] },
    });
    let claim = server.store().apply(claim).expect("the claim is valid");
    create(&server, "p", None);
    let mut edge = Edge::new(&server, |_| {});
    let patch = |merge: Value| ObjectWrite {
        kind: KindRef::of::<PersistentVolumeClaim>(),
        key: ObjectKey::new("ns", "c"),
        verb: WriteVerb::Patch { subresource: None, merge: merge.into() },
        purpose: 0,
    };
    let merge = json!({ "metadata": {
        "uid": claim["metadata"]["uid"],
        "resourceVersion": claim["metadata"]["resourceVersion"],
        "annotations": { "volume.kubernetes.io/selected-node": "n1" },
    } });
    let pod = seen(&server, "p");
    edge.writer.perform(vec![effect(1, &pod, Write::Object(patch(merge.clone())))]);
    assert_eq!(edge.answer().await, (1, Ok(())));
    let now = server.store().get("persistentvolumeclaims", "ns", "c").expect("it is there");
    assert_eq!(now["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "n1");
    edge.writer.perform(vec![effect(2, &pod, Write::Object(patch(merge)))]);
    let (_, answer) = edge.answer().await;
    let error = answer.expect_err("it has another version now");
    assert_eq!(error.cause, WriteCause::Conflict);
    assert!(error.message.contains("the object has been modified"), "{error}");
}

#[tokio::test]
async fn what_becomes_of_the_objects_of_plugins_is_told_apart() {
    let server = TestServer::start(Options::default().plain());
    create(&server, "p", None);
    let pod = seen(&server, "p");
    let mut edge = Edge::new(&server, |_| {});
    let kind = KindRef::of::<PersistentVolumeClaim>();
    let write = |verb| ObjectWrite { kind, key: ObjectKey::new("ns", "c"), verb, purpose: 0 };
    let create = |name: &str| {
        let claim = json!({
            "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": name },
        });
        WriteVerb::Create(claim.into())
    };
    let delete = |uid: &str| WriteVerb::Delete { uid: uid.into() };
    let patch = |merge: Value| WriteVerb::Patch { subresource: None, merge: merge.into() };
    for (number, (verb, expected)) in (1..).zip([
        (delete(""), Err(WriteCause::NotFound)),
        (create("a"), Ok(())),
        (create("b"), Err(WriteCause::AlreadyExists)),
        (patch(json!({ "metadata": { "labels": { "x": "y" } } })), Ok(())),
        (patch(json!({ "metadata": { "uid": "another" } })), Err(WriteCause::Conflict)),
        (delete("another"), Err(WriteCause::Conflict)),
        (delete(""), Ok(())),
        (delete(""), Err(WriteCause::NotFound)),
    ]) {
        edge.writer.perform(vec![effect(number, &pod, Write::Object(write(verb.clone())))]);
        let (_, answer) = edge.answer().await;
        assert_eq!(answer.map_err(|error| error.cause), expected, "{verb:?}");
    }
    server.faults().add(InjectedFault::every(1, FaultKind::Status(403)).times(1));
    edge.writer.perform(vec![effect(20, &pod, Write::Object(write(create("a"))))]);
    let (_, answer) = edge.answer().await;
    assert_eq!(answer.map_err(|error| error.cause), Err(WriteCause::Refused));
}
