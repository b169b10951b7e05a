//! What would make a pod fit.

use serde::Serialize;

use crate::change::Change;

/// What a remedy changes. Of several the widest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RemedyKind {
    /// The pod.
    Pod,
    /// Nodes, or other pods.
    Cluster,
    /// The configuration of the scheduler.
    Configuration,
}

/// Changes that together make the pod fit. That is proven: the changes were made, and the pod was decided again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// What it changes.
    pub kind: RemedyKind,
    /// The changes in words, such as `request 1500m cpu instead of 4`.
    pub text: String,
    /// The changes. All of them are needed.
    pub changes: Vec<Change>,
    /// The node to which the pod then goes.
    pub node: String,
    /// How many other nodes would be feasible, too.
    #[serde(skip_serializing_if = "is_zero")]
    pub also_fits: usize,
    /// How small it is: see [`size`].
    #[serde(skip)]
    pub size: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The sizes of changes, by which remedies are ranked. They say how much of what somebody wanted is given up: waiting gives
/// up nothing, a request that shrinks by a tenth little, an anti-affinity more, a running pod most. Two changes together are
/// as large as both.
pub mod size {
    /// Waiting for a pod that is terminating already.
    pub const WAIT: u32 = 5;
    /// Removing a gate or the nomination of the pod.
    pub const GATE: u32 = 10;
    /// Lowering a request costs this, and [`WHOLE_REQUEST`] times the part that is given up.
    pub const REQUEST: u32 = 10;
    /// Giving up a whole request.
    pub const WHOLE_REQUEST: u32 = 100;
    /// Uncordoning a node.
    pub const UNCORDON: u32 = 15;
    /// Removing a taint from a node.
    pub const TAINT: u32 = 20;
    /// Tolerating a taint.
    pub const TOLERATION: u32 = 25;
    /// Allowing one more pod of skew. Each further one costs [`ONE_SKEW`].
    pub const SPREAD: u32 = 20;
    /// Each step of skew.
    pub const ONE_SKEW: u32 = 2;
    /// Giving up a spread constraint.
    pub const NO_SPREAD: u32 = 45;
    /// Allowing one more value of a label that the node must have.
    pub const WIDER: u32 = 30;
    /// Giving up a label that the node must have, or an expression about it.
    pub const SELECTOR: u32 = 35;
    /// Keeping a group in one domain of a wider label. Each step to a still wider one costs [`ONE_WIDER_TOPOLOGY`].
    pub const WIDER_TOPOLOGY: u32 = 30;
    /// Each further step to a wider label.
    pub const ONE_WIDER_TOPOLOGY: u32 = 1;
    /// Preferring a domain for a group in place of requiring it.
    pub const PREFERRED_TOPOLOGY: u32 = 38;
    /// Giving up that a group is in one domain.
    pub const NO_TOPOLOGY: u32 = 40;
    /// Giving up something in the pods of one more group of a tree.
    pub const ONE_GROUP: u32 = 1;
    /// Giving up all requirements of the node affinity.
    pub const NODE_AFFINITY: u32 = 45;
    /// Giving up a term of an affinity or anti-affinity to other pods.
    pub const POD_AFFINITY: u32 = 40;
    /// Giving up a host port.
    pub const PORT: u32 = 35;
    /// Creating the claim that the pod names.
    pub const NEW_CLAIM: u32 = 30;
    /// Another class for a claim that has no volume yet.
    pub const OTHER_CLASS: u32 = 35;
    /// Creating the class that a claim names.
    pub const NEW_CLASS: u32 = 40;
    /// Another claim that there is.
    pub const OTHER_CLAIM: u32 = 45;
    /// A new, empty claim in place of one that there is.
    pub const EMPTY_CLAIM: u32 = 50;
    /// More storage in a pool, or one more volume.
    pub const STORAGE: u32 = 55;
    /// More volumes of a driver on a node.
    pub const ATTACH_LIMIT: u32 = 45;
    /// Giving up a volume.
    pub const NO_VOLUME: u32 = 90;
    /// Another class of devices.
    pub const DEVICE_CLASS: u32 = 40;
    /// Giving up a constraint between devices.
    pub const CONSTRAINT: u32 = 35;
    /// Giving up a claim on devices.
    pub const NO_DEVICES: u32 = 120;
    /// Another profile of the scheduler.
    pub const PROFILE: u32 = 50;
    /// One more node.
    pub const NODE: u32 = 60;
    /// Evicting pods, and each of them.
    pub const EVICTION: u32 = 50;
    /// Each pod that is evicted.
    pub const ONE_EVICTION: u32 = 15;
    /// In addition for a pod that is at least as important as the one that is to fit.
    pub const IMPORTANT_EVICTION: u32 = 60;
    /// A filter that is switched off for all pods of the profile.
    pub const PLUGIN: u32 = 150;
}
