//! A pod as plugins meet it.

use std::ops::Deref;
use std::sync::Arc;

use plimsoll_api::{Pod, Str};

use crate::cycle_state::NOTHING_SHARED;
use crate::parts::{PodPart, Ref};

/// A pod, shared and never changed: a change makes a new one.
///
/// It is cheap to clone, and cheap to put onto a node: what the pod says of itself is shared.
#[derive(Clone, Debug)]
pub struct PodInfo {
    pod: Arc<Pod>,
    /// The node that it is taken to be on, where the pod itself does not say so.
    place: Option<Str>,
}

impl PodInfo {
    /// Shares `pod`.
    pub fn new(pod: impl Into<Pod>) -> Self {
        PodInfo { pod: Arc::new(pod.into()), place: None }
    }

    /// This pod as it is once it is on `node`.
    pub fn placed_on(&self, node: Str) -> Self {
        PodInfo { place: Some(node), ..self.clone() }
    }

    /// The node that it is on, is taken to be on, or asks for by name. `node_name` says only what was
    /// seen of the pod.
    pub fn node(&self) -> Option<&Str> {
        self.place.as_ref().or(self.pod.node_name.as_ref())
    }

    /// What was seen of it, without the node that it is taken to be on.
    pub fn seen(&self) -> &Arc<Pod> {
        &self.pod
    }

    /// One part of this pod, for plugins that meet it on a node or in a change.
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
    fn a_pod_is_put_onto_a_node_without_a_copy_of_what_it_says() {
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
