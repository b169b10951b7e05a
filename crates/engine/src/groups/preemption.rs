//! Makes room for a group as a whole: workload-aware preemption.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::parts::StoreReads;
use plimsoll_framework::{
    GroupDryRun, GroupMisfit, GroupPostFilterAnswer, GroupRules, PodInfo, Point, Row, Time, View,
};

use super::GroupCycle;
use super::rules::release_1_36::{TrialResult, misfit};
use super::rules::release_1_37_trial::{Assigned, Results};
use super::trial::{MemberTrial, Permits, Purpose};
use crate::effect::{Effect, Eviction};
use crate::metrics::{GroupPreemptionResult, Preemptor};
use crate::names::PodId;
use crate::preemption::Waits;
use crate::scheduler::Scheduler;

/// The answer of a plugin that makes room for groups, with its name.
pub(super) type Room = Option<(&'static str, GroupPostFilterAnswer)>;

impl Scheduler {
    /// Evicts pods for a group.
    pub(super) fn evict_for_group(
        &mut self,
        now: Time,
        group: &GroupCycle,
        (plugin, victims, broken_budgets): (&'static str, &[PodKey], i64),
        effects: &mut Vec<Effect>,
    ) {
        if victims.is_empty() {
            return;
        }
        let Some((first, others)) = group.attempts.split_first() else { return };
        let uid = group.root.uid();
        let evict = |victim: &PodInfo| Eviction::for_group(victim, &first.pod.scheduler_name, uid);
        let preemptor = Preemptor::Group;
        let waits = Waits { attempt: first, others, plugin, preemptor, broken_budgets };
        self.evict(now, waits, victims, evict, effects);
    }

    /// Asks the plugins that make room for groups on behalf of a group that has its turn, and counts the answer.
    pub(super) fn make_room_for_group(
        &mut self,
        now: Time,
        group: &GroupCycle,
    ) -> Option<(&'static str, GroupPostFilterAnswer)> {
        let lap = self.counts.start();
        let room = self.ask_group_post_filter(now, group)?;
        let result = match &room.1 {
            GroupPostFilterAnswer::Preempts { .. } => GroupPreemptionResult::Success,
            GroupPostFilterAnswer::Unschedulable(_) => GroupPreemptionResult::Unschedulable,
            GroupPostFilterAnswer::Error(_) => GroupPreemptionResult::Error,
        };
        self.counts.group_preemption(result, lap);
        Some(room)
    }

    /// Asks the plugins that make room for groups, until one does or fails. Returns its name and answer; `None` if there is no
    /// such plugin. If no plugin makes room, the reasons of all are joined. The cluster is the same afterwards.
    pub(super) fn ask_group_post_filter(
        &mut self,
        now: Time,
        group: &GroupCycle,
    ) -> Option<(&'static str, GroupPostFilterAnswer)> {
        let profile = self.profile_of(&group.pods[0]);
        // As in runtime/framework.go of 1.37, RunPodGroupPostFilterPlugins. In 1.36 it is no point of configurations.
        let plugins = profile.at(match self.options.gates.groups.rules {
            GroupRules::V1_36 => Point::PostFilter,
            GroupRules::V1_37 => Point::PodGroupPostFilter,
        });
        let plugins: Vec<_> = plugins
            .filter_map(|(plugin, _)| Some((plugin.name, plugin.points.group_post_filter.clone()?)))
            .collect();
        let mut reasons = Vec::new();
        let &(first, _) = plugins.first()?;
        for (name, point) in plugins {
            let answer = self.in_dry_run(now, group, |dry_run| {
                point.group_post_filter(&group.in_cycle(&group.root), dry_run)
            });
            match answer {
                GroupPostFilterAnswer::Unschedulable(why) => reasons.push(why.to_string()),
                answer => return Some((name, answer)),
            }
        }
        Some((first, GroupPostFilterAnswer::Unschedulable(reasons.join(", ").into())))
    }

    /// What `ask` finds out in a dry run. The cluster is the same afterwards.
    pub(super) fn in_dry_run<T>(
        &mut self,
        now: Time,
        group: &GroupCycle,
        ask: impl FnOnce(&mut dyn GroupDryRun) -> T,
    ) -> T {
        let savepoint = self.cache.savepoint();
        let (rng, next_start) = (self.rng.clone(), self.next_start);
        let (removed, assigned) = (BTreeMap::new(), Vec::new());
        let answer = ask(&mut DryRun { scheduler: self, now, group, removed, assigned });
        while self.cache.next_undo_is_of_node(&savepoint).is_some() {
            self.cache.undo_last();
        }
        self.cache.is_rolled_back(savepoint);
        (self.rng, self.next_start) = (rng, next_start);
        answer
    }
}

/// The members for which no node was found, each with the plugins that say so.
pub(super) fn unfit<'a>(
    group: &'a GroupCycle,
    results: &'a Results,
) -> Vec<(&'a PodInfo, &'a BTreeSet<&'static str>)> {
    let leaves = group.root.all().into_iter().filter(|node| node.is_leaf());
    let tried = leaves.flat_map(|leaf| {
        let members = results.get(&leaf.number).map(|result| &result.members);
        group.pods[leaf.members.clone()].iter().zip(members.into_iter().flatten())
    });
    let unfit = tried.filter_map(|(pod, member)| match member {
        MemberTrial::Unfit { failure, .. } => Some((pod, &failure.rejectors)),
        _ => None,
    });
    unfit.collect()
}

/// The answer of the plugins that make room for groups, with what others say that have done something for the group. As if it
/// were one run of plugins: who makes room has the last word, and otherwise the reasons are joined.
pub(super) fn with_reasons(done: Vec<String>, room: Room) -> Room {
    match room {
        room if done.is_empty() => room,
        Some((plugin, GroupPostFilterAnswer::Unschedulable(why))) => {
            let why = why.to_string();
            let reasons = done.into_iter().chain(Some(why).filter(|why| !why.is_empty()));
            let reasons = reasons.collect::<Vec<_>>().join(", ");
            Some((plugin, GroupPostFilterAnswer::Unschedulable(reasons.into())))
        }
        None => Some(("", GroupPostFilterAnswer::Unschedulable(done.join(", ").into()))),
        room => room,
    }
}

/// A dry run on the cluster itself, all of which is undone.
struct DryRun<'a> {
    scheduler: &'a mut Scheduler,
    now: Time,
    group: &'a GroupCycle,
    removed: BTreeMap<PodKey, (PodId, PodInfo)>,
    /// Where the members went.
    assigned: Vec<Assigned>,
}

