//! Groups of pods as entries of the queue, since 1.37.
//!
//! The pods of a group, or of a tree of groups, are always in the same place: they are ready, in backoff or gated together,
//! with the time and the backoff of the group. It is gated as long as one of its pods is. A pod that comes joins the others
//! where they are, and after a cycle those that are left go back once. As in scheduling_queue.go of 1.37. Under the rules of
//! 1.36 there are no entries, and each pod of a group is in the queue by itself.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::ObjectKey;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{
    GroupForest, GroupGates, GroupRef, GroupRules, PodInfo, QueuedPod, SortKey, Time,
};
use rustc_hash::FxHashMap;

use super::pod::{Attempt, QueuePlace, QueuedPodInfo};
use super::worth::{QueueingStrategy, Surroundings};
use super::{Queue, QueueEntry};
use crate::metrics::{EventLabel, QueueName};
use crate::names::PodId;

/// The entries of groups.
#[derive(Debug)]
pub(super) struct GroupEntries {
    gates: GroupGates,
    /// The pods of each PodGroup that are in the queue.
    members: FxHashMap<ObjectKey, Members>,
    entries: FxHashMap<GroupRef, GroupEntry>,
    /// The pods that have failed in the cycle that is in progress.
    returned: Option<Vec<PodId>>,
    /// The groups whose cycles wait for extenders.
    in_cycle: BTreeSet<GroupRef>,
}

/// The pods of a PodGroup, by arrival. Those in flight stand apart, so that finding the first one that waits takes no longer
/// while a large gang is being bound.
#[derive(Clone, Debug, Default)]
struct Members {
    waiting: BTreeMap<u64, PodId>,
    in_flight: BTreeMap<u64, PodId>,
    /// The entries that name the PodGroup: one, unless the groups above it have changed.
    entries: BTreeSet<GroupRef>,
}

/// What is known of a group, or of a tree of groups, that has pods in the queue.
#[derive(Clone, Debug, Default)]
struct GroupEntry {
    /// The PodGroups that have pods in the queue.
    leaves: BTreeSet<ObjectKey>,
    /// When it came, or returned after its last cycle.
    queued: Time,
    /// How often it was rejected.
    unschedulable_count: u32,
    /// How many errors in a row it has had.
    consecutive_errors: u32,
    /// The queue into which metrics have seen it come last; none while it is in its cycle.
    counted_in: Option<QueueName>,
}

/// What came of the cycle of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CycleEnd {
    /// Some of its pods go to nodes. The others are tried again at once.
    Scheduled,
    /// None does. It is tried again after its backoff.
    Failed,
}

impl GroupEntry {
    /// The number of failures for its backoff.
    fn failures(&self) -> u32 {
        match self.consecutive_errors {
            0 => self.unschedulable_count,
            errors => errors,
        }
    }
}

impl GroupEntries {
    /// The entries under the rules of a release; `None` if it has none.
    pub(super) fn of(gates: GroupGates) -> Option<Self> {
        (gates.generic_workload && GroupRules::V1_37 <= gates.rules).then(|| GroupEntries {
            gates,
            members: FxHashMap::default(),
            entries: FxHashMap::default(),
            returned: None,
            in_cycle: BTreeSet::new(),
        })
    }

    /// Forgets a pod that leaves the queue.
    pub(super) fn forget(&mut self, info: &QueuedPodInfo) {
        let Some(leaf) = group_of(&info.pod) else { return };
        let Some(members) = self.members.get_mut(&leaf) else { return };
        members.waiting.remove(&info.arrival);
        members.in_flight.remove(&info.arrival);
        if !(members.waiting.is_empty() && members.in_flight.is_empty()) {
            return;
        }
        for root in self.members.remove(&leaf).into_iter().flat_map(|members| members.entries) {
            let Entry::Occupied(mut entry) = self.entries.entry(root) else { continue };
            entry.get_mut().leaves.remove(&leaf);
            if entry.get().leaves.is_empty() {
                entry.remove();
            }
        }
    }

    /// The entry of a PodGroup, which names it from now on.
    fn entry(&mut self, leaf: ObjectKey, with: Surroundings<'_>) -> &mut GroupEntry {
        let root = self.root(&leaf, with);
        let entry = self.entries.entry(root.clone()).or_default();
        if !entry.leaves.contains(&leaf) {
            self.members.entry(leaf.clone()).or_default().entries.insert(root);
            entry.leaves.insert(leaf);
        }
        entry
    }

