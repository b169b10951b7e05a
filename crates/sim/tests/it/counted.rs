//! Pods that are judged by the pods in topology domains are decided from remembered results, each as from scratch: if no
//! node is feasible, and if pods are nominated.

use expect_test::expect;
use serde_json::{Value as Json, json};

use crate::world::check;

/// Four CPUs, in a zone.
fn node(name: &str, zone: &str) -> Json {
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
    let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    })
}

/// Node `a` in zone `z1`, and `b` and `c` in `z2`.
fn nodes() -> Vec<Json> {
    vec![node("a", "z1"), node("b", "z2"), node("c", "z2")]
}

fn pod(name: &str, app: &str, cpu: &str, priority: i32, more: &Json) -> Json {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let mut spec = json!({
        "containers": [container], "priority": priority, "schedulerName": "default-scheduler",
    });
    let fields = spec.as_object_mut().expect("it is an object");
    fields.extend(more.as_object().expect("it is an object").clone());
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "labels": {"app": app}},
        "spec": spec,
    })
}

/// Pods of the app may differ by one between zones.
fn even(app: &str) -> Json {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}},
    }]})
}

/// Not beside pods of the app, in domains of the key.
fn apart(app: &str, key: &str) -> Json {
    let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    json!({"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
    }}})
}

/// Only on this node, as the pods of a DaemonSet.
fn only_on(node: &str) -> Json {
    let rule = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [rule]}],
    }}}})
}

const HOST: &str = "kubernetes.io/hostname";

#[test]
fn pods_that_would_be_spread_unevenly_wait() {
    check(
        &[
            nodes(),
            // Zone `z1` is full.
            vec![pod("large", "db", "4", 9, &json!({}))],
            vec![pod("w1", "web", "1", 0, &even("web"))],
            vec![pod("w2", "web", "1", 0, &even("web"))],
            vec![pod("w3", "web", "5", 0, &even("web"))],
            vec![node("d", "z1")],
        ],
        &expect![[r#"
            large on a
            w1 on b
            w2: Unschedulable: 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match pod topology spread constraints. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.
            w3: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.
            w2 on d
        "#]],
    );
}

#[test]
fn pods_evict_others_to_be_spread_evenly() {
    check(
        &[
            nodes(),
            vec![pod("low", "db", "4", 0, &only_on("a"))],
            vec![pod("w1", "web", "1", 5, &even("web"))],
            vec![pod("w2", "web", "1", 5, &even("web"))],
            vec![pod("w3", "web", "1", 5, &even("web"))],
        ],
        &expect![[r#"
            low on a
            w1 on b
            w2 evicts low
            w2: Unschedulable: 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match pod topology spread constraints. preemption: found a potential placement for pod on node a, preempting 1 victims
            w2 on a
            w3 on c
        "#]],
    );
}

#[test]
fn pods_that_must_be_apart_wait_or_evict() {
    check(
        &[
            nodes(),
            vec![pod("w1", "web", "1", 0, &apart("web", HOST))],
            vec![pod("w2", "web", "1", 1, &apart("web", HOST))],
            vec![pod("w3", "web", "1", 2, &apart("web", HOST))],
            vec![pod("w4", "web", "1", 0, &apart("web", HOST))],
            vec![pod("w5", "web", "1", 2, &apart("web", HOST))],
            vec![pod("w6", "web", "1", 9, &apart("web", "no-such-label"))],
        ],
        &expect![[r#"
            w1 on a
            w2 on b
            w3 on c
            w4: Unschedulable: 0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.
            w5 evicts w1
            w5: Unschedulable: 0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. preemption: found a potential placement for pod on node a, preempting 1 victims
            w5 on a
            w4: Unschedulable: 0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.
            w6 evicts w2
            w6: Unschedulable: 0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules. preemption: found a potential placement for pod on node b, preempting 1 victims
            w6 on b
            w4: Unschedulable: 0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.
        "#]],
    );
}

#[test]
fn nobody_takes_the_place_that_was_made_for_a_pod_that_must_be_alone() {
    check(
        &[
            nodes(),
            vec![
                pod("a", "db", "3", 0, &only_on("a")),
                pod("b", "db", "3", 1, &only_on("b")),
                pod("c", "db", "3", 1, &only_on("c")),
            ],
            // It gets node `a`, and waits until `a` is gone.
            vec![pod("urgent", "web", "3", 9, &apart("web", HOST))],
            vec![pod("w1", "web", "100m", 9, &apart("none", HOST))],
            vec![pod("w2", "web", "100m", 9, &even("web"))],
            vec![pod("daemon-a", "daemon", "100m", 9, &only_on("a"))],
            vec![pod("daemon-b", "daemon", "100m", 9, &only_on("b"))],
        ],
        &expect![[r#"
            b on b
            c on c
            a on a
            urgent evicts a
            urgent: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
            urgent on a
            w1 on b
            w2 on c
            daemon-a on a
            daemon-b on b
        "#]],
    );
}
