//! Pods for which a node was cleared and that are not on it yet.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use plimsoll_api::{PodKey, Str};
use rustc_hash::FxBuildHasher;

use crate::pod_info::PodInfo;

type FastMap<K, V> = HashMap<K, V, FxBuildHasher>;

/// The nominated pods, by the node that was cleared for them.
///
/// A pod fits on such a node only if it also fits with the nominated pods of the same or a higher priority, as if they
/// were there already.
#[derive(Clone, Debug, Default)]
pub struct NominatedPods {
    pods: FastMap<PodKey, (PodInfo, Str)>,
    /// Those of each node, by name.
    by_node: FastMap<Str, Vec<PodInfo>>,
    /// How many there are of each priority.
    priorities: BTreeMap<i32, usize>,
    /// The nodes that got or lost a nominated pod; `None` if nobody will ask.
    changed: Option<Vec<Str>>,
    /// Grows with every change.
    revision: u64,
}

impl NominatedPods {
    /// The pods nominated to `node`, by name.
    pub fn on(&self, node: &str) -> impl Iterator<Item = &PodInfo> {
        self.by_node.get(node).into_iter().flatten()
    }

    /// The pods nominated to `node` for which `pod` must leave room, by name.
    pub fn ahead_of(&self, pod: &PodInfo, node: &str) -> Vec<PodInfo> {
        let ahead = |other: &&PodInfo| pod.priority <= other.priority && other.key != pod.key;
        self.on(node).filter(ahead).cloned().collect()
    }

    /// The node to which a pod is nominated.
    pub fn node_of(&self, pod: &PodKey) -> Option<&Str> {
        self.pods.get(pod).map(|(_, node)| node)
    }

    /// A nominated pod, as it was when it was last nominated.
    pub fn get(&self, pod: &PodKey) -> Option<&PodInfo> {
        self.pods.get(pod).map(|(pod, _)| pod)
    }

    /// Whether no pod is nominated.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The highest priority of a nominated pod.
    pub fn highest(&self) -> Option<i32> {
        self.priorities.last_key_value().map(|(&priority, _)| priority)
    }

    /// All of them, node by node.
    pub fn iter(&self) -> impl Iterator<Item = (&Str, &PodInfo)> {
        let mut all: Vec<_> = self.by_node.iter().collect();
        all.sort_unstable_by_key(|(node, _)| *node);
        all.into_iter().flat_map(|(node, pods)| pods.iter().map(move |pod| (node, pod)))
    }

    /// A number that is the same only if nothing has changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Goes back to an earlier revision, because all changes since then have been undone.
    pub fn changes_are_undone(&mut self, revision: u64) {
        self.revision = revision;
    }

    /// From now on, records the nodes that get or lose a nominated pod until they are [asked for](Self::changed).
    pub fn keep_changes(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// The nodes that got or lost a nominated pod since the last call, or one whose nominated pod has changed. A node may
    /// occur twice.
    pub fn changed(&mut self) -> Vec<Str> {
        self.changed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Nominates `pod` to `node`, in place of an earlier node.
    pub fn set(&mut self, pod: PodInfo, node: Str) {
        self.remove(&pod.key);
        *self.priorities.entry(pod.priority).or_default() += 1;
        let on_node = self.by_node.entry(node.clone()).or_default();
        let at = on_node.partition_point(|other| other.key < pod.key);
        on_node.insert(at, pod.clone());
        self.note(&node);
        self.pods.insert(pod.key.clone(), (pod, node));
    }

    /// Removes a nomination. Returns the node, if there was one.
    pub fn remove(&mut self, pod: &PodKey) -> Option<Str> {
        if self.pods.is_empty() {
            return None;
        }
        let (gone, node) = self.pods.remove(pod)?;
        let on_node = self.by_node.get_mut(&node).expect("both maps have the same pods");
        on_node.retain(|other| other.key != *pod);
        if on_node.is_empty() {
            self.by_node.remove(&node);
        }
        let left = self.priorities.get_mut(&gone.priority).expect("its priority was counted");
        *left -= 1;
        if *left == 0 {
            self.priorities.remove(&gone.priority);
        }
        self.note(&node);
        Some(node)
    }

    fn note(&mut self, node: &Str) {
        self.revision += 1;
        if let Some(changed) = self.changed.as_mut().filter(|one| one.last() != Some(node)) {
            changed.push(node.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_api::{Pod, PodTemplate};

    fn pod(name: &str, priority: i32) -> PodInfo {
        let template = PodTemplate { priority, ..PodTemplate::default() };
        PodInfo::new(Pod::new(PodKey::new("default", name), template))
    }

    #[test]
    fn only_others_of_the_same_or_a_higher_priority_are_ahead() {
        let mut nominated = NominatedPods::default();
        for (name, priority) in [("low", 1), ("same", 2), ("high", 3)] {
            nominated.set(pod(name, priority), "n".into());
        }
        let ahead = nominated.ahead_of(&pod("p", 2), "n");
        let names: Vec<_> = ahead.iter().map(|pod| pod.key.name.as_str()).collect();
        assert_eq!(names, ["high", "same"]);
        let own = nominated.ahead_of(&pod("same", 2), "n");
        assert_eq!(own.len(), 1);
    }

    #[test]
    fn every_node_that_gets_or_loses_a_nominated_pod_is_reported() {
        let mut nominated = NominatedPods::default();
        nominated.set(pod("early", 9), "x".into());
        assert!(nominated.changed().is_empty());
        nominated.keep_changes();
        let before = nominated.revision();
        nominated.set(pod("p", 1), "a".into());
        nominated.set(pod("p", 2), "b".into());
        assert_eq!(nominated.changed(), ["a", "b"]);
        assert!(before < nominated.revision());
        nominated.changes_are_undone(before);
        assert_eq!(nominated.revision(), before);
        nominated.remove(&pod("early", 9).key);
        assert_eq!((nominated.changed(), nominated.highest()), (vec!["x".into()], Some(2)));
        let all: Vec<_> =
            nominated.iter().map(|(node, pod)| (node.as_str(), pod.priority)).collect();
        assert_eq!(all, [("b", 2)]);
    }

    #[test]
    fn a_pod_is_nominated_to_one_node_at_a_time() {
        let mut nominated = NominatedPods::default();
        nominated.set(pod("p", 0), "a".into());
        nominated.set(pod("p", 0), "b".into());
        assert_eq!(nominated.on("a").count(), 0);
        assert_eq!(nominated.node_of(&pod("p", 0).key).map(Str::as_str), Some("b"));
        assert_eq!(nominated.remove(&pod("p", 0).key).as_deref(), Some("b"));
        assert!(nominated.is_empty());
    }
}
