//! The scheduling queue: pods that are ready, in backoff, waiting for a change, or gated.

mod aside;
mod backoff;
mod early;
mod entries;
mod groups;
mod holds;
mod in_flight;
#[cfg(test)]
mod law;
mod pod;
mod refit;
mod shelves;
mod timing;
mod worth;

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_api::Pod;
use plimsoll_framework::events::{self, Object};
use plimsoll_framework::parts::PodReads;
use plimsoll_framework::{Action, Change, ClusterEvent, PodInfo, SortKey, Time};

pub use self::backoff::Backoff;
pub(crate) use self::entries::CycleEnd;
use self::entries::{EntryId, GroupEntries, Membership};
use self::groups::{GroupId, GroupKey, WaitReason, WaitingGroups};
pub(crate) use self::holds::Hold;
use self::in_flight::{InFlight, KeptChange, Since};
pub(crate) use self::pod::{Attempt, AttemptVerdict};
pub use self::pod::{QueuePlace, QueuedPodInfo};
pub(crate) use self::shelves::Ready;
use self::shelves::{ActiveKey, Shelves, TryEarly};
use self::worth::QueueingStrategy;
pub(crate) use self::worth::{Audience, Surroundings};
use crate::as_they_were::AsTheyWere;
use crate::by_pod::ByPod;
use crate::metrics::{BoundPod, EventLabel, Lap, QueueCounts, QueueName, Stopwatch};
use crate::names::PodId;
use crate::signature::{OWN_PARTS, QueueSignature, QueueSignatures};

/// The scheduling queue.
#[derive(Debug)]
pub(crate) struct Queue {
    backoff: Backoff,
    /// How long a pod may wait for a change before it is tried anyway.
    max_wait: Duration,
    /// Each in a place of its own: all enter and leave, and the values are large.
    pods: ByPod<Box<QueueEntry>>,
    /// The pods of a snapshot that is taken in parts.
    pods_before: AsTheyWere<PodInfo>,
    shelves: Shelves,
    groups: WaitingGroups,
    signatures: QueueSignatures,
    /// The same, ignoring the claims of pods.
    likes: QueueSignatures,
    in_flight: InFlight,
    /// Pods that are held back while their victims are being evicted, with the plugin that requested
    /// it.
    held: BTreeMap<PodId, (&'static str, Hold)>,
    /// The pods that were set aside until the last reservation was over, and how often each had been tried by then.
    readmitted: BTreeMap<PodId, u32>,
    /// Groups as entries; `None` under the rules of 1.36.
    entries: Option<GroupEntries>,
    arrivals: u64,
    /// The number of events of the cluster.
    heard: u64,
    /// The number of changes of the cluster that pods may wait for, and of the pods of groups.
    changed: u64,
    next_flush: Option<Time>,
    /// The [state](Cache::order_revision) of the cluster by which the ready pods are sorted.
    sorted_at: u64,
    pub(crate) counts: QueueCounts,
}

/// A pod of the queue, with its position.
#[derive(Debug)]
struct QueueEntry {
    info: QueuedPodInfo,
    /// Its order among the ready pods, derived from the pod and its time of queueing.
    sort: SortKey,
    /// The start of its attempt in the event log, while it is in flight.
    hears_since: Option<Since>,
    /// Its group and its index there, while it waits.
    group: Option<(GroupId, usize)>,
    /// What it is to its PodGroup, if it is part of an entry.
    member: Option<Membership>,
    /// The signature of pods that most likely fail like this one, once computed.
    like: Like,
}

/// The signature of pods that most likely fail like a given one.
#[derive(Clone, Copy, Debug, Default)]
enum Like {
    /// Not computed yet.
    #[default]
    Unasked,
    /// This signature; `None` if nothing can be concluded about other pods.
    Is(Option<QueueSignature>),
}

impl QueueEntry {
    fn active_key(&self) -> ActiveKey {
        (self.sort.clone(), self.info.arrival)
    }

