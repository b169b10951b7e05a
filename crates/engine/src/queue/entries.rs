//! Groups of pods as entries of the queue, since 1.37.
//!
//! The pods of a group, or of a tree of groups, are always in the same place: they are ready, in backoff or gated together,
//! with the time and the backoff of the group. It is gated as long as one of its pods is. A pod that comes joins the others
//! where they are, and after a cycle those that are left go back once. As in scheduling_queue.go of 1.37. Under the rules of
//! 1.36 there are no entries, and each pod of a group is in the queue by itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use plimsoll_api::{KeyRef, ObjectKey, Pod};
use plimsoll_framework::pod_groups::group_key_of;
use plimsoll_framework::{
    GroupForest, GroupGates, GroupRef, GroupRules, PodInfo, QueuedPod, SortKey, Time,
};
use rustc_hash::FxBuildHasher;
use slab::Slab;
use smallvec::SmallVec;

use super::groups::GroupId;
use super::pod::{Attempt, QueuePlace, QueuedPodInfo};
use super::worth::{QueueingStrategy, Surroundings};
use super::{Queue, QueueEntry};
use crate::metrics::{EventLabel, QueueName};
use crate::names::PodId;
use crate::sorted_pods::SortedPods;

/// The number of a PodGroup that has pods in the queue.
type LeafId = usize;

/// The number of an entry.
pub(super) type EntryId = usize;

/// The entries of groups.
#[derive(Debug)]
pub(super) struct GroupEntries {
    gates: GroupGates,
    /// The PodGroups that have pods in the queue. Each pod knows the number of its PodGroup, which is looked for once.
    leaves: Slab<Leaf>,
    leaf_ids: HashMap<ObjectKey, LeafId, FxBuildHasher>,
    entries: Slab<GroupEntry>,
    entry_ids: HashMap<GroupRef, EntryId, FxBuildHasher>,
    /// The pods that have failed in the cycle that is in progress.
    returned: Option<Vec<PodId>>,
    /// The groups whose cycles wait for extenders.
    in_cycle: BTreeSet<GroupRef>,
}

/// A PodGroup that has pods in the queue.
#[derive(Debug)]
struct Leaf {
    key: ObjectKey,
    n_pods: usize,
    /// Those of its pods that wait, by arrival. The others are in flight: finding the first one that waits takes no longer
    /// while a large gang is being bound.
    waiting: SortedPods<u64>,
    /// The entries that name the PodGroup: one, unless the groups above it have changed.
    entries: SmallVec<[EntryId; 1]>,
}

/// What a pod is to its PodGroup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Membership {
    leaf: LeafId,
    /// Whether it waits, and is not in flight.
    waits: bool,
}

/// What is known of a group, or of a tree of groups, that has pods in the queue.
#[derive(Debug)]
pub(super) struct GroupEntry {
    root: GroupRef,
    /// The PodGroups that have pods in the queue.
    leaves: BTreeSet<LeafId>,
    /// What is known of it since its pods came, if none was there before.
    so_far: SoFar,
    /// The queue into which metrics have seen it come last; none while it is in its cycle.
    counted_in: Option<QueueName>,
}

/// How a group has fared in the queue.
#[derive(Clone, Copy, Debug, Default)]
struct SoFar {
    /// When it came, or returned after its last cycle.
    queued: Time,
    /// How often it was rejected.
    unschedulable_count: u32,
    /// How many errors in a row it has had.
    consecutive_errors: u32,
}

/// What came of the cycle of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CycleEnd {
    /// Some of its pods go to nodes. The others are tried again at once.
    Scheduled,
    /// None does. It is tried again after its backoff.
    Failed,
}

