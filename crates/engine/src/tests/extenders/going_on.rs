//! A cycle that has waited for an extender goes on if nothing has changed, and begins again otherwise.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use expect_test::expect;
use plimsoll_framework::prelude::*;
use plimsoll_framework::{Point, Time};

use super::super::lab;
use super::super::plugins::registry;
use crate::extenders::{ExtenderVerb, Filtered};
use crate::{
    Detail, Effect, Event, Extender, ExtenderQuestion, ExtenderReply, Next, Observation, Options,
    Outcome, Profile, ProfileSpec, Scheduler, Write,
};

/// Hides something: it passes two nodes, and rejects all nodes that it judges later.
#[derive(Default)]
struct Weary(AtomicU32);

impl Plugin for Weary {
    const NAME: &'static str = "Weary";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Weary::default()
    }
}

impl Filter for Weary {
    type Pod = ();
    type Node = Labels;
    fn filter(&self, (): (), _: &Labels) -> Verdict {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Verdict::Pass,
            _ => Verdict::unschedulable("judged again"),
        }
    }
}

fn scheduler() -> Scheduler {
    let mut registry = registry();
    registry.add(Entry::of::<Weary>().filter().done());
    let mut spec = ProfileSpec { scheduler_name: "lab".into(), ..ProfileSpec::default() };
    for (point, plugin) in
        [(Point::QueueSort, "Sort"), (Point::Filter, "Weary"), (Point::Bind, "Binder")]
    {
        spec.points.insert(point, vec![(plugin.to_owned(), 1)]);
    }
    let profile = Profile::new(&spec, &registry, &FeatureGates::default());
    let profile = profile.expect("the plugins make a profile");
    let options = Options { detail: Detail::Outcome, ..Options::default() };
    let extender = Extender {
        name: "e".into(),
        verbs: BTreeSet::from([ExtenderVerb::Filter, ExtenderVerb::Prioritize]),
        weight: 1,
        ignorable: false,
        managed_resources: BTreeSet::new(),
        timeout: Duration::from_secs(5),
    };
    let scheduler = Scheduler::new(vec![profile], options, 0);
    scheduler.expect("there is one profile").with_extenders(vec![extender])
}

fn work(scheduler: &mut Scheduler) -> Vec<Effect> {
    let mut effects = Vec::new();
    while scheduler.step(Time::ZERO, &mut effects) == Next::Again {}
    effects
}

fn node(name: &str) -> Event {
    Event::Node(Box::new(Observation::Is(lab::node(name, &["cpu=9"]))))
}

/// What is decided about a pod if `changes` happen before the first answer. The extender likes each node.
fn decided(changes: Vec<Event>) -> String {
    let mut scheduler = scheduler();
    let pod = Event::Pod(Observation::Is(Arc::new(lab::pod("p", &["cpu=1"]))));
    for event in [node("a"), node("b"), pod] {
        scheduler.observe(Time::ZERO, event);
    }
    let mut changes = Some(changes);
    let mut effects = work(&mut scheduler);
    while let [Effect { id, write: Write::Extender(call), .. }] = effects.as_slice() {
        let reply = match &call.question {
            ExtenderQuestion::Filter(nodes) => {
                ExtenderReply::Filtered(Filtered { passed: nodes.to_vec(), ..Filtered::default() })
            }
            ExtenderQuestion::Prioritize(_) => ExtenderReply::Prioritized(Vec::new()),
            other => panic!("{other:?}"),
        };
        for event in changes.take().into_iter().flatten() {
            scheduler.observe(Time::ZERO, event);
        }
        scheduler.observe(Time::ZERO, Event::Extended(*id, Ok(reply)));
        effects = work(&mut scheduler);
    }
    match scheduler.take_decisions().pop().expect("the pod was decided").outcome {
        Outcome::Scheduled { node, .. } => node.to_string(),
        Outcome::Unschedulable { message, .. } | Outcome::Error { message } => message,
    }
}

#[test]
fn filters_run_once_if_nothing_changes() {
    expect!["a"].assert_eq(&decided(Vec::new()));
}

#[test]
fn after_a_change_of_the_cluster_filters_run_again() {
    expect!["0/3 nodes are available: 3 judged again."].assert_eq(&decided(vec![node("c")]));
    let other = lab::pod("q", &["cpu=1", "on=a"]);
    let placed = Event::Pod(Observation::Is(Arc::new(other)));
    expect!["0/2 nodes are available: 2 judged again."].assert_eq(&decided(vec![placed]));
}

#[test]
fn after_a_change_of_the_pod_filters_run_again() {
    let changed = lab::pod("p", &["cpu=2"]);
    let changed = Event::Pod(Observation::Is(Arc::new(changed)));
    expect!["0/2 nodes are available: 2 judged again."].assert_eq(&decided(vec![changed]));
}
