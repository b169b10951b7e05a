//! Groups of pods that are scheduled together, and the points at which plugins decide about them.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{ObjectKey, Pod, PodGroup, PodKey, Release, Str};

use crate::columns::Row;
use crate::plugin::{FeatureGates, Plugin};
use crate::pod_info::PodInfo;
use crate::status::Reason;
use crate::view::View;

/// The feature gates of groups.
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
}

impl GroupGates {
    /// The values of these gates.
    pub fn of(gates: &FeatureGates) -> Self {
        let generic_workload = gates.enabled("GenericWorkload", false);
        let is_part = Release::V1_37 <= gates.release();
        let is_on = |name, by_default| generic_workload && gates.enabled(name, by_default);
        GroupGates {
            generic_workload,
            gang_scheduling: is_on("GangScheduling", is_part),
            topology_aware: is_on("TopologyAwareWorkloadScheduling", false),
            preemption: is_on("WorkloadAwarePreemption", is_part),
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
pub struct PodGroupStates(BTreeMap<ObjectKey, PodGroupState>);

/// The pods of a group.
#[derive(Clone, Debug, Default)]
pub struct PodGroupState {
    known: BTreeSet<PodKey>,
    placed: BTreeMap<PodKey, Str>,
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
        self.change(pod, |state| state.placed.remove(&pod.key));
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

    /// All pods of the group, by name.
    pub fn pods(&self) -> impl Iterator<Item = &PodKey> {
        self.known.iter()
    }

    /// Those on nodes or assumed to be (`ScheduledPods`), by name, with the names of their nodes.
    pub fn placed(&self) -> impl ExactSizeIterator<Item = (&PodKey, &Str)> {
        self.placed.iter()
    }
}

/// A group in its scheduling cycle.
#[derive(Clone, Copy, Debug)]
pub struct GroupInCycle<'a> {
    /// Its namespace and name.
    pub key: &'a ObjectKey,
    /// The object, if it exists.
    pub object: Option<&'a PodGroup>,
    /// The members that the cycle tries, in the order in which it does.
    pub members: &'a [PodInfo],
}

/// Nodes on which a group may be placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupPlacement {
    /// Its name, such as the value of a label; empty for the placement of all nodes.
    pub name: Str,
    /// The nodes, ascending.
    pub rows: Vec<Row>,
}

/// A placement with the members that were placed there for trial.
#[derive(Clone, Copy, Debug)]
pub struct ProposedPlacement<'a> {
    /// The nodes.
    pub placement: &'a GroupPlacement,
    /// The members that got a node, in the order in which they were tried.
    pub members: &'a [(PodInfo, Row)],
}

/// Says on which nodes a group may be placed. At most one plugin of a profile does.
pub trait PlacementGenerate: Plugin {
    /// The placements among the nodes `all`; `None` for that of all nodes, which is then not named. An empty list: there is
    /// none.
    fn placements(
        &self,
        group: &GroupInCycle<'_>,
        all: &[Row],
        view: &View<'_>,
    ) -> Result<Option<Vec<GroupPlacement>>, Reason>;
}

/// Scores placements on which a group fits, if there are several.
pub trait PlacementScore: Plugin {
    /// The score of one placement. The view has none of the members on a node that the cycle places.
    fn score_placement(
        &self,
        group: &GroupInCycle<'_>,
        proposed: &ProposedPlacement<'_>,
        view: &View<'_>,
    ) -> Result<i64, Reason>;
    /// Brings the scores of all placements into the range of 0 to [`MAX_NODE_SCORE`](crate::MAX_NODE_SCORE).
    fn normalize_placement_scores(&self, _scores: &mut [i64]) -> Result<(), Reason> {
        Ok(())
    }
}

/// What becomes of a group for which there is no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupPostFilterAnswer {
    /// These pods are evicted for it, and it waits until they are gone.
    Preempts(Vec<PodKey>),
    /// Nothing can be done.
    Unschedulable(Reason),
    /// The plugin failed.
    Error(Reason),
}

/// The cluster with some pods removed, to find out whether a group would fit. Nothing of it remains.
pub trait GroupDryRun {
    /// The cluster as it would be.
    fn view(&self) -> View<'_>;
    /// All nodes, one of each zone in turn.
    fn nodes(&self) -> Vec<Row>;
    /// Removes a pod from its node.
    fn remove(&mut self, pod: &PodKey);
    /// Puts a pod back that was removed.
    fn put_back(&mut self, pod: &PodKey);
    /// Tries to schedule the whole group, without PostFilter plugins.
    fn try_group(&mut self) -> Result<(), GroupMisfit>;
}

/// Why a group does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupMisfit {
    /// There is no room.
    Unschedulable(Reason),
    /// It could not be judged.
    Error(Reason),
}

/// Makes room for a group as a whole: workload-aware preemption. Needs [`PostFilter`](crate::PostFilter).
pub trait GroupPostFilter: Plugin {
    /// Chooses the pods to evict. The group did not fit.
    fn group_post_filter(
        &self,
        group: &GroupInCycle<'_>,
        dry_run: &mut dyn GroupDryRun,
    ) -> GroupPostFilterAnswer;
}
