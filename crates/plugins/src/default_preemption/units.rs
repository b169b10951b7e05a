//! Units of victims since 1.37: pods that are evicted together. As in preemption/types.go and util.go.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plimsoll_api::pod_group::DisruptionMode;
use plimsoll_framework::prelude::*;

use super::{BudgetsLeft, DefaultPreemption, started};

/// Pods that are evicted together: those of a group with the mode `all`, or one pod.
pub(super) struct Unit {
    /// At least one.
    pub(super) pods: SmallVec<[PodInfo; 1]>,
    pub(super) priority: i32,
    rank: Rank,
    /// When its first pod started, in nanoseconds.
    started: i64,
}

/// What a unit is: of two with the same priority the greater one is more important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Pod,
    /// A group, or a pod of a group.
    Group,
    Composite,
}

/// The more important unit comes first; names break ties.
pub(super) type Importance = (Reverse<i32>, Reverse<Rank>, Reverse<usize>, i64, PodKey);

impl Unit {
    /// A pod by itself.
    fn of_pod(pod: &PodInfo, priority: i32, is_ranked: bool) -> Self {
        let is_of_group = is_ranked && pod.scheduling_group.is_some();
        Unit {
            pods: smallvec![pod.clone()],
            priority,
            rank: if is_of_group { Rank::Group } else { Rank::Pod },
            started: started(pod),
        }
    }

    fn of_group(group: &GroupRef, pods: SmallVec<[PodInfo; 1]>, priority: i32) -> Self {
        let rank = match group {
            GroupRef::Composite(_) => Rank::Composite,
            GroupRef::Pods(_) => Rank::Group,
        };
        let started = pods.iter().map(started).min().unwrap_or(i64::MAX);
        Unit { pods, priority, rank, started }
    }

    /// Its order: by priority, then groups before pods, then the larger one, then the one that has been running for longer.
    /// As in MoreImportantVictim.
    pub(super) fn importance(&self) -> Importance {
        let first = self.pods.first().map(|pod| pod.key.clone()).unwrap_or_default();
        let n_pods = Reverse(self.pods.len());
        (Reverse(self.priority), Reverse(self.rank), n_pods, self.started, first)
    }
}

/// The pods of the groups that are evicted as a whole, on all nodes.
#[derive(Default)]
pub(super) struct Elsewhere<'a> {
    nodes: Option<&'a Columns>,
    by_group: BTreeMap<GroupRef, Vec<(PodInfo, Row)>>,
}

impl Elsewhere<'_> {
    /// Removes the pods of a unit: from the node, and what filters know of those on other nodes.
    pub(super) fn remove(&self, unit: &Unit, node: &mut NodeDryRun<'_>) {
        for pod in &unit.pods {
            if !node.remove(&pod.key) {
                self.follow(PodChange::Removed(pod), node);
            }
        }
    }

    /// Puts them back.
    pub(super) fn put_back(&self, unit: &Unit, node: &mut NodeDryRun<'_>) {
        for pod in &unit.pods {
            if pod.node() == Some(node.name()) {
                node.add(pod);
            } else {
                self.follow(PodChange::Added(pod), node);
            }
        }
    }

    fn follow(&self, change: PodChange<'_>, node: &mut NodeDryRun<'_>) {
        let pod = change.pod();
        let mut all = self.by_group.values().flatten();
        let row = all.find(|(other, _)| other.key == pod.key).map(|(_, row)| *row);
        if let (Some(nodes), Some(row)) = (self.nodes, row) {
            node.follow_elsewhere(change, nodes, row);
        }
    }
}

impl DefaultPreemption {
    /// The groups of a cluster that are evicted as a whole.
    pub(super) fn elsewhere<'a>(&self, view: View<'a>) -> Elsewhere<'a> {
        if !self.by_units() || !any_is_evicted_as_a_whole(view.stores, self.groups) {
            return Elsewhere::default();
        }
        let forest = GroupForest::of(view.stores, self.groups);
        let mut by_group = BTreeMap::<GroupRef, Vec<(PodInfo, Row)>>::new();
        for row in view.nodes.rows() {
            for pod in view.nodes.pods_on(row).iter() {
                if let Some(group) = forest.evicted_with(pod) {
                    by_group.entry(group).or_default().push((pod.clone(), row));
                }
            }
        }
        // As in ScheduledPods: in no order. Here it is that of names.
        for pods in by_group.values_mut() {
            pods.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
        }
        Elsewhere { nodes: Some(view.nodes), by_group }
    }

    /// The units that have pods on a node.
    pub(super) fn units_on(
        &self,
        node: &NodeDryRun<'_>,
        stores: &Stores,
        elsewhere: &Elsewhere<'_>,
    ) -> Vec<Unit> {
        if !self.by_units() {
            return node.pods().map(|pod| Unit::of_pod(pod, pod.priority, false)).collect();
        }
        let forest = GroupForest::of(stores, self.groups);
        let (mut units, mut seen) = (Vec::new(), Vec::new());
        for pod in node.pods() {
            let priority = forest.priority_of(pod);
            let group = forest.evicted_with(pod);
            let whole = group.and_then(|group| elsewhere.by_group.get_key_value(&group));
            match whole {
                None => units.push(Unit::of_pod(pod, priority, true)),
                Some((group, _)) if seen.contains(&group) => {}
                Some((group, pods)) => {
                    seen.push(group);
                    let pods = pods.iter().map(|(pod, _)| pod.clone()).collect();
                    units.push(Unit::of_group(group, pods, priority));
                }
            }
        }
        units
    }

    /// All units of a cluster.
    pub(super) fn all_units(&self, view: View<'_>) -> Vec<Unit> {
        let elsewhere = self.elsewhere(view);
        let forest = GroupForest::of(view.stores, self.groups);
        let mut units = Vec::new();
        for row in view.nodes.rows() {
            for pod in view.nodes.pods_on(row).iter() {
                if forest.evicted_with(pod).is_none() {
                    units.push(Unit::of_pod(pod, forest.priority_of(pod), true));
                }
            }
        }
        for (group, pods) in elsewhere.by_group {
            let pods: SmallVec<[PodInfo; 1]> = pods.into_iter().map(|(pod, _)| pod).collect();
            let priority = pods.first().map_or(0, |pod| forest.priority_of(pod));
            units.push(Unit::of_group(&group, pods, priority));
        }
        units
    }
}

/// Whether some group is evicted as a whole.
pub(super) fn any_is_evicted_as_a_whole(stores: &Stores, gates: GroupGates) -> bool {
    let of_pods = stores.of::<PodGroup>().iter().any(|one| one.disruption == DisruptionMode::All);
    of_pods
        || (gates.composite
            && stores
                .of::<CompositePodGroup>()
                .iter()
                .any(|one| one.disruption == DisruptionMode::All))
}

/// Splits units into those whose eviction would break budgets, each with the number of its pods that do, and the others. As
/// in FilterVictimsWithPDBViolation: each pod uses up its budgets for those after it.
pub(super) fn by_budget(units: Vec<Unit>, budgets: &PdbStore) -> (Vec<(Unit, i64)>, Vec<Unit>) {
    let mut left = BudgetsLeft::of(budgets);
    let (mut breaking, mut harmless) = (Vec::new(), Vec::new());
    for unit in units {
        let broken: i64 = unit.pods.iter().map(|pod| i64::from(left.breaks(pod))).sum();
        match broken {
            0 => harmless.push(unit),
            broken => breaking.push((unit, broken)),
        }
    }
    (breaking, harmless)
}
