//! Counters of attempts, bindings and events.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_framework::Time;

use super::Stopwatch;
use super::event_label::EventLabel;
use super::groups::{GroupCounts, GroupPreemptionResult, Preemptor};
use super::histogram::Histogram;
use super::inventory;
use super::meter::{CycleMeter, Lap, MeteredPoint, Status, Watch};
use super::phases::{Phases, Went};
use crate::profile::{PluginIndex, Profile};

/// In one of this many scheduling cycles single plugins are measured. As in scheduler.go,
/// pluginMetricsSamplePercent, but every tenth cycle instead of a random one in ten.
pub(super) const SAMPLED: usize = 10;

/// The label `attempts` has values up to this, and then `15+`. As in schedule_one.go, getAttemptsLabel.
pub(super) const MOST_ATTEMPTS: usize = 15;

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl AttemptResult {
    /// All of them, in their order.
    pub(super) const ALL: [AttemptResult; 3] =
        [AttemptResult::Scheduled, AttemptResult::Unschedulable, AttemptResult::Error];

    /// The value of the label `result`. As in metrics/profile_metrics.go.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            AttemptResult::Scheduled => "scheduled",
            AttemptResult::Unschedulable => "unschedulable",
            AttemptResult::Error => "error",
        }
    }
}

/// The outcome of the cycle of a group of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupAttemptResult {
    Scheduled,
    Unschedulable,
    WaitingOnPreemption,
    Error,
}

impl GroupAttemptResult {
    /// All of them, in their order.
    pub(super) const ALL: [GroupAttemptResult; 4] = [
        GroupAttemptResult::Scheduled,
        GroupAttemptResult::Unschedulable,
        GroupAttemptResult::WaitingOnPreemption,
        GroupAttemptResult::Error,
    ];

    /// The value of the label `result`. As in metrics.go.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            GroupAttemptResult::Scheduled => "scheduled",
            GroupAttemptResult::Unschedulable => "unschedulable",
            GroupAttemptResult::WaitingOnPreemption => "waiting_on_preemption",
            GroupAttemptResult::Error => "error",
        }
    }
}

/// The source of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecisionSource {
    Memory,
    Scratch,
}

impl DecisionSource {
    /// All of them, in their order.
    pub(super) const ALL: [DecisionSource; 2] = [DecisionSource::Memory, DecisionSource::Scratch];

    /// The value of the label `source`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            DecisionSource::Memory => "memory",
            DecisionSource::Scratch => "scratch",
        }
    }
}

/// The counters of one profile.
#[derive(Clone, Debug)]
pub(super) struct OfProfile {
    pub(super) attempts: [u64; 3],
    pub(super) took: [Histogram; 3],
    /// The same of groups of pods.
    pub(super) groups: [u64; 4],
    pub(super) groups_took: [Option<Box<Histogram>>; 4],
    /// How long extension points took; a histogram for each observed status.
    pub(super) stages: [[Option<Box<Histogram>>; Status::COUNT]; MeteredPoint::COUNT],
    pub(super) evaluations: BTreeMap<(&'static str, MeteredPoint), u64>,
    /// The same for decisions from memory.
    pub(super) remembered: Evaluations,
    /// Successful phases of decisions from memory within the first bucket, as almost all are.
    pub(super) swift: [Swift; Phases::COUNT],
}

/// How often the plugins of a profile were called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evaluations(Vec<[u64; Phases::COUNT]>);

impl Evaluations {
    /// Adds calls of a plugin.
    pub(super) fn add(&mut self, plugin: PluginIndex, phase: MeteredPoint, times: u64) {
        if self.0.len() <= plugin {
            self.0.resize(plugin + 1, [0; Phases::COUNT]);
        }
        self.0[plugin][phase as usize] += times;
    }

    /// How often a plugin was called.
    pub(super) fn of(&self, plugin: PluginIndex, phase: MeteredPoint) -> u64 {
        self.0.get(plugin).map_or(0, |asked| asked[phase as usize])
    }
}

/// The number of durations in one bucket, and their sum in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Swift {
    pub(super) count: u64,
    pub(super) nanos: u64,
}

/// The first bound of [`inventory::EXTENSION_POINT_BUCKETS`].
const SWIFT: Duration = Duration::from_micros(100);

