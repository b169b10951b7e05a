//! The release that decides.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testserver::{Options, TestServer};

use crate::manifests::CLUSTER;
use crate::run::{placements, records, run};

/// Far longer than a start takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

/// Every command that decides.
const COMMANDS: [&str; 5] = [
    "simulate -f a.yaml",
    "simulate --swarm 1",
    "explain -f a.yaml --pod p1",
    "config check config.yaml",
    "bench SchedulingBasic --nodes 5 --init-pods 0 --pods 5 --audit 0",
];

const CONFIG: &str =
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

#[test]
fn every_command_that_decides_takes_the_release_as_kube_scheduler_does() {
    let files = [("a.yaml", CLUSTER), ("config.yaml", CONFIG)];
    for command in COMMANDS {
        for version in ["1.36", "1.37", "kube=1.36", "v1.37"] {
            let answer = run(&files, &format!("{command} --emulated-version={version}"));
            assert_eq!(answer.status, 0, "{command} {version}: {}", answer.err);
        }
    }
    for command in COMMANDS.into_iter().chain(["run"]) {
        for (version, told) in [
            ("1.38", "emulation version 1.38 is not between [1.36, 1.37]"),
            ("1.35", "emulation version 1.35 is not between [1.36, 1.37]"),
            ("1.36.1", "patch version not allowed, got: 1.36.1"),
            ("wardle=1.2", "component not registered: wardle"),
            ("new", "could not parse \"new\" as version"),
        ] {
            let answer = run(&files, &format!("{command} --emulated-version={version}"));
            assert_eq!(answer.status, 2, "{command} {version}");
            assert!(answer.err.contains(told), "{command} {version}: {}", answer.err);
        }
    }
}

/// The log fields with the release of `run`, at an API server of release 1.`minor`.
fn followed(minor: u32, flags: &[&str]) -> String {
    let server = TestServer::start(Options { release: minor, ..Options::default() });
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let dir = tempfile::tempdir().expect("there is room");
    let log = dir.path().join("log");
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "--secure-port=0", "--leader-elect=false", "--kubeconfig"])
        .arg(&kubeconfig)
        .args(flags)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).expect("there is room"))
        .spawn()
        .expect("the binary starts");
    let begun = Instant::now();
    let told = loop {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let line = text.lines().find_map(|line| line.split_once("of this release"));
        if let Some((_, fields)) = line {
            break fields.to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "it does not say its release: {text}");
        assert_eq!(child.try_wait().expect("it can be asked"), None, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    };
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    told
}

#[test]
fn run_decides_as_the_release_of_the_api_server_unless_one_is_given() {
    for (minor, release) in [(30, "1.36"), (36, "1.36"), (37, "1.37"), (38, "1.37")] {
        let told = followed(minor, &[]);
        assert!(told.contains(&format!("release=\"{release}\"")), "1.{minor}: {told}");
    }
    let told = followed(36, &["--emulated-version=1.37"]);
    assert!(told.contains("release=\"1.37\""), "{told}");
}

/// The records of `simulate` for these objects in a release.
fn decided(objects: &str, release: &str) -> Vec<serde_json::Value> {
    let line = format!("simulate -f a.yaml -o json --emulated-version {release}");
    records(&[("a.yaml", objects)], &line)
}

