//! A filter says on what its verdicts depend: nodes that it has rejected are not asked about again until that changes.

use std::cell::Cell;

use plimsoll_api::{AnyObject, KindRef, ObjectKey};
use plimsoll_framework::prelude::*;

use super::lab;
use crate::{Detail, Effect, Engine, Event, Next, Observation, Options, Outcome, Scheduler};

thread_local! {
    /// How often the filter was asked.
    static N_ASKED: Cell<usize> = const { Cell::new(0) };
}

/// Rejects nodes whose door is of another colour than the pod, nodes for which there is a lock, and all nodes during a strike.
struct Doors;

impl Plugin for Doors {
    const NAME: &'static str = "Doors";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Doors
    }
}

/// The colour of the pod, and the locks.
type Colour = (Str, KeptVolumes);

impl PreFilter for Doors {
    type Pod = Labels;
    type Node = (Name, Labels);
    type Cluster = Volumes;
    type State = Colour;

    fn pre_filter(
        &self,
        pod: &Labels,
        cluster: VolumeStore<'_>,
    ) -> Result<Option<Colour>, Rejection> {
        Ok(pod.get("colour").map(|colour| (colour.clone(), cluster.keep())))
    }

    fn filter(&self, (colour, locks): &Colour, (name, labels): (&Str, &Labels)) -> Verdict {
        N_ASKED.set(N_ASKED.get() + 1);
        let store = locks.store();
        if store.classes.get("strike").is_some() {
            return Verdict::unresolvable("strike");
        }
        if store.volumes.get(name).is_some() {
            return Verdict::unresolvable("locked");
        }
        match labels.get("door") == Some(colour) {
            true => Verdict::Pass,
            false => Verdict::unschedulable("wrong door"),
        }
    }

    fn may_err(&self, _: &Colour) -> bool {
        false
    }
}

impl FilterByKey for Doors {
    type Key = Str;

    fn key(&self, (colour, _): &Colour, _: VolumeStore<'_>) -> Option<Str> {
        Some(colour.clone())
    }

    fn key_bytes(&self, colour: &Str) -> usize {
        colour.len()
    }

    fn concerns(&self, object: &AnyObject, _: VolumeStore<'_>) -> ConcernedNodes {
        match object.shared::<PersistentVolume>() {
            Some(lock) => ConcernedNodes::Named(lock.name.clone()),
            None if object.kind().is::<StorageClass>() => ConcernedNodes::All,
            None => ConcernedNodes::none(),
        }
    }
}

const N_NODES: usize = 200;

fn node(number: usize, door: &str) -> Event {
    let node = lab::node(&format!("n{number:03}"), &[&format!("door={door}")]);
    Event::Node(Box::new(Observation::Is(node)))
}

/// A cluster whose first 150 doors are red, and the others blue.
struct Street(Scheduler, Time);

impl Street {
    fn new(engine: Engine) -> Self {
        let doors = Entry::of::<Doors>().pre_filter().filter_by_key().done();
        let options =
            Options { engine, detail: Detail::Outcome, audit_every: 0, ..Options::default() };
        let profile = lab::profile_of(doors, &["Sort", "Binder"]);
        let scheduler = Scheduler::new(vec![profile], options, 0).expect("there is a profile");
        let mut street = Street(scheduler, Time::ZERO);
        for number in 0..N_NODES {
            street.hear(node(number, if number < 150 { "red" } else { "blue" }));
        }
        street
    }

    fn hear(&mut self, event: Event) {
        self.0.observe(self.1, event);
    }

    /// The node of a new blue pod, or nothing, and how often the filter was asked.
    fn place(&mut self, name: &str) -> (Option<String>, usize) {
        N_ASKED.set(0);
        self.hear(Event::pod(lab::pod(name, &["colour=blue"])));
        let mut effects: Vec<Effect> = Vec::new();
        while matches!(self.0.step(self.1, &mut effects), Next::Again) {}
        let decision = self.0.take_decisions().into_iter().find(|one| one.pod.name == name);
        let node = match decision.expect("it was tried").outcome {
            Outcome::Scheduled { node, .. } => node.to_string(),
            _ => return (None, N_ASKED.get()),
        };
        self.hear(Event::pod(lab::pod(name, &["colour=blue", &format!("on={node}")])));
        (Some(node), N_ASKED.get())
    }
}

/// Lets the same happen from memory and from scratch: each line is what happens, then where the next pod goes and at most how
/// often the filter is asked from memory.
fn check(story: Vec<(Vec<Event>, Option<&str>, usize)>) {
    let mut street = Street::new(Engine::Fast);
    let mut reference = Street::new(Engine::Reference);
    for (number, (events, expected, most)) in story.into_iter().enumerate() {
        for event in events {
            street.hear(event.clone());
            reference.hear(event);
        }
        let name = format!("p{number}");
        let (node, n_asked) = street.place(&name);
        assert_eq!(node.as_deref(), expected, "{name}");
        assert_eq!(reference.place(&name).0, node, "{name}");
        assert!(n_asked <= most, "{name}: the filter was asked {n_asked} times, at most {most}");
    }
}

fn lock(name: &str) -> Event {
    Event::object(PersistentVolume { name: name.into(), ..PersistentVolume::default() })
}

fn strike() -> Event {
    Event::object(StorageClass { name: "strike".into(), ..StorageClass::default() })
}

#[test]
fn a_node_is_asked_again_after_what_concerns_it_has_changed() {
    let unlocked = Event::gone(KindRef::of::<PersistentVolume>(), ObjectKey::new("", "n007"));
    check(vec![
        (vec![], Some("n150"), N_NODES),
        (vec![], Some("n150"), 2),
        // The first one by name now.
        (vec![node(7, "blue")], Some("n007"), 2),
        (vec![], Some("n007"), 2),
        (vec![lock("n007")], Some("n150"), 3),
        (vec![], Some("n150"), 2),
        (vec![lock("n003")], Some("n150"), 3),
        (vec![unlocked], Some("n007"), 3),
    ]);
}

#[test]
fn what_concerns_all_nodes_lets_all_be_asked_again_but_only_once() {
    let over = Event::gone(KindRef::of::<StorageClass>(), ObjectKey::new("", "strike"));
    check(vec![
        (vec![], Some("n150"), N_NODES),
        (vec![], Some("n150"), 2),
        (vec![strike()], None, N_NODES),
        (vec![], None, 0),
        (vec![over], Some("n150"), N_NODES),
        (vec![], Some("n150"), 2),
    ]);
}

#[test]
fn nodes_that_come_and_go_are_followed() {
    let gone = Event::Node(Box::new(Observation::Gone("n150".into())));
    check(vec![
        (vec![], Some("n150"), N_NODES),
        (vec![gone], Some("n151"), 3),
        (vec![node(150, "red")], Some("n151"), 3),
        (vec![node(0, "blue")], Some("n000"), 3),
    ]);
}
