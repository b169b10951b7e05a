//! The rules of 1.36, for `scheduling.k8s.io/v1alpha2`. As in schedule_one_podgroup.go of 1.36.
//!
//! The queue knows the members, not the group: when one of them has its turn, the others leave the queue with it. A group fits
//! once Permit is content with one of its members on the cluster with those before it. Members may evict by themselves.

use std::cmp::Reverse;
use std::sync::Arc;

use plimsoll_api::pod_group::GroupCondition;
use plimsoll_api::{ObjectKey, PodGroup, PodKey, Str};
use plimsoll_framework::{GroupPostFilterAnswer, GroupRef, PodInfo, Row, Time};

use crate::binding::Unbound;
use crate::cycle::{self, AttemptFailure};
use crate::effect::Effect;
use crate::groups::decision::{
    GroupDecision, GroupResult, MemberDecision, MemberResult, PlacementDecision,
};
use crate::groups::submit::Nominates;
use crate::groups::trial::{MemberChoice, MemberTrial, Permits, Placed, Purpose};
use crate::groups::{GroupCycle, NO_PLACEMENTS, differing_names};
use crate::queue::{Attempt, Surroundings};
use crate::scheduler::{Detail, Scheduler};

/// The text of a group that does not fit.
pub(super) const UNSCHEDULABLE: &str = "pod group is unschedulable";
const WAITING: &str = "pod group is waiting for preemption to complete";
const NOT_REGISTERED: &str =
    "default preemption plugin is not registered, workload aware preemption is disabled";
/// What all members of a group are told that are waiting at Permit.
const WAITS: &str = "one or more plugins asked to wait and no plugin rejected pod";

/// What was decided about a group.
pub(in crate::groups) struct GroupOutcome {
    pub(in crate::groups) result: TrialResult,
    /// The status text of the group, unless it is scheduled.
    pub(in crate::groups) text: String,
    /// The trial on the placement that was chosen, or on the first one.
    pub(in crate::groups) trial: Trial,
    pub(in crate::groups) placements: Vec<PlacementDecision>,
    pub(in crate::groups) placement: Option<Str>,
}

/// A trial of a group on one placement.
pub(in crate::groups) struct Trial {
    pub(in crate::groups) result: TrialResult,
    /// What it came to for each member, in their order.
    pub(in crate::groups) members: Vec<MemberTrial>,
    /// The members that got a node.
    pub(in crate::groups) proposed: Vec<(PodInfo, Row)>,
    /// What the members wait for that fit, if the group does not.
    pub(in crate::groups) waits_for: String,
    /// For each member that got a node, whether Permit was content with it or with one before it.
    pub(super) permits: Vec<bool>,
}

/// What a trial came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::groups) enum TrialResult {
    /// The group fits.
    Success,
    /// It will fit once the victims of some members are gone.
    WaitsOnPreemption,
    /// It does not fit.
    Unschedulable,
    /// It could not be judged.
    Error(String),
}

impl Trial {
    /// A trial in which no member was tried.
    pub(super) fn untried(group: &GroupCycle, result: TrialResult) -> Self {
        let members = group.attempts.iter().map(|_| MemberTrial::Untried).collect();
        let (proposed, waits_for) = (Vec::new(), String::new());
        Trial { result, members, proposed, waits_for, permits: Vec::new() }
    }

    /// Whether the group fits, if need be once the victims of its members are gone.
    pub(super) fn fits(&self) -> bool {
        matches!(self.result, TrialResult::Success | TrialResult::WaitsOnPreemption)
    }

    /// The victims of members that evict by themselves.
    fn victims(&self) -> impl Iterator<Item = &PodKey> {
        let failures = self.members.iter().filter_map(|member| match member {
            MemberTrial::NeedsPreemption { failure, .. } => failure.nomination.as_ref(),
            _ => None,
        });
        failures.flat_map(|nomination| &nomination.victims)
    }
}

