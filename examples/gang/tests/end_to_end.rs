//! The gang plugin in a whole scheduler: members are held at Permit until their gang is complete.

use std::collections::BTreeMap;

use plimsoll::prelude::*;
use plimsoll_api::{Node, Pod, Resources};
use plimsoll_engine::{
    Effect, Event, Observation, Options, Profile, ProfileSpec, Scheduler, Write,
};
use plimsoll_plugins::{default_binder, node_resources_fit, priority_sort};

/// A scheduler with the plugin, on one node with room for three pods.
fn scheduler() -> Scheduler {
    let registry = Registry::new([
        priority_sort::entry(),
        node_resources_fit::entry(),
        gang::entry(),
        default_binder::entry(),
    ]);
    let mut points: BTreeMap<Point, Vec<(String, i64)>> = BTreeMap::new();
    for entry in registry.iter() {
        for &point in entry.points() {
            points.entry(point).or_default().push((entry.name().to_owned(), 1));
        }
    }
    let spec = ProfileSpec { scheduler_name: "s".into(), points, ..ProfileSpec::default() };
    let profile = Profile::new(&spec, &registry, &FeatureGates::default());
    let profile = profile.expect("these plugins make a profile");
    let mut scheduler =
        Scheduler::new(vec![profile], Options::default(), 0).expect("there is one profile");
    let allocatable = Resources { pods: 3, ..Resources::default() };
    let node = Node { name: "n".into(), allocatable, ..Node::default() };
    scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(node))));
    scheduler
}

fn member(name: &str, gang: &str) -> Event {
    let template = PodTemplate {
        scheduler_name: "s".into(),
        labels: [(gang::GANG, gang), (gang::GANG_SIZE, "3")].into_iter().collect(),
        ..PodTemplate::default()
    };
    Event::pod(Pod::new(PodKey::new("default", name), template))
}

/// The pods that the scheduler binds now. Every binding succeeds at once.
fn bound(scheduler: &mut Scheduler, now: Time) -> Vec<String> {
    let mut names = Vec::new();
    for _ in 0..20 {
        let mut effects: Vec<Effect> = Vec::new();
        scheduler.step(now, &mut effects);
        for effect in effects {
            if matches!(effect.write, Write::Bind(_)) {
                names.push(effect.pod.key.name.to_string());
                scheduler.observe(now, Event::Done(effect.id, Ok(())));
            }
        }
    }
    names.sort();
    names
}

#[test]
fn a_gang_is_bound_when_its_last_member_has_come() {
    let mut scheduler = scheduler();
    scheduler.observe(Time::ZERO, member("a", "g"));
    scheduler.observe(Time::ZERO, member("b", "g"));
    assert!(bound(&mut scheduler, Time::ZERO).is_empty());
    assert_eq!(scheduler.waiting_pods().len(), 2);
    let later = Time::from_millis(5_000);
    scheduler.observe(later, member("c", "g"));
    assert_eq!(bound(&mut scheduler, later), ["a", "b", "c"]);
    assert!(scheduler.waiting_pods().is_empty());
}

/// The first member's time is up. The second one would wait on for a gang that cannot be complete.
#[test]
fn members_that_wait_are_rejected_when_one_fails() {
    let mut scheduler = scheduler();
    scheduler.observe(Time::ZERO, member("a", "g"));
    assert!(bound(&mut scheduler, Time::ZERO).is_empty());
    let later = Time::from_millis(30_000);
    scheduler.observe(later, member("b", "g"));
    assert!(bound(&mut scheduler, later).is_empty());
    assert_eq!(scheduler.waiting_pods().len(), 2);
    let over = Time::from_millis(60_000);
    let mut effects: Vec<Effect> = Vec::new();
    while scheduler.waiting_pods().len() == 2 {
        scheduler.step(over, &mut effects);
    }
    scheduler.step(over, &mut effects);
    let told = |pod: &str| {
        let mut of_pod = effects.iter().filter(|effect| effect.pod.key.name == pod);
        of_pod.any(|effect| {
            matches!(&effect.write, Write::Condition(condition)
                if condition.message.contains("another member of the gang could not be bound"))
        })
    };
    assert!(told("b") && !told("a"), "{effects:?}");
}

#[test]
fn a_gang_that_stays_incomplete_gives_its_room_to_another() {
    let mut scheduler = scheduler();
    scheduler.observe(Time::ZERO, member("a", "short"));
    assert!(bound(&mut scheduler, Time::ZERO).is_empty());
    for name in ["x", "y", "z"] {
        scheduler.observe(Time::ZERO, member(name, "whole"));
    }
    // Only two of the three places are left.
    assert!(bound(&mut scheduler, Time::ZERO).is_empty());
    let mut names = Vec::new();
    for second in 1..=200 {
        names.extend(bound(&mut scheduler, Time::from_millis(second * 1000)));
    }
    assert_eq!(names, ["x", "y", "z"]);
}
