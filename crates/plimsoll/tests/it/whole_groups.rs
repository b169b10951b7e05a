//! Groups of pods as a whole in `what-if`, `why` and `capacity`, and the moves of `rebalance`.

use expect_test::expect;
use serde_json::{Value, json};

use crate::run::{check_refused, run};

pub(crate) const GATES: &str = "--feature-gates GenericWorkload=true,GangScheduling=true";

/// A gang of two pods, each of which fills a node.
pub(crate) const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: train, namespace: default, uid: t}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: train-0
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: job, uid: j, controller: true}]
spec:
  nodeName: n1
  schedulingGroup: {podGroupName: train}
  containers: [{name: c, resources: {requests: {cpu: '3'}}}]
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata:
  name: train-1
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: job, uid: j, controller: true}]
spec:
  nodeName: n2
  schedulingGroup: {podGroupName: train}
  containers: [{name: c, resources: {requests: {cpu: '3'}}}]
status: {phase: Running}
";

/// Another gang, which asks for two nodes.
pub(crate) const MORE: &str = "\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: more, namespace: default, uid: m}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: v1
kind: Pod
metadata: {name: more-0, uid: more-0}
spec:
  schedulingGroup: {podGroupName: more}
  containers: [{name: c, resources: {requests: {cpu: '2'}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: more-1, uid: more-1}
spec:
  schedulingGroup: {podGroupName: more}
  containers: [{name: c, resources: {requests: {cpu: '2'}}}]
";

fn answer(line: &str) -> Value {
    let answer = run(&[("a.yaml", CLUSTER), ("more.yaml", MORE)], line);
    assert_eq!((answer.status, answer.err.as_str()), (0, ""), "{line}");
    serde_json::from_str(&answer.out).expect("it is one document")
}

#[test]
fn a_gang_that_is_applied_is_placed_as_a_whole_or_not_at_all() {
    let plan = answer(&format!("what-if -f a.yaml {GATES} -o json --apply more.yaml"));
    let group = &plan["groups"][0];
    assert_eq!(
        (&group["group"], &group["result"]),
        (&json!("default/more"), &json!("unschedulable"))
    );
    assert_eq!((&group["placed"], &group["pods"]), (&json!(0), &json!(2)));
    assert_eq!(plan["pending"].as_array().map(Vec::len), Some(2), "{plan:#}");
    let line = "what-if -f a.yaml -o json --apply more.yaml --add-nodes 1 --like n1";
    let plan = answer(&format!("{line} {GATES}"));
    let group = &plan["groups"][0];
    assert_eq!((&group["result"], &group["placed"]), (&json!("scheduled"), &json!(2)), "{plan:#}");
    assert_eq!(plan["placed"].as_array().map(Vec::len), Some(2), "{plan:#}");
}

#[test]
fn a_group_is_scaled_and_its_pods_are_made_again() {
    let plan =
        answer(&format!("what-if -f a.yaml {GATES} -o json --lose n1 --add-nodes 1 --like n2"));
    assert_eq!(
        plan["placed"],
        json!([{"pod": "default/train-0", "from": "n1", "to": "n2-new1"}]),
        "{plan:#}"
    );
    assert_eq!(plan["groups"][0]["placed"], 2, "{plan:#}");
    let plan = answer(&format!("what-if -f a.yaml {GATES} -o json --scale default/job=3"));
    let group = &plan["groups"][0];
    assert_eq!((&group["placed"], &group["pods"]), (&json!(2), &json!(3)), "{plan:#}");
}

#[test]
fn a_group_is_told_what_would_let_it_be_scheduled() {
    let why = answer(&format!("why -f a.yaml -f more.yaml --group more {GATES} -o json"));
    assert_eq!((&why["group"], &why["state"]), (&json!("default/more"), &json!("unschedulable")));
    assert_eq!((&why["minCount"], &why["pending"]), (&json!(2), &json!(2)));
    assert_eq!(why["record"]["result"], "unschedulable");
    let remedies = why["remedies"].as_array().expect("something helps");
    let nodes = remedies.iter().find(|one| one["text"] == "add a node like n1");
    assert_eq!(nodes.map(|one| &one["placed"]), Some(&json!(2)), "{why:#}");
    let running = answer(&format!("why -f a.yaml --group train {GATES} -o json"));
    assert_eq!((&running["state"], &running["running"]), (&json!("running"), &json!(2)));
    let member = answer(&format!("why -f a.yaml -f more.yaml more-0 {GATES} -o json"));
    assert_eq!(member["group"]["name"], "default/more");
    assert_eq!(member["group"]["result"], "unschedulable");
    assert_eq!((&member["state"], &member["remedies"]), (&json!("unschedulable"), &Value::Null));
    assert_eq!(member["group"]["remedies"], why["remedies"]);
    let files = [("a.yaml", CLUSTER), ("more.yaml", MORE)];
    let text = run(&files, &format!("why -f a.yaml -f more.yaml more-0 {GATES}")).out;
    let told =
        "The group would be scheduled with one of these changes, the smallest first:\n\nPLACED ";
    assert!(text.contains(told), "{text}");
    assert!(!text.contains("It would fit with"), "{text}");
}

#[test]
fn a_canary_decides_all_groups_of_a_tree_also_if_one_of_them_is_asked_about() {
    let root = "\
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata: {name: job, namespace: default, uid: job}
spec: {schedulingPolicy: {gang: {minGroupCount: 2}}}
";
    let part = |number: usize, group: &str| {
        format!(
            "\
---
apiVersion: v1
kind: Node
metadata: {{name: n{number}}}
status: {{allocatable: {{cpu: '4', memory: 8Gi, pods: '10'}}}}
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {{name: {group}, namespace: default, uid: {group}}}
spec: {{schedulingPolicy: {{gang: {{minCount: 1}}}}, parentCompositePodGroupName: job}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {group}-0, uid: {group}-0}}
spec:
  schedulingGroup: {{podGroupName: {group}}}
  containers: [{{name: c, resources: {{requests: {{cpu: '3'}}}}}}]
"
        )
    };
    let tree = format!("{root}{}{}", part(0, "a"), part(1, "b"));
    let profiles = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: default-scheduler}, {schedulerName: other}]
