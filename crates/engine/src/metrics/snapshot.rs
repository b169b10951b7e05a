//! A snapshot of all metrics.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::Str;
use plimsoll_framework::metrics::Descriptor;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{GroupForest, GroupRules, Point, Release};

use super::counts::{
    AttemptResult, DecisionSource, GroupAttemptResult, MOST_ATTEMPTS, SchedulerCounters,
};
use super::event_label::EventLabel;
use super::family::{Family, MetricSeries, Value};
use super::groups::{GroupPreemptionResult, Preemptor, ReservationEnd};
use super::histogram::Histogram;
use super::inventory as known;
use super::meter::{MeteredPoint, Status};
use super::queue_counts::QueueCounts;
use crate::queue::QueuePlace;
use crate::scheduler::Scheduler;

/// The types of queued entities: pods that are no members of entries, and groups.
const POD: &str = "pod";
const POD_GROUP: &str = "podgroup";
/// The queues of pods, as metrics know them. Since 1.37 pods whose groups are not known are in none of the first four.
const PLACES: [&str; 5] = ["active", "backoff", "unschedulable", "gated", "incomplete"];
const GATED: usize = 3;
const INCOMPLETE: usize = 4;
/// Pods that wait for the end of the cycle of their group. A cycle ends within a step, so there are none.
const PENDING: &str = "pending";

impl Scheduler {
    /// All metrics with values, by name, and then those of plugins. This iterates over all pending pods.
    pub fn metrics(&self) -> Vec<Family> {
        let mut book = Book { release: self.options.release, families: BTreeMap::new() };
        self.attempts(&mut book);
        self.stages(&mut book);
        self.queued(&mut book);
        if self.options.gates.groups.generic_workload {
            self.of_groups(&mut book);
        }
        let audit = self.audit();
        book.number(&known::AUDITED, &[], audit.audited);
        book.number(&known::DIFFERING, &[], audit.differing);
        for (kind, count) in [("nodes", 0), ("pods", 1), ("assumed_pods", 2)] {
            book.number(&known::CACHE_SIZE, &[kind], as_u64(self.cache.sizes()[count]));
        }
        // kube-scheduler has a goroutine for each pod that is being bound.
        book.number(&known::GOROUTINES, &["binding"], as_u64(self.bindings.len()));
        let mut families: Vec<_> = book.families.into_values().collect();
        families.extend(self.plugin_metrics.families());
        families
    }

    /// Resets the metrics.
    pub fn reset_metrics(&mut self) {
        let stopwatch = self.options.stopwatch;
        self.counts = SchedulerCounters::new(self.profiles.names().len(), stopwatch);
        self.queue.counts = QueueCounts::new(stopwatch);
        self.plugin_metrics.reset();
    }

    fn attempts(&self, book: &mut Book) {
        let counts = &self.counts;
        for source in DecisionSource::ALL {
            let count = counts.decisions[source as usize];
            book.number(&known::DECISIONS, &[source.as_str()], count);
        }
        for (profile, counts) in self.profiles.names().iter().zip(&counts.profiles) {
            for outcome in AttemptResult::ALL {
                let labels = [outcome.as_str(), profile];
                book.counted(&known::SCHEDULE_ATTEMPTS, &labels, counts.attempts[outcome as usize]);
                book.measured(&known::ATTEMPT_TOOK, &labels, &counts.took[outcome as usize]);
            }
        }
        for (profile, counts) in self.profiles.names().iter().zip(&counts.profiles) {
            for outcome in GroupAttemptResult::ALL {
                let labels = [outcome.as_str(), profile];
                book.counted(&known::GROUP_ATTEMPTS, &labels, counts.groups[outcome as usize]);
                if let Some(took) = &counts.groups_took[outcome as usize] {
                    book.histogram(&known::GROUP_ATTEMPT_TOOK, &labels, took);
                }
            }
        }
        if let Some(took) = &counts.group_algorithm {
            book.histogram(&known::GROUP_ALGORITHM, &[], took);
        }
        book.histogram(&known::ALGORITHM, &[], &counts.algorithm);
        book.histogram(&known::ATTEMPTS, &[], &counts.attempts);
        book.number(&known::AFTER_FLUSH, &[], counts.after_flush);
        for (i, sli) in counts.sli.iter().enumerate() {
            let Some(sli) = sli else { continue };
            let more = if i + 1 == MOST_ATTEMPTS { "+" } else { "" };
            book.histogram(&known::SLI, &[&format!("{}{more}", i + 1)], sli);
        }
        book.number(&known::PREEMPTION_ATTEMPTS, &[], counts.preemptions);
        book.histogram(&known::VICTIMS, &[], &counts.victims);
        for (took, result) in counts.evictions.iter().zip(["success", "error"]) {
            let Some(took) = took else { continue };
            book.histogram(&known::EVICTIONS_TOOK, &[result], took);
            book.number(&known::EVICTIONS, &[result], took.count());
        }
        for (status, waits) in Status::ALL.iter().zip(&counts.permit_waits) {
            let Some(waits) = waits else { continue };
            book.histogram(&known::PERMIT_WAIT, &[status.as_str()], waits);
        }
    }

