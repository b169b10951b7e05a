//! Each fault, as a client sees it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use plimsoll_testserver::{Break, FaultKind, InjectedFault, Options, TestServer};
use serde_json::{Value, json};

use super::kit::{PATIENCE, binding, client, get, node, pod, post, until};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The events of a watch from a version on, until it ends in any way.
async fn watch_to_its_end(client: &Client, path: &str) -> (Vec<Value>, bool) {
    let request = Request::get(path).body(Vec::new()).expect("the request is valid");
    let mut lines = client.request_stream(request).await.expect("the watch starts").lines();
    let (mut events, mut is_torn) = (Vec::new(), false);
    let reading = async {
        while let Some(line) = lines.next().await {
            match line.map(|line| serde_json::from_str(&line)) {
                Ok(Ok(event)) => events.push(event),
                Ok(Err(_)) | Err(_) => is_torn = true,
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the watch ends");
    (events, is_torn)
}

/// Runs `act` once the server has an additional watch.
async fn when_watched(server: &TestServer, act: impl FnOnce()) {
    let before = server.counts().requests("watch", "pods");
    until("the watch", || before < server.counts().requests("watch", "pods")).await;
    act();
}

#[tokio::test]
async fn watches_end_in_every_way() {
    for (how, kinds, torn) in [
        (Break::Clean, vec![], false),
        (Break::Torn, vec![], true),
        (Break::Expired, vec!["ERROR"], false),
    ] {
        let server = TestServer::start(Options::default());
        let client = client(&server).await;
        let version = server.store().resource_version();
        let path = format!("{PODS}?watch=1&resourceVersion={version}");
        let watch = watch_to_its_end(&client, &path);
        let act = || assert!(server.faults().break_watches_of("pods", how));
        let ((events, is_torn), ()) = tokio::join!(watch, when_watched(&server, act));
        let seen: Vec<&str> =
            events.iter().map(|event| event["type"].as_str().unwrap_or_default()).collect();
        assert_eq!((seen, is_torn), (kinds, torn), "{how:?}");
    }
}

#[tokio::test]
async fn after_compaction_an_old_version_is_gone() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let version = server.store().resource_version();
    server.store().apply(pod("a")).expect("stored");
    server.faults().compact();
    let path = format!("{PODS}?watch=1&resourceVersion={version}");
    let (events, _) = watch_to_its_end(&client, &path).await;
    let status = &events[0]["object"];
    assert_eq!((&events[0]["type"], &status["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(status["reason"], "Expired");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.starts_with(&format!("too old resource version: {version} (")), "{message}");
    let (code, _) =
        get(&client, &format!("{PODS}?resourceVersion={version}&resourceVersionMatch=Exact")).await;
    assert_eq!(code, 410);
}

#[tokio::test]
async fn a_short_history_expires_by_itself() {
    let server = TestServer::start(Options { history: 3, ..Options::default().plain() });
    let client = client(&server).await;
    let version = server.store().resource_version();
    server.store().apply_all((0..4).map(|i| pod(&format!("p{i}")))).expect("stored");
    let path = format!("{PODS}?watch=1&resourceVersion={version}");
    assert_eq!(watch_to_its_end(&client, &path).await.0[0]["object"]["code"], 410);
    // Other kinds have their own history.
    let nodes = format!("/api/v1/nodes?watch=1&resourceVersion={version}&timeoutSeconds=1");
    assert_eq!(watch_to_its_end(&client, &nodes).await.0, Vec::<Value>::new());
}

#[tokio::test]
async fn a_reflector_survives_breaks_compaction_and_a_restart() {
    let server = TestServer::start(Options::default());
    let pods: Api<Pod> = Api::default_namespaced(client(&server).await);
    let (reader, writer) = reflector::store();
    let backoff = watcher(pods, watcher::Config::default().streaming_lists())
        .reflect(writer)
        .backoff(watcher::DefaultBackoff::default());
    let task = tokio::spawn(backoff.for_each(|event| async { drop(event) }));
    reader.wait_until_ready().await.expect("the reflector runs");
    let mut number = 0;
    let mut next = || {
        number += 1;
        server.store().apply(pod(&format!("p{number}"))).expect("stored");
        number
    };
    let trials: [(&str, &dyn Fn()); 3] = [
        ("a torn stream", &|| server.faults().break_watches(Break::Torn)),
        ("410", &|| {
            server.faults().break_watches(Break::Clean);
            server.faults().compact();
        }),
        ("a restart", &|| {
            server.stop();
            server.restart().expect("the port is free");
        }),
    ];
    for (what, trial) in trials {
        next();
        trial();
        let count = next();
        until(what, || reader.len() == count).await;
    }
    task.abort();
}

#[tokio::test]
async fn every_third_binding_is_refused_before_or_lost_after() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    server.store().apply_all((0..9).map(|i| pod(&format!("p{i}")))).expect("stored");
    let third = |kind| InjectedFault::every(3, kind).resources(&["pods/binding"]);
    let bind = async |i: usize| {
        let name = format!("p{i}");
        post(&client, &format!("{PODS}/{name}/binding"), binding(&name, "n")).await.0
    };
    let is_bound = |i: usize| {
        let pod = server.store().get("pods", "default", &format!("p{i}")).expect("the pod");
        pod["spec"].get("nodeName").is_some()
    };
    server.faults().add(third(FaultKind::Status(500)));
    assert_eq!([bind(0).await, bind(1).await, bind(2).await], [201, 201, 500]);
    assert!(!is_bound(2));
    server.faults().clear();
    server.faults().add(third(FaultKind::Status(500)).after());
    assert_eq!([bind(3).await, bind(4).await, bind(5).await], [201, 201, 500]);
    assert!(is_bound(5));
    assert_eq!(bind(5).await, 409);
    assert_eq!(server.faults().done(), 1);
}

#[tokio::test]
async fn too_many_requests_say_when_to_come_back() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let kind = FaultKind::TooManyRequests { retry_after: 7 };
    server.faults().add(InjectedFault::every(1, kind).times(1).verbs(&["create"]));
    let request = Request::post("/api/v1/nodes")
        .header("content-type", "application/json")
        .body(kube::client::Body::from(node("n").to_string().into_bytes()))
        .expect("the request is valid");
    let response = client.send(request).await.expect("the server answers");
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "7");
    assert_eq!(post(&client, "/api/v1/nodes", node("n")).await.0, 201);
}

#[tokio::test]
async fn a_connection_is_closed_without_an_answer() {
    for (fault, is_applied) in [
        (InjectedFault::every(1, FaultKind::Hangup), false),
        (InjectedFault::every(1, FaultKind::Hangup).after(), true),
        (InjectedFault::every(1, FaultKind::Reset).after(), true),
    ] {
        let server = TestServer::start(Options::default());
        let pods: Api<Pod> = Api::default_namespaced(client(&server).await);
        server.faults().add(fault.clone());
        let wanted: Pod = serde_json::from_value(pod("p")).expect("a pod");
        pods.create(&PostParams::default(), &wanted).await.expect_err("no answer");
        assert_eq!(server.store().len("pods") == 1, is_applied, "{fault:?}");
        server.faults().clear();
        assert_eq!(pods.get_opt("p").await.expect("it works again").is_some(), is_applied);
    }
}

#[tokio::test]
async fn a_slow_write_takes_its_time_and_holds_nobody_up() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let slow = |wait| InjectedFault::every(1, FaultKind::Slow(wait)).verbs(&["create"]);
    let wait = Duration::from_millis(50);
    server.faults().add(slow(wait));
    let start = Instant::now();
    assert_eq!(post(&client, "/api/v1/nodes", node("n")).await.0, 201);
    assert!(wait <= start.elapsed());

    server.faults().add(slow(PATIENCE * 10));
    let write = post(&client, "/api/v1/nodes", node("m"));
    let read = async {
        until("the write", || 2 <= server.counts().requests("create", "nodes")).await;
        get(&client, "/api/v1/nodes/n").await.0
    };
    tokio::select! {
        _ = write => panic!("the write cannot be over"),
        code = read => assert_eq!(code, 200),
    }
    assert_eq!(server.store().len("nodes"), 1);
}

#[tokio::test]
async fn events_are_doubled_on_demand() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let version = server.store().resource_version();
    server.faults().duplicate_events(2);
    server.store().apply_all((0..4).map(|i| pod(&format!("p{i}")))).expect("stored");
    let path = format!("{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=1");
    let (events, _) = watch_to_its_end(&client, &path).await;
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    for event in &events {
        *times
            .entry(event["object"]["metadata"]["name"].as_str().unwrap_or_default())
            .or_default() += 1;
    }
    assert_eq!(times, BTreeMap::from([("p0", 1), ("p1", 2), ("p2", 1), ("p3", 2)]));
}

#[tokio::test]
async fn one_kind_is_held_back_behind_another() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let version = server.store().resource_version();
    assert!(server.faults().hold("nodes"));
    assert!(!server.faults().hold("things"));
    server.store().apply(node("n")).expect("stored");
    server.store().apply(pod("p")).expect("stored");
    let watch = async |path: &str, enough: usize| {
        let path = format!(
            "{path}?watch=1&resourceVersion={version}&allowWatchBookmarks=1&timeoutSeconds=1"
        );
        let request = Request::get(path).body(Vec::new()).expect("the request is valid");
        let lines = client.request_stream(request).await.expect("the watch starts").lines();
        lines.take(enough).try_collect::<Vec<String>>().await.expect("the stream is whole")
    };
    assert!(watch(PODS, 1).await[0].contains("\"ADDED\""));
    // The nodes' watch ends with a bookmark that does not claim to have seen what is held back.
    let held = watch("/api/v1/nodes", 2).await;
    let bookmark: Value = serde_json::from_str(&held[0]).expect("an event is JSON");
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], version.to_string());
    assert_eq!(server.store().len("nodes"), 1);
    server.faults().release("nodes");
    assert!(watch("/api/v1/nodes", 1).await[0].contains("\"ADDED\""));
}

