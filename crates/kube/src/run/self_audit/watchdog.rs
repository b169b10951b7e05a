//! The part of the self-audit that runs on the engine's thread, in short slices between two decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use plimsoll_api::{PodKey, Str};
use plimsoll_engine::{Overcommitted, PlacedBy, QueuedPodInfo, Scheduler};
use plimsoll_framework::Time;

use super::SelfAudit;
use super::metrics::{SelfAuditMetrics, index_of, name_of};

/// The longest slice: a decision that waits for it is not noticeably late. A single question may take longer.
const SLICE: Duration = Duration::from_millis(5);

/// After a slice the watchdog rests for at least this many times as long: it takes at most 1 % of a core.
const REST: u32 = 100;

/// The number of nodes that are looked at in one slice.
const NODES: usize = 500;

/// At most this many pods, bindings and nodes are remembered, so that each is logged once. Further ones are counted, but not
/// logged.
const REMEMBERED: usize = 1000;

/// Looks for what is stuck.
#[derive(Debug)]
pub(crate) struct Watchdog {
    settings: SelfAudit,
    metrics: SelfAuditMetrics,
    /// When it looks next.
    next: Time,
    /// The pods that are still to be asked in this round whether they would fit.
    asleep: Vec<PodKey>,
    /// The pods that were woken. One that fails again is not woken again: it fits, but something else than a filter keeps it.
    woken: BTreeSet<PodKey>,
    /// When a decision is audited next.
    next_audit: Time,
    /// The place of the next node.
    node: usize,
    /// The overcommitted nodes of this round, and those of the last one.
    overcommitted: BTreeMap<Str, PlacedBy>,
    overcommitted_before: BTreeMap<Str, PlacedBy>,
    /// The bindings that were logged as overdue.
    overdue: BTreeSet<PodKey>,
}

impl Watchdog {
    /// A watchdog; `None` if there is to be none.
    pub(crate) fn new(settings: SelfAudit, metrics: SelfAuditMetrics) -> Option<Self> {
        settings.is_on().then(|| Watchdog {
            settings,
            metrics,
            next: Time::ZERO,
            asleep: Vec::new(),
            woken: BTreeSet::new(),
            next_audit: Time::ZERO,
            node: 0,
            overcommitted: BTreeMap::new(),
            overcommitted_before: BTreeMap::new(),
            overdue: BTreeSet::new(),
        })
    }

    /// How long until the next look.
    pub(crate) fn rests(&self, now: Time) -> Duration {
        self.next.since(now)
    }

    /// Looks, if it is time.
    pub(crate) fn look(&mut self, now: Time, scheduler: &mut Scheduler) {
        if now < self.next {
            return;
        }
        let begun = Instant::now();
        self.look_at_bindings(now, scheduler);
        self.look_at_nodes(scheduler);
        if self.asleep.is_empty() {
            self.asleep = scheduler.waiting_for_change(now - self.settings.asleep);
            let known = |pod: &PodKey| scheduler.queued_pod(pod).is_some();
            self.woken.retain(known);
        }
        self.audit_decision(now, scheduler);
        while let Some(pod) = self.asleep.pop() {
            self.look_at_pod(now, &pod, scheduler);
            if SLICE <= begun.elapsed() {
                break;
            }
        }
        self.next = now + self.settings.period.max(begun.elapsed() * REST);
    }

    /// Decides the next waiting pod by every decider.
    fn audit_decision(&mut self, now: Time, scheduler: &mut Scheduler) {
        let Some(pod) = self.asleep.last().filter(|_| !self.settings.is_recorded) else { return };
        if now < self.next_audit {
            return;
        }
        let (begun, differing) = (Instant::now(), scheduler.audit().differing);
        if scheduler.audit_pod(pod) {
            self.metrics.checked("decision", 1);
        }
        if differing < scheduler.audit().differing {
            scheduler.forget_derived();
        }
        self.next_audit = now + self.settings.period.max(begun.elapsed() * REST);
    }