    /// Whether it is tried before its backoff is over; `like` is the signature of pods that most likely fail like it.
    fn try_early(&self, like: Option<QueueSignature>) -> TryEarly {
        match self.info.pod.scheduling_group {
            None => TryEarly::Unless(like),
            Some(_) => TryEarly::Never,
        }
    }
}

impl Queue {
    pub(crate) fn new(backoff: Backoff, max_wait: Duration, stopwatch: Option<Stopwatch>) -> Self {
        Queue {
            backoff,
            max_wait,
            pods: ByPod::default(),
            pods_before: AsTheyWere::default(),
            shelves: Shelves::default(),
            groups: WaitingGroups::default(),
            signatures: QueueSignatures::default(),
            likes: QueueSignatures::by(
                PodReads::all().difference(OWN_PARTS).difference(PodReads::VOLUMES),
            ),
            in_flight: InFlight::default(),
            held: BTreeMap::new(),
            readmitted: BTreeMap::new(),
            entries: None,
            arrivals: 0,
            heard: 0,
            changed: 0,
            next_flush: None,
            sorted_at: 0,
            counts: QueueCounts::new(stopwatch),
        }
    }

    /// From now on pods can be read as they are at this moment.
    pub(crate) fn begin_to_read(&mut self) {
        self.pods_before.begin();
    }

    /// Pods are no longer read.
    pub(crate) fn end_reading(&mut self) {
        self.pods_before.end();
    }

    /// How many pods are kept because they have changed before they were read.
    #[cfg(test)]
    pub(crate) fn n_kept(&self) -> usize {
        self.pods_before.n_kept()
    }

    /// The pod as it was when [reading began](Self::begin_to_read), if it was in the queue then. Ids are read in their order.
    pub(crate) fn read_pod(&mut self, id: PodId) -> Option<PodInfo> {
        let now = || self.pods.get(id).map(|entry| entry.info.pod.clone());
        self.pods_before.read(id.index(), now)
    }

    /// Records an event of the cluster: what failed before may succeed now.
    pub(crate) fn hears(&mut self) {
        self.heard += 1;
    }

    /// Adds or updates a pod.
    pub(crate) fn set(&mut self, now: Time, id: PodId, pod: PodInfo, with: Surroundings<'_>) {
        match self.pods.has(id) {
            true => self.update(now, id, pod, with),
            false => self.add(now, id, pod, with),
        }
    }

    /// Adds an unknown pod.
    fn add(&mut self, now: Time, id: PodId, pod: PodInfo, with: Surroundings<'_>) {
        self.arrivals += 1;
        let info = QueuedPodInfo::new(pod, now, self.arrivals);
        let sort = with.key(&info);
        let entry = Box::new(QueueEntry {
            info,
            sort,
            hears_since: None,
            group: None,
            member: None,
            like: Like::Unasked,
        });
        self.pods_before.changes(id.index(), || None);
        self.pods.insert(id, entry);
        self.enter(id);
        if self.is_of_entry(id) {
            return self.join(now, id, with);
        }
        self.pods[id].info.place = self.gate(id, with).unwrap_or(QueuePlace::Active);
        self.came(now, id, EventLabel::PENDING_POD_ADD, None);
        self.put(id, with);
    }

    /// As in scheduling_queue.go, Update: a pod that is ready or in backoff stays where it is, and one
    /// that waits is tried again if its own change may help.
    fn update(&mut self, now: Time, id: PodId, pod: PodInfo, with: Surroundings<'_>) {
        self.take(id);
        let entry = &mut self.pods[id];
        entry.like = Like::Unasked;
        let before = std::mem::replace(&mut entry.info.pod, pod);
        self.pods_before.changes(id.index(), || Some(before.clone()));
        self.regroup(id, &before);
        let sort = self.sort_of(&self.pods[id], with);
        let entry = &mut self.pods[id];
        entry.sort = sort;
        let action = events::pod_actions(&before, &entry.info.pod);
        if !(action.is_empty() || action == Action::UPDATE_OTHER)
            && entry.info.pod.scheduling_group.is_some()
        {
            // The others of its group may fit with it now.
            self.changed += 1;
        }
        let event = ClusterEvent::of::<Pod>(action);
        let object = Object::Itself { before: &before };
        let change = Change { event, object, view: with.cache.view() };
        let strategy = match entry.info.place {
            QueuePlace::Unschedulable | QueuePlace::Gated { .. }
                if before.scheduler_name != entry.info.pod.scheduler_name =>
            {
                // Another profile decides it now.
                QueueingStrategy::AfterBackoff
            }
            _ if action.is_empty() => QueueingStrategy::Skip,
            QueuePlace::InFlight => {
                if entry.hears_since.is_some() {
                    self.in_flight.record(Some(id), &change);
                }
                QueueingStrategy::Skip
            }
            QueuePlace::Active | QueuePlace::Backoff { .. } | QueuePlace::ErrorBackoff { .. } => {
                QueueingStrategy::Skip
            }
            // The gate reads the pod, so it is checked again instead of its hint.
            QueuePlace::Gated { .. } => QueueingStrategy::AfterBackoff,
            QueuePlace::Unschedulable => with.worth(&entry.info, &change, &mut self.counts.hints),
        };
        let label = EventLabel::of(&change);
        match strategy {
            QueueingStrategy::Skip => self.put(id, with),
            strategy => self.requeue(now, id, strategy, label, with),
        }
    }

