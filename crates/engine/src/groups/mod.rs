//! Groups of pods: units with several members.
//!
//! When a group has its turn, its members leave the queue together, and the group is decided as a whole on one state of the
//! cluster: its [placements] are [tried](trial) and taken back. What the trials come to is then [carried out](submit): all
//! members that fit are bound, or none. If there is no room, a plugin may [make some](preemption) for the whole group.
//!
//! If [extenders](consult) have a say about its members, the group waits for their answers, and its cycle runs again.
//!
//! That is the machinery. By which rules a group is decided depends on the release, and these stand apart: [`rules`]. A group
//! of groups is a [tree].

mod consult;
mod decision;
mod given;
mod placements;
mod preemption;
mod question;
mod reservation;
mod room;
mod rules;
mod submit;
mod tree;
mod trial;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::pod_group::GroupCondition;
use plimsoll_api::{ObjectKey, Pod, PodKey};
use plimsoll_framework::events::Object;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{
    Action, Change, ClusterEvent, GroupForest, GroupGates, GroupRef, GroupRules, PodInfo, Time,
};

pub(crate) use self::consult::BegunCycle;
pub use self::decision::{
    GroupDecision, GroupResult, MemberDecision, MemberResult, PlacementDecision, SubgroupDecision,
};
pub use self::given::GivenNodes;
pub(crate) use self::given::GivenRows;
pub(crate) use self::reservation::Reservation;
pub use self::reservation::{Reservations, ReservedRoom};
use self::tree::{GroupCycle, GroupNode};
use crate::effect::Effect;
use crate::metrics::{GroupAttemptResult, Lap, ReservationEnd};
use crate::names::PodId;
use crate::queue::{Attempt, Audience, QueuePlace, Surroundings};
use crate::scheduler::Scheduler;

const NO_PLACEMENTS: &str = "no feasible placements found";

/// What is known of groups beside their objects and pods.
pub(crate) type Groups = BTreeMap<GroupRef, GroupHistory>;

/// What is known of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupHistory {
    /// How many cycles it has had.
    attempts: u32,
    /// Its condition as it was written last.
    condition: Option<GroupCondition>,
    /// When it could first be tried since it was scheduled last.
    waits_since: Option<Time>,
    /// What it waits for since its last cycle.
    waits_for: GroupWait,
    /// Whether it was scheduled once.
    is_scheduled: bool,
    /// When it first did not fit since it was scheduled last, or since its reservation ended.
    fails_since: Option<Time>,
}

/// What a group waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum GroupWait {
    /// Its turn.
    #[default]
    Turn,
    /// Room.
    Room,
    /// Its victims to go.
    Preemption,
    /// It could not be judged, and is tried again.
    EndOfError,
    /// A gate.
    Gate,
}

impl Scheduler {
    /// Adds a pod under its name.
    pub(crate) fn learn_pod(&mut self, pod: std::sync::Arc<Pod>) -> PodId {
        if pod.scheduling_group.is_some() {
            let reads = plimsoll_framework::parts::StoreReads::GROUPS;
            self.cache.stores_mut(reads).groups.is_known(&pod);
        }
        self.cache.pod_is_known(None, &pod);
        self.names.insert(pod)
    }

    /// Forgets a pod that is gone.
    pub(crate) fn forget_pod(&mut self, id: PodId) {
        let group = group_of(&self.names[id]).filter(|_| self.reservation.is_some());
        if let Some(group) = group {
            self.end_reservation_of(&self.root_of(&group), ReservationEnd::Gone);
        }
        self.unhelped.forget(&self.names[id].key);
        self.unlearn_pod(id);
    }

    /// Forgets the name of a pod, as if it had never been there.
    pub(crate) fn unlearn_pod(&mut self, id: PodId) {
        let group = group_of(&self.names[id]);
        if let Some(group) = group {
            let reads = plimsoll_framework::parts::StoreReads::GROUPS;
            let groups = &mut self.cache.stores_mut(reads).groups;
            groups.is_gone(&self.names[id]);
            if groups.get(&group).is_none() {
                self.groups.remove(&GroupRef::Pods(group));
                self.forget_composites();
            }
        }
        self.cache.pod_is_unknown(&self.names[id]);
        self.names.forget(id);
    }

    /// Forgets composite groups whose objects are gone.
    fn forget_composites(&mut self) {
        let forest = GroupForest::of(self.cache.view().stores, self.options.gates.groups);
        self.groups.retain(|group, _| match group {
            GroupRef::Pods(_) => true,
            GroupRef::Composite(key) => forest.composite(key).is_some(),
        });
    }

    /// A pending pod of a group is new: others may have waited for it. As in eventhandlers.go, addPodToSchedulingQueue.
    pub(crate) fn member_comes(&mut self, now: Time, id: PodId, pod: &PodInfo) {
        if pod.scheduling_group.is_some() && self.options.gates.groups.gang_scheduling {
            let object = Object::Assigned { before: None, after: Some(pod), row: None };
            let event = ClusterEvent::of::<Pod>(Action::ADD);
            let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
            let change = Change { event, object, view: self.cache.view() };
            self.queue.on_change(now, &change, Audience::AllBut(id), with);
        }
    }

    /// Whether pods that name a group are scheduled together.
    pub fn schedules_groups(&self) -> bool {
        self.options.gates.groups.generic_workload
    }

