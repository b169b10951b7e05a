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
    on_nodes: FxHashMap<PodKey, MemberOnNode>,
    /// How many of `on_nodes` are there on trial.
    n_on_trial: usize,
    /// How many of them stay.
    n_staying: usize,
}

/// A pod of a group on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MemberOnNode {
    node: Str,
    stands: Standing,
}

/// How a pod of a group is on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is placed: it is there, or assumed to be.
    Placed,
    /// The same, but only on trial, in the cycle of the group.
    OnTrial,
    /// It fits, and is placed as soon as it is its turn to be bound.
    Stays,
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
            let on_node = MemberOnNode { node: node.clone(), stands: Standing::Placed };
            let state = self.0.entry(group).or_default();
            let before = state.on_nodes.insert(pod.key.clone(), on_node);
            state.is_no_longer(before);
        }
    }

    /// A pod is no longer on a node.
    pub fn is_displaced(&mut self, pod: &Pod) {
        self.change(pod, |state| {
            let before = state.on_nodes.remove(&pod.key);
            state.is_no_longer(before);
        });
    }

    /// A pod that [is placed](Self::is_placed) is on its node only on trial.
    pub fn is_on_trial(&mut self, pod: &Pod) {
        self.change(pod, |state| {
            if let Some(member) = state.on_nodes.get_mut(&pod.key)
                && member.stands == Standing::Placed
            {
                member.stands = Standing::OnTrial;
                state.n_on_trial += 1;
            }
        });
    }

    /// The pods of a group that are on nodes on trial stay there, since the group fits. Each [is placed](Self::is_placed) when it
    /// is its turn to be bound; until then it does not count.
    pub fn stay(&mut self, group: &ObjectKey) {
        let Some(state) = self.0.get_mut(group) else { return };
        let on_trial = state.on_nodes.values_mut().filter(|one| one.stands == Standing::OnTrial);
        on_trial.for_each(|one| one.stands = Standing::Stays);
        state.n_staying += std::mem::take(&mut state.n_on_trial);
    }

    fn change<T>(&mut self, pod: &Pod, change: impl FnOnce(&mut PodGroupState) -> T) {
        let Some(group) = group_of(pod) else { return };
        let Some(state) = self.0.get_mut(&group) else { return };
        change(state);
        if state.known.is_empty() && state.on_nodes.is_empty() {
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
        self.on_nodes.len() - self.n_staying
    }

    /// All pods of the group, by name.
    pub fn pods(&self) -> impl Iterator<Item = &PodKey> {
        let mut pods: Vec<&PodKey> = self.known.iter().collect();
        pods.sort_unstable();
        pods.into_iter()
    }

    /// Those on nodes or assumed to be (`ScheduledPods`), by name, with the names of their nodes.
    pub fn placed(&self) -> impl ExactSizeIterator<Item = (&PodKey, &Str)> {
        let is_placed = |(_, member): &(&PodKey, &MemberOnNode)| member.stands != Standing::Stays;
        let placed = self.on_nodes.iter().filter(is_placed);
        let mut placed: Vec<(&PodKey, &Str)> =
            placed.map(|(pod, member)| (pod, &member.node)).collect();
        placed.sort_unstable();
        placed.into_iter()
    }

    /// Whether another pod than this one is on a node or assumed to be.
    pub fn places_others_than(&self, pod: &PodKey) -> bool {
        let is_placed =
            self.on_nodes.get(pod).is_some_and(|member| member.stands != Standing::Stays);
        usize::from(is_placed) < self.n_placed()
    }

    /// How many of them have been there before the cycle in which the group is decided.
    pub fn n_placed_before(&self) -> usize {
        self.n_placed() - self.n_on_trial
    }

    /// Counts a pod of `on_nodes` no longer as it was `before`.
    fn is_no_longer(&mut self, before: Option<MemberOnNode>) {
        match before.map(|before| before.stands) {
            None | Some(Standing::Placed) => {}
            Some(Standing::OnTrial) => self.n_on_trial -= 1,
            Some(Standing::Stays) => self.n_staying -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_on_a_node_is_no_other_pod() {
        let key = |name| PodKey::new("default", name);
        let mut states = PodGroupStates::default();
        let others = |states: &PodGroupStates, than| {
            states.get(&train()).is_some_and(|state| state.places_others_than(&key(than)))
        };
        assert!(!others(&states, "a"));
        states.is_placed(&member("a"));
        assert!(!others(&states, "a"));
        assert!(others(&states, "b"));
        states.is_placed(&member("b"));
        assert!(others(&states, "a"));
    }

    fn train() -> ObjectKey {
        ObjectKey::new("default", "train")
    }

    fn member(name: &str) -> PodInfo {
        let mut pod = Pod { key: PodKey::new("default", name), ..Pod::default() };
        pod.scheduling_group = Some("train".into());
        pod.node_name = Some("n1".into());
        PodInfo::new(pod)
    }

    /// How many pods of the group are known, placed, and placed since before its cycle, and how many are listed.
    fn counts(states: &PodGroupStates) -> Option<(usize, usize, usize, usize)> {
        let state = states.get(&train())?;
        Some((state.n_pods(), state.n_placed(), state.n_placed_before(), state.placed().len()))
    }

    #[test]
    fn a_pod_that_stays_counts_again_when_it_is_placed() {
        let mut states = PodGroupStates::default();
        for name in ["a", "b", "c"] {
            states.is_known(&member(name));
        }
        states.is_placed(&member("a"));
        for name in ["b", "c"] {
            states.is_placed(&member(name));
            states.is_on_trial(&member(name));
        }
        assert_eq!(counts(&states), Some((3, 3, 1, 3)));
        states.stay(&train());
        assert_eq!(counts(&states), Some((3, 1, 1, 1)));
        states.is_placed(&member("b"));
        assert_eq!(counts(&states), Some((3, 2, 2, 2)));
        states.is_displaced(&member("c"));
        states.is_placed(&member("c"));
        assert_eq!(counts(&states), Some((3, 3, 3, 3)));
        for name in ["a", "b", "c"] {
            states.is_displaced(&member(name));
            states.is_gone(&member(name));
        }
        assert_eq!(counts(&states), None);
    }
}
