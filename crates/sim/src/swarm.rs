//! Simulations of random clusters, each with an auditor: one seed, one simulation.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plimsoll_engine::{Detail, Effect, Options, Outcome, Profile, ProfileError, Scans, Scheduler};
use plimsoll_framework::{Release, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::auditor::{Extent, Violation};
use crate::faults::RequestFaults;
use crate::run::Simulation;
use crate::simulated_cluster::SimulatedCluster;
use crate::workload::RandomWorkload;

/// The results of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// How often a pod was tried.
    pub attempts: usize,
    /// How often one found a node.
    pub scheduled: usize,
    /// How often pods were evicted for one.
    pub preemptions: usize,
    /// The violations.
    pub violations: Vec<Violation>,
}

impl Course {
    /// Adds the results of another simulation.
    pub fn add(&mut self, other: &Course) {
        self.attempts += other.attempts;
        self.scheduled += other.scheduled;
        self.preemptions += other.preemptions;
        self.violations.extend_from_slice(&other.violations);
    }
}

/// More decisions than any workload needs: a simulation that reaches this never ends.
const MAX_DECISIONS: usize = 20_000;
/// One decision in so many is followed by a random transaction.
const TRANSACTION_EVERY: u32 = 4;
/// Longer than any simulation: no pod is tried because of the flush, which would hide that no event
/// woke it.
const FOREVER: std::time::Duration = std::time::Duration::from_hours(1_000_000);

/// Runs the simulation of a seed twice, with the profiles that `profiles` creates for `release`, and
/// audits it to the given `extent`: once without scans, and once with scans wherever possible and with random
/// transactions that are rolled back. A panic is a violation, and so is any difference between the writes of the two
/// runs.
///
/// It is an error if the profiles are invalid.
pub fn try_seed(
    seed: u64,
    release: Release,
    profiles: &dyn Fn() -> Vec<Profile>,
    extent: Extent,
) -> Result<Course, ProfileError> {
    let options = Options {
        release,
        detail: Detail::Outcome,
        max_in_unschedulable: FOREVER,
        audit_every: 1,
        ..Options::default()
    };
    let mut runs = Vec::new();
    for (scans, tries) in [(Scans::Never, Tries::Nothing), (Scans::Always, Tries::Transactions)] {
        let options = Options { scans, ..options };
        let scheduler = Scheduler::new(profiles(), options, seed)?;
        // Nothing that a panic leaves behind is used again.
        let run = catch_unwind(AssertUnwindSafe(|| run(seed, scheduler, extent, tries)));
        match run {
            Ok(run) => runs.push(run),
            Err(panic) => return Ok(panicked(&*panic)),
        }
    }
    let (mut course, written) = runs.swap_remove(0);
    let (with_transactions, second) = runs.swap_remove(0);
    course.violations.extend(with_transactions.violations);
    if let Some((at, effect)) = differs(&written, &second) {
        let what = format!("a second run does otherwise: {effect:?}");
        course.violations.push(Violation { at, what });
    }
    Ok(course)
}

/// The simulation of a seed, with an auditor, before the first decision.
pub fn begin(seed: u64, scheduler: Scheduler, extent: Extent) -> Simulation {
    let workload = RandomWorkload::of(seed);
    let faults = RequestFaults::by_chance(seed, workload.fault_percent, workload.calm);
    let mut world = SimulatedCluster::new(workload.lifecycle, faults);
    world.devices = workload.devices;
    for (at, what) in workload.happenings {
        world.plan(at, what);
    }
    Simulation::audited(world, scheduler, workload.cluster, extent)
}

/// What is tried between decisions.
#[derive(Clone, Copy, PartialEq)]
enum Tries {
    Nothing,
    /// After one decision in [`TRANSACTION_EVERY`].
    Transactions,
}

fn run(
    seed: u64,
    scheduler: Scheduler,
    extent: Extent,
    tries: Tries,
) -> (Course, Vec<(Time, Effect)>) {
    let mut simulation = begin(seed, scheduler, extent);
    let mut course = Course::default();
    let mut rng = Pcg64::seed_from_u64(seed);
    while let Some(decisions) = simulation.advance() {
        if tries == Tries::Transactions && rng.random_ratio(1, TRANSACTION_EVERY) {
            let differences = simulation.try_random_transaction(&mut rng).into_iter();
            course.violations.extend(differences.map(|difference| {
                let what = format!("a decision in a transaction differs: {difference}");
                Violation { at: simulation.now(), what }
            }));
        }
        for decision in decisions {
            course.attempts += 1;
            match decision.outcome {
                Outcome::Scheduled { .. } => course.scheduled += 1,
                Outcome::Unschedulable { nomination: Some(_), .. } => course.preemptions += 1,
                Outcome::Unschedulable { .. } | Outcome::Error { .. } => {}
            }
        }
        if MAX_DECISIONS < course.attempts {
            let what = format!("there is no end after {MAX_DECISIONS} decisions");
            course.violations.push(Violation { at: simulation.now(), what });
            break;
        }
    }
    course.violations.extend(simulation.violations().iter().cloned());
    course.violations.extend(simulation.decisions_audit().differences.iter().map(|difference| {
        let what = format!("a decision differs from scratch: {difference}");
        Violation { at: simulation.now(), what }
    }));
    (course, simulation.take_written())
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Course {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let violation = Violation { at: Time::ZERO, what: format!("a panic: {text}") };
    Course { violations: vec![violation], ..Course::default() }
}

/// The first write in which two runs differ.
fn differs<'a>(
    one: &'a [(Time, Effect)],
    other: &'a [(Time, Effect)],
) -> Option<(Time, &'a Effect)> {
    let differing = one.iter().zip(other).find(|(one, other)| one != other).map(|(one, _)| one);
    let longer = if one.len() < other.len() { other } else { one };
    let more = longer.get(one.len().min(other.len()));
    differing.or(more).map(|(at, effect)| (*at, effect))
}
