//! `plimsoll run` follows its configuration, and rules of canaries choose profiles.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use plimsoll_testserver::{Options, TestServer};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::is_of_schema;
use crate::process::eventually;
use crate::run::{check_refused, records};
use crate::serve::Served;

/// A configuration with two profiles: pods go to nodes of the pool `default`, and those of the profile `other` to
/// those of the pool `other`.
pub(crate) fn configuration(kubeconfig: &Path, default: &str, other: &str) -> String {
    let profile = |name: &str, pool: &str| {
        format!(
            "- schedulerName: {name}\n  pluginConfig:\n  - name: NodeAffinity\n    args:\n      addedAffinity:\n        \
             requiredDuringSchedulingIgnoredDuringExecution:\n          nodeSelectorTerms:\n          - matchExpressions:\n            \
             - {{key: pool, operator: In, values: [{pool}]}}\n"
        )
    };
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection:\n  kubeconfig: \
         '{}'\nleaderElection:\n  leaderElect: false\nprofiles:\n{}{}",
        kubeconfig.display(),
        profile("default-scheduler", default),
        profile("other", other),
    )
}

/// A file as a volume of a ConfigMap has it: a link to a directory that is replaced as a whole.
struct Volume {
    dir: TempDir,
    versions: usize,
}

impl Volume {
    fn new(text: &str) -> Self {
        let mut volume = Volume { dir: TempDir::new().expect("there is room"), versions: 0 };
        volume.set(text);
        let file = volume.dir.path().join("config.yaml");
        symlink("..data/config.yaml", file).expect("it is new");
        volume
    }

    /// As the kubelet does: a new directory, and one move of the link.
    fn set(&mut self, text: &str) {
        self.versions += 1;
        let version = format!("..version-{}", self.versions);
        let path = self.dir.path();
        std::fs::create_dir(path.join(&version)).expect("it is new");
        std::fs::write(path.join(&version).join("config.yaml"), text).expect("there is room");
        symlink(&version, path.join("..data_tmp")).expect("it is new");
        std::fs::rename(path.join("..data_tmp"), path.join("..data")).expect("it is moved");
    }
}

struct Process {
    child: Child,
    log: std::path::PathBuf,
}

impl Process {
    fn start(volume: &Volume, flags: &[&str]) -> Self {
        let log = volume.dir.path().join("log");
        let file = std::fs::File::create(&log).expect("there is room");
        let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["run", "--secure-port=0", "--emulated-version=1.37", "--config"])
            .arg(volume.dir.path().join("config.yaml"))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(file)
            .spawn();
        Process { child: child.expect("the binary starts"), log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    #[track_caller]
    fn says(&self, text: &str) {
        eventually(&format!("{text:?} in {}", self.log()), || self.log().contains(text));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cluster() -> TestServer {
    let server = TestServer::start(Options::default());
    let nodes = ["a", "b"].map(|pool| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": pool, "labels": {"pool": pool}},
            "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "20"}},
        })
    });
    server.store().apply_all(nodes).expect("they are valid");
    server
}

fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

/// The node of each pod that has one.
fn placed(server: &TestServer) -> BTreeMap<String, String> {
    let pods = server.store().list("pods").into_iter();
    let place = |pod: Value| {
        let node = pod["spec"]["nodeName"].as_str()?.to_owned();
        Some((pod["metadata"]["name"].as_str()?.to_owned(), node))
    };
    pods.filter_map(place).collect()
}

#[track_caller]
fn goes_to(server: &TestServer, pod: &Value, node: &str) {
    let name = pod["metadata"]["name"].as_str().expect("it has a name");
    server.store().apply(pod.clone()).expect("it is valid");
    eventually(&format!("{name} has a node"), || placed(server).contains_key(name));
    assert_eq!(placed(server)[name], node, "{name}");
}

