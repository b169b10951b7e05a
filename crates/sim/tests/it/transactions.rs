//! Transactions: rolled back, they have never been; committed, they are as if their changes had been observed.
//!
//! Two schedulers with the same seed go through the same random simulation, with volumes, devices, nominated pods and nodes that
//! change. Then one of them has transactions, and both decide the next thousand pods while nodes and pods come and go.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{Node, Pod, PodKey};
use plimsoll_engine::{
    Decision, Detail, Effect, Event, Observation, Options, Profile, Scans, Scheduler, TieBreak,
    Write,
};
use plimsoll_framework::{Release, Time};
use plimsoll_sim::{Extent, Simulation, swarm};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::profiles::{CONFIGURATIONS, configured, profiles_of, release_of};

/// The number of random simulations for each set of profiles.
const SEEDS: u64 = 6;
/// The nodes at the beginning, in every other simulation.
const NODES: u32 = 30;
/// So many decisions are compared afterwards.
const DECISIONS: usize = 1000;
/// So many transactions are rolled back.
const TRANSACTIONS: usize = 5;
/// At most so many pods of those that come last are there at a time.
const MOST_PODS: usize = 60;

/// A simulation of a seed after some random number of decisions.
fn begun(profiles: Vec<Profile>, seed: u64, scans: Scans) -> Simulation {
    let tie_break = if seed.is_multiple_of(2) { TieBreak::First } else { TieBreak::Random };
    let options = Options {
        release: release_of(seed),
        tie_break,
        scans,
        detail: Detail::Outcome,
        audit_every: 0,
        ..Options::default()
    };
    let scheduler = Scheduler::new(profiles, options, seed).expect("there is one");
    let mut simulation = match seed % 2 {
        0 => swarm::begin(seed, scheduler, Extent::Placements),
        _ => swarm::begin_on_nodes(NODES, seed, scheduler, Extent::Placements),
    };
    for _ in 0..Pcg64::seed_from_u64(seed).random_range(10..60) {
        if simulation.advance().is_none() {
            break;
        }
    }
    simulation
}

/// What a scheduler does with the next pods.
#[derive(Debug, Default, PartialEq)]
struct Course {
    decisions: Vec<Decision>,
    effects: Vec<(Time, Effect)>,
    state: Vec<String>,
}

/// A scheduler in a cluster that does at once what it is asked for.
struct Tail {
    scheduler: Scheduler,
    now: Time,
    rng: Pcg64,
    /// The pods and nodes that others are made like.
    templates: (Vec<Pod>, Vec<Node>),
    pods: Vec<PodKey>,
    course: Course,
}

impl Tail {
    fn new(scheduler: Scheduler, now: Time, seed: u64) -> Self {
        let view = scheduler.view();
        let rows = view.nodes.rows();
        let mut nodes: Vec<Node> = rows.map(|row| Node::clone(view.nodes.node(row))).collect();
        nodes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let mut pods: Vec<Pod> = scheduler.pods().map(|pod| Pod::clone(pod)).collect();
        pods.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let (rng, templates) = (Pcg64::seed_from_u64(seed), (pods, nodes));
        Tail { scheduler, now, rng, templates, pods: Vec::new(), course: Course::default() }
    }

    /// Makes the next decisions.
    fn run(mut self) -> Course {
        let mut number = 0;
        while self.course.decisions.len() < DECISIONS && number < 10 * DECISIONS {
            number += 1;
            self.change(number);
            self.work();
        }
        self.course.state = self.scheduler.state();
        self.course
    }

    /// A pod comes, and from time to time a pod goes or a node changes.
    fn change(&mut self, number: usize) {
        let (pods, nodes) = &self.templates;
        let mut events = Vec::new();
        if let Some(like) = pods.get(self.rng.random_range(0..pods.len().max(1))) {
            let key = PodKey::new(&*like.key.namespace, format!("tail-{number}"));
            let uid = format!("tail-{number}").into();
            self.pods.push(key.clone());
            // Of a gang all would have to come.
            let mut pod = Pod { key, uid, node_name: None, nominated_node: None, ..like.clone() };
            pod.scheduling_gates.clear();
            Arc::make_mut(&mut pod.template).priority = self.rng.random_range(0..4) * 10;
            events.push(Event::pod(pod));
        }
        if MOST_PODS < self.pods.len() || self.rng.random_ratio(1, 3) && !self.pods.is_empty() {
            let gone = self.pods.swap_remove(self.rng.random_range(0..self.pods.len()));
            events.push(Event::pod_gone(gone));
        }
        if self.rng.random_ratio(1, 20)
            && let Some(node) = nodes.get(self.rng.random_range(0..nodes.len().max(1)))
        {
            let observation = match self.rng.random_range(0..3) {
                0 => Observation::Gone(node.name.clone()),
                1 => Observation::Is(Node { unschedulable: !node.unschedulable, ..node.clone() }),
                _ => Observation::Is(node.clone()),
            };
            events.push(Event::Node(Box::new(observation)));
        }
        self.now = self.now + Duration::from_millis(self.rng.random_range(0..3_000));
        for event in events {
            self.scheduler.observe(self.now, event);
        }
    }

