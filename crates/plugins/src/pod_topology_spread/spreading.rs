//! The constraints of one pod, and which pods they count.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::taints::untolerated;
use plimsoll_framework::Replicas;
use plimsoll_framework::prelude::*;

/// Up to this many constraints a linear search for equal selectors is fastest. A pod may have ten
/// thousand.
const FEW: usize = 8;

/// The constraints of one pod of one kind, with the fields of the pod that determine which nodes and
/// pods count. There is at least one.
#[derive(Clone, Debug)]
pub(super) struct SpreadConstraints {
    pub(super) constraints: Vec<SpreadConstraint>,
    /// For each constraint the first one with the same selector: pods are counted once for both.
    same_selector: SmallVec<[usize; 2]>,
    namespace: Str,
    selection: NodeSelection,
    tolerations: Vec<Toleration>,
    comparisons: Comparisons,
}

/// The value of each constraint's topology key on one node.
pub(super) type Values<'a> = SmallVec<[Option<&'a Str>; 4]>;

/// A number for each constraint.
pub(super) type PerConstraint<T> = SmallVec<[T; 2]>;

/// The two conditions for counting a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeInclusion {
    selected: bool,
    tolerated: bool,
}

impl NodeInclusion {
    /// Whether the node counts for `constraint`. As in common.go, matchNodeInclusionPolicies.
    pub(super) fn counts_for(self, constraint: &SpreadConstraint) -> bool {
        (self.selected || !constraint.honor_node_affinity)
            && (self.tolerated || !constraint.honor_node_taints)
    }
}

impl SpreadConstraints {
    /// `constraints` of a pod in `namespace` that may run on nodes of this `selection` and has these
    /// `tolerations`, which may compare or not.
    pub(super) fn new(
        constraints: Vec<SpreadConstraint>,
        namespace: &Str,
        selection: &NodeSelection,
        tolerations: &[Toleration],
        comparisons: Comparisons,
    ) -> Self {
        let mut first_of = BTreeMap::new();
        let first = |(i, one): (usize, &SpreadConstraint)| match FEW < constraints.len() {
            true => *first_of.entry(one.selector.clone()).or_insert(i),
            false => constraints
                .iter()
                .position(|other| other.selector == one.selector)
                .expect("a selector equals itself"),
        };
        SpreadConstraints {
            same_selector: constraints.iter().enumerate().map(first).collect(),
            constraints,
            namespace: namespace.clone(),
            selection: selection.clone(),
            tolerations: tolerations.to_vec(),
            comparisons,
        }
    }

    /// The value of each topology key on a node with these labels.
    pub(super) fn values<'a>(&self, labels: &'a Labels) -> Values<'a> {
        self.constraints.iter().map(|one| labels.get(&one.topology_key)).collect()
    }

    /// Whether a node with these labels has all topology keys.
    pub(super) fn has_all_keys(&self, labels: &Labels) -> bool {
        self.constraints.iter().all(|one| labels.contains_key(&one.topology_key))
    }

    /// Whether the pod selects a node.
    fn selects(&self, name: &str, labels: &Labels) -> bool {
        self.selection.matches(name, labels)
    }

    /// Whether the pod tolerates the taints of a node.
    fn tolerates(&self, taints: &[Taint]) -> bool {
        let keeps_off = |effect| effect != Effect::PreferNoSchedule;
        untolerated(taints, &self.tolerations, self.comparisons, keeps_off).is_none()
    }

    /// Whether a node counts.
    pub(super) fn inclusion(&self, name: &str, labels: &Labels, taints: &[Taint]) -> NodeInclusion {
        NodeInclusion { selected: self.selects(name, labels), tolerated: self.tolerates(taints) }
    }

    /// Of `nodes` those that count for the constraint at `i`: [`NodeInclusion::counts_for`] as conditions.
    pub(super) fn counted_nodes(self: &Arc<Self>, i: usize, nodes: CountedNodes) -> CountedNodes {
        let (mut nodes, constraint) = (nodes, &self.constraints[i]);
        if constraint.honor_node_affinity && !self.selection.is_any() {
            let own = self.clone();
            nodes = nodes.that::<(Name, Labels)>(move |(name, labels)| own.selects(name, labels));
        }
        if constraint.honor_node_taints {
            let own = self.clone();
            nodes = nodes.that::<Taints>(move |taints| own.tolerates(taints));
        }
        nodes
    }

    /// The nodes that have all topology keys.
    pub(super) fn nodes_with_all_keys(self: &Arc<Self>) -> CountedNodes {
        let own = self.clone();
        CountedNodes::all().that::<Labels>(move |labels| own.has_all_keys(labels))
    }

    /// Whether pods are counted in `namespace`.
    pub(super) fn is_of(&self, namespace: &str) -> bool {
        namespace == self.namespace
    }

    /// The selectors of all constraints.
    pub(super) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        let firsts = (0..).zip(&self.same_selector).filter(|(at, first)| at == *first);
        firsts.map(|(at, _): (usize, _)| &self.constraints[at].selector)
    }

    /// Whether the selector of the constraint at `i` matches a pod. As in filtering.go, updateWithPod:
    /// no other condition applies to a pod that is added or removed.
    pub(super) fn speaks_of(&self, i: usize, pod: Neighbour<'_>) -> bool {
        self.is_of(pod.namespace) && self.constraints[i].selector.matches(pod.labels)
    }

    /// Whether the constraint at `i` counts a pod on a node. As in common.go, countPodsMatchSelector:
    /// terminating pods do not count, and a selector that matches everything counts nothing.
    pub(super) fn counts(&self, i: usize, pod: Neighbour<'_>) -> bool {
        let is_everything = self.constraints[i].selector.is_everything();
        !is_everything && !pod.terminating && self.speaks_of(i, pod)
    }

    /// How many of `pods` each constraint counts.
    pub(super) fn counts_of(&self, pods: &PodSet) -> PerConstraint<i32> {
        let mut counts = PerConstraint::new();
        for (i, &same) in self.same_selector.iter().enumerate() {
            let count = if same < i { counts[same] } else { self.count(i, pods) };
            counts.push(count);
        }
        counts
    }

    /// How many of `pods` the constraint at `i` counts.
    pub(super) fn count(&self, i: usize, pods: &PodSet) -> i32 {
        if self.constraints[i].selector.is_everything() {
            return 0;
        }
        let is_counted = |one: &Replicas<'_>| {
            self.is_of(one.namespace) && self.constraints[i].selector.matches(&one.template.labels)
        };
        let count: usize = pods.replicas().filter(is_counted).map(|one| one.n_pods).sum();
        i32::try_from(count).expect("a node holds fewer than 2^31 pods")
    }
}
