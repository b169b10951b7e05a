//! `plimsoll what-if` on files.

use expect_test::expect;
use serde_json::{Value, json};

use crate::run::{check, check_refused, records, run};

const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: a}}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {topology.kubernetes.io/zone: b}}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-0
  labels: {app: web}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d89c, uid: w, controller: true}]
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: '1'}}}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata:
  name: db-0
  ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: d, controller: true}]
spec: {nodeName: n2, priority: 10, containers: [{name: c, resources: {requests: {cpu: '3'}}}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata:
  name: agent-n1
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: a, controller: true}]
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 100m}}}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: single}
spec: {nodeName: n1, containers: [{name: c}]}
status: {phase: Running}
";

const TWO_WEBS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, resources: {requests: {cpu: '2'}}}]}
";

/// The plan for these actions, and the exit status.
fn plan(actions: &str) -> (Value, i32) {
    let files = [("a.yaml", CLUSTER), ("web.yaml", TWO_WEBS)];
    let answer = run(&files, &format!("what-if -f a.yaml -o json --fail-if-pending {actions}"));
    assert_eq!(answer.err, "");
    (serde_json::from_str(&answer.out).expect("it is one document"), answer.status)
}

fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(|one| one["pod"].as_str().expect("it names a pod")).collect()
}

#[test]
fn without_actions_nothing_moves() {
    let (plan, status) = plan("");
    assert_eq!((names(&plan["placed"]), names(&plan["pending"]), status), (vec![], vec![], 0));
    assert_eq!(plan["utilisation"]["before"], plan["utilisation"]["after"]);
}

#[test]
fn pods_of_a_drained_node_go_elsewhere_but_those_of_daemon_sets() {
    let (plan, status) = plan("--delete pod/default/single --drain n1");
    assert_eq!(plan["placed"], json!([{"pod": "default/web-0", "from": "n1", "to": "n2"}]));
    assert_eq!((&plan["pending"], status), (&Value::Null, 0));
    assert_eq!(plan["podsByZone"]["after"], json!({"a": 1, "b": 2}));
}

#[test]
fn a_pod_without_a_controller_is_lost_with_its_node() {
    let (plan, status) = plan("--drain n1");
    assert_eq!(
        (plan["lost"].clone(), status),
        (json!([{"pod": "default/single", "from": "n1"}]), 3)
    );
}

