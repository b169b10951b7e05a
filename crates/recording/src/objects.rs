//! The binary form of objects that are neither pods nor nodes.

use plimsoll_api::{
    AnyObject, CompositePodGroup, CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass,
    DeviceTaintRule, Kind, KindRef, Namespace, PersistentVolume, PersistentVolumeClaim,
    PodDisruptionBudget, PodGroup, ReplicaSet, ReplicationController, ResourceClaim, ResourceSlice,
    Service, StatefulSet, StorageClass, VolumeAttachment,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How objects of one kind of Kubernetes are written and read.
struct Codec {
    kind: KindRef,
    write: fn(&AnyObject) -> Option<Vec<u8>>,
    read: fn(&[u8]) -> Option<AnyObject>,
}

/// The kinds of Kubernetes. Objects of other kinds are recorded as their manifests.
const CODECS: [Codec; 19] = [
    codec::<Namespace>(),
    codec::<Service>(),
    codec::<ReplicationController>(),
    codec::<ReplicaSet>(),
    codec::<StatefulSet>(),
    codec::<PersistentVolume>(),
    codec::<PersistentVolumeClaim>(),
    codec::<StorageClass>(),
    codec::<CsiNode>(),
    codec::<CsiDriver>(),
    codec::<CsiStorageCapacity>(),
    codec::<VolumeAttachment>(),
    codec::<PodDisruptionBudget>(),
    codec::<ResourceClaim>(),
    codec::<ResourceSlice>(),
    codec::<DeviceClass>(),
    codec::<DeviceTaintRule>(),
    codec::<PodGroup>(),
    codec::<CompositePodGroup>(),
];

const fn codec<K: Kind + Serialize + DeserializeOwned>() -> Codec {
    Codec {
        kind: KindRef::of::<K>(),
        write: |object| postcard::to_allocvec(object.get::<K>()?).ok(),
        read: |bytes| postcard::from_bytes::<K>(bytes).ok().map(AnyObject::new),
    }
}

/// The bytes of an object; `None` for a kind that a plugin brings.
pub(crate) fn write(object: &AnyObject) -> Option<Vec<u8>> {
    let kind = object.kind();
    let codec = CODECS.iter().find(|codec| codec.kind == kind)?;
    (codec.write)(object)
}

/// The object of these bytes; `None` if they are not an object of this kind.
pub(crate) fn read(kind: KindRef, bytes: &[u8]) -> Option<AnyObject> {
    let codec = CODECS.iter().find(|codec| codec.kind == kind)?;
    (codec.read)(bytes)
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Kinds, Node, Pod};

    use super::*;

    #[test]
    fn every_kind_of_kubernetes_has_a_binary_form() {
        for kind in Kinds::built_in().iter() {
            let has_own_form = kind.is::<Pod>() || kind.is::<Node>();
            assert!(has_own_form || CODECS.iter().any(|codec| codec.kind == kind), "{kind}");
        }
    }
}
