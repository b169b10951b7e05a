//! Journals of `simulate` and `run`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testserver::{Options, TestServer};
use serde_json::{Value, json};

use crate::run::{check_refused, run};

/// Far longer than anything takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, resources: {requests: {cpu: '1'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, resources: {requests: {cpu: '9'}}}]}
";

#[track_caller]
fn ask(file: &std::path::Path, question: &str) -> Value {
    let answer = run(&[], &format!("journal {} {question} -o json", file.display()));
    assert_eq!((answer.status, answer.err.as_str()), (0, ""));
    serde_json::from_str(&answer.out).expect("it is one document")
}

#[test]
fn a_simulation_with_all_nodes_writes_scores_and_reasons() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("decisions.db");
    let line = format!("simulate -f a.yaml --explain -o json --journal {}", file.display());
    let with = run(&[("a.yaml", CLUSTER)], &line);
    assert!(with.err.ends_with("wrote 3 entries\n"), "{}", with.err);
    let without = run(&[("a.yaml", CLUSTER)], "simulate -f a.yaml --explain -o json");
    assert_eq!(with.out, without.out, "the journal changes no decision");
    let web = ask(&file, "pod web");
    assert_eq!((&web[0]["node"], &web[0]["feasible"]), (&json!("n1"), &json!(2)));
    assert!(web[0]["margin"].is_number() && web[0]["answeredAt"].is_number(), "{web}");
    let huge = ask(&file, "pod default/huge");
    let expected =
        json!([{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 2}]);
    assert_eq!(huge[0]["rejections"], expected);
    assert_eq!(ask(&file, "hours")[0]["scheduled"], 1);
}

#[test]
fn wrong_files_are_refused() {
    check_refused(
        &[("notes.txt", &"this is no journal ".repeat(99))],
        "journal notes.txt slowest",
        &expect_test::expect![[r#"
            error: notes.txt is not a journal of decisions: name another file
        "#]],
    );
    check_refused(
        &[],
        "journal none.db slowest",
        &expect_test::expect![[r#"
        error: none.db does not exist: `plimsoll run --journal FILE` and `plimsoll simulate --journal FILE` write one
    "#]],
    );
    check_refused(
        &[("a.yaml", CLUSTER), ("notes.txt", &"this is no journal ".repeat(99))],
        "simulate -f a.yaml --journal notes.txt",
        &expect_test::expect![[r#"
            error: notes.txt is not a journal of decisions: name another file
        "#]],
    );
}

#[test]
fn run_writes_every_attempt_and_its_binding_and_a_kill_leaves_them() {
    let server = TestServer::start(Options::default());
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let mut node = object("Node", "n1");
    node["status"] = json!({"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "50"}});
    server.store().apply(node).expect("it is valid");
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("decisions.db");
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "--secure-port=0", "--leader-elect=false", "--kubeconfig"])
        .arg(server.kubeconfig_file().expect("there is room"))
        .arg("--journal")
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    for (number, cpu) in [(0, "1"), (1, "1"), (2, "100")] {
        let mut pod = object("Pod", &format!("p{number}"));
        pod["metadata"]["namespace"] = json!("default");
        pod["spec"] = json!({"containers": [{
            "name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}},
        }]});
        server.store().apply(pod).expect("it is valid");
    }
    let begun = Instant::now();
    let is_written = || {
        file.exists() && {
            let answer = run(&[], &format!("journal {} slowest -o json", file.display()));
            let pods: Value = serde_json::from_str(&answer.out).unwrap_or_default();
            pods.as_array().is_some_and(|pods| pods.len() == 2)
        }
    };
    while !is_written() {
        assert!(begun.elapsed() < PATIENCE, "two pods are bound");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    let bound = ask(&file, "pod p1");
    assert_eq!((&bound[0]["node"], &bound[0]["number"]), (&json!("n1"), &json!(1)));
    let failed = ask(&file, "pod p2");
    assert_eq!(failed[0]["result"], "unschedulable");
    assert_eq!(failed[0]["rejections"], json!([{"plugin": "NodeResourcesFit"}]));
}
