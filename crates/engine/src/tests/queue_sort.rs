//! Queues in an order of a plugin from outside.

use std::cmp::Reverse;

use plimsoll_framework::prelude::*;

use super::{lab, plugins};
use crate::{Detail, Event, Next, Observation, Options, Profile, ProfileSpec, Scheduler};

/// Pods of one team after the other, and within a team by priority.
struct ByTeam;

impl Plugin for ByTeam {
    const NAME: &'static str = "ByTeam";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        ByTeam
    }
}

impl QueueSort for ByTeam {
    type Key = (String, Reverse<i32>);
    fn key(&self, queued: &QueuedPod<'_>) -> Self::Key {
        let team = queued.pod.labels.get("team").map_or("", Str::as_str);
        (team.to_owned(), Reverse(queued.pod.priority))
    }
}

/// Two profiles, whose queue is ordered by team.
fn scheduler() -> Scheduler {
    let entries = [Entry::of::<ByTeam>().queue_sort().done()];
    let others = ["Cpu", "Binder"];
    let registry = Registry::new(
        plugins::entries().into_iter().filter(|one| others.contains(&one.name())).chain(entries),
    );
    let profile = |name: &str| {
        let mut spec = ProfileSpec { scheduler_name: name.into(), ..ProfileSpec::default() };
        for entry in registry.iter() {
            for &point in entry.points() {
                spec.points.entry(point).or_default().push((entry.name().to_owned(), 1));
            }
        }
        Profile::new(&spec, &registry, &FeatureGates::default()).expect("the plugins make one")
    };
    let options = Options { detail: Detail::Outcome, ..Options::default() };
    let profiles = vec![profile("lab"), profile("other-lab")];
    Scheduler::new(profiles, options, 0).expect("both order the queue alike")
}

/// The pods that are tried until nothing is left to be done at `now`.
fn tried(scheduler: &mut Scheduler, now: Time) -> Vec<String> {
    let mut effects = Vec::new();
    while matches!(scheduler.step(now, &mut effects), Next::Again) {}
    scheduler.take_decisions().iter().map(|one| one.pod.name.to_string()).collect()
}

#[test]
fn pods_go_in_the_order_of_a_key_of_any_type() {
    let mut scheduler = scheduler();
    for (name, words) in [
        ("b-low", ["team=b", "prio=1", "for=lab"]),
        ("none", ["prio=0", "cpu=1", "for=lab"]),
        ("b-high", ["team=b", "prio=7", "for=other-lab"]),
        ("a-low", ["team=a", "prio=2", "for=other-lab"]),
        ("a-late", ["team=a", "prio=2", "for=lab"]),
        ("a-high", ["team=a", "prio=3", "for=lab"]),
    ] {
        scheduler.observe(Time::ZERO, Event::pod(lab::pod(name, &words)));
    }
    let expected = ["none", "a-high", "a-low", "a-late", "b-high", "b-low"];
    assert_eq!(tried(&mut scheduler, Time::ZERO), expected);

    // They failed, since there is no node. They come back in the same order.
    let node = Observation::Is(lab::node("a", &["cpu=9"]));
    let later = Time::from_millis(60_000);
    scheduler.observe(later, Event::Node(Box::new(node)));
    assert_eq!(tried(&mut scheduler, later), expected);
}

#[test]
fn a_pod_goes_to_its_new_place_when_its_key_changes() {
    let mut scheduler = scheduler();
    for team in ["c", "b"] {
        let words = [format!("team={team}")];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        scheduler.observe(Time::ZERO, Event::pod(lab::pod(team, &words)));
    }
    scheduler.observe(Time::ZERO, Event::pod(lab::pod("c", &["team=a"])));
    assert_eq!(tried(&mut scheduler, Time::ZERO), ["c", "b"]);
}