impl SoFar {
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
            leaves: Slab::new(),
            leaf_ids: HashMap::default(),
            entries: Slab::new(),
            entry_ids: HashMap::default(),
            returned: None,
            in_cycle: BTreeSet::new(),
        })
    }

    /// Notes that a pod is in the queue, and does not wait yet. `None` if it has no group.
    fn enter(&mut self, pod: &Pod) -> Option<Membership> {
        let name = pod.scheduling_group.as_ref()?;
        let key = KeyRef::from((pod.key.namespace.as_str(), name.as_str()));
        let known = self.leaf_ids.get(&key).copied();
        let leaf = known.unwrap_or_else(|| {
            let key = ObjectKey::new(pod.key.namespace.clone(), name.clone());
            let leaf = self.leaves.insert(Leaf {
                key: key.clone(),
                n_pods: 0,
                waiting: SortedPods::default(),
                entries: SmallVec::new(),
            });
            self.leaf_ids.insert(key, leaf);
            leaf
        });
        self.leaves[leaf].n_pods += 1;
        Some(Membership { leaf, waits: false })
    }

    /// Forgets a pod that leaves the queue.
    pub(super) fn forget(&mut self, member: Membership, info: &QueuedPodInfo) {
        let leaf = &mut self.leaves[member.leaf];
        if member.waits {
            leaf.waiting.remove(&info.arrival);
        }
        leaf.n_pods -= 1;
        if leaf.n_pods != 0 {
            return;
        }
        let Leaf { key, entries, .. } = self.leaves.remove(member.leaf);
        self.leaf_ids.remove(&key);
        for id in entries {
            let leaves = &mut self.entries[id].leaves;
            leaves.remove(&member.leaf);
            if leaves.is_empty() {
                let entry = self.entries.remove(id);
                self.entry_ids.remove(&entry.root);
            }
        }
    }

    /// The entry of a PodGroup, which names it from now on.
    fn entry_id(&mut self, leaf: LeafId, with: Surroundings<'_>) -> EntryId {
        let Leaf { key, entries, .. } = &self.leaves[leaf];
        if let Some(&only) = entries.first().filter(|_| !self.gates.composite) {
            return only;
        }
        let root = self.root(key, with);
        let known = self.entry_ids.get(&root).copied();
        let id = known.unwrap_or_else(|| {
            let id = self.entries.insert(GroupEntry {
                root: root.clone(),
                leaves: BTreeSet::new(),
                so_far: SoFar::default(),
                counted_in: None,
            });
            self.entry_ids.insert(root, id);
            id
        });
        if self.entries[id].leaves.insert(leaf) {
            self.leaves[leaf].entries.push(id);
        }
        id
    }

    /// The same, to be changed.
    fn entry(&mut self, member: Membership, with: Surroundings<'_>) -> &mut GroupEntry {
        let id = self.entry_id(member.leaf, with);
        &mut self.entries[id]
    }

    /// Notes whether a pod waits, or is in flight.
    pub(super) fn set_waits(
        &mut self,
        waits: bool,
        (id, arrival): (PodId, u64),
        member: &mut Membership,
    ) {
        if std::mem::replace(&mut member.waits, waits) == waits {
            return;
        }
        let waiting = &mut self.leaves[member.leaf].waiting;
        match waits {
            true => waiting.insert(arrival, id),
            false => waiting.remove(&arrival),
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

    /// The PodGroups of the entry that `leaf` is part of, as far as they have pods in the queue.
    fn leaves_with<'a>(&'a self, leaf: &ObjectKey, with: Surroundings<'_>) -> Vec<&'a Leaf> {
        let leaves = self.forest(with).leaves(&self.root(leaf, with));
        leaves.iter().filter_map(|leaf| Some(&self.leaves[*self.leaf_ids.get(leaf)?])).collect()
    }

    /// The pods that wait of the entry of a pod, in the order in which they came.
    fn waiting_with(&self, member: Membership, with: Surroundings<'_>) -> Vec<PodId> {
        let own = &self.leaves[member.leaf];
        let mut waiting = if self.gates.composite {
            let leaves = self.leaves_with(&own.key, with);
            leaves.into_iter().flat_map(|leaf| leaf.waiting.in_order()).collect()
        } else {
            own.waiting.in_order()
        };
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, id)| id).collect()
    }

    /// The first pod that waits of the entry that a PodGroup is part of.
    fn first_waiting_in(&self, leaf: &ObjectKey, with: Surroundings<'_>) -> Option<PodId> {
        let first = if self.gates.composite {
            let leaves = self.leaves_with(leaf, with).into_iter();
            leaves.filter_map(|leaf| leaf.waiting.first()).min()
        } else {
            self.leaves[*self.leaf_ids.get(leaf)?].waiting.first()
        };
        first.map(|(_, id)| id)
    }

    /// The first pod that waits of the entry of a pod.
    fn first_waiting_with(&self, member: Membership, with: Surroundings<'_>) -> Option<PodId> {
        let own = &self.leaves[member.leaf];
        match self.gates.composite {
            false => own.waiting.first().map(|(_, id)| id),
            true => self.first_waiting_in(&own.key, with),
        }
    }
}

