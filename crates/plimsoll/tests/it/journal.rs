//! Journals of `simulate` and `run`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testserver::{HttpsClient, Options, TestServer};
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
fn a_journal_says_why_a_pod_waits_and_what_it_cannot_say() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("decisions.db").display().to_string();
    let line = format!("simulate -f a.yaml --explain -o json --journal {file}");
    assert_eq!(run(&[("a.yaml", CLUSTER)], &line).status, 0);
    let why = |line: &str| {
        let answer = run(&[], &format!("why --journal {file} {line}"));
        assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{line}");
        answer.out
    };
    let huge: Value = serde_json::from_str(&why("huge -o json")).expect("it is one document");
    let expected = json!({
        "pod": "default/huge",
        "state": "unschedulable",
        "record": {
            "pod": "default/huge",
            "result": "unschedulable",
            "message": huge["record"]["message"],
        },
        "rejections": [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 2}],
        "waiting": {"since": "1970-01-01T00:00:00Z", "attempts": 1, "lastWokenBy": "UnscheduledPodAdd"},
        "asOf": "1970-01-01T00:00:00Z",
    });
    assert_eq!(huge, expected);
    let message = huge["record"]["message"].as_str().expect("it has one");
    assert!(message.starts_with("0/2 nodes are available: 2 Insufficient cpu."), "{message}");
    let text = why("huge");
    assert!(
        text.contains(message) && text.contains("2  NodeResourcesFit  Insufficient cpu"),
        "{text}"
    );
    assert!(text.contains("it cannot say what would have to change"), "{text}");
    let web: Value = serde_json::from_str(&why("web -o json")).expect("it is one document");
    assert_eq!((&web["state"], &web["node"]), (&json!("scheduled"), &json!("n1")));
    assert_eq!(web["runnerUp"]["node"], "n2");
    assert!(
        why("web").starts_with("default/web was bound to n1, as decided at 1970-01-01T00:00:00Z.")
    );
    let refused = run(&[], &format!("why --journal {file} shop/web"));
    assert_eq!(refused.status, 1);
    let said = refused.err.replace(&file, "FILE");
    let expected =
        "error: FILE: has no attempt to schedule pod shop/web: did you mean default/web?\n";
    assert_eq!(said, expected);
}

#[test]
fn a_preemption_is_told_to_the_victim_with_its_reason() {
    const FULL: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: low}
