//! The node.

use serde::{Deserialize, Serialize};

use crate::{Labels, NodeImage, Resources, Str, Taint, Timestamp};

/// A controller whose pods should avoid a node (`scheduler.alpha.kubernetes.io/preferAvoidPods`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AvoidedController {
    /// `kind` of the controller, such as `ReplicaSet`.
    pub kind: Str,
    /// Its unique identity.
    pub uid: Str,
}

/// A node: what scheduling reads of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name, unique in the cluster.
    pub name: Str,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// The controllers whose pods should avoid it, from its annotation.
    pub avoided: Vec<AvoidedController>,
    /// Its taints, in the order it lists them.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned (`spec.unschedulable`).
    pub unschedulable: bool,
    /// The resources that pods can use (`status.allocatable`).
    pub allocatable: Resources,
    /// The images on it.
    pub images: Vec<NodeImage>,
    /// The features it declares (`status.declaredFeatures`), sorted.
    pub declared_features: Vec<Str>,
    /// When it was made.
    #[serde(with = "crate::timestamp")]
    pub created: Option<Timestamp>,
}