    /// Wakes a pod that sleeps although it would fit.
    fn look_at_pod(&mut self, now: Time, pod: &PodKey, scheduler: &mut Scheduler) {
        self.metrics.checked("sleeping_pod", 1);
        let Some(attempts) = scheduler.queued_pod(pod).map(|info| info.attempts) else { return };
        if self.woken.contains(pod) {
            return;
        }
        let Some(node) = scheduler.would_fit(now, pod) else { return };
        self.metrics.sleeping.inc();
        let rejectors: Vec<_> =
            scheduler.queued_pod(pod).into_iter().flat_map(QueuedPodInfo::rejectors).collect();
        let rejectors = rejectors.join(", ");
        if REMEMBERED <= self.woken.len() {
            self.woken.pop_first();
        }
        self.woken.insert(pod.clone());
        if self.settings.is_recorded {
            tracing::error!(
                %pod, %node, attempts, %rejectors,
                "a pod sleeps although it would fit, since no event woke it; a recording is written, so it is tried again \
                 only with the next flush of the queue; please report it with these plugins"
            );
            return;
        }
        scheduler.activate(now, pod);
        tracing::error!(
            %pod, %node, attempts, %rejectors,
            "a pod slept although it would fit, since no event woke it; it is tried again now; please report it with these \
             plugins"
        );
    }

    fn look_at_bindings(&mut self, now: Time, scheduler: &Scheduler) {
        let open = scheduler.open_bindings(now - self.settings.overdue);
        let mut counts = [0; 3];
        for one in &open {
            counts[index_of(one.point)] += 1;
            if REMEMBERED <= self.overdue.len() || !self.overdue.insert(one.pod.clone()) {
                continue;
            }
            tracing::warn!(
                pod = %one.pod, node = %one.node, point = one.point.as_str(), since = ?now.since(one.since),
                "a pod has a node, but its binding hangs; its resources stay reserved until it is bound or its deadline has passed"
            );
        }
        let is_open = |pod: &PodKey| open.iter().any(|one| one.pod == *pod);
        self.overdue.retain(|pod| {
            let goes_on = is_open(pod);
            if !goes_on {
                tracing::info!(%pod, "the binding that hung has ended");
            }
            goes_on
        });
        self.metrics.set_overdue(counts);
    }

    fn look_at_nodes(&mut self, scheduler: &Scheduler) {
        let n_nodes = scheduler.n_nodes();
        let n = NODES.min(n_nodes.saturating_sub(self.node));
        for found in scheduler.overcommitted(self.node, n) {
            self.log_overcommitted(&found);
            self.overcommitted.insert(found.node.clone(), found.cause());
        }
        self.metrics.checked("node", n);
        self.node += n;
        if self.node < n_nodes {
            return;
        }
        self.node = 0;
        for by in [PlacedBy::AnotherScheduler, PlacedBy::Kubelet, PlacedBy::Profile] {
            let n = self.overcommitted.values().filter(|one| **one == by).count();
            self.metrics.set_overcommitted(by, n);
        }
        self.overcommitted_before = std::mem::take(&mut self.overcommitted);
    }

