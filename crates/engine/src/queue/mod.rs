//! The scheduling queue: pods ready to be tried, pods in backoff, pods that wait for a change, and
//! pods that a gate keeps out.

mod backoff;
mod in_flight;
mod pod;
mod shelves;
mod worth;

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_api::PodKey;
use plimsoll_framework::Rejection;
use plimsoll_framework::events::{self, Object};
use plimsoll_framework::{Change, ClusterEvent, PodInfo, Resource, Time};

pub use self::backoff::Backoff;
use self::in_flight::InFlight;
pub(crate) use self::pod::Verdict;
pub use self::pod::{Place, QueuedPodInfo};
use self::shelves::Shelves;
use self::worth::Strategy;
pub(crate) use self::worth::Surroundings;

/// How often pods that wait for a change are looked at for those that wait too long.
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

/// Why a pod is kept out whose victims are being evicted.
const EVICTING: &str = "waiting for the preemption for this pod to be finished";

/// Which pods a change can help at all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Audience<'a> {
    /// Any.
    All,
    /// Any but the one that caused it.
    AllBut(&'a PodKey),
    /// Those of this priority and lower ones.
    UpTo(i32),
}

impl Audience<'_> {
    fn has(self, info: &QueuedPodInfo) -> bool {
        match self {
            Audience::All => true,
            Audience::AllBut(key) => info.pod.key != *key,
            Audience::UpTo(priority) => info.pod.priority <= priority,
        }
    }
}

