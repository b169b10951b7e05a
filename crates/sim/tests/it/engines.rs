//! Decisions from remembered results are equal to those from scratch.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_engine::metrics::{Stopwatch, Value};
use plimsoll_engine::{
    Audit, Decision, Detail, Effect, Engine, Gates, Options, Outcome, Profile, Scans, Scheduler,
    TieBreak,
};
use plimsoll_framework::{Release, Time};
use plimsoll_sim::perf::{MeasurementClock, Sizes, Workload, WorkloadGroups};
use plimsoll_sim::{Extent, swarm};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::profiles::{
    CONFIGURATIONS, changed_profiles, configured, gates_for, plain_profiles_of, profiles_for,
    profiles_of, release_of,
};

/// The number of random simulations. Those of `swarm.rs` audit many more.
const SEEDS: u64 = 60;
/// The number of random simulations in which all deciders are asked.
const DECIDER_SEEDS: u64 = 20;
/// The nodes of a cluster in which samples are smaller than it is, although some nodes are not feasible.
const NODES: u32 = 200;
/// The number of random simulations with transactions.
const TRANSACTION_SEEDS: u64 = 20;
/// More decisions than any simulation needs.
const MANY: usize = 20_000;

/// What happens between decisions, and must not matter.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    /// One time in three the engine drops its derived data.
    Forgets,
    /// Every time random changes are made in a transaction, which is rolled back.
    Transactions,
}

/// The writes in the simulation of a seed. In every other one ties are broken at random.
fn written(seed: u64, options: Options, between: Between) -> Vec<(Time, Effect)> {
    written_with(profiles_of(options.release), seed, options, between)
}

fn written_with(
    profiles: Vec<Profile>,
    seed: u64,
    options: Options,
    between: Between,
) -> Vec<(Time, Effect)> {
    let tie_break = if seed.is_multiple_of(2) { TieBreak::First } else { TieBreak::Random };
    let options = Options { audit_every: 0, tie_break, ..options };
    let scheduler = Scheduler::new(profiles, options, seed).expect("there is one");
    let mut simulation = swarm::begin(seed, scheduler, Extent::Placements);
    let mut rng = Pcg64::seed_from_u64(seed);
    for _ in 0..MANY {
        if simulation.advance().is_none() {
            break;
        }
        match between {
            Between::Nothing => {}
            Between::Forgets if rng.random_ratio(1, 3) => simulation.forget_derived(),
            Between::Forgets => {}
            Between::Transactions => {
                assert_eq!(simulation.try_random_transaction(&mut rng), [""; 0], "seed {seed}");
            }
        }
    }
    simulation.take_written()
}

#[test]
fn both_engines_write_the_same_in_random_simulations() {
    let mut n_written = 0;
    for seed in 0..SEEDS {
        let release = release_of(seed);
        let outcome = Options { release, detail: Detail::Outcome, ..Options::default() };
        let reference = Options { engine: Engine::Reference, ..outcome };
        let expected = written(seed, reference, Between::Nothing);
        n_written += expected.len();
        for (detail, between, scans) in [
            (Detail::Outcome, Between::Nothing, Scans::Never),
            (Detail::Outcome, Between::Forgets, Scans::Always),
            (Detail::Outcome, Between::Nothing, Scans::WhereCheaper),
            (Detail::None, Between::Nothing, Scans::Always),
            (Detail::None, Between::Forgets, Scans::Never),
        ] {
            let actual = written(seed, Options { detail, scans, ..outcome }, between);
            let differing = actual.iter().zip(&expected).find(|(one, other)| one != other);
            let lengths = (actual.len(), expected.len());
            assert!(
                differing.is_none() && lengths.0 == lengths.1,
                "seed {seed}, {detail:?}, {between:?}, scans {scans:?}: {differing:?}, \
                 lengths {lengths:?}"
            );
        }
    }
    assert!(1000 < n_written, "hardly anything is written");
}

/// Why the attempts of a random simulation failed, as recorders are shown, and how many there were.
fn rejections(seed: u64, options: Options) -> Vec<String> {
    let options = Options { audit_every: 0, detail: Detail::Outcome, ..options };
    let scheduler = Scheduler::new(profiles_of(options.release), options, seed);
    let mut simulation = swarm::begin(seed, scheduler.expect("there is one"), Extent::Placements);
    let mut all = Vec::new();
    for _ in 0..MANY {
        let Some(decisions) = simulation.advance() else { break };
        for Decision { pod, attempt, context, .. } in decisions {
            let Some(context) = context else { continue };
            all.push(format!("{pod} {attempt} {:?} {:?}", context.rejectors, context.rejections));
        }
    }
    all
}