    /// Updates a pod in flight without recording this as an event.
    pub(crate) fn refresh(&mut self, id: PodId, pod: PodInfo) {
        if let Some(entry) = self.pods.get_mut(id) {
            let before = std::mem::replace(&mut entry.info.pod, pod);
            self.pods_before.changes(id.index(), || Some(before.clone()));
            self.regroup(id, &before);
        }
    }

    /// Removes a pod.
    pub(crate) fn remove(&mut self, id: PodId) {
        self.held.remove(&id);
        if self.pods.has(id) {
            self.take(id);
            self.leave(id);
        }
    }

    /// Takes the next pod to try.
    pub(crate) fn pop(
        &mut self,
        now: Time,
        ready: Ready,
        with: Surroundings<'_>,
    ) -> Option<Attempt> {
        self.tick(now, with);
        self.sort_again(with);
        let id = self.shelves.first(ready)?;
        Some(self.begin(id, with))
    }

    /// Sorts the ready pods again if their order depends on something that has changed.
    fn sort_again(&mut self, with: Surroundings<'_>) {
        let at = with.cache.order_revision();
        if std::mem::replace(&mut self.sorted_at, at) == at {
            return;
        }
        for id in self.shelves.active().collect::<Vec<_>>() {
            let key = self.sort_of(&self.pods[id], with);
            if key != self.pods[id].sort {
                self.take(id);
                self.pods[id].sort = key;
                self.put(id, with);
            }
        }
    }

    /// Moves pods that wait, or are in backoff, to those that are ready, unless a gate holds them back. As in
    /// scheduling_queue.go, Activate; a pod in flight is left alone.
    pub(crate) fn activate(&mut self, now: Time, id: PodId, with: Surroundings<'_>) {
        let is_elsewhere = self
            .get(id)
            .is_some_and(|info| !matches!(info.place, QueuePlace::Active | QueuePlace::InFlight));
        if is_elsewhere {
            self.take(id);
            let strategy = QueueingStrategy::Immediately;
            self.requeue(now, id, strategy, EventLabel::FORCE_ACTIVATE, with);
        }
    }

    /// Takes a pod to try with the others of its group, wherever it waits. `None` if it is in flight already, or a gate holds
    /// it back. As in scheduling_queue.go, PopSpecificPod.
    pub(crate) fn pop_member(&mut self, id: PodId, with: Surroundings<'_>) -> Option<Attempt> {
        let place = &self.get(id)?.place;
        let (is_in_flight, is_active) =
            (*place == QueuePlace::InFlight, *place == QueuePlace::Active);
        if is_in_flight || (!is_active && self.gate(id, with).is_some()) {
            return None;
        }
        Some(self.begin(id, with))
    }

    /// Begins an attempt.
    fn begin(&mut self, id: PodId, with: Surroundings<'_>) -> Attempt {
        let attempt = self.begin_member(id, with);
        self.entry_leaves(id, with);
        attempt
    }

