//! Groups of pods with extenders: the cycle of a group waits for their answers and runs again.

use plimsoll_api::ObjectKey;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{GroupRef, GroupRules, QueuedPod, Time};

use super::GroupResult;
use super::decision::{GroupDecision, MemberDecision};
use crate::effect::Effect;
use crate::extenders::GroupConsultation;
use crate::metrics::Lap;
use crate::queue::Attempt;
use crate::scheduler::Scheduler;

/// What members are told if the tree of their group changes while extenders are asked.
const CHANGED: &str = "the group has changed while extenders were asked about its pods";

/// A cycle of a group that has begun.
#[derive(Clone, Debug)]
pub(crate) struct BegunCycle {
    /// The group; the root of its tree under the rules of 1.37.
    pub(crate) root: GroupRef,
    /// The record, with the members that were skipped.
    pub(super) decision: GroupDecision,
}

impl Scheduler {
    /// Lets a group wait for its turn if extenders have to be asked about one of its members. Returns whether it does. With its
    /// turn its [cycle goes on](Self::cycle_goes_on).
    pub(super) fn lines_up(
        &mut self,
        root: &GroupRef,
        members: &[Attempt],
        decision: &GroupDecision,
    ) -> bool {
        if self.consulting.is_some() || self.extenders.is_empty() {
            return false;
        }
        let asked = members.iter().filter_map(|one| self.extenders.to_ask(&one.pod));
        let mut interest: Vec<_> = asked.flatten().collect();
        interest.sort_unstable();
        interest.dedup();
        let (false, Some(first)) = (interest.is_empty(), members.first()) else { return false };
        let Some(info) = self.queue.get(first.id) else { return false };
        let queued = QueuedPod { pod: &first.pod, ..info.in_queue() };
        let sort = self.profiles.sort_key(&queued, &self.cache.view());
        let begun = BegunCycle { root: root.clone(), decision: decision.clone() };
        let ids = members.iter().map(|one| one.id).collect();
        self.extenders.line_group_up(GroupConsultation::new(interest, ids, begun), sort);
        self.queue.group_waits(root);
        for member in members {
            self.queue.rest(member.id);
        }
        true
    }

    /// Adds members that have their turn to the cycle of their group, if that waits for extenders. Returns whether it does.
    pub(super) fn join_cycle(&mut self, root: &GroupRef, members: &[Attempt]) -> bool {
        self.extenders.joins_group(root, members)
    }

    /// Runs the cycle of a group whose extenders are free, or have answered.
    pub(crate) fn cycle_goes_on(
        &mut self,
        now: Time,
        begun: BegunCycle,
        members: Vec<Attempt>,
        effects: &mut Vec<Effect>,
    ) {
        let BegunCycle { root, decision } = begun;
        if members.is_empty() {
            self.queue.group_goes_on(&root);
            return;
        }
        let leaf_of = |one: &Attempt| group_of(&one.pod);
        // Each run is a cycle: what its members hold is known to those after them.
        self.cache.begin_group_cycle();
        match self.options.gates.groups.rules {
            GroupRules::V1_36 => self.cycle_as_1_36(now, root.key(), members, decision, effects),
            GroupRules::V1_37 => {
                let is_of = |leaf: &ObjectKey| self.root_of(leaf) == root;
                if members.iter().all(|one| leaf_of(one).as_ref().is_some_and(is_of)) {
                    self.tree_goes_on(now, &root, members, decision, effects);
                } else {
                    self.tree_has_changed(now, &root, &members, decision, effects);
                }
            }
        }
        self.cache.end_group_cycle();
        if !self.awaits_extenders() {
            self.queue.group_goes_on(&root);
        }
    }

    /// The members of a cycle are not of the same tree any more. They are tried again after their backoff.
    fn tree_has_changed(
        &mut self,
        now: Time,
        root: &GroupRef,
        members: &[Attempt],
        mut decision: GroupDecision,
        effects: &mut Vec<Effect>,
    ) {
        for attempt in members {
            let pod = attempt.pod.key.clone();
            decision.pods.push(MemberDecision::error(pod, CHANGED.to_owned()));
            self.member_errs(now, attempt, CHANGED.to_owned(), effects);
        }
        decision.result = GroupResult::Error;
        self.has_had_turn(now, root, decision.result);
        self.log_group(decision);
    }

    /// Notes a member that is left out of a cycle, which may run again.
    pub(super) fn note_skipped(&mut self, skipped: &MemberDecision) {
        if let Some(consulting) = &mut self.consulting {
            consulting.begun.decision.pods.push(skipped.clone());
        }
    }

    /// Whether the cycle that runs cannot go on without answers of extenders: nothing must come of it.
    pub(super) fn awaits_extenders(&self) -> bool {
        self.consulting.as_ref().is_some_and(|consulting| consulting.is_stopped())
    }

    /// When the cycle that runs began.
    pub(super) fn cycle_began(&self) -> Lap {
        self.consulting.as_ref().map_or_else(|| self.counts.start(), |consulting| consulting.began)
    }
}
