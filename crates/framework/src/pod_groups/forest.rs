//! Groups of groups: which group is part of which.

use std::fmt;

use plimsoll_api::pod_group::{DisruptionMode, GroupPolicy};
use plimsoll_api::{CompositePodGroup, KeyRef, Kind, ObjectKey, Pod, PodGroup, Store, Timestamp};

use super::{GroupGates, PodGroupState, PodGroupStates, group_key_of, group_of};
use crate::stores::Stores;

/// The most levels of groups, as in the API of workloads (`WorkloadMaxTreeDepth`). A deeper chain, or one that is a
/// circle, has no root.
const LEVELS: usize = 4;

/// A group of pods, or a group of groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupRef {
    /// A CompositePodGroup.
    Composite(ObjectKey),
    /// A PodGroup.
    Pods(ObjectKey),
}

impl GroupRef {
    /// Its namespace and name.
    pub fn key(&self) -> &ObjectKey {
        match self {
            GroupRef::Composite(key) | GroupRef::Pods(key) => key,
        }
    }

    /// The kind of its object: `PodGroup` or `CompositePodGroup`.
    pub fn kind(&self) -> &'static str {
        match self {
            GroupRef::Composite(_) => CompositePodGroup::NAME,
            GroupRef::Pods(_) => PodGroup::NAME,
        }
    }
}

impl fmt::Display for GroupRef {
    /// As in framework/types.go, EntityKey.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupRef::Composite(key) => write!(f, "compositepodgroup/{key}"),
            GroupRef::Pods(key) => write!(f, "podgroup/{key}"),
        }
    }
}

/// A group whose object is not there, or which is too deep in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingGroup(pub GroupRef);

impl fmt::Display for MissingGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            GroupRef::Composite(_) => {
                write!(f, "composite pod group object not found in state for {}", self.0)
            }
            GroupRef::Pods(_) => write!(f, "pod group object not found in state for {}", self.0),
        }
    }
}

/// The trees of groups. Without the feature gate `CompositePodGroup` each group is a tree by itself.
#[derive(Clone, Copy, Debug)]
pub struct GroupForest<'a> {
    groups: &'a Store<PodGroup>,
    composites: Option<&'a Store<CompositePodGroup>>,
}

impl<'a> GroupForest<'a> {
    /// The trees of these groups; `composites` only with the feature gate.
    pub fn new(
        groups: &'a Store<PodGroup>,
        composites: Option<&'a Store<CompositePodGroup>>,
    ) -> Self {
        GroupForest { groups, composites }
    }

    /// The trees in a cluster.
    pub fn of(stores: &'a Stores, gates: GroupGates) -> Self {
        let composites = gates.composite.then(|| &**stores.of::<CompositePodGroup>());
        GroupForest::new(stores.of::<PodGroup>(), composites)
    }