#[test]
fn a_file_that_changes_takes_effect_and_a_wrong_one_does_not() {
    let server = cluster();
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let mut volume = Volume::new(&configuration(&kubeconfig, "a", "b"));
    let process = Process::start(&volume, &["--reload=apply"]);
    goes_to(&server, &pod("default", "first"), "a");
    volume.set(&configuration(&kubeconfig, "b", "b"));
    process.says("the new configuration is in effect");
    assert!(process.log().contains("profiles[default-scheduler].pluginConfig[NodeAffinity]"));
    goes_to(&server, &pod("default", "second"), "b");
    // A fault, and a field that takes effect only after a restart: neither changes anything.
    let wrong = configuration(&kubeconfig, "a", "b").replace("operator: In", "operator: Near");
    volume.set(&wrong);
    process.says("the new configuration is refused");
    process.says("Near");
    let of_start = configuration(&kubeconfig, "a", "b")
        .replace("leaderElect: false", "leaderElect: false\n  retryPeriod: 3s");
    volume.set(&of_start);
    process.says("these fields take effect only after a restart: leaderElection.retryPeriod");
    goes_to(&server, &pod("default", "third"), "b");
    volume.set(&configuration(&kubeconfig, "a", "b"));
    let applied = || process.log().matches("the new configuration is in effect").count();
    eventually("the right one is applied", || applied() == 2);
    goes_to(&server, &pod("default", "fourth"), "a");
}

#[test]
fn a_file_that_is_only_checked_changes_nothing() {
    let server = cluster();
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let mut volume = Volume::new(&configuration(&kubeconfig, "a", "b"));
    let process = Process::start(&volume, &["--reload=check"]);
    goes_to(&server, &pod("default", "first"), "a");
    volume.set(&configuration(&kubeconfig, "b", "b"));
    process.says("pod default/first: node a, then node b");
    process.says("it takes effect with --reload=apply, or after a restart");
    goes_to(&server, &pod("default", "second"), "a");
}

#[test]
fn a_canary_chooses_the_profile_of_a_namespace() {
    let server = cluster();
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let volume = Volume::new(&configuration(&kubeconfig, "a", "b"));
    let _process = Process::start(&volume, &["--canary", r#"podNamespace == "batch"=other"#]);
    goes_to(&server, &pod("default", "usual"), "a");
    goes_to(&server, &pod("batch", "canary"), "b");
}

/// Two nodes, and a pod in each of two namespaces.
const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: a, labels: {pool: a}}
status: {allocatable: {cpu: '4', pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {pool: b}}
status: {allocatable: {cpu: '4', pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: usual, namespace: default}
spec: {containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: canary, namespace: batch}
spec: {containers: [{name: c}]}
";

#[test]
fn simulate_and_explain_know_canaries() {
    let config = configuration(Path::new(""), "a", "b");
    let files: &[(&str, &str)] = &[("c.yaml", CLUSTER), ("s.yaml", &config)];
    let nodes = |flags: &str| -> Vec<String> {
        let line = format!("simulate -f c.yaml --config s.yaml -o json {flags}");
        let place = |record: Value| {
            let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
            format!("{} {}", text("pod"), text("node"))
        };
        let mut all: Vec<String> = records(files, &line).into_iter().map(place).collect();
        all.sort();
        all
    };
    assert_eq!(nodes(""), ["batch/canary a", "default/usual a"]);
    let canary = "--canary podNamespace==\"batch\"=other";
    assert_eq!(nodes(canary), ["batch/canary b", "default/usual a"]);
    let line = format!("explain -f c.yaml --config s.yaml --pod batch/canary -o json {canary}");
    assert_eq!(records(files, &line)[0]["node"], "b");
    check_refused(
        files,
        "simulate -f c.yaml --config s.yaml --canary true=third",
        &expect_test::expect![[r#"
            error: --canary: the configuration has no profile "third"; it has default-scheduler, other
        "#]],
    );
}

/// A pod of the namespace of the canary with a controller, on the node of the usual profile.
const PLACED: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: placed
  namespace: batch
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: placed, uid: r, controller: true}]
spec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: '1'}}}]}
status: {phase: Running}
";

