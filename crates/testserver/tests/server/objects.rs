//! Objects over the API: created, read, changed, deleted, with the conflicts of kube-apiserver.

use super::kit::{ask, binding, client, get, node, patch, pod, post};
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use plimsoll_testserver::{Options, TestServer};
use serde_json::json;

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn kube_rs_creates_reads_changes_and_deletes_over_tls_and_plain() {
    for options in [Options::default(), Options::default().plain()] {
        let server = TestServer::start(options);
        let client = client(&server).await;
        let nodes: Api<Node> = Api::all(client.clone());
        let wanted: Node = serde_json::from_value(node("n1")).expect("a node");
        let created = nodes.create(&PostParams::default(), &wanted).await.expect("created");
        assert!(created.metadata.uid.is_some() && created.metadata.creation_timestamp.is_some());
        let allocatable = created.status.and_then(|status| status.allocatable).expect("a default");
        assert_eq!(allocatable["cpu"].0, "4");

        let change = json!({"metadata": {"labels": {"zone": "z1"}}});
        nodes.patch("n1", &PatchParams::default(), &Patch::Merge(change)).await.expect("patched");
        let listed = nodes.list(&ListParams::default().labels("zone in (z1,z2)")).await;
        assert_eq!(listed.expect("listed").items.len(), 1);

        nodes.delete("n1", &DeleteParams::default()).await.expect("deleted");
        let gone = nodes.get("n1").await.expect_err("it is gone");
        assert!(gone.to_string().contains("nodes \"n1\" not found"), "{gone}");
    }
}

#[tokio::test]
async fn errors_are_those_of_kube_apiserver() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let (code, status) = get(&client, &format!("{PODS}/p")).await;
    assert_eq!(code, 404);
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound",
            "message": "pods \"p\" not found", "details": {"name": "p", "kind": "pods"}, "code": 404,
        })
    );
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let (_, status) = get(&client, lease).await;
    assert_eq!(status["message"], "leases.coordination.k8s.io \"l\" not found");
    assert_eq!(status["details"]["group"], "coordination.k8s.io");

    assert_eq!(post(&client, PODS, pod("p")).await.0, 201);
    let (code, status) = post(&client, PODS, pod("p")).await;
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
    assert_eq!(status["message"], "pods \"p\" already exists");

    let (code, status) = post(&client, "/api/v1/namespaces/nowhere/pods", {
        let mut pod = pod("p");
        pod["metadata"]["namespace"] = "nowhere".into();
        pod
    })
    .await;
    assert_eq!((code, &status["message"]), (404, &json!("namespaces \"nowhere\" not found")));

    let (code, status) = post(&client, PODS, json!({"metadata": {"name": "Big"}})).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    assert_eq!(status["details"]["causes"][1]["field"], "spec.containers");
    let (code, _) = get(&client, "/apis/nothing.io/v1/things").await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn an_update_of_an_old_version_is_a_conflict() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    server.store().apply(node("n")).expect("stored");
    let (_, mut old) = get(&client, "/api/v1/nodes/n").await;
    old["metadata"]["labels"] = json!({"a": "1"});
    let (code, new) = ask(&client, Method::PUT, "/api/v1/nodes/n", Some(old.clone())).await;
    assert_eq!(code, 200);
    assert_ne!(new["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]);
    let (code, status) = ask(&client, Method::PUT, "/api/v1/nodes/n", Some(old.clone())).await;
    assert_eq!(code, 409);
    assert_eq!(
        status["message"],
        "Operation cannot be fulfilled on nodes \"n\": the object has been modified; please apply your changes to \
         the latest version and try again"
    );
    old["metadata"]["resourceVersion"] = new["metadata"]["resourceVersion"].clone();
    old["metadata"]["uid"] = "another".into();
    let (code, status) = ask(&client, Method::PUT, "/api/v1/nodes/n", Some(old)).await;
    assert_eq!(code, 409);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("Precondition failed: UID in precondition: another"), "{message}");
}

#[tokio::test]
async fn a_change_that_changes_nothing_is_no_write() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    server.store().apply(node("n")).expect("stored");
    let version = server.store().resource_version();
    let nothing = json!({"status": {"allocatable": {"cpu": "4"}}});
    let (code, _) =
        patch(&client, "/api/v1/nodes/n/status", "strategic-merge-patch", nothing).await;
    assert_eq!(code, 200);
    assert_eq!(server.store().resource_version(), version);
}