#[test]
fn both_engines_count_the_same_reasons() {
    let mut n_counted = 0;
    for seed in 0..SEEDS / 2 {
        let outcome = Options { release: release_of(seed), ..Options::default() };
        let expected = rejections(seed, Options { engine: Engine::Reference, ..outcome });
        n_counted += expected.iter().filter(|one| one.contains("nodes: ")).count();
        for scans in [Scans::Never, Scans::Always] {
            let actual = rejections(seed, Options { scans, ..outcome });
            let differing = actual.iter().zip(&expected).find(|(one, other)| one != other);
            assert_eq!(differing, None, "seed {seed}, scans {scans:?}");
            assert_eq!(actual.len(), expected.len(), "seed {seed}, scans {scans:?}");
        }
    }
    assert!(300 < n_counted, "hardly anything is rejected: {n_counted}");
}

#[test]
fn transactions_that_are_rolled_back_leave_no_trace() {
    let default: &dyn Fn(Release) -> Vec<Profile> = &profiles_of;
    let others = CONFIGURATIONS.map(|text| move |release| configured(text, release));
    let others = others.iter().map(|profiles| profiles as &dyn Fn(Release) -> Vec<Profile>);
    let mut n_written = 0;
    for (number, profiles) in std::iter::once(default).chain(others).enumerate() {
        for seed in 0..TRANSACTION_SEEDS {
            let release = release_of(seed);
            let outcome = Options { release, detail: Detail::Outcome, ..Options::default() };
            let of = |options, between| written_with(profiles(release), seed, options, between);
            let reference = Options { engine: Engine::Reference, ..outcome };
            let expected = of(reference, Between::Nothing);
            n_written += expected.len();
            for scans in [Scans::Never, Scans::WhereCheaper] {
                let actual = of(Options { scans, ..outcome }, Between::Transactions);
                let differing = actual.iter().zip(&expected).find(|(one, other)| one != other);
                assert!(
                    differing.is_none() && actual.len() == expected.len(),
                    "profiles {number}, seed {seed}, scans {scans:?}: {differing:?}"
                );
            }
        }
    }
    assert!(1000 < n_written, "hardly anything is written");
}

#[test]
fn both_engines_write_the_same_with_other_profiles() {
    let mut n_written = 0;
    for (configuration, number) in CONFIGURATIONS.into_iter().zip(1..) {
        for seed in 0..SEEDS / 2 {
            let release = release_of(seed);
            let outcome = Options { release, detail: Detail::Outcome, ..Options::default() };
            let profiles = || configured(configuration, release);
            let reference = Options { engine: Engine::Reference, ..outcome };
            let expected = written_with(profiles(), seed, reference, Between::Nothing);
            n_written += expected.len();
            for (detail, between, scans) in [
                (Detail::Outcome, Between::Nothing, Scans::Never),
                (Detail::None, Between::Forgets, Scans::Always),
            ] {
                let options = Options { detail, scans, ..outcome };
                let actual = written_with(profiles(), seed, options, between);
                let differing = actual.iter().zip(&expected).find(|(one, other)| one != other);
                let lengths = (actual.len(), expected.len());
                assert!(
                    differing.is_none() && lengths.0 == lengths.1,
                    "configuration {number}, seed {seed}, scans {scans:?}: {differing:?}, \
                     lengths {lengths:?}"
                );
            }
        }
    }
    assert!(1000 < n_written, "hardly anything is written");
}

#[test]
fn plugins_decide_alike_without_what_makes_them_fast() {
    let mut n_written = 0;
    for seed in 0..SEEDS {
        let release = release_of(seed);
        for scans in [Scans::Never, Scans::Always] {
            let options = Options { release, scans, detail: Detail::Outcome, ..Options::default() };
            let plain = plain_profiles_of(release);
            let expected = written_with(plain, seed, options, Between::Nothing);
            let actual = written(seed, options, Between::Nothing);
            n_written += expected.len();
            let differing = actual.iter().zip(&expected).find(|(one, other)| one != other);
            assert!(
                differing.is_none() && actual.len() == expected.len(),
                "seed {seed}, scans {scans:?}: {differing:?}"
            );
        }
    }
    assert!(1000 < n_written, "hardly anything is written");
}