impl Scheduler {
    /// Tries the group of a pod that has left the queue.
    pub(in crate::groups) fn attempt_as_1_36(
        &mut self,
        now: Time,
        key: &ObjectKey,
        first: Attempt,
        effects: &mut Vec<Effect>,
    ) {
        let members = self.take_members(key, first);
        let root = GroupRef::Pods(key.clone());
        self.has_turn(&root, &members);
        if self.join_cycle(&root, &members) {
            return;
        }
        let decision = self.begin_record(&root);
        self.cycle_as_1_36(now, key, members, decision, effects);
    }

    /// Runs the cycle of a group, up to its end or to questions to extenders.
    pub(in crate::groups) fn cycle_as_1_36(
        &mut self,
        now: Time,
        key: &ObjectKey,
        mut members: Vec<Attempt>,
        mut decision: GroupDecision,
        effects: &mut Vec<Effect>,
    ) {
        let arrival = |id| self.queue.get(id).map_or(0, crate::QueuedPodInfo::arrival);
        members.sort_by_key(|one| (Reverse(one.pod.priority), arrival(one.id)));
        let root = GroupRef::Pods(key.clone());
        if let Some(error) =
            differing_names(members.iter().map(|one| one.pod.scheduler_name.as_str()))
        {
            for attempt in &members {
                decision.pods.push(MemberDecision::error(attempt.pod.key.clone(), error.clone()));
                self.member_errs(now, attempt, error.clone(), effects);
            }
            self.has_had_turn(now, &root, decision.result);
            self.log_group(decision);
            return;
        }
        if self.lines_up(&root, &members, &decision) {
            return;
        }
        let Some(tried) = self.leave_out(members, &mut decision, effects) else {
            self.has_had_turn(now, &root, decision.result);
            self.log_group(decision);
            return;
        };
        let object = self.cache.view().stores.of::<PodGroup>().get(key).cloned();
        let object = object.map(|object| PodGroup::clone(&object));
        let group = GroupCycle::single(key.clone(), object, tried);
        let lap = self.cycle_began();
        let mut outcome = self.decide_group(now, &group, (Purpose::Cycle, Some(effects)));
        self.counts.group_searched(lap);
        let preempts = self.make_room(now, &group, &mut outcome);
        if self.awaits_extenders() {
            return;
        }
        let clearings = self.consulting.take().map(|consulting| consulting.into_clearings());
        for (member, nomination, plugin) in clearings.unwrap_or_default() {
            self.clear_way(now, &group.attempts[member], &nomination, plugin, effects);
        }
        let mut victims = Vec::new();
        if let Some((plugin, of_group)) = preempts {
            self.evict_for_group(now, &group, (plugin, &of_group, 0), effects);
            victims = of_group;
        }
        victims.extend(outcome.trial.victims().cloned());
        victims.sort();
        victims.dedup();
        decision.victims = victims;
        decision.placement.clone_from(&outcome.placement);
        decision.placements = std::mem::take(&mut outcome.placements);
        self.submit_group(now, &group, outcome, &mut decision, effects);
        self.count_group(&group.pods[0], decision.result, lap);
        self.may_reserve(now, &group, decision.result);
        self.has_had_turn(now, &root, decision.result);
        self.log_group(decision);
    }

    /// Takes the other members out of the queue, and returns all.
    fn take_members(&mut self, key: &ObjectKey, first: Attempt) -> Vec<Attempt> {
        let state = self.cache.view().stores.groups.get(key);
        let pods: Vec<PodKey> = state.into_iter().flat_map(|state| state.pods().cloned()).collect();
        let mut members = vec![first];
        for pod in pods {
            let id = self.names.find(&pod).filter(|&id| !self.cache.knows(id));
            let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
            members.extend(id.and_then(|id| self.queue.pop_member(id, with)));
        }
        members
    }

    /// What would be decided about a group if it had its turn now, and whom it would evict. No member evicts by itself.
    pub(in crate::groups) fn ask_as_1_36(
        &mut self,
        now: Time,
        group: &GroupCycle,
    ) -> (GroupOutcome, Vec<PodKey>) {
        let mut outcome = self.decide_group(now, group, (Purpose::Question, None));
        let victims = self.make_room(now, group, &mut outcome);
        (outcome, victims.map_or_else(Vec::new, |(_, victims)| victims))
    }

