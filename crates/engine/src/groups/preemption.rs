//! Makes room for a group as a whole: workload-aware preemption.

use std::collections::BTreeMap;

use plimsoll_api::PodKey;
use plimsoll_framework::parts::StoreReads;
use plimsoll_framework::{
    GroupDryRun, GroupMisfit, GroupPostFilterAnswer, PodInfo, Point, Row, Time, View,
};

use super::{GroupCycle, GroupOutcome, NOT_REGISTERED, Scheduler, TrialResult, none_of};
use crate::effect::{Effect, Eviction};
use crate::names::PodId;
use crate::preemption::Waits;

impl Scheduler {
    /// Looks for pods to evict if the group does not fit, and evicts them. Returns the victims. As in
    /// schedule_one_podgroup.go, runWorkloadAwarePreemption.
    pub(super) fn preempt_for_group(
        &mut self,
        now: Time,
        group: &GroupCycle,
        outcome: &mut GroupOutcome,
        effects: &mut Vec<Effect>,
    ) -> Vec<PodKey> {
        if !self.options.gates.groups.preemption || outcome.result != TrialResult::Unschedulable {
            return Vec::new();
        }
        match self.ask_group_post_filter(now, group) {
            (plugin, GroupPostFilterAnswer::Preempts(victims)) => {
                self.evict_for_group(now, group, &victims, plugin, effects);
                outcome.result = TrialResult::WaitsOnPreemption;
                victims
            }
            (_, GroupPostFilterAnswer::Unschedulable(why)) => {
                outcome.text = format!("{}, {why}", outcome.text);
                Vec::new()
            }
            (_, GroupPostFilterAnswer::Error(why)) => {
                outcome.text = why.to_string();
                outcome.result = TrialResult::Error(why.to_string());
                Vec::new()
            }
        }
    }

    fn evict_for_group(
        &mut self,
        now: Time,
        group: &GroupCycle,
        victims: &[PodKey],
        plugin: &'static str,
        effects: &mut Vec<Effect>,
    ) {
        let Some((first, others)) = group.attempts.split_first() else { return };
        let uid = group.object.as_ref().map_or("", |object| object.uid.as_str());
        let evict = |victim: &PodInfo| Eviction::for_group(victim, &first.pod.scheduler_name, uid);
        self.evict(now, Waits { attempt: first, others, plugin }, victims, evict, effects);
    }

    /// Asks the plugin that makes room for groups. The cluster is the same afterwards.
    fn ask_group_post_filter(
        &mut self,
        now: Time,
        group: &GroupCycle,
    ) -> (&'static str, GroupPostFilterAnswer) {
        let profile = self.profile_of(&group.pods[0]);
        let plugin = profile
            .at(Point::PostFilter)
            .find_map(|(plugin, _)| Some((plugin.name, plugin.points.group_post_filter.clone()?)));
        let Some((name, point)) = plugin else {
            return ("", GroupPostFilterAnswer::Unschedulable(NOT_REGISTERED.into()));
        };
        let savepoint = self.cache.savepoint();
        let (rng, next_start) = (self.rng.clone(), self.next_start);
        let mut dry_run = DryRun { scheduler: self, now, group, removed: BTreeMap::new() };
        let answer = point.group_post_filter(&group.in_cycle(), &mut dry_run);
        while self.cache.next_undo_is_of_node(&savepoint).is_some() {
            self.cache.undo_last();
        }
        self.cache.is_rolled_back(savepoint);
        (self.rng, self.next_start) = (rng, next_start);
        (name, answer)
    }
}

/// A dry run on the cluster itself, all of which is undone.
struct DryRun<'a> {
    scheduler: &'a mut Scheduler,
    now: Time,
    group: &'a GroupCycle,
    removed: BTreeMap<PodKey, (PodId, PodInfo)>,
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
        let trial = self.scheduler.try_group(self.now, self.group, None, None);
        match trial.result {
            TrialResult::Success | TrialResult::WaitsOnPreemption => Ok(()),
            TrialResult::Error(error) => Err(GroupMisfit::Error(error.into())),
            TrialResult::Unschedulable => {
                let topology_aware = self.scheduler.options.gates.groups.topology_aware;
                let text =
                    if topology_aware { none_of(1) } else { super::UNSCHEDULABLE.to_owned() };
                Err(GroupMisfit::Unschedulable(text.into()))
            }
        }
    }
}
