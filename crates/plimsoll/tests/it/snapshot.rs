//! `plimsoll snapshot`: one file that decides as the whole objects do, without secrets, and without names if that is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use plimsoll_testserver::{Options, Right, TestServer, User};
use serde_json::{Value, json};

use crate::run::{Answer, run};

/// What must not be in any snapshot.
const SECRET: &str = "s3cret-of-the-cluster";

fn node(number: usize, cpu: &str) -> Value {
    let name = format!("worker-{number}");
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("berlin-{}", number % 3),
                "generation": number.to_string(), "disk": if number.is_multiple_of(2) { "fast" } else { "slow" },
            },
            "annotations": {"note": SECRET},
            "managedFields": [{"manager": SECRET}],
        },
        "spec": {"providerID": SECRET},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "20"},
            "addresses": [{"type": "Hostname", "address": SECRET}],
            "images": [{"names": ["registry.acme.test/shop:latest"], "sizeBytes": 500_000_000}],
            "nodeInfo": {"kernelVersion": SECRET},
        },
    });
    if number == 1 {
        node["spec"]["taints"] =
            json!([{"key": "team", "value": "payments", "effect": "NoSchedule"}]);
    }
    if number == 5 {
        node["status"]["images"] = json!([]);
    }
    node
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "checkout", "labels": {"app": "shop"}, "uid": format!("uid-{name}"),
            "annotations": {"token": SECRET}, "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {
            "containers": [{
                "name": "web", "image": "registry.acme.test/shop", "command": [SECRET], "args": [SECRET],
                "env": [{"name": "PASSWORD", "value": SECRET}],
                "envFrom": [{"secretRef": {"name": SECRET}}],
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                "volumeMounts": [{"name": "v", "mountPath": SECRET}],
            }],
            "imagePullSecrets": [{"name": SECRET}], "serviceAccountName": SECRET,
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": [SECRET]}],
        },
    });
    for (field, value) in spec.as_object().expect("a spec is an object") {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// A cluster with rules that look at names and labels.
fn cluster() -> Vec<Value> {
    let mut objects: Vec<Value> = (0..6).map(|number| node(number, "4")).collect();
    objects.push(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "checkout", "labels": {"tier": "front"}},
    }));
    objects.push(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop", "namespace": "checkout"},
        "spec": {"selector": {"app": "shop"}, "clusterIP": SECRET},
    }));
    for (number, node) in [(0, "worker-0"), (1, "worker-3"), (2, "worker-4")] {
        objects.push(pod(&format!("running-{number}"), &json!({"nodeName": node})));
    }
    objects.push(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
        "parameters": {"secret": SECRET},
    }));
    objects.push(json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "disk-7", "labels": {"topology.kubernetes.io/zone": "berlin-1__berlin-2"}},
        "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "csi": {"driver": "disks.example.com", "volumeHandle": "disk-7", "nodeStageSecretRef": {"name": SECRET}},
            "claimRef": {"namespace": "checkout", "name": "ephemeral-scratch", "uid": "uid-claim"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["berlin-1", "berlin-2"]}]}]}},
        },
        "status": {"phase": "Bound"},
    }));
    objects.push(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "ephemeral-scratch", "namespace": "checkout", "uid": "uid-claim",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "note": SECRET},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "ephemeral", "uid": "uid-ephemeral",
                "controller": true}],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "volumeName": "disk-7",
            "resources": {"requests": {"storage": "10Gi"}},
        },
        "status": {"phase": "Bound"},
    }));
    objects.extend(pending());
    objects
}

/// The pods to decide.
fn pending() -> Vec<Value> {
    let selector = json!({"matchLabels": {"app": "shop"}});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    vec![
        pod("plain", &json!({})),
        pod(
            "newer",
            &json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "generation", "operator": "Gt", "values": ["2"]},
                {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["worker-5"]}]}]}}}}),
        ),
        pod("fast", &json!({"nodeSelector": {"disk": "fast"}})),
        pod(
            "tolerant",
            &json!({
                "tolerations": [{"key": "team", "operator": "Equal", "value": "payments", "effect": "NoSchedule"}],
                "nodeSelector": {"kubernetes.io/hostname": "worker-1"},
            }),
        ),
        pod(
            "spread",
            &json!({"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector.clone(),
            }]}),
        ),
        pod(
            "apart",
            &json!({"affinity": {"podAntiAffinity": {required: [{
                "topologyKey": "kubernetes.io/hostname", "labelSelector": selector.clone(),
                "namespaceSelector": {"matchLabels": {"tier": "front"}},
            }]}}}),
        ),
        pod(
            "near",
            &json!({"affinity": {"podAffinity": {required: [{
                "topologyKey": "topology.kubernetes.io/zone", "labelSelector": selector, "namespaces": ["checkout"],
            }]}}}),
        ),
        pod(
            "ephemeral",
            &json!({"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                "resources": {"requests": {"storage": "10Gi"}}}}}}]}),
        ),
        pod("nowhere", &json!({"nodeSelector": {"disk": "none"}})),
    ]
}

