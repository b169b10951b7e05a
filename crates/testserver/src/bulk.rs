//! Many plain objects, as scheduler_perf's basic workload has them (`node-default.yaml`, `pod-default.yaml`).

use serde_json::{Value, json};

/// The node with this number: 4 CPUs, 32 GiB, 110 pods; one of three zones.
pub fn node(number: usize) -> Value {
    let name = format!("node-{number:05}");
    let capacity = json!({ "cpu": "4", "memory": "32Gi", "pods": "110" });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": format!("zone{}", number % 3 + 1),
            },
        },
        "status": {
            "capacity": capacity, "allocatable": capacity, "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

/// The pod with this number in the namespace `default`: 100m CPU and 500 MiB.
pub fn pod(number: usize) -> Value {
    let requests = json!({ "cpu": "100m", "memory": "500Mi" });
    let container = json!({
        "name": "pause", "image": "registry.k8s.io/pause:3.10.1",
        "resources": { "limits": requests, "requests": requests },
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("pod-{number:05}"), "namespace": "default" },
        "spec": { "containers": [container] },
    })
}
