//! The rules of Coscheduling one by one, in clusters written as text.

use std::fmt::Write;
use std::time::Duration;

use expect_test::{Expect, expect};
use plimsoll_api::wire::Object;
use plimsoll_api::{Kinds, Quantity};
use plimsoll_testkit::{Cluster, HandleParts, Scenario};
use serde_json::{Value, json};

use super::*;

/// A cluster with a group `train` in the namespace `default`, and the plugin.
struct Lab {
    cluster: Cluster,
    pending: Vec<PodInfo>,
    plugin: Coscheduling,
    parts: HandleParts,
}

fn train(spec: &Value) -> CoschedulingGroup {
    let group = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "train", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec,
    });
    let kinds = Kinds::built_in().with(KindRef::of::<CoschedulingGroup>());
    let Ok(Object::Other(group)) = kinds.object(&group) else { panic!("it is a group") };
    group.get::<CoschedulingGroup>().expect("it is of this kind").clone()
}

fn plugin(args: &Value) -> Coscheduling {
    let mut args: CoschedulingArgs = serde_json::from_value(args.clone()).expect("they are args");
    args.complete();
    Coscheduling::new(args, &FeatureGates::default())
}

impl Lab {
    /// Pods that are written `in train` in a scenario have the label, and those `waiting` wait on node `n`.
    fn of(scenario: &str, spec: Option<&Value>, args: &Value) -> Self {
        let scenario = scenario.replace("in train", &format!("{LABEL}=train"));
        let scenario = Scenario::parse(&scenario).expect("the scenario is right");
        let mut cluster = Cluster::of(&scenario);
        cluster.stores.keep(KindRef::of::<CoschedulingGroup>());
        if let Some(spec) = spec {
            cluster.stores.set(&train(spec).into());
        }
        cluster.stores.labelled.keep(LABEL);
        for pod in scenario.placed.iter().chain(&scenario.pending) {
            cluster.stores.labelled.is_known(pod);
        }
        for pod in &scenario.placed {
            cluster.stores.labelled.is_placed(pod);
        }
        let parts = HandleParts::default();
        Lab { cluster, pending: scenario.pending, plugin: plugin(args), parts }
    }

    fn at(&mut self, seconds: i64) {
        self.parts.now = Time::from_millis(1000 * seconds);
        self.cluster.stores.now = self.parts.now;
    }

    fn pod(&self, name: &str) -> PodInfo {
        let pod = self.pending.iter().find(|pod| pod.key.name == name);
        pod.expect("the scenario has this pending pod").clone()
    }

    /// Puts a pod on node `n`, where it waits.
    fn waits(&mut self, name: &str) {
        let pod = self.pod(name);
        let row = self.cluster.row("n").expect("there is a node n");
        self.cluster.nodes.place(row, &pod);
        self.cluster.stores.labelled.is_placed(&pod);
        let pending = vec![(Coscheduling::NAME, self.parts.now)];
        self.parts.waiting.push(WaitingPod { pod, node: "n".into(), since: Time::ZERO, pending });
    }

    fn pre_filter(&self, name: &str) -> String {
        let (pod, view) = (self.pod(name), self.cluster.view());
        let part = pod.part::<<Coscheduling as PreFilter>::Pod>();
        if !PreFilter::applies(&self.plugin, part) {
            return "does not apply".to_owned();
        }
        let cluster = <<Coscheduling as PreFilter>::Cluster as ClusterPart>::of(&view);
        match self.plugin.pre_filter(part, cluster) {
            Ok(_) => "passes".to_owned(),
            Err(why) => format!("{:?}: {why}", why.code),
        }
    }

    /// What happens to a pod that has got node `n`: Reserve, then Permit.
    fn permit(&mut self, name: &str) -> String {
        let pod = self.pod(name).placed_on("n".into());
        self.cluster.stores.labelled.is_placed(&pod);
        let mut out = String::new();
        self.on_n(&pod, |plugin, at, handle| {
            plugin.reserve(at, handle).expect("nothing can be in the way");
        });
        self.on_n(&pod, |plugin, at, handle| {
            match plugin.permit(at, handle) {
                Permission::Approve => writeln!(out, "{name} is bound"),
                Permission::Wait(span) => writeln!(out, "{name} waits for {span:?}"),
                Permission::Deny(why) => writeln!(out, "{name}: {:?}: {why}", why.code),
            }
            .expect("a string can be written");
        });
        if let Some(PodsToActivate(pods)) = self.parts.shared.read() {
            let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
            writeln!(out, "activates {}", names.join(", ")).expect("a string can be written");
        }
        self.parts.shared = CycleState::new();
        out + &self.decisions()
    }