fn secrets() -> Vec<Value> {
    ["Secret", "ConfigMap"]
        .into_iter()
        .map(|kind| {
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": SECRET, "namespace": "checkout"},
                "data": {"key": SECRET}})
        })
        .collect()
}

fn list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

/// Takes a snapshot of these objects, in a file of this name; returns it as text, and what was said.
fn snapshot(objects: &[Value], flags: &str) -> (String, Answer) {
    let answer =
        run(&[("all.json", &list(objects))], &format!("snapshot -f all.json -o - {flags}"));
    assert_eq!(answer.status, 0, "{}", answer.err);
    (answer.out.clone(), answer)
}

fn items(text: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(text).expect("a snapshot is JSON");
    list["items"].as_array().expect("it is a list").clone()
}

#[test]
fn it_decides_as_the_whole_objects_do_and_has_no_secrets() {
    let objects: Vec<Value> = cluster().into_iter().chain(secrets()).collect();
    let (reduced, answer) = snapshot(&objects, "");
    assert!(!reduced.contains(SECRET), "{reduced}");
    for part in ["left out, as no decision needs them: 1 ConfigMap, 1 Secret", "6 Nodes", "12 Pods"]
    {
        assert!(answer.err.contains(part), "{part}: {}", answer.err);
    }
    let whole = list(&cluster());
    for line in
        ["simulate -f a.json -o json --explain", "explain -f a.json --pod checkout/spread -o json"]
    {
        let [whole, reduced] =
            [whole.as_str(), reduced.as_str()].map(|text| run(&[("a.json", text)], line));
        assert_eq!(whole.status, 0, "{}", whole.err);
        assert_eq!(whole, reduced, "{line}");
    }
    let remedies =
        |text: &str| run(&[("a.json", text)], "why -f a.json checkout/nowhere -o json").out;
    assert_eq!(remedies(&whole), remedies(&reduced));
}

