//! Many requests at once. The cost is printed (`--nocapture`); correctness is asserted.

use std::sync::Arc;
use std::time::Instant;

use futures::{AsyncBufReadExt, StreamExt};
use http::Request;
use plimsoll_testserver::{Options, TestServer, bulk};
use serde_json::Value;

use super::kit::{PATIENCE, binding, client, post};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_events_reaches_every_watch_in_order() {
    const PODS_MADE: usize = 10_000;
    const WATCHES: usize = 4;
    let server = TestServer::start(Options::default());
    let client = client(&server).await;
    let version = server.store().resource_version();
    let follow = async || {
        let path = format!("{PODS}?watch=1&resourceVersion={version}");
        let request = Request::get(path).body(Vec::new()).expect("the request is valid");
        let lines = client.request_stream(request).await.expect("the watch starts").lines();
        let versions = lines.take(PODS_MADE).map(|line| {
            let event: Value = serde_json::from_str(&line.expect("the stream is whole"))
                .expect("an event is JSON");
            let version = event["object"]["metadata"]["resourceVersion"].as_str();
            version.and_then(|version| version.parse::<u64>().ok()).expect("a version")
        });
        versions.collect::<Vec<u64>>().await
    };
    let start = Instant::now();
    let make = tokio::task::spawn_blocking({
        let store = server.store().clone();
        move || (0..PODS_MADE).try_for_each(|i| store.apply(bulk::pod(i)).map(drop))
    });
    let watches = futures::future::join_all((0..WATCHES).map(|_| follow()));
    let seen = tokio::time::timeout(PATIENCE, watches).await.expect("all events come");
    make.await.expect("the thread ends").expect("the pods are valid");
    println!("{PODS_MADE} pods seen by {WATCHES} watches in {:?}", start.elapsed());
    for versions in seen {
        assert!(
            versions.iter().copied().eq(version + 1..=version + PODS_MADE as u64),
            "{versions:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_bindings_at_once_one_is_applied() {
    const PODS_MADE: usize = 1_000;
    let server = TestServer::start(Options::default());
    let client = client(&server).await;
    server.store().apply_all((0..PODS_MADE).map(bulk::pod)).expect("the pods are valid");
    let client = Arc::new(client);
    let bind = |pod: usize, node: &'static str| {
        let client = Arc::clone(&client);
        async move {
            let name = format!("pod-{pod:05}");
            post(&client, &format!("{PODS}/{name}/binding"), binding(&name, node)).await.0
        }
    };
    let start = Instant::now();
    let both = |pod| async move { tokio::join!(bind(pod, "a"), bind(pod, "b")) };
    let answers = futures::stream::iter(0..PODS_MADE).map(both).buffer_unordered(32);
    let answers: Vec<(u16, u16)> = answers.collect().await;
    println!("{} bindings asked for in {:?}", 2 * PODS_MADE, start.elapsed());
    for answer in answers {
        assert!(answer == (201, 409) || answer == (409, 201), "{answer:?}");
    }
    let bindings = server.counts().bindings();
    assert_eq!(bindings.len(), PODS_MADE);
    assert!(bindings.values().all(|nodes| nodes.len() == 1));
}

#[test]
fn a_large_cluster_is_there_at_once() {
    let server = TestServer::start(Options::default().plain());
    let start = Instant::now();
    server.store().apply_all((0..5_000).map(bulk::node)).expect("the nodes are valid");
    server.store().apply_all((0..10_000).map(bulk::pod)).expect("the pods are valid");
    println!("5000 nodes and 10000 pods made in {:?}", start.elapsed());
    assert_eq!((server.store().len("nodes"), server.store().len("pods")), (5_000, 10_000));
}