    /// Logs a node when it is overcommitted for the first time.
    fn log_overcommitted(&self, found: &Overcommitted) {
        let cause = found.cause();
        let is_new = self.overcommitted_before.get(&found.node) != Some(&cause);
        if !is_new || REMEMBERED <= self.overcommitted.len() {
            return;
        }
        let Overcommitted { node, resource, requested, allocatable, by } = found;
        let of = |by_whom| by.get(&by_whom).copied().unwrap_or(0);
        tracing::warn!(
            %node, %resource, requested, allocatable,
            by_another_scheduler = of(PlacedBy::AnotherScheduler),
            by_kubelet = of(PlacedBy::Kubelet),
            by_profiles = of(PlacedBy::Profile),
            cause = name_of(cause),
            "a node is overcommitted: its pods request more than it has; no further pod is placed there until pods leave"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_api::{Node, Pod};
    use plimsoll_engine::{Event, Observation, Options, Profile, QueuePlace};
    use plimsoll_framework::FeatureGates;
    use plimsoll_plugins::{default_profile, in_tree};

    use super::*;

    fn scheduler() -> Scheduler {
        let registry = in_tree();
        let catalogue = plimsoll_config::Catalogue::of(&registry, &default_profile());
        let configuration = plimsoll_config::Configuration::default_for(&catalogue);
        let specs = configuration.profile_specs();
        let profiles = Profile::all_of(&specs, &registry, &FeatureGates::default());
        let profiles = profiles.expect("the defaults are valid");
        Scheduler::new(profiles, Options::default(), 0).expect("there is one profile")
    }

    fn node(name: &str, milli_cpu: i64) -> Event {
        let mut node = Node { name: name.into(), ..Node::default() };
        node.allocatable.milli_cpu = milli_cpu;
        node.allocatable.pods = 10;
        Event::Node(Box::new(Observation::Is(node)))
    }

    fn pod(name: &str, milli_cpu: i64, on: Option<&str>, of: &str) -> Event {
        let mut pod = Pod { key: PodKey::new("default", name), ..Pod::default() };
        pod.node_name = on.map(Str::from);
        pod.scheduler_name = of.into();
        pod.requests.milli_cpu = milli_cpu;
        pod.asks.fit.milli_cpu = milli_cpu;
        Event::Pod(Observation::Is(Arc::new(pod)))
    }

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn watchdog() -> (Watchdog, SelfAuditMetrics) {
        let metrics = SelfAuditMetrics::default();
        let watchdog = Watchdog::new(SelfAudit::default(), metrics.clone());
        (watchdog.expect("it is on"), metrics)
    }

    #[test]
    fn nodes_that_others_have_overcommitted_are_counted_until_they_are_not() {
        let (mut watchdog, metrics) = watchdog();
        let mut scheduler = scheduler();
        for event in [
            node("a", 1000),
            node("b", 1000),
            pod("ours", 800, Some("a"), "default-scheduler"),
            pod("theirs", 800, Some("a"), "another"),
        ] {
            scheduler.observe(at(0), event);
        }
        watchdog.look(at(1), &mut scheduler);
        assert_eq!(metrics.overcommitted(PlacedBy::AnotherScheduler), 1);
        assert_eq!(metrics.overcommitted(PlacedBy::Profile), 0);
        scheduler.observe(at(2), Event::pod_gone(PodKey::new("default", "theirs")));
        watchdog.look(at(3), &mut scheduler);
        assert_eq!(metrics.overcommitted(PlacedBy::AnotherScheduler), 1, "it is not time yet");
        watchdog.look(at(5000), &mut scheduler);
        assert_eq!(metrics.overcommitted(PlacedBy::AnotherScheduler), 0);
    }

    #[test]
    fn bindings_that_are_not_answered_are_counted_by_their_point() {
        let (mut watchdog, metrics) = watchdog();
        let mut scheduler = scheduler();
        scheduler.observe(at(0), node("a", 1000));
        scheduler.observe(at(0), pod("p", 100, None, "default-scheduler"));
        scheduler.step(at(0), &mut Vec::new());
        watchdog.look(at(100), &mut scheduler);
        assert_eq!(metrics.overdue(), [0, 0, 0]);
        watchdog.look(at(5000), &mut scheduler);
        assert_eq!(metrics.overdue(), [0, 0, 1]);
        scheduler.observe(at(5001), pod("p", 100, Some("a"), "default-scheduler"));
        scheduler.observe(at(5001), Event::pod_gone(PodKey::new("default", "p")));
        watchdog.look(at(10_000), &mut scheduler);
        assert_eq!(metrics.overdue(), [0, 0, 0]);
    }

    #[test]
    fn a_pod_that_fits_nowhere_sleeps_on() {
        let (mut watchdog, metrics) = watchdog();
        let mut scheduler = scheduler();
        scheduler.observe(at(0), node("a", 1000));
        scheduler.observe(at(0), pod("large", 9000, None, "default-scheduler"));
        scheduler.step(at(0), &mut Vec::new());
        watchdog.look(at(60), &mut scheduler);
        let key = PodKey::new("default", "large");
        let info = scheduler.queued_pod(&key).expect("it is pending");
        assert_eq!(info.place, QueuePlace::Unschedulable);
        assert_eq!(metrics.sleeping.get(), 0);
        assert!(0 < scheduler.audit().audited, "its decision was made twice");
    }
}
