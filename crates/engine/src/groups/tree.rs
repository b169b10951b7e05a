//! A group in its scheduling cycle, as a tree: a group of groups has these as children.

use std::collections::BTreeMap;
use std::ops::Range;

use plimsoll_api::{CompositePodGroup, ObjectKey, PodGroup};
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{GroupForest, GroupInCycle, GroupRef, PodInfo};

use crate::queue::Attempt;

/// A group in its cycle.
pub(super) struct GroupCycle {
    /// The group; under the rules of 1.37 the root of its tree.
    pub(super) root: GroupNode,
    /// The members that are tried, in order: those of each PodGroup stand together.
    pub(super) attempts: Vec<Attempt>,
    /// The same.
    pub(super) pods: Vec<PodInfo>,
}

/// A group of the tree.
pub(super) struct GroupNode {
    /// Its number in the tree; the root has 0, and each group comes before its children.
    pub(super) number: usize,
    pub(super) group: GroupRef,
    pub(super) object: Option<PodGroup>,
    pub(super) composite: Option<CompositePodGroup>,
    /// The PodGroups in it: itself, or those of a composite group.
    leaves: Vec<ObjectKey>,
    /// Its members among those of the cycle.
    pub(super) members: Range<usize>,
    pub(super) children: Vec<GroupNode>,
}

impl GroupCycle {
    /// A PodGroup by itself with these members, in the order in which they are tried.
    pub(super) fn single(key: ObjectKey, object: Option<PodGroup>, attempts: Vec<Attempt>) -> Self {
        let root = GroupNode {
            number: 0,
            leaves: vec![key.clone()],
            group: GroupRef::Pods(key),
            object,
            composite: None,
            members: 0..attempts.len(),
            children: Vec::new(),
        };
        GroupCycle::new(root, attempts)
    }

    /// A tree of groups with these members. Those of each PodGroup keep their order.
    pub(super) fn tree(root: &GroupRef, forest: GroupForest<'_>, attempts: Vec<Attempt>) -> Self {
        if let GroupRef::Pods(key) = root {
            return GroupCycle::single(key.clone(), forest.pod_group(key).cloned(), attempts);
        }
        let mut by_leaf = BTreeMap::<ObjectKey, Vec<Attempt>>::new();
        for attempt in attempts {
            if let Some(leaf) = group_of(&attempt.pod) {
                by_leaf.entry(leaf).or_default().push(attempt);
            }
        }
        let mut planted = Planted { forest, by_leaf, attempts: Vec::new(), n_nodes: 0 };
        let root = planted.node(root);
        GroupCycle::new(root, planted.attempts)
    }

    fn new(root: GroupNode, attempts: Vec<Attempt>) -> Self {
        let pods = attempts.iter().map(|attempt| attempt.pod.clone()).collect();
        GroupCycle { root, attempts, pods }
    }

    /// A group of the tree as plugins see it.
    pub(super) fn in_cycle<'a>(&'a self, node: &'a GroupNode) -> GroupInCycle<'a> {
        GroupInCycle {
            key: node.group.key(),
            object: node.object.as_ref(),
            composite: node.composite.as_ref(),
            leaves: &node.leaves,
            members: &self.pods[node.members.clone()],
        }
    }
}

impl GroupNode {
    /// This group and all below it, each before its children.
    pub(super) fn all(&self) -> Vec<&GroupNode> {
        let mut all = vec![self];
        for child in &self.children {
            all.extend(child.all());
        }
        all
    }

    /// The PodGroups in it: itself, or those of a composite group.
    pub(super) fn leaves(&self) -> &[ObjectKey] {
        &self.leaves
    }

    /// Whether it has pods of its own, and no groups.
    pub(super) fn is_leaf(&self) -> bool {
        matches!(self.group, GroupRef::Pods(_))
    }

    /// The unique identity of its object.
    pub(super) fn uid(&self) -> &str {
        let of_composite = self.composite.as_ref().map(|composite| &composite.uid);
        let uid = of_composite.or(self.object.as_ref().map(|object| &object.uid));
        uid.map_or("", |uid| uid.as_str())
    }
}

/// A tree that is being made.
struct Planted<'a> {
    forest: GroupForest<'a>,
    by_leaf: BTreeMap<ObjectKey, Vec<Attempt>>,
    attempts: Vec<Attempt>,
    n_nodes: usize,
}

impl Planted<'_> {
    fn node(&mut self, group: &GroupRef) -> GroupNode {
        let (number, begin) = (self.n_nodes, self.attempts.len());
        self.n_nodes += 1;
        let forest = self.forest;
        let children: Vec<GroupNode> =
            forest.children(group).iter().map(|child| self.node(child)).collect();
        let (object, composite) = match group {
            GroupRef::Pods(key) => {
                self.attempts.extend(self.by_leaf.remove(key).unwrap_or_default());
                (forest.pod_group(key).cloned(), None)
            }
            GroupRef::Composite(key) => (None, forest.composite(key).cloned()),
        };
        GroupNode {
            number,
            group: group.clone(),
            object,
            composite,
            leaves: forest.leaves(group),
            members: begin..self.attempts.len(),
            children,
        }
    }
}
