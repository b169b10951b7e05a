//! The scheduling queue: pods ready to be tried, pods in backoff, pods that wait for a change, and
//! pods that a gate keeps out.

mod backoff;
mod early;
mod groups;
mod in_flight;
#[cfg(test)]
mod law;
mod pod;
mod shelves;
mod worth;

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_framework::Rejection;
use plimsoll_framework::events::{self, Object};
use plimsoll_framework::parts::PodReads;
use plimsoll_framework::{Change, ClusterEvent, PodInfo, Resource, SortKey, Time};

pub use self::backoff::Backoff;
use self::groups::{Common, GroupId, Groups, Wait};
use self::in_flight::{InFlight, Kept, Since};
pub(crate) use self::pod::{Attempt, Verdict};
pub use self::pod::{Place, QueuedPodInfo};
pub(crate) use self::shelves::Ready;
use self::shelves::{ActiveKey, Shelves};
use self::worth::Strategy;
pub(crate) use self::worth::{Audience, Surroundings};
use crate::by_pod::ByPod;
use crate::class::{ClassId, Classes, OWN_PARTS};
use crate::metrics::{Bound, EventLabel, Lap, QueueCounts, QueueName, Stopwatch};
use crate::names::PodId;

/// How often pods that wait for a change are looked at for those that wait too long.
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

/// Why a pod is kept out whose victims are being evicted.
const EVICTING: &str = "waiting for the preemption for this pod to be finished";

/// The scheduling queue.
#[derive(Debug)]
pub(crate) struct Queue {
    backoff: Backoff,
    /// How long a pod may wait for a change before it is tried all the same.
    max_wait: Duration,
    pods: ByPod<Entry>,
    shelves: Shelves,
    groups: Groups,
    classes: Classes,
    /// The same, whatever claims pods name.
    likes: Classes,
    in_flight: InFlight,
    /// Pods whose victims are being evicted, with the plugin that wants it: kept out meanwhile.
    held: BTreeMap<PodId, &'static str>,
    arrivals: u64,
    /// How often something was heard of the cluster.
    heard: u64,
    next_flush: Option<Time>,
    pub(crate) counts: QueueCounts,
}

/// A pod of the queue, with where to find it there.
#[derive(Debug)]
struct Entry {
    info: QueuedPodInfo,
    /// Where it stands among the ready ones; follows from the pod and when it was queued.
    sort: SortKey,
    /// Since when it is in flight and hears of what happens.
    hears_since: Option<Since>,
    /// Its group and its place there, while it waits.
    group: Option<(GroupId, usize)>,
    /// The class of pods that most likely fail as it does, if there is one; once it was asked for.
    like: Like,
}

/// The class of pods that most likely fail as one does.
#[derive(Clone, Copy, Debug, Default)]
enum Like {
    /// Nobody has asked for it.
    #[default]
    Unasked,
    /// It is this one; none where nothing can be told of others.
    Is(Option<ClassId>),
}

impl Entry {
    fn active_key(&self) -> ActiveKey {
        (self.sort.clone(), self.info.arrival)
    }
}

impl Queue {
    pub(crate) fn new(backoff: Backoff, max_wait: Duration, stopwatch: Option<Stopwatch>) -> Self {
        Queue {
            backoff,
            max_wait,
            pods: ByPod::default(),
            shelves: Shelves::default(),
            groups: Groups::default(),
            classes: Classes::default(),
            likes: Classes::by(PodReads::all().difference(OWN_PARTS).difference(PodReads::VOLUMES)),
            in_flight: InFlight::default(),
            held: BTreeMap::new(),
            arrivals: 0,
            heard: 0,
            next_flush: None,
            counts: QueueCounts::new(stopwatch),
        }
    }

    /// Something is heard of the cluster: what went wrong before may not go wrong again.
    pub(crate) fn hears(&mut self) {
        self.heard += 1;
    }

    /// Takes in a pod that is new, or what became of one.
    pub(crate) fn set(&mut self, now: Time, id: PodId, pod: PodInfo, with: Surroundings<'_>) {
        match self.pods.has(id) {
            true => self.update(now, id, pod, with),
            false => self.add(now, id, pod, with),
        }
    }

    /// Takes in a pod that is not known.
    fn add(&mut self, now: Time, id: PodId, pod: PodInfo, with: Surroundings<'_>) {
        self.arrivals += 1;
        let info = QueuedPodInfo::new(pod, now, self.arrivals);
        let sort = with.key(&info);
        let entry = Entry { info, sort, hears_since: None, group: None, like: Like::Unasked };
        self.pods.insert(id, entry);
        self.pods[id].info.place = self.gate(id, with).unwrap_or(Place::Active);
        self.came(now, id, EventLabel::PENDING_POD_ADD);
        self.put(id, with);
    }