#[test]
fn a_compressed_snapshot_is_read_like_any_other_file() {
    let folder = tempfile::tempdir().expect("there is room");
    let (whole, file) = (folder.path().join("all.json"), folder.path().join("cluster.json.gz"));
    std::fs::write(&whole, list(&cluster())).expect("there is room");
    let plimsoll = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(args).output();
        let output = output.expect("the binary starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let [whole, file] = [&whole, &file].map(|path| path.to_str().expect("it is text").to_owned());
    plimsoll(&["snapshot", "-f", &whole, "-o", &file]);
    let bytes = std::fs::read(&file).expect("it was written");
    assert_eq!(bytes[..2], [0x1f, 0x8b], "it is compressed");
    let decided = |file: &str| plimsoll(&["simulate", "-f", file, "-o", "json"]);
    assert_eq!(decided(&whole), decided(&file));
    // In a directory, too.
    let _ = std::fs::remove_file(&whole);
    assert_eq!(decided(folder.path().to_str().expect("it is text")), decided(&file));
}

#[test]
fn with_hashed_names_decisions_are_the_same_but_for_the_names() {
    let objects = cluster();
    let (hashed, _) = snapshot(&objects, "--hash-names");
    for name in
        ["worker-", "berlin", "checkout", "payments", "shop", "acme", "disk-7", "fast", SECRET]
    {
        assert!(!hashed.contains(name), "{name}: {hashed}");
    }
    // They are in the same order.
    let names: BTreeMap<String, String> = objects
        .iter()
        .zip(items(&hashed))
        .flat_map(|(object, hash)| {
            ["name", "namespace"]
                .map(|field| (object["metadata"][field].clone(), hash["metadata"][field].clone()))
        })
        .filter_map(|(name, hash)| Some((name.as_str()?.to_owned(), hash.as_str()?.to_owned())))
        .collect();
    let whole = list(&objects);
    for pod in pending() {
        let name = pod["metadata"]["name"].as_str().expect("it has a name");
        let decide = |text: &str, pod: &str| -> Value {
            let answer =
                run(&[("a.json", text)], &format!("explain -f a.json -o json --pod {pod}"));
            assert_eq!(answer.status, 0, "{}", answer.err);
            serde_json::from_str(&answer.out).expect("it is a record")
        };
        let own = decide(&whole, &format!("checkout/{name}"));
        let others = decide(&hashed, &format!("{}/{}", names["checkout"], names[name]));
        for same in ["result", "message", "preFilter"] {
            assert_eq!(own[same], others[same], "{name}");
        }
        let rename = |value: &Value| names[value.as_str().expect("it is a name")].clone();
        let set = |value: &Value, rename: &dyn Fn(&Value) -> String| -> BTreeSet<String> {
            value.as_array().into_iter().flatten().map(rename).collect()
        };
        let as_is = |value: &Value| value.as_str().expect("it is a name").to_owned();
        assert_eq!(set(&own["best"], &rename), set(&others["best"], &as_is), "{name}");
        let verdicts =
            |record: &Value, rename: &dyn Fn(&Value) -> String| -> BTreeMap<String, Value> {
                let nodes = record["nodes"].as_array().into_iter().flatten();
                nodes
                    .map(|node| {
                        let mut verdict = node.clone();
                        let name = verdict["name"].take();
                        (rename(&name), verdict)
                    })
                    .collect()
            };
        let own_verdicts = verdicts(&own, &rename);
        assert!(!own_verdicts.is_empty(), "{own}");
        assert_eq!(own_verdicts, verdicts(&others, &as_is), "{name}");
    }
}

#[test]
fn the_same_key_hashes_alike() {
    let folder = tempfile::tempdir().expect("there is room");
    let key = folder.path().join("key");
    std::fs::write(&key, "sixteen bytes at least").expect("there is room");
    let flags = format!("--hash-names --hash-key {}", key.display());
    let hashed = || snapshot(&cluster(), &flags).0;
    assert_eq!(hashed(), hashed());
    assert_ne!(hashed(), snapshot(&cluster(), "--hash-names").0);
    std::fs::write(&key, "short").expect("there is room");
    let answer = run(&[("a.json", &list(&cluster()))], &format!("snapshot -f a.json -o - {flags}"));
    assert_eq!(answer.status, 1);
    assert!(answer.err.contains("has 5 bytes, and must have at least 16"), "{}", answer.err);
}

#[test]
fn faults_are_named_with_file_object_and_field() {
    let mut wrong = pod("wrong", &json!({}));
    wrong["spec"]["priority"] = json!("high");
    let answer = run(&[("a.json", &list(&[wrong]))], "snapshot -f a.json -o -");
    assert_eq!((answer.status, &*answer.out), (1, ""));
    assert!(
        answer.err.contains("a.json:1: Pod checkout/wrong: spec.priority: invalid type"),
        "{}",
        answer.err
    );
}

/// A server with the cluster, and a user with these rights.
fn server(rights: Vec<Right>) -> (TestServer, tempfile::TempDir) {
    let user = User { token: "t".to_owned(), name: "jane".to_owned(), groups: Vec::new(), rights };
    let options = Options {
        users: vec![user],
        authenticate: true,
        remember_requests: true,
        ..Options::default()
    };
    let server = TestServer::start(options);
    server.store().apply_all(cluster()).expect("they are valid");
    let folder = tempfile::tempdir().expect("there is room");
    std::fs::write(folder.path().join("config"), server.kubeconfig_of("t")).expect("there is room");
    (server, folder)
}

fn of_cluster(folder: &Path, flags: &str) -> Answer {
    run(&[], &format!("snapshot --kubeconfig {} -o - {flags}", folder.join("config").display()))
}

#[test]
fn a_cluster_is_read_and_not_changed() {
    let reads = Right::on("*", &["*"], &["get", "list", "watch"]);
    let (server, folder) = server(vec![reads, Right::on_paths(&["*"], &["get"])]);
    let answer = of_cluster(folder.path(), "");
    assert_eq!(answer.status, 0, "{}", answer.err);
    assert!(!answer.out.contains(SECRET), "{}", answer.out);
    let kinds: BTreeSet<String> =
        items(&answer.out).iter().map(|item| item["kind"].to_string()).collect();
    for kind in ["Node", "Pod", "Namespace", "Service", "PersistentVolume", "StorageClass"] {
        assert!(kinds.contains(&format!("{kind:?}")), "{kind}: {kinds:?}");
    }
    for name in ["spread", "near", "newer"] {
        let line = format!("explain -f a.json -o json --pod checkout/{name}");
        let decided = |text: &str| run(&[("a.json", text)], &line).out;
        assert_eq!(decided(&answer.out), decided(&list(&cluster())), "{name}");
    }
    let verbs: BTreeSet<String> =
        server.counts().different_requests().into_iter().map(|request| request.verb).collect();
    assert!(verbs.iter().all(|verb| ["get", "list"].contains(&verb.as_str())), "{verbs:?}");
}

#[test]
fn missing_rights_are_told_by_kind() {
    let paths = Right::on_paths(&["*"], &["get"]);
    let some = Right::on("", &["nodes", "pods", "namespaces"], &["list"]);
    let (_server, folder) = server(vec![some, paths.clone()]);
    let answer = of_cluster(folder.path(), "");
    assert_eq!(answer.status, 0, "{}", answer.err);
    for part in ["services are not in the snapshot: 403", "allow the verb list on services"] {
        assert!(answer.err.contains(part), "{part}: {}", answer.err);
    }
    let (_server, folder) = server_of_nothing(paths);
    let answer = of_cluster(folder.path(), "");
    assert_eq!((answer.status, &*answer.out), (1, ""));
    assert!(answer.err.contains("cannot list pods: 403"), "{}", answer.err);
}

fn server_of_nothing(paths: Right) -> (TestServer, tempfile::TempDir) {
    server(vec![Right::on("", &["nodes"], &["list"]), paths])
}