/// Decides every pending pod of a simulation from scratch, from memory and by a scan before each step, with the same random
/// numbers. Returns what was compared, and in how many attempts a node was found before all were judged. There are
/// `n_nodes` nodes at the beginning; `None` for a few.
fn compare_deciders(
    profiles: Vec<Profile>,
    seed: u64,
    detail: Detail,
    n_nodes: Option<u32>,
) -> (Audit, usize) {
    let tie_break = if seed.is_multiple_of(2) { TieBreak::First } else { TieBreak::Random };
    let release = release_of(seed);
    let options = Options { release, tie_break, detail, audit_every: 0, ..Options::default() };
    let scheduler = Scheduler::new(profiles, options, seed).expect("there is one");
    let mut simulation = match n_nodes {
        Some(n_nodes) => swarm::begin_on_nodes(n_nodes, seed, scheduler, Extent::Placements),
        None => swarm::begin(seed, scheduler, Extent::Placements),
    };
    simulation.audit_pending_pods();
    let mut n_sampled = 0;
    // Without decisions that are kept, `advance` goes on to the end.
    for _ in 0..MANY {
        let Some(decisions) = simulation.advance() else { break };
        let n_nodes = simulation.scheduler().view().nodes.len();
        n_sampled += decisions.iter().filter(|decision| is_sampled(decision, n_nodes)).count();
    }
    (simulation.decisions_audit().clone(), n_sampled)
}

/// Whether a node was found among many before all were judged.
fn is_sampled(decision: &Decision, n_nodes: usize) -> bool {
    let judged = decision.context.as_ref().map_or(0, |context| context.judged);
    matches!(decision.outcome, Outcome::Scheduled { .. }) && 1 < judged && judged < n_nodes
}

/// With nominated pods, volumes, extended resources and nodes that change.
#[test]
fn all_deciders_that_accept_a_pod_make_the_same_decision() {
    let default: &dyn Fn(Release) -> Vec<Profile> = &profiles_of;
    let others = CONFIGURATIONS.map(|text| move |release| configured(text, release));
    let others = others.iter().map(|profiles| profiles as &dyn Fn(Release) -> Vec<Profile>);
    let mut n_scanned = 0;
    for (number, profiles) in std::iter::once(default).chain(others).enumerate() {
        let mut whole = Audit::default();
        for seed in 0..DECIDER_SEEDS {
            let detail = if seed.is_multiple_of(3) { Detail::None } else { Detail::Outcome };
            let (audit, _) = compare_deciders(profiles(release_of(seed)), seed, detail, None);
            assert_eq!(audit.differences, [], "profiles {number}, seed {seed}");
            whole.audited += audit.audited;
            whole.remembered += audit.remembered;
            whole.scanned += audit.scanned;
        }
        assert!(500 < whole.remembered, "profiles {number}: {whole:?}");
        n_scanned += whole.scanned;
    }
    assert!(500 < n_scanned, "some profiles can be scanned for");
}

/// The same in clusters so large that a sample is smaller than they are: at least 100 nodes must be feasible before a
/// search may stop.
#[test]
fn all_deciders_that_accept_a_pod_make_the_same_decision_on_a_sample_of_the_nodes() {
    let default = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    // The last one takes the first feasible node, which is a sample of few nodes, too.
    let others = &CONFIGURATIONS[..CONFIGURATIONS.len() - 1];
    let (mut whole, mut n_sampled) = (Audit::default(), 0);
    for (seed, text) in (0..).zip(std::iter::once(&default).chain(others)) {
        let share = match text.contains("percentageOfNodesToScore") {
            true => "",
            false => "percentageOfNodesToScore: 0\n",
        };
        let profiles = configured(&format!("{text}{share}"), release_of(seed));
        let (audit, sampled) = compare_deciders(profiles, seed, Detail::Outcome, Some(NODES));
        assert_eq!(audit.differences, [], "seed {seed}");
        whole.remembered += audit.remembered;
        whole.scanned += audit.scanned;
        n_sampled += sampled;
    }
    assert!(100 < whole.remembered && 0 < whole.scanned, "{whole:?}");
    assert_ne!(n_sampled, 0, "some decisions are about a sample");
}

/// Nobody looks at this clock.
struct StoppedClock;

impl MeasurementClock for StoppedClock {
    fn wall(&self) -> Duration {
        Duration::ZERO
    }

    fn cpu(&self) -> Option<Duration> {
        None
    }
}

/// A stopwatch that stands still.
fn stopped() -> Duration {
    Duration::ZERO
}

/// How often each extension point was observed, by status.
fn phases(scheduler: &Scheduler) -> BTreeMap<Vec<String>, u64> {
    let families = scheduler.metrics();
    let name = "scheduler_framework_extension_point_duration_seconds";
    let family = families.iter().find(|family| family.descriptor.name == name);
    let series = family.into_iter().flat_map(|family| &family.series);
    let counts = series.filter_map(|series| match &series.value {
        Value::Histogram(spans) => {
            let labels = series.labels.iter().map(ToString::to_string).collect();
            Some((labels, spans.count()))
        }
        Value::Number(_) | Value::Float(_) => None,
    });
    counts.collect()
}