    /// As in scheduling_queue.go, Update: a pod that is ready or in backoff stays where it is, and one
    /// that waits is tried again if its own change may help.
    fn update(&mut self, now: Time, id: PodId, pod: PodInfo, with: Surroundings<'_>) {
        self.take(id);
        let entry = &mut self.pods[id];
        entry.like = Like::Unasked;
        let before = std::mem::replace(&mut entry.info.pod, pod);
        entry.sort = with.key(&entry.info);
        let action = events::pod_actions(&before, &entry.info.pod);
        let event = ClusterEvent::new(Resource::Pod, action);
        let object = Object::Itself { before: &before };
        let change = Change { event, object, view: with.cache.view() };
        let strategy = match entry.info.place {
            _ if action.is_empty() => Strategy::Skip,
            Place::InFlight => {
                if entry.hears_since.is_some() {
                    self.in_flight.record(Some(id), &change);
                }
                Strategy::Skip
            }
            Place::Active | Place::Backoff { .. } | Place::ErrorBackoff { .. } => Strategy::Skip,
            // A gate reads the pod: it is asked again rather than for a hint.
            Place::Gated { .. } => Strategy::AfterBackoff,
            Place::Unschedulable => with.worth(&entry.info, &change, &mut self.counts.hints),
        };
        let label = EventLabel::of(&change);
        match strategy {
            Strategy::Skip => self.put(id, with),
            strategy => self.requeue(now, id, strategy, label, with),
        }
    }

    /// Takes in what became of a pod in flight that hears of no change of its own.
    pub(crate) fn refresh(&mut self, id: PodId, pod: PodInfo) {
        if let Some(entry) = self.pods.get_mut(id) {
            entry.info.pod = pod;
        }
    }

    /// Forgets a pod.
    pub(crate) fn remove(&mut self, id: PodId) {
        self.held.remove(&id);
        if self.pods.has(id) {
            self.take(id);
            self.leave(id);
        }
    }

    /// The next pod to be tried.
    pub(crate) fn pop(
        &mut self,
        now: Time,
        ready: Ready,
        with: Surroundings<'_>,
    ) -> Option<Attempt> {
        self.tick(now, with);
        let id = self.shelves.first(ready)?;
        self.take(id);
        let entry = &mut self.pods[id];
        entry.hears_since = Some(self.in_flight.begin());
        if entry.info.place != Place::Active {
            self.counts.came(QueueName::Active, EventLabel::POP_FROM_BACKOFF);
        }
        entry.like = Like::Unasked;
        entry.info.begin(self.counts.start());
        entry.info.place = Place::InFlight;
        Some(Attempt { id, pod: entry.info.pod.clone(), number: entry.info.attempts })
    }

    /// The pod needs no further attempt. What metrics say of it.
    pub(crate) fn done(&mut self, id: PodId) -> Option<Bound> {
        let bound = self.pods.get(id)?.info.bound();
        self.take(id);
        self.leave(id);
        Some(bound)
    }

    /// No plugin can reject the pod any more. As in schedule_one.go, bindingCycle: what happens from
    /// now on need not be kept for it, since after an error it is tried again in any case.
    pub(crate) fn permitted(&mut self, id: PodId) {
        let since = self.pods.get_mut(id).and_then(|entry| entry.hears_since.take());
        if let Some(since) = since {
            self.in_flight.forget(since);
        }
    }

    /// A pod that is in flight waits before anything is decided about it: what happens until it is to
    /// [hear](Self::hear) again need not be kept for it.
    pub(crate) fn rest(&mut self, id: PodId) {
        self.permitted(id);
    }

    /// A pod that has rested is decided now: its attempt begins. `None` if it is not there any more.
    pub(crate) fn hear(&mut self, id: PodId, began: Lap) -> Option<()> {
        let entry = self.pods.get_mut(id)?;
        entry.info.began = began;
        entry.hears_since.get_or_insert_with(|| self.in_flight.begin());
        Some(())
    }

    /// The attempt at a pod that is under way, with the pod as it was last seen.
    pub(crate) fn attempt(&self, id: PodId) -> Option<Attempt> {
        let info = self.get(id).filter(|info| info.place == Place::InFlight)?;
        Some(Attempt { id, pod: info.pod.clone(), number: info.attempts })
    }

