//! The scheduling queue: pods ready to be tried, pods in backoff, pods that wait for a change, and
//! pods that a gate keeps out.

mod backoff;
mod in_flight;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_api::PodKey;
use plimsoll_framework::events::{self, Object};
use plimsoll_framework::{
    Change, ClusterEvent, Gate, PodInfo, Point, QueuedPod, Rejection, Resource, SortKey, Time,
};

pub use self::backoff::Backoff;
use self::backoff::align;
use self::in_flight::InFlight;
use crate::cache::Cache;
use crate::profile::Profile;
use crate::profiles::Profiles;

/// How often pods that wait for a change are looked at for those that wait too long.
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

/// Why a pod is kept out whose victims are being evicted.
const EVICTING: &str = "waiting for the preemption for this pod to be finished";

/// Where a pod of the queue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Ready to be tried.
    Active,
    /// To be tried when its backoff ends, or earlier if nothing else is ready.
    Backoff {
        /// When it ends.
        until: Time,
    },
    /// As [`Place::Backoff`], after an error; never tried earlier.
    ErrorBackoff {
        /// When it ends.
        until: Time,
    },
    /// Waits for a change that may help.
    Unschedulable,
    /// Kept out.
    Gated {
        /// The plugin that keeps it out.
        plugin: &'static str,
        /// Why.
        why: Rejection,
    },
    /// Being scheduled or bound.
    InFlight,
}

/// A pod of the queue.
#[derive(Clone, Debug)]
pub struct QueuedPodInfo {
    /// The pod.
    pub pod: PodInfo,
    /// Where it is.
    pub place: Place,
    /// How often it was tried.
    pub attempts: u32,
    /// When it came, or came back after its last attempt.
    pub queued: Time,
    /// How often plugins rejected it.
    unschedulable_count: u32,
    /// How many errors it has met in a row.
    consecutive_errors: u32,
    /// The plugins that rejected it last time.
    rejectors: BTreeSet<&'static str>,
    /// Those of them that wait for something outside.
    pending: BTreeSet<&'static str>,
    /// The order of its arrival: of two pods with equal keys the earlier goes first.
    arrival: u64,
}

impl QueuedPodInfo {
    fn failures(&self) -> u32 {
        match self.consecutive_errors {
            0 => self.unschedulable_count,
            errors => errors,
        }
    }
}

/// Why an attempt failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// The plugins that rejected the pod; none after an error.
    pub(crate) rejectors: BTreeSet<&'static str>,
    /// Those of them that wait for something outside.
    pub(crate) pending: BTreeSet<&'static str>,
}

/// What a change means for a pod that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    Skip,
    AfterBackoff,
    Immediately,
}

/// What the queue must know of the rest to work.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) profiles: &'a Profiles,
    pub(crate) cache: &'a Cache,
}

impl Surroundings<'_> {
    fn profile(&self, pod: &PodInfo) -> &Profile {
        self.profiles.get(&pod.scheduler_name).expect("only pods of our profiles are queued")
    }

    fn key(&self, info: &QueuedPodInfo) -> SortKey {
        self.profiles.sort_key(&QueuedPod { pod: &info.pod, queued: info.queued })
    }

    fn gate(&self, pod: &PodInfo) -> Option<Place> {
        self.profile(pod).at(Point::PreEnqueue).find_map(|(plugin, _)| {
            let point = plugin.points.pre_enqueue.as_ref()?;
            match point.pre_enqueue(pod, &self.cache.view()) {
                Gate::Open => None,
                Gate::Closed(why) => Some(Place::Gated { plugin: plugin.name, why }),
            }
        })
    }

    /// Whether a change may open the gate that `plugin` closed.
    fn may_open(
        &self,
        info: &QueuedPodInfo,
        plugin: &'static str,
        change: &Change<'_>,
    ) -> Strategy {
        let gate = BTreeSet::from([plugin]);
        match self.profile(&info.pod).hint(&gate, &info.pod, change).is_empty() {
            true => Strategy::Skip,
            false => Strategy::AfterBackoff,
        }
    }

    /// As in scheduling_queue.go, isPodWorthRequeuing.
    fn strategy(&self, info: &QueuedPodInfo, change: &Change<'_>) -> Strategy {
        if info.rejectors.is_empty() {
            return Strategy::AfterBackoff;
        }
        let helps = self.profile(&info.pod).hint(&info.rejectors, &info.pod, change);
        if helps.iter().any(|plugin| info.pending.contains(*plugin)) {
            Strategy::Immediately
        } else if helps.is_empty() {
            Strategy::Skip
        } else {
            Strategy::AfterBackoff
        }
    }
}