#[tokio::test]
async fn spec_and_status_are_written_apart() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let mut born_running = pod("p");
    born_running["status"] = json!({"phase": "Running"});
    let (_, created) = post(&client, PODS, born_running).await;
    assert_eq!(created["status"]["phase"], "Pending");

    let both = json!({"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}});
    let (_, whole) = patch(&client, &format!("{PODS}/p"), "merge-patch", both.clone()).await;
    assert_eq!(
        (&whole["status"]["phase"], &whole["metadata"]["labels"]["a"]),
        (&json!("Pending"), &json!("b"))
    );
    let (_, status) = patch(&client, &format!("{PODS}/p/status"), "merge-patch", both).await;
    assert_eq!(status["status"]["phase"], "Running");

    let moved = json!({"spec": {"nodeName": "n"}});
    let (code, refused) = patch(&client, &format!("{PODS}/p"), "merge-patch", moved).await;
    assert_eq!((code, &refused["details"]["causes"][0]["field"]), (422, &json!("spec")));
}

#[tokio::test]
async fn a_condition_is_patched_by_its_type() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let mut waiting = pod("p");
    waiting["status"] = json!({"conditions": [{"type": "Other", "status": "True"}]});
    server.store().apply(waiting).expect("stored");
    let change = json!({"status": {
        "$setElementOrder/conditions": [{"type": "Other"}, {"type": "PodScheduled"}],
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}],
        "nominatedNodeName": "n",
    }});
    let path = format!("{PODS}/p/status");
    let (code, pod) = patch(&client, &path, "strategic-merge-patch", change).await;
    assert_eq!(code, 200);
    assert_eq!(pod["status"]["conditions"][0]["type"], "Other");
    assert_eq!(pod["status"]["conditions"][1]["reason"], "Unschedulable");
    assert_eq!(pod["status"]["nominatedNodeName"], "n");
    let gone = json!([{"op": "test", "path": "/status/phase", "value": "Failed"}]);
    assert_eq!(patch(&client, &path, "json-patch", gone).await.0, 422);
    let (code, status) = patch(&client, &path, "apply-patch", json!({})).await;
    assert_eq!((code, &status["reason"]), (415, &json!("UnsupportedMediaType")));
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let mut waiting = pod("p");
    waiting["status"] = json!({
        "phase": "Pending", "nominatedNodeName": "n",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    });
    server.store().apply(waiting).expect("stored");
    let mut zoned = node("n");
    zoned["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "z", "other": "o"});
    server.store().apply(zoned).expect("stored");

    let path = format!("{PODS}/p/binding");
    let mut wrong = binding("p", "n");
    wrong["metadata"]["uid"] = "of another".into();
    let (code, status) = post(&client, &path, wrong).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));

    let (code, status) = post(&client, &path, binding("p", "n")).await;
    assert_eq!((code, &status["status"]), (201, &json!("Success")));
    let bound = server.store().get("pods", "default", "p").expect("the pod");
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(bound["status"].get("nominatedNodeName"), None);
    assert_eq!(bound["metadata"]["labels"], json!({"topology.kubernetes.io/zone": "z"}));
    let condition = &bound["status"]["conditions"][0];
    assert_eq!((&condition["status"], condition.get("reason")), (&json!("True"), None));

    let (code, status) = post(&client, &path, binding("p", "m")).await;
    assert_eq!(code, 409);
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict",
            "message": "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\"",
            "details": {"name": "p", "kind": "pods/binding"}, "code": 409,
        })
    );
    let (code, status) = post(&client, &format!("{PODS}/q/binding"), binding("q", "n")).await;
    assert_eq!((code, &status["message"]), (404, &json!("pods \"q\" not found")));

    let bindings = server.counts().bindings();
    assert_eq!(bindings.values().collect::<Vec<_>>(), [&vec!["n".to_owned()]]);
    assert_eq!(server.counts().requests("create", "pods/binding"), 4);
    let log = server.counts().log();
    let last = log.last().expect("something was written");
    assert_eq!((&*last.resource, last.node.as_deref()), ("pods/binding", Some("n")));
}