spec: {priority: 0, containers: [{name: c, resources: {requests: {cpu: '2'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: high, creationTimestamp: '1970-01-01T00:01:00Z'}
spec: {priority: 10, schedulingGates: [], containers: [{name: c, resources: {requests: {cpu: '1'}}}]}
";
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("decisions.db");
    // The first run places the less important pod, and the second one finds it on its node.
    let low: String = FULL.split("---\n").take(2).collect::<Vec<_>>().join("---\n");
    let line = format!("simulate -f a.yaml -o json --journal {}", file.display());
    assert_eq!(run(&[("a.yaml", low.as_str())], &line).status, 0);
    let placed = FULL.replace("spec: {priority: 0,", "spec: {priority: 0, nodeName: n1,");
    assert_eq!(run(&[("a.yaml", placed.as_str())], &line).status, 0);
    let preemptions = ask(&file, "preemptions --pod low");
    let expected = json!([{
        "at": preemptions[0]["at"], "victim": "default/low", "preemptor": "default/high", "node": "n1",
        "because": ["NodeResourcesFit"],
    }]);
    assert_eq!(preemptions, expected);
    let answer = run(&[], &format!("why --journal {} low -o json", file.display()));
    let low: Value = serde_json::from_str(&answer.out).expect("it is one document");
    assert_eq!(
        (&low["state"], &low["evicted"]["for"]),
        (&json!("scheduled"), &json!("default/high"))
    );
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
    let is_bound = |pod: &str| {
        let answer = run(&[], &format!("journal {} pod {pod} -o json", file.display()));
        let attempts: Value = serde_json::from_str(&answer.out).unwrap_or_default();
        attempts[0]["answeredAt"].is_number()
    };
    while !(file.exists() && is_bound("p0") && is_bound("p1")) {
        assert!(begun.elapsed() < PATIENCE, "two pods are bound");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    let bound = ask(&file, "pod p1");
    assert_eq!((&bound[0]["node"], &bound[0]["number"]), (&json!("n1"), &json!(1)));
    let failed = ask(&file, "pod p2");
    assert_eq!(failed[0]["result"], "unschedulable");
    let why = json!([{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 1}]);
    assert_eq!(failed[0]["rejections"], why);
}

#[test]
fn what_a_decision_from_memory_says_of_nodes_is_what_one_from_scratch_says() {
    const NODES: usize = 500;
    // In small clusters, and in the beginning, all nodes are scanned.
    let mut items: Vec<Value> = (0..NODES)
        .map(|number| {
            let cpu = (4 + number % 5).to_string();
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")},
                "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "50"}},
            })
        })
        .collect();
    items.extend((0..150).map(|number| {
        let cpu = if number % 10 == 9 { "20" } else { "700m" };
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p{number}"), "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        })
    }));
    let cluster = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let folder = tempfile::tempdir().expect("there is room");
    let attempts = |name: &str, flags: &str| {
        let file = folder.path().join(name);
        let line = format!("simulate -f a.json -o json {flags} --journal {}", file.display());
        assert_eq!(run(&[("a.json", &cluster)], &line).status, 0);
        let of_pod = |number: usize| ask(&file, &format!("pod default/p{number}"));
        (90..150).map(of_pod).collect::<Vec<Value>>()
    };
    let from_memory = attempts("memory.db", "");
    let from_scratch = attempts("scratch.db", "--explain");
    let (mut n_counted, mut n_rejected) = (0, 0);
    for (one, other) in from_memory.iter().zip(&from_scratch) {
        let (one, other) = (&one[0], &other[0]);
        assert_eq!(one["node"], other["node"], "{one}");
        if one["result"] == "scheduled" {
            for key in ["feasible", "margin"] {
                assert!(one[key].is_null() || one[key] == other[key], "{key}: {one} {other}");
            }
            n_counted += usize::from(one["feasible"].is_number() && one["margin"].is_number());
        } else {
            assert_eq!(one["rejections"], other["rejections"]);
            n_rejected += usize::from(one["rejections"][0]["nodes"] == NODES);
        }
    }
    assert!(20 < n_counted && n_rejected == 6, "{n_counted} have a margin, {n_rejected} reasons");
}

/// `plimsoll run` with a node and a pod.
struct Running {
    server: TestServer,
    process: std::process::Child,
}

