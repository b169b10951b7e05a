//! Simulations of random clusters, each with an auditor: one seed, one simulation.
//!
//! A third of the seeds has groups of pods ([`has_groups`]). These need feature gates, which differ from seed to seed
//! ([`group_gates`]). Some of the others have gangs of Coscheduling ([`has_gangs`]), with args that differ, too
//! ([`GangArgs::of`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use plimsoll_engine::{
    Detail, Effect, Gates, GroupResult, MemberDecision, Options, Outcome, Profile, ProfileError,
    Recorder, Reservations, Scans, Scheduler,
};
use plimsoll_framework::{FeatureGates, GroupGates, GroupRules, Release, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::auditor::{Extent, ObservedGangs, Violation};
use crate::cluster::InitialCluster;
use crate::faults::RequestFaults;
use crate::run::Simulation;
use crate::simulated_cluster::SimulatedCluster;
use crate::workload::{GangArgs, GangKind, GroupFeatures, RandomWorkload};

/// The results of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// How often a pod was tried.
    pub attempts: usize,
    /// How often one found a node.
    pub scheduled: usize,
    /// How often pods were evicted for one, or for a group.
    pub preemptions: usize,
    /// How often a group of pods was tried.
    pub group_attempts: usize,
    /// How often pods of one found nodes.
    pub groups_scheduled: usize,
    /// How many decisions came out differently from scratch.
    pub audits_differing: u64,
    /// The violations.
    pub violations: Vec<Violation>,
}

impl Course {
    /// Adds the results of another simulation.
    pub fn add(&mut self, other: &Course) {
        self.attempts += other.attempts;
        self.scheduled += other.scheduled;
        self.preemptions += other.preemptions;
        self.group_attempts += other.group_attempts;
        self.groups_scheduled += other.groups_scheduled;
        self.audits_differing += other.audits_differing;
        self.violations.extend_from_slice(&other.violations);
    }
}

/// What records the runs of a seed: it is asked for each run, which has a number, counted from 0.
pub type Recorders<'a> = &'a dyn Fn(usize) -> Option<Box<dyn Recorder>>;

/// More decisions than any workload needs: a simulation that reaches this never ends. A tree of 29 pods whose attempt is an error is tried
/// every eleven seconds, while others wait ten minutes each for volumes that never come.
const MAX_DECISIONS: usize = 200_000;
/// One decision in so many is followed by a random transaction.
const TRANSACTION_EVERY: u32 = 4;
/// Longer than any simulation: no pod is tried because of the flush, which would hide that no event
/// woke it.
const FOREVER: Duration = Duration::from_hours(1_000_000);

/// One seed in so many has groups of pods.
const GROUPS_EVERY: u64 = 3;
/// Of the others, one in so many has gangs of Coscheduling.
const GANGS_ONE_IN: u32 = 8;
/// Of those, one in so many has groups of the API, too.
const BOTH_ONE_IN: u32 = 3;
/// What makes the random numbers by which seeds have gangs others than those of the rest.
const GANGS: u64 = 0xa0_76_1d_64_78_bd_64_2f;
/// What makes the random numbers of gates others than those of the rest.
const GATES: u64 = 0x51_7c_c1_b7_27_22_0a_95;
/// The gate with which groups share claims on devices.
const SHARES_CLAIMS: &str = "DRAWorkloadResourceClaims";

/// Whether the swarm has groups of pods in the simulation of a seed.
pub fn has_groups(seed: u64) -> bool {
    seed.is_multiple_of(GROUPS_EVERY)
}

/// Whether the swarm has gangs of Coscheduling in the simulation of a seed ([`try_seed_with_gangs`]).
pub fn has_gangs(seed: u64) -> bool {
    let mut rng = Pcg64::seed_from_u64(seed ^ GANGS);
    !has_groups(seed) && rng.random_ratio(1, GANGS_ONE_IN)
}

/// The feature gates that are switched on for a seed with gangs of Coscheduling: mostly none. In the others groups of the API
/// are beside these.
pub fn gang_gates(seed: u64, release: Release) -> Vec<&'static str> {
    let mut rng = Pcg64::seed_from_u64(!seed ^ GANGS);
    match rng.random_ratio(1, BOTH_ONE_IN) {
        true => group_gates(seed, release),
        false => Vec::new(),
    }
}

