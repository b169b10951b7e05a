//! Lists and watches, seen by kube-rs' watcher and reflector and by plain requests.

use std::time::Duration;

use super::kit::{binding, client, get, node, pod, post, until};
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use plimsoll_testserver::{Options, TestServer};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The events of a watch until it ends or `enough` of them have come.
async fn events(client: &kube::Client, path: &str, enough: usize) -> Vec<Value> {
    let request = http::Request::get(path).body(Vec::new()).expect("the request is valid");
    let stream = client.request_stream(request).await.expect("the watch starts");
    let lines = stream.lines().take(enough).try_collect::<Vec<String>>();
    let lines =
        tokio::time::timeout(super::kit::PATIENCE, lines).await.expect("the events come in time");
    let read = |line: &String| serde_json::from_str(line).expect("an event is JSON");
    lines.expect("the stream is whole").iter().map(read).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn a_reflector_follows_by_lists_and_by_streams() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let server = TestServer::start(Options::default());
        server.store().apply_all((0..50).map(|i| node(&format!("n{i}")))).expect("stored");
        let nodes: Api<Node> = Api::all(client(&server).await);
        let (reader, writer) = reflector::store();
        let stream = watcher(nodes, config).reflect(writer).default_backoff();
        let task = tokio::spawn(stream.for_each(|event| async { drop(event) }));
        reader.wait_until_ready().await.expect("the reflector runs");
        assert_eq!(reader.len(), 50);
        server.store().apply(node("late")).expect("stored");
        assert!(server.store().delete("nodes", "", "n7"));
        let has =
            |name: &str| reader.state().iter().any(|n| n.metadata.name.as_deref() == Some(name));
        until("the changes", || has("late") && !has("n7")).await;
        assert_eq!(reader.len(), 50);
        task.abort();
    }
}

#[tokio::test]
async fn a_watch_goes_on_from_the_version_of_a_list() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    server.store().apply(pod("a")).expect("stored");
    let (_, list) = get(&client, PODS).await;
    assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("PodList"), &Value::Null));
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    server.store().apply(pod("b")).expect("stored");
    post(&client, &format!("{PODS}/a/binding"), binding("a", "n")).await;
    server.store().delete("pods", "default", "b");
    let seen = events(&client, &format!("{PODS}?watch=1&resourceVersion={version}"), 3).await;
    assert_eq!(kinds(&seen), ["ADDED", "MODIFIED", "DELETED"]);
    assert_eq!(seen[1]["object"]["spec"]["nodeName"], "n");
    assert_eq!(seen[0]["object"]["kind"], "Pod");
    let version_of = |at: usize| {
        let version = seen[at]["object"]["metadata"]["resourceVersion"].as_str();
        version.and_then(|version| version.parse::<u64>().ok()).expect("a version")
    };
    assert!(version_of(0) < version_of(1) && version_of(1) < version_of(2));
}

#[tokio::test]
async fn a_streaming_list_ends_with_its_bookmark() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    server.store().apply_all(["a", "b"].map(pod)).expect("stored");
    let asked =
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let seen = events(&client, &format!("{PODS}?{asked}"), 3).await;
    assert_eq!(kinds(&seen), ["ADDED", "ADDED", "BOOKMARK"]);
    let metadata = &seen[2]["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(metadata["resourceVersion"], server.store().resource_version().to_string());
    let (code, status) = get(&client, &format!("{PODS}?watch=1&sendInitialEvents=true")).await;
    assert_eq!((code, &status["details"]["kind"]), (422, &json!("ListOptions")));
}

#[tokio::test]
async fn releases_without_streaming_lists_say_so_or_do_not_know_of_them() {
    let asked = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1&allowWatchBookmarks=1";
    let path = format!("{PODS}?{asked}");
    let server = TestServer::start(Options { release: 30, ..Options::default().plain() });
    let (code, status) = get(&client(&server).await, &path).await;
    assert_eq!(code, 422);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("unless the WatchList feature gate is enabled"), "{message}");
    let server = TestServer::start(Options { release: 20, ..Options::default().plain() });
    server.store().apply(pod("a")).expect("stored");
    let seen = events(&client(&server).await, &path, 3).await;
    assert_eq!(kinds(&seen), ["ADDED", "BOOKMARK"]);
    assert_eq!(seen[1]["object"]["metadata"].get("annotations"), None);
}

#[tokio::test]
async fn an_idle_watch_gets_bookmarks_and_ends_in_time() {
    let options = Options { bookmarks: Duration::from_millis(20), ..Options::default().plain() };
    let server = TestServer::start(options);
    let client = client(&server).await;
    let version = server.store().resource_version();
    let path = format!("{PODS}?watch=1&resourceVersion={version}&allowWatchBookmarks=1");
    assert_eq!(kinds(&events(&client, &path, 3).await), ["BOOKMARK"; 3]);
    let quiet = format!("{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=1");
    assert_eq!(events(&client, &quiet, 1).await, Vec::<Value>::new());
}

#[tokio::test]
async fn what_leaves_a_selection_is_deleted_for_its_watch() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let version = server.store().resource_version();
    server.store().apply(pod("a")).expect("stored");
    post(&client, &format!("{PODS}/a/binding"), binding("a", "n")).await;
    let waiting =
        format!("{PODS}?watch=1&resourceVersion={version}&fieldSelector=spec.nodeName%3D");
    let seen = events(&client, &waiting, 2).await;
    assert_eq!(kinds(&seen), ["ADDED", "DELETED"]);
    assert_eq!(seen[1]["object"]["spec"].get("nodeName"), None);
    let placed =
        format!("{PODS}?watch=1&resourceVersion={version}&fieldSelector=spec.nodeName%3Dn");
    assert_eq!(kinds(&events(&client, &placed, 1).await), ["ADDED"]);
}

#[tokio::test]
async fn pages_of_a_list_are_of_one_version() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    server.store().apply_all(["a", "c", "e"].map(pod)).expect("stored");
    let (_, first) = get(&client, &format!("{PODS}?limit=2")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    server.store().apply_all(["b", "d", "f"].map(pod)).expect("stored");
    server.store().delete("pods", "default", "e");
    let (_, second) = get(&client, &format!("{PODS}?limit=2&continue={token}")).await;
    let names: Vec<&str> = second["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(names, ["e"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);

    server.faults().compact();
    let (code, status) = get(&client, &format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let fresh = status["metadata"]["continue"].as_str().expect("a token to go on with");
    let (_, rest) = get(&client, &format!("{PODS}?limit=9&continue={fresh}")).await;
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_long_list_comes_in_chunks_and_whole() {
    let server = TestServer::start(Options::default());
    server.store().apply_all((0..3000).map(|i| pod(&format!("p{i}")))).expect("stored");
    let pods: Api<Pod> = Api::default_namespaced(client(&server).await);
    let listed = pods.list(&ListParams::default()).await.expect("listed").items;
    assert_eq!(listed.len(), 3000);
    let ready = pods.list(&ListParams::default().fields("metadata.name=p77")).await;
    assert_eq!(ready.expect("listed").items.len(), 1);
}

#[tokio::test]
async fn a_client_that_knows_more_than_the_server_is_told_to_wait() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let (code, status) = get(&client, &format!("{PODS}?resourceVersion=999999")).await;
    assert_eq!((code, &status["reason"]), (504, &json!("Timeout")));
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}
