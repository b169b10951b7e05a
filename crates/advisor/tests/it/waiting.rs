//! What is said of pods that wait: in backoff, at Permit, for their binding, and behind a reservation.

use std::time::Duration;

use plimsoll_advisor::{AwaitedPermit, RoomForGroup, Why};
use plimsoll_engine::{Gates, Next, Options, Reservations, Scheduler};
use plimsoll_framework::{Release, Time};
use serde_json::json;

use crate::broken::container;
use crate::world::{POD, World, coscheduling, profile};

/// When the pods come.
const COMES: Time = Time::from_millis(1_000_000);
const COMES_TEXT: &str = "1970-01-01T00:16:40Z";

/// A cluster that is decided step by step, and asked about as one that runs.
struct Running {
    world: World,
    scheduler: Scheduler,
}

impl Running {
    fn new(world: World, scheduler: Scheduler) -> Self {
        let mut running = Running { world, scheduler };
        running.observe();
        running
    }

    /// Tells the scheduler what is in the cluster now.
    fn observe(&mut self) {
        for event in self.world.events() {
            self.scheduler.observe(COMES, event);
        }
    }

    fn step(&mut self) -> Next {
        self.scheduler.step(COMES, &mut Vec::new())
    }

    fn settle(&mut self) {
        let is_settled = (0..100).any(|_| self.step() != Next::Again);
        assert!(is_settled, "there is always more to do");
    }

    fn ask(&mut self, pod: &str) -> Why {
        self.world.ask_running(&mut self.scheduler, COMES, pod)
    }
}

fn one_node(cpu: &str) -> World {
    let mut world = World::default();
    world.node("n1", &json!({}), &json!({"cpu": cpu, "memory": "16Gi", "pods": "20"}));
    world
}

#[test]
fn a_pod_in_backoff_that_would_fit_now_is_told_when_it_is_tried() {
    let mut world = one_node("1");
    world.pod(POD, &json!({}), &container(2000, 128));
    let gates = Gates { pops_from_backoff: false, ..Gates::default() };
    let options = Options { gates, ..Options::default() };
    let scheduler = Scheduler::new(vec![profile(None)], options, 0).expect("it is complete");
    let mut running = Running::new(world, scheduler);
    running.settle();
    let why = running.ask(POD);
    let waiting = why.waiting.expect("it waits");
    assert_eq!((why.state, waiting.place), ("unschedulable", "unschedulable"));
    assert_eq!((waiting.attempts, waiting.since.as_deref()), (1, Some(COMES_TEXT)));
    assert!(!why.remedies.is_empty() && !waiting.woken_by.is_empty());

    running.world.get_mut("Node", "n1")["status"]["allocatable"]["cpu"] = json!("4");
    running.observe();
    let why = running.ask(POD);
    assert_eq!((why.state, why.remedies.len()), ("backoff", 0), "it would fit");
    let waiting = why.waiting.expect("it waits");
    assert_eq!((waiting.place, waiting.attempts), ("backoff", 1));
    assert_eq!(waiting.next_attempt.as_deref(), Some("1970-01-01T00:16:42Z"));
    assert_eq!(waiting.since.as_deref(), Some(COMES_TEXT));
}

#[test]
fn a_pod_that_waits_at_permit_is_told_for_which_plugin_and_until_when() {
    let mut world = one_node("4");
    let labels = json!({"scheduling.x-k8s.io/pod-group": "train"});
    for name in ["train-0", "train-1"] {
        world.pod(name, &labels, &container(3000, 128));
    }
    world.add(json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"minMember": 2, "scheduleTimeoutSeconds": 30},
    }));
    let options = Options::default();
    let scheduler = Scheduler::new(vec![coscheduling()], options, 0).expect("it is complete");
    let mut running = Running::new(world, scheduler);
    running.step();
    let why = running.ask("train-0");
    assert_eq!(why.state, "waitingOnPermit", "{why:#?}");
    let waiting = why.waiting.expect("it waits");
    assert_eq!((waiting.place, waiting.node.as_deref()), ("inFlight", Some("n1")));
    let until = Some("1970-01-01T00:17:10Z".to_owned());
    assert_eq!(waiting.permits, [AwaitedPermit { plugin: "Coscheduling".to_owned(), until }]);
    assert_eq!(waiting.since.as_deref(), Some(COMES_TEXT));
}

#[test]
fn a_pod_that_is_being_bound_is_told_its_node() {
    let mut world = one_node("4");
    world.pod(POD, &json!({}), &container(2000, 128));
    let options = Options::default();
    let scheduler = Scheduler::new(vec![profile(None)], options, 0).expect("it is complete");
    let mut running = Running::new(world, scheduler);
    // Nobody answers the write.
    running.settle();
    let why = running.ask(POD);
    let waiting = why.waiting.expect("it waits");
    assert_eq!((why.state, waiting.place), ("binding", "inFlight"));
    assert_eq!((waiting.node.as_deref(), waiting.permits), (Some("n1"), vec![]));
}

#[test]
fn a_pod_behind_a_reservation_is_told_the_group_and_until_when() {
    for release in [Release::V1_36, Release::V1_37] {
        let mut world = one_node("4");
        let mut old = container(3000, 128);
        old["nodeName"] = json!("n1");
        world.pod("old", &json!({}), &old);
        let version = match release {
            Release::V1_36 => "scheduling.k8s.io/v1alpha2",
            Release::V1_37 => "scheduling.k8s.io/v1beta1",
        };
        world.add(json!({
            "apiVersion": version, "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "default", "uid": "train"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        }));
        for name in ["train-0", "train-1"] {
            let mut spec = container(2000, 128);
            spec["schedulingGroup"] = json!({"podGroupName": "train"});
            world.pod(name, &json!({}), &spec);
            world.get_mut("Pod", name)["metadata"]["uid"] = json!(name);
        }
        let at_most = Duration::from_mins(2);
        let rule = Reservations { after: Duration::ZERO, at_most };
        let scheduler = World::scheduler_of_groups(release, Some(rule));
        let mut running = Running::new(world, scheduler);
        running.settle();
        running.world.pod("small", &json!({}), &container(500, 128));
        running.observe();
        running.settle();
        let why = running.ask("small");
        let waiting = why.waiting.expect("it waits, though it would fit");
        assert_eq!((waiting.place, waiting.attempts), ("active", 0), "{release}");
        let until = Some("1970-01-01T00:18:40Z".to_owned());
        let (kind, group) = ("PodGroup", "default/train".to_owned());
        let room = RoomForGroup { kind, group, until: until.clone() };
        assert_eq!((waiting.reservation, waiting.next_attempt), (Some(room), until), "{release}");
        // The group itself waits for room.
        let why = running.ask("train-0");
        assert_eq!(why.waiting.and_then(|waiting| waiting.reservation), None, "{release}");
    }
}
