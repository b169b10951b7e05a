//! Compares the queue with a slow, obvious one, which checks each pod individually and searches for the
//! first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use plimsoll_api::{Node, Pod, PodKey};
use plimsoll_framework::events::{self, Object};
use plimsoll_framework::parts::PodReads;
use plimsoll_framework::{Action, Change, ClusterEvent, PodInfo, Release, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::in_flight::KeptChange;
use super::pod::{AttemptVerdict, QueuePlace, QueuedPodInfo};
use super::timing::FLUSH_INTERVAL;
use super::worth::{QueueingStrategy, Surroundings};
use super::{Audience, Backoff, Queue, Ready};
use crate::cache::Cache;
use crate::metrics::{Hints, Lap, QueueCounts};
use crate::names::{PodId, PodNames};
use crate::profiles::Profiles;
use crate::signature;
use crate::tests::lab;

const MAX_WAIT: Duration = Duration::from_mins(5);

/// The slow, obvious queue.
#[derive(Default)]
struct ReferenceQueue {
    pods: BTreeMap<PodKey, QueuedPodInfo>,
    /// The events since each attempt in flight began.
    in_flight: BTreeMap<PodKey, Vec<KeptChange>>,
    arrivals: u64,
    next_flush: Option<Time>,
    /// Pods that failed since the last change, with their rejectors.
    in_vain: Vec<QueuedPodInfo>,
}

impl ReferenceQueue {
    fn set(&mut self, now: Time, pod: PodInfo, with: Surroundings<'_>) {
        let key = pod.key.clone();
        let Some(info) = self.pods.get_mut(&key) else {
            self.arrivals += 1;
            let mut info = QueuedPodInfo::new(pod, now, self.arrivals);
            info.place =
                with.gate(&info.pod, &mut QueueCounts::new(None)).unwrap_or(QueuePlace::Active);
            self.pods.insert(key, info);
            return;
        };
        let before = std::mem::replace(&mut info.pod, pod);
        let action = events::pod_actions(&before, &info.pod);
        if action.is_empty() {
            return;
        }
        let event = ClusterEvent::of::<Pod>(action);
        let object = Object::Itself { before: &before };
        let change = Change { event, object, view: with.cache.view() };
        match info.place {
            QueuePlace::InFlight => {
                if let Some(heard) = self.in_flight.get_mut(&key) {
                    heard.push(KeptChange::new(&change));
                }
            }
            QueuePlace::Gated { .. } => {
                self.requeue(now, &key, QueueingStrategy::AfterBackoff, with);
            }
            QueuePlace::Unschedulable => {
                let strategy = with.worth(info, &change, &mut Hints::default());
                self.requeue(now, &key, strategy, with);
            }
            _ => {}
        }
    }

    fn pop(&mut self, now: Time, with: Surroundings<'_>) -> Option<PodKey> {
        for info in self.pods.values_mut() {
            if let QueuePlace::Backoff { until } | QueuePlace::ErrorBackoff { until } = info.place
                && until <= now
            {
                info.place = QueuePlace::Active;
            }
        }
        let due = *self.next_flush.get_or_insert(now + FLUSH_INTERVAL);
        if due <= now {
            self.next_flush = Some(now + FLUSH_INTERVAL);
            for key in self.keys() {
                let info = &self.pods[&key];
                if info.place == QueuePlace::Unschedulable && info.queued < now - MAX_WAIT {
                    self.requeue(now, &key, QueueingStrategy::AfterBackoff, with);
                }
            }
        }
        let stand = |info: &&mut QueuedPodInfo| (with.key(info), info.arrival);
        let active = self.pods.values_mut().filter(|info| info.place == QueuePlace::Active);
        let first = active.min_by_key(stand).map(|info| info.pod.key.clone());
        let parts = PodReads::all().difference(signature::OWN_PARTS).difference(PodReads::VOLUMES);
        let until = |info: &&mut QueuedPodInfo| match info.place {
            QueuePlace::Backoff { until } => Some(until),
            _ => None,
        };
        let first = first.or_else(|| {
            let in_vain = &self.in_vain;
            let is_like = |info: &QueuedPodInfo| {
                let is_one = |info| fails_alike(info, with);
                let alike =
                    |other: &QueuedPodInfo| signature::are_alike(parts, &other.pod, &info.pod);
                is_one(info) && in_vain.iter().any(|other| is_one(other) && alike(other))
            };
            let backoff = self.pods.values_mut();
            let backoff = backoff.filter(|info| until(info).is_some() && !is_like(info));
            let first = backoff.min_by_key(|info| (until(info), stand(info)));
            first.map(|info| info.pod.key.clone())
        })?;
        let info = self.pods.get_mut(&first).expect("it was just found");
        info.begin(Lap::default());
        info.place = QueuePlace::InFlight;
        self.in_flight.insert(first.clone(), Vec::new());
        Some(first)
    }

    fn failed(&mut self, now: Time, key: &PodKey, verdict: AttemptVerdict, with: Surroundings<'_>) {
        let heard = self.in_flight.remove(key).unwrap_or_default();
        let info = self.pods.get_mut(key).expect("it is in flight");
        info.fail(now, verdict, 0, 0);
        let worth = heard
            .iter()
            .map(|kept| with.worth(info, &kept.replay(with.cache), &mut Hints::default()))
            .max();
        let strategy = match info.verdict {
            None => QueueingStrategy::AfterBackoff,
            Some(_) => worth.unwrap_or(QueueingStrategy::Skip),
        };
        self.requeue(now, key, strategy, with);
    }

    fn on_change(
        &mut self,
        now: Time,
        change: &Change<'_>,
        (audience, names): (Audience, &PodNames),
        with: Surroundings<'_>,
    ) {
        self.in_flight.values_mut().for_each(|heard| heard.push(KeptChange::new(change)));
        self.in_vain.clear();
        for key in self.keys() {
            let info = &self.pods[&key];
            let waits = matches!(info.place, QueuePlace::Unschedulable | QueuePlace::Gated { .. });
            let id = names.find(&key).expect("every pod has a number");
            if waits && audience.has(id, info) {
                match with.worth(info, change, &mut Hints::default()) {
                    QueueingStrategy::Skip => {}
                    strategy => self.requeue(now, &key, strategy, with),
                }
            }
        }
    }

    fn requeue(
        &mut self,
        now: Time,
        key: &PodKey,
        strategy: QueueingStrategy,
        with: Surroundings<'_>,
    ) {
        let info = self.pods.get_mut(key).expect("it is in the queue");
        let until = Backoff::default().end(info.queued, info.failures());
        let gate = with.gate(&info.pod, &mut QueueCounts::new(None));
        info.place = match (strategy, until.filter(|until| now < *until)) {
            (QueueingStrategy::Skip, _) => QueuePlace::Unschedulable,
            _ if gate.is_some() => gate.expect("it is there"),
            (QueueingStrategy::AfterBackoff, Some(until)) if info.verdict.is_none() => {
                QueuePlace::ErrorBackoff { until }
            }
            (QueueingStrategy::AfterBackoff, Some(until)) => QueuePlace::Backoff { until },
            _ => QueuePlace::Active,
        };
    }

    fn keys(&self) -> Vec<PodKey> {
        self.pods.keys().cloned().collect()
    }
}

fn waits(info: &QueuedPodInfo) -> bool {
    info.place == QueuePlace::Unschedulable
}

/// Whether the plugins that rejected a pod would most likely reject all equal pods.
fn fails_alike(info: &QueuedPodInfo, with: Surroundings<'_>) -> bool {
    info.verdict.as_ref().is_some_and(|verdict| with.fail_alike(&info.pod, verdict))
}

/// Both queues, and the cluster.
struct Both {
    names: PodNames,
    fast: Queue,
    slow: ReferenceQueue,
    cache: Cache,
    profiles: Profiles,
    now: Time,
    in_flight: Vec<PodKey>,
    trace: String,
}

impl Both {
    fn new() -> Self {
        let profile = lab::profile("lab", None, |_| true);
        Both {
            names: PodNames::default(),
            fast: Queue::new(Backoff::default(), MAX_WAIT, None),
            slow: ReferenceQueue::default(),
            cache: Cache::default(),
            profiles: Profiles::new(vec![profile], Release::NEWEST).expect("there is one profile"),
            now: Time::ZERO,
            in_flight: Vec::new(),
            trace: String::new(),
        }
    }

    /// Does one random action on both.
    fn act(&mut self, rng: &mut Pcg64) {
        let what = rng.random_range(0..20);
        write!(self.trace, " {what}").expect("text can grow");
        match what {
            0..6 => self.set(random_pod(rng)),
            6..10 => self.pop(),
            10..14 => self.fail(rng),
            14..17 => self.node(rng),
            17 => self.remove(&random_pod(rng).key),
            18 => self.left(rng),
            _ => self.now = self.now + Duration::from_millis(rng.random_range(0..40_000)),
        }
        let state =
            |info: &QueuedPodInfo| (info.pod.key.clone(), info.place.clone(), info.attempts);
        let (fast, slow) = (self.fast.iter().map(state), self.slow.pods.values().map(state));
        assert_eq!(fast.collect::<Vec<_>>(), slow.collect::<Vec<_>>(), "{}", self.trace);
    }

    fn set(&mut self, pod: Pod) {
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        let known = self.names.find(&pod.key);
        let id = known.unwrap_or_else(|| self.names.insert(pod.clone().into()));
        self.fast.set(self.now, id, pod.clone().into(), with);
        self.slow.set(self.now, pod.into(), with);
    }

    fn pop(&mut self) {
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        let fast =
            self.fast.pop(self.now, Ready::Early, with).map(|attempt| attempt.pod.key.clone());
        let slow = self.slow.pop(self.now, with);
        assert_eq!(fast, slow, "{}", self.trace);
        self.in_flight.extend(fast);
    }

    fn fail(&mut self, rng: &mut Pcg64) {
        if self.in_flight.is_empty() {
            return;
        }
        let key = self.in_flight.swap_remove(rng.random_range(0..self.in_flight.len()));
        let id = self.id(&key);
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        match rng.random_range(0..6) {
            0 => {
                self.fast.done(id);
                self.slow.in_flight.remove(&key);
                self.slow.pods.remove(&key);
            }
            1 => {
                self.fast.permitted(id);
                self.slow.in_flight.remove(&key);
                self.in_flight.push(key);
            }
            _ => {
                let verdict = random_verdict(rng);
                self.fast.failed(self.now, id, verdict.clone(), with);
                self.slow.failed(self.now, &key, verdict, with);
                if rng.random_bool(0.5) {
                    self.fast.tried_in_vain(id, with);
                    let info = &self.slow.pods[&key];
                    self.slow.in_vain.extend(waits(info).then(|| info.clone()));
                }
            }
        }
    }

    fn node(&mut self, rng: &mut Pcg64) {
        let (cpu, zone) = (rng.random_range(0..5), rng.random_range(0..3));
        let (cpu, zone) = (format!("cpu={cpu}"), format!("zone={zone}"));
        let guest = format!("guest={}", rng.random_range(0..12));
        let name = format!("n{}", rng.random_range(0..3));
        let node = lab::node(&name, &[&cpu, &zone, &guest]);
        let change = self.cache.set_node(node);
        let action = match change.before {
            None => Action::ADD,
            Some(_) => events::node_actions(change.changed),
        };
        let after = self.cache.row(&name);
        let object = Object::Node { before: change.before.as_deref(), after };
        self.tell(ClusterEvent::of::<Node>(action), object, Audience::All);
    }

    /// Removes a pod from a node.
    fn left(&mut self, rng: &mut Pcg64) {
        let pod = PodInfo::new(random_pod(rng)).placed_on("n0".into());
        let object =
            Object::Assigned { before: Some(&pod), after: None, row: self.cache.row("n0") };
        let id = self.names.find(&pod.key);
        let audience = match (rng.random_range(0..3), id) {
            (1, Some(id)) => Audience::AllBut(id),
            (2, _) => Audience::UpTo(pod.priority),
            _ => Audience::All,
        };
        self.tell(ClusterEvent::of::<Pod>(Action::DELETE), object, audience);
    }

    fn id(&self, key: &PodKey) -> PodId {
        self.names.find(key).expect("it was set before")
    }

    fn tell(&mut self, event: ClusterEvent, object: Object<'_>, audience: Audience) {
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        let change = Change { event, object, view: self.cache.view() };
        self.fast.on_change(self.now, &change, audience, with);
        self.slow.on_change(self.now, &change, (audience, &self.names), with);
    }

    fn remove(&mut self, key: &PodKey) {
        if let Some(id) = self.names.find(key) {
            self.fast.remove(id);
            self.names.forget(id);
        }
        self.slow.pods.remove(key);
        self.slow.in_flight.remove(key);
        self.in_flight.retain(|other| other != key);
    }
}

fn random_pod(rng: &mut Pcg64) -> Pod {
    let name = rng.random_range(0..12).to_string();
    let cpu = format!("cpu={}", rng.random_range(1..4));
    let priority = format!("prio={}", rng.random_range(0..2));
    let mut what = vec![cpu.as_str(), &priority];
    what.extend(["zone=0", "zone=1", "gate=x", "also=n0", "a=b"].get(rng.random_range(0..12)));
    lab::pod(&name, &what)
}

fn random_verdict(rng: &mut Pcg64) -> AttemptVerdict {
    const PLUGINS: [&str; 7] = ["Cpu", "Zone", "Invited", "Also", "Disk", "", "Elsewhere"];
    let mut some = |most: usize| -> BTreeSet<&'static str> {
        let n = rng.random_range(0..=most);
        (0..n).map(|_| PLUGINS[rng.random_range(0..PLUGINS.len())]).collect()
    };
    let rejectors = some(2);
    let pending = some(1).intersection(&rejectors).copied().collect();
    let is_error = rejectors.is_empty();
    AttemptVerdict { rejectors, pending, is_error }
}

