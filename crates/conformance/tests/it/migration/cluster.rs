//! A cluster to which every kind of rule applies: zones and racks, labels, taints, services and their
//! owners, affinity, ports, disks, claims and images.

use serde_json::{Value, json};

const N_NODES: usize = 24;
const N_RUNNING: usize = 48;
const N_PENDING: usize = 36;
const ZONES: [&str; 3] = ["a", "b", "c"];
const APPS: [&str; 4] = ["web", "db", "cache", "batch"];

/// The objects, and the pods that wait for a node.
pub(crate) fn objects() -> (Vec<Value>, Vec<String>) {
    let mut objects: Vec<Value> = (0..N_NODES).map(node).collect();
    for app in APPS {
        let (labels, name) = (json!({"app": app}), json!({"name": app}));
        objects.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": name,
            "spec": {"selector": labels}}));
        objects.push(json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": name,
            "spec": {"selector": labels}}));
    }
    objects.push(json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "late"}, "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer"}));
    for (index, zone) in ZONES.iter().enumerate() {
        objects.extend(claim(&format!("data-{index}"), zone));
    }
    objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "late"}, "spec": {"storageClassName": "late",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}));
    objects.extend((0..N_RUNNING).map(running));
    objects.extend((0..N_PENDING).map(pending));
    let pods = (0..N_PENDING).map(|index| format!("default/wait-{index:02}"));
    (objects, pods.collect())
}

fn node(index: usize) -> Value {
    let zone = ZONES[index % 3];
    let mut labels = json!({
        "kubernetes.io/hostname": format!("n{index:02}"),
        "topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "r",
        "zone": zone, "rack": format!("rack{}", index % 5), "row": format!("row{}", index % 2),
    });
    for (label, every) in [("ssd", 2), ("old", 3), ("retiring", 7)] {
        if index.is_multiple_of(every) {
            labels[label] = json!("");
        }
    }
    let taints = match index {
        5 => json!([{"key": "gpu", "effect": "NoSchedule"}]),
        6 | 10 => json!([{"key": "slow", "effect": "PreferNoSchedule"}]),
        11 => json!([{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]),
        _ => json!([]),
    };
    let annotations = match index % 8 {
        3 => json!({"scheduler.alpha.kubernetes.io/preferAvoidPods": json!({"preferAvoidPods": [
            {"podSignature": {"podController": {"apiVersion": "v1", "kind": "ReplicationController",
             "name": "web", "uid": "rc-web", "controller": true}}}]}).to_string()}),
        _ => json!({}),
    };
    let images = json!([{"names": [format!("{}:1", APPS[index % 4])], "sizeBytes": 700_000_000}]);
    let mut allocatable = json!({"cpu": format!("{}", 4 + index % 3 * 2), "pods": "12",
        "memory": format!("{}Gi", 8 + index % 4 * 4)});
    if index % 4 == 1 {
        allocatable["nvidia.com/gpu"] = json!("4");
    }
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("n{index:02}"), "labels": labels, "annotations": annotations},
        "spec": {"unschedulable": index == 17, "taints": taints},
        "status": {"allocatable": allocatable, "images": images}})
}

/// A claim, and its volume in a zone.
fn claim(name: &str, zone: &str) -> [Value; 2] {
    [
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name,
            "labels": {"topology.kubernetes.io/zone": zone}}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
            "claimRef": {"name": name, "namespace": "default"}, "nfs": {"path": "/", "server": "s"}}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name,
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {
            "volumeName": name, "accessModes": ["ReadWriteMany"], "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound"}}),
    ]
}

/// The pod with this number; its app and requests have defaults unless `spec` sets them.
fn pod(name: &str, index: usize, mut spec: Value) -> Value {
    let app = APPS[index % 4];
    let cpu = ["250m", "500m", "1", "1500m"][index / 4 % 4];
    let container = json!({"name": "c", "image": format!("{app}:1"),
        "resources": {"requests": {"cpu": cpu, "memory": "512Mi"}}});
    if spec["containers"].is_null() {
        spec["containers"] = json!([container]);
    }
    let owner = json!({"apiVersion": "v1", "kind": "ReplicationController", "name": app,
        "uid": format!("rc-{app}"), "controller": true});
    json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": {"name": name,
        "namespace": "default", "labels": {"app": app}, "ownerReferences": [owner]}})
}

fn running(index: usize) -> Value {
    let node = format!("n{:02}", index * 7 % N_NODES);
    let mut spec = json!({"nodeName": node});
    if index.is_multiple_of(6) {
        spec["volumes"] = json!([disk(index / 6)]);
    }
    if index % 9 == 4 {
        spec["affinity"] = json!({"podAntiAffinity": away_from("db", "kubernetes.io/hostname")});
    }
    pod(&format!("run-{index:02}"), index, spec)
}

fn disk(number: usize) -> Value {
    match number % 2 {
        0 => json!({"name": "d", "gcePersistentDisk": {"pdName": format!("disk{number}")}}),
        _ => json!({"name": "d", "awsElasticBlockStore": {"volumeID": format!("vol{number}")}}),
    }
}

fn away_from(app: &str, key: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]})
}

/// Twelve kinds of pods take turns.
fn pending(index: usize) -> Value {
    let app = APPS[index % 4];
    let near = json!({"topologyKey": "topology.kubernetes.io/zone",
        "labelSelector": {"matchLabels": {"app": app}}});
    let spec = match index % 12 {
        0 => json!({"containers": [{"name": "c", "image": "web:1",
            "ports": [{"containerPort": 80, "hostPort": 8080}],
            "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}),
        1 => json!({"nodeSelector": {"ssd": ""}}),
        2 => json!({"volumes": [disk(index / 12), disk(index / 12 + 1)]}),
        3 => json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]}),
        4 => json!({"affinity": {"podAntiAffinity": away_from(app, "kubernetes.io/hostname")}}),
        5 => {
            json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 50, "podAffinityTerm": near}]}}})
        }
        6 => json!({"volumes": [{"name": "v", "persistentVolumeClaim":
            {"claimName": format!("data-{}", index / 12)}}]}),
        7 => {
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 30, "preference": {"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}},
            {"weight": 20, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}]}}})
        }
        8 => json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}]}),
        9 => json!({"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "1", "nvidia.com/gpu": "1", "memory": "1Gi"},
            "limits": {"cpu": "6", "memory": "13Gi", "nvidia.com/gpu": "1"}}}]}),
        10 => json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "late"}}]}),
        _ => json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": app}}}]}),
    };
    pod(&format!("wait-{index:02}"), index, spec)
}