";
    let files = [("tree.yaml", tree.as_str()), ("s.yaml", profiles)];
    let gates = "--feature-gates \
                 GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true";
    for group in ["a", "job"] {
        let line = format!(
            "why -f tree.yaml --config s.yaml --group {group} {gates} -o json --canary podNamespace==\"default\"=other"
        );
        let answer = run(&files, &line);
        assert_eq!(answer.status, 0, "{line}: {}", answer.err);
        let answer: Value = serde_json::from_str(&answer.out).expect("it is one document");
        assert_eq!(answer["state"], "scheduled", "{answer:#}");
        let rule = json!({
            "rule": "podNamespace==\"default\"=other", "profile": "other", "schedulerName": "default-scheduler",
        });
        assert_eq!(answer["canary"], rule, "{answer:#}");
        let explained = run(&files, &line.replacen("why", "explain", 1));
        assert_eq!(explained.status, 0, "{}", explained.err);
        let explained: Value = serde_json::from_str(&explained.out).expect("it is one document");
        assert_eq!(explained["canary"], rule, "{explained:#}");
        let text = run(&files, &line.replacen("-o json", "", 1)).out;
        let told = format!("Profile other decides default/{group}, since --canary ");
        assert!(text.starts_with(&told), "{text}");
    }
}

#[test]
fn a_pod_group_of_scheduler_plugins_is_another_object() {
    let other = "\
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: more, namespace: default}
spec: {minMember: 7}
---
";
    let room = "{apiVersion: v1, kind: Node, metadata: {name: n3}, status: {allocatable: {cpu: '2', pods: '10'}}}\n---\n";
    let (alone, both) = (format!("{room}{MORE}"), format!("{room}{other}{MORE}"));
    let files = [("a.yaml", CLUSTER), ("more.yaml", alone.as_str()), ("both.yaml", both.as_str())];
    let answer = |line: &str| -> Value {
        let answer = run(&files, line);
        assert_eq!(answer.status, 0, "{line}: {}", answer.err);
        serde_json::from_str(&answer.out).expect("it is one document")
    };
    let alone = answer(&format!("why -f a.yaml -f more.yaml --group more {GATES} -o json"));
    let told = answer(&format!("why -f a.yaml -f both.yaml --group more {GATES} -o json"));
    assert_eq!(told["remedies"], alone["remedies"]);
    let texts = told["remedies"].to_string();
    assert!(texts.contains("set minCount to 1 instead of 2"), "{texts}");
}

#[test]
fn what_cannot_be_asked_about_groups_is_refused_with_the_remedy() {
    let files = [("a.yaml", CLUSTER), ("more.yaml", MORE)];
    check_refused(
        &files,
        "why -f a.yaml --group train",
        &expect![[r"
            error: groups of pods are off: add --feature-gates GenericWorkload=true, and with topologies TopologyAwareWorkloadScheduling=true
        "]],
    );
    let old = CLUSTER.replace("v1beta1", "v1alpha2");
    check_refused(
        &[("a.yaml", old.as_str())],
        "explain -f a.yaml --group train --emulated-version 1.36",
        &expect![[r"
            error: groups of pods are off: add --feature-gates GenericWorkload=true,GangScheduling=true, and with topologies or preemption TopologyAwareWorkloadScheduling=true or WorkloadAwarePreemption=true
        "]],
    );
    check_refused(
        &files,
        &format!("why -f a.yaml --group other {GATES}"),
        &expect![[r"
            error: group default/other is not in the files; the groups are default/train
        "]],
    );
    let pod = MORE.split("---\n").nth(1).expect("it has pods");
    check_refused(
        &[("a.yaml", CLUSTER), ("pod.yaml", pod)],
        &format!("capacity -f a.yaml --pod-file pod.yaml {GATES}"),
        &expect![[r"
            error: pod default/more-0 belongs to group default/more (spec.schedulingGroup), and there is no such PodGroup: add its manifest
        "]],
    );
}

#[test]
fn an_objective_must_be_named_to_rebalance() {
    let refused = run(&[("a.yaml", CLUSTER)], "rebalance -f a.yaml");
    assert_eq!(refused.status, 2);
    assert!(refused.err.contains("--free-nodes") && refused.err.contains("--spread"));
    let plan = answer("rebalance -f a.yaml --free-nodes --spread -o json");
    assert_eq!((&plan["steps"], &plan["freed"]), (&Value::Null, &Value::Null));
}
