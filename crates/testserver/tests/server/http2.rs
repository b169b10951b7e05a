//! Over HTTP/2: many requests share one connection, and its faults.

use futures::{AsyncBufReadExt, StreamExt};
use http::{Request, Version};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use plimsoll_testserver::{FaultKind, InjectedFault, Options, TestServer};

use super::kit::{PATIENCE, binding, get, http2_client, node, pod, post};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn a_watch_and_many_writes_share_a_connection() {
    let server = TestServer::start(Options::default());
    let client = http2_client(&server).await;
    let request = Request::get("/version").body(kube::client::Body::empty()).expect("a request");
    assert_eq!(client.send(request).await.expect("an answer").version(), Version::HTTP_2);
    let version = server.store().resource_version();
    server.store().apply_all((0..20).map(|i| pod(&format!("p{i}")))).expect("stored");
    let path = format!("{PODS}?watch=1&resourceVersion={version}");
    let request = Request::get(path).body(Vec::new()).expect("the request is valid");
    let watch = client.request_stream(request).await.expect("the watch starts").lines().take(40);
    let bind = |i: usize| {
        let (name, client) = (format!("p{i}"), &client);
        async move { post(client, &format!("{PODS}/{name}/binding"), binding(&name, "n")).await.0 }
    };
    let bindings = futures::future::join_all((0..20).map(bind));
    let (events, codes) = tokio::join!(watch.collect::<Vec<_>>(), bindings);
    assert_eq!(codes, vec![201; 20]);
    let modified = events.iter().flatten().filter(|line| line.contains("\"MODIFIED\"")).count();
    assert_eq!(modified, 20);
}

#[tokio::test]
async fn a_reset_ends_one_request_and_a_hangup_all_of_its_connection() {
    let server = TestServer::start(Options::default());
    let client = http2_client(&server).await;
    let version = server.store().resource_version();
    let path = format!("{PODS}?watch=1&resourceVersion={version}");
    let request = Request::get(path).body(Vec::new()).expect("the request is valid");
    let mut watch = client.request_stream(request).await.expect("the watch starts").lines();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let create = async |name: &str| {
        let wanted: Pod = serde_json::from_value(pod(name)).expect("a pod");
        pods.create(&PostParams::default(), &wanted).await
    };
    server.faults().add(InjectedFault::every(1, FaultKind::Reset).after().times(1));
    create("a").await.expect_err("no answer");
    let line = tokio::time::timeout(PATIENCE, watch.next()).await.expect("the watch goes on");
    assert!(line.is_some_and(|line| line.is_ok_and(|line| line.contains("\"name\":\"a\""))));

    server.faults().add(InjectedFault::every(1, FaultKind::Hangup).times(1));
    create("b").await.expect_err("no answer");
    let end = tokio::time::timeout(PATIENCE, watch.next()).await.expect("the watch ends");
    assert!(end.is_none_or(|line| line.is_err()));
    // A new connection is made.
    server.store().apply(node("n")).expect("stored");
    assert_eq!(get(&client, "/api/v1/nodes/n").await.0, 200);
    assert_eq!(server.store().len("pods"), 1);
}
