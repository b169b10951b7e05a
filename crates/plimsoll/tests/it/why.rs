//! `plimsoll why` on files.

use expect_test::expect;
use serde_json::{Value, json};

use crate::run::{STDIN, check, run};

/// A node that is too small, and pods of all sorts.
const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec: {containers: [{name: c, resources: {requests: {cpu: '3'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: placed}
spec: {nodeName: n1, containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: over}
spec: {nodeName: n1, containers: [{name: c}]}
status: {phase: Succeeded}
---
apiVersion: v1
kind: Pod
metadata: {name: foreign}
spec: {schedulerName: other, containers: [{name: c}]}
";

fn answer(line: &str) -> Value {
    let answer = run(&[("a.yaml", CLUSTER)], line);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""));
    serde_json::from_str(&answer.out).expect("it is one document")
}

#[test]
fn the_pod_may_follow_the_files_or_be_an_option() {
    let expected = answer("why -f a.yaml large -o json");
    assert_eq!(answer("why large -f a.yaml -o json"), expected);
    assert_eq!(answer("why -f a.yaml --pod default/large -o json"), expected);
    assert_eq!(answer("why -o json -f a.yaml default/large"), expected);
}

#[test]
fn the_cluster_may_come_from_standard_input() {
    let told = run(&[(STDIN, CLUSTER)], "why -f - large -o json");
    assert_eq!((told.status, told.err.as_str()), (0, ""));
    let told: Value = serde_json::from_str(&told.out).expect("it is one document");
    assert_eq!(told, answer("why -f a.yaml large -o json"));
}

#[test]
fn a_remedy_has_changes_that_can_be_applied() {
    let why = answer("why -f a.yaml large -o json --nearest 1");
    assert_eq!((&why["pod"], &why["state"]), (&json!("default/large"), &json!("unschedulable")));
    assert_eq!(why["record"]["result"], "unschedulable");
    let expected = json!({
        "kind": "pod",
        "text": "request 2 cpu instead of 3",
        "changes": [{
            "patch": {"kind": "Pod", "namespace": "default", "name": "large"},
            "operations": [{
                "op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "2",
            }],
        }],
        "node": "n1",
    });
    assert_eq!(why["remedies"], json!([expected]));
    let expected = json!([{"name": "n1", "failures": [{
        "plugin": "NodeResourcesFit", "code": "UnschedulableAndUnresolvable", "reasons": ["Insufficient cpu"],
    }]}]);
    assert_eq!(why["nearest"], expected);
    assert_eq!(why["waiting"]["place"], "active");
    let woken = why["waiting"]["wokenBy"].as_array().expect("it is woken by events");
    assert!(woken.contains(&json!("Node/Add")) && woken.contains(&json!("AssignedPod/Delete")));
}

#[test]
fn it_says_which_pods_cannot_be_asked_about() {
    check(
        &[("a.yaml", CLUSTER)],
        "why -f a.yaml larger",
        &expect![[r#"
            error: pod default/larger is not in the files; the pending pods are default/large, default/foreign
            exit status 1
        "#]],
    );
    check(
        &[("a.yaml", CLUSTER)],
        "why -f a.yaml over",
        &expect![[r#"
            error: pod default/over has ended, and needs no node
            exit status 1
        "#]],
    );
    check(
        &[("a.yaml", CLUSTER)],
        "why -f a.yaml foreign",
        &expect![[r#"
            error: pod default/foreign belongs to scheduler other, and no profile has that name (there is default-scheduler)
            exit status 1
        "#]],
    );
}

#[test]
fn without_a_pod_the_command_line_is_wrong() {
    let answer = run(&[("a.yaml", CLUSTER)], "why -f a.yaml");
    assert_eq!(answer.status, 2);
    assert!(answer.err.contains("name the pod"), "{}", answer.err);
}

#[test]
fn a_pod_on_a_node_is_decided_again() {
    let why = answer("why -f a.yaml placed -o json");
    assert_eq!((&why["state"], &why["node"]), (&json!("scheduled"), &json!("n1")));
    assert_eq!(why["record"]["node"], "n1");
    assert_eq!(why.get("remedies"), None);
}

#[test]
fn a_filter_that_the_scheduler_alone_enforces_may_be_switched_off() {
    let cluster = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: spread}
spec:
  containers: [{name: c}]
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}
";
    let answer = run(&[("a.yaml", cluster)], "why -f a.yaml spread -o json");
    let why: Value = serde_json::from_str(&answer.out).expect("it is one document");
    let remedies = why["remedies"].as_array().expect("there are some");
    let last = remedies.last().expect("there are some");
    assert_eq!(last["kind"], "configuration");
    assert_eq!(last["text"], "switch off PodTopologySpread at filter in profile default-scheduler");
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let resolved = run(&[("c.yaml", config)], "config check c.yaml -o json").out;
    let resolved: Value = serde_json::from_str(&resolved).expect("it is one document");
    for operation in last["changes"][0]["configuration"].as_array().expect("they are operations") {
        let path = operation["path"].as_str().expect("it has a path");
        assert_eq!(resolved.pointer(path).expect("it is there")["name"], "PodTopologySpread");
    }
}
