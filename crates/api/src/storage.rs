//! Providers of volumes: storage classes, CSI drivers, and their state on nodes.

use serde::{Deserialize, Serialize};

use crate::{
    Labels, NodeSelectorTerm, ObjectKey, Quantity, Selector, Str, Timestamp, VolumeSource,
};

/// The provisioner of a class without provisioning. As in component-helpers' pv_helpers.go,
/// NotSupportedProvisioner.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// When a claim of a class is bound.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum BindingMode {
    /// As soon as it is created.
    #[default]
    Immediate,
    /// When a pod that mounts it is scheduled.
    WaitForFirstConsumer,
}

/// storage.k8s.io/v1 StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageClass {
    /// Its name, unique in the cluster.
    pub name: Str,
    /// The provisioner of its volumes; [`NO_PROVISIONER`] for none.
    pub provisioner: Str,
    /// When its claims are bound.
    pub binding_mode: BindingMode,
    /// The nodes for which it can provision: one of these terms must match; without any, all nodes.
    pub allowed_topologies: Vec<NodeSelectorTerm>,
    /// Whether claims without a class get this one (annotation
    /// `storageclass.kubernetes.io/is-default-class`, or the beta one of that name).
    pub is_default: bool,
}

impl StorageClass {
    /// Whether it can provision for a node with these labels. As in component-helpers' helpers.go,
    /// MatchTopologySelectorTerms.
    pub fn provisions_for(&self, labels: &Labels) -> bool {
        let terms = &self.allowed_topologies;
        terms.is_empty() || terms.iter().any(|term| term.matches("", labels))
    }
}

/// storage.k8s.io/v1 CSINode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsiNode {
    /// The name of the node.
    pub name: Str,
    /// The drivers that run there.
    pub drivers: Vec<CsiNodeDriver>,
    /// The in-tree plugins whose volumes a CSI driver serves there, in the order of the annotation
    /// `storage.alpha.kubernetes.io/migrated-plugins`.
    pub migrated_plugins: Vec<Str>,
}

impl CsiNode {
    /// The driver of this name, if it runs on the node.
    pub fn driver(&self, name: &str) -> Option<&CsiNodeDriver> {
        self.drivers.iter().find(|driver| driver.name == name)
    }
}

/// A CSI driver on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsiNodeDriver {
    /// Its name.
    pub name: Str,
    /// Its name for the node.
    pub node_id: Str,
    /// The labels of the node that say where its volumes can be reached.
    pub topology_keys: Vec<Str>,
    /// How many of its volumes can be attached to the node (`allocatable.count`); `None` for no limit.
    pub limit: Option<i32>,
}

/// storage.k8s.io/v1 CSIDriver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsiDriver {
    /// Its name, unique in the cluster.
    pub name: Str,
    /// Whether it reports its free capacity, so that this must be checked.
    pub storage_capacity: bool,
    /// Whether pods with its volumes are rejected on nodes where it does not run
    /// (`preventPodSchedulingIfMissing`, which counts with the gate VolumeLimitScaling).
    pub required_on_node: bool,
}

/// storage.k8s.io/v1 CSIStorageCapacity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsiStorageCapacity {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The name of its StorageClass.
    pub class: Str,
    /// The nodes that can reach it, by their labels; without a selector none.
    pub topology: Selector,
    /// The free capacity; `None` if unknown.
    pub capacity: Option<Quantity>,
    /// The size of the largest volume that can be created; `None` if unknown.
    pub maximum_volume_size: Option<Quantity>,
}

impl CsiStorageCapacity {
    /// The size of the largest possible volume, if known. As in binder.go, volumeLimit.
    pub fn limit(&self) -> Option<&Quantity> {
        self.maximum_volume_size.as_ref().or(self.capacity.as_ref())
    }
}

/// storage.k8s.io/v1 VolumeAttachment: a volume that is or is to be attached to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeAttachment {
    /// Its name, unique in the cluster.
    pub name: Str,
    /// The driver that attaches it.
    pub attacher: Str,
    /// The name of the node.
    pub node: Str,
    /// What is attached.
    pub attached: Attached,
    /// When it must be gone.
    #[serde(with = "crate::timestamp")]
    pub deletion: Option<Timestamp>,
}

/// What is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attached {
    /// The PersistentVolume of this name.
    Volume(Str),
    /// A volume that a pod names itself.
    Inline(VolumeSource),
}

impl Default for Attached {
    fn default() -> Self {
        Attached::Inline(VolumeSource::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Requirement;

    #[test]
    fn a_class_provisions_for_all_nodes_by_default() {
        let in_zone = |zone: &str| [("zone", zone)].into_iter().collect::<Labels>();
        let term = NodeSelectorTerm {
            labels: vec![Requirement::equals("zone", "a")],
            ..NodeSelectorTerm::default()
        };
        let class = |terms| StorageClass { allowed_topologies: terms, ..StorageClass::default() };
        assert!(class(vec![]).provisions_for(&in_zone("b")));
        assert!(class(vec![term.clone()]).provisions_for(&in_zone("a")));
        assert!(!class(vec![term]).provisions_for(&in_zone("b")));
        assert!(!class(vec![NodeSelectorTerm::default()]).provisions_for(&in_zone("a")));
    }

    #[test]
    fn the_largest_volume_size_is_preferred_to_the_free_capacity() {
        let quantity = |text| Some(Quantity::parse(text).expect("it is a quantity"));
        let left =
            CsiStorageCapacity { capacity: quantity("10Gi"), ..CsiStorageCapacity::default() };
        assert_eq!(left.limit(), quantity("10Gi").as_ref());
        let both = CsiStorageCapacity { maximum_volume_size: quantity("1Gi"), ..left };
        assert_eq!(both.limit(), quantity("1Gi").as_ref());
        assert_eq!(CsiStorageCapacity::default().limit(), None);
    }
}
