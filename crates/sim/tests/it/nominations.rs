//! Nominated pods and pods that are being bound, and others that are added meanwhile.

use plimsoll_api::{Pod, PodKey, wire};
use plimsoll_engine::{
    Decision, Detail, Engine, Event, Next, Observation, Options, Outcome, Scheduler, Write,
};
use plimsoll_framework::Time;
use plimsoll_testkit::Scenario;
use serde_json::json;

use crate::groups::{RULES, gated_scheduler};
use crate::profiles::default_profiles;

/// A scheduler that has observed a cluster and uses `engine`. Every decision from remembered results is
/// audited.
fn scheduler(scenario: &str, engine: Engine) -> Scheduler {
    let scenario = Scenario::parse(scenario).expect("it can be read");
    let options = Options { detail: Detail::Outcome, engine, audit_every: 1, ..Options::default() };
    let mut scheduler =
        Scheduler::new(default_profiles(), options, 0).expect("there is one profile");
    for object in scenario.objects {
        scheduler.observe(Time::ZERO, Event::object(object));
    }
    for node in scenario.nodes {
        scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(node))));
    }
    for pod in scenario.placed.into_iter().chain(scenario.pending) {
        scheduler.observe(Time::ZERO, Event::pod((*pod).clone()));
    }
    scheduler
}

/// The outcomes of the pods, one after the other.
fn decide(scheduler: &mut Scheduler) -> Vec<String> {
    let mut effects = Vec::new();
    while scheduler.step(Time::ZERO, &mut effects) == Next::Again {}
    let told = |decision: Decision| match decision.outcome {
        Outcome::Scheduled { node, .. } => format!("{} on {node}", decision.pod.name),
        Outcome::Unschedulable { .. } => format!("{} nowhere", decision.pod.name),
        Outcome::Error { message } => message,
    };
    let differences: Vec<String> =
        scheduler.audit().differences.iter().map(ToString::to_string).collect();
    assert_eq!(differences, Vec::<String>::new());
    scheduler.take_decisions().into_iter().map(told).collect()
}

#[track_caller]
fn check(scenario: &str, expected: &[&str]) {
    for engine in [Engine::Reference, Engine::Fast] {
        assert_eq!(decide(&mut scheduler(scenario, engine)), expected, "{engine:?}");
    }
}

/// The same after some nodes and pods were changed or added by `later`.
#[track_caller]
fn check_after(scenario: &str, before: &[&str], later: &str, after: &[&str]) {
    let later = Scenario::parse(later).expect("it can be read");
    for engine in [Engine::Reference, Engine::Fast] {
        let mut scheduler = scheduler(scenario, engine);
        assert_eq!(decide(&mut scheduler), before, "{engine:?}");
        for node in later.nodes.clone() {
            scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(node))));
        }
        for pod in later.placed.iter().chain(&later.pending) {
            scheduler.observe(Time::ZERO, Event::pod(Pod::clone(pod)));
        }
        assert_eq!(decide(&mut scheduler), after, "{engine:?}");
    }
}

/// An empty selector counts no pod on a node, but a nominated pod is added to its count.
#[test]
fn a_nominated_pod_is_counted_by_an_empty_selector() {
    check(
        r#"
        node a zone=a
        pod p {"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {}, "minDomains": 3}]}
        pod nominated {"status": {"nominatedNodeName": "a"}}
        "#,
        &["p nowhere", "nominated on a"],
    );
}

/// A pod that is being deleted is not counted, but if it is nominated it is added to the count.
#[test]
fn a_nominated_pod_that_is_being_deleted_is_counted() {
    check(
        r#"
        node a zone=a
        pod p app=web {"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}, "minDomains": 3}]}
        pod going app=web {"status": {"nominatedNodeName": "a"},
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        "#,
        &["p nowhere"],
    );
}

/// As in kube-scheduler: a pod that is being deleted is not tried any more, but its resources stay
/// reserved until it is gone.
#[test]
fn the_room_of_a_nominated_pod_that_goes_untried_is_offered_to_others() {
    let scenario = r#"
        node a {"allocatable": {"cpu": "2"}}
        pod going {"requests": {"cpu": "2"}, "status": {"nominatedNodeName": "a"},
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        pod p {"requests": {"cpu": "2"}}
    "#;
    for engine in [Engine::Reference, Engine::Fast] {
        let mut scheduler = scheduler(scenario, engine);
        assert_eq!(decide(&mut scheduler), ["p nowhere"], "{engine:?}");
        scheduler.observe(Time::ZERO, Event::pod_gone(PodKey::new("default", "going")));
        assert_eq!(decide(&mut scheduler), ["p on a"], "{engine:?}");
    }
}

/// A pod that is not tried any more causes no event when a more important pod takes its reserved
/// resources.
#[test]
fn a_nomination_that_a_more_important_pod_takes_over_keeps_nobody_away() {
    check_after(
        r#"
        node a zone=a {"allocatable": {"cpu": "4"}}
        pod victim on a {"requests": {"cpu": "3"}}
        pod going {"status": {"nominatedNodeName": "a"},
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]}}}
        pod p app=web {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]}}}
        "#,
        &["p nowhere"],
        r#"pod q {"priority": 10, "requests": {"cpu": "3"}}"#,
        &["q nowhere", "p on a"],
    );
}