    /// The attempt of a pod failed. As in scheduling_queue.go, AddUnschedulableIfNotPresent: it hears of
    /// what happened meanwhile, and after an error it is tried again in any case. When the attempt began.
    pub(crate) fn failed(
        &mut self,
        now: Time,
        id: PodId,
        verdict: Verdict,
        with: Surroundings<'_>,
    ) -> Option<Lap> {
        if !self.pods.has(id) {
            return None;
        }
        self.take(id);
        let entry = &mut self.pods[id];
        let hints = &mut self.counts.hints;
        let since = entry.hears_since.take();
        let heard = since.map_or_else(Vec::new, |since| self.in_flight.end(id, since));
        let info = &mut entry.info;
        info.fail(now, verdict, self.heard);
        entry.sort = with.key(info);
        let worth = |kept: &Kept| with.worth(info, &kept.replay(with.cache), hints);
        let worth = heard.iter().map(worth).max();
        let strategy = match worth {
            _ if info.verdict.is_none() => Strategy::AfterBackoff,
            worth => worth.unwrap_or(Strategy::Skip),
        };
        let began = info.began;
        self.requeue(now, id, strategy, EventLabel::ATTEMPT_FAILURE, with);
        Some(began)
    }

    /// Something happened: pods of the audience for which it may help are tried again. Pods that wait for
    /// the same are asked as one.
    pub(crate) fn on_change(
        &mut self,
        now: Time,
        change: &Change<'_>,
        audience: Audience,
        with: Surroundings<'_>,
    ) {
        self.in_flight.record(None, change);
        self.shelves.changed();
        let label = EventLabel::of(change);
        let hears = |plugin| with.profiles.hears(plugin, change.event);
        for group_id in self.groups.waiting_for(hears) {
            let group = self.groups.get(group_id);
            if group.common.class.is_some() {
                let first = &self.pods[group.pods[0]].info;
                let strategy = with.worth(first, change, &mut self.counts.hints);
                if strategy != Strategy::Skip {
                    self.wake(now, group_id, (strategy, label), audience, with);
                }
                continue;
            }
            for id in group.pods.clone() {
                let info = &self.pods[id].info;
                if !audience.has(id, info) {
                    continue;
                }
                let strategy = with.worth(info, change, &mut self.counts.hints);
                if strategy != Strategy::Skip {
                    self.take(id);
                    self.requeue(now, id, strategy, label, with);
                }
            }
        }
    }

    /// The pods of a group that are of the audience are tried again: all, or all but one.
    fn wake(
        &mut self,
        now: Time,
        group: GroupId,
        (strategy, label): (Strategy, EventLabel),
        audience: Audience,
        with: Surroundings<'_>,
    ) {
        let id = self.groups.get(group).pods[0];
        let first = &self.pods[id].info;
        // Pods of one group have one priority.
        if matches!(audience, Audience::UpTo(_)) && !audience.has(id, first) {
            return;
        }
        let gate = with.gate(&first.pod, &mut self.counts);
        for id in self.groups.take(group).pods {
            self.pods[id].group = None;
            if audience.has(id, &self.pods[id].info) {
                let gate = self.hold_of(id).or_else(|| gate.clone());
                self.requeue_behind(now, id, (strategy, label), gate, with);
            } else {
                self.put(id, with);
            }
        }
    }

    /// Moves pods whose time has come: from backoff to ready, and from waiting too long to either.
    pub(crate) fn tick(&mut self, now: Time, with: Surroundings<'_>) {
        while let Some(id) = self.shelves.backoff_over(now) {
            self.take(id);
            // Its gates were asked when its backoff began.
            self.pods[id].info.place = Place::Active;
            self.came(now, id, EventLabel::BACKOFF_COMPLETE);
            self.put(id, with);
        }
        self.flush(now, with);
    }

    fn flush(&mut self, now: Time, with: Surroundings<'_>) {
        let due = *self.next_flush.get_or_insert(now + FLUSH_INTERVAL);
        if now < due {
            return;
        }
        self.next_flush = Some(now + FLUSH_INTERVAL);
        let stale = |id: &PodId| self.pods[*id].info.queued < now - self.max_wait;
        let stale: Vec<PodId> = self.groups.for_change().filter(stale).collect();
        for id in stale {
            self.take(id);
            self.requeue(now, id, Strategy::AfterBackoff, EventLabel::UNSCHEDULABLE_TIMEOUT, with);
            // As in scheduling_queue.go: a pod that a gate keeps out was not flushed.
            let info = &mut self.pods[id].info;
            info.flushed = !matches!(info.place, Place::Gated { .. });
        }
    }