    fn stages(&self, book: &mut Book) {
        let counts = &self.counts;
        let names = self.profiles.names();
        for (profile, counts) in names.iter().zip(&counts.profiles) {
            for stage in MeteredPoint::ALL {
                for status in Status::ALL {
                    let Some(took) = counts.stage(stage, status) else { continue };
                    let labels = [stage.as_str(), status.as_str(), profile];
                    book.histogram(&known::EXTENSION_POINT, &labels, &took);
                }
            }
        }
        for (profile, status, took) in self.queue.counts.gates() {
            let labels = [MeteredPoint::PreEnqueue.as_str(), status.as_str(), &names[profile]];
            book.histogram(&known::EXTENSION_POINT, &labels, took);
        }
        for (&(plugin, stage, status), took) in &counts.plugins {
            let labels = [plugin, stage.as_str(), status.as_str()];
            book.histogram(&known::PLUGIN_EXECUTION, &labels, took);
        }
        for profile in self.profiles.iter() {
            let counts = &counts.profiles[profile.index];
            for (point, stage) in [
                (Point::PreFilter, MeteredPoint::PreFilter),
                (Point::Filter, MeteredPoint::Filter),
                (Point::PreScore, MeteredPoint::PreScore),
                (Point::Score, MeteredPoint::Score),
            ] {
                for (index, _) in profile.indices(point) {
                    let name = profile.get(index).name;
                    let labels = [name, stage.as_str(), &profile.scheduler_name];
                    let from_scratch = counts.evaluations.get(&(name, stage)).copied();
                    let count = from_scratch.unwrap_or(0) + counts.remembered.of(index, stage);
                    book.number(&known::PLUGIN_EVALUATION, &labels, count);
                }
            }
        }
        for (event, took) in &counts.events {
            book.histogram(&known::EVENT_HANDLING, &[&event.name(book.release)], took);
        }
    }

    fn queued(&self, book: &mut Book) {
        let queue = &self.queue;
        for (queue, event, count) in queue.counts.incoming() {
            let (name, label) = (queue.as_str(), event.name(book.release));
            book.number(&known::INCOMING_PODS, &[name, &label], count);
            let of_pods = count - self.queue.counts.incoming_members(queue, event);
            book.counted(&known::INCOMING_ENTITIES, &[name, &label, POD], of_pods);
        }
        for (queue, event, count) in self.queue.counts.incoming_groups() {
            let labels = [queue.as_str(), &event.name(book.release), POD_GROUP];
            book.number(&known::INCOMING_ENTITIES, &labels, count);
        }
        for (plugin, event, worth, took) in queue.counts.hints.iter() {
            let labels = [plugin, &event.name(book.release), worth.as_str()];
            book.histogram(&known::HINTS, &labels, took);
        }
        let (mut pending, mut alone) = ([0_u64; 5], [0_u64; 5]);
        let mut unschedulable = BTreeMap::<(&str, &str), u64>::new();
        let (mut roots, mut groups) = (BTreeMap::new(), BTreeSet::new());
        let groups_of = self.options.gates.groups;
        let has_entries = groups_of.generic_workload && GroupRules::V1_37 <= groups_of.rules;
        let forest = GroupForest::of(self.cache.view().stores, groups_of);
        for (_, info) in queue.iter_in_any_order() {
            let place = match info.place {
                QueuePlace::Active => 0,
                QueuePlace::Backoff { .. } | QueuePlace::ErrorBackoff { .. } => 1,
                QueuePlace::Unschedulable => 2,
                QueuePlace::Gated { .. } => GATED,
                QueuePlace::InFlight => continue,
            };
            match group_of(&info.pod).filter(|_| has_entries) {
                None => {
                    pending[place] += 1;
                    alone[place] += 1;
                }
                Some(leaf) => {
                    let root = roots.entry(leaf).or_insert_with_key(|leaf| forest.root(leaf).ok());
                    let place = if root.is_some() { place } else { INCOMPLETE };
                    pending[place] += 1;
                    groups.extend(root.clone().map(|root| (place, root)));
                }
            }
            for plugin in info.rejectors().filter(|plugin| !plugin.is_empty()) {
                let profile = info.pod.scheduler_name.as_str();
                *unschedulable.entry((plugin, profile)).or_default() += 1;
            }
        }
        for (place, name) in PLACES.into_iter().enumerate() {
            if place == INCOMPLETE && !has_entries {
                continue;
            }
            book.number(&known::PENDING_PODS, &[name], pending[place]);
            if place != INCOMPLETE {
                book.number(&known::QUEUED_ENTITIES, &[name, POD], alone[place]);
            }
            if place != INCOMPLETE && has_entries {
                let count = groups.iter().filter(|(at, _)| *at == place).count();
                book.number(&known::QUEUED_ENTITIES, &[name, POD_GROUP], as_u64(count));
            }
        }
        if has_entries {
            book.number(&known::PENDING_PODS, &[PENDING], 0);
        }
        for ((plugin, profile), count) in unschedulable {
            book.number(&known::UNSCHEDULABLE_PODS, &[plugin, profile], count);
        }
        let (n_pods, events) = queue.in_flight();
        let popped = EventLabel::POD_POPPED.name(book.release);
        book.number(&known::INFLIGHT_EVENTS, &[&popped], as_u64(n_pods));
        let mut kept = BTreeMap::<EventLabel, u64>::new();
        for event in events {
            *kept.entry(event).or_default() += 1;
        }
        for (event, count) in kept {
            book.number(&known::INFLIGHT_EVENTS, &[&event.name(book.release)], count);
        }
    }
}

