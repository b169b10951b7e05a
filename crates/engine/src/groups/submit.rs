//! Carries out what was decided about a group.

use plimsoll_api::pod_group::GroupCondition;
use plimsoll_api::{ObjectKey, PodGroup, Str};
use plimsoll_framework::{Description, Release, Row, Time};

use super::trial::{MemberTrial, TrialResult};
use super::{
    GroupCycle, GroupDecision, GroupOutcome, GroupResult, MemberDecision, MemberResult, Scheduler,
    UNSCHEDULABLE,
};
use crate::cycle::{self, AttemptFailure, Cycle, CycleResult, FailureReason};
use crate::decision::NodeDecision;
use crate::effect::{Effect, GroupConditionWrite, Write};
use crate::explain::nodes;
use crate::queue::Attempt;
use crate::scheduler::Detail;

/// What all members of a group are told that are waiting at Permit.
const WAITS: &str = "one or more plugins asked to wait and no plugin rejected pod";

impl Scheduler {
    /// Binds the members, or puts them back into the queue. As in schedule_one_podgroup.go,
    /// submitPodGroupAlgorithmResult.
    pub(super) fn submit_group(
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
                (MemberTrial::Fits { row, cycle }, TrialResult::Success) => {
                    self.member_fits(now, attempt, row, *cycle, effects)
                }
                (MemberTrial::Unfit { failure, cycle }, _) => {
                    self.member_is_unfit(now, attempt, *failure, *cycle, effects)
                }
                (MemberTrial::Fits { row, .. }, TrialResult::WaitsOnPreemption) => {
                    let node = self.cache.view().nodes.name_of(row).clone();
                    self.member_waits(now, attempt, text.clone(), Some(node), effects)
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
                    self.member_waits(now, attempt, message, None, effects)
                }
                (MemberTrial::Untried, _) => {
                    self.member_waits(now, attempt, text.clone(), None, effects)
                }
            };
            let key = &attempt.pod.key;
            if let Some(known) = decision.pods.iter_mut().find(|one| one.pod == *key) {
                *known = MemberDecision { pod: key.clone(), result: decided, nodes };
            }
        }
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
        self.set_group_condition(group, condition, effects);
    }

    /// Every node that was judged for a member.
    fn nodes_of(&self, member: &MemberTrial) -> Vec<NodeDecision> {
        match member {
            MemberTrial::Fits { cycle, .. }
            | MemberTrial::Unfit { cycle, .. }
            | MemberTrial::NeedsPreemption { cycle, .. } => nodes(cycle, self.cache.view()),
            MemberTrial::Error(_) | MemberTrial::Untried => Vec::new(),
        }
    }

    /// A member that fits: it is bound.
    fn member_fits(
        &mut self,
        now: Time,
        attempt: &Attempt,
        row: Row,
        cycle: Cycle,
        effects: &mut Vec<Effect>,
    ) -> MemberResult {
        let nodes = self.cache.view().nodes;
        let best = match &cycle.result {
            CycleResult::Found { best, .. } => cycle::names(nodes, best),
            CycleResult::Unschedulable(_) | CycleResult::Error(_) => Vec::new(),
        };
        let node = nodes.name_of(row).clone();
        self.place(now, attempt, row, cycle, effects);
        MemberResult::Scheduled { node, best }
    }

    /// A member that does not fit.
    fn member_is_unfit(
        &mut self,
        now: Time,
        attempt: &Attempt,
        failure: AttemptFailure,
        mut cycle: Cycle,
        effects: &mut Vec<Effect>,
    ) -> MemberResult {
        let pod = &attempt.pod;
        let message = failure.message.clone();
        self.log_member(attempt, &failure);
        self.count_preemption(pod, &failure);
        self.nominate(now, attempt, &failure, effects);
        if self.asks_post_filter(pod, &failure) {
            let told = (cycle.rejected.as_slice(), &mut cycle.shared);
            self.tell_after_post_filter(now, pod, &failure, told, effects);
        }
        self.fail(now, attempt.id, pod, failure, effects);
        let nominated = self.nominated.node_of(&pod.key).cloned();
        MemberResult::Unschedulable { message, nominated }
    }

    /// A member that waits for its own victims.
    fn member_preempts(
        &mut self,
        now: Time,
        attempt: &Attempt,
        failure: AttemptFailure,
        node: Option<Str>,
        effects: &mut Vec<Effect>,
    ) -> MemberResult {
        let message = failure.message.clone();
        self.log_member(attempt, &failure);
        self.count_preemption(&attempt.pod, &failure);
        self.nominate_member(attempt, node.clone(), effects);
        self.fail(now, attempt.id, &attempt.pod, failure, effects);
        MemberResult::Unschedulable { message, nominated: node }
    }

    /// A member that would fit, or was not tried, while its group does not fit. It is nominated to `node`, or no longer.
    fn member_waits(
        &mut self,
        now: Time,
        attempt: &Attempt,
        message: String,
        node: Option<Str>,
        effects: &mut Vec<Effect>,
    ) -> MemberResult {
        let failure = AttemptFailure { message: message.clone(), ..AttemptFailure::default() };
        self.log_member(attempt, &failure);
        match &node {
            Some(_) => self.nominate_member(attempt, node.clone(), effects),
            None => self.withdraw(now, &attempt.pod, effects),
        }
        self.fail(now, attempt.id, &attempt.pod, failure, effects);
        MemberResult::Unschedulable { message, nominated: node }
    }

    /// A member that could not be judged, or whose group could not.
    pub(super) fn member_errs(
        &mut self,
        now: Time,
        attempt: &Attempt,
        message: String,
        effects: &mut Vec<Effect>,
    ) {
        let failure = AttemptFailure::error(message);
        self.log_member(attempt, &failure);
        self.nominate(now, attempt, &failure, effects);
        self.fail(now, attempt.id, &attempt.pod, failure, effects);
    }

    fn nominate_member(&mut self, attempt: &Attempt, node: Option<Str>, effects: &mut Vec<Effect>) {
        if let Some(node) = node {
            self.nominated.set(attempt.pod.clone(), node.clone());
            self.write_nomination(&attempt.pod, Some(node), effects);
        }
    }

    fn log_member(&mut self, attempt: &Attempt, failure: &AttemptFailure) {
        let cycle = match failure.reason {
            FailureReason::Unschedulable => Cycle::failed(failure.clone(), 0),
            FailureReason::SchedulerError => {
                Cycle { result: CycleResult::Error(failure.message.clone()), ..Cycle::new() }
            }
        };
        self.log(attempt, &cycle, Description::default());
    }

    /// Writes the condition of a group if it changes. A true one stays as it is. As in updatePodGroupCondition.
    fn set_group_condition(
        &mut self,
        group: &GroupCycle,
        condition: GroupCondition,
        effects: &mut Vec<Effect>,
    ) {
        let known = self.condition_of(&group.key);
        let is_kept = known.as_ref().is_some_and(|known| known.is_true || *known == condition);
        let Some(object) = group.object.as_ref().filter(|_| !is_kept) else { return };
        let write = GroupConditionWrite {
            group: group.key.clone(),
            kind: match self.options.release {
                Release::V1_36 => "PodGroupScheduled",
                Release::V1_37 => "PodGroupInitiallyScheduled",
            },
            generation: object.generation,
            condition: condition.clone(),
        };
        self.groups.entry(group.key.clone()).or_default().condition = Some(condition);
        self.write(&group.pods[0], Write::GroupCondition(write), effects);
    }

    /// The condition of a group, as it was written or observed.
    pub(super) fn condition_of(&self, group: &ObjectKey) -> Option<GroupCondition> {
        let object = self.cache.view().stores.of::<PodGroup>().get(group)?;
        let written = self.groups.get(group).and_then(|known| known.condition.clone());
        written.or_else(|| object.condition.clone())
    }

    /// Keeps the decision about a group.
    pub(super) fn log_group(&mut self, decision: GroupDecision) {
        if self.options.detail != Detail::None {
            let condition = self.condition_of(&decision.group);
            self.group_decisions.push(GroupDecision { condition, ..decision });
        }
    }
}
