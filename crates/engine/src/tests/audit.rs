//! Audits find what is remembered wrongly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use expect_test::expect;
use plimsoll_framework::prelude::*;
use plimsoll_framework::{Point, Time};

use super::lab;
use super::plugins::registry;
use crate::{
    Detail, Engine, Event, Observation, Options, Outcome, Profile, ProfileSpec, Scheduler,
};

/// Hides something: how often it was asked. The later it is asked about a node, the better it likes it.
#[derive(Default)]
struct Fickle(AtomicU32);

impl Plugin for Fickle {
    const NAME: &'static str = "Fickle";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Fickle::default()
    }
}

impl Score for Fickle {
    type Pod = ();
    type Node = Labels;
    fn score(&self, (): (), _: &Labels) -> i64 {
        i64::from(self.0.fetch_add(1, Ordering::Relaxed).min(100))
    }
}

fn scheduler(engine: Engine, audit_every: u32) -> Scheduler {
    let mut registry = registry();
    registry.add(Entry::of::<Fickle>().score().done());
    let mut spec = ProfileSpec { scheduler_name: "lab".into(), ..ProfileSpec::default() };
    for (point, plugin) in
        [(Point::QueueSort, "Sort"), (Point::Score, "Fickle"), (Point::Bind, "Binder")]
    {
        spec.points.insert(point, vec![(plugin.to_owned(), 1)]);
    }
    let profile = Profile::new(&spec, &registry, &FeatureGates::default());
    let profile = profile.expect("the plugins make a profile");
    let options = Options { engine, audit_every, detail: Detail::Outcome, ..Options::default() };
    let mut scheduler = Scheduler::new(vec![profile], options, 0).expect("there is one profile");
    for name in ["a", "b"] {
        let node = lab::node(name, &["cpu=9"]);
        scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(node))));
    }
    scheduler
}

/// Where pods go, one after the other: names of nodes.
fn places(scheduler: &mut Scheduler, n_pods: usize) -> String {
    let place = |i| {
        let pod = lab::pod(&format!("p{i}"), &[]);
        scheduler.observe(Time::ZERO, Event::Pod(Observation::Is(Arc::new(pod))));
        scheduler.step(Time::ZERO, &mut Vec::new());
        let decision = scheduler.take_decisions().pop().expect("the pod was decided");
        match decision.outcome {
            Outcome::Scheduled { node, .. } => node.to_string(),
            other => panic!("{other:?}"),
        }
    };
    (0..n_pods).map(place).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_plugin_that_hides_something_is_found_out() {
    let mut scheduler = scheduler(Engine::Fast, 1);
    places(&mut scheduler, 70);
    let audit = scheduler.audit();
    assert!(0 < audit.differing && audit.differing < audit.audited, "{audit:?}");
    expect!["pod default/p49: b of [b], and not a of [a b]"]
        .assert_eq(&audit.differences[0].to_string());
}

#[test]
fn as_long_as_every_decision_is_audited_those_from_scratch_hold() {
    let mut audited = scheduler(Engine::Fast, 1);
    // With two nodes a decision from scratch asks twice, and so does a new node ranking.
    let places = places(&mut audited, 70);
    let (before, after) = places.split_at(2 * 49);
    assert!(before.split_whitespace().all(|node| node == "b"), "{places}");
    assert!(after.split_whitespace().all(|node| node == "a"), "{places}");
    assert_eq!(audited.audit().differing, 1, "what was remembered is dropped");
}

#[test]
fn only_each_nth_decision_from_what_is_remembered_is_audited() {
    for (engine, every, expected) in [
        (Engine::Fast, 0, 0),
        (Engine::Fast, 1, 20),
        (Engine::Fast, 7, 2),
        (Engine::Fast, 21, 0),
        (Engine::Reference, 1, 0),
    ] {
        let mut scheduler = scheduler(engine, every);
        places(&mut scheduler, 20);
        assert_eq!(scheduler.audit().audited, expected, "{engine:?} {every}");
    }
}
