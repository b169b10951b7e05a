//! `plimsoll shadow` as a process, beside other schedulers on the test server.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::MultiGzDecoder;
use plimsoll_document::Document;
use plimsoll_testserver::{Options, Right, TestServer, User};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Process, eventually};

/// The token of the shadow's user.
pub(crate) const SHADOW: &str = "token-of-the-shadow";
/// The token of the scheduler that it follows.
const OTHER: &str = "token-of-the-other";

pub(crate) fn node(number: usize) -> Value {
    let (name, cpu) = (format!("node-{number}"), if number < 4 { "8" } else { "4" });
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
        }},
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "60"}},
    });
    if number == 0 {
        node["spec"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    }
    node
}

pub(crate) fn pod(number: usize) -> Value {
    let cpu = ["100m", "300m", "200m"][number % 3];
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("web-{number:03}"), "namespace": "default", "labels": {"app": "web"},
            "annotations": {"secret": "s3cret"}},
        "spec": {
            "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "s3cret"}],
                "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}],
            "topologySpreadConstraints": [{
                "maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }],
        },
    })
}

/// The rights in `deploy/shadow-rbac.yaml`, and those that every user of a cluster has.
pub(crate) fn shadow_rights() -> Vec<Right> {
    let rules = rules();
    let rights = rules.iter().map(|rule| Right {
        verbs: texts(&rule["verbs"]),
        groups: texts(&rule["apiGroups"]),
        resources: texts(&rule["resources"]),
        ..Right::default()
    });
    // system:discovery.
    rights
        .chain([Right::on_paths(&["/api", "/api/*", "/apis", "/apis/*", "/version"], &["get"])])
        .collect()
}

pub(crate) fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

fn rules() -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/shadow-rbac.yaml");
    let text = std::fs::read_to_string(file).expect("it is in the repository");
    let objects = Document::parse_all("shadow-rbac.yaml", &text).expect("it is YAML");
    let role = objects.iter().find(|object| object.value["kind"] == "ClusterRole");
    role.expect("there is a role").value["rules"].as_array().expect("it has rules").clone()
}

pub(crate) fn start_server() -> TestServer {
    let user = |token: &str, rights: Vec<Right>| User {
        token: token.to_owned(),
        name: token.to_owned(),
        groups: Vec::new(),
        rights,
    };
    let users = vec![user(SHADOW, shadow_rights()), user(OTHER, vec![Right::everything()])];
    let options =
        Options { users, authenticate: true, remember_requests: true, ..Options::default() };
    let server = TestServer::start(options);
    server.store().apply_all((0..6).map(node)).expect("they are valid");
    server
}

/// A shadow that follows the server.
struct Shadow {
    process: Process,
    folder: TempDir,
}

impl Shadow {
    /// Starts it, and waits until it knows the cluster.
    fn start(server: &TestServer, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let shadow = |name: &str| folder.path().join(name);
        std::fs::write(shadow("config"), server.kubeconfig_of(SHADOW)).expect("there is room");
        let file = |name: &str| std::fs::File::create(shadow(name)).expect("there is room");
        let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["shadow", "--kubeconfig", "config", "-o", "json", "--disagreements", "differ"])
            .args(["--report", "report.json", "--report-every", "100ms"])
            .args(flags)
            .current_dir(folder.path())
            .stdout(file("out"))
            .stderr(file("log"))
            .spawn();
        let process = Process(child.expect("the binary starts"));
        let shadow = Shadow { process, folder };
        eventually("it knows the cluster", || {
            shadow.read("log").contains("the whole cluster is known")
        });
        shadow
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Waits until the report on disk has compared so many pods.
    fn wait_for(&self, n: u64) {
        eventually("the pods are compared", || {
            let report: Value = serde_json::from_str(&self.read("report.json")).unwrap_or_default();
            report["configurations"][0]["pods"]["compared"].as_u64() == Some(n)
        });
    }