    /// Notes that a pod is in flight now.
    pub(super) fn begin(&mut self, info: &QueuedPodInfo) {
        let members = group_of(&info.pod).and_then(|leaf| self.members.get_mut(&leaf));
        if let Some(members) = members
            && let Some(id) = members.waiting.remove(&info.arrival)
        {
            members.in_flight.insert(info.arrival, id);
        }
    }

    /// Notes that a pod is no longer in flight.
    fn wait(&mut self, info: &QueuedPodInfo) {
        let members = group_of(&info.pod).and_then(|leaf| self.members.get_mut(&leaf));
        if let Some(members) = members
            && let Some(id) = members.in_flight.remove(&info.arrival)
        {
            members.waiting.insert(info.arrival, id);
        }
    }

    fn forest<'a>(&self, with: Surroundings<'a>) -> GroupForest<'a> {
        GroupForest::of(with.cache.view().stores, self.gates)
    }

    /// The root of the tree that a PodGroup is part of, or the PodGroup itself if that cannot be said yet.
    fn root(&self, leaf: &ObjectKey, with: Surroundings<'_>) -> GroupRef {
        let root = self.gates.composite.then(|| self.forest(with).root(leaf).ok()).flatten();
        root.unwrap_or_else(|| GroupRef::Pods(leaf.clone()))
    }

    /// The pods that wait of the entry that `leaf` is part of, in the order in which they came.
    fn waiting_in(&self, leaf: &ObjectKey, with: Surroundings<'_>) -> Vec<PodId> {
        let leaves = self.forest(with).leaves(&self.root(leaf, with));
        let members = leaves.iter().filter_map(|leaf| self.members.get(leaf));
        let mut waiting: Vec<(&u64, &PodId)> =
            members.flat_map(|members| &members.waiting).collect();
        if 1 < leaves.len() {
            waiting.sort_unstable();
        }
        waiting.into_iter().map(|(_, id)| *id).collect()
    }

    /// The first pod that waits of the entry that `leaf` is part of, apart from `other_than`.
    fn first_waiting_in(
        &self,
        leaf: &ObjectKey,
        other_than: Option<PodId>,
        with: Surroundings<'_>,
    ) -> Option<PodId> {
        let counts = |(_, id): &(&u64, &PodId)| other_than != Some(**id);
        let first = |leaf: &ObjectKey| self.members.get(leaf)?.waiting.iter().find(counts);
        let first = match self.root(leaf, with) {
            GroupRef::Pods(leaf) => first(&leaf),
            root @ GroupRef::Composite(_) => {
                self.forest(with).leaves(&root).iter().filter_map(first).min()
            }
        };
        first.map(|(_, id)| *id)
    }
}

impl Queue {
    /// The same queue with groups as entries, if the rules of the release say so.
    pub(crate) fn with_groups(self, gates: GroupGates) -> Self {
        Queue { entries: GroupEntries::of(gates), ..self }
    }

    /// Whether a pod is part of an entry.
    pub(super) fn is_of_entry(&self, id: PodId) -> bool {
        self.entries.is_some()
            && self.pods.get(id).is_some_and(|entry| entry.info.pod.scheduling_group.is_some())
    }

    /// The root of the groups of a pod that is part of an entry.
    pub(super) fn entry_of(&self, id: PodId, with: Surroundings<'_>) -> Option<GroupRef> {
        let leaf = group_of(&self.pods.get(id)?.info.pod)?;
        Some(self.entries.as_ref()?.root(&leaf, with))
    }

    /// The sort key of a pod: for one of a group, its priority is that of the group.
    pub(super) fn sort_of(&self, entry: &QueueEntry, with: Surroundings<'_>) -> SortKey {
        let info = &entry.info;
        let priority = self
            .entries
            .as_ref()
            .map_or(info.pod.priority, |entries| entries.forest(with).priority_of(&info.pod));
        if priority == info.pod.priority {
            return with.key(info);
        }
        let mut pod = info.pod.seen().clone();
        Arc::make_mut(&mut pod).priority = priority;
        let pod = PodInfo::from(pod);
        with.profiles.sort_key(&QueuedPod { pod: &pod, ..info.in_queue() }, &with.cache.view())
    }

