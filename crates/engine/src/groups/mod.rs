//! Groups of pods: units with several members.
//!
//! The queue knows the members, not the group: when one of them has its turn, the others leave the queue with it, and the
//! group is decided as a whole. Each placement of the group is [tried](trial) on the cluster and taken back. What the trials
//! come to is then [carried out](submit): all members that fit are bound, or none. As in schedule_one_podgroup.go of 1.36.

mod decision;
mod preemption;
mod submit;
mod trial;

use std::collections::BTreeMap;

use plimsoll_api::pod_group::GroupCondition;
use plimsoll_api::{ObjectKey, Pod, PodGroup, PodKey};
use plimsoll_framework::events::Object;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{
    Action, Change, ClusterEvent, GroupInCycle, GroupPlacement, MAX_NODE_SCORE, PodInfo, Point,
    ProposedPlacement, Time,
};

pub use self::decision::{
    GroupDecision, GroupResult, MemberDecision, MemberResult, PlacementDecision,
};
use self::trial::{Trial, TrialResult};
use crate::effect::Effect;
use crate::metrics::GroupAttemptResult;
use crate::names::PodId;
use crate::queue::{Attempt, Audience, QueuePlace, Surroundings};
use crate::scheduler::{Detail, Scheduler};

/// The text of a group that does not fit.
const UNSCHEDULABLE: &str = "pod group is unschedulable";
const WAITING: &str = "pod group is waiting for preemption to complete";
const NO_PLACEMENTS: &str = "no feasible placements found";
const EXTENDERS: &str = "pods of a group cannot be decided with extenders yet: take the group out of the pods, or the \
     extender out of the configuration";
const NOT_REGISTERED: &str =
    "default preemption plugin is not registered, workload aware preemption is disabled";

/// What is known of groups beside their objects and pods.
pub(crate) type Groups = BTreeMap<ObjectKey, GroupHistory>;

/// What is known of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupHistory {
    /// How many cycles it has had.
    attempts: u32,
    /// Its condition as it was written last.
    condition: Option<GroupCondition>,
}

/// The scores of a placement, times weight, by plugin.
type PlacementScores = Vec<(&'static str, i64)>;

/// A group in its cycle.
struct GroupCycle {
    key: ObjectKey,
    object: Option<PodGroup>,
    /// The members that are tried, in order.
    attempts: Vec<Attempt>,
    /// The same.
    pods: Vec<PodInfo>,
}

impl GroupCycle {
    fn in_cycle(&self) -> GroupInCycle<'_> {
        GroupInCycle { key: &self.key, object: self.object.as_ref(), members: &self.pods }
    }
}

/// What was decided about a group.
struct GroupOutcome {
    result: TrialResult,
    /// The status text of the group, unless it is scheduled.
    text: String,
    /// The trial on the placement that was chosen, or on the first one.
    trial: Trial,
    placements: Vec<PlacementDecision>,
    placement: Option<plimsoll_api::Str>,
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

