//! The plugin in a whole scheduler: what it writes, and how it handles each answer.

#[path = "../../common/program.rs"]
#[allow(dead_code, reason = "each example needs a part of it")]
mod program;

use plimsoll_testserver::{CustomKind, FaultKind, InjectedFault, Options, Right, TestServer, User};
use program::{Program, node, node_of, pod, unscheduled, wait_for};
use serde_json::{Value, json};

const NETWORK_ATTACH: Program =
    Program { binary: env!("CARGO_BIN_EXE_network-attach"), folder: env!("CARGO_MANIFEST_DIR") };

const PLURAL: &str = "networkattachments";

#[test]
fn bench_decides_alike_with_both_engines() {
    NETWORK_ATTACH.benched("DefaultTopologySpreading");
}

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
fn the_permissions_that_the_plugin_needs_are_printed() {
    let role = Program::printed(NETWORK_ATTACH.command().args(["plugins", "--rbac"]));
    let rules = role.split_once("rules:\n").expect("there are rules").1;
    let expected = [
        "- apiGroups: [\"example.com\"]",
        "  resources: [\"networkattachments\"]",
        "  verbs: [\"get\", \"list\", \"watch\", \"create\", \"delete\"]",
    ];
    assert_eq!(rules.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn wrong_args_are_reported_with_file_line_and_field() {
    let field = "profiles[0].pluginConfig[0].args.timeoutSeconds";
    NETWORK_ATTACH.refuses("timeoutSeconds: 30", "timeoutSeconds: soon", 11, field);
}

fn server() -> TestServer {
    server_with(Vec::new())
}

fn server_with(users: Vec<User>) -> TestServer {
    let attachments = CustomKind {
        api_version: "example.com/v1".to_owned(),
        kind: "NetworkAttachment".to_owned(),
        plural: PLURAL.to_owned(),
        namespaced: true,
    };
    let server =
        TestServer::start(Options { custom: vec![attachments], users, ..Options::default() });
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
fn metrics_and_the_configuration_in_use_tell_of_the_plugin() {
    let token = "t0k3n-of-prometheus";
    let users = vec![User {
        token: token.to_owned(),
        name: "prometheus".to_owned(),
        groups: Vec::new(),
        rights: vec![Right::on_paths(&["/metrics", "/configz"], &["get"])],
    }];
    let server = server_with(users);
    let (_running, client) = NETWORK_ATTACH.run_with_client(&server, token);
    let page = |path: &str| client.get(path).expect("it answers").body;
    controller_says(&server, &json!({"ready": true}));
    assert_eq!(wait_for(|| node_of(&server, "web")), "a");
    let own = wait_for(|| {
        let metrics = page("/metrics");
        let lines = metrics.lines().filter(|line| line.contains("network_attach_"));
        let own: Vec<_> = lines.map(str::to_owned).collect();
        (!own.is_empty()).then_some(own)
    });
    assert_eq!(
        own,
        [
            "# HELP network_attach_attachments_total [ALPHA] Number of attachments of pods to networks, by result.",
            "# TYPE network_attach_attachments_total counter",
            "network_attach_attachments_total{result=\"ready\"} 1",
        ]
    );
    // Its points are measured like those of other plugins: in one cycle of ten, PreBind in each.
    let measured = "scheduler_plugin_evaluation_total";
    assert!(page("/metrics").contains(measured), "{measured}");
    let in_use: Value = serde_json::from_str(&page("/configz")).expect("it is JSON");
    let profile = &in_use["componentconfig"]["profiles"][0];
    let configs = profile["pluginConfig"].as_array().expect("there are args");
    let own =
        configs.iter().find(|one| one["name"] == "NetworkAttach").expect("its args are among them");
    assert_eq!(own["args"]["timeoutSeconds"], 30);
    let enabled =
        profile["plugins"]["multiPoint"]["enabled"].as_array().expect("plugins are enabled");
    assert!(enabled.iter().any(|one| one["name"] == "NetworkAttach"), "{enabled:?}");
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
    let refusal =
        InjectedFault::every(1, FaultKind::Status(403)).verbs(&["create"]).resources(&[PLURAL]);
    server.faults().add(refusal.times(1));
    let _running = NETWORK_ATTACH.run(&server);
    let why = wait_for(|| unscheduled(&server, "web"));
    assert!(why.starts_with("running PreBind plugin \"NetworkAttach\": "), "{why}");
    controller_says(&server, &json!({"ready": true}));
    assert_eq!(wait_for(|| node_of(&server, "web")), "a");
}
