//! What a watchdog finds: differences, pods that sleep although they fit, bindings that hang, nodes that are full.

use std::sync::Arc;

use plimsoll_api::{Node, Pod, PodKey};
use plimsoll_framework::prelude::*;
use plimsoll_framework::{Point, Time};

use super::lab;
use super::plugins::registry;
use crate::{Event, Observation, Options, PlacedBy, Profile, ProfileSpec, QueuePlace, Scheduler};

/// A filter that forgets to say which changes help.
struct Forgetful;

impl Plugin for Forgetful {
    const NAME: &'static str = "Forgetful";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Forgetful
    }
}

impl Filter for Forgetful {
    type Pod = Labels;
    type Node = Labels;
    fn filter(&self, _: &Labels, node: &Labels) -> Verdict {
        match node.contains_key("open") {
            true => Verdict::Pass,
            false => Verdict::unschedulable("closed"),
        }
    }
}

impl Requeue for Forgetful {
    fn events(&self) -> Vec<ClusterEvent> {
        Vec::new()
    }
    fn hint(&self, _: &PodInfo, _: &Change<'_>) -> Hint {
        Hint::Skip
    }
}

/// A scheduler with the profile `lab`.
fn scheduler() -> Scheduler {
    let mut registry = registry();
    registry.add(Entry::of::<Forgetful>().filter().requeue().done());
    let mut spec = ProfileSpec { scheduler_name: "lab".into(), ..ProfileSpec::default() };
    for (point, plugin) in [
        (Point::QueueSort, "Sort"),
        (Point::Filter, "Forgetful"),
        (Point::Permit, "Group"),
        (Point::Bind, "Binder"),
    ] {
        spec.points.insert(point, vec![(plugin.to_owned(), 1)]);
    }
    let profile = Profile::new(&spec, &registry, &FeatureGates::default());
    let profile = profile.expect("the plugins make a profile");
    Scheduler::new(vec![profile], Options::default(), 0).expect("there is one profile")
}

fn at(seconds: i64) -> Time {
    Time::from_millis(seconds * 1000)
}

fn node_is(scheduler: &mut Scheduler, seconds: i64, node: Node) {
    scheduler.observe(at(seconds), Event::Node(Box::new(Observation::Is(node))));
}

fn pod_is(scheduler: &mut Scheduler, seconds: i64, pod: Pod) {
    scheduler.observe(at(seconds), Event::Pod(Observation::Is(Arc::new(pod))));
}

fn key(name: &str) -> PodKey {
    PodKey::new("default", name)
}

fn place(scheduler: &Scheduler, name: &str) -> Option<QueuePlace> {
    scheduler.queued_pod(&key(name)).map(|info| info.place.clone())
}

#[test]
fn a_pod_that_no_event_woke_is_found_and_woken() {
    let mut scheduler = scheduler();
    node_is(&mut scheduler, 0, lab::node("a", &["cpu=4"]));
    pod_is(&mut scheduler, 0, lab::pod("p", &[]));
    scheduler.step(at(0), &mut Vec::new());
    assert_eq!(place(&scheduler, "p"), Some(QueuePlace::Unschedulable));
    assert_eq!(scheduler.would_fit(at(1), &key("p")), None, "it fits nowhere");
    node_is(&mut scheduler, 2, lab::node("a", &["cpu=4", "open=yes"]));
    assert_eq!(place(&scheduler, "p"), Some(QueuePlace::Unschedulable), "nothing woke it");
    assert!(scheduler.waiting_for_change(at(-1)).is_empty(), "it waits since 0 s");
    assert_eq!(scheduler.waiting_for_change(at(0)), [key("p")]);
    assert_eq!(scheduler.would_fit(at(3), &key("p")).as_deref(), Some("a"));
    assert_eq!(place(&scheduler, "p"), Some(QueuePlace::Unschedulable), "a question wakes nobody");
    assert!(scheduler.activate(at(3), &key("p")));
    assert!(!scheduler.activate(at(3), &key("p")), "it waits no more");
    let mut effects = Vec::new();
    scheduler.step(at(3), &mut effects);
    assert_eq!(place(&scheduler, "p"), Some(QueuePlace::InFlight));
}

#[test]
fn a_pod_that_something_else_than_a_filter_rejected_is_not_woken() {
    let mut scheduler = scheduler();
    node_is(&mut scheduler, 0, lab::node("a", &["cpu=4", "open=yes"]));
    pod_is(&mut scheduler, 0, lab::pod("p", &["permit=deny"]));
    scheduler.step(at(0), &mut Vec::new());
    assert_eq!(place(&scheduler, "p"), Some(QueuePlace::Unschedulable));
    assert_eq!(scheduler.would_fit(at(1), &key("p")), None);
}