    /// The same for a pod of an entry that has left with another pod of it.
    fn begin_member(&mut self, id: PodId, with: Surroundings<'_>) -> Attempt {
        self.take(id);
        if self.pods[id].info.place != QueuePlace::Active {
            let entry = self.entry_of(id, with);
            self.count(QueueName::Active, EventLabel::POP_FROM_BACKOFF, entry);
            self.entry_leaves(id, with);
        }
        let entry = &mut self.pods[id];
        entry.hears_since = Some(self.in_flight.begin());
        entry.like = Like::Unasked;
        entry.info.begin(self.counts.start());
        entry.info.place = QueuePlace::InFlight;
        let attempt = Attempt { id, pod: entry.info.pod.clone(), number: entry.info.attempts };
        self.set_waits(id, false);
        attempt
    }

    /// Removes a pod that needs no further attempt, and returns its data for metrics.
    pub(crate) fn done(&mut self, id: PodId) -> Option<BoundPod> {
        let bound = self.pods.get(id)?.info.bound();
        self.take(id);
        self.leave(id);
        Some(bound)
    }

    /// To be called when no plugin can reject the pod any more. As in schedule_one.go, bindingCycle:
    /// further events need not be kept for it, since after an error it is tried again in any case.
    pub(crate) fn permitted(&mut self, id: PodId) {
        let since = self.pods.get_mut(id).and_then(|entry| entry.hears_since.take());
        if let Some(since) = since {
            self.in_flight.forget(since);
        }
    }

    /// Records that a pod has waited at Permit and was rejected there.
    pub(crate) fn waited_in_vain(&mut self, id: PodId) {
        if let Some(entry) = self.pods.get_mut(id) {
            entry.info.vain_waits = entry.info.vain_waits.saturating_add(1);
        }
    }

    /// Suspends a pod in flight before its decision: events need not be kept for it until it
    /// [resumes](Self::hear).
    pub(crate) fn rest(&mut self, id: PodId) {
        self.permitted(id);
    }

    /// Resumes a suspended pod: its attempt begins now. `None` if it no longer exists.
    pub(crate) fn hear(&mut self, id: PodId, began: Lap) -> Option<()> {
        let entry = self.pods.get_mut(id)?;
        entry.info.began = began;
        entry.hears_since.get_or_insert_with(|| self.in_flight.begin());
        Some(())
    }

    /// The attempt in progress for a pod, with the pod as last observed.
    pub(crate) fn attempt(&self, id: PodId) -> Option<Attempt> {
        let info = self.get(id).filter(|info| info.place == QueuePlace::InFlight)?;
        Some(Attempt { id, pod: info.pod.clone(), number: info.attempts })
    }

    /// Handles a failed attempt of a pod. As in scheduling_queue.go, AddUnschedulableIfNotPresent: it
    /// is checked against the events of the meantime, and after an error it is tried again in any case.
    /// Returns when the attempt began.
    pub(crate) fn failed(
        &mut self,
        now: Time,
        id: PodId,
        verdict: AttemptVerdict,
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
        info.fail(now, verdict, self.heard, self.changed);
        if entry.member.is_some() {
            let began = info.began;
            self.member_failed(now, id, with);
            return Some(began);
        }
        entry.sort = with.key(info);
        let worth = |kept: &KeptChange| with.worth(info, &kept.replay(with.cache), hints);
        let worth = heard.iter().map(worth).max();
        let strategy = match worth {
            // As in scheduling_queue.go, determineSchedulingHintForInFlightPod: a pod of a group waits for no change.
            _ if info.verdict.is_none() || info.pod.scheduling_group.is_some() => {
                QueueingStrategy::AfterBackoff
            }
            worth => worth.unwrap_or(QueueingStrategy::Skip),
        };
        let began = info.began;
        self.requeue(now, id, strategy, EventLabel::ATTEMPT_FAILURE, with);
        Some(began)
    }

