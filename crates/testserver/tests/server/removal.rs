//! How objects are deleted: pods with and without grace, evictions under budgets, namespaces.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, EvictParams, ListParams};
use plimsoll_testserver::{Options, Terminating, TestServer};
use serde_json::{Value, json};

use super::kit::{ask, client, get, node, patch, pod, post, until};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn running(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = "n".into();
    pod["metadata"]["labels"] = json!({"app": "a"});
    pod["status"] =
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    pod
}

fn budget(name: &str, allowed: i64) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
                   "observedGeneration": 1},
    })
}

#[tokio::test]
async fn a_pod_with_a_node_terminates_before_it_goes() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    server.store().apply(running("p")).expect("stored");
    let version = server.store().resource_version();
    let (code, answer) = ask(&client, Method::DELETE, &format!("{PODS}/p"), None).await;
    assert_eq!((code, &answer["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(30)));
    assert_eq!(get(&client, &format!("{PODS}/p")).await.0, 404);
    let log = server.counts().log();
    let versions: Vec<u64> =
        log.iter().map(|write| write.version).filter(|v| version < *v).collect();
    assert_eq!(versions, [version + 1, version + 2]);
}

#[tokio::test]
async fn without_a_kubelet_a_terminating_pod_stays_as_long_as_the_options_say() {
    let kept = Options { terminating: Terminating::Kept, ..Options::default().plain() };
    let server = TestServer::start(kept);
    let client = client(&server).await;
    server.store().apply(running("p")).expect("stored");
    let path = format!("{PODS}/p");
    let brief = json!({"gracePeriodSeconds": 5});
    ask(&client, Method::DELETE, &path, Some(brief)).await;
    let (_, pod) = get(&client, &path).await;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 5);
    let version = server.store().resource_version();
    ask(&client, Method::DELETE, &path, None).await;
    assert_eq!(server.store().resource_version(), version);
    ask(&client, Method::DELETE, &path, Some(json!({"gracePeriodSeconds": 0}))).await;
    assert_eq!(get(&client, &path).await.0, 404);

    let wait = Duration::from_millis(100);
    let later = Options { terminating: Terminating::GoneAfter(wait), ..Options::default().plain() };
    let server = TestServer::start(later);
    let client = super::kit::client(&server).await;
    server.store().apply(running("p")).expect("stored");
    let start = std::time::Instant::now();
    ask(&client, Method::DELETE, &path, None).await;
    until("the end of the pod", || server.store().len("pods") == 0).await;
    assert!(wait <= start.elapsed());
}

#[tokio::test]
async fn an_object_with_finalizers_waits_for_them() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let mut held = node("n");
    held["metadata"]["finalizers"] = json!(["a/b"]);
    server.store().apply(held).expect("stored");
    let (_, answer) = ask(&client, Method::DELETE, "/api/v1/nodes/n", None).await;
    assert!(answer["metadata"]["deletionTimestamp"].is_string());
    let free = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}});
    patch(&client, "/api/v1/nodes/n", "strategic-merge-patch", free).await;
    assert_eq!(server.store().len("nodes"), 0);
    let (_, gone) = ask(&client, Method::DELETE, "/api/v1/nodes/n", None).await;
    assert_eq!(gone["reason"], "NotFound");
}

#[tokio::test]
async fn an_eviction_spends_its_budget_and_then_is_refused() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    server.store().apply_all(["p", "q"].map(running)).expect("stored");
    server.store().apply(budget("b", 1)).expect("stored");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.evict("p", &EvictParams::default()).await.expect("one may go");
    let spent = server.store().get("poddisruptionbudgets", "default", "b").expect("the budget");
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["p"].is_string());
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q"}});
    let (code, status) = post(&client, &format!("{PODS}/q/eviction"), eviction.clone()).await;
    assert_eq!(code, 429);
    assert_eq!(
        status["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert_eq!(
        status["details"]["causes"][0],
        json!({
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 2 currently",
        })
    );
    server.store().apply(budget("c", 1)).expect("stored");
    let (code, status) = post(&client, &format!("{PODS}/q/eviction"), eviction.clone()).await;
    assert_eq!(code, 500, "{status}");
    // Evicting a pod that is not running causes no disruption.
    let waiting = json!({"status": {"phase": "Pending"}});
    patch(&client, &format!("{PODS}/q/status"), "merge-patch", waiting).await;
    assert_eq!(post(&client, &format!("{PODS}/q/eviction"), eviction).await.0, 201);
    assert_eq!(server.store().len("pods"), 0);
}

#[tokio::test]
async fn a_namespace_goes_with_all_that_is_in_it() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let mut inside = running("p");
    inside["metadata"]["namespace"] = "team".into();
    server.store().apply(inside).expect("the namespace is made for it");
    let (_, namespace) = get(&client, "/api/v1/namespaces/team").await;
    assert_eq!(namespace["status"]["phase"], "Active");
    assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], "team");
    assert_eq!(ask(&client, Method::DELETE, "/api/v1/namespaces/team", None).await.0, 200);
    assert_eq!(server.store().len("pods"), 0);
    assert_eq!(get(&client, "/api/v1/namespaces/team").await.0, 404);
    let (code, status) = ask(&client, Method::DELETE, "/api/v1/namespaces/default", None).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "namespaces \"default\" is forbidden: this namespace may not be deleted"
    );
}

#[tokio::test]
async fn a_collection_is_deleted_as_far_as_it_is_selected() {
    let server = TestServer::start(Options::default().plain());
    let pods: Api<Pod> = Api::default_namespaced(client(&server).await);
    server.store().apply_all(["a", "b"].map(running)).expect("stored");
    server.store().apply(pod("c")).expect("stored");
    let selected = ListParams::default().labels("app=a");
    pods.delete_collection(&kube::api::DeleteParams::default(), &selected).await.expect("deleted");
    let left = server.store().list("pods");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["metadata"]["name"], "c");
}

#[tokio::test]
async fn a_deleted_namespace_terminates_as_long_as_the_options_say() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let (path, pods) = ("/api/v1/namespaces/team", "/api/v1/namespaces/team/pods");
    for (how, goes) in
        [(Terminating::Kept, false), (Terminating::GoneAfter(Duration::from_millis(100)), true)]
    {
        let options = Options { terminating_namespaces: how, ..Options::default().plain() };
        let server = TestServer::start(options);
        let client = client(&server).await;
        post(&client, "/api/v1/namespaces", namespace.clone()).await;
        let mut own = pod("p");
        own["metadata"]["namespace"] = "team".into();
        assert_eq!(post(&client, pods, own.clone()).await.0, 201);
        let (code, answer) = ask(&client, Method::DELETE, path, None).await;
        assert_eq!((code, &answer["status"]["phase"]), (200, &json!("Terminating")));
        assert_eq!(server.store().len("pods"), 0, "it is emptied at once");
        let (code, answer) = post(&client, pods, own).await;
        if code != 404 {
            assert_eq!(code, 403);
            let why = answer["message"].as_str().expect("it says why");
            assert!(why.contains("because it is being terminated"), "{why}");
        }
        if goes {
            until("the end of the namespace", || {
                server.store().get("namespaces", "", "team").is_none()
            })
            .await;
        } else {
            assert_eq!(get(&client, path).await.0, 200);
        }
    }
}
