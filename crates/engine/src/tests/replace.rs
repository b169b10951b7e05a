//! Profiles are replaced while pods are queued, wait and are being bound.

use std::sync::Arc;

use plimsoll_api::{Pod, PodKey};
use plimsoll_framework::{FeatureGates, Point, Time, WriteCause};

use super::lab;
use super::plugins::registry;
use crate::{
    Backoff, Detail, Effect, EffectId, Event, Observation, Options, Outcome, Profile, ProfileSpec,
    QueuePlace, Scheduler, Write, WriteError,
};

/// A profile with these filters, and what the others need.
fn profile(name: &str, filters: &[&str]) -> Profile {
    let mut spec = ProfileSpec { scheduler_name: name.into(), ..ProfileSpec::default() };
    let named = |name: &str| vec![(name.to_owned(), 1)];
    spec.points.insert(Point::QueueSort, named("Sort"));
    spec.points.insert(Point::PreEnqueue, named("Gates"));
    let filters = filters.iter().map(|name| ((*name).to_owned(), 1)).collect();
    spec.points.insert(Point::Filter, filters);
    spec.points.insert(Point::Permit, named("Group"));
    spec.points.insert(Point::Bind, named("Binder"));
    Profile::new(&spec, &registry(), &FeatureGates::default()).expect("the plugins make a profile")
}

/// A scheduler in a world that does nothing by itself.
struct World {
    scheduler: Scheduler,
    now: i64,
    effects: Vec<Effect>,
}

impl World {
    fn new(profiles: Vec<Profile>) -> Self {
        let options = Options { detail: Detail::Outcome, audit_every: 1, ..Options::default() };
        let scheduler = Scheduler::new(profiles, options, 0).expect("the profiles fit together");
        let mut world = World { scheduler, now: 0, effects: Vec::new() };
        for (name, zone) in [("a", "zone=one"), ("b", "zone=two")] {
            let node = lab::node(name, &["cpu=4", zone]);
            world.tell(Event::Node(Box::new(Observation::Is(node))));
        }
        world
    }

    fn time(&self) -> Time {
        Time::from_millis(self.now * 1000)
    }

    fn tell(&mut self, event: Event) {
        let now = self.time();
        self.scheduler.observe(now, event);
    }

    fn pod(&mut self, name: &str, what: &[&str]) {
        self.tell(Event::Pod(Observation::Is(Arc::new(lab::pod(name, what)))));
    }

    /// Makes what is due now, and returns the decisions as text.
    fn settle(&mut self) -> Vec<String> {
        let now = self.time();
        let mut decided = Vec::new();
        for _ in 0..100 {
            self.scheduler.step(now, &mut self.effects);
            decided.extend(self.scheduler.take_decisions().into_iter().map(|decision| {
                let name = decision.pod.name.clone();
                match decision.outcome {
                    Outcome::Scheduled { node, .. } => format!("{name} -> {node}"),
                    Outcome::Unschedulable { message, .. } => format!("{name} !! {message}"),
                    Outcome::Error { message } => format!("{name} error: {message}"),
                }
            }));
        }
        decided
    }

    /// The effect that binds a pod.
    fn binding(&self, name: &str) -> Option<EffectId> {
        let is_it = |effect: &&Effect| {
            matches!(effect.write, Write::Bind(_)) && effect.pod.key.name == *name
        };
        self.effects.iter().find(is_it).map(|effect| effect.id)
    }

    fn replace(&mut self, profiles: Vec<Profile>) {
        let now = self.time();
        let replaced = self.scheduler.replace_profiles(now, profiles, Backoff::default());
        replaced.expect("the profiles fit together");
    }

    fn place(&self, name: &str) -> Option<QueuePlace> {
        let info = self.scheduler.queued_pod(&PodKey::new("default", name));
        info.map(|info| info.place.clone())
    }

    fn orphans(&mut self) -> Vec<String> {
        let orphans: Vec<Arc<Pod>> = self.scheduler.take_orphans();
        orphans.iter().map(|pod| pod.key.name.to_string()).collect()
    }
}

#[test]
fn a_waiting_pod_is_tried_by_the_profile_that_replaces_its_own() {
    let mut world = World::new(vec![profile("lab", &["Cpu", "Zone"])]);
    world.pod("p", &["cpu=1", "zone=three"]);
    assert_eq!(world.settle(), ["p !! 0/2 nodes are available: 2 wrong zone."]);
    world.now = 10;
    // The same profile changes nothing.
    world.replace(vec![profile("lab", &["Cpu", "Zone"])]);
    assert!(world.settle().is_empty());
    world.replace(vec![profile("lab", &["Cpu"])]);
    assert_eq!(world.settle(), ["p -> a"]);
    assert!(world.scheduler.audit().differences.is_empty());
}

#[test]
fn every_decision_is_by_a_whole_profile_and_says_which() {
    let whole = [profile("lab", &["Cpu"]), profile("lab", &["Cpu", "Zone"])];
    let prints = whole.each_ref().map(Profile::fingerprint);
    assert_ne!(prints[0], prints[1]);
    let [one, two] = whole;
    let mut world = World::new(vec![one]);
    assert_eq!(world.scheduler.fingerprints(), [("lab".to_owned(), prints[0])]);
    let decided_by = |world: &mut World, name: &str| {
        world.pod(name, &["zone=two"]);
        let now = world.time();
        world.scheduler.step(now, &mut world.effects);
        let mut decisions = world.scheduler.take_decisions();
        let context = decisions.remove(0).context.expect("it was an attempt");
        context.fingerprint
    };
    assert_eq!(decided_by(&mut world, "p"), prints[0]);
    world.replace(vec![two]);
    assert_eq!(decided_by(&mut world, "q"), prints[1]);
}