impl Queue {
    /// The same queue with groups as entries, if the rules of the release say so.
    pub(crate) fn with_groups(self, gates: GroupGates) -> Self {
        Queue { entries: GroupEntries::of(gates), ..self }
    }

    /// Whether a pod is part of an entry.
    pub(super) fn is_of_entry(&self, id: PodId) -> bool {
        self.pods.get(id).is_some_and(|entry| entry.member.is_some())
    }

    /// The number of the entry of a pod that is part of one.
    pub(super) fn entry_of(&mut self, id: PodId, with: Surroundings<'_>) -> Option<EntryId> {
        let member = self.pods.get(id)?.member?;
        Some(self.entries.as_mut()?.entry_id(member.leaf, with))
    }

    /// The entry of a pod that is part of one.
    fn entry_mut(&mut self, id: PodId, with: Surroundings<'_>) -> Option<&mut GroupEntry> {
        let member = self.pods.get(id)?.member?;
        Some(self.entries.as_mut()?.entry(member, with))
    }

    /// Notes which entry a pod that is new, or has changed, is part of.
    pub(super) fn enter(&mut self, id: PodId) {
        let entry = &mut self.pods[id];
        if let Some(entries) = &mut self.entries {
            entry.member = entries.enter(&entry.info.pod);
        }
    }

    /// Notes whether a pod waits, or is in flight, for its entry if it is part of one.
    pub(super) fn set_waits(&mut self, id: PodId, waits: bool) {
        let QueueEntry { member, info, .. } = &mut *self.pods[id];
        if let (Some(member), Some(entries)) = (member, &mut self.entries) {
            entries.set_waits(waits, (id, info.arrival), member);
        }
    }

    /// The pods of a group have changed: a pod that has another group now is part of its entry.
    pub(super) fn regroup(&mut self, id: PodId, before: &Pod) {
        let entry = &mut self.pods[id];
        if entry.info.pod.scheduling_group == before.scheduling_group {
            return;
        }
        let waits = entry.info.place != QueuePlace::InFlight;
        if let (Some(member), Some(entries)) = (entry.member.take(), &mut self.entries) {
            entries.forget(member, &entry.info);
        }
        self.enter(id);
        self.set_waits(id, waits);
    }

    /// The sort key of a pod: for one of a group, its priority is that of the group.
    pub(super) fn sort_of(&self, entry: &QueueEntry, with: Surroundings<'_>) -> SortKey {
        sort_with(entry, self.priority_of_group(&entry.info.pod, with), with)
    }

    /// The priority that counts for a pod because of its group, if that has one.
    fn priority_of_group(&self, pod: &Pod, with: Surroundings<'_>) -> Option<i32> {
        self.entries.as_ref()?.forest(with).priority_in(group_key_of(pod)?)
    }
    /// The pods of the entry of a pod that wait, itself among them if it does, in the order in which they came.
    pub(super) fn waiting_members(&self, id: PodId, with: Surroundings<'_>) -> Vec<PodId> {
        let member = self.pods.get(id).and_then(|entry| entry.member);
        let waiting = |entries: &GroupEntries| Some(entries.waiting_with(member?, with));
        self.entries.as_ref().and_then(waiting).unwrap_or_default()
    }

    /// The first pod that waits of the entry of a pod.
    fn first_waiting_with(&self, id: PodId, with: Surroundings<'_>) -> Option<PodId> {
        self.entries.as_ref()?.first_waiting_with(self.pods.get(id)?.member?, with)
    }

    /// Puts a pod that is on no shelf, and did not wait, to the others of its entry, wherever they are. If there are none, the
    /// entry begins anew, unless it is in its cycle, and the pod is ready.
    pub(super) fn join(&mut self, now: Time, id: PodId, with: Surroundings<'_>) {
        let other = self.first_waiting_with(id, with);
        self.set_waits(id, true);
        if other.is_some_and(|other| self.waits_beside(now, id, other, with)) {
            return;
        }
        let place = match other.map(|other| self.pods[other].info.place.clone()) {
            None => {
                if !self.is_in_cycle(id, with)
                    && let Some(entry) = self.entry_mut(id, with)
                {
                    entry.so_far = SoFar { queued: now, ..SoFar::default() };
                    entry.counted_in = None;
                }
                self.own_gate(id, with).unwrap_or(QueuePlace::Active)
            }
            Some(place @ QueuePlace::Gated { .. }) => place,
            Some(place) => match self.own_gate(id, with) {
                None => place,
                Some(gate) => {
                    let mut others = self.waiting_members(id, with);
                    others.retain(|other| *other != id);
                    let to = (&gate, EventLabel::PENDING_POD_ADD);
                    self.place_members(now, &others, None, to, with);
                    gate
                }
            },
        };
        self.place_members(now, &[id], Some(id), (&place, EventLabel::PENDING_POD_ADD), with);
    }

