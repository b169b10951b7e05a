//! The nominated pods, by node.
//!
//! A node with a nominated pod is judged twice: as if the pod were there, and as it is. So for pods that must
//! leave room for the nominated pod, a nomination is a change of the node.

use plimsoll_framework::{Columns, NominatedPods, PodInfo, Row};

use super::FastMap;
use super::signatures::SignatureId;

/// The nominated pods on known nodes.
#[derive(Debug, Default)]
pub(crate) struct Nominations {
    /// By row; the pods of each node are sorted by name.
    on: FastMap<Row, Vec<(SignatureId, PodInfo)>>,
    /// How many there are of each signature and priority.
    signatures: FastMap<(SignatureId, i32), u32>,
}

impl Nominations {
    /// Sets the pods nominated to one node. `signature` returns the signature of a pod as a
    /// [neighbour](plimsoll_framework::Neighbour), or `None` if there are too many.
    pub(crate) fn set(
        &mut self,
        row: Row,
        pods: &[PodInfo],
        mut signature: impl FnMut(&PodInfo) -> Option<SignatureId>,
    ) -> Option<()> {
        for (signature, pod) in self.on.remove(&row).into_iter().flatten() {
            let left = self.signatures.get_mut(&(signature, pod.priority)).expect("it was counted");
            *left -= 1;
            if *left == 0 {
                self.signatures.remove(&(signature, pod.priority));
            }
        }
        if pods.is_empty() {
            return Some(());
        }
        let mut on = Vec::with_capacity(pods.len());
        for pod in pods {
            let signature = signature(pod)?;
            *self.signatures.entry((signature, pod.priority)).or_default() += 1;
            on.push((signature, pod.clone()));
        }
        self.on.insert(row, on);
        Some(())
    }

    /// Whether both hold the same pods with the same signatures.
    pub(super) fn equal(&self, other: &Nominations) -> bool {
        let is_same = |(row, on): (&Row, &Vec<(SignatureId, PodInfo)>)| {
            let others = other.on.get(row).into_iter().flatten();
            let pairs = others.map(|(signature, pod)| (signature, &pod.key, pod.priority));
            on.iter().map(|(signature, pod)| (signature, &pod.key, pod.priority)).eq(pairs)
        };
        self.signatures == other.signatures
            && self.on.len() == other.on.len()
            && self.on.iter().all(is_same)
    }

    /// Whether a pod of `priority` must leave room for a pod nominated to a node.
    pub(crate) fn has_ahead(&self, row: Row, priority: i32) -> bool {
        let on = self.on.get(&row);
        on.is_some_and(|on| on.iter().any(|(_, other)| priority <= other.priority))
    }

    /// The pods nominated to a node for which a pod of `priority` must leave room, without `own`. As in
    /// [`NominatedPods::ahead_of`].
    pub(crate) fn ahead(&self, row: Row, priority: i32, own: Option<&PodInfo>) -> Vec<PodInfo> {
        let is_ahead = |other: &&PodInfo| {
            priority <= other.priority && own.is_none_or(|own| own.key != other.key)
        };
        let on = self.on.get(&row).into_iter().flatten().map(|(_, pod)| pod);
        on.filter(is_ahead).cloned().collect()
    }

    /// The rows of the nodes that have nominated pods, in no particular order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        self.on.keys().copied()
    }

    /// Whether a nominated pod has a signature.
    pub(crate) fn have(&self, signature: SignatureId) -> bool {
        self.signatures.keys().any(|&(known, _)| known == signature)
    }

    /// The signatures of all nominated pods for which a pod of `priority` must leave room.
    pub(crate) fn signatures_ahead(&self, priority: i32) -> impl Iterator<Item = SignatureId> {
        let ahead = self.signatures.keys().filter(move |&&(_, other)| priority <= other);
        ahead.map(|&(signature, _)| signature)
    }
}

/// The pods nominated to the node in `row`, sorted by name.
pub(crate) fn on(nominated: &NominatedPods, nodes: &Columns, row: Row) -> Vec<PodInfo> {
    nominated.on(nodes.name_of(row)).cloned().collect()
}

/// A node for a dry run with other pods on it.
pub(crate) struct OnScratch<'a> {
    pub(crate) scratch: &'a mut Columns,
    pub(crate) nodes: &'a Columns,
    pub(crate) row: Row,
}