    /// The object of a PodGroup.
    pub fn pod_group<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&'a PodGroup> {
        self.groups.get(key).map(AsRef::as_ref)
    }

    /// The object of a CompositePodGroup.
    pub fn composite(&self, key: &ObjectKey) -> Option<&'a CompositePodGroup> {
        self.composites?.get(key).map(AsRef::as_ref)
    }

    /// The group and those above it that exist, from the bottom to the top. `Err` names the one that is missing.
    pub fn chain(&self, group: GroupRef) -> Result<Vec<GroupRef>, MissingGroup> {
        let (known, missing) = self.known_chain(group);
        match missing {
            None => Ok(known),
            Some(missing) => Err(missing),
        }
    }

    /// The group and those above it, up to the first that is missing, which is returned, too.
    fn known_chain(&self, group: GroupRef) -> (Vec<GroupRef>, Option<MissingGroup>) {
        let (mut known, mut next) = (Vec::new(), Some(group));
        while let Some(group) = next {
            let parent = match &group {
                GroupRef::Pods(key) => self.pod_group(key).map(|object| &object.parent),
                GroupRef::Composite(key) => self.composite(key).map(|object| &object.parent),
            };
            let parent = parent.filter(|_| known.len() < LEVELS);
            let Some(parent) = parent else { return (known, Some(MissingGroup(group))) };
            let parent = parent.as_ref().filter(|_| self.composites.is_some());
            let namespace = group.key().namespace.clone();
            next = parent.map(|name| GroupRef::Composite(ObjectKey::new(namespace, name.clone())));
            known.push(group);
        }
        (known, None)
    }

    /// The root of the tree that a PodGroup is part of.
    pub fn root(&self, group: &ObjectKey) -> Result<GroupRef, MissingGroup> {
        if self.composites.is_none() {
            let group = GroupRef::Pods(group.clone());
            let is_there = self.pod_group(group.key()).is_some();
            return if is_there { Ok(group) } else { Err(MissingGroup(group)) };
        }
        let mut chain = self.chain(GroupRef::Pods(group.clone()))?;
        Ok(chain.pop().expect("a chain begins with the group itself"))
    }

    /// The groups of a composite group: by the time of their creation, then by name, composite ones first.
    pub fn children(&self, group: &GroupRef) -> Vec<GroupRef> {
        let GroupRef::Composite(key) = group else { return Vec::new() };
        let Some(composites) = self.composites else { return Vec::new() };
        let is_here = |other: &ObjectKey| other.namespace == key.namespace;
        let composite = composites.by_index(&key.name).filter(|one| is_here(&one.key));
        let composite = composite.map(|one| (one.created, GroupRef::Composite(one.key.clone())));
        let of_pods = self.groups.by_index(&key.name).filter(|one| is_here(&one.key));
        let of_pods = of_pods.map(|one| (one.created, GroupRef::Pods(one.key.clone())));
        let mut children: Vec<(Option<Timestamp>, GroupRef)> = composite.chain(of_pods).collect();
        children.sort_by(|(a_came, a), (b_came, b)| {
            (a_came, &a.key().name, a).cmp(&(b_came, &b.key().name, b))
        });
        children.into_iter().map(|(_, child)| child).collect()
    }

    /// The PodGroups of a group: itself, or those of a composite group on all levels, in the order of
    /// [`children`](Self::children).
    pub fn leaves(&self, group: &GroupRef) -> Vec<ObjectKey> {
        if let GroupRef::Pods(key) = group {
            return vec![key.clone()];
        }
        let of_pods = self.all(group).into_iter().filter_map(|one| match one {
            GroupRef::Pods(key) => Some(key),
            GroupRef::Composite(_) => None,
        });
        of_pods.collect()
    }

    /// The group and those that are part of it on all levels, each once and before its parts, in the order of
    /// [`children`](Self::children).
    pub fn all(&self, group: &GroupRef) -> Vec<GroupRef> {
        let (mut above, mut all) = (Vec::new(), Vec::new());
        self.add_all(group, &mut above, &mut all);
        all
    }

    fn add_all(&self, group: &GroupRef, above: &mut Vec<GroupRef>, all: &mut Vec<GroupRef>) {
        let is_composite = matches!(group, GroupRef::Composite(_));
        // A group has one parent, so it comes twice only if it is part of itself.
        if is_composite && (LEVELS <= above.len() || above.contains(group)) {
            return;
        }
        all.push(group.clone());
        if is_composite {
            above.push(group.clone());
            for child in self.children(group) {
                self.add_all(&child, above, all);
            }
            above.pop();
        }
    }

    /// The priority that counts for a pod when others evict it, and when they are evicted for its group: that of the root
    /// of its tree, or of the highest group that is there; its own if it has no group. As in preemption/util.go,
    /// getPodPriority.
    pub fn priority_of(&self, pod: &Pod) -> i32 {
        let of_group = group_key_of(pod).and_then(|group| self.priority_in(group));
        of_group.unwrap_or(pod.priority)
    }

    /// The priority that counts for the pods of a PodGroup; `None` if it has no object, so that it is their own.
    pub fn priority_in<'k>(&self, group: impl Into<KeyRef<'k>>) -> Option<i32> {
        let group = group.into();
        if self.composites.is_none() {
            return self.pod_group(group).map(|object| object.priority);
        }
        let (known, _) = self.known_chain(GroupRef::Pods(ObjectKey::from(group)));
        known.last().map(|top| self.priority(top))
    }

    /// The priority of a group; 0 without an object.
    pub fn priority(&self, group: &GroupRef) -> i32 {
        match group {
            GroupRef::Pods(key) => self.pod_group(key).map_or(0, |object| object.priority),
            GroupRef::Composite(key) => self.composite(key).map_or(0, |object| object.priority),
        }
    }

    /// The group that must be evicted as a whole if a pod of it is: the highest one with the mode `all`. As in
    /// preemption/types.go, getHighestAllAncestor.
    pub fn evicted_with(&self, pod: &Pod) -> Option<GroupRef> {
        let (known, _) = self.known_chain(GroupRef::Pods(group_of(pod)?));
        known.into_iter().rfind(|group| self.disruption(group) == DisruptionMode::All)
    }

    fn disruption(&self, group: &GroupRef) -> DisruptionMode {
        match group {
            GroupRef::Pods(key) => self.pod_group(key).map(|object| object.disruption),
            GroupRef::Composite(key) => self.composite(key).map(|object| object.disruption),
        }
        .unwrap_or_default()
    }

    /// Whether enough pods are there for a group: `count` says how many pods of a PodGroup are. A PodGroup needs as many
    /// as its `minCount`, a composite one as many ready groups as its `minGroupCount`; one that is no gang needs one. As
    /// in gangscheduling.go, isCPGTreeReady.
    pub fn is_ready(
        &self,
        group: &GroupRef,
        states: &PodGroupStates,
        count: fn(&PodGroupState) -> usize,
    ) -> bool {
        self.is_ready_within(group, LEVELS, states, count)
    }

    fn is_ready_within(
        &self,
        group: &GroupRef,
        levels: usize,
        states: &PodGroupStates,
        count: fn(&PodGroupState) -> usize,
    ) -> bool {
        let least = |policy: GroupPolicy| {
            usize::try_from(policy.min_count().unwrap_or(1)).expect("a count fits")
        };
        match group {
            GroupRef::Pods(key) => {
                let Some(object) = self.pod_group(key) else { return false };
                least(object.policy) <= states.get(key).map_or(0, count)
            }
            GroupRef::Composite(_) if levels == 0 => false,
            GroupRef::Composite(key) => {
                let Some(object) = self.composite(key) else { return false };
                let ready = self
                    .children(group)
                    .into_iter()
                    .filter(|child| self.is_ready_within(child, levels - 1, states, count));
                least(object.policy) <= ready.count()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{KindRef, Str};

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("default", name)
    }

    /// Groups as `name<parent`, composite ones in capitals.
    fn stores(groups: &str) -> Stores {
        let mut stores = Stores::default();
        stores.keep(KindRef::of::<PodGroup>());
        stores.keep(KindRef::of::<CompositePodGroup>());
        for group in groups.split_whitespace() {
            let (name, parent) = group.split_once('<').unwrap_or((group, ""));
            let parent = (!parent.is_empty()).then(|| Str::from(parent));
            if name.starts_with(char::is_uppercase) {
                let composite =
                    CompositePodGroup { key: key(name), parent, ..CompositePodGroup::default() };
                stores.set(&composite.into());
            } else {
                stores.set(&PodGroup { key: key(name), parent, ..PodGroup::default() }.into());
            }
        }
        stores
    }

    const ON: GroupGates = GroupGates {
        generic_workload: true,
        gang_scheduling: true,
        topology_aware: true,
        preemption: true,
        composite: true,
        preemption_policy: false,
        rules: super::super::GroupRules::V1_37,
    };

    #[test]
    fn the_root_is_the_highest_group_and_every_group_up_to_it_must_exist() {
        let stores = stores("Job Workers<Job a<Workers b<Job c lost<Gone");
        let forest = GroupForest::of(&stores, ON);
        let root = |name| forest.root(&key(name)).map_err(|missing| missing.to_string());
        assert_eq!(root("a"), Ok(GroupRef::Composite(key("Job"))));
        assert_eq!(root("c"), Ok(GroupRef::Pods(key("c"))));
        assert_eq!(
            root("lost").expect_err("its parent is not there"),
            "composite pod group object not found in state for compositepodgroup/default/Gone"
        );
        assert_eq!(
            root("none").expect_err("it is not there"),
            "pod group object not found in state for podgroup/default/none"
        );
        let leaves = forest.leaves(&GroupRef::Composite(key("Job")));
        assert_eq!(leaves, [key("a"), key("b")]);
        let off = GroupForest::of(&stores, GroupGates { composite: false, ..ON });
        assert_eq!(off.root(&key("a")), Ok(GroupRef::Pods(key("a"))));
    }

    #[test]
    fn a_circle_and_a_tree_that_is_too_deep_have_no_root() {
        let circle = stores("A<B B<A a<A");
        let forest = GroupForest::of(&circle, ON);
        assert!(forest.root(&key("a")).is_err());
        let [a, b] = ["A", "B"].map(|name| GroupRef::Composite(key(name)));
        let leaf = GroupRef::Pods(key("a"));
        assert_eq!(forest.all(&a), [a.clone(), b.clone(), leaf.clone()]);
        assert_eq!(forest.all(&b), [b, a.clone(), leaf]);
        assert_eq!(forest.leaves(&a), [key("a")]);
        let deep = stores("A B<A C<B D<C c<C d<D");
        assert!(GroupForest::of(&deep, ON).root(&key("c")).is_ok());
        assert!(GroupForest::of(&deep, ON).root(&key("d")).is_err());
    }
}