    /// The labels by which the plugins of a profile group pods, such as that of Coscheduling. With `scheduler_name` goes the
    /// profile.
    pub fn labels_of_groups(&self, scheduler_name: &str) -> BTreeSet<&'static str> {
        let profile = self.profiles.get(scheduler_name).into_iter();
        let plugins = profile.flat_map(crate::Profile::plugins);
        plugins.flat_map(|plugin| plugin.points.labels.iter().copied()).collect()
    }

    /// The feature gates of groups, and by which rules these are decided.
    pub fn group_gates(&self) -> GroupGates {
        self.options.gates.groups
    }

    /// The groups that have pending members and never had a cycle, by name, each with the reason why its first member is held
    /// back.
    pub fn waiting_groups(&self) -> Vec<GroupDecision> {
        let mut first = BTreeMap::<GroupRef, (u64, String)>::new();
        for info in self.pending() {
            let Some(group) = group_of(&info.pod) else { continue };
            let QueuePlace::Gated { why, .. } = &info.place else { continue };
            let root = self.root_of(&group);
            let is_new = self.groups.get(&root).is_none_or(|known| known.attempts == 0);
            let is_first = first.get(&root).is_none_or(|(arrival, _)| info.arrival() < *arrival);
            if is_new && is_first {
                first.insert(root, (info.arrival(), why.to_string()));
            }
        }
        let decision = |(group, (_, message))| GroupDecision {
            message: Some(message),
            condition: self.condition_of(&group),
            ..GroupDecision::new(&group, 1, GroupResult::Waiting)
        };
        first.into_iter().map(decision).collect()
    }

    /// Tries a group now, out of its turn, and returns the decision, which is carried out. `None` if none of its members can
    /// be tried: they are gated, or on nodes; and if extenders have to be asked first. `group` names a PodGroup, or a
    /// CompositePodGroup; the whole tree that it is part of is tried.
    pub fn try_group_now(
        &mut self,
        now: Time,
        group: &ObjectKey,
        effects: &mut Vec<Effect>,
    ) -> Option<GroupDecision> {
        let stores = self.cache.view().stores;
        let leaves = match stores.groups.get(group) {
            Some(_) => vec![group.clone()],
            None => GroupForest::of(stores, self.options.gates.groups)
                .leaves(&GroupRef::Composite(group.clone())),
        };
        let states = leaves.iter().filter_map(|leaf| stores.groups.get(leaf));
        let pods: Vec<PodKey> = states.flat_map(|state| state.pods().cloned()).collect();
        let first = pods.iter().find_map(|pod| {
            let id = self.names.find(pod).filter(|&id| !self.cache.knows(id))?;
            let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
            self.queue.pop_member(id, with)
        })?;
        let leaf = group_of(&first.pod)?;
        let so_far = self.group_decisions.len();
        self.attempt_group(now, &leaf, first, effects);
        if self.group_decisions.len() == so_far { None } else { self.group_decisions.pop() }
    }

    /// Tries the group of a pod that has left the queue, by the rules of the release.
    pub(crate) fn attempt_group(
        &mut self,
        now: Time,
        key: &ObjectKey,
        first: Attempt,
        effects: &mut Vec<Effect>,
    ) {
        self.cache.begin_group_cycle();
        match self.options.gates.groups.rules {
            GroupRules::V1_36 => self.attempt_as_1_36(now, key, first, effects),
            GroupRules::V1_37 => self.attempt_as_1_37(now, key, first, effects),
        }
        self.cache.end_group_cycle();
    }

    /// The root of the tree that a PodGroup is part of; the PodGroup itself if that cannot be said yet.
    fn root_of(&self, group: &ObjectKey) -> GroupRef {
        let forest = GroupForest::of(self.cache.view().stores, self.options.gates.groups);
        forest.root(group).unwrap_or_else(|_| GroupRef::Pods(group.clone()))
    }

    /// Begins the record of a cycle.
    fn begin_record(&mut self, group: &GroupRef) -> GroupDecision {
        let history = self.groups.entry(group.clone()).or_default();
        history.attempts += 1;
        GroupDecision::new(group, history.attempts, GroupResult::Error)
    }

    /// Leaves out members that are being deleted. `None` if nothing is left to be tried, which the record then says.
    fn leave_out(
        &mut self,
        members: Vec<Attempt>,
        decision: &mut GroupDecision,
        effects: &mut Vec<Effect>,
    ) -> Option<Vec<Attempt>> {
        let mut tried = Vec::new();
        for attempt in members {
            let is_skipped = self.skips(&attempt, effects);
            let skipped = MemberDecision::skipped(attempt.pod.key.clone());
            match is_skipped {
                true => self.note_skipped(&skipped),
                false => tried.push(attempt),
            }
            decision.pods.push(skipped);
        }
        if tried.is_empty() {
            decision.result = GroupResult::Unschedulable;
            return None;
        }
        Some(tried)
    }

    /// Counts a cycle that has ended.
    fn count_group(&mut self, first: &PodInfo, result: GroupResult, lap: Lap) {
        let profile = self.profile_of(first).index;
        let result = match result {
            GroupResult::Scheduled => GroupAttemptResult::Scheduled,
            GroupResult::Preempting => GroupAttemptResult::WaitingOnPreemption,
            GroupResult::Error => GroupAttemptResult::Error,
            GroupResult::Unschedulable | GroupResult::Waiting => GroupAttemptResult::Unschedulable,
        };
        self.counts.group_ended(profile, result, lap);
    }
}

/// The error if not all members belong to the same profile. As in schedule_one_podgroup.go.
fn differing_names<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = names.next()?;
    let other = names.find(|name| *name != first)?;
    Some(format!(
        "all pods in a single pod group should have the same .spec.schedulerName set, got: {other:?} and {first:?}"
    ))
}