impl OfProfile {
    fn new() -> Self {
        OfProfile {
            attempts: [0; 3],
            took: [(); 3].map(|()| Histogram::new(inventory::ATTEMPT_BUCKETS)),
            groups: [0; 4],
            groups_took: Default::default(),
            stages: Default::default(),
            evaluations: BTreeMap::new(),
            remembered: Evaluations::default(),
            swift: Default::default(),
        }
    }

    /// The durations of an extension point with this status, if there were any.
    pub(super) fn stage(&self, stage: MeteredPoint, status: Status) -> Option<Histogram> {
        let took = self.stages[stage as usize][status as usize].as_deref();
        let swift = self.swift.get(stage as usize).filter(|_| status == Status::Success);
        let Some(swift) = swift.filter(|swift| 0 < swift.count) else { return took.cloned() };
        let mut all = took.cloned();
        let all_of = || Histogram::new(inventory::EXTENSION_POINT_BUCKETS);
        all.get_or_insert_with(all_of).add_to_first(swift.count, Duration::from_nanos(swift.nanos));
        all
    }
}

/// All counters.
#[derive(Clone, Debug)]
pub(crate) struct SchedulerCounters {
    watch: Watch,
    pub(super) profiles: Vec<OfProfile>,
    pub(super) decisions: [u64; 2],
    pub(super) algorithm: Histogram,
    /// The same of groups of pods.
    pub(super) group_algorithm: Option<Box<Histogram>>,
    /// What else is counted about groups.
    pub(crate) groups: GroupCounts,
    pub(super) plugins: BTreeMap<(&'static str, MeteredPoint, Status), Histogram>,
    pub(super) attempts: Histogram,
    /// By the number of attempts; numbers that did not occur are missing.
    pub(super) sli: [Option<Box<Histogram>>; MOST_ATTEMPTS],
    pub(super) after_flush: u64,
    pub(super) permit_waits: [Option<Box<Histogram>>; Status::COUNT],
    pub(super) preemptions: u64,
    pub(super) victims: Histogram,
    /// The durations of successful and of failed evictions.
    pub(super) evictions: [Option<Box<Histogram>>; 2],
    /// The current event, and the measurements of events.
    heard: Option<EventLabel>,
    pub(super) events: BTreeMap<EventLabel, Histogram>,
}

/// A pod that leaves the queue because it is bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundPod {
    pub(crate) attempts: u32,
    /// When it was first ready to be tried.
    pub(crate) first_ready: Option<Time>,
    /// Whether it was tried only because of a flush.
    pub(crate) flushed: bool,
    /// When the last attempt began.
    pub(crate) began: Lap,
}

impl SchedulerCounters {
    pub(crate) fn new(n_profiles: usize, stopwatch: Option<Stopwatch>) -> Self {
        SchedulerCounters {
            watch: Watch::new(stopwatch),
            profiles: vec![OfProfile::new(); n_profiles],
            decisions: [0; 2],
            algorithm: Histogram::new(inventory::ATTEMPT_BUCKETS),
            group_algorithm: None,
            groups: GroupCounts::default(),
            plugins: BTreeMap::new(),
            attempts: Histogram::new(inventory::ATTEMPTS_BUCKETS),
            sli: Default::default(),
            after_flush: 0,
            permit_waits: Default::default(),
            preemptions: 0,
            victims: Histogram::new(inventory::VICTIMS_BUCKETS),
            evictions: Default::default(),
            heard: None,
            events: BTreeMap::new(),
        }
    }

    /// Counts by `n_profiles` profiles from now on, those so far included.
    pub(crate) fn count_profiles(&mut self, n_profiles: usize) {
        while self.profiles.len() < n_profiles {
            self.profiles.push(OfProfile::new());
        }
    }

    /// Counts what was counted by the index of a plugin by its name: the indices change with the profile.
    pub(crate) fn forget_indices(&mut self, profile: &Profile) {
        let counts = &mut self.profiles[profile.index];
        let remembered = std::mem::take(&mut counts.remembered);
        for (index, plugin) in profile.plugins().iter().enumerate() {
            for &phase in MeteredPoint::ALL.iter().take(Phases::COUNT) {
                let times = remembered.of(index, phase);
                if times != 0 {
                    *counts.evaluations.entry((plugin.name, phase)).or_default() += times;
                }
            }
        }
    }

    /// Starts a measurement.
    pub(crate) fn start(&self) -> Lap {
        self.watch.start()
    }