#[tokio::test]
async fn events_of_a_kind_come_later() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let version = server.store().resource_version();
    let delay = Duration::from_millis(200);
    server.faults().delay("pods", delay);
    let start = Instant::now();
    server.store().apply(pod("p")).expect("stored");
    let path = format!("{PODS}?watch=1&resourceVersion={version}");
    let request = Request::get(path).body(Vec::new()).expect("the request is valid");
    let mut lines = client.request_stream(request).await.expect("the watch starts").lines();
    let first = tokio::time::timeout(PATIENCE, lines.next()).await.expect("it comes");
    assert!(first.is_some_and(|line| line.is_ok_and(|line| line.contains("\"ADDED\""))));
    assert!(delay <= start.elapsed());
}

#[tokio::test]
async fn a_stopped_server_refuses_and_a_restarted_one_has_everything() {
    let server = TestServer::start(Options::default());
    let pods: Api<Pod> = Api::default_namespaced(client(&server).await);
    server.store().apply(pod("p")).expect("stored");
    let version = server.store().resource_version();
    server.stop();
    pods.get("p").await.expect_err("nobody listens");
    server.restart().expect("the port is free");
    let seen = pods.get("p").await.expect("it is there again");
    assert_eq!(seen.metadata.resource_version, Some(version.to_string()));
}

#[tokio::test]
async fn a_server_by_itself_takes_orders_over_http() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let fault = json!({
        "every": 1, "trouble": {"status": 503}, "after": true, "resources": ["nodes"], "times": 1,
    });
    let orders = json!({ "fault": fault, "compact": true, "duplicateEvents": 0 });
    assert_eq!(post(&client, "/testserver/faults", orders).await.0, 200);
    assert_eq!(post(&client, "/api/v1/nodes", node("n")).await.0, 503);
    let (_, counts) = get(&client, "/testserver/counts").await;
    assert_eq!(counts["faults"], 1);
    let (_, log) = get(&client, "/testserver/log").await;
    assert_eq!(
        log.as_array().and_then(|log| log.last()).map(|last| &last["name"]),
        Some(&json!("n"))
    );
    let (code, status) = post(&client, "/testserver/faults", json!({"hold": "things"})).await;
    assert_eq!((code, &status["message"]), (400, &json!("no kind is called \"things\"")));
    assert_eq!(post(&client, "/testserver/faults", json!({"downMs": 1})).await.0, 200);
}