/// Where a pod stands among the ready ones.
type ActiveKey = (SortKey, u64, PodKey);
/// Where a pod stands among those in backoff.
type BackoffKey = (Time, SortKey, u64, PodKey);

/// The scheduling queue.
#[derive(Debug)]
pub(crate) struct Queue {
    backoff: Backoff,
    /// How long a pod may wait for a change before it is tried all the same.
    max_wait: Duration,
    pods: BTreeMap<PodKey, QueuedPodInfo>,
    active: BTreeSet<ActiveKey>,
    backing_off: BTreeSet<BackoffKey>,
    error_backing_off: BTreeSet<BackoffKey>,
    in_flight: InFlight,
    /// Pods whose victims are being evicted, with the plugin that wants it: kept out meanwhile.
    held: BTreeMap<PodKey, &'static str>,
    arrivals: u64,
    next_flush: Option<Time>,
}

impl Queue {
    pub(crate) fn new(backoff: Backoff, max_wait: Duration) -> Self {
        Queue {
            backoff,
            max_wait,
            pods: BTreeMap::new(),
            active: BTreeSet::new(),
            backing_off: BTreeSet::new(),
            error_backing_off: BTreeSet::new(),
            in_flight: InFlight::default(),
            held: BTreeMap::new(),
            arrivals: 0,
            next_flush: None,
        }
    }

    /// Takes in a pod that is new, or what became of one.
    pub(crate) fn set(&mut self, now: Time, pod: PodInfo, with: Surroundings<'_>) {
        if self.pods.contains_key(&pod.key) {
            self.update(now, pod, with);
            return;
        }
        self.arrivals += 1;
        let info = QueuedPodInfo {
            pod,
            place: Place::Unschedulable,
            attempts: 0,
            queued: now,
            unschedulable_count: 0,
            consecutive_errors: 0,
            rejectors: BTreeSet::new(),
            pending: BTreeSet::new(),
            arrival: self.arrivals,
        };
        self.activate(info, with);
    }

    fn update(&mut self, now: Time, pod: PodInfo, with: Surroundings<'_>) {
        let Some(mut info) = self.take(&pod.key, with) else { return };
        let before = std::mem::replace(&mut info.pod, pod);
        let action = events::pod_actions(&before, &info.pod);
        let event = ClusterEvent::new(Resource::Pod, action);
        let object = Object::Itself { before: &before };
        let change = Change { event, object, view: with.cache.view() };
        match info.place {
            Place::InFlight => {
                self.in_flight.record(Some(&info.pod.key), &change);
                self.pods.insert(info.pod.key.clone(), info);
            }
            Place::Active => self.activate(info, with),
            Place::Gated { .. } => self.activate(info, with),
            Place::Unschedulable => {
                let strategy = match action.is_empty() {
                    true => Strategy::Skip,
                    false => with.strategy(&info, &change),
                };
                self.requeue(now, info, strategy, with);
            }
            Place::Backoff { .. } | Place::ErrorBackoff { .. } => {
                let place = info.place.clone();
                self.put(info, place, with);
            }
        }
    }

    /// Forgets a pod; it, if it was in the queue.
    pub(crate) fn remove(&mut self, key: &PodKey, with: Surroundings<'_>) -> Option<QueuedPodInfo> {
        self.in_flight.end(key);
        self.held.remove(key);
        self.take(key, with)
    }

    /// The next pod to be tried. As PopFromBackoffQ has it, one whose backoff has not ended is taken if
    /// nothing else is ready.
    pub(crate) fn pop(&mut self, now: Time, with: Surroundings<'_>) -> Option<QueuedPodInfo> {
        self.tick(now, with);
        let key = match self.active.first() {
            Some((.., key)) => key.clone(),
            None => self.backing_off.first()?.3.clone(),
        };
        let mut info = self.take(&key, with)?;
        info.attempts += 1;
        info.rejectors.clear();
        info.pending.clear();
        info.place = Place::InFlight;
        self.in_flight.begin(key.clone());
        self.pods.insert(key, info.clone());
        Some(info)
    }