/// A pod is woken when a node to which another pod is nominated leaves the counted domain.
#[test]
fn a_nominated_pod_keeps_nobody_out_of_a_domain_that_its_node_has_left() {
    check_after(
        r#"
        node a zone=a
        pod going {"status": {"nominatedNodeName": "a"},
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]}}}
        pod p app=web {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "room", "labelSelector": {"matchLabels": {"app": "db"}}}]}}}
        "#,
        &["p nowhere"],
        "node a",
        &["p on a"],
    );
}

/// A pod that is not tried any more may still be relabelled.
#[test]
fn a_nominated_pod_that_is_no_longer_shunned_keeps_nobody_away() {
    check_after(
        r#"
        node a zone=a
        pod going app=db {"status": {"nominatedNodeName": "a"},
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        pod p {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]}}}
        "#,
        &["p nowhere"],
        r#"
        pod going app=web {"status": {"nominatedNodeName": "a"},
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        "#,
        &["p on a"],
    );
}

/// A pod counts on its node as soon as that was decided. If it is relabelled before it is observed
/// there, others are woken.
#[test]
fn a_pod_that_is_relabelled_while_it_is_bound_keeps_nobody_away() {
    check_after(
        r#"
        node a zone=a
        pod first app=db
        pod p {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]}}}
        "#,
        &["first on a", "p nowhere"],
        "node a zone=a\npod first app=web on a",
        &["p on a"],
    );
}

/// A pod is woken when another one with its volume is nominated to a node: that volume then takes no slot of its own.
#[test]
fn a_nominated_pod_shares_the_slot_of_its_volume() {
    let gated = |name: &str, claim: &str| {
        format!(
            r#"pod {name} {{"priority": 1, "schedulingGates": [{{"name": "wait"}}],
                "volumes": [{{"name": "v", "persistentVolumeClaim": {{"claimName": "{claim}"}}}}],
                "status": {{"nominatedNodeName": "a"}}}}"#
        )
    };
    let claim = r#"{"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}"#;
    check_after(
        &format!(
            r#"
            node a
            csinode a {{"drivers": [{{"name": "d", "nodeID": "a", "allocatable": {{"count": 1}}}}]}}
            sc late {{"provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"}}
            pvc own {claim}
            pvc other {claim}
            pod p {{"volumes": [{{"name": "v", "persistentVolumeClaim": {{"claimName": "own"}}}}]}}
            {}
            "#,
            gated("in-the-way", "other")
        ),
        &["p nowhere"],
        &gated("sharing", "own"),
        &["p on a"],
    );
}

/// The last pod of a gang lets the others go on that wait for it at Permit. Where they are to be is not written first: that would
/// double the writes of every gang.
#[test]
fn pods_of_a_gang_that_are_bound_at_once_are_not_nominated() {
    let member = |number: u32| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{number}"), "namespace": "default"},
            "spec": {"containers": [{"name": "c"}], "schedulingGroup": {"podGroupName": "train"}},
        })
    };
    let gang = [
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
            "status": {"allocatable": {"cpu": "4", "pods": "10"}},
        }),
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "default", "uid": "train"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        }),
        member(0),
        member(1),
        member(2),
    ];
    for release in RULES {
        let mut scheduler = gated_scheduler(&[], release, |options| options);
        for object in &gang {
            let object = wire::object_from_str(&object.to_string()).expect("it is an object");
            scheduler.observe(Time::ZERO, Event::is(object).expect("its kind is read"));
        }
        let mut effects = Vec::new();
        while scheduler.step(Time::ZERO, &mut effects) == Next::Again {}
        let of = |what: fn(&Write) -> bool| effects.iter().filter(|one| what(&one.write)).count();
        assert_eq!(of(|write| matches!(write, Write::Bind(_))), 3, "{release}");
        assert_eq!(of(|write| matches!(write, Write::Nominate(_))), 0, "{release}");
    }
}