impl GroupDryRun for DryRun<'_> {
    fn view(&self) -> View<'_> {
        self.scheduler.cache.view()
    }

    fn nodes(&self) -> Vec<Row> {
        self.scheduler.cache.rows_by_zone().to_vec()
    }

    fn remove(&mut self, pod: &PodKey) {
        let Some(id) = self.scheduler.names.find(pod) else { return };
        let Some(gone) = self.scheduler.cache.remove_pod(id) else { return };
        // As in podgrouppreemption.go: a victim still counts among the scheduled pods of its own group.
        if gone.scheduling_group.is_some() {
            self.scheduler.cache.stores_mut(StoreReads::GROUPS).groups.is_placed(&gone);
        }
        self.removed.insert(pod.clone(), (id, gone));
    }

    fn put_back(&mut self, pod: &PodKey) {
        if let Some((id, pod)) = self.removed.remove(pod) {
            self.scheduler.cache.set_pod(id, pod);
        }
    }

    fn try_group(&mut self) -> Result<(), GroupMisfit> {
        let trial = self.scheduler.try_group(self.now, self.group, None, (Purpose::DryRun, None));
        match trial.result {
            TrialResult::Success | TrialResult::WaitsOnPreemption => Ok(()),
            TrialResult::Error(error) => Err(GroupMisfit::Error(error.into())),
            TrialResult::Unschedulable => {
                let topology_aware = self.scheduler.options.gates.groups.topology_aware;
                Err(GroupMisfit::Unschedulable(misfit(topology_aware).into()))
            }
        }
    }

    fn assign_group(&mut self) -> Result<Vec<(PodKey, Str)>, GroupMisfit> {
        self.assigned = self.scheduler.assign_group(self.now, self.group)?;
        let names = self.scheduler.cache.view().nodes;
        let name = |one: &Assigned| {
            let pod = &self.group.attempts[one.member].pod;
            (pod.key.clone(), names.name_of(one.row).clone())
        };
        Ok(self.assigned.iter().map(name).collect())
    }

    fn still_fits(&mut self) -> bool {
        let mut placed = Vec::new();
        let fit = self.assigned.iter().all(|one| {
            let attempt = &self.group.attempts[one.member];
            // As in podgrouppreemption.go: it does not matter whether Reserve would reject the member now.
            self.scheduler.passes_on(&attempt.pod, one.row) && {
                let on = (one.row, one.shared.clone());
                let _ = self.scheduler.place_on_trial(
                    self.now,
                    attempt,
                    on,
                    Permits::Unasked,
                    &mut placed,
                );
                true
            }
        });
        self.scheduler.take_all_back(self.now, placed);
        fit
    }
}