/// The feature gates that are switched on for the groups of a seed. Mostly these are all that there are.
pub fn group_gates(seed: u64, release: Release) -> Vec<&'static str> {
    let mut rng = Pcg64::seed_from_u64(seed ^ GATES);
    let mut gates = vec!["GenericWorkload"];
    let mut is_on = |gate, without: u32| {
        if !rng.random_ratio(1, without) {
            gates.push(gate);
        }
        gates.contains(&gate)
    };
    let is_topology_aware = is_on("TopologyAwareWorkloadScheduling", 5);
    is_on(SHARES_CLAIMS, 4);
    match release {
        Release::V1_36 => {
            if is_on("GangScheduling", 12) {
                is_on("WorkloadAwarePreemption", 4);
            }
        }
        Release::V1_37 => {
            if is_topology_aware {
                is_on("CompositePodGroup", 5);
            }
            is_on("PodGroupPreemptionPolicy", 2);
        }
    }
    gates
}

/// When room is reserved for groups in the simulation of a seed; in some it is never.
fn reservations(seed: u64) -> Option<Reservations> {
    let mut rng = Pcg64::seed_from_u64(!seed ^ GATES);
    let mut span = || Duration::from_secs(rng.random_range(0..60));
    let (after, at_most) = (span(), span());
    rng.random_ratio(1, 3).then_some(Reservations { after, at_most })
}

/// Runs the simulation of a seed twice, with the profiles that `profiles` creates for these `gates` and their release, and
/// audits it to the given `extent`: once without scans, and once with scans wherever possible and with random
/// transactions that are rolled back. A panic is a violation, and so is any difference between the writes of the two
/// runs. There are groups of pods if their gates are on, also in seeds that usually have none.
///
/// It is an error if the profiles are invalid.
pub fn try_seed(
    seed: u64,
    gates: &FeatureGates,
    profiles: &dyn Fn() -> Vec<Profile>,
    extent: Extent,
) -> Result<Course, ProfileError> {
    try_seed_recorded(seed, gates, profiles, extent, &|_| None)
}

/// The same, recorded. Transactions are not recorded.
pub fn try_seed_recorded(
    seed: u64,
    gates: &FeatureGates,
    profiles: &dyn Fn() -> Vec<Profile>,
    extent: Extent,
    recorders: Recorders<'_>,
) -> Result<Course, ProfileError> {
    let groups = group_features(gates);
    let begin = |scheduler| {
        let workload = match groups {
            Some(features) => RandomWorkload::grouped(seed, features),
            None => RandomWorkload::of(seed),
        };
        begin_with(workload, seed, |world, cluster| {
            Simulation::audited(world, scheduler, cluster, extent)
        })
    };
    try_twice(seed, gates, profiles, &begin, recorders)
}

/// The same with gangs of Coscheduling, which the profiles have at all its points, with the [args](GangArgs::of) of the seed. If
/// the gates of groups are on, about half of the groups are those of the API.
pub fn try_seed_with_gangs(
    seed: u64,
    gates: &FeatureGates,
    profiles: &dyn Fn() -> Vec<Profile>,
    kind: GangKind,
) -> Result<Course, ProfileError> {
    try_seed_with_gangs_recorded(seed, gates, profiles, kind, &|_| None)
}

/// The same, recorded. Transactions are not recorded.
pub fn try_seed_with_gangs_recorded(
    seed: u64,
    gates: &FeatureGates,
    profiles: &dyn Fn() -> Vec<Profile>,
    kind: GangKind,
    recorders: Recorders<'_>,
) -> Result<Course, ProfileError> {
    // Without the API gangs come and change as they may by the newest rules.
    let without = GroupFeatures {
        gates: GroupGates { rules: GroupRules::V1_37, ..GroupGates::default() },
        shares_claims: false,
    };
    let features = group_features(gates).unwrap_or(without);
    let begin = |scheduler| {
        let workload = RandomWorkload::coscheduled(seed, features, kind);
        let gangs = ObservedGangs::new(kind, GangArgs::of(seed));
        begin_with(workload, seed, |world, cluster| {
            let audited = (Extent::Decisions, gangs);
            Simulation::audited_with_gangs(world, scheduler, cluster, audited)
        })
    };
    try_twice(seed, gates, profiles, &begin, recorders)
}

