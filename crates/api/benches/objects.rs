//! How long it takes to read what the API server sends.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use plimsoll_api::{Quantity, wire};

const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "web-0", "namespace": "shop", "uid": "1", "labels": {"app": "web"}},
    "spec": {
        "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}],
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]}}"#;

fn quantities(c: &mut Criterion) {
    let mut group = c.benchmark_group("quantity");
    for text in ["4", "100m", "500Mi", "1.5Gi", "12e6"] {
        group.bench_function(text, |b| b.iter(|| Quantity::parse(black_box(text))));
    }
    group.finish();
}

fn pods(c: &mut Criterion) {
    assert!(wire::object_from_str(POD).is_ok(), "the pod is right");
    c.bench_function("pod from JSON", |b| b.iter(|| wire::object_from_str(black_box(POD))));
}

criterion_group!(benches, quantities, pods);
criterion_main!(benches);
