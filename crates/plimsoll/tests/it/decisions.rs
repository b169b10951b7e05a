//! Decisions, and that they are always the same.

use std::collections::BTreeSet;

use expect_test::expect;
use serde_json::Value;

use crate::manifests::CLUSTER;
use crate::run::{check, check_refused, records, run};

/// The example cluster of the repository.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cluster");

/// Twelve equal nodes and six pods.
fn equal_nodes() -> String {
    let nodes = (0..12).map(|i| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: n{i:02}}}\n\
             status: {{allocatable: {{cpu: '4', pods: '10'}}}}\n---\n"
        )
    });
    let pods = (0..6).map(|i| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{i}}}\n\
             spec: {{containers: [{{name: c}}]}}\n---\n"
        )
    });
    nodes.chain(pods).collect()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_another_choice() {
    let text = equal_nodes();
    let with = |seed: u32| {
        let line = format!("simulate -f a.yaml -o json --tie-break random --seed {seed}");
        run(&[("a.yaml", &text)], &line)
    };
    assert_eq!(with(7).status, 0);
    assert_eq!(with(7), with(7));
    let outputs: BTreeSet<_> = (0..5).map(|seed| with(seed).out).collect();
    assert!(1 < outputs.len(), "chance has a say");
}

#[test]
fn ties_are_broken_by_name_unless_random_is_given() {
    let text = equal_nodes();
    let records = records(&[("a.yaml", &text)], "simulate -f a.yaml -o json");
    let nodes: Vec<_> = records.iter().map(|record| &record["node"]).collect();
    assert_eq!(nodes, ["n00", "n01", "n02", "n03", "n04", "n05"]);
    assert_eq!(records[0]["best"].as_array().map(Vec::len), Some(12));
}

#[test]
fn explain_and_simulate_say_the_same_about_the_first_pod() {
    let files: &[(&str, &str)] = &[];
    let line = format!("simulate -f {EXAMPLE} -o json --explain");
    let simulated = &records(files, &line)[0];
    let pod = simulated["pod"].as_str().expect("a record names its pod");
    let explained = &records(files, &format!("explain -f {EXAMPLE} --pod {pod} -o json"))[0];
    assert_eq!(explained, simulated);
    assert_eq!(explained["nodes"].as_array().map(Vec::len), Some(20));
}

#[test]
fn records_have_nodes_only_with_explain() {
    let records = records(&[("a.yaml", CLUSTER)], "simulate -f a.yaml -o json");
    assert!(records.iter().all(|record| record.get("nodes").is_none()));
}

#[test]
fn the_example_shows_every_outcome() {
    let records = records(&[], &format!("simulate -f {EXAMPLE} -o json"));
    let result = |pod: &str| {
        let last = records.iter().rfind(|record| record["pod"] == pod);
        last.and_then(|record| record["result"].as_str())
    };
    assert_eq!(result("shop/frontend-6c9f-k2"), Some("scheduled"));
    assert_eq!(result("ml/train-huge-0"), Some("unschedulable"));
    assert_eq!(result("shop/archive-0"), Some("unschedulable"));
    assert_eq!(result("ops/migration-0"), None, "it is gated");
    assert_eq!(result("ml/sweep-0"), None, "it belongs to another scheduler");
    let ingress = ["b", "c", "d"].map(|one| result(&format!("ops/ingress-{one}")));
    let scheduled = ingress.iter().filter(|result| **result == Some("scheduled"));
    assert_eq!(scheduled.count(), 2, "one edge node is taken");
}

#[test]
fn the_frontend_of_the_example_is_spread_over_the_zones() {
    let records = records(&[], &format!("simulate -f {EXAMPLE} -o json"));
    let zone_of = |record: &Value| {
        let pod = record["pod"].as_str()?;
        let node = record["node"].as_str().filter(|_| pod.starts_with("shop/frontend"))?;
        node.split('-').nth(1)?.chars().next()
    };
    let zones: Vec<_> = records.iter().filter_map(zone_of).collect();
    let mut counts = ['a', 'b', 'c'].map(|zone| zones.iter().filter(|z| **z == zone).count());
    counts.sort_unstable();
    assert_eq!(counts, [2, 3, 3]);
}