/// The scheduling queue.
#[derive(Debug)]
pub(crate) struct Queue {
    backoff: Backoff,
    /// How long a pod may wait for a change before it is tried all the same.
    max_wait: Duration,
    pods: BTreeMap<PodKey, QueuedPodInfo>,
    shelves: Shelves,
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
            shelves: Shelves::default(),
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
        let info = QueuedPodInfo::new(pod, now, self.arrivals);
        self.enter(info, with);
    }

    /// As in scheduling_queue.go, Update: a pod that is ready or in backoff stays where it is, and one
    /// that waits is tried again if its own change may help.
    fn update(&mut self, now: Time, pod: PodInfo, with: Surroundings<'_>) {
        let Some(mut info) = self.take(&pod.key, with) else { return };
        let before = std::mem::replace(&mut info.pod, pod);
        let action = events::pod_actions(&before, &info.pod);
        let event = ClusterEvent::new(Resource::Pod, action);
        let object = Object::Itself { before: &before };
        let change = Change { event, object, view: with.cache.view() };
        let strategy = match info.place {
            _ if action.is_empty() => Strategy::Skip,
            Place::InFlight => {
                self.in_flight.record(Some(&info.pod.key), &change);
                Strategy::Skip
            }
            Place::Active | Place::Backoff { .. } | Place::ErrorBackoff { .. } => Strategy::Skip,
            // A gate reads the pod: it is asked again rather than for a hint.
            Place::Gated { .. } => Strategy::AfterBackoff,
            Place::Unschedulable => with.worth(&info, &change),
        };
        match strategy {
            Strategy::Skip => self.put(info, with),
            strategy => self.requeue(now, info, strategy, with),
        }
    }

    /// Forgets a pod; it, if it was in the queue.
    pub(crate) fn remove(&mut self, key: &PodKey, with: Surroundings<'_>) -> Option<QueuedPodInfo> {
        self.in_flight.forget(key);
        self.held.remove(key);
        self.take(key, with)
    }

    /// The next pod to be tried.
    pub(crate) fn pop(&mut self, now: Time, with: Surroundings<'_>) -> Option<QueuedPodInfo> {
        self.tick(now, with);
        let key = self.shelves.first()?.clone();
        let mut info = self.take(&key, with)?;
        info.begin();
        info.place = Place::InFlight;
        self.in_flight.begin(key);
        self.put(info.clone(), with);
        Some(info)
    }

    /// The attempt of a pod succeeded.
    pub(crate) fn done(&mut self, key: &PodKey) {
        self.in_flight.forget(key);
        self.pods.remove(key);
    }

    /// No plugin can reject the pod any more. As in schedule_one.go, bindingCycle: what happens from
    /// now on need not be kept for it, since after an error it is tried again in any case.
    pub(crate) fn permitted(&mut self, key: &PodKey) {
        self.in_flight.forget(key);
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
        info.fail(now, verdict);
        let worth = heard.iter().map(|kept| with.worth(&info, &kept.replay(with.cache))).max();
        let strategy = match worth {
            _ if info.rejectors.is_empty() => Strategy::AfterBackoff,
            worth => worth.unwrap_or(Strategy::Skip),
        };
        self.requeue(now, info, strategy, with);
    }

    /// Something happened: pods of the audience for which it may help are tried again.
    pub(crate) fn on_change(
        &mut self,
        now: Time,
        change: &Change<'_>,
        audience: Audience<'_>,
        with: Surroundings<'_>,
    ) {
        self.in_flight.record(None, change);
        let hears = |plugin| with.profiles.hears(plugin, change.event);
        for key in self.shelves.waiting_for(hears) {
            let info = &self.pods[&key];
            if !audience.has(info) {
                continue;
            }
            let strategy = with.worth(info, change);
            if strategy != Strategy::Skip
                && let Some(info) = self.take(&key, with)
            {
                self.requeue(now, info, strategy, with);
            }
        }
    }

    /// Moves pods whose time has come: from backoff to ready, and from waiting too long to either.
    pub(crate) fn tick(&mut self, now: Time, with: Surroundings<'_>) {
        for key in self.shelves.backoff_over(now) {
            if let Some(mut info) = self.take(&key, with) {
                // Its gates were asked when its backoff began.
                info.place = Place::Active;
                self.put(info, with);
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
        for key in self.shelves.waiting_since_before(now - self.max_wait) {
            if let Some(info) = self.take(&key, with) {
                self.requeue(now, info, Strategy::AfterBackoff, with);
            }
        }
    }

    /// Whether a pod can be tried now.
    pub(crate) fn has_ready(&self) -> bool {
        self.shelves.has_ready()
    }

    /// When the next pod becomes ready by itself; pods that wait for a change do not count.
    pub(crate) fn next_ready(&self) -> Option<Time> {
        self.shelves.next_backoff_over()
    }

    /// When pods that wait for a change are next looked at.
    pub(crate) fn next_flush(&self) -> Option<Time> {
        self.next_flush.filter(|_| self.shelves.has_unschedulable())
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
        mut info: QueuedPodInfo,
        strategy: Strategy,
        with: Surroundings<'_>,
    ) {
        let until = self.backoff.end(info.queued, info.failures()).filter(|until| now < *until);
        match (strategy, until) {
            (Strategy::Skip, _) => {
                info.place = Place::Unschedulable;
                self.put(info, with);
            }
            (Strategy::AfterBackoff, Some(until)) => {
                let place = match info.rejectors.is_empty() {
                    true => Place::ErrorBackoff { until },
                    false => Place::Backoff { until },
                };
                info.place = self.gate(&info.pod, with).unwrap_or(place);
                self.put(info, with);
            }
            (Strategy::AfterBackoff, None) | (Strategy::Immediately, _) => self.enter(info, with),
        }
    }

    /// A pod becomes ready unless a gate keeps it out.
    fn enter(&mut self, mut info: QueuedPodInfo, with: Surroundings<'_>) {
        info.place = self.gate(&info.pod, with).unwrap_or(Place::Active);
        self.put(info, with);
    }

    /// Keeps a pod out until its victims have been told to go.
    pub(crate) fn hold(&mut self, pod: PodKey, plugin: &'static str) {
        self.held.insert(pod, plugin);
    }

    /// The victims of a pod have been told to go, or `failed` to be. A pod that was woken meanwhile may
    /// be tried again, once its backoff is over; after a failure it is tried at once, since nobody else
    /// might wake it.
    pub(crate) fn release(
        &mut self,
        now: Time,
        pod: &PodKey,
        failed: bool,
        with: Surroundings<'_>,
    ) {
        let Some(plugin) = self.held.remove(pod) else { return };
        let Some(info) = self.pods.get(pod) else { return };
        let kept_out = matches!(info.place, Place::Gated { plugin: by, .. } if by == plugin);
        let waits = matches!(info.place, Place::Unschedulable | Place::Backoff { .. });
        let strategy = match failed {
            true if kept_out || waits => Strategy::Immediately,
            false if kept_out => Strategy::AfterBackoff,
            _ => return,
        };
        if let Some(info) = self.take(pod, with) {
            self.requeue(now, info, strategy, with);
        }
    }

    fn gate(&self, pod: &PodInfo, with: Surroundings<'_>) -> Option<Place> {
        let held = self.held.get(&pod.key).map(|&plugin| {
            let why = Rejection::unresolvable(EVICTING);
            Place::Gated { plugin, why }
        });
        held.or_else(|| with.gate(pod))
    }

    fn put(&mut self, info: QueuedPodInfo, with: Surroundings<'_>) {
        self.shelves.put(&info, with.key(&info));
        self.pods.insert(info.pod.key.clone(), info);
    }

    fn take(&mut self, key: &PodKey, with: Surroundings<'_>) -> Option<QueuedPodInfo> {
        let info = self.pods.remove(key)?;
        self.shelves.take(&info, with.key(&info));
        Some(info)
    }
}
