//! Carries out what was decided about a group.

use std::sync::Arc;

use plimsoll_api::pod_group::GroupCondition;
use plimsoll_api::{PodGroup, Str};
use plimsoll_framework::{Description, GroupRef, GroupRules, PodInfo, Row, Time};

use super::decision::{GroupDecision, MemberResult};
use super::tree::GroupNode;
use super::trial::MemberTrial;
use crate::binding::BindingCycle;
use crate::cycle::{self, AttemptFailure, Cycle, CycleResult, FailureReason};
use crate::decision::NodeDecision;
use crate::effect::{Effect, GroupConditionWrite, Write};
use crate::explain::nodes;
use crate::queue::Attempt;
use crate::scheduler::{Detail, Scheduler};

/// What becomes of the nomination of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Nominates {
    /// The member is nominated to this node.
    To(Str),
    /// It is nominated no longer.
    Nothing,
    /// It stays as it is.
    AsBefore,
}

impl Scheduler {
    /// Every node that was judged for a member.
    pub(super) fn nodes_of(&self, member: &MemberTrial) -> Vec<NodeDecision> {
        match member {
            MemberTrial::Fits { cycle, .. }
            | MemberTrial::Unfit { cycle, .. }
            | MemberTrial::NeedsPreemption { cycle, .. } => nodes(cycle, self.cache.view()),
            MemberTrial::Error(_) | MemberTrial::Untried => Vec::new(),
        }
    }

    /// A member that fits: it is bound.
    pub(super) fn member_fits(
        &mut self,
        now: Time,
        attempt: &Attempt,
        (row, stays): (Row, Option<Box<BindingCycle>>),
        cycle: Arc<Cycle>,
        effects: &mut Vec<Effect>,
    ) -> MemberResult {
        let nodes = self.cache.view().nodes;
        let best = match &cycle.result {
            CycleResult::Found { best, .. } => cycle::names(nodes, best),
            CycleResult::Unschedulable(_) | CycleResult::Error(_) => Vec::new(),
        };
        let node = nodes.name_of(row).clone();
        match stays {
            Some(binding) => self.place_staying(now, attempt, binding, &cycle, effects),
            None => self.place(now, attempt, row, Arc::unwrap_or_clone(cycle), effects),
        }
        MemberResult::Scheduled { node, best }
    }

    /// A member that does not fit.
    pub(super) fn member_is_unfit(
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
    pub(super) fn member_preempts(
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
        let is_new = node.clone().is_some_and(|node| self.nominate_member(attempt, node, effects));
        self.fail(now, attempt.id, &attempt.pod, failure, effects);
        if is_new {
            self.queue.nominates();
        }
        MemberResult::Unschedulable { message, nominated: node }
    }

    /// A member that would fit, or was not tried, while its group does not fit.
    pub(super) fn member_waits(
        &mut self,
        now: Time,
        attempt: &Attempt,
        failure: AttemptFailure,
        to: Nominates,
        effects: &mut Vec<Effect>,
    ) -> MemberResult {
        let message = failure.message.clone();
        self.log_member(attempt, &failure);
        let is_new = match to {
            Nominates::To(node) => self.nominate_member(attempt, node, effects),
            Nominates::Nothing => {
                self.withdraw(now, &attempt.pod, effects);
                false
            }
            Nominates::AsBefore => false,
        };
        self.fail(now, attempt.id, &attempt.pod, failure, effects);
        if is_new {
            self.queue.nominates();
        }
        let nominated = self.nominated.node_of(&attempt.pod.key).cloned();
        MemberResult::Unschedulable { message, nominated }
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

    /// Nominates a member to a node. Returns whether it was not nominated before.
    fn nominate_member(&mut self, attempt: &Attempt, node: Str, effects: &mut Vec<Effect>) -> bool {
        let is_new = self.nominated.node_of(&attempt.pod.key).is_none();
        self.nominated.set(attempt.pod.clone(), node.clone());
        self.write_nomination(&attempt.pod, Some(node), effects);
        is_new
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

    /// Writes the condition of a PodGroup if it changes. A true one stays as it is. Composite groups have none. The write is
    /// done for the pod `of`. As in updatePodGroupCondition.
    pub(super) fn set_group_condition(
        &mut self,
        (node, of): (&GroupNode, &PodInfo),
        condition: GroupCondition,
        effects: &mut Vec<Effect>,
    ) {
        let known = self.condition_of(&node.group);
        let is_kept = known.as_ref().is_some_and(|known| known.is_true || *known == condition);
        let Some(object) = node.object.as_ref().filter(|_| !is_kept) else { return };
        let write = GroupConditionWrite {
            group: object.key.clone(),
            kind: match self.options.gates.groups.rules {
                GroupRules::V1_36 => "PodGroupScheduled",
                GroupRules::V1_37 => "PodGroupInitiallyScheduled",
            },
            generation: object.generation,
            condition: condition.clone(),
        };
        self.groups.entry(node.group.clone()).or_default().condition = Some(condition);
        self.write(of, Write::GroupCondition(write), effects);
    }

    /// The condition of a group, as it was written or observed.
    pub(super) fn condition_of(&self, group: &GroupRef) -> Option<GroupCondition> {
        let GroupRef::Pods(key) = group else { return None };
        let object = self.cache.view().stores.of::<PodGroup>().get(key)?;
        let written = self.groups.get(group).and_then(|known| known.condition.clone());
        written.or_else(|| object.condition.clone())
    }

    /// Keeps the decision about a group.
    pub(super) fn log_group(&mut self, decision: GroupDecision) {
        if self.options.detail != Detail::None {
            let condition = self.condition_of(&decision.as_ref());
            let decision = GroupDecision { condition, ..decision };
            let now = self.cache.view().stores.now;
            for recorder in &mut self.recorders {
                recorder.decided_group(now, &decision);
            }
            self.group_decisions.push(decision);
        }
    }
}
