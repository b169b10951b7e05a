//! The rules of 1.37, for `scheduling.k8s.io/v1beta1` and, with groups of groups, `v1alpha3`. As in
//! schedule_one_podgroup.go and PodGroupSchedulingAlgorithm of 1.37.
//!
//! The queue knows groups. A group fits if the PlacementFeasible plugins say so, which are asked before the first member is
//! tried and after each, so that a group that cannot fit is given up early. Members do not evict by themselves. A group of
//! groups tries these as a group tries its pods: what a group of it needs is taken back if it does not fit, and the others go on
//! if the count allows it.

use std::collections::BTreeMap;

use plimsoll_api::{ObjectKey, PodKey, PreemptionPolicy, Str};
use plimsoll_framework::{GroupForest, GroupPostFilterAnswer, GroupRef, Time};

use super::release_1_37_trial::{NodeStatus, Results, TreeTrial, complete};
use crate::effect::Effect;
use crate::groups::GroupCycle;
use crate::groups::decision::{GroupDecision, GroupResult, MemberDecision, SubgroupDecision};
use crate::groups::preemption::{unfit, with_reasons};
use crate::groups::trial::Purpose;
use crate::queue::{Attempt, CycleEnd, Surroundings};
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Tries the tree of a pod that has left the queue: all members of it leave the queue, too.
    pub(in crate::groups) fn attempt_as_1_37(
        &mut self,
        now: Time,
        leaf: &ObjectKey,
        first: Attempt,
        effects: &mut Vec<Effect>,
    ) {
        let root = self.root_of(leaf);
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        let others = self.queue.pop_members(first.id, with);
        let members: Vec<Attempt> = std::iter::once(first).chain(others).collect();
        self.has_turn(&root, &members);
        if self.join_cycle(&root, &members) {
            return;
        }
        let decision = self.begin_record(&root);
        self.tree_goes_on(now, &root, members, decision, effects);
    }

    /// Runs the cycle of a tree, up to its end or to questions to extenders.
    pub(in crate::groups) fn tree_goes_on(
        &mut self,
        now: Time,
        root: &GroupRef,
        mut members: Vec<Attempt>,
        mut decision: GroupDecision,
        effects: &mut Vec<Effect>,
    ) {
        let arrival = |id| self.queue.get(id).map_or(0, crate::QueuedPodInfo::arrival);
        members.sort_by_key(|one| (std::cmp::Reverse(one.number), arrival(one.id)));
        let forest = GroupForest::of(self.cache.view().stores, self.options.gates.groups);
        let group = GroupCycle::tree(root, forest, members);
        self.queue.begin_group_cycle();
        let end = self.cycle_as_1_37(now, group, &mut decision, effects);
        let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
        self.queue.end_group_cycle(now, end.unwrap_or(CycleEnd::Failed), with);
        if end.is_some() {
            self.has_had_turn(now, root, decision.result);
            self.log_group(decision);
        }
    }

    /// `None` if it waits for extenders.
    fn cycle_as_1_37(
        &mut self,
        now: Time,
        group: GroupCycle,
        decision: &mut GroupDecision,
        effects: &mut Vec<Effect>,
    ) -> Option<CycleEnd> {
        if let Err(error) = self.validate(&group) {
            for attempt in &group.attempts {
                let pod = attempt.pod.key.clone();
                decision.pods.push(MemberDecision::error(pod, error.clone()));
                self.member_errs(now, attempt, error.clone(), effects);
            }
            self.set_error(&group, &error, effects);
            for below in group.root.all().into_iter().skip(1) {
                decision.groups.push(SubgroupDecision {
                    group: below.group.key().clone(),
                    is_composite: !below.is_leaf(),
                    result: GroupResult::Error,
                    message: error.clone(),
                    placement: None,
                    placements: Vec::new(),
                    condition: self.condition_of(&below.group),
                });
            }
            return Some(CycleEnd::Failed);
        }
        let GroupCycle { root, attempts, .. } = group;
        if self.lines_up(&root.group, &attempts, decision) {
            return None;
        }
        let Some(tried) = self.leave_out(attempts, decision, effects) else {
            return Some(CycleEnd::Failed);
        };
        let forest = GroupForest::of(self.cache.view().stores, self.options.gates.groups);
        let group = GroupCycle::tree(&root.group, forest, tried);
        let lap = self.cycle_began();
        let trial = TreeTrial { now, group: &group, purpose: Purpose::Cycle };
        let mut results = self.try_tree_to_stay(trial);
        self.counts.group_searched(lap);
        complete(&group.root, &NodeStatus::Success, &mut results);
        let room = match &results[&group.root.number].status {
            NodeStatus::Unschedulable(_) => self.make_room_for_group(now, &group),
            NodeStatus::Success | NodeStatus::Error(_) => None,
        };
        if self.awaits_extenders() {
            return None;
        }
        // It is over: whatever is asked from here on has no part in it.
        drop(self.consulting.take());
        let room = match &results[&group.root.number].status {
            NodeStatus::Unschedulable(_) => {
                let done = self.remedy_for_group(now, &unfit(&group, &results), Some(effects));
                with_reasons(done, room)
            }
            NodeStatus::Success | NodeStatus::Error(_) => room,
        };
        let end = self.submit_as_1_37(now, &group, (results, room), decision, effects);
        self.count_group(&group.pods[0], decision.result, lap);
        self.may_reserve(now, &group, decision.result);
        Some(end)
    }

    /// What would be decided about a tree if it had its turn now, or why it cannot be judged, and the answer of the plugins
    /// that make room for groups if it does not fit.
    pub(in crate::groups) fn ask_as_1_37(
        &mut self,
        now: Time,
        group: &GroupCycle,
    ) -> Result<(Results, Option<GroupPostFilterAnswer>), String> {
        self.validate(group)?;
        let mut results = self.try_tree(TreeTrial { now, group, purpose: Purpose::Question });
        complete(&group.root, &NodeStatus::Success, &mut results);
        let room = match &results[&group.root.number].status {
            NodeStatus::Unschedulable(_) => {
                let done = self.remedy_for_group(now, &unfit(group, &results), None);
                with_reasons(done, self.ask_group_post_filter(now, group))
            }
            NodeStatus::Success | NodeStatus::Error(_) => None,
        };
        Ok((results, room.map(|(_, answer)| answer)))
    }

    /// As in validatePodGroup: all pods of the tree, those that run already among them, agree with each other and with the
    /// root in what the whole tree is decided by.
    fn validate(&self, group: &GroupCycle) -> Result<(), String> {
        let root = &group.root;
        let missing = root.all().into_iter().find(|node| node.is_leaf() && node.object.is_none());
        if let Some(missing) = missing {
            let name = &missing.group.key().name;
            return Err(format!("podgroup.scheduling.k8s.io {name:?} not found"));
        }
        let view = self.cache.view();
        let in_cycle = group.in_cycle(root);
        let placed = in_cycle
            .placed(&view)
            .filter_map(|(pod, _)| self.names.find(pod).and_then(|id| self.cache.pod(id)));
        let of_group =
            self.options.gates.groups.preemption_policy.then(|| in_cycle.preemption_policy());
        let mut first: Option<(&str, PreemptionPolicy)> = None;
        for pod in group.pods.iter().chain(placed) {
            let &mut (name, policy) = first.get_or_insert((
                pod.scheduler_name.as_str(),
                of_group.unwrap_or(pod.preemption_policy),
            ));
            if pod.scheduler_name.as_str() != name {
                return Err(format!(
                    "all pods in a single pod group should have the same .spec.schedulerName set, got: {:?} and {name:?}",
                    pod.scheduler_name
                ));
            }
            if pod.priority != in_cycle.priority() {
                return Err(format!(
                    "all pods in a single pod group should have the same priority as the pod group's priority, got {} and {}",
                    pod.priority,
                    in_cycle.priority()
                ));
            }
            if pod.preemption_policy != policy {
                let as_whose = match of_group {
                    Some(_) => " as the pod group's preemption policy",
                    None => "",
                };
                return Err(format!(
                    "all pods in a single pod group should have the same preemption policy{as_whose}, got {} and {}",
                    name_of(pod.preemption_policy),
                    name_of(policy)
                ));
            }
        }
        Ok(())
    }
}

/// As the API calls it.
fn name_of(policy: PreemptionPolicy) -> &'static str {
    match policy {
        PreemptionPolicy::PreemptLowerPriority => "PreemptLowerPriority",
        PreemptionPolicy::Never => "Never",
    }
}

/// The nodes to which members are nominated.
pub(super) type Nominations = BTreeMap<PodKey, Str>;