/// Places the pods of a workload by the reference and from memory, and checks that both do the same and go
/// through the same phases.
fn place_alike(
    workload: &Workload,
    sizes: Sizes,
    tie_break: TieBreak,
    profiles: &dyn Fn() -> Vec<Profile>,
) {
    let placements = |engine, scans| {
        let stopwatch = Some(stopped as Stopwatch);
        let gates = Gates::of(&gates_for(workload));
        let options = Options { engine, scans, tie_break, gates, ..Options::default() };
        let options = Options { audit_every: 0, stopwatch, ..options };
        let mut scheduler = Scheduler::new(profiles(), options, 1).expect("there is one");
        let measurement = workload.measure(sizes, 1, &mut scheduler, &StoppedClock);
        let (placements, unschedulable) = (measurement.placements, measurement.unschedulable);
        (placements, measurement.total().scheduled, unschedulable, phases(&scheduler))
    };
    let expected = placements(Engine::Reference, Scans::Never);
    for scans in [Scans::WhereCheaper, Scans::Always, Scans::Never] {
        let remembered = placements(Engine::Fast, scans);
        assert_eq!(remembered, expected, "{}, {tie_break:?}, scans {scans:?}", workload.name);
    }
    // There is no storage for its pods.
    let fits_nowhere = workload.name == "StorageUsedUp";
    assert_eq!(expected.1 == 0, fits_nowhere, "whether {} places pods", workload.name);
}

/// Few nodes, initial pods and pods of a workload. Where every node reaches the devices of all pods, these are fewer:
/// from scratch, all of them are looked at for each pod and node.
fn few(workload: &Workload, nodes: u32) -> Sizes {
    if workload.name == "SteadyStateClusterResourceClaimTemplatePartitionable" {
        return Sizes { nodes, init_pods: 5, pods: 15, groups: 0 };
    }
    let groups = if workload.groups == WorkloadGroups::None { 0 } else { 7 };
    Sizes { nodes, init_pods: 40, pods: 250, groups }
}

/// Random simulations have only a few nodes. With more than 64 nodes, host names become a fine topology
/// key.
#[test]
fn both_engines_place_the_pods_of_every_workload_alike_and_go_through_the_same_phases() {
    for workload in Workload::all() {
        let profiles = || profiles_for(&workload);
        place_alike(&workload, few(&workload, 80), TieBreak::First, &profiles);
    }
}

/// With more than 100 nodes a sample is smaller than the cluster.
#[test]
fn both_engines_place_the_pods_of_every_workload_alike_on_a_sample_of_the_nodes() {
    for workload in Workload::all() {
        for tie_break in [TieBreak::First, TieBreak::Random] {
            place_alike(&workload, few(&workload, 150), tie_break, &|| {
                changed_profiles(|spec| spec.percentage_of_nodes_to_score = Some(0))
            });
        }
    }
}

#[test]
fn both_engines_place_the_pods_of_every_workload_alike_with_plugins_of_earlier_releases() {
    for workload in Workload::all() {
        place_alike(&workload, few(&workload, 80), TieBreak::First, &|| {
            configured(CONFIGURATIONS[0], Release::NEWEST)
        });
    }
}

#[test]
fn both_engines_place_the_pods_of_every_workload_alike_if_all_filters_run() {
    for workload in Workload::all() {
        place_alike(&workload, few(&workload, 80), TieBreak::First, &|| {
            changed_profiles(|spec| spec.run_all_filters = true)
        });
    }
}

#[test]
fn both_engines_write_the_same_if_all_filters_run() {
    let mut n_written = 0;
    let profiles = || changed_profiles(|spec| spec.run_all_filters = true);
    for seed in 0..SEEDS {
        let outcome = Options { detail: Detail::Outcome, ..Options::default() };
        let reference = Options { engine: Engine::Reference, ..outcome };
        let expected = written_with(profiles(), seed, reference, Between::Nothing);
        n_written += expected.len();
        for (between, scans) in
            [(Between::Nothing, Scans::Never), (Between::Forgets, Scans::Always)]
        {
            let options = Options { scans, ..outcome };
            let actual = written_with(profiles(), seed, options, between);
            assert!(actual == expected, "seed {seed}, scans {scans:?}");
        }
    }
    assert!(1000 < n_written, "hardly anything is written");
}