    /// Stops it as Ctrl-C does, and returns its report.
    fn stop(&mut self) -> Value {
        let id = self.process.0.id().to_string();
        assert!(
            Command::new("kill").args(["-INT", &id]).status().expect("kill is there").success()
        );
        let status = self.process.0.wait().expect("it can be waited for");
        assert!(status.success(), "{}", self.read("log"));
        serde_json::from_str(&self.read("out")).expect("the report is JSON")
    }
}

/// Binds a pod as another scheduler.
pub(crate) fn bind(server: &TestServer, pod: &str, node: &str) {
    let mut bound = server.store().get("pods", "default", pod).expect("it is there");
    bound["spec"]["nodeName"] = json!(node);
    server.store().apply(bound).expect("it is valid");
}

/// Sixty pods that another scheduler places at random: on the same nodes in every run. Calls `after` with the number of pods after
/// each.
pub(crate) fn place_at_random(server: &TestServer, after: &dyn Fn(usize)) {
    // A linear congruential generator.
    let mut state = 7_u64;
    for number in 0..60 {
        server.store().apply(pod(number)).expect("it is valid");
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bind(server, &format!("web-{number:03}"), &format!("node-{}", (state >> 33) % 6));
        after(number + 1);
    }
}

/// All that was asked of the server: nothing that writes, by anybody but the tests themselves.
fn verbs(server: &TestServer) -> BTreeSet<String> {
    server.counts().different_requests().into_iter().map(|request| request.verb).collect()
}

#[test]
fn its_role_only_reads_and_covers_every_kind() {
    for rule in rules() {
        assert_eq!(texts(&rule["verbs"]), ["get", "list", "watch"], "{rule}");
    }
    let covered: BTreeSet<(String, String)> = rules()
        .iter()
        .flat_map(|rule| {
            let resources = texts(&rule["resources"]);
            let of = move |group: String| {
                resources.clone().into_iter().map(move |resource| (group.clone(), resource))
            };
            texts(&rule["apiGroups"]).into_iter().flat_map(of).collect::<Vec<_>>()
        })
        .collect();
    let read: BTreeSet<(String, String)> = plimsoll_api::Kinds::built_in()
        .iter()
        .map(|kind| (kind.group().to_owned(), kind.plural().to_owned()))
        .collect();
    assert_eq!(covered, read);
}

