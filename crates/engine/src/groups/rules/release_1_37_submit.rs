//! What becomes of the members of a tree under the rules of 1.37. As in submitPodGroupAlgorithmResult.

use plimsoll_api::Str;
use plimsoll_api::pod_group::GroupCondition;
use plimsoll_framework::{GroupPostFilterAnswer, Time};

use super::release_1_37::Nominations;
use super::release_1_37_trial::{NodeStatus, Results};
use crate::cycle::AttemptFailure;
use crate::effect::Effect;
use crate::groups::decision::{
    GroupDecision, GroupResult, MemberDecision, MemberResult, SubgroupDecision,
};
use crate::groups::preemption::Room;
use crate::groups::submit::Nominates;
use crate::groups::trial::MemberTrial;
use crate::groups::{GroupCycle, GroupNode};
use crate::queue::{Attempt, CycleEnd};
use crate::scheduler::{Detail, Scheduler};

/// A group that does not fit, and what its members wait for.
struct Waits<'a> {
    status: &'a NodeStatus,
    nominations: &'a Nominations,
    /// Whether it waits for victims to go.
    on_preemption: bool,
}

impl Scheduler {
    /// Binds the members, or puts them back into the queue. `results` is complete, and `room` the answer about a tree that
    /// does not fit.
    pub(super) fn submit_as_1_37(
        &mut self,
        now: Time,
        group: &GroupCycle,
        (mut results, room): (Results, Room),
        decision: &mut GroupDecision,
        effects: &mut Vec<Effect>,
    ) -> CycleEnd {
        let mut nominations = Nominations::new();
        let mut on_preemption = false;
        match room {
            None => {}
            Some((
                plugin,
                GroupPostFilterAnswer::Preempts { victims, nominations: to, broken_budgets, says },
            )) => {
                let evicts = (plugin, victims.as_slice(), broken_budgets);
                self.evict_for_group(now, group, evicts, effects);
                decision.victims = victims;
                decision.broken_budgets = Some(broken_budgets);
                decision.victims.sort();
                nominations.extend(to);
                on_preemption = true;
                for result in results.values_mut() {
                    result.append(&says.to_string());
                }
            }
            Some((_, GroupPostFilterAnswer::Unschedulable(why))) => {
                for result in results.values_mut() {
                    result.append(&why.to_string());
                }
            }
            Some((_, GroupPostFilterAnswer::Error(why))) => {
                for result in results.values_mut() {
                    result.status = NodeStatus::Error(why.to_string());
                }
            }
        }
        let mut members_told = Vec::with_capacity(group.attempts.len());
        for node in group.root.all() {
            let mut result = results.remove(&node.number).expect("results are complete");
            let members = std::mem::take(&mut result.members);
            let waits = Waits { status: &result.status, nominations: &nominations, on_preemption };
            for (member, attempt) in members.into_iter().zip(&group.attempts[node.members.clone()])
            {
                let nodes = match self.options.detail {
                    Detail::Nodes => self.nodes_of(&member),
                    _ => Vec::new(),
                };
                let decided =
                    self.submit_member(now, attempt, (member, &result.untried), &waits, effects);
                let pod = attempt.pod.key.clone();
                members_told.push(MemberDecision { pod, result: decided, nodes });
            }
            let (outcome, message) = told(&result.status, on_preemption);
            if node.is_leaf() {
                let condition = condition(outcome, message.clone());
                self.set_group_condition((node, &group.pods[0]), condition, effects);
            }
            let placement = result.placement.filter(|_| outcome == GroupResult::Scheduled);
            if node.number == 0 {
                (decision.result, decision.placement) = (outcome, placement);
                decision.placements = result.placements;
                if decision.is_composite && !message.is_empty() {
                    decision.message = Some(message);
                }
            } else {
                decision.groups.push(SubgroupDecision {
                    group: node.group.key().clone(),
                    is_composite: !node.is_leaf(),
                    result: outcome,
                    message,
                    placement,
                    placements: result.placements,
                    condition: self.condition_of(&node.group),
                });
            }
        }
        decision.tell(members_told);
        match decision.result {
            GroupResult::Scheduled => CycleEnd::Scheduled,
            _ => CycleEnd::Failed,
        }
    }