    /// The attempt of a pod succeeded.
    pub(crate) fn done(&mut self, key: &PodKey) {
        self.in_flight.end(key);
        self.pods.remove(key);
    }

    /// The attempt of a pod failed. As in scheduling_queue.go, AddUnschedulableIfNotPresent: it hears of
    /// what happened meanwhile, and after an error it is tried again in any case.
    pub(crate) fn failed(
        &mut self,
        now: Time,
        key: &PodKey,
        verdict: Verdict,
        with: Surroundings<'_>,
    ) {
        let heard = self.in_flight.end(key);
        let Some(mut info) = self.pods.remove(key) else { return };
        if verdict.rejectors.is_empty() {
            info.consecutive_errors = info.consecutive_errors.saturating_add(1);
        } else {
            info.unschedulable_count = info.unschedulable_count.saturating_add(1);
            info.consecutive_errors = 0;
        }
        info.rejectors = verdict.rejectors;
        info.pending = verdict.pending;
        info.queued = now;
        let mut strategy = match info.rejectors.is_empty() {
            true => Strategy::AfterBackoff,
            false => Strategy::Skip,
        };
        for kept in &heard {
            match with.strategy(&info, &kept.replay(with.cache)) {
                Strategy::Immediately => strategy = Strategy::Immediately,
                Strategy::AfterBackoff if strategy == Strategy::Skip => {
                    strategy = Strategy::AfterBackoff;
                }
                _ => {}
            }
        }
        self.requeue(now, info, strategy, with);
    }

    /// Something happened: pods for which it may help are tried again. `except` is the pod that caused
    /// it.
    pub(crate) fn on_change(
        &mut self,
        now: Time,
        change: &Change<'_>,
        except: Option<&PodKey>,
        with: Surroundings<'_>,
    ) {
        self.in_flight.record(None, change);
        let waits = |info: &&QueuedPodInfo| {
            matches!(info.place, Place::Unschedulable | Place::Gated { .. })
                && except != Some(&info.pod.key)
        };
        let waiting: Vec<PodKey> =
            self.pods.values().filter(waits).map(|info| info.pod.key.clone()).collect();
        for key in waiting {
            let info = &self.pods[&key];
            let strategy = match info.place {
                Place::Gated { plugin, .. } => with.may_open(info, plugin, change),
                _ => with.strategy(info, change),
            };
            if strategy != Strategy::Skip
                && let Some(info) = self.take(&key, with)
            {
                self.requeue(now, info, strategy, with);
            }
        }
    }

    /// Moves pods whose time has come: from backoff to ready, and from waiting too long to either.
    pub(crate) fn tick(&mut self, now: Time, with: Surroundings<'_>) {
        let window = align(now);
        let ended = |queue: &BTreeSet<BackoffKey>| -> Vec<PodKey> {
            queue.iter().take_while(|key| key.0 <= window).map(|key| key.3.clone()).collect()
        };
        let mut ready = ended(&self.backing_off);
        ready.extend(ended(&self.error_backing_off));
        for key in ready {
            if let Some(info) = self.take(&key, with) {
                self.activate(info, with);
            }
        }
        self.flush(now, with);
    }

    fn flush(&mut self, now: Time, with: Surroundings<'_>) {
        let due = *self.next_flush.get_or_insert(now + FLUSH_INTERVAL);
        if now < due {
            return;
        }
        self.next_flush = Some(now + FLUSH_INTERVAL);
        let too_long = |info: &&QueuedPodInfo| {
            info.place == Place::Unschedulable && self.max_wait < now.since(info.queued)
        };
        let stale: Vec<PodKey> =
            self.pods.values().filter(too_long).map(|info| info.pod.key.clone()).collect();
        for key in stale {
            if let Some(info) = self.take(&key, with) {
                self.requeue(now, info, Strategy::AfterBackoff, with);
            }
        }
    }

    /// Whether a pod can be tried now.
    pub(crate) fn has_ready(&self) -> bool {
        !self.active.is_empty() || !self.backing_off.is_empty()
    }