    /// The meter of the next cycle from scratch.
    pub(crate) fn meter(&self) -> CycleMeter {
        CycleMeter::new(self.watch, self.samples(DecisionSource::Scratch))
    }

    /// The phases of the next decision from memory, which began at `lap`.
    pub(crate) fn phases(&self, lap: Lap) -> Phases {
        Phases::new(self.watch, lap)
    }

    /// Counts a decision from memory, and returns whether to measure its plugins.
    pub(crate) fn remembered(&mut self) -> bool {
        let samples = self.samples(DecisionSource::Memory);
        self.decisions[DecisionSource::Memory as usize] += 1;
        samples
    }

    /// Records the durations of the phases of a decision from memory.
    pub(crate) fn went_through(&mut self, profile: usize, went: &Went, phases: &Phases) {
        for &(phase, status) in went {
            let span = phases.span(phase);
            if status == Status::Success && span <= SWIFT {
                let swift = &mut self.profiles[profile].swift[phase as usize];
                swift.count += 1;
                swift.nanos += u64::from(span.subsec_nanos());
            } else {
                self.took(profile, phase, status, span);
            }
        }
    }

    /// How often plugins were called in decisions from memory.
    pub(crate) fn evaluations(&mut self, profile: usize) -> &mut Evaluations {
        &mut self.profiles[profile].remembered
    }

    /// In how many decisions from memory plugins were measured.
    pub(crate) fn n_sampled(&self) -> u64 {
        self.decisions[DecisionSource::Memory as usize].div_ceil(SAMPLED as u64)
    }

    /// A meter that measures single plugins.
    pub(crate) fn sampling_meter(&self) -> CycleMeter {
        CycleMeter::new(self.watch, true)
    }

    /// Whether plugins are measured in the next decision of a kind.
    fn samples(&self, source: DecisionSource) -> bool {
        self.decisions[source as usize].is_multiple_of(SAMPLED as u64)
    }

    /// Counts a decision from scratch.
    pub(crate) fn decided(&mut self, profile: usize, meter: &mut CycleMeter) {
        self.decisions[DecisionSource::Scratch as usize] += 1;
        self.take_in(profile, meter);
    }

    /// Adds the measurements of a cycle.
    pub(crate) fn take_in(&mut self, profile: usize, meter: &mut CycleMeter) {
        let Some(readings) = meter.readings() else { return };
        for (stage, status, span) in readings.stages {
            self.took(profile, stage, status, span);
        }
        for (plugin, stage, status, span, times) in readings.plugins {
            self.plugin_histogram(plugin, stage, status).observe_times(span.as_secs_f64(), times);
        }
        let evaluations = &mut self.profiles[profile].evaluations;
        for (plugin, stage, times) in readings.evaluations {
            *evaluations.entry((plugin, stage)).or_default() += u64::from(times);
        }
    }

    /// Records the search for a node that began at `lap`.
    pub(crate) fn searched(&mut self, lap: Lap) {
        if let Some(span) = self.watch.since(lap) {
            self.algorithm.observe_span(span);
        }
    }

    /// The same of a group of pods.
    pub(crate) fn group_searched(&mut self, lap: Lap) {
        if let Some(span) = self.watch.since(lap) {
            lazily(&mut self.group_algorithm, inventory::ATTEMPT_BUCKETS).observe_span(span);
        }
    }

    /// Records a placement on which a group of pods was tried from `lap` on.
    pub(crate) fn placement_evaluated(&mut self, profile: usize, is_feasible: bool, lap: Lap) {
        let took = self.watch.since(lap);
        self.groups.evaluated(profile, is_feasible, took);
    }

    /// Records an attempt to make room for a group of pods that began at `lap`.
    pub(crate) fn group_preemption(&mut self, result: GroupPreemptionResult, lap: Lap) {
        let took = self.watch.since(lap);
        self.groups.preemption(result, took);
    }

    /// What the search for nodes for a group of pods counts.
    pub(crate) fn of_groups(&self) -> (GroupCounts, Option<Box<Histogram>>) {
        (self.groups.clone(), self.group_algorithm.clone())
    }

    /// Counts such a search no more, as [`Self::of_groups`] was before it.
    pub(crate) fn reset_groups(&mut self, before: (GroupCounts, Option<Box<Histogram>>)) {
        (self.groups, self.group_algorithm) = before;
    }

