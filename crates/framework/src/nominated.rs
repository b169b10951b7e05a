//! Pods for which a node was cleared and that are not there yet.

use std::collections::BTreeMap;

use plimsoll_api::{PodKey, Str};

use crate::pod_info::PodInfo;

/// The nominated pods, by the node that was cleared for them.
///
/// A pod that is judged on such a node must fit with the nominated pods of its own priority or
/// higher, as if they were there already.
#[derive(Clone, Debug, Default)]
pub struct NominatedPods {
    by_node: BTreeMap<Str, BTreeMap<PodKey, PodInfo>>,
    node_of: BTreeMap<PodKey, Str>,
}

impl NominatedPods {
    /// The pods nominated to `node`, by name.
    pub fn on(&self, node: &str) -> impl Iterator<Item = &PodInfo> {
        self.by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// The pods nominated to `node` that `pod` has to make room for, by name.
    pub fn ahead_of(&self, pod: &PodInfo, node: &str) -> Vec<PodInfo> {
        let ahead = |other: &&PodInfo| pod.priority <= other.priority && other.key != pod.key;
        self.on(node).filter(ahead).cloned().collect()
    }

    /// The node to which a pod is nominated.
    pub fn node_of(&self, pod: &PodKey) -> Option<&Str> {
        self.node_of.get(pod)
    }

    /// Whether no pod is nominated.
    pub fn is_empty(&self) -> bool {
        self.node_of.is_empty()
    }

    /// Nominates `pod` to `node`, in place of an earlier node.
    pub fn set(&mut self, pod: PodInfo, node: Str) {
        self.remove(&pod.key);
        self.node_of.insert(pod.key.clone(), node.clone());
        self.by_node.entry(node).or_default().insert(pod.key.clone(), pod);
    }

    /// Takes a nomination back; the node, if there was one.
    pub fn remove(&mut self, pod: &PodKey) -> Option<Str> {
        let node = self.node_of.remove(pod)?;
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_api::Pod;

    fn pod(name: &str, priority: i32) -> PodInfo {
        PodInfo::new(Pod { key: PodKey::new("default", name), priority, ..Pod::default() })
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