#[test]
fn a_binding_that_has_not_ended_is_open_at_its_point() {
    let mut scheduler = scheduler();
    node_is(&mut scheduler, 0, lab::node("a", &["cpu=4", "open=yes"]));
    pod_is(&mut scheduler, 5, lab::pod("waits", &["permit=wait"]));
    scheduler.step(at(5), &mut Vec::new());
    pod_is(&mut scheduler, 7, lab::pod("p", &[]));
    scheduler.step(at(7), &mut Vec::new());
    let open = |before: i64| -> Vec<String> {
        let open = scheduler.open_bindings(at(before)).into_iter();
        open.map(|one| format!("{} {} {}", one.pod.name, one.node, one.point.as_str())).collect()
    };
    assert!(open(4).is_empty());
    assert_eq!(open(5), ["waits a Permit"]);
    assert_eq!(open(7), ["waits a Permit", "p a Bind"]);
}

/// Pods on a node, each as the words of a script.
type Pods = &'static [&'static [&'static str]];

#[test]
fn a_node_that_is_too_full_has_a_cause() {
    let cases: [(Pods, Option<(PlacedBy, i64)>); 5] = [
        (&[&["cpu=4"]], None),
        (&[&["cpu=2"], &["cpu=3", "for=another"]], Some((PlacedBy::AnotherScheduler, 5000))),
        (&[&["cpu=4"], &["cpu=1", "mirror=yes"]], Some((PlacedBy::Kubelet, 5000))),
        (&[&["cpu=5"], &["cpu=1", "for=another"]], Some((PlacedBy::Profile, 6000))),
        (&[&["cpu=9"]], Some((PlacedBy::Profile, 9000))),
    ];
    for (pods, expected) in cases {
        let mut scheduler = scheduler();
        let mut node = lab::node("a", &["cpu=4"]);
        node.allocatable.pods = 10;
        node_is(&mut scheduler, 0, node);
        for (number, what) in pods.iter().enumerate() {
            let mut pod = lab::pod(&format!("p{number}"), what);
            pod.node_name = Some("a".into());
            if pod.labels.contains_key("mirror") {
                pod.annotations = [("kubernetes.io/config.mirror", "x")].into_iter().collect();
            }
            pod_is(&mut scheduler, 0, pod);
        }
        let found = scheduler.overcommitted(0, 10);
        let found = found.first().map(|one| {
            assert_eq!((one.node.as_str(), one.resource.as_str()), ("a", "cpu"));
            assert_eq!(one.allocatable, 4000);
            (one.cause(), one.requested)
        });
        assert_eq!(found, expected, "{pods:?}");
        assert!(scheduler.overcommitted(1, 10).is_empty(), "there is no second node");
    }
}

#[test]
fn what_differs_from_the_api_server_is_named() {
    let mut scheduler = scheduler();
    let node = lab::node("a", &["cpu=4", "zone=one"]);
    node_is(&mut scheduler, 0, node.clone());
    let there = |name: &str, what: &[&str]| {
        let mut pod = lab::pod(name, what);
        pod.node_name = Some("a".into());
        pod
    };
    pod_is(&mut scheduler, 0, there("same", &["cpu=1"]));
    pod_is(&mut scheduler, 0, there("gone", &[]));
    pod_is(&mut scheduler, 0, there("changed", &["cpu=1"]));
    let found = |node: &Node, pods: Vec<Pod>| -> Vec<String> {
        let pods = pods.into_iter().map(Arc::new).collect();
        scheduler.differences_on(node, pods).iter().map(ToString::to_string).collect()
    };
    let all = [there("same", &["cpu=1"]), there("gone", &[]), there("changed", &["cpu=1"])];
    assert!(found(&node, all.to_vec()).is_empty());
    let mut relabelled = lab::node("a", &["cpu=5", "zone=two"]);
    relabelled.unschedulable = true;
    let pods =
        vec![there("same", &["cpu=1"]), there("changed", &["cpu=2", "app=web"]), there("new", &[])];
    assert_eq!(
        found(&relabelled, pods),
        [
            "Node a: allocatable",
            "Node a: labels",
            "Node a: unschedulable",
            "Pod default/changed: labels",
            "Pod default/changed: requests",
            "Pod default/gone: is known to be on the node, but is not there",
            "Pod default/new: is on the node, but not known to be there",
        ]
    );
    assert_eq!(found(&lab::node("b", &[]), Vec::new()), ["Node b: is not known"]);
}

#[test]
fn a_pod_that_is_only_assumed_to_be_on_its_node_is_no_difference() {
    let mut scheduler = scheduler();
    let node = lab::node("a", &["cpu=4", "open=yes"]);
    node_is(&mut scheduler, 0, node.clone());
    pod_is(&mut scheduler, 0, lab::pod("p", &["cpu=1"]));
    scheduler.step(at(0), &mut Vec::new());
    assert_eq!(scheduler.view().nodes.len(), 1);
    assert!(scheduler.differences_on(&node, Vec::new()).is_empty());
    let pending = [lab::pod("p", &[]), lab::pod("lost", &[]), lab::pod("theirs", &["for=another"])];
    let unknown = scheduler.unknown_of(&pending.map(Arc::new));
    let unknown: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    assert_eq!(unknown, ["Pod default/lost: is pending, but not in the queue"]);
}
