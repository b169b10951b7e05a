//! The plugin in a whole scheduler, with its own kind of objects.

#[path = "../../common/program.rs"]
#[allow(dead_code, reason = "each example needs a part of it")]
mod program;

use plimsoll_testserver::{CustomKind, Options, TestServer};
use program::{Program, node, node_of, pod, unscheduled, wait_for};
use serde_json::{Value, json};

const TEAM_QUOTA: Program =
    Program { binary: env!("CARGO_BIN_EXE_team-quota"), folder: env!("CARGO_MANIFEST_DIR") };

const EXCEEDED: &str = "TeamQuota of namespace team-a is used up: 1 of 1 pods";

#[test]
fn bench_decides_alike_with_both_engines() {
    TEAM_QUOTA.benched("DefaultTopologySpreading");
}

#[test]
fn simulate_reads_the_quota_from_files_and_enforces_it() {
    let decisions = TEAM_QUOTA.simulated();
    let node_of = |pod: &str| {
        let of_pod = decisions.iter().rev().find(|one| one["pod"] == pod);
        of_pod.map(|one| one["node"].clone()).unwrap_or_default()
    };
    assert_eq!(node_of("team-a/urgent"), "a", "{decisions:?}");
    assert_eq!(node_of("team-b/other"), "a", "{decisions:?}");
    assert_eq!([node_of("team-a/web-1"), node_of("team-a/web-2")], [Value::Null, Value::Null]);
    let rejected = decisions.iter().find(|one| one["pod"] == "team-a/web-2");
    let message = rejected.and_then(|one| one["message"].as_str()).unwrap_or_default();
    assert!(message.contains("is used up: 2 of 1 pods"), "{message}");
}

#[test]
fn a_recording_has_the_quotas() {
    let folder = tempfile::tempdir().expect("there is room");
    let recording = folder.path().join("recording");
    let mut command = TEAM_QUOTA.command();
    command.args(["simulate", "--config"]).arg(TEAM_QUOTA.file("config.yaml")).arg("-f");
    Program::printed(command.arg(TEAM_QUOTA.file("cluster.yaml")).arg("--record").arg(&recording));
    let mut command = TEAM_QUOTA.command();
    let printed = Program::printed(command.args(["replay", "--engine", "both"]).arg(&recording));
    let n_same = printed.matches("all decisions are the same as recorded").count();
    assert_eq!(n_same, 2, "{printed}");
}

#[test]
fn explain_says_why() {
    let mut command = TEAM_QUOTA.command();
    command.args(["explain", "--pod", "team-a/web-1", "--config"]);
    command.arg(TEAM_QUOTA.file("config.yaml")).arg("-f").arg(TEAM_QUOTA.file("cluster.yaml"));
    let full = Program::printed(&mut command);
    assert!(full.contains(EXCEEDED), "{full}");
}

#[test]
fn an_unreadable_quota_is_reported_with_file_line_and_field() {
    let text = std::fs::read_to_string(TEAM_QUOTA.file("cluster.yaml")).expect("it is there");
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("cluster.yaml");
    std::fs::write(&file, text.replace("spec: {pods: 1}", "spec: {pods: one}")).expect("room");
    let mut command = TEAM_QUOTA.command();
    command.args(["simulate", "--config"]).arg(TEAM_QUOTA.file("config.yaml"));
    let output = command.arg("-f").arg(&file).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cluster.yaml:10: TeamQuota team-a/quota: spec.pods: "), "{said}");
}

#[test]
fn it_is_listed_with_the_kind_that_it_reads() {
    let listed = Program::printed(TEAM_QUOTA.command().args(["plugins", "--output", "json"]));
    let listed: Value = serde_json::from_str(&listed).expect("it is JSON");
    let rows = listed.as_array().expect("there are some");
    let row = rows.iter().find(|row| row["name"] == "TeamQuota").expect("it is listed");
    let reads = row["reads"].as_str().unwrap_or_default();
    assert!(reads.ends_with("cluster: teamquotas"), "{reads}");
}

#[test]
fn wrong_args_are_reported_with_file_line_and_field() {
    let field = "profiles[0].pluginConfig[0].args.exemptFromPriority";
    TEAM_QUOTA.refuses("exemptFromPriority: 1000", "exemptFromPriority: high", 11, field);
}

fn quota(pods: u32) -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "TeamQuota",
        "metadata": {"name": "quota", "namespace": "team-a"},
        "spec": {"pods": pods},
    })
}

#[test]
fn run_tries_a_pod_again_once_the_quota_has_grown() {
    let teamquotas = CustomKind {
        api_version: "example.com/v1".to_owned(),
        kind: "TeamQuota".to_owned(),
        plural: "teamquotas".to_owned(),
        namespaced: true,
    };
    let server = TestServer::start(Options { custom: vec![teamquotas], ..Options::default() });
    let none = json!({});
    let bound = {
        let mut bound = pod("team-a", "bound", &none);
        bound["spec"]["nodeName"] = json!("a");
        bound
    };
    let objects = [node("a", &none), quota(1), bound, pod("team-a", "web", &none)];
    server.store().apply_all(objects).expect("they are valid");
    let _running = TEAM_QUOTA.run(&server);
    let why = wait_for(|| unscheduled(&server, "web"));
    assert!(why.contains(EXCEEDED), "{why}");
    server.store().apply(quota(2)).expect("it is valid");
    assert_eq!(wait_for(|| node_of(&server, "web")), "a");
}