    fn unreserve(&mut self, name: &str) -> String {
        let pod = self.pod(name).placed_on("n".into());
        self.on_n(&pod, |plugin, at, handle| plugin.unreserve((), at, handle));
        self.decisions()
    }

    /// What the pod has to hear if no node was found, and what follows.
    fn post_filter(&mut self, name: &str) -> String {
        let pod = self.pod(name);
        let view = self.cluster.view();
        let answer = self.plugin.without_rejections(&pod, &view).expect("it is always known");
        if let Some(known) = self.plugin.without_nodes(&pod, true) {
            assert_eq!(known, answer);
        }
        let mut handle = self.parts.handle(Coscheduling::NAME);
        self.plugin.after_post_filter(&pod, None, &[], &view, &mut handle);
        self.assume();
        let PostFilterAnswer::Unschedulable(text) = answer else { panic!("{answer:?}") };
        format!("{text}\n{}", self.decisions())
    }

    fn on_n(
        &mut self,
        pod: &PodInfo,
        act: impl FnOnce(&Coscheduling, &Placement<'_>, &mut Handle<'_>),
    ) {
        let node = Str::from("n");
        let at = Placement { pod, node: &node, row: None, view: self.cluster.view() };
        act(&self.plugin, &at, &mut self.parts.handle(Coscheduling::NAME));
        self.assume();
    }

    fn assume(&mut self) {
        for assumption in std::mem::take(&mut self.parts.assumed) {
            let Assumption::Held(object) = assumption else { panic!("{assumption:?}") };
            self.cluster.stores.hold(&object);
        }
    }

    fn decisions(&mut self) -> String {
        let mut out = String::new();
        for decision in std::mem::take(&mut self.parts.decisions) {
            match decision {
                WaitingDecision::Allow { pod, .. } => writeln!(out, "allows {}", pod.name),
                WaitingDecision::Reject { pod, reason, .. } => {
                    writeln!(out, "rejects {}: {reason}", pod.name)
                }
            }
            .expect("a string can be written");
        }
        out
    }

    fn key(&self, name: &str, first_ready: i64) -> SortedBy {
        let (pod, first_ready) = (self.pod(name), Time::from_millis(first_ready));
        let queued = QueuedPod { pod: &pod, queued: Time::from_millis(7), first_ready };
        self.plugin.key_in(&queued, &self.cluster.view())
    }
}

#[track_caller]
fn check(actual: &str, expected: &Expect) {
    expected.assert_eq(&format!("{}\n", actual.trim_end()));
}

const THREE: &str = "
    node n
    pod a in train
    pod b in train
    pod c in train
    pod alone
";