    /// Decides a group. Only evictions for single members have effects already, and only if it has its turn.
    fn decide_group(
        &mut self,
        now: Time,
        group: &GroupCycle,
        (purpose, effects): (Purpose, Option<&mut Vec<Effect>>),
    ) -> GroupOutcome {
        if !self.options.gates.groups.topology_aware {
            let trial = self.try_group_to_stay(now, group, None, (purpose, effects));
            return GroupOutcome::of(trial, UNSCHEDULABLE.to_owned());
        }
        let all: Vec<Row> = self.cache.view().nodes.rows().collect();
        let in_cycle = group.in_cycle(&group.root);
        let placements = match self.placements_of(&group.pods[0], &in_cycle, &all) {
            Ok(placements) => placements,
            Err(error) => {
                let trial = Trial::untried(group, TrialResult::Error(error.clone()));
                return GroupOutcome::of(trial, error);
            }
        };
        let Some(placements) = placements else {
            let trial = self.try_group_to_stay(now, group, None, (purpose, effects));
            return GroupOutcome::of(trial, none_of(1));
        };
        if placements.is_empty() {
            let trial = Trial::untried(group, TrialResult::Unschedulable);
            return GroupOutcome::of(trial, NO_PLACEMENTS.to_owned());
        }
        self.choose_placement(now, group, placements, (purpose, effects))
    }

    /// Tries all members as [`Self::try_group`] does. If all of them fit, they stay on their nodes where they may.
    pub(super) fn try_group_to_stay(
        &mut self,
        now: Time,
        group: &GroupCycle,
        within: Option<&[Row]>,
        (purpose, effects): (Purpose, Option<&mut Vec<Effect>>),
    ) -> Trial {
        let (mut trial, placed) = self.place_members(now, group, within, (purpose, effects));
        let fits = trial.result == TrialResult::Success
            && purpose == Purpose::Cycle
            && !self.awaits_extenders();
        if !fits || !self.may_stay(&group.attempts, &placed) {
            self.take_all_back(now, placed);
            return trial;
        }
        let mut staying = self.stay(std::slice::from_ref(group.root.group.key()), placed);
        for member in &mut trial.members {
            if let MemberTrial::Fits { stays, .. } = member {
                *stays = staying.next();
            }
        }
        trial
    }

    /// Tries all members in their order, each on the cluster with those before it. As in schedule_one_podgroup.go,
    /// podGroupSchedulingDefaultAlgorithm. Without `effects` PostFilter plugins are not asked.
    pub(in crate::groups) fn try_group(
        &mut self,
        now: Time,
        group: &GroupCycle,
        within: Option<&[Row]>,
        on: (Purpose, Option<&mut Vec<Effect>>),
    ) -> Trial {
        let (trial, placed) = self.place_members(now, group, within, on);
        self.take_all_back(now, placed);
        trial
    }