#[test]
fn pods_go_in_the_order_of_a_queue_that_asks_every_pod_for_itself() {
    for seed in 0..400 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut both = Both::new();
        both.trace = format!("seed {seed}:");
        for _ in 0..150 {
            both.act(&mut rng);
        }
    }
}

#[test]
fn pods_that_differ_only_in_name_wait_as_one_and_those_that_are_asked_by_name_apart() {
    let mut both = Both::new();
    let rejected = |plugin| AttemptVerdict {
        rejectors: BTreeSet::from([plugin]),
        ..AttemptVerdict::default()
    };
    for i in 0..100 {
        let pod = |kind: &str, what| lab::pod(&format!("{kind}-{i}"), &[what]);
        both.set(pod("small", "cpu=2"));
        both.set(pod("large", "cpu=4"));
        both.pop();
        both.pop();
    }
    let keys: Vec<PodKey> = std::mem::take(&mut both.in_flight);
    let ids: Vec<PodId> = keys.iter().map(|key| both.id(key)).collect();
    let with = Surroundings { profiles: &both.profiles, cache: &both.cache };
    for id in ids {
        both.fast.failed(both.now, id, rejected("Cpu"), with);
    }
    let asked = |queue: &Queue, plugin: &str| {
        let groups = queue.groups.waiting_for(|known| known == plugin);
        let as_one = |id: &usize| queue.groups.get(*id).key.signature.is_some();
        (groups.len(), groups.iter().all(as_one))
    };
    assert_eq!(asked(&both.fast, "Cpu"), (2, true));
    both.set(lab::pod("guest", &["cpu=2"]));
    both.pop();
    let with = Surroundings { profiles: &both.profiles, cache: &both.cache };
    let id = both.id(&PodKey::new("default", "guest"));
    both.fast.failed(both.now, id, rejected("Invited"), with);
    assert_eq!(asked(&both.fast, "Invited"), (1, false));
}