#[tokio::test]
async fn a_gated_or_terminating_pod_is_not_bound() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
    gated["spec"]["nodeSelector"] = json!({"a": "b"});
    server.store().apply(gated).expect("stored");
    let (code, status) =
        post(&client, &format!("{PODS}/gated/binding"), binding("gated", "n")).await;
    assert_eq!(code, 409);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("pod gated has non-empty .spec.schedulingGates"), "{message}");
    let open = json!({"spec": {"schedulingGates": null}});
    assert_eq!(patch(&client, &format!("{PODS}/gated"), "merge-patch", open).await.0, 200);

    let mut held = pod("held");
    held["metadata"]["finalizers"] = json!(["a/b"]);
    server.store().apply(held).expect("stored");
    assert_eq!(ask(&client, Method::DELETE, &format!("{PODS}/held"), None).await.0, 200);
    let (code, status) = post(&client, &format!("{PODS}/held/binding"), binding("held", "n")).await;
    assert_eq!(code, 409);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("is being deleted, cannot be assigned to a host"), "{message}");
    let free = json!({"metadata": {"finalizers": null}});
    patch(&client, &format!("{PODS}/held"), "merge-patch", free).await;
    assert_eq!(get(&client, &format!("{PODS}/held")).await.0, 404);
}

#[tokio::test]
async fn a_deletion_may_say_which_object_it_means() {
    let server = TestServer::start(Options::default().plain());
    let pods: Api<Pod> = Api::default_namespaced(client(&server).await);
    server.store().apply(pod("p")).expect("stored");
    let with = |uid: &str| DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::default()
    };
    let refused = pods.delete("p", &with("another")).await.expect_err("another pod");
    assert!(refused.to_string().contains("The object might have been deleted and then recreated"));
    let uid = pods.get("p").await.expect("it is there").metadata.uid.expect("it has a uid");
    pods.delete("p", &with(&uid)).await.expect("deleted");
    assert_eq!(server.store().len("pods"), 0);
}

#[tokio::test]
async fn a_lease_is_taken_by_whoever_updates_it_first() {
    let server = TestServer::start(Options::default().plain());
    let leases: Api<Lease> = Api::namespaced(client(&server).await, "kube-system");
    let lease = json!({
        "metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "renewTime": "2026-01-01T00:00:00.000001Z"},
    });
    let lease: Lease = serde_json::from_value(lease).expect("a lease");
    let seen = leases.create(&PostParams::default(), &lease).await.expect("created");
    let by = |holder: &str| {
        let mut lease = seen.clone();
        lease.spec.get_or_insert_default().holder_identity = Some(holder.to_owned());
        lease
    };
    leases.replace("l", &PostParams::default(), &by("b")).await.expect("first");
    let late = leases.replace("l", &PostParams::default(), &by("c")).await.expect_err("second");
    assert!(late.to_string().contains("the object has been modified"), "{late}");
    let unversioned = leases.replace("l", &PostParams::default(), &lease).await;
    let refused = unversioned.expect_err("no version").to_string();
    assert!(refused.contains("metadata.resourceVersion: Invalid value: 0x0"), "{refused}");
}

#[tokio::test]
async fn an_event_is_seen_from_both_groups() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let event = json!({
        "metadata": {"generateName": "p."}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Binding",
        "reason": "Scheduled", "type": "Normal", "note": "text", "reportingController": "default-scheduler",
        "reportingInstance": "i", "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    });
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (code, created) = post(&client, path, event).await;
    assert_eq!((code, &created["note"]), (201, &json!("text")));
    assert_eq!(created["apiVersion"], "events.k8s.io/v1");
    let classic: Api<Event> = Api::default_namespaced(client.clone());
    let about = "involvedObject.name=p,involvedObject.kind=Pod";
    let seen = classic.list(&ListParams::default().fields(about)).await.expect("listed").items;
    assert_eq!(seen[0].message.as_deref(), Some("text"));
    let name = seen[0].metadata.name.clone().expect("a name");
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}});
    let (code, event) =
        patch(&client, &format!("{path}/{name}"), "strategic-merge-patch", series).await;
    assert_eq!((code, &event["series"]["count"]), (200, &json!(2)));
    assert_eq!(event["regarding"]["name"], "p");
    let (_, list) = get(&client, &format!("{path}?fieldSelector=regarding.name=q")).await;
    assert_eq!(list["items"], json!([]));
}
