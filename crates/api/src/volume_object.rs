//! All kinds of objects related to volumes, as one type.

use std::fmt;

use crate::{
    CsiDriver, CsiNode, CsiStorageCapacity, ObjectKey, PersistentVolume, PersistentVolumeClaim,
    StorageClass, VolumeAttachment,
};

/// An object related to volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeObject {
    /// v1 PersistentVolume.
    PersistentVolume(PersistentVolume),
    /// v1 PersistentVolumeClaim.
    PersistentVolumeClaim(PersistentVolumeClaim),
    /// storage.k8s.io/v1 StorageClass.
    StorageClass(StorageClass),
    /// storage.k8s.io/v1 CSINode.
    CsiNode(CsiNode),
    /// storage.k8s.io/v1 CSIDriver.
    CsiDriver(CsiDriver),
    /// storage.k8s.io/v1 CSIStorageCapacity.
    CsiStorageCapacity(CsiStorageCapacity),
    /// storage.k8s.io/v1 VolumeAttachment.
    VolumeAttachment(VolumeAttachment),
}

/// The kinds of such objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeKind {
    /// v1 PersistentVolume.
    PersistentVolume,
    /// v1 PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// storage.k8s.io/v1 StorageClass.
    StorageClass,
    /// storage.k8s.io/v1 CSINode.
    CsiNode,
    /// storage.k8s.io/v1 CSIDriver.
    CsiDriver,
    /// storage.k8s.io/v1 CSIStorageCapacity.
    CsiStorageCapacity,
    /// storage.k8s.io/v1 VolumeAttachment.
    VolumeAttachment,
}

impl VolumeKind {
    /// All kinds.
    pub const ALL: [VolumeKind; 7] = [
        VolumeKind::PersistentVolume,
        VolumeKind::PersistentVolumeClaim,
        VolumeKind::StorageClass,
        VolumeKind::CsiNode,
        VolumeKind::CsiDriver,
        VolumeKind::CsiStorageCapacity,
        VolumeKind::VolumeAttachment,
    ];

    /// The kind as manifests write it.
    pub fn as_str(self) -> &'static str {
        match self {
            VolumeKind::PersistentVolume => "PersistentVolume",
            VolumeKind::PersistentVolumeClaim => "PersistentVolumeClaim",
            VolumeKind::StorageClass => "StorageClass",
            VolumeKind::CsiNode => "CSINode",
            VolumeKind::CsiDriver => "CSIDriver",
            VolumeKind::CsiStorageCapacity => "CSIStorageCapacity",
            VolumeKind::VolumeAttachment => "VolumeAttachment",
        }
    }
}

impl fmt::Display for VolumeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl VolumeObject {
    /// Its kind.
    pub fn kind(&self) -> VolumeKind {
        match self {
            VolumeObject::PersistentVolume(_) => VolumeKind::PersistentVolume,
            VolumeObject::PersistentVolumeClaim(_) => VolumeKind::PersistentVolumeClaim,
            VolumeObject::StorageClass(_) => VolumeKind::StorageClass,
            VolumeObject::CsiNode(_) => VolumeKind::CsiNode,
            VolumeObject::CsiDriver(_) => VolumeKind::CsiDriver,
            VolumeObject::CsiStorageCapacity(_) => VolumeKind::CsiStorageCapacity,
            VolumeObject::VolumeAttachment(_) => VolumeKind::VolumeAttachment,
        }
    }

    /// Its namespace and name.
    pub fn key(&self) -> ObjectKey {
        let cluster_wide = |name: &crate::Str| ObjectKey::new("", name.clone());
        match self {
            VolumeObject::PersistentVolume(one) => cluster_wide(&one.name),
            VolumeObject::PersistentVolumeClaim(one) => one.key.clone(),
            VolumeObject::StorageClass(one) => cluster_wide(&one.name),
            VolumeObject::CsiNode(one) => cluster_wide(&one.name),
            VolumeObject::CsiDriver(one) => cluster_wide(&one.name),
            VolumeObject::CsiStorageCapacity(one) => one.key.clone(),
            VolumeObject::VolumeAttachment(one) => cluster_wide(&one.name),
        }
    }
}