    /// The pods of the entry of a pod that wait, itself among them if it does, in the order in which they came.
    pub(super) fn waiting_members(&self, id: PodId, with: Surroundings<'_>) -> Vec<PodId> {
        let Some(entries) = &self.entries else { return Vec::new() };
        let leaf = self.pods.get(id).and_then(|entry| group_of(&entry.info.pod));
        leaf.map_or_else(Vec::new, |leaf| entries.waiting_in(&leaf, with))
    }

    /// The first pod that waits of the entry that `leaf` is part of, apart from `other_than`.
    fn first_waiting_in(
        &self,
        leaf: &ObjectKey,
        other_than: Option<PodId>,
        with: Surroundings<'_>,
    ) -> Option<PodId> {
        self.entries.as_ref()?.first_waiting_in(leaf, other_than, with)
    }

    /// Puts a pod that is on no shelf to the others of its entry, wherever they are. If there are none, the entry begins
    /// anew, unless it is in its cycle, and the pod is ready.
    pub(super) fn join(&mut self, now: Time, id: PodId, with: Surroundings<'_>) {
        let leaf = group_of(&self.pods[id].info.pod);
        let other = leaf.and_then(|leaf| self.first_waiting_in(&leaf, Some(id), with));
        self.enter(id, with);
        let place = match other.map(|other| self.pods[other].info.place.clone()) {
            None => {
                if !self.is_in_cycle(id, with) {
                    self.change_entry(id, with, |entry| {
                        *entry = GroupEntry {
                            queued: now,
                            leaves: std::mem::take(&mut entry.leaves),
                            ..GroupEntry::default()
                        };
                    });
                }
                self.own_gate(id, with).unwrap_or(QueuePlace::Active)
            }
            Some(place @ QueuePlace::Gated { .. }) => place,
            Some(place) => match self.own_gate(id, with) {
                None => place,
                Some(gate) => {
                    let members = self.waiting_members(id, with);
                    for other in members.into_iter().filter(|other| *other != id) {
                        self.move_to(now, other, (&gate, EventLabel::PENDING_POD_ADD), with);
                    }
                    gate
                }
            },
        };
        self.place_member(now, id, (&place, EventLabel::PENDING_POD_ADD), with);
    }

    /// Notes that a pod is part of its entry.
    fn enter(&mut self, id: PodId, with: Surroundings<'_>) {
        let Some(leaf) = group_of(&self.pods[id].info.pod) else { return };
        let Some(entries) = &mut self.entries else { return };
        let arrival = self.pods[id].info.arrival;
        entries.members.entry(leaf.clone()).or_default().waiting.insert(arrival, id);
        entries.entry(leaf, with);
    }

    /// The entry of a pod, changed.
    fn change_entry<T>(
        &mut self,
        id: PodId,
        with: Surroundings<'_>,
        change: impl FnOnce(&mut GroupEntry) -> T,
    ) -> Option<T> {
        let leaf = group_of(&self.pods.get(id)?.info.pod)?;
        Some(change(self.entries.as_mut()?.entry(leaf, with)))
    }

    /// Moves the whole entry of a pod: behind the first gate of one of its pods, or to where `strategy` says. The pod
    /// `taken` is on no shelf already.
    pub(super) fn settle(
        &mut self,
        now: Time,
        id: PodId,
        (strategy, label): (QueueingStrategy, EventLabel),
        taken: Option<PodId>,
        with: Surroundings<'_>,
    ) {
        if let Some(place) = self.stays_gated(id, with) {
            if let Some(taken) = taken {
                self.place_member(now, taken, (&place, label), with);
            }
            return;
        }
        let members = self.waiting_members(id, with);
        let gate = members.iter().find_map(|member| self.own_gate(*member, with));
        let entry = self.change_entry(id, with, |entry| entry.clone()).unwrap_or_default();
        let until = self.backoff.end(entry.queued, entry.failures()).filter(|until| now < *until);
        let place = match (gate, strategy, until) {
            (Some(gate), ..) => gate,
            (None, QueueingStrategy::Immediately, _) | (None, _, None) => QueuePlace::Active,
            (None, _, Some(until)) if entry.consecutive_errors == 0 => {
                QueuePlace::Backoff { until }
            }
            (None, _, Some(until)) => QueuePlace::ErrorBackoff { until },
        };
        for member in members {
            if taken == Some(member) {
                self.place_member(now, member, (&place, label), with);
            } else if self.pods[member].info.place != place {
                self.move_to(now, member, (&place, label), with);
            }
        }
    }