    /// Whether a pod can be tried now.
    pub(crate) fn has_ready(&self, ready: Ready) -> bool {
        self.shelves.has_ready(ready)
    }

    /// Whether some pod is in backoff after a rejection.
    pub(crate) fn has_backoff(&self) -> bool {
        self.shelves.has_backoff()
    }

    /// Whether some pod is to be tried again after an error that may have been an accident.
    pub(crate) fn mends(&self) -> bool {
        self.shelves.after_errors().any(|id| !self.pods[id].info.errs_in_vain(self.heard))
    }

    /// When the next pod becomes ready by itself; pods that wait for a change do not count.
    pub(crate) fn next_ready(&self) -> Option<Time> {
        self.shelves.next_backoff_over()
    }

    /// When pods that wait for a change are next looked at.
    pub(crate) fn next_flush(&self) -> Option<Time> {
        self.next_flush.filter(|_| self.groups.has_for_change())
    }

    /// The pods of the queue, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &QueuedPodInfo> {
        let mut all: Vec<_> = self.iter_in_any_order().map(|(_, info)| info).collect();
        all.sort_unstable_by(|a, b| a.pod.key.cmp(&b.pod.key));
        all.into_iter()
    }

    /// The pods of the queue, in no particular order.
    pub(crate) fn iter_in_any_order(&self) -> impl Iterator<Item = (PodId, &QueuedPodInfo)> {
        self.pods.iter().map(|(id, entry)| (id, &entry.info))
    }

    /// How many pods are in flight, and which changes are kept for them.
    pub(crate) fn in_flight(&self) -> (usize, impl Iterator<Item = EventLabel>) {
        self.in_flight.kept()
    }

    /// A pod, if it is in the queue.
    pub(crate) fn get(&self, id: PodId) -> Option<&QueuedPodInfo> {
        self.pods.get(id).map(|entry| &entry.info)
    }

    /// Keeps a pod out until its victims have been told to go.
    pub(crate) fn hold(&mut self, id: PodId, plugin: &'static str) {
        self.held.insert(id, plugin);
    }

    /// The victims of a pod have been told to go, or `failed` to be. A pod that was woken meanwhile may
    /// be tried again, once its backoff is over; after a failure also one that was not, since nobody else
    /// might wake it.
    pub(crate) fn release(&mut self, now: Time, id: PodId, failed: bool, with: Surroundings<'_>) {
        let Some(plugin) = self.held.remove(&id) else { return };
        let Some(place) = self.get(id).map(|info| &info.place) else { return };
        let kept_out = matches!(place, Place::Gated { plugin: by, .. } if *by == plugin);
        if kept_out || (failed && *place == Place::Unschedulable) {
            if failed {
                // After an error a pod is not tried before its backoff is over, however idle the scheduler is.
                self.pods[id].info.verdict = None;
            }
            self.wake_one(now, id, with);
        }
    }

    /// A pod that waits for a change is tried again once its backoff is over.
    pub(crate) fn retry(&mut self, now: Time, id: PodId, with: Surroundings<'_>) {
        self.shelves.changed();
        if self.get(id).is_some_and(|info| info.place == Place::Unschedulable) {
            self.wake_one(now, id, with);
        }
    }

    /// An attempt at a pod has failed, and no other node is to be cleared for it: attempts at pods like it
    /// would fail, too.
    pub(crate) fn tried_in_vain(&mut self, id: PodId, with: Surroundings<'_>) {
        let waits = self.get(id).is_some_and(|info| info.place == Place::Unschedulable);
        if let Some(like) = waits.then(|| self.like(id, with)).flatten() {
            self.shelves.tried_in_vain(like);
        }
    }

    fn wake_one(&mut self, now: Time, id: PodId, with: Surroundings<'_>) {
        self.take(id);
        self.requeue(now, id, Strategy::AfterBackoff, EventLabel::FORCE_ACTIVATE, with);
    }

    fn requeue(
        &mut self,
        now: Time,
        id: PodId,
        strategy: Strategy,
        label: EventLabel,
        with: Surroundings<'_>,
    ) {
        let gate = match strategy {
            Strategy::Skip => None,
            _ => self.gate(id, with),
        };
        self.requeue_behind(now, id, (strategy, label), gate, with);
    }

    /// Puts a pod where a change that is worth `strategy` leads it, or behind its gate.
    fn requeue_behind(
        &mut self,
        now: Time,
        id: PodId,
        (strategy, label): (Strategy, EventLabel),
        gate: Option<Place>,
        with: Surroundings<'_>,
    ) {
        let info = &mut self.pods[id].info;
        let until = self.backoff.end(info.queued, info.failures()).filter(|until| now < *until);
        let waited = matches!(info.place, Place::Unschedulable | Place::Gated { .. });
        info.place = match (strategy, until, gate) {
            (Strategy::Skip, ..) => Place::Unschedulable,
            (_, _, Some(gate)) => gate,
            (Strategy::AfterBackoff, Some(until), None) => match info.verdict {
                None => Place::ErrorBackoff { until },
                Some(_) => Place::Backoff { until },
            },
            (Strategy::AfterBackoff, None, None) | (Strategy::Immediately, _, None) => {
                Place::Active
            }
        };
        if !(waited && matches!(info.place, Place::Unschedulable | Place::Gated { .. })) {
            self.came(now, id, label);
        }
        self.put(id, with);
    }

    /// A pod comes to the place that it says. As in unschedulable_pods.go, for metrics pods that wait
    /// for a change and gated ones are in one queue.
    fn came(&mut self, now: Time, id: PodId, label: EventLabel) {
        let info = &mut self.pods[id].info;
        let queue = match info.place {
            Place::Active => QueueName::Active,
            Place::Backoff { .. } | Place::ErrorBackoff { .. } => QueueName::Backoff,
            Place::Unschedulable | Place::Gated { .. } => QueueName::Unschedulable,
            Place::InFlight => return,
        };
        if queue == QueueName::Active {
            info.first_ready.get_or_insert(now);
        }
        self.counts.came(queue, label);
    }

    fn gate(&mut self, id: PodId, with: Surroundings<'_>) -> Option<Place> {
        self.hold_of(id).or_else(|| with.gate(&self.pods[id].info.pod, &mut self.counts))
    }

    /// Where a pod is kept whose victims are being evicted.
    fn hold_of(&self, id: PodId) -> Option<Place> {
        let plugin = self.held.get(&id)?;
        Some(Place::Gated { plugin, why: Rejection::unresolvable(EVICTING) })
    }

    /// Puts a pod onto the shelf or into the group that its place says.
    fn put(&mut self, id: PodId, with: Surroundings<'_>) {
        let entry = &self.pods[id];
        let wait = match entry.info.place {
            Place::Unschedulable => Wait::Change(entry.info.verdict.clone().unwrap_or_default()),
            Place::Gated { plugin, .. } => Wait::Gate(plugin),
            Place::Backoff { .. } => {
                let like = self.like(id, with);
                let entry = &self.pods[id];
                return self.shelves.put(&entry.info.place, entry.active_key(), like, id);
            }
            _ => return self.shelves.put(&entry.info.place, entry.active_key(), None, id),
        };
        let pod = &entry.info.pod;
        let class = with.asks_as_one(pod, &wait).then(|| self.classes.intern(pod));
        self.pods[id].group = Some(self.groups.insert(Common { class, wait }, id));
    }

    /// The class of pods that most likely fail as this one did: they differ from it in nothing but what is
    /// their own, or the claims that they name.
    fn like(&mut self, id: PodId, with: Surroundings<'_>) -> Option<ClassId> {
        let entry = &mut self.pods[id];
        if let Like::Is(class) = entry.like {
            return class;
        }
        let (pod, verdict) = (&entry.info.pod, entry.info.verdict.as_ref());
        let fail_alike = verdict.is_some_and(|verdict| with.fail_alike(pod, verdict));
        let class = fail_alike.then(|| self.likes.intern(pod));
        entry.like = Like::Is(class);
        class
    }

    /// Takes a pod from where it is.
    fn take(&mut self, id: PodId) {
        let entry = &mut self.pods[id];
        match entry.group.take() {
            None => {
                let class = match entry.like {
                    Like::Is(class) => class,
                    Like::Unasked => None,
                };
                self.shelves.take(&entry.info.place, entry.active_key(), class);
            }
            Some((group, at)) => {
                if let Some(moved) = self.groups.remove(group, at) {
                    self.pods[moved].group = Some((group, at));
                }
            }
        }
    }

    /// Forgets a pod that was taken from where it was.
    fn leave(&mut self, id: PodId) {
        let since = self.pods.remove(id).and_then(|entry| entry.hears_since);
        if let Some(since) = since {
            self.in_flight.forget(since);
        }
    }
}
