//! Waiting pods, grouped by what can help them: of equal pods that the same plugins rejected, a change
//! helps all or none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_framework::Rejection;
use slab::Slab;

use super::pod::AttemptVerdict;
use crate::names::PodId;
use crate::signature::QueueSignature;

/// The key of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    /// Their signature; `None` if a plugin reads individual fields of pods, so that each pod must be
    /// checked.
    pub(super) signature: Option<QueueSignature>,
    /// The reason why they wait.
    pub(super) wait: WaitReason,
}

/// The reason why a pod waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WaitReason {
    /// It waits for a change that helps with the plugins that rejected it.
    Change(Arc<AttemptVerdict>),
    /// It waits until this plugin opens its gate, which is closed for this reason.
    Gate(&'static str, Rejection),
}

impl WaitReason {
    /// The plugins that keep the pod waiting.
    pub(super) fn plugins(&self) -> impl Iterator<Item = &'static str> {
        let (verdict, gate) = match self {
            WaitReason::Change(verdict) => (Some(&verdict.rejectors), None),
            WaitReason::Gate(plugin, _) => (None, Some(*plugin)),
        };
        verdict.into_iter().flatten().copied().chain(gate)
    }
}

/// The id of a group; it is reused after the group becomes empty.
pub(super) type GroupId = usize;

/// Pods with the same key.
#[derive(Debug)]
pub(super) struct WaitingGroup {
    pub(super) key: GroupKey,
    /// In no particular order; never empty.
    pub(super) pods: Vec<PodId>,
}

/// The waiting pods, in groups.
#[derive(Debug, Default)]
pub(super) struct WaitingGroups {
    all: Slab<WaitingGroup>,
    by_key: BTreeMap<GroupKey, GroupId>,
    /// Groups by each plugin for which they wait: a change for which a plugin is not registered costs
    /// nothing, however many pods wait.
    by_plugin: BTreeMap<&'static str, BTreeSet<GroupId>>,
    /// How many pods wait for a change; the others are gated.
    n_for_change: usize,
}

impl WaitingGroups {
    /// Inserts a pod, and returns its group and its index there.
    pub(super) fn insert(&mut self, key: GroupKey, pod: PodId) -> (GroupId, usize) {
        if matches!(key.wait, WaitReason::Change(_)) {
            self.n_for_change += 1;
        }
        let id = match self.by_key.get(&key) {
            Some(&id) => id,
            None => self.make(key),
        };
        (id, self.push(id, pod))
    }

    /// Inserts a pod that is equal to those of a group and waits for the same as they, and returns its index there.
    pub(super) fn join(&mut self, id: GroupId, pod: PodId) -> usize {
        if matches!(self.all[id].key.wait, WaitReason::Change(_)) {
            self.n_for_change += 1;
        }
        self.push(id, pod)
    }

    fn push(&mut self, id: GroupId, pod: PodId) -> usize {
        let pods = &mut self.all[id].pods;
        pods.push(pod);
        pods.len() - 1
    }

    /// Removes the pod at index `at` of a group, and returns the pod that has moved there.
    pub(super) fn remove(&mut self, id: GroupId, at: usize) -> Option<PodId> {
        let group = &mut self.all[id];
        if matches!(group.key.wait, WaitReason::Change(_)) {
            self.n_for_change -= 1;
        }
        group.pods.swap_remove(at);
        let moved = group.pods.get(at).copied();
        if group.pods.is_empty() {
            self.forget(id);
        }
        moved
    }

    /// Removes a whole group.
    pub(super) fn take(&mut self, id: GroupId) -> WaitingGroup {
        let group = self.forget(id);
        if matches!(group.key.wait, WaitReason::Change(_)) {
            self.n_for_change -= group.pods.len();
        }
        group
    }

    /// The group with this id.
    pub(super) fn get(&self, id: GroupId) -> &WaitingGroup {
        &self.all[id]
    }

    /// The same, if there still is one.
    pub(super) fn find(&self, id: GroupId) -> Option<&WaitingGroup> {
        self.all.get(id)
    }

    /// The groups that wait for a plugin for which `hears` is true.
    pub(super) fn waiting_for(&self, hears: impl Fn(&'static str) -> bool) -> Vec<GroupId> {
        let mut groups = Vec::new();
        for (plugin, waiting) in &self.by_plugin {
            if hears(plugin) {
                groups.extend(waiting);
            }
        }
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// The pods that wait for a change.
    pub(super) fn for_change(&self) -> impl Iterator<Item = PodId> {
        let groups = self.all.iter().map(|(_, group)| group);
        let waiting = groups.filter(|group| matches!(group.key.wait, WaitReason::Change(_)));
        waiting.flat_map(|group| &group.pods).copied()
    }

    /// Whether a pod waits for a change.
    pub(super) fn has_for_change(&self) -> bool {
        self.n_for_change != 0
    }

    fn make(&mut self, key: GroupKey) -> GroupId {
        let id = self.all.insert(WaitingGroup { key: key.clone(), pods: Vec::new() });
        for plugin in key.wait.plugins() {
            self.by_plugin.entry(plugin).or_default().insert(id);
        }
        self.by_key.insert(key, id);
        id
    }

    fn forget(&mut self, id: GroupId) -> WaitingGroup {
        let group = self.all.remove(id);
        self.by_key.remove(&group.key);
        for plugin in group.key.wait.plugins() {
            let groups = self.by_plugin.get_mut(plugin).expect("its group is listed there");
            groups.remove(&id);
            if groups.is_empty() {
                self.by_plugin.remove(plugin);
            }
        }
        group
    }
}
