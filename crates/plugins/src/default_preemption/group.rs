//! Preemption for groups of pods: workload-aware preemption, and what it leaves to single pods.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plimsoll_api::pod_group::DisruptionMode;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::prelude::*;

use super::{BudgetsLeft, DefaultPreemption, started};

const NO_GROUP: &str = "preemption: pod group for pod not found";
const CONSTRAINED: &str =
    "preemption: not eligible due to placement-based pod group scheduling limitation";
const AS_A_GROUP: &str = "preemption: not eligible due to workload aware preemption enabled";
const NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const NOT_WITH_CONSTRAINTS: &str =
    "workload aware preemption is not supported for pod groups with scheduling constraints";
const NO_VICTIMS: &str = "No preemption victims found for incoming preemptor";

/// Pods that are evicted together: those of a group that is not disrupted in part, or one pod.
struct Unit {
    pods: Vec<PodInfo>,
    priority: i32,
    /// Whether it is a group or a pod of one.
    of_group: bool,
    /// When its first pod in the order of nodes started, in nanoseconds.
    started: i64,
}

impl DefaultPreemption {
    /// Why a pod of a group may not evict others by itself; `None` if it may, or belongs to none. As in
    /// default_preemption.go of 1.36.
    pub(super) fn refuses_member(&self, pod: &PodInfo, view: &View<'_>) -> Option<Reason> {
        if !self.groups.generic_workload {
            return None;
        }
        let key = group_of(pod)?;
        if self.groups.topology_aware {
            match view.stores.of::<PodGroup>().get(&key) {
                None => return Some(NO_GROUP.into()),
                Some(group) if group.topology.is_some() => return Some(CONSTRAINED.into()),
                Some(_) => {}
            }
        }
        self.groups.preemption.then(|| AS_A_GROUP.into())
    }
}

/// As in podgrouppreemption.go of 1.36: all units of lower priority are removed, and as many as possible are put back, the
/// whole group being tried each time.
impl GroupPostFilter for DefaultPreemption {
    fn group_post_filter(
        &self,
        group: &GroupInCycle<'_>,
        dry_run: &mut dyn GroupDryRun,
    ) -> GroupPostFilterAnswer {
        if group.object.is_some_and(|object| object.topology_key().is_some()) {
            return GroupPostFilterAnswer::Unschedulable(NOT_WITH_CONSTRAINTS.into());
        }
        if group.members.iter().any(|pod| pod.preemption_policy == PreemptionPolicy::Never) {
            return GroupPostFilterAnswer::Unschedulable(NEVER.into());
        }
        let priority = group.object.map_or(0, |object| object.priority);
        let mut units = units(&*dry_run);
        units.retain(|unit| unit.priority < priority);
        if units.is_empty() {
            return GroupPostFilterAnswer::Unschedulable(NO_VICTIMS.into());
        }
        let pods = units.iter().flat_map(|unit| &unit.pods).map(|pod| pod.key.clone());
        pods.collect::<Vec<_>>().iter().for_each(|pod| dry_run.remove(pod));
        match dry_run.try_group() {
            Ok(()) => {}
            Err(GroupMisfit::Unschedulable(why)) => {
                return GroupPostFilterAnswer::Unschedulable(why);
            }
            Err(GroupMisfit::Error(why)) => return GroupPostFilterAnswer::Error(why),
        }
        units.sort_by_cached_key(importance);
        let (breaking, harmless) = by_budgets(units, &dry_run.view());
        let mut victims = Vec::new();
        for unit in breaking.into_iter().chain(harmless) {
            for pod in &unit.pods {
                dry_run.put_back(&pod.key);
            }
            if dry_run.try_group().is_err() {
                for pod in &unit.pods {
                    dry_run.remove(&pod.key);
                }
                victims.extend(unit.pods);
            }
        }
        let staying = victims.iter().filter(|victim| !victim.is_terminating());
        GroupPostFilterAnswer::Preempts(staying.map(|victim| victim.key.clone()).collect())
    }
}

/// All units, in the order of the nodes of their first pods.
fn units(dry_run: &dyn GroupDryRun) -> Vec<Unit> {
    let (view, mut units) = (dry_run.view(), Vec::<Unit>::new());
    let mut of_groups = BTreeMap::<Str, usize>::new();
    for row in dry_run.nodes() {
        for pod in view.nodes.pods_on(row).iter() {
            let key = group_of(pod);
            let group = key.as_ref().and_then(|key| view.stores.of::<PodGroup>().get(key));
            let whole = group.filter(|group| group.disruption == DisruptionMode::All);
            let known = whole.and_then(|group| of_groups.get(&group.uid));
            if let Some(&known) = known {
                units[known].pods.push(pod.clone());
                continue;
            }
            if let Some(group) = whole {
                of_groups.insert(group.uid.clone(), units.len());
            }
            units.push(Unit {
                pods: vec![pod.clone()],
                priority: whole.map_or(pod.priority, |group| group.priority),
                of_group: group.is_some(),
                started: started(pod),
            });
        }
    }
    units
}

/// The more important unit comes first. As in types.go, moreImportantVictim; names break ties.
fn importance(unit: &Unit) -> (Reverse<i32>, Reverse<bool>, Reverse<usize>, i64, PodKey) {
    let n_pods = if unit.of_group { unit.pods.len() } else { 0 };
    let first = unit.pods.first().map(|pod| pod.key.clone()).unwrap_or_default();
    (Reverse(unit.priority), Reverse(unit.of_group), Reverse(n_pods), unit.started, first)
}

/// Splits units into those whose eviction would break a budget and the others. As in types.go,
/// filterVictimsWithPDBViolation: a unit breaks a budget if one of its pods does; the pods after it then use up none.
fn by_budgets(units: Vec<Unit>, view: &View<'_>) -> (Vec<Unit>, Vec<Unit>) {
    let mut left = BudgetsLeft::of(view.stores.of());
    units.into_iter().partition(|unit| unit.pods.iter().any(|pod| left.breaks(pod)))
}