    /// The same, without taking the members back that got a node.
    fn place_members(
        &mut self,
        now: Time,
        group: &GroupCycle,
        within: Option<&[Row]>,
        (purpose, mut effects): (Purpose, Option<&mut Vec<Effect>>),
    ) -> (Trial, Vec<Placed>) {
        let within = within.filter(|rows| rows.len() < self.cache.view().nodes.len());
        let mut trial = Trial::untried(group, TrialResult::Unschedulable);
        let (mut placed, mut is_permitted, mut preempts) = (Vec::new(), false, false);
        for (place, attempt) in group.attempts.iter().enumerate() {
            let asks = effects.is_some();
            let (choice, cycle) = self.decide_on_trial(attempt, purpose, within, asks);
            let (row, failure) = match choice {
                MemberChoice::Node(row) => (row, None),
                MemberChoice::Nowhere(failure) => {
                    let cleared = failure.nomination.as_ref().filter(|_| effects.is_some());
                    let cleared = cleared.and_then(|nomination| self.cache.row(&nomination.node));
                    let Some(row) = cleared else {
                        trial.members[place] = MemberTrial::Unfit { failure, cycle };
                        continue;
                    };
                    if let (Some(effects), Some(nomination)) = (&mut effects, &failure.nomination) {
                        let plugin = failure.nominated_by;
                        match &mut self.consulting {
                            // The cycle may run again.
                            Some(consulting) => {
                                consulting.clears((place, nomination.clone(), plugin));
                            }
                            None => self.clear_way(now, attempt, nomination, plugin, effects),
                        }
                    }
                    (row, Some(failure))
                }
                MemberChoice::Error(error) => {
                    trial.members[place] = MemberTrial::Error(error.clone());
                    trial.result = failed(&error);
                    break;
                }
            };
            let waits_for = match self.place_on_trial(
                now,
                attempt,
                (row, cycle.shared.clone()),
                Permits::Asked,
                &mut placed,
            ) {
                Ok(waits_for) => waits_for,
                Err(Unbound::Rejected { plugin, why }) => {
                    let failure = Box::new(cycle::rejected_on_its_node(plugin, &why));
                    trial.members[place] = MemberTrial::Unfit { failure, cycle };
                    continue;
                }
                Err(Unbound::TooLate(why)) => {
                    trial.members[place] = MemberTrial::Error(why.to_string());
                    trial.result = failed(&why.to_string());
                    break;
                }
                Err(Unbound::Error(error)) => {
                    trial.members[place] = MemberTrial::Error(error.clone());
                    trial.result = failed(&error);
                    break;
                }
            };
            trial.proposed.push((attempt.pod.clone(), row));
            match waits_for {
                None => is_permitted = true,
                Some(waits_for) => trial.waits_for = waits_for,
            }
            trial.permits.push(is_permitted);
            preempts |= failure.is_some();
            trial.members[place] = match failure {
                None => MemberTrial::Fits { row, cycle, stays: None },
                Some(failure) => MemberTrial::NeedsPreemption { failure, cycle },
            };
        }
        if is_permitted && trial.result == TrialResult::Unschedulable {
            trial.result = match preempts {
                false => TrialResult::Success,
                true => TrialResult::WaitsOnPreemption,
            };
        }
        (trial, placed)
    }

    /// Looks for pods to evict if the group does not fit. Returns them, with the plugin that found them. As in
    /// schedule_one_podgroup.go, runWorkloadAwarePreemption.
    fn make_room(
        &mut self,
        now: Time,
        group: &GroupCycle,
        outcome: &mut GroupOutcome,
    ) -> Option<(&'static str, Vec<PodKey>)> {
        if !self.options.gates.groups.preemption || outcome.result != TrialResult::Unschedulable {
            return None;
        }
        let not_registered = GroupPostFilterAnswer::Unschedulable(NOT_REGISTERED.into());
        match self.ask_group_post_filter(now, group).unwrap_or(("", not_registered)) {
            (plugin, GroupPostFilterAnswer::Preempts { victims, .. }) => {
                outcome.result = TrialResult::WaitsOnPreemption;
                return Some((plugin, victims));
            }
            (_, GroupPostFilterAnswer::Unschedulable(why)) => {
                outcome.text = format!("{}, {why}", outcome.text);
            }
            (_, GroupPostFilterAnswer::Error(why)) => {
                outcome.text = why.to_string();
                outcome.result = TrialResult::Error(why.to_string());
            }
        }
        None
    }