const FULL: &str = r#"
{kind: Node, apiVersion: v1, metadata: {name: one}, status: {allocatable: {cpu: "2", memory: 4Gi, pods: "9"}}}
---
{kind: Pod, apiVersion: v1, metadata: {name: low}, spec: {nodeName: one, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}
---
{kind: Pod, apiVersion: v1, metadata: {name: high}, spec: {priority: 9, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}
"#;

#[test]
fn a_successful_preemption_is_reported_since_1_37() {
    let told = |release| decided(FULL, release)[0]["message"].clone();
    assert_eq!(told("1.36"), "0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!(
        told("1.37"),
        "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on \
         node one, preempting 1 victims"
    );
}

const STORAGE: &str = r#"
{kind: Node, apiVersion: v1, metadata: {name: a, labels: {at: a}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
---
{kind: Node, apiVersion: v1, metadata: {name: b, labels: {at: b}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
---
{kind: StorageClass, apiVersion: storage.k8s.io/v1, metadata: {name: c}, provisioner: csi.a, volumeBindingMode: WaitForFirstConsumer}
---
{kind: CSIDriver, apiVersion: storage.k8s.io/v1, metadata: {name: csi.a}, spec: {storageCapacity: true}}
---
{kind: CSIStorageCapacity, apiVersion: storage.k8s.io/v1, metadata: {name: a, namespace: default}, storageClassName: c, capacity: 100Gi, nodeTopology: {matchLabels: {at: a}}}
---
{kind: CSIStorageCapacity, apiVersion: storage.k8s.io/v1, metadata: {name: b, namespace: default}, storageClassName: c, capacity: 1000Gi, nodeTopology: {matchLabels: {at: b}}}
---
{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: data, namespace: default, uid: u}, spec: {storageClassName: c, accessModes: [ReadWriteOnce], resources: {requests: {storage: 90Gi}}}, status: {phase: Pending}}
---
{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}}
"#;

#[test]
fn nodes_are_scored_by_free_storage_since_1_37() {
    let best = |release| decided(STORAGE, release)[0]["best"].clone();
    assert_eq!(best("1.36"), serde_json::json!(["a", "b"]));
    assert_eq!(best("1.37"), serde_json::json!(["b"]));
    let gate = "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}]}]";
    let config = format!("{CONFIG}{gate}\n");
    let files = [("a.yaml", STORAGE), ("config.yaml", config.as_str())];
    let line = "simulate -f a.yaml -o json --config config.yaml --emulated-version";
    let fullest = records(&files, &format!("{line} 1.37"));
    assert_eq!(fullest[0]["best"], serde_json::json!(["a"]));
    let refused = run(&files, &format!("{line} 1.36"));
    assert!(
        refused.err.contains("turn on the feature gate StorageCapacityScoring"),
        "{}",
        refused.err
    );
}

#[test]
fn a_required_csi_driver_must_run_on_the_node_since_1_37() {
    let required = "spec: {storageCapacity: true, preventPodSchedulingIfMissing: true}";
    let objects = STORAGE.replace("spec: {storageCapacity: true}", required);
    let told = |release| decided(&objects, release)[0]["message"].clone();
    assert_eq!(told("1.36"), serde_json::Value::Null);
    assert_eq!(
        told("1.37"),
        "0/2 nodes are available: 2 csi.a CSI driver is not installed on the node. no new claims to deallocate, preemption: 0/2 nodes \
         are available: 2 No preemption victims found for incoming pod."
    );
}

/// A running pod in which one container is to grow and the other to shrink.
const RESIZED: &str = r#"
{kind: Node, apiVersion: v1, metadata: {name: one}, status: {allocatable: {cpu: "8", memory: 4Gi, pods: "9"}}}
---
kind: Pod
apiVersion: v1
metadata: {name: resized}
spec:
  nodeName: one
  containers:
  - {name: a, resources: {requests: {cpu: "4"}}}
  - {name: b, resources: {requests: {cpu: "1"}}}
status:
  containerStatuses:
  - {name: a, allocatedResources: {cpu: "1"}, resources: {requests: {cpu: "1"}}}
  - {name: b, allocatedResources: {cpu: "4"}, resources: {requests: {cpu: "4"}}}
---
{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {containers: [{name: c, resources: {requests: {cpu: "3"}}}]}}
"#;

#[test]
fn a_resized_pod_counts_with_the_largest_sum_since_1_37() {
    let files = [("a.yaml", RESIZED)];
    let placed = |flags: &str| {
        placements(&files, &format!("simulate -f a.yaml -o json --emulated-version {flags}"))
    };
    for engine in ["fast", "reference"] {
        assert_eq!(placed(&format!("1.36 --engine {engine}")), "default/p unschedulable\n");
        assert_eq!(placed(&format!("1.37 --engine {engine}")), "default/p one\n");
    }
}