    /// The gate behind which the whole entry of a pod is, if its first pod is held back there still: for a gang to which one
    /// pod after the other comes, the others are not asked each time.
    fn stays_gated(&mut self, id: PodId, with: Surroundings<'_>) -> Option<QueuePlace> {
        let leaf = group_of(&self.pods.get(id)?.info.pod)?;
        let first = self.first_waiting_in(&leaf, None, with)?;
        let place = &self.pods[first].info.place;
        if !matches!(place, QueuePlace::Gated { .. }) {
            return None;
        }
        let gate = self.own_gate(first, with)?;
        (self.pods[first].info.place == gate).then_some(gate)
    }

    pub(super) fn move_to(
        &mut self,
        now: Time,
        id: PodId,
        to: (&QueuePlace, EventLabel),
        with: Surroundings<'_>,
    ) {
        self.take(id);
        self.place_member(now, id, to, with);
    }

    /// Puts a pod that is on no shelf to a place.
    fn place_member(
        &mut self,
        now: Time,
        id: PodId,
        (place, label): (&QueuePlace, EventLabel),
        with: Surroundings<'_>,
    ) {
        let queued = self.change_entry(id, with, |entry| entry.queued);
        let is_gated = |place: &QueuePlace| matches!(place, QueuePlace::Gated { .. });
        let info = &self.pods[id].info;
        if is_gated(place) && info.place == *place && Some(info.queued) == queued {
            return self.put(id, with);
        }
        let before = std::mem::replace(&mut self.pods[id].info.place, place.clone());
        self.pods[id].info.queued = queued.unwrap_or(now);
        let sort = self.sort_of(&self.pods[id], with);
        self.pods[id].sort = sort;
        if !(is_gated(&before) && is_gated(place)) {
            self.came(now, id, label, with);
        }
        self.put(id, with);
    }

    /// Counts a pod of an entry that came into a queue. The entry is counted with the first of its pods.
    pub(super) fn count_member(
        &mut self,
        id: PodId,
        queue: QueueName,
        label: EventLabel,
        with: Surroundings<'_>,
    ) {
        let before = self.change_entry(id, with, |entry| entry.counted_in.replace(queue));
        if let Some(before) = before {
            self.counts.came_in_entry(queue, label, before != Some(queue));
        }
    }

    /// The entry of a pod has its turn: it is in no queue.
    pub(super) fn entry_leaves(&mut self, id: PodId, with: Surroundings<'_>) {
        self.change_entry(id, with, |entry| entry.counted_in = None);
    }

    /// The cycle of a group waits for extenders. Its pods stay in flight.
    pub(crate) fn group_waits(&mut self, root: &GroupRef) {
        if let Some(entries) = &mut self.entries {
            entries.in_cycle.insert(root.clone());
        }
    }

    /// The cycle of a group does not wait for extenders any more.
    pub(crate) fn group_goes_on(&mut self, root: &GroupRef) {
        if let Some(entries) = &mut self.entries {
            entries.in_cycle.remove(root);
        }
    }

    /// Whether the entry of a pod is in a cycle that waits.
    fn is_in_cycle(&self, id: PodId, with: Surroundings<'_>) -> bool {
        let waits = |entries: &GroupEntries| !entries.in_cycle.is_empty();
        self.entries.as_ref().is_some_and(waits)
            && self.entry_of(id, with).is_some_and(|root| {
                self.entries.as_ref().is_some_and(|entries| entries.in_cycle.contains(&root))
            })
    }

    /// Begins the cycle of a group: its pods that fail wait until [`end_group_cycle`](Self::end_group_cycle).
    pub(crate) fn begin_group_cycle(&mut self) {
        if let Some(entries) = &mut self.entries {
            entries.returned = Some(Vec::new());
        }
    }

