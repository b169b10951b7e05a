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
