//! Preemption for groups of pods: workload-aware preemption, and what it leaves to single pods. The rules of 1.36 and of 1.37
//! stand side by side.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plimsoll_api::pod_group::DisruptionMode;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::prelude::*;

use super::units::{self, Unit as UnitSince1_37};
use super::{BudgetsLeft, DefaultPreemption, started};

const NO_GROUP: &str = "preemption: pod group for pod not found";
const CONSTRAINED: &str =
    "preemption: not eligible due to placement-based pod group scheduling limitation";
const AS_A_GROUP: &str = "preemption: not eligible due to workload aware preemption enabled";
const NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const NOT_WITH_CONSTRAINTS: &str =
    "workload aware preemption is not supported for pod groups with scheduling constraints";
const NO_VICTIMS: &str = "No preemption victims found for incoming preemptor";
/// Begins what is said since 1.37.
const PREFIX: &str = "pod group preemption: ";
const ONGOING: &str = "ongoing preemption on nominated nodes";

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

impl GroupPostFilter for DefaultPreemption {
    fn group_post_filter(
        &self,
        group: &GroupInCycle<'_>,
        dry_run: &mut dyn GroupDryRun,
    ) -> GroupPostFilterAnswer {
        match self.groups.rules {
            GroupRules::V1_36 => Self::preempt_as_1_36(group, dry_run),
            GroupRules::V1_37 => match self.preempt_as_1_37(group, dry_run) {
                GroupPostFilterAnswer::Preempts { victims, nominations, broken_budgets, says } => {
                    let says = format!("{PREFIX}{says}").into();
                    GroupPostFilterAnswer::Preempts { victims, nominations, broken_budgets, says }
                }
                GroupPostFilterAnswer::Unschedulable(why) => {
                    GroupPostFilterAnswer::Unschedulable(format!("{PREFIX}{why}").into())
                }
                GroupPostFilterAnswer::Error(why) => {
                    GroupPostFilterAnswer::Error(format!("{PREFIX}{why}").into())
                }
            },
        }
    }
}

impl DefaultPreemption {
    /// As in podgrouppreemption.go of 1.37: all units of lower priority are removed, and the group is scheduled once. Then as
    /// many units as possible are put back, as long as each member still passes the filters on its node.
    fn preempt_as_1_37(
        &self,
        group: &GroupInCycle<'_>,
        dry_run: &mut dyn GroupDryRun,
    ) -> GroupPostFilterAnswer {
        let policy = match self.groups.preemption_policy {
            true => group.preemption_policy(),
            // They all have the same.
            false => {
                group.members.first().map_or_else(Default::default, |pod| pod.preemption_policy)
            }
        };
        if policy == PreemptionPolicy::Never {
            return GroupPostFilterAnswer::Unschedulable(NEVER.into());
        }
        if self.is_preempting(group, &dry_run.view()) {
            let nominated = |pod: &PodInfo| Some((pod.key.clone(), pod.nominated_node.clone()?));
            return GroupPostFilterAnswer::Preempts {
                victims: Vec::new(),
                nominations: group.members.iter().filter_map(nominated).collect(),
                broken_budgets: 0,
                says: ONGOING.into(),
            };
        }
        let mut units = self.all_units(dry_run.view());
        units.retain(|unit| unit.priority < group.priority());
        if units.is_empty() {
            return GroupPostFilterAnswer::Unschedulable(NO_VICTIMS.into());
        }
        for pod in units.iter().flat_map(|unit| &unit.pods) {
            dry_run.remove(&pod.key);
        }
        let nominations = match dry_run.assign_group() {
            Ok(nominations) => nominations,
            Err(GroupMisfit::Unschedulable(why)) => {
                return GroupPostFilterAnswer::Unschedulable(why);
            }
            Err(GroupMisfit::Error(why)) => return GroupPostFilterAnswer::Error(why),
        };
        units.sort_by_cached_key(UnitSince1_37::importance);
        let (breaking, harmless) = units::by_budget(units, dry_run.view().stores.of());
        let harmless = harmless.into_iter().map(|unit| (unit, 0));
        let (mut victims, mut broken_budgets) = (Vec::new(), 0);
        for (unit, broken) in breaking.into_iter().chain(harmless) {
            for pod in &unit.pods {
                dry_run.put_back(&pod.key);
            }
            if !dry_run.still_fits() {
                for pod in &unit.pods {
                    dry_run.remove(&pod.key);
                }
                victims.extend(unit.pods);
                broken_budgets += broken;
            }
        }
        let n_victims = victims.len();
        let staying = victims.iter().filter(|victim| !victim.is_terminating());
        GroupPostFilterAnswer::Preempts {
            victims: staying.map(|victim| victim.key.clone()).collect(),
            nominations,
            broken_budgets,
            says: format!("found a placement for podgroup, preempting {n_victims} victims").into(),
        }
    }

    /// Whether victims of an earlier preemption are still leaving the nodes to which members are nominated. As in
    /// isOngoingPreemption.
    fn is_preempting(&self, group: &GroupInCycle<'_>, view: &View<'_>) -> bool {
        let nominated: Vec<&Str> =
            group.members.iter().filter_map(|pod| pod.nominated_node.as_ref()).collect();
        if nominated.is_empty() {
            return false;
        }
        let rows = view.nodes.rows().filter(|row| nominated.contains(&view.nodes.name_of(*row)));
        rows.flat_map(|row| view.nodes.pods_on(row).iter()).any(|pod| {
            pod.is_terminating()
                && pod.preempted
                && self.priority_of(pod, view.stores) < group.priority()
        })
    }

    /// As in podgrouppreemption.go of 1.36: all units of lower priority are removed, and as many as possible are put back, the
    /// whole group being tried each time.
    fn preempt_as_1_36(
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
        let mut units = units_of_1_36(&*dry_run);
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
        GroupPostFilterAnswer::Preempts {
            victims: staying.map(|victim| victim.key.clone()).collect(),
            nominations: Vec::new(),
            broken_budgets: 0,
            says: "".into(),
        }
    }
}

/// All units, in the order of the nodes of their first pods.
fn units_of_1_36(dry_run: &dyn GroupDryRun) -> Vec<Unit> {
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