#[test]
fn a_scheduler_that_places_at_random_is_found_out() {
    let server = start_server();
    let mut shadow = Shadow::start(&server, &[]);
    place_at_random(&server, &|_| {});
    shadow.wait_for(60);
    let report = shadow.stop();
    let configuration = &report["configurations"][0];
    let count = |field: &str| configuration["pods"][field].as_u64().expect("it is a number");
    assert_eq!(count("compared"), 60);
    let agreed = count("same") + count("tie");
    assert!(agreed < 40 && 10 < count("worse") && 2 < count("infeasible"), "{configuration:#}");
    assert_eq!(agreed + count("worse") + count("infeasible"), 60, "{configuration:#}");
    // It says what was worse, and by whose rule nodes were infeasible.
    let plugins: BTreeSet<String> = configuration["worseBy"]
        .as_array()
        .expect("it is a list")
        .iter()
        .map(|one| one["plugin"].as_str().expect("it has a name").to_owned())
        .collect();
    assert!(
        plugins.contains("NodeResourcesFit") || plugins.contains("PodTopologySpread"),
        "{plugins:?}"
    );
    let rules = configuration["infeasibleBy"].as_array().expect("it is a list");
    assert_eq!(rules.len(), 1, "{rules:?}");
    assert_eq!(rules[0]["plugin"], "TaintToleration");
    assert_eq!(rules[0]["pods"], count("infeasible"));
    assert!(texts_of(&report["limits"]).contains("decided on the state that was seen just before"));
    assert_eq!(report["pendingTime"]["count"], 60);
    assert_eq!(report["balance"]["nodes"], 6);

    // Each disagreement can be reproduced, from a file without secrets.
    let found = report["disagreements"].as_array().expect("it is a list");
    assert_eq!(u64::try_from(found.len()), Ok(60 - agreed));
    for one in found.iter().step_by(7) {
        let command = one["reproduction"]["command"].as_str().expect("it has a command");
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("plimsoll"));
        let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(words)
            .args(["-o", "json"])
            .current_dir(shadow.folder.path())
            .output()
            .expect("the binary starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {told}");
        let record: Value = serde_json::from_slice(&output.stdout).expect("it is a record");
        let ours: Vec<String> = texts(&record["best"]).into_iter().take(5).collect();
        assert_eq!(ours, texts(&one["ours"]), "{command}: {}", one["why"]);
        let nodes = record["nodes"].as_array().expect("it has nodes");
        let theirs = nodes.iter().find(|node| node["name"] == one["theirs"]);
        let theirs = theirs.expect("it was judged");
        match one["kind"].as_str() {
            Some("worse") => {
                let best = record["nodes"].as_array().into_iter().flatten();
                let best =
                    best.filter_map(|node| node["total"].as_i64()).max().expect("some are scored");
                let margin = theirs["total"].as_i64().map(|total| best - total);
                assert_eq!(one["margin"].as_i64(), margin, "{command}");
            }
            Some("infeasible") => {
                assert_eq!(theirs["filter"]["plugin"], one["plugin"], "{command}");
            }
            kind => panic!("{kind:?}"),
        }
        let file = shadow.path(one["reproduction"]["file"].as_str().expect("it has a file"));
        let mut text = String::new();
        let file = std::fs::File::open(file).expect("it was written");
        MultiGzDecoder::new(file).read_to_string(&mut text).expect("it is compressed text");
        assert!(text.contains("web-000") && !text.contains("s3cret"), "{text}");
    }

    let verbs = verbs(&server);
    let reads = ["get", "list", "watch"];
    assert!(verbs.iter().all(|verb| reads.contains(&verb.as_str())), "{verbs:?}");
    for request in server.counts().different_requests() {
        assert!(!request.resource.contains("secrets"), "{request:?}");
    }
}

fn texts_of(list: &Value) -> String {
    texts(list).join("\n")
}

#[test]
fn with_a_scheduler_like_upstream_it_agrees_on_every_pod() {
    let server = start_server();
    let mut shadow = Shadow::start(&server, &[]);
    let config = shadow.path("other");
    std::fs::write(&config, server.kubeconfig_of(OTHER)).expect("there is room");
    let other = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "--secure-port=0", "--leader-elect=false", "--kube-api-qps=2000"])
        .args(["--kube-api-burst=2000", "--kubeconfig"])
        .arg(&config)
        .stderr(Stdio::null())
        .spawn();
    let _other = Process(other.expect("the binary starts"));
    let bound = || {
        let pods = server.store().list("pods");
        pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
    };
    // One by one, and then many at once, whose bindings overtake each other.
    for number in 0..20 {
        server.store().apply(pod(number)).expect("it is valid");
        eventually("it is bound", || number < bound());
    }
    server.store().apply_all((20..80).map(pod)).expect("they are valid");
    // One that fits nowhere.
    let mut large = pod(900);
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("100");
    server.store().apply(large).expect("it is valid");
    eventually("all are bound", || bound() == 80);
    eventually("it says that the large one fits nowhere", || {
        let pod = server.store().get("pods", "default", "web-900").expect("it is there");
        pod["status"]["conditions"].as_array().is_some_and(|conditions| !conditions.is_empty())
    });
    shadow.wait_for(80);
    eventually("the large one is compared", || {
        let report: Value = serde_json::from_str(&shadow.read("report.json")).unwrap_or_default();
        report["configurations"][0]["pods"]["bothPending"].as_u64() == Some(1)
    });
    let report = shadow.stop();
    let pods = &report["configurations"][0]["pods"];
    let count = |field: &str| pods[field].as_u64().expect("it is a number");
    assert_eq!(count("same") + count("tie"), 80, "{report:#}");
    assert_eq!(count("pendingAlthoughFits"), 0, "{report:#}");
    assert_eq!(report["disagreements"], json!([]), "{report:#}");
    assert_eq!(report["stillPending"], json!({"pods": 1, "saidUnschedulable": 1, "gated": 0}));
    // Only the other scheduler has written.
    let of_kind = |verb: &str| server.counts().requests(verb, "pods/binding");
    assert_eq!(of_kind("create"), 80);
}

