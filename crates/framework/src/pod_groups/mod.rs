//! Groups of pods that are scheduled together, and the points at which plugins decide about them.

mod forest;
mod points;

use plimsoll_api::{ObjectKey, Pod, PodKey, Release, Str};
use rustc_hash::{FxHashMap, FxHashSet};

pub use self::forest::{GroupForest, GroupRef, MissingGroup};
pub use self::points::{
    GroupDryRun, GroupInCycle, GroupMisfit, GroupPlacement, GroupPostFilter, GroupPostFilterAnswer,
    GroupRemedy, PlacementFeasibility, PlacementFeasible, PlacementGenerate, PlacementProgress,
    PlacementScore, ProposedPlacement,
};
use crate::plugin::FeatureGates;
use crate::pod_info::PodInfo;

/// By which rules groups are decided. Each set of rules is that of the releases since one, up to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupRules {
    /// The queue knows pods, and a pod takes those of its group with it. A gang fits if Permit says so of enough pods.
    #[default]
    V1_36,
    /// The queue knows groups. A group fits if the PlacementFeasible plugins say so.
    V1_37,
}

impl GroupRules {
    /// The rules of a release.
    pub fn of(release: Release) -> Self {
        match release {
            Release::V1_36 => GroupRules::V1_36,
            Release::V1_37 => GroupRules::V1_37,
        }
    }
}

/// The feature gates of groups, and the rules of the release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a gate of its own")]
pub struct GroupGates {
    /// `GenericWorkload`: pods that name a group are scheduled together. Without it all others are off.
    pub generic_workload: bool,
    /// `GangScheduling`, since 1.37 part of `GenericWorkload`: a gang is bound only if enough of its pods fit.
    pub gang_scheduling: bool,
    /// `TopologyAwareWorkloadScheduling`: a group may be kept in one domain of a topology.
    pub topology_aware: bool,
    /// `WorkloadAwarePreemption`, since 1.37 part of `GenericWorkload`: a group evicts for all its pods at once.
    pub preemption: bool,
    /// `CompositePodGroup`, since 1.37: groups of groups. It needs `TopologyAwareWorkloadScheduling`.
    pub composite: bool,
    /// `PodGroupPreemptionPolicy`, since 1.37: the group says whether it may evict, and its pods must agree.
    pub preemption_policy: bool,
    /// The rules of the release.
    pub rules: GroupRules,
}

impl GroupGates {
    /// The values of these gates.
    pub fn of(gates: &FeatureGates) -> Self {
        let generic_workload = gates.enabled("GenericWorkload", false);
        let is_part = Release::V1_37 <= gates.release();
        let is_on = |name, by_default| generic_workload && gates.enabled(name, by_default);
        let topology_aware = is_on("TopologyAwareWorkloadScheduling", false);
        GroupGates {
            generic_workload,
            gang_scheduling: is_on("GangScheduling", is_part),
            topology_aware,
            preemption: is_on("WorkloadAwarePreemption", is_part),
            composite: topology_aware && is_part && is_on("CompositePodGroup", false),
            preemption_policy: is_part && is_on("PodGroupPreemptionPolicy", false),
            rules: GroupRules::of(gates.release()),
        }
    }
}

/// The key of the group to which a pod belongs.
pub fn group_of(pod: &Pod) -> Option<ObjectKey> {
    let name = pod.scheduling_group.as_ref()?;
    Some(ObjectKey::new(pod.key.namespace.clone(), name.clone()))
}

/// The pods of each group, whether its PodGroup exists or not. As in podgroupstate.go.
#[derive(Clone, Debug, Default)]
pub struct PodGroupStates(FxHashMap<ObjectKey, PodGroupState>);

/// The pods of a group.
#[derive(Clone, Debug, Default)]
pub struct PodGroupState {
    known: FxHashSet<PodKey>,
    placed: FxHashMap<PodKey, Str>,
    /// Those of `placed` that are there only on trial, in the cycle of the group.
    on_trial: FxHashSet<PodKey>,
}

impl PodGroupStates {
    /// A pod is known: it is pending, also if it is gated or terminating, or on a node.
    pub fn is_known(&mut self, pod: &Pod) {
        if let Some(group) = group_of(pod) {
            self.0.entry(group).or_default().known.insert(pod.key.clone());
        }
    }

    /// A pod is no longer known.
    pub fn is_gone(&mut self, pod: &Pod) {
        self.change(pod, |state| state.known.remove(&pod.key));
    }

    /// A pod is on a node, or assumed to be.
    pub fn is_placed(&mut self, pod: &PodInfo) {
        if let (Some(group), Some(node)) = (group_of(pod), pod.node()) {
            self.0.entry(group).or_default().placed.insert(pod.key.clone(), node.clone());
        }
    }

    /// A pod is no longer on a node.
    pub fn is_displaced(&mut self, pod: &Pod) {
        self.change(pod, |state| {
            state.placed.remove(&pod.key);
            state.on_trial.remove(&pod.key);
        });
    }

    /// A pod that [is placed](Self::is_placed) is on its node only on trial.
    pub fn is_on_trial(&mut self, pod: &Pod) {
        self.change(pod, |state| state.on_trial.insert(pod.key.clone()));
    }

    fn change<T>(&mut self, pod: &Pod, change: impl FnOnce(&mut PodGroupState) -> T) {
        let Some(group) = group_of(pod) else { return };
        let Some(state) = self.0.get_mut(&group) else { return };
        change(state);
        if state.known.is_empty() && state.placed.is_empty() {
            self.0.remove(&group);
        }
    }

    /// The pods of a group; `None` if there are none.
    pub fn get(&self, group: &ObjectKey) -> Option<&PodGroupState> {
        self.0.get(group)
    }
}

impl PodGroupState {
    /// How many pods of the group there are (`AllPodsCount`).
    pub fn n_pods(&self) -> usize {
        self.known.len()
    }

    /// How many of them are on nodes or assumed to be.
    pub fn n_placed(&self) -> usize {
        self.placed.len()
    }

    /// All pods of the group, by name.
    pub fn pods(&self) -> impl Iterator<Item = &PodKey> {
        let mut pods: Vec<&PodKey> = self.known.iter().collect();
        pods.sort_unstable();
        pods.into_iter()
    }

    /// Those on nodes or assumed to be (`ScheduledPods`), by name, with the names of their nodes.
    pub fn placed(&self) -> impl ExactSizeIterator<Item = (&PodKey, &Str)> {
        let mut placed: Vec<(&PodKey, &Str)> = self.placed.iter().collect();
        placed.sort_unstable();
        placed.into_iter()
    }

    /// Whether another pod than this one is on a node or assumed to be.
    pub fn places_others_than(&self, pod: &PodKey) -> bool {
        usize::from(self.placed.contains_key(pod)) < self.placed.len()
    }

    /// How many of them have been there before the cycle in which the group is decided.
    pub fn n_placed_before(&self) -> usize {
        self.placed.len() - self.on_trial.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_on_a_node_is_no_other_pod() {
        let key = |name| PodKey::new("default", name);
        let mut state = PodGroupState::default();
        assert!(!state.places_others_than(&key("a")));
        state.placed.insert(key("a"), "n1".into());
        assert!(!state.places_others_than(&key("a")));
        assert!(state.places_others_than(&key("b")));
        state.placed.insert(key("b"), "n1".into());
        assert!(state.places_others_than(&key("a")));
    }
}