#[test]
fn an_unknown_pod_is_an_error_with_suggestions() {
    let files: &[(&str, &str)] = &[("a.yaml", CLUSTER)];
    check_refused(
        files,
        "explain -f a.yaml --pod p2",
        &expect![[r#"
            error: pod default/p2 is not in the files: did you mean shop/p2?
        "#]],
    );
    check_refused(
        files,
        "explain -f a.yaml --pod web-0",
        &expect![[r#"
            error: pod default/web-0 is not in the files; the pending pods are default/p1, shop/p2
        "#]],
    );
}

#[test]
fn a_pod_that_does_not_need_a_node_is_not_explained() {
    let with = |spec: &str| {
        CLUSTER.replace("{name: p1}\nspec: {", &format!("{{name: p1}}\nspec: {{{spec}, "))
    };
    for (spec, expected) in [
        (
            "nodeName: n2",
            expect![[r#"
                error: pod default/p1 is on node n2 already: to see where it would go now, remove its spec.nodeName
            "#]],
        ),
        (
            "schedulerName: other",
            expect![[r#"
                error: pod default/p1 belongs to scheduler other, and no profile has that name (there is default-scheduler)
            "#]],
        ),
    ] {
        check_refused(&[("a.yaml", &with(spec))], "explain -f a.yaml --pod p1", &expected);
    }
    let ended = CLUSTER.replace("{name: p1}\n", "{name: p1}\nstatus: {phase: Succeeded}\n");
    check_refused(
        &[("a.yaml", &ended)],
        "explain -f a.yaml --pod p1",
        &expect![[r#"
            error: pod default/p1 has ended, and needs no node
        "#]],
    );
}

#[test]
fn broken_volumes_and_budgets_get_the_messages_of_kube_scheduler() {
    // A claim whose volume is missing, a volume with a node affinity that cannot be read, a claim that does not exist,
    // and a budget without a selector, which protects no pod.
    let objects = r#"
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "2", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: gone, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {storageClassName: "", volumeName: nopv, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: broken}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: default, name: brk, uid: u1}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Near, values: [a]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: brk, uid: u1, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {storageClassName: "", volumeName: broken, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
status: {phase: Bound}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: all}
status: {disruptionsAllowed: 0}
---
apiVersion: v1
kind: Pod
metadata: {name: low, labels: {app: x}}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: high}
spec: {priority: 9, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c}], volumes: [{name: d, persistentVolumeClaim: {claimName: gone}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b}
spec: {containers: [{name: c}], volumes: [{name: d, persistentVolumeClaim: {claimName: brk}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: c}
spec: {containers: [{name: c}], volumes: [{name: d, persistentVolumeClaim: {claimName: nosuch}}]}
"#;
    check(
        &[("bad.yaml", objects)],
        "simulate -f bad.yaml -o json",
        &expect![[r#"
        {"pod":"default/high","result":"unschedulable","message":"0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node n1, preempting 1 victims","nomination":{"node":"n1","victims":["default/low"]}}
        {"pod":"default/a","result":"unschedulable","message":"postfilter error: not found","preFilter":{"plugin":"VolumeZone","code":"UnschedulableAndUnresolvable","reasons":["persistentvolume \"nopv\" not found"]}}
        {"pod":"default/b","result":"unschedulable","message":"0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."}
        {"pod":"default/c","result":"unschedulable","message":"postfilter error: not found","preFilter":{"plugin":"VolumeRestrictions","code":"UnschedulableAndUnresolvable","reasons":["persistentvolumeclaim \"nosuch\" not found"]}}
        {"pod":"default/high","result":"scheduled","node":"n1","best":["n1"],"attempt":2}
        exit status 0
    "#]],
    );
}
