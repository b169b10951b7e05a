//! Decides a group within a transaction, so that nothing comes of it.

use std::cmp::Reverse;

use plimsoll_api::{ObjectKey, PodGroup};
use plimsoll_framework::pod_groups::PodGroupState;
use plimsoll_framework::points::PreEnqueuePoint;
use plimsoll_framework::{
    Gate, GroupForest, GroupPostFilterAnswer, GroupRef, GroupRules, PodInfo, Point, Time,
};

use super::decision::{
    GroupDecision, GroupResult, MemberDecision, MemberResult, PlacementDecision, SubgroupDecision,
};
use super::rules::release_1_36::TrialResult;
use super::rules::release_1_37_submit::told;
use super::rules::release_1_37_trial::{NodeResult, NodeStatus};
use super::trial::MemberTrial;
use super::{GroupCycle, GroupNode, differing_names};
use crate::cycle::{self, CycleResult};
use crate::names::PodId;
use crate::queue::{Attempt, QueuePlace, QueuedPodInfo};
use crate::scheduler::Scheduler;

impl Scheduler {
    /// What would be decided about a group with these members, if it had its turn now. No member evicts by itself; the pods
    /// that the group as a whole would evict are its victims. By the rules of 1.37 the whole tree is decided of which the
    /// group is part, with the pending pods of its other groups.
    pub(crate) fn decide_group_alone(
        &mut self,
        now: Time,
        key: &ObjectKey,
        mut members: Vec<(PodId, PodInfo)>,
    ) -> GroupDecision {
        let rules = self.options.gates.groups.rules;
        let root = match rules {
            GroupRules::V1_36 => GroupRef::Pods(key.clone()),
            GroupRules::V1_37 => self.root_of(key),
        };
        let others = self.pending_beside(key, &root, &members);
        members.extend(others);
        let number = self.groups.get(&root).map_or(0, |known| known.attempts) + 1;
        let mut decision = GroupDecision::new(&root, number, GroupResult::Waiting);
        decision.condition = self.condition_of(&root);
        let (mut attempts, mut held) = (Vec::new(), None);
        for (id, pod) in members {
            match self.closed_gate(&pod) {
                None => {
                    let number = self.queue.get(id).map_or(0, |info| info.attempts) + 1;
                    attempts.push(Attempt { id, pod, number });
                }
                Some(why) => held = held.or(Some(why)),
            }
        }
        // As an entry of the queue, a group waits as long as a gate holds one of its pods back.
        let waits_for_all = rules == GroupRules::V1_37;
        if attempts.is_empty() || (waits_for_all && held.is_some()) {
            decision.message = held;
            return decision;
        }
        let arrival = |id| self.queue.get(id).map_or(u64::MAX, QueuedPodInfo::arrival);
        match rules {
            GroupRules::V1_36 => {
                attempts.sort_by_key(|one| (Reverse(one.pod.priority), arrival(one.id)));
            }
            GroupRules::V1_37 => {
                attempts.sort_by_key(|one| (Reverse(one.number), arrival(one.id)));
            }
        }
        self.cache.begin_group_cycle();
        let decision = match rules {
            GroupRules::V1_36 => self.describe_as_1_36(now, key, attempts, decision),
            GroupRules::V1_37 => self.describe_as_1_37(now, &root, attempts, decision),
        };
        self.cache.end_group_cycle();
        decision
    }

    /// The pending pods of the other groups of a tree, as they are known. `named` are left out.
    fn pending_beside(
        &self,
        key: &ObjectKey,
        root: &GroupRef,
        named: &[(PodId, PodInfo)],
    ) -> Vec<(PodId, PodInfo)> {
        let stores = self.cache.view().stores;
        let leaves = GroupForest::of(stores, self.options.gates.groups).leaves(root);
        let others = leaves.iter().filter(|leaf| *leaf != key);
        let states = others.filter_map(|leaf| stores.groups.get(leaf));
        let ids = states.flat_map(PodGroupState::pods).filter_map(|pod| self.names.find(pod));
        let is_named = |id: &PodId| named.iter().any(|(known, _)| known == id);
        let pending = ids.filter(|id| !self.cache.knows(*id) && !is_named(id));
        let known = pending.filter_map(|id| Some((id, self.queue.get(id)?)));
        let tried = known
            .filter(|(_, info)| info.place != QueuePlace::InFlight && !info.pod.is_terminating());
        tried.map(|(id, info)| (id, info.pod.clone())).collect()
    }

    /// Why a plugin would keep the pod out of the queue, if one would.
    fn closed_gate(&self, pod: &PodInfo) -> Option<String> {
        let view = self.cache.view();
        let gates = self.profile_of(pod).at(Point::PreEnqueue);
        let points = gates.filter_map(|(plugin, _)| plugin.points.pre_enqueue.as_ref());
        let mut answers = points.map(|point: &PreEnqueuePoint| point.pre_enqueue(pod, &view));
        answers.find_map(|gate| match gate {
            Gate::Open => None,
            Gate::Closed(why) => Some(why.to_string()),
        })
    }

