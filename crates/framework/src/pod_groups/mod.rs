//! Groups of pods that are scheduled together, and the points at which plugins decide about them.

mod forest;
mod points;

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use plimsoll_api::{KeyRef, ObjectKey, Pod, PodKey, Release, Str};
use rustc_hash::FxBuildHasher;

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

/// The same without a copy, to look it up.
pub fn group_key_of(pod: &Pod) -> Option<KeyRef<'_>> {
    let name = pod.scheduling_group.as_ref()?;
    Some(KeyRef { namespace: &pod.key.namespace, name })
}

/// The pods of each group, whether its PodGroup exists or not. As in podgroupstate.go.
#[derive(Clone, Debug, Default)]
pub struct PodGroupStates(HashMap<ObjectKey, PodGroupState, FxBuildHasher>);

/// The pods of a group.
#[derive(Clone, Debug, Default)]
pub struct PodGroupState {
    /// Those that are known, or on nodes.
    members: HashMap<PodKey, Member, FxBuildHasher>,
    counts: MemberCounts,
}

/// How many pods of a group there are.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "all are counts")]
struct MemberCounts {
    n_known: usize,
    n_on_nodes: usize,
    /// How many of those on nodes are there on trial.
    n_on_trial: usize,
    /// How many of them stay.
    n_staying: usize,
}

/// A pod of a group.
#[derive(Clone, Debug, Default)]
struct Member {
    is_known: bool,
    on_node: Option<MemberOnNode>,
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
        let Some(state) = self.state_for(pod) else { return };
        let member = state.members.entry_ref(&pod.key).or_default();
        state.counts.n_known += usize::from(!member.is_known);
        member.is_known = true;
    }

    /// A pod is no longer known.
    pub fn is_gone(&mut self, pod: &Pod) {
        self.change(pod, |counts, member| {
            counts.n_known -= usize::from(member.is_known);
            member.is_known = false;
        });
    }

    /// A pod is on a node, or assumed to be.
    pub fn is_placed(&mut self, pod: &PodInfo) {
        self.stands(pod, Standing::Placed);
    }

    /// The same, but it is on its node only on trial.
    pub fn is_on_trial(&mut self, pod: &PodInfo) {
        self.stands(pod, Standing::OnTrial);
    }

    fn stands(&mut self, pod: &PodInfo, stands: Standing) {
        let (Some(node), Some(state)) = (pod.node(), self.state_for(pod)) else { return };
        let member = state.members.entry_ref(&pod.key).or_default();
        let before = member.on_node.replace(MemberOnNode { node: node.clone(), stands });
        state.counts.n_on_nodes += 1;
        match stands {
            Standing::Placed => {}
            Standing::OnTrial => state.counts.n_on_trial += 1,
            Standing::Stays => state.counts.n_staying += 1,
        }
        state.counts.is_no_longer(before);
    }

    /// A pod is no longer on a node.
    pub fn is_displaced(&mut self, pod: &Pod) {
        self.change(pod, |counts, member| counts.is_no_longer(member.on_node.take()));
    }

    /// The pods of a group that are on nodes on trial stay there, since the group fits. Each [is placed](Self::is_placed) when it
    /// is its turn to be bound; until then it does not count.
    pub fn stay(&mut self, group: &ObjectKey) {
        let Some(state) = self.0.get_mut(group) else { return };
        let on_nodes = state.members.values_mut().filter_map(|one| one.on_node.as_mut());
        let on_trial = on_nodes.filter(|one| one.stands == Standing::OnTrial);
        on_trial.for_each(|one| one.stands = Standing::Stays);
        state.counts.n_staying += std::mem::take(&mut state.counts.n_on_trial);
    }

    /// The pods of the group of a pod, if it has one.
    fn state_for(&mut self, pod: &Pod) -> Option<&mut PodGroupState> {
        let group = group_key_of(pod)?;
        Some(match self.0.entry_ref(&group) {
            EntryRef::Occupied(known) => known.into_mut(),
            EntryRef::Vacant(new) => new.insert_with_key(group.into(), PodGroupState::default()),
        })
    }

    fn change(&mut self, pod: &Pod, change: impl FnOnce(&mut MemberCounts, &mut Member)) {
        let Some(group) = group_key_of(pod) else { return };
        let Some(PodGroupState { members, counts }) = self.0.get_mut(&group) else { return };
        let Some(member) = members.get_mut(&pod.key) else { return };
        change(counts, member);
        // Whoever is neither known nor on a node is none of them.
        if !member.is_known && member.on_node.is_none() {
            members.remove(&pod.key);
            if members.is_empty() {
                self.0.remove(&group);
            }
        }
    }

    /// The pods of a group; `None` if there are none.
    pub fn get<'a>(&self, group: impl Into<KeyRef<'a>>) -> Option<&PodGroupState> {
        self.0.get(&group.into())
    }
}

impl PodGroupState {
    /// How many pods of the group there are (`AllPodsCount`).
    pub fn n_pods(&self) -> usize {
        self.counts.n_known
    }

    /// How many of them are on nodes or assumed to be.
    pub fn n_placed(&self) -> usize {
        self.counts.n_on_nodes - self.counts.n_staying
    }

    /// All pods of the group, by name.
    pub fn pods(&self) -> impl Iterator<Item = &PodKey> {
        let known = self.members.iter().filter(|(_, member)| member.is_known);
        let mut pods: Vec<&PodKey> = known.map(|(pod, _)| pod).collect();
        pods.sort_unstable();
        pods.into_iter()
    }

    /// Those on nodes or assumed to be (`ScheduledPods`), by name, with the names of their nodes.
    pub fn placed(&self) -> impl ExactSizeIterator<Item = (&PodKey, &Str)> {
        let placed = self.members.iter().filter_map(|(pod, member)| Some((pod, member.placed()?)));
        let mut placed: Vec<(&PodKey, &Str)> = placed.collect();
        placed.sort_unstable();
        placed.into_iter()
    }

    /// Whether another pod than this one is on a node or assumed to be.
    pub fn places_others_than(&self, pod: &PodKey) -> bool {
        let is_placed = self.members.get(pod).is_some_and(|member| member.placed().is_some());
        usize::from(is_placed) < self.n_placed()
    }

    /// How many of them have been there before the cycle in which the group is decided.
    pub fn n_placed_before(&self) -> usize {
        self.n_placed() - self.counts.n_on_trial
    }
}

impl MemberCounts {
    /// Counts a pod no longer as it was on its node `before`, if it was on one.
    fn is_no_longer(&mut self, before: Option<MemberOnNode>) {
        let Some(before) = before else { return };
        self.n_on_nodes -= 1;
        match before.stands {
            Standing::Placed => {}
            Standing::OnTrial => self.n_on_trial -= 1,
            Standing::Stays => self.n_staying -= 1,
        }
    }
}

impl Member {
    /// The node on which it counts.
    fn placed(&self) -> Option<&Str> {
        let on_node = self.on_node.as_ref().filter(|one| one.stands != Standing::Stays)?;
        Some(&on_node.node)
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
