//! The plugin in a whole scheduler: what it writes, and how it handles each answer.

#[path = "../../common/program.rs"]
#[allow(dead_code, reason = "each example needs a part of it")]
mod program;

use plimsoll_testserver::{CustomKind, Fault, Options, TestServer, Trouble};
use program::{Program, node, node_of, pod, unscheduled, wait_for};
use serde_json::{Value, json};

const NETWORK_ATTACH: Program =
    Program { binary: env!("CARGO_BIN_EXE_network-attach"), folder: env!("CARGO_MANIFEST_DIR") };

const PLURAL: &str = "networkattachments";

#[test]
fn simulate_binds_attached_pods_and_rejects_others_after_the_timeout() {
    let decisions = NETWORK_ATTACH.simulated();
    let of_pod = |pod: &str| decisions.iter().filter(|one| one["pod"] == pod).collect::<Vec<_>>();
    for bound in ["default/attached", "default/plain"] {
        let decisions = of_pod(bound);
        assert_eq!(decisions.len(), 1, "{decisions:?}");
        assert_eq!(decisions[0]["node"], "a");
    }
    let waiting = of_pod("default/waiting");
    let message = waiting.get(1).and_then(|one| one["message"].as_str()).unwrap_or_default();
    assert_eq!(message, "the network was not attached within 30 s", "{waiting:?}");
}

#[test]
fn wrong_args_are_reported_with_file_line_and_field() {
    let field = "profiles[0].pluginConfig[0].args.timeoutSeconds";
    NETWORK_ATTACH.refuses("timeoutSeconds: 30", "timeoutSeconds: soon", 11, field);
}

fn server() -> TestServer {
    let attachments = CustomKind {
        api_version: "example.com/v1".to_owned(),
        kind: "NetworkAttachment".to_owned(),
        plural: PLURAL.to_owned(),
        namespaced: true,
    };
    let server = TestServer::start(Options { custom: vec![attachments], ..Options::default() });
    let objects =
        [node("a", &json!({})), pod("default", "web", &json!({"example.com/network": "blue"}))];
    server.store().apply_all(objects).expect("they are valid");
    server
}

fn attachment(server: &TestServer) -> Option<Value> {
    server.store().get(PLURAL, "default", "web")
}

/// Sets the status of the attachment once it exists, as a network controller does.
fn controller_says(server: &TestServer, status: &Value) {
    let mut seen = wait_for(|| attachment(server));
    seen["status"] = status.clone();
    server.store().apply(seen).expect("it is valid");
}

#[test]
fn a_pod_is_bound_once_its_network_is_ready() {
    let server = server();
    let _running = NETWORK_ATTACH.run(&server);
    let made = wait_for(|| attachment(&server));
    assert_eq!((&made["spec"]["node"], &made["spec"]["network"]), (&json!("a"), &json!("blue")));
    assert_eq!(node_of(&server, "web"), None);
    controller_says(&server, &json!({"ready": true}));
    assert_eq!(wait_for(|| node_of(&server, "web")), "a");
    assert!(attachment(&server).is_some());
}

#[test]
fn the_error_of_a_network_is_reported_and_its_attachment_deleted() {
    let server = server();
    let _running = NETWORK_ATTACH.run(&server);
    controller_says(&server, &json!({"error": "no addresses are left"}));
    let why = wait_for(|| unscheduled(&server, "web"));
    assert_eq!(why, "the network is not attached: no addresses are left");
    // The next attempt creates another one.
    controller_says(&server, &json!({"ready": true}));
    assert_eq!(wait_for(|| node_of(&server, "web")), "a");
}

#[test]
fn an_attachment_of_another_pod_is_a_conflict_and_stays() {
    let server = server();
    let other = json!({
        "apiVersion": "example.com/v1",
        "kind": "NetworkAttachment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"podUid": "another"},
    });
    server.store().apply(other).expect("it is valid");
    let _running = NETWORK_ATTACH.run(&server);
    let why = wait_for(|| unscheduled(&server, "web"));
    assert!(why.contains("networkattachments.example.com \"web\" already exists"), "{why}");
    let kept = attachment(&server).expect("it stays");
    assert_eq!(kept["spec"]["podUid"], "another");
    assert!(server.store().delete(PLURAL, "default", "web"));
    controller_says(&server, &json!({"ready": true}));
    assert_eq!(wait_for(|| node_of(&server, "web")), "a");
}

#[test]
fn a_refused_write_is_reported_and_the_pod_is_tried_again() {
    let server = server();
    let refusal = Fault::every(1, Trouble::Status(403)).verbs(&["create"]).resources(&[PLURAL]);
    server.faults().add(refusal.times(1));
    let _running = NETWORK_ATTACH.run(&server);
    let why = wait_for(|| unscheduled(&server, "web"));
    assert!(why.starts_with("running PreBind plugin \"NetworkAttach\": "), "{why}");
    controller_says(&server, &json!({"ready": true}));
    assert_eq!(wait_for(|| node_of(&server, "web")), "a");
}