    fn describe_as_1_36(
        &mut self,
        now: Time,
        key: &ObjectKey,
        attempts: Vec<Attempt>,
        mut decision: GroupDecision,
    ) -> GroupDecision {
        let names = attempts.iter().map(|one| one.pod.scheduler_name.as_str());
        if let Some(error) = differing_names(names) {
            decision.result = GroupResult::Error;
            decision.message = Some(error);
            return decision;
        }
        let object = self.cache.view().stores.of::<PodGroup>().get(key);
        let object = object.map(|object| PodGroup::clone(object));
        let group = GroupCycle::single(key.clone(), object, attempts);
        let (outcome, victims) = self.ask_as_1_36(now, &group);
        decision.result = match &outcome.result {
            TrialResult::Success => GroupResult::Scheduled,
            TrialResult::WaitsOnPreemption => GroupResult::Preempting,
            TrialResult::Unschedulable => GroupResult::Unschedulable,
            TrialResult::Error(_) => GroupResult::Error,
        };
        decision.victims = victims;
        let fits = decision.result == GroupResult::Scheduled;
        decision.placement = outcome.placement.filter(|_| fits);
        decision.placements = outcome.placements;
        decision.message = (!fits).then(|| outcome.text.clone());
        for (attempt, member) in group.attempts.iter().zip(outcome.trial.members) {
            let told = (member, outcome.text.as_str());
            decision.pods.push(self.describe_member(attempt, told, fits));
        }
        decision
    }

    fn describe_as_1_37(
        &mut self,
        now: Time,
        root: &GroupRef,
        attempts: Vec<Attempt>,
        mut decision: GroupDecision,
    ) -> GroupDecision {
        let forest = GroupForest::of(self.cache.view().stores, self.options.gates.groups);
        let group = GroupCycle::tree(root, forest, attempts);
        let (mut results, answer) = match self.ask_as_1_37(now, &group) {
            Ok(both) => both,
            Err(error) => {
                let member = |attempt: &Attempt| {
                    MemberDecision::error(attempt.pod.key.clone(), error.clone())
                };
                decision.pods = group.attempts.iter().map(member).collect();
                decision.result = GroupResult::Error;
                decision.message = Some(error);
                return decision;
            }
        };
        let mut preempts = false;
        match answer {
            None => {}
            Some(GroupPostFilterAnswer::Preempts { victims, broken_budgets, says, .. }) => {
                decision.victims = victims;
                decision.broken_budgets = Some(broken_budgets);
                decision.victims.sort();
                preempts = true;
                for result in results.values_mut() {
                    result.append(&says.to_string());
                }
            }
            Some(GroupPostFilterAnswer::Unschedulable(why)) => {
                for result in results.values_mut() {
                    result.append(&why.to_string());
                }
            }
            Some(GroupPostFilterAnswer::Error(why)) => {
                for result in results.values_mut() {
                    result.status = NodeStatus::Error(why.to_string());
                }
            }
        }
        for node in group.root.all() {
            let mut result = results.remove(&node.number).expect("results are complete");
            let members = std::mem::take(&mut result.members);
            let (outcome, text) = told(&result.status, preempts);
            let fits = outcome == GroupResult::Scheduled;
            let (_, untried) = told(&result.untried, preempts);
            for (member, attempt) in members.into_iter().zip(&group.attempts[node.members.clone()])
            {
                let member = match (&result.status, member) {
                    (_, MemberTrial::Error(own)) => MemberTrial::Error(own),
                    // Nothing that was tried counts if the group could not be judged.
                    (NodeStatus::Error(error), _) => MemberTrial::Error(error.clone()),
                    (_, member) => member,
                };
                let of_group = if let MemberTrial::Untried = member { &untried } else { &text };
                decision.pods.push(self.describe_member(attempt, (member, of_group), fits));
            }
            self.describe_node(node, result, (outcome, text), &mut decision);
        }
        decision
    }

    fn describe_node(
        &self,
        node: &GroupNode,
        result: NodeResult,
        (outcome, text): (GroupResult, String),
        decision: &mut GroupDecision,
    ) {
        let fits = outcome == GroupResult::Scheduled;
        let placement = result.placement.filter(|_| fits);
        let placements: Vec<PlacementDecision> = result.placements;
        if node.number == 0 {
            (decision.result, decision.placement) = (outcome, placement);
            decision.placements = placements;
            decision.message = (!fits).then_some(text);
        } else {
            decision.groups.push(SubgroupDecision {
                group: node.group.key().clone(),
                is_composite: !node.is_leaf(),
                result: outcome,
                message: text,
                placement,
                placements,
                condition: self.condition_of(&node.group),
            });
        }
    }

    fn describe_member(
        &self,
        attempt: &Attempt,
        (member, of_group): (MemberTrial, &str),
        fits: bool,
    ) -> MemberDecision {
        let told = match self.given.is_in_detail(attempt.id) {
            true => self.nodes_of(&member),
            false => Vec::new(),
        };
        let nodes = self.cache.view().nodes;
        let result = match member {
            MemberTrial::Fits { row, cycle, .. } if fits => MemberResult::Scheduled {
                node: nodes.name_of(row).clone(),
                best: match &cycle.result {
                    CycleResult::Found { best, .. } => cycle::names(nodes, best),
                    CycleResult::Unschedulable(_) | CycleResult::Error(_) => Vec::new(),
                },
            },
            MemberTrial::Unfit { failure, .. } => {
                MemberResult::Unschedulable { message: failure.message, nominated: None }
            }
            MemberTrial::Error(message) => MemberResult::Error { message },
            MemberTrial::Fits { .. }
            | MemberTrial::NeedsPreemption { .. }
            | MemberTrial::Untried => {
                MemberResult::Unschedulable { message: of_group.to_owned(), nominated: None }
            }
        };
        MemberDecision { pod: attempt.pod.key.clone(), result, nodes: told }
    }
}