#[test]
fn pods_go_by_priority_then_by_the_creation_of_their_group_then_by_name() {
    let scenario = "
        node n
        pod b in train
        pod a in train
        pod urgent {\"priority\": 9}
        pod alone
        pod other scheduling.x-k8s.io/pod-group=missing
    ";
    let mut lab = Lab::of(scenario, Some(&json!({"minMember": 2})), &json!({}));
    let created = 1_767_225_600_000;
    let key = |priority, time, name: &str| (priority, time, format!("default/{name}"));
    assert_eq!(lab.key("urgent", 5), key(-9, 5, "urgent"));
    assert_eq!(lab.key("a", 5), key(0, created, "a"));
    assert_eq!(lab.key("b", 3), key(0, created, "b"));
    assert_eq!(lab.key("alone", 5), key(0, 5, "alone"));
    assert_eq!(lab.key("other", 6), key(0, 6, "other"), "its group does not exist");
    // After a failure its group goes behind others that came before the failure.
    lab.at(1_800_000_000);
    lab.post_filter("a");
    assert_eq!(lab.key("b", 3), key(0, 1_800_000_000_000, "b"));
    // A pod of a group that is bound clears the failure.
    lab.permit("a");
    lab.permit("b");
    assert_eq!(lab.key("a", 3), key(0, created, "a"));
}

#[test]
fn a_group_without_a_time_of_creation_goes_first() {
    let mut lab = Lab::of(THREE, None, &json!({}));
    let group = CoschedulingGroup {
        key: ObjectKey::new("default", "train"),
        min_member: 1,
        ..CoschedulingGroup::default()
    };
    lab.cluster.stores.set(&group.into());
    assert_eq!(lab.key("a", 5).1, i64::MIN);
}

#[test]
fn a_pod_is_not_tried_before_there_are_enough_siblings() {
    let lab = Lab::of(THREE, Some(&json!({"minMember": 4})), &json!({}));
    check(
        &lab.pre_filter("a"),
        &expect![[r#"
            UnschedulableAndUnresolvable: pre-filter pod a cannot find enough sibling pods, current pods number: 3, minMember of group: 4
        "#]],
    );
    assert_eq!(lab.pre_filter("alone"), "does not apply");
    let lab = Lab::of(THREE, Some(&json!({"minMember": 3})), &json!({}));
    assert_eq!(lab.pre_filter("a"), "passes");
    let lab = Lab::of(THREE, None, &json!({}));
    assert_eq!(lab.pre_filter("a"), "passes", "there is no group");
}

#[test]
fn so_many_siblings_may_be_gated_as_the_group_does_not_need() {
    let scenario = "
        node n
        pod a in train
        pod b in train
        pod c in train {\"schedulingGates\": [{\"name\": \"later\"}]}
    ";
    let lab = Lab::of(scenario, Some(&json!({"minMember": 2})), &json!({}));
    assert_eq!(lab.pre_filter("a"), "passes");
    let lab = Lab::of(scenario, Some(&json!({"minMember": 3})), &json!({}));
    check(
        &lab.pre_filter("a"),
        &expect![[r#"
            UnschedulableAndUnresolvable: pre-filter pod a cannot proceed due to gated pods in the same PodGroup
        "#]],
    );
}

#[test]
fn a_group_is_not_tried_while_the_nodes_have_less_left_than_it_needs_at_least() {
    let scenario = "
        node m {\"allocatable\": {\"cpu\": \"2\", \"memory\": \"8Gi\", \"pods\": \"10\"}}
        node n {\"allocatable\": {\"cpu\": \"2\", \"memory\": \"8Gi\", \"pods\": \"10\"}}
        pod other on m {\"requests\": {\"cpu\": \"500m\"}}
        pod own in train on n {\"requests\": {\"cpu\": \"1\"}}
        pod a in train
        pod b in train
    ";
    let spec = |cpu: &str, gpu: Option<u32>| {
        let mut least = json!({"cpu": cpu, "memory": "12Gi"});
        if let Some(gpu) = gpu {
            least["example.com/gpu"] = gpu.into();
        }
        json!({"minMember": 3, "minResources": least})
    };
    let of = |spec: &Value| Lab::of(scenario, Some(spec), &json!({}));
    // 1500m on m, and 2 on n without the pod of the group itself.
    assert_eq!(of(&spec("3500m", None)).pre_filter("a"), "passes");
    check(
        &of(&spec("4", Some(2))).pre_filter("a"),
        &expect![[r#"
            UnschedulableAndUnresolvable: resource gap: map[cpu:{{500 -3} {<nil>}  DecimalSI} example.com/gpu:{{2 0} {<nil>}  DecimalSI}]
        "#]],
    );
    let mut many = spec("1", None);
    many["minMember"] = 3.into();
    let mut lab =
        Lab::of(&scenario.replace("\"pods\": \"10\"", "\"pods\": \"1\""), Some(&many), &json!({}));
    check(
        &lab.pre_filter("a"),
        &expect![[r#"
            UnschedulableAndUnresolvable: resource gap: map[pods:{{2 0} {<nil>}  DecimalSI}]
        "#]],
    );
    lab.at(0);
}

#[test]
fn resources_that_were_found_are_not_looked_for_again_until_the_time_is_over() {
    let scenario = "
        node n {\"allocatable\": {\"cpu\": \"2\"}}
        pod a in train
        pod b in train
        pod large {\"requests\": {\"cpu\": \"2\"}}
    ";
    let spec = json!({"minMember": 2, "minResources": {"cpu": "2"}});
    for (given, seconds) in [(10, 10), (0, 3)] {
        let mut lab = Lab::of(scenario, Some(&spec), &json!({"permitWaitingTimeSeconds": given}));
        lab.at(100);
        assert_eq!(lab.pre_filter("a"), "passes");
        lab.permit("a");
        lab.waits("large");
        lab.at(100 + seconds);
        assert_eq!(lab.pre_filter("b"), "passes", "it has been found");
        lab.at(101 + seconds);
        assert!(lab.pre_filter("b").contains("resource gap: map[cpu:"), "{}", lab.pre_filter("b"));
    }
}

#[test]
fn members_wait_until_as_many_as_the_group_needs_have_a_node() {
    let mut lab = Lab::of(THREE, Some(&json!({"minMember": 3})), &json!({}));
    check(&lab.permit("alone"), &expect!["alone is bound\n"]);
    check(
        &lab.permit("a"),
        &expect![[r#"
            a waits for 60s
            activates b, c
        "#]],
    );
    lab.waits("a");
    check(&lab.permit("b"), &expect!["b waits for 60s\n"]);
    lab.waits("b");
    check(
        &lab.permit("c"),
        &expect![[r#"
            c is bound
            allows a
            allows b
        "#]],
    );
}

#[test]
fn the_time_at_permit_is_that_of_the_group_or_of_the_args() {
    let wait = |of_group: Option<i32>, of_args: i64| {
        let mut group = train(&json!({"minMember": 3}));
        group.schedule_timeout_seconds = of_group;
        plugin(&json!({"permitWaitingTimeSeconds": of_args})).wait(&group)
    };
    for (of_group, of_args, seconds) in
        [(None, 20, 20), (None, 0, 60), (Some(5), 20, 5), (Some(0), 20, 20), (Some(-1), 20, 0)]
    {
        assert_eq!(wait(of_group, of_args), Duration::from_secs(seconds), "{of_group:?} {of_args}");
    }
}

#[test]
fn a_member_of_a_group_that_does_not_exist_is_rejected_at_permit() {
    let mut lab = Lab::of(THREE, None, &json!({}));
    check(&lab.permit("a"), &expect!["a: Unschedulable: PodGroup not found\n"]);
    assert_eq!(lab.unreserve("a"), "");
    check(&lab.post_filter("a"), &expect!["can not find pod group\n"]);
    check(&lab.post_filter("alone"), &expect!["can not find pod group\n"]);
}

#[test]
fn a_group_of_which_too_many_pods_lack_a_node_is_given_up() {
    let mut lab =
        Lab::of(THREE, Some(&json!({"minMember": 3})), &json!({"podGroupBackoffSeconds": 7}));
    lab.waits("a");
    lab.at(100);
    check(
        &lab.post_filter("b"),
        &expect![[r#"
            PodGroup default/train gets rejected due to Pod b is unschedulable even after PostFilter
            rejects a: optimistic rejection in PostFilter
        "#]],
    );
    // The backoff is not prolonged by a second failure.
    lab.at(103);
    lab.post_filter("c");
    lab.at(107);
    check(
        &lab.pre_filter("b"),
        &expect!["UnschedulableAndUnresolvable: podGroup default/train failed recently\n"],
    );
    lab.at(108);
    assert_eq!(lab.pre_filter("b"), "passes");
}

#[test]
fn an_incomplete_group_and_one_without_a_backoff_are_not_backed_off() {
    for (least, backoff) in [(4, 7), (3, 0)] {
        let args = json!({"podGroupBackoffSeconds": backoff});
        let mut lab = Lab::of(THREE, Some(&json!({"minMember": least})), &args);
        lab.post_filter("b");
        let now = lab.pre_filter("b");
        assert!(!now.contains("failed recently"), "{now}");
    }
}

#[test]
fn a_group_goes_on_if_few_of_its_pods_lack_a_node_or_enough_have_one() {
    for (least, percentage, goes_on) in
        [(3, 66, false), (3, 67, true), (3, 100, true), (1, 0, true), (2, 49, false), (2, 50, true)]
    {
        let args = json!({"podGroupRejectPercentage": percentage});
        let mut lab = Lab::of(THREE, Some(&json!({"minMember": least})), &args);
        lab.waits("a");
        let answer = lab.post_filter("b");
        assert_eq!(answer == "\n", goes_on, "{least} {percentage}: {answer}");
    }
}

#[test]
fn a_member_that_is_not_bound_takes_the_waiting_ones_with_it() {
    let spec = json!({"minMember": 3, "minResources": {"cpu": "1"}});
    let mut lab = Lab::of(THREE, Some(&spec), &json!({}));
    lab.permit("a");
    lab.waits("a");
    lab.waits("alone");
    lab.at(50);
    check(&lab.unreserve("b"), &expect!["rejects a: rejection in Unreserve\n"]);
    assert_eq!(lab.key("a", 3).1, 50_000, "the group has failed");
    let groups = Groups::of(&lab.cluster.stores);
    let (_, history) = groups.get(&ObjectKey::new("default", "train")).expect("it is still there");
    assert_eq!(history.permitted_until, None);
}

#[test]
fn the_history_stays_when_the_group_changes_and_ends_with_it() {
    let mut lab = Lab::of(THREE, Some(&json!({"minMember": 3})), &json!({}));
    lab.at(50);
    lab.post_filter("a");
    lab.cluster.stores.set(&train(&json!({"minMember": 2})).into());
    assert_eq!(lab.key("a", 3).1, 50_000);
    let mut waits = lab.permit("a");
    waits.push_str(&lab.permit("b"));
    assert!(waits.contains("b is bound"), "the new minMember counts: {waits}");
    let key = ObjectKey::new("default", "train");
    lab.post_filter("c");
    lab.cluster.stores.remove(KindRef::of::<CoschedulingGroup>(), &key);
    lab.cluster.stores.set(&train(&json!({"minMember": 2})).into());
    assert_ne!(lab.key("a", 3).1, 50_000);
}

#[test]
fn a_pod_with_a_group_of_the_api_has_nothing_to_do_with_its_label() {
    let scenario = "
        node n
        pod a in train
        pod b in train {\"schedulingGroup\": {\"podGroupName\": \"train\"}}
    ";
    let mut lab = Lab::of(scenario, Some(&json!({"minMember": 2})), &json!({}));
    assert_eq!(lab.pre_filter("b"), "does not apply");
    check(&lab.permit("b"), &expect!["b is bound\n"]);
    check(&lab.post_filter("b"), &expect!["can not find pod group\n"]);
    assert_eq!(lab.key("b", 5).1, 5);
    // Nor does it count for the others.
    check(
        &lab.pre_filter("a"),
        &expect![[r#"
            UnschedulableAndUnresolvable: pre-filter pod a cannot find enough sibling pods, current pods number: 1, minMember of group: 2
        "#]],
    );
}

#[test]
fn groups_are_read_as_their_schema_says() {
    let kinds = Kinds::built_in().with(KindRef::of::<CoschedulingGroup>());
    let read = |spec: Value| {
        let group = json!({
            "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "team"}, "spec": spec,
        });
        kinds.object(&group).map(|object| match object {
            Object::Other(group) => group.get::<CoschedulingGroup>().expect("it is one").clone(),
            other => panic!("{other:?}"),
        })
    };
    let spec = json!({"minMember": 3, "minResources": {"cpu": 2}, "scheduleTimeoutSeconds": 30});
    let group = read(spec).expect("it is right");
    assert_eq!(group.key, ObjectKey::new("team", "train"));
    assert_eq!((group.min_member, group.schedule_timeout_seconds), (3, Some(30)));
    let least = group.min_resources.expect("they are given");
    assert_eq!(least["cpu"], Quantity::parse("2").expect("it is a number"));
    assert_eq!(read(json!({})).expect("all is optional").min_member, 0);
    let error = |spec| read(spec).expect_err("it is wrong").to_string();
    check(
        &error(json!({"minMember": 0})),
        &expect![
            "spec.minMember: Invalid value: 0: spec.minMember in body should be greater than or equal to 1\n"
        ],
    );
    let wrong = error(json!({"minResources": {"cpu": "much"}}));
    assert!(wrong.starts_with("spec.minResources.cpu: "), "{wrong}");
}

#[test]
fn args_out_of_range_are_refused_by_field() {
    let form = entry().args();
    let faults = |args: Value| -> Vec<String> {
        let faults = form.validate(&args, &FeatureGates::default());
        faults.into_iter().map(|fault| format!("{}: {}", fault.field, fault.message)).collect()
    };
    let wrong = json!({
        "permitWaitingTimeSeconds": -1, "podGroupBackoffSeconds": -2, "podGroupRejectPercentage": 101,
    });
    check(
        &faults(wrong).join("\n"),
        &expect![[r#"
            permitWaitingTimeSeconds: Invalid value: -1: must be greater than 0
            podGroupBackoffSeconds: Invalid value: -2: must be greater than 0
            podGroupRejectPercentage: Invalid value: 101: must be between 0 and 100
        "#]],
    );
    let right = json!({
        "permitWaitingTimeSeconds": 0, "podGroupBackoffSeconds": 0, "podGroupRejectPercentage": 100,
    });
    assert_eq!(faults(right), [""; 0]);
    assert_eq!(faults(json!({"permitWaitingTime": 1})).len(), 1);
}

#[test]
fn every_pod_that_comes_to_a_node_and_every_group_may_help() {
    let events: Vec<String> = plugin(&json!({})).events().iter().map(ToString::to_string).collect();
    assert!(
        events[0].starts_with("Pod/ADD") && events[1].starts_with("PodGroup/ADD"),
        "{events:?}"
    );
}
