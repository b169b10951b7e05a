//! The pod.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::requests::{Demand, PodResourcesInput, RequestGates};
use crate::{Edition, Labels, ObjectKey, PodTemplate, Str, Timestamp};

/// Namespace and name of a pod.
pub type PodKey = ObjectKey;

/// How far a pod has come in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodPhase {
    /// Not yet running.
    #[default]
    Pending,
    /// Running, or in a phase that is not known.
    Running,
    /// Ended, with success or without: it holds nothing any more.
    Ended,
}

/// A pod: what scheduling reads of it, defaulted as the API server would.
///
/// It has all fields of its [`PodTemplate`], too. To change one of them is to give this pod a template
/// of its own; the other pods of the template keep theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub key: PodKey,
    /// Its unique identity; a pod that is made again under the same name has another one.
    pub uid: Str,
    /// Its annotations.
    pub annotations: Labels,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// When it must be gone: a pod that has this is terminating.
    pub deletion: Option<Timestamp>,
    /// When it was first seen by its node.
    pub started: Option<Timestamp>,
    /// How far it has come.
    pub phase: PodPhase,
    /// Whether it is being evicted for a pod of higher priority (condition `DisruptionTarget` with
    /// reason `PreemptionByScheduler`).
    pub preempted: bool,
    /// The node it is on or asks for (`spec.nodeName`).
    pub node_name: Option<Str>,
    /// The node that was cleared for it (`status.nominatedNodeName`).
    pub nominated_node: Option<Str>,
    /// What of it cannot be read, where that may decide on which node it belongs: it is not scheduled. All
    /// that can be read counts: on a node it takes its room.
    pub unreadable: Option<Box<str>>,
    /// Which edition of it was seen.
    pub edition: Edition,
    /// What it requests is reckoned from, where that depends on the release, on gates or on its status; it
    /// is reckoned as the newest release does. See [`Pod::reckon`].
    pub resources: Option<Box<PodResourcesInput>>,
    /// What it has in common with the other pods of its controller.
    pub template: Arc<PodTemplate>,
}

impl Pod {
    /// A pod of this template.
    pub fn new(key: PodKey, template: impl Into<Arc<PodTemplate>>) -> Self {
        Pod { key, template: template.into(), ..Pod::default() }
    }

    /// Takes its requests as `gates` reckon them, and forgets what they are reckoned from.
    pub fn reckon(&mut self, gates: RequestGates) {
        let Some(resources) = self.resources.take().filter(|_| gates != RequestGates::default())
        else {
            return;
        };
        let Demand { asks, on_node, limits } = Demand::of(&resources, gates);
        let is_so = self.asks == asks
            && self.requests == on_node.requests
            && self.non_zero_requests == on_node.non_zero;
        if !is_so || self.limits != limits {
            let template = Arc::make_mut(&mut self.template);
            template.asks = asks;
            template.requests = on_node.requests;
            template.non_zero_requests = on_node.non_zero;
            template.limits = limits;
        }
    }

    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.deletion.is_some()
    }
}

/// A pod of this template, without a name.
impl From<PodTemplate> for Pod {
    fn from(template: PodTemplate) -> Self {
        Pod::new(PodKey::default(), template)
    }
}

impl Deref for Pod {
    type Target = PodTemplate;
    fn deref(&self) -> &PodTemplate {
        &self.template
    }
}

impl DerefMut for Pod {
    fn deref_mut(&mut self) -> &mut PodTemplate {
        Arc::make_mut(&mut self.template)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_one_pod_leaves_the_others_of_its_template_alone() {
        let one = Pod::from(PodTemplate { priority: 1, ..PodTemplate::default() });
        let mut other = one.clone();
        assert!(Arc::ptr_eq(&one.template, &other.template));
        other.priority = 2;
        assert_eq!((one.priority, other.priority), (1, 2));
    }
}