#[test]
fn a_pod_that_waits_at_permit_survives_and_is_bound() {
    let mut world = World::new(vec![profile("lab", &["Cpu"])]);
    world.pod("p", &["permit=wait"]);
    assert_eq!(world.settle(), ["p -> a"]);
    world.replace(vec![profile("lab", &["Cpu", "Zone"])]);
    world.settle();
    assert_eq!(world.scheduler.waiting_pods().len(), 1);
    world.scheduler.allow_waiting_pod(&PodKey::new("default", "p"), "Group");
    world.settle();
    assert!(world.binding("p").is_some());
}

#[test]
fn a_binding_under_way_finishes_though_its_profile_is_gone() {
    let mut world = World::new(vec![profile("lab", &["Cpu"]), profile("other", &["Cpu"])]);
    world.pod("p", &["cpu=1"]);
    world.pod("q", &["cpu=1"]);
    world.settle();
    let (bound, failed) = (world.binding("p"), world.binding("q"));
    world.replace(vec![profile("other", &["Cpu"])]);
    world.settle();
    assert!(world.orphans().is_empty(), "both are being bound");
    world.tell(Event::Done(bound.expect("it is sent"), Ok(())));
    let error = WriteError::new(WriteCause::Refused, "refused");
    world.tell(Event::Done(failed.expect("it is sent"), Err(error)));
    world.settle();
    assert_eq!(world.orphans(), ["q"], "its binding has failed, and no profile tries it again");
    assert_eq!((world.place("p"), world.place("q")), (None, None));
    let used = world.scheduler.view();
    let used: i64 = used.nodes.rows().map(|row| used.nodes.requested_of(row).milli_cpu).sum();
    assert_eq!(used, 1000, "p still uses its node, q does not");
}

#[test]
fn pods_whose_profile_is_gone_leave_and_come_back_with_it() {
    let both = || vec![profile("lab", &["Cpu"]), profile("other", &["Cpu"])];
    let mut world = World::new(both());
    for (name, what) in [
        ("gated", vec!["gate=x", "for=other"]),
        ("large", vec!["cpu=9", "for=other"]),
        ("ours", vec!["cpu=9"]),
    ] {
        world.pod(name, &what);
    }
    world.settle();
    world.pod("new", &["for=other"]);
    world.replace(vec![profile("lab", &["Cpu"])]);
    assert_eq!(world.orphans(), ["gated", "large", "new"]);
    assert!(world.settle().is_empty());
    assert_eq!(world.place("ours"), Some(QueuePlace::Unschedulable));
    world.replace(both());
    world.pod("new", &["for=other"]);
    assert_eq!(world.settle(), ["new -> a"]);
    let counted = world.scheduler.metrics();
    let attempts =
        counted.iter().find(|one| one.descriptor.name == "scheduler_schedule_attempts_total");
    let series = attempts.map_or(0, |one| one.series.len());
    assert_eq!(series, 2, "what was counted of a profile stays: {attempts:?}");
}

#[test]
fn a_gate_that_a_profile_loses_holds_no_pod_back() {
    let mut world = World::new(vec![profile("lab", &["Cpu"])]);
    world.pod("p", &["gate=x"]);
    world.settle();
    assert!(matches!(world.place("p"), Some(QueuePlace::Gated { .. })));
    let mut spec = ProfileSpec { scheduler_name: "lab".into(), ..ProfileSpec::default() };
    for (point, name) in
        [(Point::QueueSort, "Sort"), (Point::Filter, "Cpu"), (Point::Bind, "Binder")]
    {
        spec.points.insert(point, vec![(name.to_owned(), 1)]);
    }
    let open = Profile::new(&spec, &registry(), &FeatureGates::default());
    world.replace(vec![open.expect("the plugins make a profile")]);
    assert_eq!(world.settle(), ["p -> a"]);
}

#[test]
fn profiles_that_do_not_fit_together_change_nothing() {
    let mut world = World::new(vec![profile("lab", &["Zone"])]);
    let now = world.time();
    let twice = vec![profile("lab", &["Cpu"]), profile("lab", &["Cpu"])];
    let error = world.scheduler.replace_profiles(now, twice, Backoff::default());
    assert_eq!(
        error.expect_err("it is refused").to_string(),
        "duplicated profile with scheduler name \"lab\""
    );
    world.pod("p", &["zone=two"]);
    assert_eq!(world.settle(), ["p -> b"]);
}

#[test]
fn a_pod_is_decided_again_by_two_profiles_without_its_own_place() {
    let mut world = World::new(vec![profile("lab", &["Cpu"])]);
    world.pod("p", &["cpu=4", "zone=two"]);
    assert_eq!(world.settle(), ["p -> a"]);
    let key = PodKey::new("default", "p");
    let (old, new) = (profile("lab", &["Cpu"]), profile("lab", &["Cpu", "Zone"]));
    let now = world.time();
    let nodes = world.scheduler.decide_again(now, &key, [Some(&old), Some(&new)]);
    let nodes = nodes.expect("it is known").map(|decision| match decision {
        Some(decision) => match decision.outcome {
            Outcome::Scheduled { node, .. } => node.to_string(),
            other => format!("{other:?}"),
        },
        None => "nobody".to_owned(),
    });
    assert_eq!(nodes, ["a", "b"]);
    let one = world.scheduler.decide_again(now, &key, [Some(&old), None]).expect("it is known");
    assert!(one[0].is_some() && one[1].is_none());
    assert!(
        world.scheduler.decide_again(now, &PodKey::new("default", "x"), [None, None]).is_none()
    );
    assert!(world.binding("p").is_some() && world.settle().is_empty());
}