    /// Binds the members, or puts them back into the queue. As in schedule_one_podgroup.go,
    /// submitPodGroupAlgorithmResult.
    fn submit_group(
        &mut self,
        now: Time,
        group: &GroupCycle,
        outcome: GroupOutcome,
        decision: &mut GroupDecision,
        effects: &mut Vec<Effect>,
    ) {
        let GroupOutcome { result, text, trial, .. } = outcome;
        let waits_for = match trial.waits_for.as_str() {
            "" => WAITS.to_owned(),
            reasons => format!("{reasons}, {WAITS}"),
        };
        let mut members_told = Vec::with_capacity(group.attempts.len());
        for (attempt, member) in group.attempts.iter().zip(trial.members) {
            let is_error = matches!(result, TrialResult::Error(_));
            let nodes = match self.options.detail {
                Detail::Nodes => self.nodes_of(&member),
                _ => Vec::new(),
            };
            let decided = match (member, &result) {
                (MemberTrial::Error(error), _) => {
                    let text = if is_error { error } else { text.clone() };
                    self.member_errs(now, attempt, text.clone(), effects);
                    MemberResult::Error { message: text }
                }
                (_, TrialResult::Error(_)) => {
                    self.member_errs(now, attempt, text.clone(), effects);
                    MemberResult::Error { message: text.clone() }
                }
                (MemberTrial::Fits { row, cycle, stays }, TrialResult::Success) => {
                    self.member_fits(now, attempt, (row, stays), cycle, effects)
                }
                (MemberTrial::Unfit { failure, cycle }, _) => {
                    let cycle = Arc::unwrap_or_clone(cycle);
                    self.member_is_unfit(now, attempt, *failure, cycle, effects)
                }
                (MemberTrial::Fits { row, .. }, TrialResult::WaitsOnPreemption) => {
                    let node = self.cache.view().nodes.name_of(row).clone();
                    let failure =
                        AttemptFailure { message: text.clone(), ..AttemptFailure::default() };
                    self.member_waits(now, attempt, failure, Nominates::To(node), effects)
                }
                (
                    MemberTrial::NeedsPreemption { failure, .. },
                    TrialResult::WaitsOnPreemption | TrialResult::Success,
                ) => {
                    let node =
                        failure.nomination.as_ref().map(|nomination| nomination.node.clone());
                    self.member_preempts(now, attempt, *failure, node, effects)
                }
                (
                    MemberTrial::Fits { .. } | MemberTrial::NeedsPreemption { .. },
                    TrialResult::Unschedulable,
                ) => {
                    let message = format!("{UNSCHEDULABLE}, {waits_for}");
                    let failure = AttemptFailure { message, ..AttemptFailure::default() };
                    self.member_waits(now, attempt, failure, Nominates::Nothing, effects)
                }
                (MemberTrial::Untried, _) => {
                    let failure =
                        AttemptFailure { message: text.clone(), ..AttemptFailure::default() };
                    self.member_waits(now, attempt, failure, Nominates::Nothing, effects)
                }
            };
            let pod = attempt.pod.key.clone();
            members_told.push(MemberDecision { pod, result: decided, nodes });
        }
        decision.tell(members_told);
        decision.result = match result {
            TrialResult::Success => GroupResult::Scheduled,
            TrialResult::WaitsOnPreemption => GroupResult::Preempting,
            TrialResult::Unschedulable => GroupResult::Unschedulable,
            TrialResult::Error(_) => GroupResult::Error,
        };
        if decision.result != GroupResult::Scheduled {
            decision.placement = None;
        }
        let reason = match decision.result {
            GroupResult::Scheduled => "Scheduled",
            GroupResult::Error => "SchedulerError",
            _ => "Unschedulable",
        };
        let is_true = decision.result == GroupResult::Scheduled;
        let condition = GroupCondition { is_true, reason: Str::const_new(reason), message: text };
        self.set_group_condition((&group.root, &group.pods[0]), condition, effects);
    }
}

impl GroupOutcome {
    /// The outcome of a trial; `text` says why the group does not fit, if it does not.
    pub(super) fn of(trial: Trial, text: String) -> Self {
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

pub(super) fn none_of(n: usize) -> String {
    format!("0/{n} placements are available, first placement status: {UNSCHEDULABLE}")
}

/// The text of a dry run in which the group does not fit.
pub(in crate::groups) fn misfit(topology_aware: bool) -> String {
    if topology_aware { none_of(1) } else { UNSCHEDULABLE.to_owned() }
}

fn failed(error: &str) -> TrialResult {
    TrialResult::Error(format!("failed to schedule other pod from a pod group: {error}"))
}
