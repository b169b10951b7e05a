//! Nodes and pods as in scheduler_perf.

use serde_json::{Value, json};

use super::Workload;

/// The number of Deployments that the pods belong to.
pub(super) const DEPLOYMENTS: usize = 100;

/// The version of the PodGroups.
pub(super) const GROUP_VERSION: &str = "scheduling.k8s.io/v1beta1";

/// The number of pods of a gang.
const GANG: usize = 1000;

const ZONES: [&str; 3] = ["moon-1", "moon-2", "moon-3"];

pub(super) fn node_name(number: usize) -> String {
    format!("plimsoll-e2e-node-{number}")
}

pub(super) fn node(number: usize) -> Value {
    let name = node_name(number);
    let zone = ZONES[number % ZONES.len()];
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone,
        }},
        "status": {
            "capacity": {"cpu": "4", "memory": "32Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

pub(super) fn service(namespace: &str, number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": format!("app-{number}"), "namespace": namespace},
        "spec": {"selector": {"app": format!("app-{number}")}, "ports": [{"port": 80}]},
    })
}

pub(super) fn replica_set(namespace: &str, number: usize) -> Value {
    let labels = json!({"app": format!("app-{number}")});
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": format!("app-{number}"), "namespace": namespace},
        // The pods are created separately: with replicas a controller would create others.
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "pause:3.10"}]},
        }},
    })
}

/// How many gangs so many pods make.
pub(super) fn gangs(pods: usize) -> usize {
    pods.div_ceil(GANG)
}

/// A gang of `pods` pods in all; the last one may be smaller.
pub(super) fn pod_group(namespace: &str, number: usize, pods: usize) -> Value {
    let members = GANG.min(pods - number * GANG);
    json!({
        "apiVersion": GROUP_VERSION,
        "kind": "PodGroup",
        "metadata": {"name": format!("gang-{number}"), "namespace": namespace},
        "spec": {"schedulingPolicy": {"gang": {"minCount": members}}},
    })
}

pub(super) fn pod(
    namespace: &str,
    number: usize,
    workload: Workload,
    scheduler_name: &str,
) -> Value {
    let mut metadata = json!({"name": format!("pod-{number}"), "namespace": namespace});
    if workload == Workload::Deployments {
        metadata["labels"] = json!({"app": format!("app-{}", number % DEPLOYMENTS)});
    }
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": scheduler_name, "containers": [{
            "name": "pause", "image": "pause:3.10",
            "ports": [{"containerPort": 80}],
            "resources": {
                "requests": {"cpu": "100m", "memory": "500Mi"},
                "limits": {"cpu": "100m", "memory": "500Mi"},
            },
        }]},
    });
    if workload == Workload::Gangs {
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": format!("gang-{}", number / GANG)});
    }
    pod
}
