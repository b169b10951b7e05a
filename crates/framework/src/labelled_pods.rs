//! Pods by the value of a label, for plugins whose groups of pods are made of labels.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{ObjectKey, Pod, PodKey};

use crate::pod_info::PodInfo;

/// The pods that have certain labels, by namespace and value. Only labels for which a plugin
/// [asks](crate::Builder::groups_pods_by) are looked at. An empty value counts as none.
///
/// A pod that names a PodGroup of the API (`spec.schedulingGroup`) is in none of these groups: it has one already. The
/// field counts only if the feature gate `GenericWorkload` is on.
#[derive(Clone, Debug, Default)]
pub struct LabelledPods(BTreeMap<&'static str, BTreeMap<ObjectKey, LabelledGroup>>);

/// The pods of one namespace that have the same value of a label.
#[derive(Clone, Debug, Default)]
pub struct LabelledGroup {
    /// Each with whether it has scheduling gates.
    known: BTreeMap<PodKey, bool>,
    n_gated: usize,
    placed: BTreeSet<PodKey>,
}

impl LabelledPods {
    /// Groups pods by `label`, too. Pods that are known already must be told again.
    pub fn keep(&mut self, label: &'static str) {
        self.0.entry(label).or_default();
    }

    /// Whether pods are grouped by no label at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The group of the pod by one of the labels: its namespace, and the value of the label.
    pub fn group_of(pod: &Pod, label: &str) -> Option<ObjectKey> {
        let value = pod.labels.get(label).filter(|value| !value.is_empty())?;
        let is_free = pod.scheduling_group.is_none();
        is_free.then(|| ObjectKey::new(pod.key.namespace.clone(), value.clone()))
    }

    /// A pod is known, and is now so: it is pending, also if it is gated or terminating, or on a node. Returns whether it
    /// belongs to a group.
    pub fn is_known(&mut self, pod: &Pod) -> bool {
        let is_gated = !pod.scheduling_gates.is_empty();
        self.change(pod, |group| {
            let before = group.known.insert(pod.key.clone(), is_gated);
            group.n_gated += usize::from(is_gated);
            group.n_gated -= usize::from(before == Some(true));
        })
    }

    /// A pod is no longer known. Returns whether it belonged to a group.
    pub fn is_gone(&mut self, pod: &Pod) -> bool {
        self.change(pod, |group| {
            let before = group.known.remove(&pod.key);
            group.n_gated -= usize::from(before == Some(true));
        })
    }

    /// A pod is on a node, or assumed to be. Returns whether it belongs to a group.
    pub fn is_placed(&mut self, pod: &PodInfo) -> bool {
        self.change(pod, |group| {
            group.placed.insert(pod.key.clone());
        })
    }

    /// A pod is no longer on a node. Returns whether it belongs to a group.
    pub fn is_displaced(&mut self, pod: &Pod) -> bool {
        self.change(pod, |group| {
            group.placed.remove(&pod.key);
        })
    }

    /// The pods of a group by `label`; `None` if there are none.
    pub fn get(&self, label: &str, group: &ObjectKey) -> Option<&LabelledGroup> {
        self.0.get(label)?.get(group)
    }

    fn change(&mut self, pod: &Pod, change: impl Fn(&mut LabelledGroup)) -> bool {
        let mut any = false;
        for (label, groups) in &mut self.0 {
            let Some(key) = LabelledPods::group_of(pod, label) else { continue };
            let group = groups.entry(key.clone()).or_default();
            change(group);
            if group.known.is_empty() && group.placed.is_empty() {
                groups.remove(&key);
            }
            any = true;
        }
        any
    }
}

impl LabelledGroup {
    /// How many pods of the group there are.
    pub fn n_pods(&self) -> usize {
        self.known.len()
    }

    /// How many of them have scheduling gates.
    pub fn n_gated(&self) -> usize {
        self.n_gated
    }

    /// All pods of the group, by name.
    pub fn pods(&self) -> impl Iterator<Item = &PodKey> {
        self.known.keys()
    }

    /// Those on nodes or assumed to be, by name.
    pub fn placed(&self) -> impl ExactSizeIterator<Item = &PodKey> {
        self.placed.iter()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Labels;

    use super::*;

    const TEAM: &str = "team";

    fn pod(name: &str, team: &str) -> Pod {
        let mut pod = Pod { key: PodKey::new("default", name), ..Pod::default() };
        pod.labels = Labels::from_iter([(TEAM, team)]);
        pod
    }

    fn counts(pods: &LabelledPods, team: &str) -> Option<[usize; 3]> {
        let group = pods.get(TEAM, &ObjectKey::new("default", team))?;
        Some([group.n_pods(), group.n_gated(), group.placed().len()])
    }

    #[test]
    fn pods_are_counted_by_the_value_of_a_label_that_was_asked_for() {
        let mut pods = LabelledPods::default();
        assert!(!pods.is_known(&pod("a", "x")));
        pods.keep(TEAM);
        assert!(pods.is_known(&pod("a", "x")) && pods.is_known(&pod("b", "x")));
        assert!(!pods.is_known(&pod("c", "")));
        let mut gated = pod("b", "x");
        gated.scheduling_gates = vec!["later".into()];
        pods.is_known(&gated);
        pods.is_placed(&PodInfo::new(pod("a", "x")));
        assert_eq!((counts(&pods, "x"), counts(&pods, "y")), (Some([2, 1, 1]), None));
        pods.is_known(&pod("b", "x"));
        assert_eq!(counts(&pods, "x"), Some([2, 0, 1]));
        pods.is_gone(&pod("b", "x"));
        pods.is_displaced(&pod("a", "x"));
        pods.is_gone(&pod("a", "x"));
        assert_eq!(counts(&pods, "x"), None);
    }

    #[test]
    fn a_pod_with_a_group_of_the_api_is_in_no_group_of_a_label() {
        let mut pods = LabelledPods::default();
        pods.keep(TEAM);
        let mut member = pod("a", "x");
        member.scheduling_group = Some("train".into());
        assert!(!pods.is_known(&member));
        assert_eq!(counts(&pods, "x"), None);
    }
}