    /// Forgets the name of a pod.
    pub(crate) fn forget_pod(&mut self, id: PodId) {
        let group = group_of(&self.names[id]);
        if let Some(group) = group {
            let reads = plimsoll_framework::parts::StoreReads::GROUPS;
            let groups = &mut self.cache.stores_mut(reads).groups;
            groups.is_gone(&self.names[id]);
            if groups.get(&group).is_none() {
                self.groups.remove(&group);
            }
        }
        self.cache.pod_is_unknown(&self.names[id]);
        self.names.forget(id);
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

    /// The groups that have pending members and never had a cycle, by name, each with the reason why its first member is held
    /// back.
    pub fn waiting_groups(&self) -> Vec<GroupDecision> {
        let mut first = BTreeMap::<ObjectKey, (u64, String)>::new();
        for info in self.pending() {
            let Some(group) = group_of(&info.pod) else { continue };
            let QueuePlace::Gated { why, .. } = &info.place else { continue };
            let is_new = self.groups.get(&group).is_none_or(|known| known.attempts == 0);
            let is_first = first.get(&group).is_none_or(|(arrival, _)| info.arrival() < *arrival);
            if is_new && is_first {
                first.insert(group, (info.arrival(), why.to_string()));
            }
        }
        let decision = |(group, (_, message))| GroupDecision {
            message: Some(message),
            condition: self.condition_of(&group),
            ..GroupDecision::new(group, 1, GroupResult::Waiting)
        };
        first.into_iter().map(decision).collect()
    }

    /// Tries a group now, out of its turn, and returns the decision, which is carried out. `None` if none of its members can
    /// be tried: they are gated, or on nodes.
    pub fn try_group_now(
        &mut self,
        now: Time,
        group: &ObjectKey,
        effects: &mut Vec<Effect>,
    ) -> Option<GroupDecision> {
        let state = self.cache.view().stores.groups.get(group)?;
        let pods: Vec<PodKey> = state.pods().cloned().collect();
        let first = pods.iter().find_map(|pod| {
            let id = self.names.find(pod).filter(|&id| !self.cache.knows(id))?;
            let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
            self.queue.pop_member(id, with)
        })?;
        self.attempt_group(now, group.clone(), first, effects);
        self.group_decisions.pop()
    }

    /// Tries the group of a pod that has left the queue.
    pub(crate) fn attempt_group(
        &mut self,
        now: Time,
        key: ObjectKey,
        first: Attempt,
        effects: &mut Vec<Effect>,
    ) {
        let members = self.take_members(&key, first);
        let history = self.groups.entry(key.clone()).or_default();
        history.attempts += 1;
        let number = history.attempts;
        let mut decision = GroupDecision::new(key.clone(), number, GroupResult::Error);
        if let Some(error) = differing_names(&members) {
            for attempt in &members {
                decision.pods.push(MemberDecision::error(attempt.pod.key.clone(), error.clone()));
                self.member_errs(now, attempt, error.clone(), effects);
            }
            self.log_group(decision);
            return;
        }
        let mut tried = Vec::new();
        for attempt in members {
            let is_skipped = self.skips(&attempt, effects);
            decision.pods.push(MemberDecision::skipped(attempt.pod.key.clone()));
            if !is_skipped {
                tried.push(attempt);
            }
        }
        if tried.is_empty() {
            decision.result = GroupResult::Unschedulable;
            self.log_group(decision);
            return;
        }
        if tried.iter().any(|attempt| self.extenders.to_ask(&attempt.pod).is_some()) {
            for (attempt, told) in tried.iter().zip(&mut decision.pods) {
                *told = MemberDecision::error(attempt.pod.key.clone(), EXTENDERS.to_owned());
                self.member_errs(now, attempt, EXTENDERS.to_owned(), effects);
            }
            self.log_group(decision);
            return;
        }
        let object = self.cache.view().stores.of::<PodGroup>().get(&key).cloned();
        let pods = tried.iter().map(|attempt| attempt.pod.clone()).collect();
        let object = object.map(|object| PodGroup::clone(&object));
        let group = GroupCycle { key, object, attempts: tried, pods };
        let lap = self.counts.start();
        let mut outcome = self.decide_group(now, &group, effects);
        self.counts.group_searched(lap);
        let mut victims = self.preempt_for_group(now, &group, &mut outcome, effects);
        victims.extend(outcome.trial.victims().cloned());
        victims.sort();
        victims.dedup();
        decision.victims = victims;
        decision.placement.clone_from(&outcome.placement);
        decision.placements = std::mem::take(&mut outcome.placements);
        self.submit_group(now, &group, outcome, &mut decision, effects);
        let profile = self.profile_of(&group.pods[0]).index;
        let result = match decision.result {
            GroupResult::Scheduled => GroupAttemptResult::Scheduled,
            GroupResult::Preempting => GroupAttemptResult::WaitingOnPreemption,
            GroupResult::Error => GroupAttemptResult::Error,
            GroupResult::Unschedulable | GroupResult::Waiting => GroupAttemptResult::Unschedulable,
        };
        self.counts.group_ended(profile, result, lap);
        self.log_group(decision);
    }

    /// Takes the other members out of the queue, and returns all in the order in which they are tried: by priority, then by
    /// arrival.
    fn take_members(&mut self, key: &ObjectKey, first: Attempt) -> Vec<Attempt> {
        let state = self.cache.view().stores.groups.get(key);
        let pods: Vec<PodKey> = state.into_iter().flat_map(|state| state.pods().cloned()).collect();
        let mut members = vec![first];
        for pod in pods {
            let id = self.names.find(&pod).filter(|&id| !self.cache.knows(id));
            let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
            members.extend(id.and_then(|id| self.queue.pop_member(id, with)));
        }
        let arrival = |id| self.queue.get(id).map_or(0, crate::QueuedPodInfo::arrival);
        members.sort_by_key(|one| (std::cmp::Reverse(one.pod.priority), arrival(one.id)));
        members
    }

    /// Decides a group. Only evictions for single members have effects already.
    fn decide_group(
        &mut self,
        now: Time,
        group: &GroupCycle,
        effects: &mut Vec<Effect>,
    ) -> GroupOutcome {
        if !self.options.gates.groups.topology_aware {
            let trial = self.try_group(now, group, None, Some(effects));
            return GroupOutcome::of(trial, UNSCHEDULABLE.to_owned());
        }
        let placements = match self.placements_of(group) {
            Ok(placements) => placements,
            Err(error) => {
                let trial = Trial::untried(group, TrialResult::Error(error.clone()));
                return GroupOutcome::of(trial, error);
            }
        };
        let Some(placements) = placements else {
            let trial = self.try_group(now, group, None, Some(effects));
            return GroupOutcome::of(trial, none_of(1));
        };
        if placements.is_empty() {
            let trial = Trial::untried(group, TrialResult::Unschedulable);
            return GroupOutcome::of(trial, NO_PLACEMENTS.to_owned());
        }
        self.choose_placement(now, group, placements, effects)
    }

    /// The placements that the plugin of the profile generates, by name; `None` for that of all nodes.
    fn placements_of(&self, group: &GroupCycle) -> Result<Option<Vec<GroupPlacement>>, String> {
        let view = self.cache.view();
        let profile = self.profile_of(&group.pods[0]);
        let mut points = profile.at(Point::PlacementGenerate);
        let point = points.find_map(|(plugin, _)| plugin.points.placement_generate.as_ref());
        let Some(point) = point else { return Ok(None) };
        let all: Vec<_> = view.nodes.rows().collect();
        let placements = point.placements(&group.in_cycle(), &all, &view);
        let mut placements = placements.map_err(|error| error.to_string())?;
        if let Some(placements) = &mut placements {
            placements.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Ok(placements)
    }

    /// Tries all placements, and chooses the one with the highest score among those on which the group fits.
    fn choose_placement(
        &mut self,
        now: Time,
        group: &GroupCycle,
        placements: Vec<GroupPlacement>,
        effects: &mut Vec<Effect>,
    ) -> GroupOutcome {
        let mut tried: Vec<(GroupPlacement, Trial)> = Vec::new();
        let of = |placement: &GroupPlacement| PlacementDecision::new(placement.name.clone());
        let mut decisions: Vec<_> = placements.iter().map(of).collect();
        for placement in placements {
            let trial = self.try_group(now, group, Some(&placement.rows), Some(effects));
            if let TrialResult::Error(error) = &trial.result {
                let error = error.clone();
                return GroupOutcome { placements: decisions, ..GroupOutcome::of(trial, error) };
            }
            tried.push((placement, trial));
        }
        let fits = |(_, trial): &(GroupPlacement, Trial)| {
            matches!(trial.result, TrialResult::Success | TrialResult::WaitsOnPreemption)
        };
        let feasible: Vec<usize> = (0..tried.len()).filter(|&place| fits(&tried[place])).collect();
        let chosen = match feasible.as_slice() {
            [] => {
                let text = none_of(tried.len());
                let (_, trial) = tried.swap_remove(0);
                return GroupOutcome { placements: decisions, ..GroupOutcome::of(trial, text) };
            }
            &[only] => only,
            _ => {
                let proposed: Vec<_> = feasible.iter().map(|&place| &tried[place]).collect();
                match self.score_placements(group, &proposed) {
                    Ok(scores) => {
                        let mut best = (feasible[0], i64::MIN);
                        for (&place, scores) in feasible.iter().zip(scores) {
                            let score = scores.iter().map(|(_, score)| score).sum();
                            decisions[place].score = Some(score);
                            if self.options.detail == Detail::Nodes {
                                decisions[place].scores = scores;
                            }
                            if best.1 < score {
                                best = (place, score);
                            }
                        }
                        best.0
                    }
                    Err(error) => {
                        let trial = Trial::untried(group, TrialResult::Error(error.clone()));
                        return GroupOutcome {
                            placements: decisions,
                            ..GroupOutcome::of(trial, error)
                        };
                    }
                }
            }
        };
        let (placement, trial) = tried.swap_remove(chosen);
        GroupOutcome {
            placements: decisions,
            placement: Some(placement.name),
            ..GroupOutcome::of(trial, UNSCHEDULABLE.to_owned())
        }
    }

    /// The scores of placements, times weight, by plugin.
    fn score_placements(
        &self,
        group: &GroupCycle,
        proposed: &[&(GroupPlacement, Trial)],
    ) -> Result<Vec<PlacementScores>, String> {
        let view = self.cache.view();
        let profile = self.profile_of(&group.pods[0]);
        let mut all = vec![PlacementScores::new(); proposed.len()];
        for (plugin, weight) in profile.at(Point::PlacementScore) {
            let Some(point) = &plugin.points.placement_score else { continue };
            let failed =
                |error| format!("running PlacementScore plugin {:?}: {error}", plugin.name);
            let score = |(placement, trial): &(GroupPlacement, Trial)| {
                let proposed = ProposedPlacement { placement, members: &trial.proposed };
                point.score(&group.in_cycle(), &proposed, &view)
            };
            let scores: Result<Vec<i64>, _> = proposed.iter().map(|one| score(one)).collect();
            let mut scores = scores.map_err(failed)?;
            point.normalize(&mut scores).map_err(failed)?;
            let is_outside = |score: &&i64| !(0..=MAX_NODE_SCORE).contains(*score);
            if let Some(score) = scores.iter().find(is_outside) {
                let text = format!(
                    "invalid score {score}, it should be in the range of [0, {MAX_NODE_SCORE}]"
                );
                return Err(failed(text.into()));
            }
            for (of_placement, score) in all.iter_mut().zip(scores) {
                of_placement.push((plugin.name, score * weight));
            }
        }
        Ok(all)
    }
}

impl GroupOutcome {
    /// The outcome of a trial; `text` says why the group does not fit, if it does not.
    fn of(trial: Trial, text: String) -> Self {
        let result = trial.result.clone();
        let text = match &result {
            TrialResult::Success => String::new(),
            TrialResult::WaitsOnPreemption => format!("{UNSCHEDULABLE}, {WAITING}"),
            TrialResult::Unschedulable => text,
            TrialResult::Error(error) => error.clone(),
        };
        GroupOutcome { result, text, trial, placements: Vec::new(), placement: None }
    }
}

fn none_of(n: usize) -> String {
    format!("0/{n} placements are available, first placement status: {UNSCHEDULABLE}")
}

/// The error if not all members belong to the same profile. As in schedule_one_podgroup.go.
fn differing_names(members: &[Attempt]) -> Option<String> {
    let first = &members.first()?.pod.scheduler_name;
    let other = members.iter().map(|one| &one.pod.scheduler_name).find(|name| *name != first)?;
    Some(format!(
        "all pods in a single pod group should have the same .spec.schedulerName set, got: {other:?} and {first:?}"
    ))
}
