//! A pod as plugins see it.

use std::ops::Deref;
use std::sync::Arc;

use plimsoll_api::{Pod, Str};

use crate::cycle_state::NOTHING_SHARED;
use crate::parts::{PodPart, Ref};

/// A pod. It is shared and immutable: a change makes a new one.
///
/// Cloning it or placing it on a node is cheap, because the pod itself is shared.
#[derive(Clone, Debug)]
pub struct PodInfo {
    pod: Arc<Pod>,
    /// The node that it is assumed to be on, if the pod itself does not say so.
    place: Option<Str>,
}

impl PodInfo {
    /// Shares `pod`.
    pub fn new(pod: impl Into<Pod>) -> Self {
        PodInfo { pod: Arc::new(pod.into()), place: None }
    }

    /// This pod, placed on `node`.
    pub fn placed_on(&self, node: Str) -> Self {
        PodInfo { place: Some(node), ..self.clone() }
    }

    /// The node that it is on, is assumed to be on, or asks for by name. The field `node_name` is only what was
    /// observed.
    pub fn node(&self) -> Option<&Str> {
        self.place.as_ref().or(self.pod.node_name.as_ref())
    }

    /// The pod as it was observed, without the node that it is assumed to be on.
    pub fn seen(&self) -> &Arc<Pod> {
        &self.pod
    }

    /// One part of this pod, for plugins that find it on a node or in a change.
    pub fn part<P: PodPart>(&self) -> Ref<'_, P> {
        P::of(self, &NOTHING_SHARED)
    }
}

impl From<Arc<Pod>> for PodInfo {
    fn from(pod: Arc<Pod>) -> Self {
        PodInfo { pod, place: None }
    }
}

impl From<Pod> for PodInfo {
    fn from(pod: Pod) -> Self {
        PodInfo::new(pod)
    }
}

impl Deref for PodInfo {
    type Target = Pod;
    fn deref(&self) -> &Pod {
        &self.pod
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::PodTemplate;

    use super::*;

    #[test]
    fn placing_a_pod_on_a_node_does_not_copy_the_pod() {
        let pod = PodInfo::new(PodTemplate { priority: 7, ..PodTemplate::default() });
        let placed = pod.placed_on("a".into());
        assert_eq!(placed.node().map(Str::as_str), Some("a"));
        assert!(pod.node().is_none() && placed.node_name.is_none());
        assert!(std::ptr::eq(&raw const *pod, &raw const *placed));
        let pinned = PodInfo::new(Pod { node_name: Some("b".into()), ..Pod::default() });
        assert_eq!(pinned.node().map(Str::as_str), Some("b"));
        assert_eq!(pinned.placed_on("c".into()).node().map(Str::as_str), Some("c"));
    }
}