    /// Handles a change: wakes pods of the audience that it may help. Pods of one group are checked
    /// once.
    pub(crate) fn on_change(
        &mut self,
        now: Time,
        change: &Change<'_>,
        audience: Audience,
        with: Surroundings<'_>,
    ) {
        self.in_flight.record(None, change);
        self.shelves.changed();
        self.changed += 1;
        let label = EventLabel::of(change);
        let hears = |plugin| with.profiles.hears(plugin, change.event);
        for group_id in self.groups.waiting_for(hears) {
            // An entry of the queue that moves may have been the last one of another group here.
            let Some(group) = self.groups.find(group_id) else { continue };
            if group.key.signature.is_some() {
                let first = &self.pods[group.pods[0]].info;
                let strategy = with.worth(first, change, &mut self.counts.hints);
                if strategy != QueueingStrategy::Skip {
                    self.wake(now, group_id, (strategy, label), audience, with);
                }
                continue;
            }
            for id in group.pods.clone() {
                let info = &self.pods[id].info;
                let waits =
                    matches!(info.place, QueuePlace::Unschedulable | QueuePlace::Gated { .. });
                if !waits || !audience.has(id, info) {
                    continue;
                }
                let strategy = with.worth(info, change, &mut self.counts.hints);
                if strategy != QueueingStrategy::Skip {
                    self.take(id);
                    self.requeue(now, id, strategy, label, with);
                }
            }
        }
    }