    /// Records the cycle of a group of pods that began at `lap`.
    pub(crate) fn group_ended(&mut self, profile: usize, outcome: GroupAttemptResult, lap: Lap) {
        let took = self.watch.since(lap);
        let counts = &mut self.profiles[profile];
        counts.groups[outcome as usize] += 1;
        if let Some(span) = took {
            let took = &mut counts.groups_took[outcome as usize];
            lazily(took, inventory::ATTEMPT_BUCKETS).observe_span(span);
        }
    }

    /// Records an extension point that began at `lap`. Returns its end, which may be the start of the
    /// next one.
    pub(crate) fn stage(
        &mut self,
        profile: usize,
        stage: MeteredPoint,
        status: Status,
        lap: Lap,
    ) -> Lap {
        let now = self.watch.start();
        if let Some(span) = now.after(lap) {
            self.took(profile, stage, status, span);
        }
        now
    }

    /// Records an attempt that began at `lap`.
    pub(crate) fn ended(&mut self, profile: usize, outcome: AttemptResult, lap: Lap) {
        let took = self.watch.since(lap);
        let counts = &mut self.profiles[profile];
        counts.attempts[outcome as usize] += 1;
        if let Some(span) = took {
            counts.took[outcome as usize].observe_span(span);
        }
    }

    /// Counts a bound pod.
    pub(crate) fn bound(&mut self, now: Time, profile: usize, pod: &BoundPod) {
        self.ended(profile, AttemptResult::Scheduled, pod.began);
        self.attempts.observe(f64::from(pod.attempts));
        self.after_flush += u64::from(pod.flushed);
        if let Some(first_ready) = pod.first_ready {
            let at = usize::try_from(pod.attempts).unwrap_or(MOST_ATTEMPTS);
            let sli = &mut self.sli[at.clamp(1, MOST_ATTEMPTS) - 1];
            lazily(sli, inventory::SLI_BUCKETS).observe_span(now.since(first_ready));
        }
    }

    /// Records the end of a wait at Permit.
    pub(crate) fn permit_over(&mut self, status: Status, waited: Duration) {
        let waits = &mut self.permit_waits[status as usize];
        lazily(waits, inventory::ATTEMPT_BUCKETS).observe_span(waited);
    }

    /// Counts a preemption attempt.
    pub(crate) fn preemption(&mut self) {
        self.preemptions += 1;
    }

    /// Records the number of victims of a preemption.
    pub(crate) fn victims(&mut self, n_victims: usize) {
        self.victims.observe(f64::from(u32::try_from(n_victims).unwrap_or(u32::MAX)));
    }

    /// Records the end of the evictions for a pod or a group.
    pub(crate) fn evictions_over(&mut self, preemptor: Preemptor, failed: bool, took: Duration) {
        self.groups.evictions_over(preemptor, failed, took);
        let evictions = &mut self.evictions[usize::from(failed)];
        lazily(evictions, inventory::SLI_BUCKETS).observe_span(took);
    }

    /// Starts the measurement of an event.
    pub(crate) fn event_begins(&mut self) -> Lap {
        self.heard = None;
        self.watch.start()
    }

    /// Sets the label of the current event. If there are several, the first is the cause of the others.
    pub(crate) fn hears(&mut self, event: EventLabel) {
        self.heard.get_or_insert(event);
    }

    /// Ends the measurement of an event.
    pub(crate) fn event_over(&mut self, lap: Lap) {
        let Some(event) = self.heard.take() else { return };
        if let Some(span) = self.watch.since(lap) {
            let events = self.events.entry(event);
            let buckets = inventory::EXTENSION_POINT_BUCKETS;
            events.or_insert_with(|| Histogram::new(buckets)).observe_span(span);
        }
    }

    fn took(&mut self, profile: usize, stage: MeteredPoint, status: Status, span: Duration) {
        let took = &mut self.profiles[profile].stages[stage as usize][status as usize];
        lazily(took, inventory::EXTENSION_POINT_BUCKETS).observe_span(span);
    }

    fn plugin_histogram(
        &mut self,
        plugin: &'static str,
        stage: MeteredPoint,
        status: Status,
    ) -> &mut Histogram {
        let took = self.plugins.entry((plugin, stage, status));
        took.or_insert_with(|| Histogram::new(inventory::PLUGIN_BUCKETS))
    }
}

fn lazily(histogram: &mut Option<Box<Histogram>>, buckets: super::Buckets) -> &mut Histogram {
    histogram.get_or_insert_with(|| Box::new(Histogram::new(buckets)))
}
