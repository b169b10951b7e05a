//! Nodes and pods as in scheduler_perf.

use serde_json::{Value, json};

use super::Workload;

/// The number of Deployments that the pods belong to.
pub(super) const DEPLOYMENTS: usize = 100;

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
    json!({
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
    })
}
