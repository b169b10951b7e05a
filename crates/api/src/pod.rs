//! The pod.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::requests::{Demand, PodResourcesInput, RequestGates};
use crate::{Edition, Labels, ObjectKey, PodDevices, PodTemplate, Str, Timestamp};

/// Namespace and name of a pod.
pub type PodKey = ObjectKey;

/// The phase of a pod.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum PodPhase {
    /// Not yet running.
    #[default]
    Pending,
    /// Running, or in an unknown phase.
    Running,
    /// Succeeded or failed: it uses no resources any more.
    Ended,
}

/// A pod: what scheduling reads of it, defaulted as the API server would.
///
/// It has all fields of its [`PodTemplate`], too. Changing one of them gives this pod its own template;
/// the other pods keep the shared one.
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
    /// Its phase.
    pub phase: PodPhase,
    /// Whether it is being evicted for a pod of higher priority (condition `DisruptionTarget` with
    /// reason `PreemptionByScheduler`).
    pub preempted: bool,
    /// The node to which it is assigned (`spec.nodeName`).
    pub node_name: Option<Str>,
    /// The node on which preemption made room for it (`status.nominatedNodeName`).
    pub nominated_node: Option<Str>,
    /// The part of it that cannot be read, if that may influence on which node it belongs. Such a pod
    /// is not scheduled. The readable parts count: on a node it uses its resources.
    pub unreadable: Option<Box<str>>,
    /// The observed edition.
    pub edition: Edition,
    /// The input for computing its requests, if these depend on the release, on gates or on its status.
    /// Until [`Pod::reckon`] is called, the requests are those of the newest release.
    pub resources: Option<Box<PodResourcesInput>>,
    /// What its status says about claims on devices, if it says anything.
    pub devices: Option<Box<PodDevices>>,
    /// What it shares with the other pods of its controller.
    pub template: Arc<PodTemplate>,
}

impl Pod {
    /// A pod of this template.
    pub fn new(key: PodKey, template: impl Into<Arc<PodTemplate>>) -> Self {
        Pod { key, template: template.into(), ..Pod::default() }
    }

    /// Computes its requests with `gates`, and drops the input for that, unless the pod has claims: their devices can
    /// stand for resources.
    pub fn reckon(&mut self, gates: RequestGates) {
        let Some(resources) = self.resources.take() else { return };
        if !self.resource_claims.is_empty() {
            self.resources = Some(resources.clone());
        }
        if gates == RequestGates::default() {
            return;
        }
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
    fn changing_one_pod_does_not_change_others_with_its_template() {
        let one = Pod::from(PodTemplate { priority: 1, ..PodTemplate::default() });
        let mut other = one.clone();
        assert!(Arc::ptr_eq(&one.template, &other.template));
        other.priority = 2;
        assert_eq!((one.priority, other.priority), (1, 2));
    }
}