    /// Wakes the pods of a group that are in the audience: all, or all except one.
    fn wake(
        &mut self,
        now: Time,
        group: GroupId,
        (strategy, label): (QueueingStrategy, EventLabel),
        audience: Audience,
        with: Surroundings<'_>,
    ) {
        let id = self.groups.get(group).pods[0];
        let first = &self.pods[id].info;
        // Pods of one group have the same priority.
        if matches!(audience, Audience::UpTo(_)) && !audience.has(id, first) {
            return;
        }
        if self.is_of_entry(id) {
            return self.settle(now, id, (strategy, label), None, with);
        }
        let gate = with.gate(&first.pod, &mut self.counts);
        if self.are_gated_as_before(group, gate.as_ref()) {
            return;
        }
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

    fn requeue(
        &mut self,
        now: Time,
        id: PodId,
        strategy: QueueingStrategy,
        label: EventLabel,
        with: Surroundings<'_>,
    ) {
        if self.is_of_entry(id) {
            return self.settle(now, id, (strategy, label), Some(id), with);
        }
        let gate = match strategy {
            QueueingStrategy::Skip => None,
            _ => self.gate(id, with),
        };
        self.requeue_behind(now, id, (strategy, label), gate, with);
    }

    /// Moves a pod according to `strategy`, or behind its gate.
    fn requeue_behind(
        &mut self,
        now: Time,
        id: PodId,
        (strategy, label): (QueueingStrategy, EventLabel),
        gate: Option<QueuePlace>,
        with: Surroundings<'_>,
    ) {
        let info = &mut self.pods[id].info;
        let until = self.backoff.end(info.queued, info.failures()).filter(|until| now < *until);
        let waited = matches!(info.place, QueuePlace::Unschedulable | QueuePlace::Gated { .. });
        info.place = match (strategy, until, gate) {
            (QueueingStrategy::Skip, ..) => QueuePlace::Unschedulable,
            (_, _, Some(gate)) => gate,
            (QueueingStrategy::AfterBackoff, Some(until), None) => match info.verdict {
                None => QueuePlace::ErrorBackoff { until },
                Some(_) => QueuePlace::Backoff { until },
            },
            (QueueingStrategy::AfterBackoff, None, None)
            | (QueueingStrategy::Immediately, _, None) => QueuePlace::Active,
        };
        if !(waited && matches!(info.place, QueuePlace::Unschedulable | QueuePlace::Gated { .. })) {
            self.came(now, id, label, None);
        }
        self.put(id, with);
    }

    /// Counts a pod that has moved to its place, as part of an entry if it is of one. As in unschedulable_pods.go, waiting
    /// and gated pods are in the same queue in metrics.
    fn came(&mut self, now: Time, id: PodId, label: EventLabel, entry: Option<EntryId>) {
        let info = &mut self.pods[id].info;
        let queue = match info.place {
            QueuePlace::Active => QueueName::Active,
            QueuePlace::Backoff { .. } | QueuePlace::ErrorBackoff { .. } => QueueName::Backoff,
            QueuePlace::Unschedulable | QueuePlace::Gated { .. } => QueueName::Unschedulable,
            QueuePlace::InFlight => return,
        };
        if queue == QueueName::Active {
            info.first_ready.get_or_insert(now);
        }
        // The end of a backoff is not why it is tried.
        if label != EventLabel::BACKOFF_COMPLETE && label != EventLabel::POP_FROM_BACKOFF {
            info.woken_by = label;
        }
        self.count(queue, label, entry);
    }

    /// Counts a pod that came into a queue.
    fn count(&mut self, queue: QueueName, label: EventLabel, entry: Option<EntryId>) {
        self.counts.came(queue, label);
        self.count_member(queue, label, entry);
    }

    /// The gate that holds a pod back: its own, or that of another pod of its entry.
    fn gate(&mut self, id: PodId, with: Surroundings<'_>) -> Option<QueuePlace> {
        let own = self.own_gate(id, with);
        if own.is_some() || !self.is_of_entry(id) {
            return own;
        }
        let others = self.waiting_members(id, with).into_iter().filter(|other| *other != id);
        { others }.find_map(|other| self.own_gate(other, with))
    }

    pub(super) fn own_gate(&mut self, id: PodId, with: Surroundings<'_>) -> Option<QueuePlace> {
        self.hold_of(id).or_else(|| with.gate(&self.pods[id].info.pod, &mut self.counts))
    }

    /// Inserts a pod into the shelf or group of its place.
    fn put(&mut self, id: PodId, with: Surroundings<'_>) {
        let entry = &self.pods[id];
        if entry.info.place == QueuePlace::Active && with.cache.is_order_by_objects() {
            let sort = self.sort_of(entry, with);
            self.pods[id].sort = sort;
        }
        let entry = &self.pods[id];
        let wait = match entry.info.place {
            QueuePlace::Unschedulable => {
                WaitReason::Change(entry.info.verdict.clone().unwrap_or_default())
            }
            QueuePlace::Gated { plugin, ref why } => WaitReason::Gate(plugin, why.clone()),
            QueuePlace::Backoff { .. } => {
                let like = self.like(id, with);
                let entry = &self.pods[id];
                let early = entry.try_early(like);
                return self.shelves.put(&entry.info.place, entry.active_key(), early, id);
            }
            _ => {
                let early = TryEarly::Never;
                return self.shelves.put(&entry.info.place, entry.active_key(), early, id);
            }
        };
        let pod = &entry.info.pod;
        let signature = with.asks_as_one(pod, &wait).then(|| self.signatures.intern(pod));
        self.pods[id].group = Some(self.groups.insert(GroupKey { signature, wait }, id));
    }

    /// The signature of pods that most likely fail like this one: they differ from it only in individual
    /// fields or claims.
    fn like(&mut self, id: PodId, with: Surroundings<'_>) -> Option<QueueSignature> {
        let entry = &mut self.pods[id];
        if let Like::Is(signature) = entry.like {
            return signature;
        }
        let (pod, verdict) = (&entry.info.pod, entry.info.verdict.as_ref());
        let fail_alike = verdict.is_some_and(|verdict| with.fail_alike(pod, verdict));
        let signature = fail_alike.then(|| self.likes.intern(pod));
        entry.like = Like::Is(signature);
        signature
    }

    /// Removes a pod from its place.
    fn take(&mut self, id: PodId) {
        let entry = &mut self.pods[id];
        match entry.group.take() {
            None => {
                let signature = match entry.like {
                    Like::Is(signature) => signature,
                    Like::Unasked => None,
                };
                let early = entry.try_early(signature);
                self.shelves.take(&entry.info.place, entry.active_key(), early);
            }
            Some((group, at)) => {
                if let Some(moved) = self.groups.remove(group, at) {
                    self.pods[moved].group = Some((group, at));
                }
            }
        }
    }

    /// Drops a pod that was removed from its place.
    fn leave(&mut self, id: PodId) {
        let Some(entry) = self.pods.remove(id) else { return };
        self.pods_before.changes(id.index(), || Some(entry.info.pod.clone()));
        if let (Some(member), Some(entries)) = (entry.member, &mut self.entries) {
            entries.forget(member, &entry.info);
        }
        if let Some(since) = entry.hears_since {
            self.in_flight.forget(since);
        }
    }
}
