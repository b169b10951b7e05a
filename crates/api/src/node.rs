//! The node.

use crate::{Labels, NodeImage, Resources, Str, Taint, Timestamp};

/// A node: what scheduling reads of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name, unique in the cluster.
    pub name: Str,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Its taints, in the order it lists them.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned (`spec.unschedulable`).
    pub unschedulable: bool,
    /// What pods can use of it (`status.allocatable`).
    pub allocatable: Resources,
    /// The images it holds.
    pub images: Vec<NodeImage>,
    /// The features it declares (`status.declaredFeatures`), sorted.
    pub declared_features: Vec<Str>,
    /// When it was made.
    pub created: Option<Timestamp>,
}