impl Running {
    fn start(state_directory: &std::path::Path, flags: &[&str]) -> Self {
        let server = TestServer::start(Options::default());
        for name in ["n1", "n2"] {
            let node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "50"}},
            });
            server.store().apply(node).expect("it is valid");
        }
        let process = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["run", "--leader-elect=false", "--audit=1", "--kubeconfig"])
            .arg(server.kubeconfig_file().expect("there is room"))
            .args(flags)
            .env("STATE_DIRECTORY", state_directory)
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        Running { server, process }
    }

    /// Adds a pod and waits until it is bound.
    fn place(&self, name: &str) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
        });
        self.server.store().apply(pod).expect("it is valid");
        let begun = Instant::now();
        let is_bound = || {
            let pod = self.server.store().get("pods", "default", name);
            pod.is_some_and(|pod| pod["spec"]["nodeName"].is_string())
        };
        while !is_bound() {
            assert!(begun.elapsed() < PATIENCE, "in vain: {name} is bound");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn run_writes_a_journal_in_the_directory_of_the_service_unless_it_is_off() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("decisions.db");
    let off = Running::start(folder.path(), &["--secure-port=0", "--journal=off"]);
    off.place("a");
    drop(off);
    assert!(!file.exists(), "it is off");
    let on = Running::start(folder.path(), &["--secure-port=0"]);
    on.place("a");
    let begun = Instant::now();
    let answered = || {
        file.exists()
            && run(&[], &format!("journal {} pod a -o json", file.display()))
                .out
                .contains("answeredAt")
    };
    while !answered() {
        assert!(begun.elapsed() < PATIENCE, "in vain: the binding is written");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(on);
    // Every decision is audited, so that the scores of all nodes are there.
    let attempt = &ask(&file, "pod a")[0];
    assert_eq!((&attempt["feasible"], &attempt["margin"]), (&json!(2), &json!(0)));
    assert_eq!(attempt["best"][0]["node"], attempt["node"]);
    let fit = &attempt["best"][0]["byPlugin"]["NodeResourcesFit"];
    assert!(fit.as_i64().is_some_and(|score| 0 < score), "{attempt}");
}

#[test]
fn the_journal_of_run_has_metrics() {
    let folder = tempfile::tempdir().expect("there is room");
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let flags = [
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={}", folder.path().display()),
        "--authorization-always-allow-paths=/metrics".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let running = Running::start(folder.path(), &flags);
    running.place("a");
    let certificate = std::fs::read_to_string(folder.path().join("kube-scheduler.crt"));
    let client = HttpsClient::new(([127, 0, 0, 1], port).into(), &certificate.expect("it serves"));
    let client = client.expect("the certificate is right");
    let begun = Instant::now();
    let metric = |name: &str| -> Option<u64> {
        let told = client.get("/metrics").ok()?.body;
        let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.parse().ok()
    };
    // The attempt and the answer to its binding.
    while metric("plimsoll_journal_entries_total") != Some(2) {
        assert!(begun.elapsed() < PATIENCE, "in vain: two entries are written");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(metric("plimsoll_journal_lost_entries_total"), Some(0));
    assert_eq!(metric("plimsoll_journal_errors_total"), Some(0));
    assert!(metric("plimsoll_journal_size_bytes").is_some_and(|size| 4096 < size));
}

#[test]
fn the_smallest_change_goes_into_the_condition_and_the_event_of_a_pod() {
    let folder = tempfile::tempdir().expect("there is room");
    let running =
        Running::start(folder.path(), &["--secure-port=0", "--journal=off", "--why-in-events"]);
    running.place("a");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large", "namespace": "default"},
        "spec": {"priority": 0, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "9"}}},
        ]},
    });
    running.server.store().apply(pod).expect("it is valid");
    // Two devices for a pod, where there is one.
    let device = json!({"name": "gpu-0"});
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
    for object in [
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "slice"}, "spec": {
            "driver": "gpu.example.com", "allNodes": true, "devices": [device],
            "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
        }}),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "two", "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "claims", "namespace": "default"},
            "spec": {"priority": 0, "resourceClaims": [{"name": "gpus", "resourceClaimName": "two"}],
                "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpus"}]}}]}}),
    ] {
        running.server.store().apply(object).expect("it is valid");
    }
    let plain = "0/2 nodes are available: 2 Insufficient cpu.";
    let change = "Smallest change that would help: request 8 cpu instead of 9.";
    let is_told = |text: &str| text.starts_with(plain) && text.ends_with(change);
    let condition_of = |name: &str| {
        let pod = running.server.store().get("pods", "default", name).expect("it is there");
        pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    let conditions = || condition_of("large");
    let events = || -> Vec<String> {
        let events = running.server.store().list("events");
        let is_about = |event: &Value, name: &str| {
            event["regarding"]["name"] == name || event["involvedObject"]["name"] == name
        };
        let of_pod = events
            .iter()
            .filter(|event| event["reason"] == "FailedScheduling" && is_about(event, "large"));
        of_pod
            .map(|event| {
                event["note"].as_str().or(event["message"].as_str()).unwrap_or_default().to_owned()
            })
            .collect()
    };
    let begun = Instant::now();
    while !(is_told(&conditions()) && events().iter().any(|text| is_told(text))) {
        assert!(begun.elapsed() < PATIENCE, "in vain: {}: {:?}", conditions(), events());
        std::thread::sleep(Duration::from_millis(50));
    }
    let less = "Smallest change that would help: ask for 1 instead of 2 devices in request gpus of the claim two.";
    while !condition_of("claims").ends_with(less) {
        assert!(begun.elapsed() < PATIENCE, "in vain: {}", condition_of("claims"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let plainly = events().into_iter().filter(|text| !is_told(text));
    assert_eq!(plainly.count(), 1, "kube-scheduler's text was written first");
}