/// The options of the schedulers of a seed's runs.
pub fn options(seed: u64, gates: &FeatureGates) -> [Options; 2] {
    let options = Options {
        release: gates.release(),
        gates: Gates::of(gates),
        detail: Detail::Outcome,
        max_in_unschedulable: FOREVER,
        audit_every: 1,
        reservations: group_features(gates).and_then(|_| reservations(seed)),
        ..Options::default()
    };
    [Scans::Never, Scans::Always].map(|scans| Options { scans, ..options })
}

/// Which groups of the API there are with these gates.
fn group_features(gates: &FeatureGates) -> Option<GroupFeatures> {
    let of_groups = Gates::of(gates).groups;
    of_groups.generic_workload.then(|| GroupFeatures {
        gates: of_groups,
        shares_claims: gates.enabled(SHARES_CLAIMS, false),
    })
}

fn try_twice(
    seed: u64,
    gates: &FeatureGates,
    profiles: &dyn Fn() -> Vec<Profile>,
    begin: &dyn Fn(Scheduler) -> Simulation,
    recorders: Recorders<'_>,
) -> Result<Course, ProfileError> {
    let mut runs = Vec::new();
    let tries = [Tries::Nothing, Tries::Transactions];
    for (number, (options, tries)) in options(seed, gates).into_iter().zip(tries).enumerate() {
        let mut scheduler = Scheduler::new(profiles(), options, seed)?;
        if let Some(recorder) = recorders(number) {
            scheduler.record_to(recorder);
        }
        // Nothing that a panic leaves behind is used again.
        let run = catch_unwind(AssertUnwindSafe(|| run(seed, begin(scheduler), tries)));
        match run {
            Ok(run) => runs.push(run),
            Err(panic) => return Ok(panicked(&*panic)),
        }
    }
    let (mut course, written) = runs.swap_remove(0);
    let (with_transactions, second) = runs.swap_remove(0);
    course.violations.extend(with_transactions.violations);
    course.audits_differing += with_transactions.audits_differing;
    if let Some((at, effect)) = differs(&written, &second) {
        let what = format!("a second run does otherwise: {effect:?}");
        course.violations.push(Violation { at, what });
    }
    Ok(course)
}

/// The simulation of a seed, with an auditor, before the first decision. It has no groups of pods.
pub fn begin(seed: u64, scheduler: Scheduler, extent: Extent) -> Simulation {
    begin_with(RandomWorkload::of(seed), seed, |world, cluster| {
        Simulation::audited(world, scheduler, cluster, extent)
    })
}

/// The same on a cluster that begins with `n_nodes` nodes instead of a few.
pub fn begin_on_nodes(n_nodes: u32, seed: u64, scheduler: Scheduler, extent: Extent) -> Simulation {
    begin_with(RandomWorkload::on_nodes(seed, n_nodes), seed, |world, cluster| {
        Simulation::audited(world, scheduler, cluster, extent)
    })
}

fn begin_with(
    workload: RandomWorkload,
    seed: u64,
    audited: impl FnOnce(SimulatedCluster, InitialCluster) -> Simulation,
) -> Simulation {
    let faults = RequestFaults::by_chance(seed, workload.fault_percent, workload.calm);
    let mut world = SimulatedCluster::new(workload.lifecycle, faults);
    world.devices = workload.devices;
    world.storage = workload.storage;
    for (at, what) in workload.happenings {
        world.plan(at, what);
    }
    audited(world, workload.cluster)
}

/// What is tried between decisions.
#[derive(Clone, Copy, PartialEq)]
enum Tries {
    Nothing,
    /// After one decision in [`TRANSACTION_EVERY`].
    Transactions,
}

fn run(seed: u64, mut simulation: Simulation, tries: Tries) -> (Course, Vec<(Time, Effect)>) {
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
        for group in simulation.take_group_decisions() {
            course.group_attempts += 1;
            course.groups_scheduled += usize::from(group.result == GroupResult::Scheduled);
            course.preemptions += usize::from(!group.victims.is_empty());
            let members = group.pods.iter().filter_map(MemberDecision::as_decision);
            for member in members {
                course.attempts += 1;
                let is_placed = matches!(member.outcome, Outcome::Scheduled { .. });
                course.scheduled += usize::from(is_placed);
            }
        }
        if MAX_DECISIONS < course.attempts {
            let what = format!("there is no end after {MAX_DECISIONS} decisions");
            course.violations.push(Violation { at: simulation.now(), what });
            break;
        }
    }
    course.audits_differing = simulation.decisions_audit().differing;
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