/// The same nodes, of which one has a pod that stays there.
const NODES_IN_USE: &str = "\
apiVersion: v1
kind: Node
metadata: {name: a, labels: {pool: a}}
status: {allocatable: {cpu: '4', pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {pool: b}}
status: {allocatable: {cpu: '4', pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: stays, namespace: default}
spec: {nodeName: b, containers: [{name: c}]}
status: {phase: Running}
";

/// A pod that is not in the cluster.
const MORE: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: more, namespace: batch}
spec: {containers: [{name: c, resources: {requests: {cpu: '1'}}}]}
";

#[test]
fn every_question_about_files_knows_canaries_and_names_the_rule() {
    let config = configuration(Path::new(""), "a", "b");
    let files: &[(&str, &str)] =
        &[("c.yaml", CLUSTER), ("p.yaml", PLACED), ("m.yaml", MORE), ("s.yaml", &config)];
    let rule = r#"podNamespace=="batch"=other"#;
    let ask = |line: &str| {
        records(files, &format!("{line} --config s.yaml -o json --canary {rule}")).remove(0)
    };
    let of_rule = json!({"rule": rule, "profile": "other", "schedulerName": "default-scheduler"});

    let explained = ask("explain -f c.yaml --pod batch/canary");
    assert_eq!((&explained["node"], &explained["canary"]), (&json!("b"), &of_rule));

    let why = ask("why -f c.yaml --pod batch/canary");
    assert_eq!((&why["record"]["node"], &why["canary"]), (&json!("b"), &of_rule));
    let why = ask("why -f c.yaml --pod default/usual");
    assert_eq!((&why["record"]["node"], why.get("canary")), (&json!("a"), None));
    // A pod that is on its node is decided again by the profile that would decide it now.
    let why = ask("why -f c.yaml p.yaml --pod batch/placed");
    assert_eq!((&why["record"]["node"], &why["canary"]), (&json!("b"), &of_rule));

    let plan = ask("what-if -f c.yaml --apply m.yaml");
    let node = |plan: &Value, pod: &str| {
        let placed = plan["placed"].as_array().expect("pods are placed").iter();
        placed.filter(|one| one["pod"] == pod).map(|one| one["to"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(node(&plan, "batch/more"), ["b"]);
    assert_eq!(node(&plan, "default/usual"), ["a"]);
    let picked = json!([{"rule": rule, "profile": "other", "schedulerName": "default-scheduler",
        "pods": ["batch/canary", "batch/more"]}]);
    assert_eq!(plan["canaries"], picked);
    // A pod that is made again is pending again, so the rule picks it.
    let plan = ask("what-if -f c.yaml p.yaml --lose a");
    assert_eq!(node(&plan, "batch/placed"), ["b"]);

    let capacity = ask("capacity -f c.yaml --pod-file m.yaml");
    let shape = &capacity["shapes"][0];
    assert_eq!((&shape["byNode"], &shape["canary"]), (&json!({"b": 4}), &of_rule));
    let capacity = ask("capacity -f c.yaml p.yaml --all-shapes");
    let shape = &capacity["shapes"][0];
    assert_eq!((&shape["byNode"], &shape["canary"]), (&json!({"b": 4}), &of_rule));

    // The pod may go only to the pool of the profile that decides it once it is made again.
    let files: &[(&str, &str)] =
        &[("n.yaml", NODES_IN_USE), ("p.yaml", PLACED), ("s.yaml", &config)];
    let line = "rebalance -f n.yaml p.yaml --free-nodes --config s.yaml -o json";
    assert_eq!(records(files, line)[0].get("freed"), None);
    let plan = records(files, &format!("{line} --canary {rule}")).remove(0);
    assert_eq!((&plan["freed"], &plan["steps"][1]["to"]), (&json!(["a"]), &json!("b")), "{plan}");

    let files: &[(&str, &str)] = &[("c.yaml", CLUSTER), ("s.yaml", &config)];
    let text = crate::run::run(
        files,
        &format!("why -f c.yaml --config s.yaml --pod batch/canary --canary {rule}"),
    );
    let said = format!(
        "Profile other decides batch/canary, since --canary '{rule}' picks it; its schedulerName is default-scheduler.\n"
    );
    assert!(text.out.starts_with(&said), "{}", text.out);
}

#[test]
fn the_page_about_files_and_recordings_know_canaries_too() {
    let folder = TempDir::new().expect("there is room");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("there is room");
        path.display().to_string()
    };
    let config = file("s.yaml", &configuration(Path::new(""), "a", "b"));
    let (cluster, placed) = (file("c.yaml", CLUSTER), file("p.yaml", PLACED));
    let rule = r#"podNamespace=="batch"=other"#;
    let of_rule = json!({"rule": rule, "profile": "other", "schedulerName": "default-scheduler"});
    let served = Served::start(&["-f", &cluster, &placed, "--config", &config, "--canary", rule]);
    let line = format!("-f {cluster} {placed} --config {config} --canary {rule} -o json");
    for pod in ["batch/canary", "batch/placed", "default/usual"] {
        let why = served.get(&format!("/api/v1/why?pod={pod}"));
        is_of_schema("Why", &why);
        assert_eq!(why, records(&[], &format!("why --pod {pod} {line}"))[0], "{pod}");
        let is_picked = pod != "default/usual";
        assert_eq!(why.get("canary"), Some(&of_rule).filter(|_| is_picked), "{pod}");
    }
    let more = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "more", "namespace": "batch"}, "spec": {"containers": [{"name": "c"}]}});
    let plan = served.post("/api/v1/what-if", &json!({"actions": [{"apply": [more]}]}));
    // The rule has picked the other pod before, and it goes to the same node.
    assert_eq!(plan["canaries"][0]["pods"], json!(["batch/more"]), "{plan}");
    let placed = plan["placed"].as_array().expect("pods are placed").iter();
    let on_b = placed.filter(|one| one["to"] == "b").map(|one| one["pod"].clone());
    assert_eq!(on_b.collect::<Vec<_>>(), ["batch/canary", "batch/more"], "{plan}");

    // The recording has the profiles that decided, without the rule.
    let rec = folder.path().join("rec").display().to_string();
    let line = format!("simulate -f {cluster} --config {config} --record {rec}");
    assert_eq!(crate::run::run(&[], &line).status, 0);
    let ask = |flags: &str| {
        records(&[], &format!("why --recording {rec} --pod batch/canary -o json {flags}")).remove(0)
    };
    assert_eq!((&ask("")["node"], ask("").get("canary")), (&json!("a"), None));
    let why = ask(&format!("--canary {rule}"));
    assert_eq!((&why["record"]["node"], &why["canary"]), (&json!("b"), &of_rule));
}