impl Scheduler {
    /// What is there only with groups of pods.
    fn of_groups(&self, book: &mut Book) {
        let counts = &self.counts.groups;
        if self.options.gates.groups.topology_aware {
            for (profile, counts) in self.profiles.names().iter().zip(&counts.placements) {
                book.number(&known::PLACEMENTS, &[profile], counts.generated);
                let results = [("feasible", counts.feasible), ("infeasible", counts.infeasible)];
                for ((result, count), took) in results.into_iter().zip(&counts.took) {
                    book.counted(&known::PLACEMENT_EVALUATIONS, &[result, profile], count);
                    let Some(took) = took else { continue };
                    book.histogram(&known::PLACEMENT_EVALUATION_TOOK, &[result, profile], took);
                }
            }
        }
        for result in GroupPreemptionResult::ALL {
            let count = counts.preemptions[result as usize];
            book.counted(&known::GROUP_PREEMPTIONS, &[result.as_str()], count);
            if let Some(took) = &counts.searches[result as usize] {
                let labels = [Preemptor::Group.as_str(), result.as_str()];
                book.histogram(&known::PREEMPTION_EVALUATION, &labels, took);
            }
        }
        if let Some(victims) = &counts.victims {
            book.histogram(&known::GROUP_VICTIMS, &[], victims);
        }
        for preemptor in Preemptor::ALL {
            if let Some(disruptions) = &counts.disruptions[preemptor as usize] {
                book.histogram(&known::DISRUPTIONS, &[preemptor.as_str()], disruptions);
            }
            let broken = counts.broken_budgets[preemptor as usize];
            book.counted(&known::BROKEN_BUDGETS, &[preemptor.as_str()], broken);
            let executions = &counts.executions[preemptor as usize];
            for (took, result) in executions.iter().zip(["success", "error"]) {
                let Some(took) = took else { continue };
                let labels = [preemptor.as_str(), result];
                book.histogram(&known::PREEMPTION_EXECUTION, &labels, took);
            }
        }
        if let Some(waited) = &counts.waited {
            book.histogram(&known::GROUPS_WAITED, &[], waited);
        }
        if self.options.reservations.is_some() {
            book.number(&known::BEHIND_RESERVATION, &[], as_u64(self.queue.n_aside()));
            for end in ReservationEnd::ALL {
                let count = counts.reservations[end as usize];
                book.number(&known::RESERVATIONS, &[end.as_str()], count);
            }
        }
        for (reason, count) in self.waits_of_groups() {
            book.number(&known::WAITING_GROUPS, &[reason], count);
        }
    }
}

/// A collection of metrics.
struct Book {
    /// Which metrics exist, and their names.
    release: Release,
    families: BTreeMap<&'static str, Family>,
}

impl Book {
    fn number(&mut self, descriptor: &'static Descriptor, labels: &[&str], number: u64) {
        self.add(descriptor, labels, Value::Number(number));
    }

    /// Adds a number, unless it is 0.
    fn counted(&mut self, descriptor: &'static Descriptor, labels: &[&str], number: u64) {
        if number != 0 {
            self.number(descriptor, labels, number);
        }
    }

    fn histogram(&mut self, descriptor: &'static Descriptor, labels: &[&str], all: &Histogram) {
        self.add(descriptor, labels, Value::Histogram(all.clone()));
    }

    /// Adds a histogram, unless it is empty.
    fn measured(&mut self, descriptor: &'static Descriptor, labels: &[&str], all: &Histogram) {
        if all.count() != 0 {
            self.histogram(descriptor, labels, all);
        }
    }

    fn add(&mut self, descriptor: &'static Descriptor, labels: &[&str], value: Value) {
        let Some(descriptor) = known::as_of(self.release, descriptor) else { return };
        let family = self.families.entry(descriptor.name);
        let family = family.or_insert_with(|| Family { descriptor, series: Vec::new() });
        let labels = labels.iter().map(|&label| Str::from(label)).collect();
        family.series.push(MetricSeries { labels, value });
    }
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