    /// Handles a failed attempt for a pod of an entry. In a cycle it waits for the end of that. Otherwise it could not be
    /// bound, and joins the others of its entry; if there are none, it waits for its own backoff. kube-scheduler tries it
    /// at once then, again and again.
    pub(super) fn member_failed(&mut self, now: Time, id: PodId, with: Surroundings<'_>) {
        self.pods[id].info.place = QueuePlace::Unschedulable;
        if let Some(entries) = &mut self.entries {
            entries.wait(&self.pods[id].info);
        }
        if let Some(returned) = self.entries.as_mut().and_then(|entries| entries.returned.as_mut())
        {
            returned.push(id);
            return;
        }
        let leaf = group_of(&self.pods[id].info.pod);
        let other = leaf.and_then(|leaf| self.first_waiting_in(&leaf, Some(id), with));
        if other.is_none() {
            let (unschedulable_count, consecutive_errors) = self.pods[id].info.counts();
            self.change_entry(id, with, |entry| {
                entry.queued = now;
                entry.unschedulable_count = unschedulable_count;
                entry.consecutive_errors = consecutive_errors;
            });
            let how = (QueueingStrategy::AfterBackoff, EventLabel::ATTEMPT_FAILURE);
            self.settle(now, id, how, Some(id), with);
        } else {
            self.join(now, id, with);
        }
    }

    /// Ends the cycle of a group: the pods that have failed in it go back into the queue, all to the same place. As in
    /// scheduling_queue.go, AddAttemptedPodGroupIfNeeded.
    pub(crate) fn end_group_cycle(&mut self, now: Time, end: CycleEnd, with: Surroundings<'_>) {
        let returned = self.entries.as_mut().and_then(|entries| entries.returned.take());
        let mut returned = returned.unwrap_or_default();
        returned
            .retain(|id| self.get(*id).is_some_and(|info| info.place == QueuePlace::Unschedulable));
        let Some(&first) = returned.first() else { return };
        let errs = returned.iter().any(|id| self.pods[*id].info.verdict.is_none());
        self.change_entry(first, with, |entry| {
            if end == CycleEnd::Scheduled {
                return;
            }
            entry.queued = now;
            if errs {
                entry.consecutive_errors = entry.consecutive_errors.saturating_add(1);
            } else {
                entry.unschedulable_count = entry.unschedulable_count.saturating_add(1);
                entry.consecutive_errors = 0;
            }
        });
        let strategy = match end {
            CycleEnd::Scheduled => QueueingStrategy::Immediately,
            CycleEnd::Failed => QueueingStrategy::AfterBackoff,
        };
        self.settle(now, first, (strategy, EventLabel::ATTEMPT_FAILURE), None, with);
    }

    /// Takes all pods of an entry that are not gated, in the order in which they came.
    pub(crate) fn pop_members(&mut self, id: PodId, with: Surroundings<'_>) -> Vec<Attempt> {
        let mut members = self.waiting_members(id, with);
        members.retain(|id| !matches!(self.pods[*id].info.place, QueuePlace::Gated { .. }));
        members.into_iter().map(|id| self.begin_member(id, with)).collect()
    }

    /// A pod of a PodGroup has left the queue: it may have been the one that held the others back, or for which they did not
    /// fit.
    pub(crate) fn member_left(&mut self, now: Time, leaf: &ObjectKey, with: Surroundings<'_>) {
        self.changed += 1;
        self.recheck_gate(now, leaf, with);
    }

    /// Moves the entry of a PodGroup to where it belongs if it is gated, perhaps no longer rightly.
    fn recheck_gate(&mut self, now: Time, leaf: &ObjectKey, with: Surroundings<'_>) {
        let first = self.first_waiting_in(leaf, None, with);
        let is_gated = |id: &PodId| matches!(self.pods[*id].info.place, QueuePlace::Gated { .. });
        if let Some(first) = first.filter(is_gated) {
            let how = (QueueingStrategy::AfterBackoff, EventLabel::PENDING_POD_ADD);
            self.settle(now, first, how, None, with);
        }
    }

    /// A group is gone, or is no longer under `parent`: a pod of it may have been the one that held back those that are left,
    /// or one of those the one that held it back.
    pub(crate) fn left_tree(
        &mut self,
        now: Time,
        (group, parent): (GroupRef, Option<GroupRef>),
        with: Surroundings<'_>,
    ) {
        for part in parent.into_iter().chain([group]) {
            let Some(entries) = &self.entries else { return };
            let forest = entries.forest(with);
            let root = forest.chain(part).ok().and_then(|mut chain| chain.pop());
            // All leaves are in the same entry.
            let leaf = root.and_then(|root| forest.leaves(&root).into_iter().next());
            if let Some(leaf) = leaf {
                self.recheck_gate(now, &leaf, with);
            }
        }
    }
}