/// A gang whose members have different labels.
const GANG: &str = "\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: train, namespace: batch}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: v1
kind: Pod
metadata: {name: leader, namespace: batch, labels: {role: leader}}
spec: {schedulingGroup: {podGroupName: train}, containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: worker, namespace: batch, labels: {role: worker}}
spec: {schedulingGroup: {podGroupName: train}, containers: [{name: c}]}
";

#[test]
fn a_rule_never_splits_a_group() {
    let config = configuration(Path::new(""), "a", "b");
    let files: &[(&str, &str)] = &[("c.yaml", CLUSTER), ("g.yaml", GANG), ("s.yaml", &config)];
    let nodes = |rule: &str| -> Vec<Value> {
        let line = format!(
            "explain -f c.yaml g.yaml --config s.yaml --feature-gates GenericWorkload=true,GangScheduling=true --group \
             batch/train -o json --canary {rule}"
        );
        let record = records(files, &line).remove(0);
        assert_eq!(record["result"], "scheduled", "{record}");
        let pods = record["pods"].as_array().expect("it has pods").iter();
        pods.map(|pod| pod["node"].clone()).collect()
    };
    // Their labels differ, so a rule that reads them picks neither.
    assert_eq!(nodes(r#"labels.role=="leader"=other"#), ["a", "a"]);
    assert_eq!(nodes(r#"podGroup=="train"=other"#), ["b", "b"]);
    assert_eq!(nodes(r#"podNamespace=="batch"=other"#), ["b", "b"]);
}