#[test]
fn two_configurations_are_compared() {
    let server = start_server();
    let folder = tempfile::tempdir().expect("there is room");
    let planned = folder.path().join("planned.yaml");
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- pluginConfig:\n  \
                - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated}}\n";
    std::fs::write(&planned, text).expect("there is room");
    let planned = planned.to_str().expect("it is text").to_owned();
    let mut shadow = Shadow::start(&server, &["--against", &planned]);
    for number in 0..12 {
        server.store().apply(pod(number)).expect("it is valid");
        bind(&server, &format!("web-{number:03}"), "node-2");
    }
    shadow.wait_for(12);
    let report = shadow.stop();
    let names: Vec<&Value> =
        report["configurations"].as_array().into_iter().flatten().map(|one| &one["name"]).collect();
    assert_eq!(names, [&json!("default"), &json!(planned)]);
    let between = &report["betweenConfigurations"];
    let sum: u64 = ["same", "overlap", "different", "oneFindsNone"]
        .iter()
        .map(|field| between[field].as_u64().expect("it is a number"))
        .sum();
    assert_eq!((between["compared"].as_u64(), sum), (Some(12), 12));
    assert!(0 < between["different"].as_u64().unwrap_or_default(), "{between:#}");
    assert!(shadow.path("differ/against.yaml").exists());
}

#[test]
fn another_schedulers_pods_are_followed_by_name() {
    let server = start_server();
    let mut shadow = Shadow::start(&server, &["--scheduler-name", "mine", "--duration", "2h"]);
    for (number, name) in [(0, "mine"), (1, "default-scheduler"), (2, "mine")] {
        let mut pod = pod(number);
        pod["spec"]["schedulerName"] = json!(name);
        server.store().apply(pod).expect("it is valid");
        bind(&server, &format!("web-{number:03}"), "node-1");
    }
    shadow.wait_for(2);
    let report = shadow.stop();
    assert_eq!(report["schedulerNames"], json!(["mine"]));
}

#[test]
fn it_ends_by_itself_and_prints_a_table() {
    let server = start_server();
    let folder = tempfile::tempdir().expect("there is room");
    let config = folder.path().join("config");
    std::fs::write(&config, server.kubeconfig_of(SHADOW)).expect("there is room");
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["shadow", "--duration", "5s", "--kubeconfig"])
        .arg(&config)
        .output()
        .expect("the binary starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let out = String::from_utf8_lossy(&output.stdout);
    for part in [
        "Followed default-scheduler for",
        "Agreement",
        "Still pending 0",
        "nodes without a pod                    6 of 6",
        "How far",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

#[test]
fn errors_say_what_to_do() {
    let folder = tempfile::tempdir().expect("there is room");
    let two = folder.path().join("two.yaml");
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
                - schedulerName: a\n- schedulerName: b\n";
    std::fs::write(&two, text).expect("there is room");
    let two = two.to_str().expect("it is text");
    let told = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_plimsoll")).arg("shadow").args(args).output();
        let output = output.expect("the binary starts");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (args, part) in [
        (&["--kubeconfig=/nowhere/config"][..], "kubeconfig /nowhere/config: cannot be read"),
        (
            &["--emulated-version=1.37", "--config", two, "--scheduler-name=c"],
            "has this name (there is a, b): name one of them",
        ),
        (&["--max-snapshots=3"], "--disagreements <DIR>"),
        (&["--window=-1s"], "a duration must not be negative"),
    ] {
        let told = told(args);
        assert!(told.contains(part), "{args:?}: {told}");
    }
}
