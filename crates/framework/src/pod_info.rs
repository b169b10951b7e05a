//! A pod as plugins meet it.

use std::ops::Deref;
use std::sync::Arc;

use plimsoll_api::Pod;

use crate::cycle_state::NOTHING_SHARED;
use crate::parts::{PodPart, Ref};

/// A pod, shared and never changed: a change makes a new one.
#[derive(Clone, Debug)]
pub struct PodInfo(Arc<Pod>);

impl PodInfo {
    /// Shares `pod`.
    pub fn new(pod: Pod) -> Self {
        PodInfo(Arc::new(pod))
    }

    /// One part of this pod, for plugins that meet it on a node or in a change.
    pub fn part<P: PodPart>(&self) -> Ref<'_, P> {
        P::of(self, &NOTHING_SHARED)
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
        &self.0
    }
}