    /// Puts a pod that is on no shelf behind the gate of another of its entry, if the two are equal. What the other waits for is
    /// then what it waits for. Returns whether it was done.
    fn waits_beside(&mut self, now: Time, id: PodId, other: PodId, with: Surroundings<'_>) -> bool {
        let (one, other) = (&self.pods[id], &self.pods[other]);
        let QueuePlace::Gated { .. } = other.info.place else { return false };
        let Some((group, _)) = other.group else { return false };
        let is_shared = self.groups.get(group).key.signature.is_some();
        if !is_shared || !self.signatures.are_alike(&other.info.pod, &one.info.pod) {
            return false;
        }
        let place = other.info.place.clone();
        let entry = self.entry_of(id, with);
        let queued = self.so_far_of(entry).map_or(now, |so_far| so_far.queued);
        let info = &mut self.pods[id].info;
        (info.place, info.queued) = (place, queued);
        self.came(now, id, EventLabel::PENDING_POD_ADD, entry);
        self.pods[id].group = Some((group, self.groups.join(group, id)));
        true
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
                self.place_members(now, &[taken], Some(taken), (&place, label), with);
            }
            return;
        }
        let mut members = self.waiting_members(id, with);
        let gate = self.gate_of(&members, with);
        let so_far = self.entry_mut(id, with).map(|entry| entry.so_far).unwrap_or_default();
        let until = self.backoff.end(so_far.queued, so_far.failures()).filter(|until| now < *until);
        let place = match (gate, strategy, until) {
            (Some(gate), ..) => gate,
            (None, QueueingStrategy::Immediately, _) | (None, _, None) => QueuePlace::Active,
            (None, _, Some(until)) if so_far.consecutive_errors == 0 => {
                QueuePlace::Backoff { until }
            }
            (None, _, Some(until)) => QueuePlace::ErrorBackoff { until },
        };
        members.retain(|&member| taken == Some(member) || self.pods[member].info.place != place);
        self.place_members(now, &members, taken, (&place, label), with);
    }

    /// The first gate that holds back one of these pods of an entry. Of equal ones that wait for the same, one is asked for all.
    pub(super) fn gate_of(
        &mut self,
        members: &[PodId],
        with: Surroundings<'_>,
    ) -> Option<QueuePlace> {
        let mut asked = None::<GroupId>;
        members.iter().find_map(|&member| {
            let group = self.pods[member].group.map(|(group, _)| group);
            let are_equal = |group: &GroupId| self.groups.get(*group).key.signature.is_some();
            let group = group.filter(|_| self.held.is_empty()).filter(are_equal);
            if group.is_some() && std::mem::replace(&mut asked, group) == group {
                return None;
            }
            self.own_gate(member, with)
        })
    }

    /// The gate behind which the whole entry of a pod is, if its first pod is held back there still: for a gang to which one
    /// pod after the other comes, the others are not asked each time.
    fn stays_gated(&mut self, id: PodId, with: Surroundings<'_>) -> Option<QueuePlace> {
        let first = self.first_waiting_with(id, with)?;
        let place = &self.pods[first].info.place;
        if !matches!(place, QueuePlace::Gated { .. }) {
            return None;
        }
        let gate = self.own_gate(first, with)?;
        (self.pods[first].info.place == gate).then_some(gate)
    }

    /// Puts pods of one entry to a place. The pod `taken` is on no shelf already.
    pub(super) fn place_members(
        &mut self,
        now: Time,
        members: &[PodId],
        taken: Option<PodId>,
        to: (&QueuePlace, EventLabel),
        with: Surroundings<'_>,
    ) {
        let Some(&first) = members.first() else { return };
        // Pods that are held back have no order.
        let priority = match to.0 {
            QueuePlace::Gated { .. } => None,
            _ => self.priority_of_group(&self.pods[first].info.pod, with),
        };
        for &member in members {
            if taken != Some(member) {
                self.take(member);
            }
            self.place_member(now, (member, priority), to, with);
        }
    }

    /// Puts a pod that is on no shelf to a place. `priority` is that of its group.
    fn place_member(
        &mut self,
        now: Time,
        (id, priority): (PodId, Option<i32>),
        (place, label): (&QueuePlace, EventLabel),
        with: Surroundings<'_>,
    ) {
        let entry = self.entry_of(id, with);
        let queued = self.so_far_of(entry).map_or(now, |so_far| so_far.queued);
        let is_gated = |place: &QueuePlace| matches!(place, QueuePlace::Gated { .. });
        let pod = &mut self.pods[id];
        if is_gated(place) && pod.info.place == *place && pod.info.queued == queued {
            return self.put(id, with);
        }
        let before = std::mem::replace(&mut pod.info.place, place.clone());
        pod.info.queued = queued;
        if !is_gated(place) {
            pod.sort = sort_with(pod, priority, with);
        }
        if !(is_gated(&before) && is_gated(place)) {
            self.came(now, id, label, entry);
        }
        self.put(id, with);
    }

    /// How an entry has fared.
    fn so_far_of(&self, entry: Option<EntryId>) -> Option<SoFar> {
        Some(self.entries.as_ref()?.entries[entry?].so_far)
    }

    /// Counts a pod that came into a queue, if it is part of an entry. That is counted with the first of its pods.
    pub(super) fn count_member(
        &mut self,
        queue: QueueName,
        label: EventLabel,
        entry: Option<EntryId>,
    ) {
        if let (Some(entry), Some(entries)) = (entry, &mut self.entries) {
            let before = entries.entries[entry].counted_in.replace(queue);
            self.counts.came_in_entry(queue, label, before != Some(queue));
        }
    }

    /// The entry of a pod has its turn: it is in no queue.
    pub(super) fn entry_leaves(&mut self, id: PodId, with: Surroundings<'_>) {
        if let Some(entry) = self.entry_mut(id, with) {
            entry.counted_in = None;
        }
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
    fn is_in_cycle(&mut self, id: PodId, with: Surroundings<'_>) -> bool {
        let waits = |entries: &GroupEntries| !entries.in_cycle.is_empty();
        if !self.entries.as_ref().is_some_and(waits) {
            return false;
        }
        let root = self.entry_mut(id, with).map(|entry| entry.root.clone());
        let entries = self.entries.as_ref();
        root.zip(entries).is_some_and(|(root, entries)| entries.in_cycle.contains(&root))
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
        if let Some(returned) = self.entries.as_mut().and_then(|entries| entries.returned.as_mut())
        {
            returned.push(id);
            return self.set_waits(id, true);
        }
        if self.first_waiting_with(id, with).is_some() {
            return self.join(now, id, with);
        }
        self.set_waits(id, true);
        let (unschedulable_count, consecutive_errors) = self.pods[id].info.counts();
        if let Some(entry) = self.entry_mut(id, with) {
            entry.so_far = SoFar { queued: now, unschedulable_count, consecutive_errors };
        }
        let how = (QueueingStrategy::AfterBackoff, EventLabel::ATTEMPT_FAILURE);
        self.settle(now, id, how, Some(id), with);
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
        if end == CycleEnd::Failed
            && let Some(entry) = self.entry_mut(first, with)
        {
            let so_far = &mut entry.so_far;
            so_far.queued = now;
            if errs {
                so_far.consecutive_errors = so_far.consecutive_errors.saturating_add(1);
            } else {
                so_far.unschedulable_count = so_far.unschedulable_count.saturating_add(1);
                so_far.consecutive_errors = 0;
            }
        }
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
        let entries = self.entries.as_ref();
        let first = entries.and_then(|entries| entries.first_waiting_in(leaf, with));
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

/// The sort key of a pod. `priority` counts for it because of its group.
fn sort_with(entry: &QueueEntry, priority: Option<i32>, with: Surroundings<'_>) -> SortKey {
    let info = &entry.info;
    let Some(priority) = priority.filter(|priority| *priority != info.pod.priority) else {
        return with.key(info);
    };
    let mut pod = info.pod.seen().clone();
    Arc::make_mut(&mut pod).priority = priority;
    let pod = PodInfo::from(pod);
    with.profiles.sort_key(&QueuedPod { pod: &pod, ..info.in_queue() }, &with.cache.view())
}
