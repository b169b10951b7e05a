//! Recordings on the command line: `simulate --record`, `run --record` and `replay`.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use plimsoll::App;
use plimsoll_testserver::TestServer;
use serde_json::{Value, json};

use crate::fickle;
use crate::process::{Process, eventually};
use crate::run::Answer;

const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: low, namespace: shop}
spec:
  nodeName: n1
  containers: [{name: c, resources: {requests: {cpu: '2'}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop}
spec: {containers: [{name: c, resources: {requests: {cpu: '1'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: high, namespace: shop}
spec:
  priority: 10
  containers: [{name: c, resources: {requests: {cpu: '2'}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: shop}
spec: {containers: [{name: c, resources: {requests: {cpu: '9'}}}]}
";

fn run_in(folder: &Path, line: &str) -> Answer {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(line.split_whitespace())
        .current_dir(folder)
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null())
        .output()
        .expect("the command can be run");
    Answer {
        status: output.status.code().expect("the command ends by itself"),
        out: String::from_utf8(output.stdout).expect("the output is text"),
        err: String::from_utf8(output.stderr).expect("the messages are text"),
    }
}

/// A folder with a recording of a simulation of `CLUSTER`.
fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("there is room");
    fs::write(folder.path().join("cluster.yaml"), CLUSTER).expect("there is room");
    let line = "simulate -f cluster.yaml --tie-break random --seed 3 --record rec -o json";
    let answer = run_in(folder.path(), line);
    assert_eq!(answer.status, 0, "{}", answer.err);
    assert!(answer.err.contains("note: rec: recorded "), "{}", answer.err);
    folder
}

fn replayed(folder: &Path, line: &str) -> Value {
    let answer = run_in(folder, line);
    assert_eq!(answer.status, 0, "{}", answer.err);
    serde_json::from_str(&answer.out).expect("it is JSON")
}

#[test]
fn a_recorded_simulation_replays_to_the_same_decisions_with_both_engines() {
    let folder = recorded();
    let report = replayed(folder.path(), "replay rec --engine both -o json");
    let engines = |field: &str| -> Vec<Value> {
        let replays = report["replays"].as_array().expect("there are two");
        replays.iter().map(|replay| replay[field].clone()).collect()
    };
    assert_eq!(engines("same"), [true, true], "{report}");
    let digests = engines("digest");
    assert_eq!(digests[0], digests[1], "{report}");
    assert_eq!((&report["pods"], &report["seed"]), (&json!(4), &json!(3)), "{report}");
    assert_eq!(report["end"], "the scheduler was stopped");
    let size = fs::metadata(folder.path().join("rec")).expect("it is there").len();
    assert_eq!(report["bytes"], size);
    let text = run_in(folder.path(), "replay rec").out;
    assert!(text.contains("all decisions are the same as recorded"), "{text}");
    assert!(text.contains(&format!("Size       {size} bytes, ")), "{text}");
}

#[test]
fn a_replay_can_stop_after_some_decisions() {
    let folder = recorded();
    let report = replayed(folder.path(), "replay rec --until 2 -o json");
    assert_eq!(report["decisions"], 2, "{report}");
}

#[test]
fn bad_files_are_refused_with_the_file_the_byte_and_the_remedy() {
    let folder = recorded();
    let refused = |file: &str| {
        let answer = run_in(folder.path(), &format!("replay {file}"));
        assert_eq!((answer.status, answer.out.as_str()), (1, ""));
        answer.err
    };
    assert!(refused("cluster.yaml").starts_with("error: cluster.yaml: byte 0: is not a recording"));
    assert!(refused("missing").starts_with("error: missing: cannot be read: "));
    let mut bytes = fs::read(folder.path().join("rec")).expect("it is there");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(folder.path().join("damaged"), bytes).expect("there is room");
    let text = refused("damaged");
    assert!(text.contains(": the checksum of a frame differs: the file is damaged"), "{text}");
}

#[test]
fn a_recording_without_a_difference_cannot_be_made_smaller() {
    let folder = recorded();
    let answer = run_in(folder.path(), "replay rec --shrink small");
    assert_eq!(answer.status, 1);
    assert_eq!(answer.err, "error: rec: no audit finds a difference: there is nothing to write\n");
}

/// The exit code of a scheduler with a plugin that is wrong.
fn with_fickle(line: &[&str]) -> String {
    let app = App::new().with_plugin(fickle::entry());
    format!("{:?}", app.run_from(std::iter::once(&"fickle").chain(line)))
}

#[test]
fn an_audit_difference_is_written_as_the_smallest_recording() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let objects = |kind: &str, n: usize, rest: &Value| -> Vec<Value> {
        (0..n).map(|number| object(kind, &format!("o{number}"), rest)).collect()
    };
    let allocatable = json!({"cpu": "9", "memory": "16Gi", "pods": "90"});
    let mut items = objects("Node", 5, &json!({"status": {"allocatable": allocatable}}));
    items.extend(objects("Pod", 60, &json!({"spec": {"containers": [{"name": "c"}]}})));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    fs::write(path("cluster.json"), list.to_string()).expect("there is room");
    fs::write(path("config.yaml"), fickle::CONFIG).expect("there is room");
    let (cluster, config, rec) = (path("cluster.json"), path("config.yaml"), path("rec"));
    let line = ["simulate", "-f", &cluster, "--config", &config, "--audit", "1", "--record", &rec];
    let failure = with_fickle(&line);
    assert_eq!(failure, format!("{:?}", ExitCode::FAILURE));
    let difference = path("rec.difference");
    let [large, small] =
        [&rec, &difference].map(|file| fs::metadata(file).expect("it was written").len());
    assert!(small < large, "{small} of {large} bytes");
    assert_eq!(with_fickle(&["replay", &difference]), format!("{:?}", ExitCode::SUCCESS));
    // The program without the plugin says what is missing.
    let answer = run_in(folder.path(), "replay rec");
    let said = "plugin \"Fickle\" does not exist: replay it with the program that recorded it";
    assert!(answer.status == 1 && answer.err.contains(said), "{}", answer.err);
}

#[test]
fn the_swarm_writes_the_smallest_recording_of_a_difference_and_nothing_else() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("config.yaml"), fickle::CONFIG).expect("there is room");
    let (config, rec) = (path("config.yaml"), path("rec"));
    let line = ["simulate", "--swarm", "2", "--seed", "1", "--config", &config, "--record", &rec];
    assert_eq!(with_fickle(&line), format!("{:?}", ExitCode::FAILURE));
    let files = fs::read_dir(&rec).expect("there are differences");
    let names = files.map(|file| file.expect("it is there").file_name().display().to_string());
    let names: Vec<String> = names.collect();
    assert!(
        !names.is_empty() && names.iter().all(|name| name.ends_with(".difference")),
        "{names:?}"
    );
    for name in names {
        let file = format!("{rec}/{name}");
        assert_eq!(with_fickle(&["replay", &file]), format!("{:?}", ExitCode::SUCCESS));
    }
}

fn object(kind: &str, name: &str, rest: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default"});
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
    if kind == "Node" {
        object["metadata"] = json!({"name": name});
    }
    for (field, value) in rest.as_object().expect("fields are given") {
        object[field] = value.clone();
    }
    object
}

/// A server with five nodes.
fn served() -> TestServer {
    let server = TestServer::start(plimsoll_testserver::Options::default());
    for number in 0..5 {
        let allocatable = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
        let status = json!({"status": {"allocatable": allocatable}});
        server.store().apply(object("Node", &format!("n{number}"), &status)).expect("it is valid");
    }
    server
}

/// Creates twenty pods, and waits until they are bound.
#[track_caller]
fn bind_pods(server: &TestServer) {
    for number in 0..20 {
        let spec = json!({"spec": {"containers": [{
            "name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}},
        }]}});
        server.store().apply(object("Pod", &format!("p{number}"), &spec)).expect("it is valid");
    }
    let n_bound = || {
        let pods = server.store().list("pods");
        pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
    };
    eventually("all pods are bound", || n_bound() == 20);
}

/// `run` in a folder, which records to the file `rec` there and logs to the file `log`.
fn run_recording(folder: &Path, server: &TestServer, more: &[&str]) -> Process {
    let log = fs::File::create(folder.join("log")).expect("there is room");
    let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "--secure-port=0", "--leader-elect=false", "--kubeconfig"])
        .arg(server.kubeconfig_file().expect("there is room"))
        .arg("--record")
        .arg(folder.join("rec"))
        .args(more)
        .stderr(log)
        .spawn();
    Process(child.expect("the program starts"))
}

#[test]
fn what_run_has_recorded_before_it_was_killed_replays_with_the_seed_that_is_logged() {
    let server = served();
    let folder = tempfile::tempdir().expect("there is room");
    let process = run_recording(folder.path(), &server, &["--logging-format=json"]);
    bind_pods(&server);
    let n_recorded = || {
        let answer = run_in(folder.path(), "replay rec -o json");
        let report: Value = serde_json::from_str(&answer.out).unwrap_or_default();
        report["scheduled"].as_u64().unwrap_or(0)
    };
    eventually("all bindings are in the file", || n_recorded() == 20);
    drop(process);
    let report = replayed(folder.path(), "replay rec --engine both -o json");
    assert_eq!(report["replays"][0]["digest"], report["replays"][1]["digest"], "{report}");
    let end = report["end"].as_str().expect("it has an end");
    assert!(end.contains("without a mark"), "{end}");
    let log = fs::read_to_string(folder.path().join("log")).expect("it is there");
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let seeds: Vec<Value> = lines.filter_map(|line| line.get("seed").cloned()).collect();
    assert_eq!(seeds, [report["seed"].clone()], "{log}");
}

/// A node with labels that no other state of it has.
fn relabelled(number: u64) -> Value {
    let value = |label: u64| (number * 100 + label).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let labels =
        (0..40).map(|label| (format!("l{label}"), json!(format!("{:016x}", value(label)))));
    let labels: serde_json::Map<String, Value> = labels.collect();
    let mut node = object("Node", "n0", &json!({"status": {"allocatable": {"cpu": "4"}}}));
    node["metadata"]["labels"] = labels.into();
    node
}

#[test]
fn run_records_parts_of_the_size_and_keeps_the_number_that_its_flags_say() {
    let server = served();
    let folder = tempfile::tempdir().expect("there is room");
    let _process =
        run_recording(folder.path(), &server, &["--record-size=16Ki", "--record-files=2"]);
    let parts = || -> Vec<(u64, u64)> {
        let size = |part: u64| {
            let name = if part == 1 { "rec".to_owned() } else { format!("rec.{part}") };
            Some((part, fs::metadata(folder.path().join(name)).ok()?.len()))
        };
        (1..100).filter_map(size).collect()
    };
    eventually("it records", || !parts().is_empty());
    let number = Cell::new(0);
    eventually("the first parts are deleted", || {
        for _ in 0..50 {
            number.set(number.get() + 1);
            server.store().apply(relabelled(number.get())).expect("it is valid");
        }
        parts().first().is_some_and(|(first, _)| 1 < *first)
    });
    eventually("two parts are kept", || parts().len() == 2);
    // What is on its way may still close parts.
    eventually("the older part has the size, and can be judged by itself", || {
        let Some((oldest, size)) = parts().first().copied() else { return false };
        let judged = run_in(folder.path(), &format!("replay rec.{oldest}"));
        (16 << 10..1 << 20).contains(&size) && judged.status == 0
    });
}

#[test]
fn a_cluster_of_the_past_is_changed_as_one_of_files() {
    let folder = tempfile::tempdir().expect("there is room");
    let write = |name: &str, content: &str| {
        fs::write(folder.path().join(name), content).expect("there is room");
    };
    write("cluster.yaml", CLUSTER);
    let line = "simulate -f cluster.yaml --completion-after 10m --record rec -o json";
    assert_eq!(run_in(folder.path(), line).status, 0);
    // As it is until pods complete: the more important pod has taken the other node.
    let (before, after) = ("  priority: 10\n", "  priority: 10\n  nodeName: n2\n");
    write("placed.yaml", &CLUSTER.replace(before, after));
    let node = "\
apiVersion: v1
kind: Node
metadata: {name: big}
status: {allocatable: {cpu: '16', memory: 8Gi, pods: '10'}}
";
    write("node.yaml", node);
    let ask = |line: &str| {
        let answer = run_in(folder.path(), &format!("what-if {line} -o json"));
        assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{line}");
        serde_json::from_str::<Value>(&answer.out).expect("it is one document")
    };
    for action in ["", "--lose n1", "--add-nodes 1 --like node.yaml", "--delete pod/shop/high"] {
        let past = ask(&format!("--recording rec --at 5m {action}"));
        assert_eq!(past, ask(&format!("-f placed.yaml {action}")), "{action}");
    }
    let more = ask("--recording rec --at 5m --add-nodes 1 --like node.yaml");
    assert!(more["placed"].to_string().contains("shop/large"), "{more}");
    // At the end all pods that fit have completed.
    assert_eq!(ask("--recording rec")["utilisation"]["before"]["cpu"], json!(0.0));
    let refused = |line: &str| {
        let answer = run_in(folder.path(), &format!("what-if --recording rec {line}"));
        assert_eq!(answer.status, 1, "{line}");
        answer.err
    };
    let late = refused("--at 2h");
    assert!(
        late.contains("error: rec: ends at ") && late.contains("give a time between"),
        "{late}"
    );
    let early = refused("--at 1960-01-01T00:00:00Z");
    assert!(
        early.contains("error: rec: begins at ") && early.contains("give a later time"),
        "{early}"
    );
    let unknown = refused("--drain n7");
    assert!(unknown.contains("no node is named n7; there is n1, n2"), "{unknown}");
}

#[test]
fn a_pod_of_a_recording_is_told_what_would_have_helped() {
    const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: small, namespace: shop}
spec: {containers: [{name: c, resources: {requests: {cpu: 500m}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: shop}
spec: {containers: [{name: app, resources: {requests: {cpu: '9'}}}, {name: log}]}
";
    let folder = tempfile::tempdir().expect("there is room");
    fs::write(folder.path().join("cluster.yaml"), CLUSTER).expect("there is room");
    let answer = run_in(folder.path(), "simulate -f cluster.yaml --record rec -o json");
    assert_eq!(answer.status, 0, "{}", answer.err);
    let ask = |line: &str| -> Value {
        let answer = run_in(folder.path(), &format!("why {line} -o json"));
        assert_eq!(answer.status, 0, "{line}: {}", answer.err);
        serde_json::from_str(&answer.out).expect("it is one document")
    };
    let past = ask("--recording rec shop/large");
    assert_eq!((&past["pod"], &past["state"]), (&json!("shop/large"), &json!("unschedulable")));
    let lowered = &past["remedies"][0];
    let text = lowered["text"].as_str().expect("something helps");
    assert!(text.contains("request 1500m cpu instead of 9"), "{past}");
    assert_eq!(past["notInManifest"], Value::Null, "{past}");
    // The change applies to the manifest that comes with the answer.
    let operation = &lowered["changes"][0]["operations"][0];
    assert_eq!(operation["op"], "replace", "{past}");
    let mut manifest = past["manifest"].clone();
    let field = manifest.pointer_mut(operation["path"].as_str().expect("it has a path"));
    *field.expect("there is such a field") = operation["value"].clone();
    let parts: Vec<&str> = CLUSTER.split("---\n").collect();
    let others = format!("{}---\n{}", parts[0], parts[1]);
    fs::write(folder.path().join("others.yaml"), others).expect("there is room");
    fs::write(folder.path().join("patched.json"), manifest.to_string()).expect("there is room");
    let simulated = run_in(folder.path(), "simulate -f others.yaml -f patched.json -o json");
    assert_eq!(simulated.out.matches("\"result\":\"scheduled\"").count(), 2, "{}", simulated.out);

    let text = run_in(folder.path(), "why --recording rec shop/large").out;
    let apply = "Changes of the pod and its claims apply to the manifests that -o json has.";
    assert!(text.contains(apply), "{text}");
    let default = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    fs::write(folder.path().join("default.yaml"), default).expect("there is room");
    let with_config = ask("--recording rec shop/large --config default.yaml");
    assert_eq!(with_config["remedies"][0], past["remedies"][0]);
    let placed = ask("--recording rec shop/small");
    assert_eq!((&placed["state"], &placed["manifest"]), (&json!("scheduled"), &Value::Null));
    let unknown = run_in(folder.path(), "why --recording rec shop/none");
    assert_eq!(unknown.status, 1);
    assert!(
        unknown.err.starts_with("error: pod shop/none is not in the recording at that time"),
        "{}",
        unknown.err
    );
    for line in [
        "why --recording rec --group shop/g",
        "why --recording rec -f cluster.yaml shop/large",
        "why --at 1h -f cluster.yaml shop/large",
    ] {
        assert_eq!(run_in(folder.path(), line).status, 2, "{line}");
    }
}

#[test]
fn claims_of_a_recording_are_changed_as_those_of_files() {
    const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: two, namespace: ml}
spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: ml}
spec:
  resourceClaims: [{name: gpus, resourceClaimName: two}]
  containers: [{name: c, resources: {claims: [{name: gpus}]}}]
";
    let folder = tempfile::tempdir().expect("there is room");
    fs::write(folder.path().join("cluster.yaml"), CLUSTER).expect("there is room");
    let answer = run_in(folder.path(), "simulate -f cluster.yaml --record rec -o json");
    assert_eq!(answer.status, 0, "{}", answer.err);
    let ask = |line: &str| -> Value {
        let answer = run_in(folder.path(), &format!("why {line} ml/train -o json"));
        assert_eq!(answer.status, 0, "{line}: {}", answer.err);
        serde_json::from_str(&answer.out).expect("it is one document")
    };
    let (past, now) = (ask("--recording rec"), ask("-f cluster.yaml"));
    let less = "ask for 1 instead of 2 devices in request gpus of the claim two";
    assert_eq!(past["remedies"][0]["text"], less, "{past:#}");
    assert_eq!(past["remedies"][0], now["remedies"][0]);
    assert!(!past["unknownManifests"].to_string().contains("ResourceClaim"), "{past:#}");
    // The change applies to the manifest that comes with the answer.
    let claim = &past["claimManifests"][0];
    assert_eq!(
        (&claim["kind"], &claim["metadata"]["name"]),
        (&json!("ResourceClaim"), &json!("two"))
    );
    let operation = &past["remedies"][0]["changes"][0]["operations"][0];
    let path = operation["path"].as_str().expect("it has a path");
    assert_eq!((claim.pointer(path), &operation["value"]), (Some(&json!(2)), &json!(1)));
}