impl<'a> OnScratch<'a> {
    /// The node with these pods.
    pub(crate) fn with(self, pods: &[PodInfo]) -> (&'a Columns, Row) {
        self.with_each(pods, |_, _, _| {})
    }

    /// The node with these pods. `each` is called after each of them was placed.
    pub(crate) fn with_each(
        self,
        pods: &[PodInfo],
        mut each: impl FnMut(&PodInfo, &Columns, Row),
    ) -> (&'a Columns, Row) {
        let only = Row::from_index(0);
        self.scratch.become_scratch(self.nodes, self.row);
        for pod in pods {
            self.scratch.place(only, pod);
            each(pod, self.scratch, only);
        }
        (self.scratch, only)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Pod, PodKey, PodTemplate};

    use super::*;

    fn pod(name: &str, priority: i32) -> PodInfo {
        let template = PodTemplate { priority, ..PodTemplate::default() };
        PodInfo::new(Pod::new(PodKey::new("default", name), template))
    }

    /// Nominations of pods to rows. The signature of a pod is the length of its name.
    fn nominations(of: &[(usize, &[PodInfo])]) -> Nominations {
        let mut nominations = Nominations::default();
        for (row, pods) in of {
            nominations.set(Row::from_index(*row), pods, length).expect("all have signatures");
        }
        nominations
    }

    fn length(pod: &PodInfo) -> Option<SignatureId> {
        SignatureId::try_from(pod.key.name.len()).ok()
    }

    #[test]
    fn pods_of_equal_or_higher_priority_are_ahead_except_the_pod_itself() {
        let pods = [pod("a", 3), pod("b", 5), pod("c", 7)];
        let nominations = nominations(&[(1, &pods)]);
        let row = Row::from_index(1);
        let ahead = |priority, own: Option<&PodInfo>| -> Vec<String> {
            let ahead = nominations.ahead(row, priority, own);
            ahead.iter().map(|pod| pod.key.name.to_string()).collect()
        };
        assert_eq!(ahead(5, None), ["b", "c"]);
        assert_eq!(ahead(5, Some(&pods[1])), ["c"]);
        assert_eq!(
            [3, 7, 8].map(|priority| nominations.has_ahead(row, priority)),
            [true, true, false]
        );
        assert!(!nominations.has_ahead(Row::FIRST, 3));
        assert_eq!(nominations.rows().collect::<Vec<_>>(), [row]);
    }

    #[test]
    fn signatures_are_counted_over_all_nodes_and_by_priority() {
        let both = [pod("a", 1), pod("b", 9)];
        let mut nominations = nominations(&[(0, &both), (1, &both[..1])]);
        let ahead = |of: &Nominations, priority| of.signatures_ahead(priority).count();
        assert_eq!((ahead(&nominations, 0), ahead(&nominations, 2)), (2, 1));
        // On another node there is still one of them.
        nominations.set(Row::FIRST, &[], length).expect("none needs a signature");
        assert!(nominations.have(1) && ahead(&nominations, 2) == 0);
        nominations.set(Row::from_index(1), &[], length).expect("none needs a signature");
        assert!(!nominations.have(1) && nominations.equal(&Nominations::default()));
    }

    #[test]
    fn too_many_signatures_are_told() {
        let mut nominations = nominations(&[(0, &[pod("a", 1)])]);
        assert!(nominations.set(Row::FIRST, &[pod("b", 1)], |_| None).is_none());
    }

    #[test]
    fn a_node_for_a_dry_run_has_the_pods_and_the_original_has_not() {
        let mut nodes = Columns::default();
        let row = nodes.add(plimsoll_api::Node { name: "n".into(), ..Default::default() });
        let mut scratch = Columns::default();
        let mut seen = Vec::new();
        let on_scratch = OnScratch { scratch: &mut scratch, nodes: &nodes, row };
        let (with, only) = on_scratch.with_each(&[pod("a", 1), pod("b", 1)], |_, nodes, only| {
            seen.push(nodes.pods_on(only).len());
        });
        assert_eq!((with.pods_on(only).len(), nodes.pods_on(row).len()), (2, 0));
        assert_eq!(seen, [1, 2]);
    }
}