    /// When the next pod becomes ready by itself; pods that wait for a change do not count.
    pub(crate) fn next_ready(&self) -> Option<Time> {
        self.error_backing_off.first().map(|key| key.0)
    }

    /// When pods that wait for a change are next looked at.
    pub(crate) fn next_flush(&self) -> Option<Time> {
        let waits = self.pods.values().any(|info| info.place == Place::Unschedulable);
        self.next_flush.filter(|_| waits)
    }

    /// The pods of the queue, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &QueuedPodInfo> {
        self.pods.values()
    }

    /// The pod named `key`.
    pub(crate) fn get(&self, key: &PodKey) -> Option<&QueuedPodInfo> {
        self.pods.get(key)
    }

    fn requeue(
        &mut self,
        now: Time,
        info: QueuedPodInfo,
        strategy: Strategy,
        with: Surroundings<'_>,
    ) {
        let until = self.backoff.end(info.queued, info.failures());
        let backs_off = align(now) < until;
        match strategy {
            Strategy::Skip => self.put(info, Place::Unschedulable, with),
            Strategy::AfterBackoff if backs_off => {
                let place = match info.rejectors.is_empty() {
                    true => Place::ErrorBackoff { until },
                    false => Place::Backoff { until },
                };
                let place = self.gate(&info.pod, with).unwrap_or(place);
                self.put(info, place, with);
            }
            Strategy::AfterBackoff | Strategy::Immediately => self.activate(info, with),
        }
    }

    fn activate(&mut self, info: QueuedPodInfo, with: Surroundings<'_>) {
        let place = self.gate(&info.pod, with).unwrap_or(Place::Active);
        self.put(info, place, with);
    }

    /// Keeps a pod out until its victims have been told to go.
    pub(crate) fn hold(&mut self, pod: PodKey, plugin: &'static str) {
        self.held.insert(pod, plugin);
    }

    /// The victims of a pod have been told to go, or `failed` to be: the pod may be tried again. After a
    /// failure it is tried at once, since nobody else might wake it.
    pub(crate) fn release(&mut self, pod: &PodKey, failed: bool, with: Surroundings<'_>) {
        let Some(plugin) = self.held.remove(pod) else { return };
        let Some(info) = self.pods.get(pod) else { return };
        let kept_out = matches!(info.place, Place::Gated { plugin: by, .. } if by == plugin);
        let waits = matches!(info.place, Place::Unschedulable | Place::Backoff { .. });
        if (kept_out || (failed && waits))
            && let Some(info) = self.take(pod, with)
        {
            self.activate(info, with);
        }
    }

    fn gate(&self, pod: &PodInfo, with: Surroundings<'_>) -> Option<Place> {
        let held = self.held.get(&pod.key).map(|&plugin| {
            let why = Rejection::unresolvable(EVICTING);
            Place::Gated { plugin, why }
        });
        held.or_else(|| with.gate(pod))
    }

    fn put(&mut self, mut info: QueuedPodInfo, place: Place, with: Surroundings<'_>) {
        let key = (with.key(&info), info.arrival, info.pod.key.clone());
        match place {
            Place::Active => {
                self.active.insert(key);
            }
            Place::Backoff { until } => {
                self.backing_off.insert((until, key.0, key.1, key.2));
            }
            Place::ErrorBackoff { until } => {
                self.error_backing_off.insert((until, key.0, key.1, key.2));
            }
            Place::Unschedulable | Place::Gated { .. } | Place::InFlight => {}
        }
        info.place = place;
        self.pods.insert(info.pod.key.clone(), info);
    }

    fn take(&mut self, key: &PodKey, with: Surroundings<'_>) -> Option<QueuedPodInfo> {
        let info = self.pods.remove(key)?;
        let at = (with.key(&info), info.arrival, key.clone());
        match info.place {
            Place::Active => {
                self.active.remove(&at);
            }
            Place::Backoff { until } => {
                self.backing_off.remove(&(until, at.0, at.1, at.2));
            }
            Place::ErrorBackoff { until } => {
                self.error_backing_off.remove(&(until, at.0, at.1, at.2));
            }
            Place::Unschedulable | Place::Gated { .. } | Place::InFlight => {}
        }
        Some(info)
    }
}
