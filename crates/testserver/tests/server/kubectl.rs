//! kubectl: the exact requests that it makes, and the program itself where it is installed.

use std::process::{Command, Output};

use http::{Method, header};
use plimsoll_testserver::{Options, TestServer};
use serde_json::{Value, json};

use super::kit::{binding, client, node, pod, post, send};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// What `kubectl get` accepts.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
application/json";

async fn table(client: &kube::Client, path: &str) -> Value {
    let response = send(client, Method::GET, path, TABLE, None).await;
    assert_eq!(response.status(), 200);
    let bytes = response.into_body().collect_bytes().await.expect("the body arrives");
    serde_json::from_slice(&bytes).expect("a table is JSON")
}

#[tokio::test]
async fn kubectl_get_prints_rows_and_columns() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    server.store().apply(node("n")).expect("stored");
    server.store().apply(pod("p")).expect("stored");
    post(&client, &format!("{PODS}/p/binding"), binding("p", "n")).await;
    let pods = table(&client, &format!("{PODS}?limit=500")).await;
    assert_eq!((&pods["kind"], &pods["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let columns = pods["columnDefinitions"].as_array().expect("columns");
    let names: Vec<&str> =
        columns.iter().map(|column| column["name"].as_str().unwrap_or_default()).collect();
    assert_eq!(names[..5], ["Name", "Ready", "Status", "Restarts", "Age"]);
    let cells = pods["rows"][0]["cells"].as_array().expect("cells");
    assert_eq!(cells[..4], [json!("p"), json!("0/1"), json!("Pending"), json!("0")]);
    assert_eq!(cells[6], "n");
    assert_eq!(pods["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(pods["rows"][0]["object"]["metadata"]["name"], "p");
    let nodes = table(&client, "/api/v1/nodes/n").await;
    assert_eq!(nodes["rows"][0]["cells"][1], "Unknown");
    let leases = table(&client, "/apis/coordination.k8s.io/v1/leases").await;
    assert_eq!(leases["rows"], json!([]));
}

#[tokio::test]
async fn answers_in_protobuf_are_not_to_be_had() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let protobuf = "application/vnd.kubernetes.protobuf";
    assert_eq!(send(&client, Method::GET, PODS, protobuf, None).await.status(), 406);
    let either = format!("{protobuf},application/json");
    let response = send(&client, Method::GET, PODS, &either, None).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    // The body is not protobuf, whatever its content type says.
    let body = Some((protobuf, pod("p")));
    assert_eq!(send(&client, Method::POST, PODS, &either, body).await.status(), 415);
}

#[tokio::test]
async fn kubectl_describe_finds_the_events_of_an_object() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default", "uid": "u"}, "reason": "Scheduled",
        "message": "m", "type": "Normal", "source": {"component": "s"},
    });
    server.store().apply(event).expect("stored");
    let about = "involvedObject.name%3Dp%2CinvolvedObject.namespace%3Ddefault%2CinvolvedObject.kind%3DPod%2C\
                 involvedObject.uid%3Du";
    let path = format!("/api/v1/namespaces/default/events?fieldSelector={about}&limit=500");
    let (_, list) = super::kit::get(&client, &path).await;
    assert_eq!(list["items"][0]["reason"], "Scheduled");
    let on_node = "spec.nodeName%3Dn%2Cstatus.phase%21%3DFailed%2Cstatus.phase%21%3DSucceeded";
    let (code, _) =
        super::kit::get(&client, &format!("/api/v1/pods?fieldSelector={on_node}&limit=500")).await;
    assert_eq!(code, 200);
}

/// Runs the program against a server, with its own home directory.
fn kubectl(server: &TestServer, home: &std::path::Path, args: &[&str]) -> Output {
    let config = server.kubeconfig_file().expect("the kubeconfig can be written");
    let run = Command::new("kubectl")
        .args(args)
        .env("KUBECONFIG", config)
        .env("HOME", home)
        .output()
        .expect("kubectl is installed");
    assert!(run.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&run.stderr));
    run
}

#[test]
#[ignore = "needs kubectl"]
fn kubectl_creates_gets_describes_and_deletes() {
    let server = TestServer::start(Options::default());
    server.store().apply(node("n")).expect("stored");
    let home = tempfile::tempdir().expect("a directory");
    let manifest = home.path().join("p.json");
    std::fs::write(&manifest, pod("p").to_string()).expect("written");
    let manifest = manifest.to_str().expect("a plain path");
    // The width of the columns does not matter.
    let text = |args: &[&str]| {
        let out = String::from_utf8(kubectl(&server, home.path(), args).stdout);
        let out = out.expect("kubectl prints text");
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(text(&["create", "-f", manifest]), "pod/p created");
    assert!(text(&["get", "pods"]).contains("p 0/1 Pending 0"));
    assert!(text(&["get", "nodes"]).contains("n Unknown <none>"));
    assert!(text(&["describe", "pod", "p"]).contains("Status: Pending"));
    assert!(text(&["describe", "node", "n"]).contains("Capacity:"));
    assert_eq!(text(&["label", "pod", "p", "a=b"]), "pod/p labeled");
    assert_eq!(text(&["apply", "-f", manifest]), "pod/p configured");
    assert_eq!(text(&["cordon", "n"]), "node/n cordoned");
    // These come in protobuf.
    assert_eq!(text(&["create", "namespace", "team"]), "namespace/team created");
    let literal = ["create", "configmap", "c", "--from-literal=a=b", "-n", "team"];
    assert_eq!(text(&literal), "configmap/c created");
    assert_eq!(text(&["get", "configmap", "c", "-n", "team", "-o", "jsonpath={.data.a}"]), "b");
    let image = ["create", "deployment", "d", "--image=i", "--replicas=3", "-n", "team"];
    assert_eq!(text(&image), "deployment.apps/d created");
    let deployment = server.store().get("deployments", "team", "d").expect("it is stored");
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "i");
    assert_eq!(text(&["auth", "can-i", "list", "pods"]), "yes");
    let mut placed = pod("placed");
    placed["spec"]["nodeName"] = "n".into();
    placed["status"] = json!({"phase": "Running"});
    server.store().apply(placed).expect("stored");
    assert!(text(&["drain", "n", "--force"]).ends_with("pod/placed evicted node/n drained"));
    assert!(text(&["delete", "namespace", "team"]).contains("deleted"));
    assert_eq!(text(&["delete", "pod", "p"]), "pod \"p\" deleted");
    assert_eq!(server.store().len("pods"), 0);
}