    /// Lets the scheduler do all that it can do now.
    fn work(&mut self) {
        // A pod may be tried again and again without any time between.
        for _ in 0..50 {
            let mut effects = Vec::new();
            let next = self.scheduler.step(self.now, &mut effects);
            self.course.decisions.extend(self.scheduler.take_decisions());
            let is_idle = effects.is_empty() && !matches!(next, plimsoll_engine::Next::Again);
            for effect in effects {
                self.answer(&effect);
                self.course.effects.push((self.now, effect));
            }
            if is_idle {
                break;
            }
        }
    }

    fn answer(&mut self, effect: &Effect) {
        let observed = match &effect.write {
            Write::Bind(binding) => {
                let node_name = Some(binding.node.clone());
                Some(Event::pod(Pod { node_name, ..Pod::clone(&effect.pod) }))
            }
            Write::Evict(eviction) => Some(Event::pod_gone(eviction.victim.key.clone())),
            Write::Object(_) => None,
            _ => return,
        };
        self.scheduler.observe(self.now, Event::Done(effect.id, Ok(())));
        if let Some(event) = observed {
            self.scheduler.observe(self.now, event);
        }
    }
}

/// The next decisions after a simulation.
fn tail(simulation: Simulation, seed: u64) -> Course {
    let now = simulation.now();
    Tail::new(simulation.into_scheduler(), now, seed).run()
}

/// Asserts that two courses are equal, and names the first difference.
fn assert_alike(one: &Course, other: &Course, what: &str) {
    let decisions = one.decisions.iter().zip(&other.decisions).enumerate();
    let mut differing = decisions.filter(|(_, (one, other))| one != other);
    assert_eq!(differing.next(), None, "{what}: a decision differs");
    let effects = one.effects.iter().zip(&other.effects);
    let mut differing = effects.filter(|(one, other)| one != other);
    assert_eq!(differing.next(), None, "{what}: an effect differs");
    let mut states = one.state.iter().zip(&other.state).filter(|(one, other)| one != other);
    assert_eq!(states.next(), None, "{what}: the state differs in the end");
    let lens = |of: &Course| (of.decisions.len(), of.effects.len(), of.state.len());
    assert_eq!(lens(one), lens(other), "{what}");
}

/// Calls `law` with all profiles, seeds and ways to scan. It returns how many decisions were compared.
fn for_each(law: impl Fn(&dyn Fn() -> Vec<Profile>, u64, Scans, &str) -> usize) {
    let default: &dyn Fn(Release) -> Vec<Profile> = &profiles_of;
    let others = CONFIGURATIONS.map(|text| move |release| configured(text, release));
    let others = others.iter().map(|profiles| profiles as &dyn Fn(Release) -> Vec<Profile>);
    for (number, profiles) in std::iter::once(default).chain(others).enumerate() {
        let mut n_decisions = 0;
        // With the default profile more can go wrong: all plugins are at all points.
        for seed in 0..if number == 0 { 2 * SEEDS } else { SEEDS } {
            let scans = match seed % 3 {
                0 => Scans::Never,
                1 => Scans::WhereCheaper,
                _ => Scans::Always,
            };
            let what = format!("profiles {number}, seed {seed}, scans {scans:?}");
            n_decisions += law(&|| profiles(release_of(seed)), seed, scans, &what);
        }
        assert!(2 * DECISIONS < n_decisions, "profiles {number}: only {n_decisions} decisions");
    }
}

#[test]
fn after_a_rollback_all_is_as_if_the_transaction_had_never_been() {
    for_each(|profiles, seed, scans, what| {
        let twin = tail(begun(profiles(), seed, scans), seed);
        let mut simulation = begun(profiles(), seed, scans);
        let mut rng = Pcg64::seed_from_u64(!seed);
        for _ in 0..TRANSACTIONS {
            assert_eq!(simulation.try_random_transaction(&mut rng), [""; 0], "{what}");
        }
        assert_alike(&tail(simulation, seed), &twin, what);
        twin.decisions.len()
    });
}

#[test]
fn a_committed_transaction_is_as_if_its_changes_had_been_observed() {
    for_each(|profiles, seed, scans, what| {
        let mut simulation = begun(profiles(), seed, scans);
        let (events, differences) =
            simulation.commit_random_transaction(&mut Pcg64::seed_from_u64(!seed));
        assert_eq!(differences, [""; 0], "{what}");
        let committed = tail(simulation, seed);
        let simulation = begun(profiles(), seed, scans);
        let now = simulation.now();
        let mut scheduler = simulation.into_scheduler();
        for event in events {
            scheduler.observe(now, event);
        }
        assert_alike(&committed, &Tail::new(scheduler, now, seed).run(), what);
        committed.decisions.len()
    });
}