    fn submit_member(
        &mut self,
        now: Time,
        attempt: &Attempt,
        (member, untried): (MemberTrial, &NodeStatus),
        waits: &Waits<'_>,
        effects: &mut Vec<Effect>,
    ) -> MemberResult {
        if let NodeStatus::Error(error) = waits.status {
            let text = match member {
                MemberTrial::Error(own) => own,
                _ => error.clone(),
            };
            self.member_errs(now, attempt, text.clone(), effects);
            return MemberResult::Error { message: text };
        }
        let to = waits.nominations.get(&attempt.pod.key).cloned();
        let to = to.map_or(Nominates::AsBefore, Nominates::To);
        match (member, waits.status) {
            (MemberTrial::Fits { row, cycle, stays }, NodeStatus::Success) => {
                self.member_fits(now, attempt, (row, stays), cycle, effects)
            }
            (MemberTrial::Fits { .. }, status) => {
                let to = if waits.on_preemption { to } else { Nominates::Nothing };
                self.member_waits(now, attempt, failure(status), to, effects)
            }
            (
                MemberTrial::Unfit { failure, .. } | MemberTrial::NeedsPreemption { failure, .. },
                _,
            ) => {
                // A nomination is of no use if there is no node at all.
                let to = match to {
                    Nominates::AsBefore if failure.hopeless => Nominates::Nothing,
                    to => to,
                };
                self.member_waits(now, attempt, *failure, to, effects)
            }
            (MemberTrial::Error(_) | MemberTrial::Untried, _) => {
                self.member_waits(now, attempt, failure(untried), to, effects)
            }
        }
    }

    /// Says in the conditions of all groups that the tree could not be judged.
    pub(super) fn set_error(&mut self, group: &GroupCycle, error: &str, effects: &mut Vec<Effect>) {
        let Some(first) = group.pods.first() else { return };
        let leaves: Vec<&GroupNode> =
            group.root.all().into_iter().filter(|node| node.is_leaf()).collect();
        for leaf in leaves {
            let condition = condition(GroupResult::Error, error.to_owned());
            self.set_group_condition((leaf, first), condition, effects);
        }
    }
}

/// The result of a group, and the text of its status.
pub(in crate::groups) fn told(status: &NodeStatus, on_preemption: bool) -> (GroupResult, String) {
    match status {
        NodeStatus::Success => (GroupResult::Scheduled, String::new()),
        NodeStatus::Unschedulable(misfit) if on_preemption => {
            (GroupResult::Preempting, misfit.text.clone())
        }
        NodeStatus::Unschedulable(misfit) => (GroupResult::Unschedulable, misfit.text.clone()),
        NodeStatus::Error(error) => (GroupResult::Error, error.clone()),
    }
}

fn condition(result: GroupResult, message: String) -> GroupCondition {
    let reason = match result {
        GroupResult::Scheduled => "Scheduled",
        GroupResult::Error => "SchedulerError",
        GroupResult::Preempting | GroupResult::Unschedulable | GroupResult::Waiting => {
            "Unschedulable"
        }
    };
    let is_true = result == GroupResult::Scheduled;
    GroupCondition { is_true, reason: Str::const_new(reason), message }
}

/// The failure of a member that has the status of its group.
fn failure(status: &NodeStatus) -> AttemptFailure {
    match status {
        NodeStatus::Success => AttemptFailure::default(),
        NodeStatus::Unschedulable(misfit) => AttemptFailure {
            message: misfit.text.clone(),
            rejectors: misfit.rejectors.clone(),
            ..AttemptFailure::default()
        },
        NodeStatus::Error(error) => AttemptFailure::error(error.clone()),
    }
}