#[test]
fn what_does_not_fit_any_more_fails() {
    let (plan, status) = plan("--lose topology.kubernetes.io/zone=b");
    assert_eq!((names(&plan["placed"]), status), (vec!["default/db-0"], 3), "it evicts the other");
    assert_eq!(plan["evicted"], json!([{"pod": "default/web-0", "for": "default/db-0"}]));
    assert_eq!(names(&plan["pending"]), ["default/web-0"]);
    assert_eq!(plan["firstBlocker"]["pod"], "default/web-0");
    assert_eq!(plan["pending"][0]["from"], "n1");
    let message = plan["pending"][0]["message"].as_str().expect("it says why");
    assert!(message.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{message}");
}

#[test]
fn more_nodes_help_and_the_pods_of_daemon_sets_come_with_them() {
    let (plan, status) = plan("--lose n2 --add-nodes 1 --like n1");
    assert_eq!(plan["placed"], json!([{"pod": "default/db-0", "from": "n2", "to": "n1-new1"}]));
    assert_eq!((&plan["podsByZone"]["after"], status), (&json!({"a": 5}), 0));
}

#[test]
fn a_rollout_replaces_the_pods_of_a_deployment() {
    let (plan, status) = plan("--apply web.yaml");
    assert_eq!(names(&plan["placed"]), ["default/web-applied-0"]);
    assert_eq!((names(&plan["pending"]), status), (vec!["default/web-applied-1"], 3));
}

#[test]
fn a_controller_is_scaled_up_and_down() {
    let (up, status) = plan("--scale default/web=3");
    assert_eq!(names(&up["placed"]), ["default/web-5d89c-new1", "default/web-5d89c-new2"]);
    assert_eq!(status, 0);
    let (down, status) = plan("--scale default/db=0 --scale default/web=5");
    assert_eq!((names(&down["placed"]).len(), status), (4, 0));
}

#[test]
fn a_higher_priority_makes_room() {
    let (plan, _) = plan("--priority default/web=100 --cordon n1 --drain n1");
    assert_eq!(plan["placed"][0], json!({"pod": "default/web-0", "from": "n1", "to": "n2"}));
    let (plan, _) = self::plan("--scale default/db=2 --priority default/db=0");
    assert_eq!(names(&plan["pending"]), ["default/db-1"], "it may not evict any more");
}

#[test]
fn a_taint_evicts_those_that_do_not_tolerate_it() {
    let (plan, _) = plan("--taint n1=gone:yes:NoExecute");
    assert_eq!(names(&plan["placed"]), ["default/web-0"]);
    let (plan, _) = self::plan("--taint n1=gone:yes:NoSchedule");
    assert_eq!(names(&plan["placed"]), Vec::<&str>::new());
}

#[test]
fn a_budget_that_would_delay_draining_is_named() {
    let budget = "\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {selector: {matchLabels: {app: web}}}
status: {disruptionsAllowed: 0}
";
    let files = [("a.yaml", CLUSTER), ("b.yaml", budget)];
    let answer = run(&files, "what-if -f a.yaml b.yaml --drain n1 -o json");
    let plan: Value = serde_json::from_str(&answer.out).expect("it is one document");
    let expected = json!([{"budget": "default/web", "allowed": 0, "evicted": 1}]);
    assert_eq!(plan["brokenBudgets"], expected);
}

/// The plan holds: a cluster that is as the plan says is decided so by `simulate`.
#[test]
fn simulate_places_the_moved_pods_as_the_plan_says() {
    let (plan, _) = plan("--delete pod/default/single --cordon n1 --drain n1");
    let moved = CLUSTER
        .replace(
            "{nodeName: n1, containers: [{name: c, resources: {requests: {cpu: '1'}}}]}",
            "{containers: [{name: c, resources: {requests: {cpu: '1'}}}]}",
        )
        .replacen(
            "metadata: {name: n1, labels",
            "spec: {unschedulable: true}\nmetadata: {name: n1, labels",
            1,
        );
    let decided = records(&[("a.yaml", &moved)], "simulate -f a.yaml -o json");
    let placed =
        |pod: &str| decided.iter().find(|one| one["pod"] == pod).map(|one| one["node"].clone());
    assert_eq!(placed("default/web-0"), Some(plan["placed"][0]["to"].clone()));
}

#[test]
fn the_table_says_what_moves_and_why_something_does_not() {
    check(
        &[("a.yaml", CLUSTER)],
        "what-if -f a.yaml --lose n2 --fail-if-pending",
        &expect![[r#"
            Placed 1 pod

            POD           FROM  TO
            default/db-0  n2    n1

            Without a node 1 pod

            POD            FROM  WHY
            default/web-0  n1    0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.

            Evicted 1 pod for others (default/web-0 for default/db-0)

            Utilisation

            REQUESTED  BEFORE   AFTER
            cpu        51.2 %  77.5 %
            memory      0.0 %   0.0 %
            pods       20.0 %  30.0 %

            Pods by zone

            ZONE  BEFORE  AFTER
            a          3      3
            b          1      0

            3 decisions
            exit status 3
        "#]],
    );
}

#[test]
fn the_table_marks_the_first_blocker() {
    let answer = run(&[("a.yaml", CLUSTER)], "what-if -f a.yaml --lose n1 --lose n2");
    let (_, table) = answer.out.split_once("Without a node 2 pods\n\n").expect("two have none");
    let mut lines = table.lines();
    assert_eq!(lines.next().map(|line| line.starts_with("   POD ")), Some(true), "{table}");
    let plan = run(&[("a.yaml", CLUSTER)], "what-if -f a.yaml --lose n1 --lose n2 -o json");
    let plan: Value = serde_json::from_str(&plan.out).expect("it is one document");
    let first = plan["firstBlocker"]["pod"].as_str().expect("there is one");
    let marked = lines.next().expect("it has rows");
    assert!(marked.starts_with(&format!("→  {first} ")), "{table}");
    assert!(!lines.next().expect("it has two rows").contains('→'), "{table}");
}

#[test]
fn wrong_actions_are_refused_with_what_there_is() {
    let files = [
        ("a.yaml", CLUSTER),
        ("empty.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"),
    ];
    for (actions, expected) in [
        (
            "--drain n7",
            expect![[r#"
            error: --drain n7: no node is named n7; there is n1, n2
        "#]],
        ),
        (
            "--lose zone=c",
            expect![[r#"
            error: --lose zone=c: no node has the label zone=c; no node has a label with that key
        "#]],
        ),
        (
            "--delete pod/default/x",
            expect![[r#"
            error: --delete pod/default/x: there is no Pod default/x
        "#]],
        ),
        (
            "--delete service/default/x",
            expect![[r#"
            error: --delete service/default/x: there is no Service default/x
        "#]],
        ),
        (
            "--delete horse/default/x",
            expect![[r#"
            error: --delete horse/default/x: decisions do not depend on objects of kind horse
        "#]],
        ),
        (
            "--scale default/x=3",
            expect![[r#"
            error: --scale default/x=3: no pod belongs to a controller default/x: apply manifests of its pods instead
        "#]],
        ),
        (
            "--priority default/x=3",
            expect![[r#"
            error: --priority default/x=3: default/x is neither a pod nor the controller of one
        "#]],
        ),
        (
            "--delete-pods default/app=x",
            expect![[r#"
            error: --delete-pods default/...: no pod in namespace default has all of these labels
        "#]],
        ),
        (
            "--add-nodes 1 --like empty.yaml",
            expect![[r#"
            error: --add-nodes 1 --like empty.yaml: empty.yaml: contains no node
        "#]],
        ),
        (
            "--apply none.yaml",
            expect![[r#"
            error: --apply none.yaml: none.yaml: cannot be read: No such file or directory (os error 2)
        "#]],
        ),
    ] {
        check_refused(&files, &format!("what-if -f a.yaml {actions}"), &expected);
    }
}
