//! Volumes, the claims on them, and what provides them.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::{
    CsiDriver, CsiNode, CsiStorageCapacity, ObjectKey, PersistentVolume, PersistentVolumeClaim,
    StorageClass, Str, VolumeAttachment, VolumeKind, VolumeObject,
};

use crate::assume_store::AssumeStore;
use crate::binding::Assumption;
use crate::events::{Action, ClusterEvent, Resource};
use crate::object_store::{ObjectStore, Versions};

/// Volumes, the claims on them, and what provides them.
#[derive(Clone, Debug, Default)]
pub struct VolumeStore {
    volumes: AssumeStore<PersistentVolume>,
    /// The same volumes as they are taken to be, by class and name. No class is without a volume.
    by_class: BTreeMap<Str, BTreeMap<Str, Arc<PersistentVolume>>>,
    /// PersistentVolumeClaims.
    pub claims: AssumeStore<PersistentVolumeClaim>,
    /// StorageClasses.
    pub classes: ObjectStore<StorageClass>,
    /// CSINodes, by the name of their node.
    pub csi_nodes: ObjectStore<CsiNode>,
    /// CSIDrivers.
    pub csi_drivers: ObjectStore<CsiDriver>,
    /// CSIStorageCapacities.
    pub capacities: ObjectStore<CsiStorageCapacity>,
    /// VolumeAttachments.
    pub attachments: ObjectStore<VolumeAttachment>,
}

/// What became of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeChange {
    /// Of a PersistentVolume: as it was seen, not as it was assumed.
    PersistentVolume(Versions<PersistentVolume>),
    /// Of a PersistentVolumeClaim: as it was seen, not as it was assumed.
    PersistentVolumeClaim(Versions<PersistentVolumeClaim>),
    /// Of a StorageClass.
    StorageClass(Versions<StorageClass>),
    /// Of a CSINode.
    CsiNode(Versions<CsiNode>),
    /// Of a CSIDriver.
    CsiDriver(Versions<CsiDriver>),
    /// Of a CSIStorageCapacity.
    CsiStorageCapacity(Versions<CsiStorageCapacity>),
    /// Of a VolumeAttachment.
    VolumeAttachment(Versions<VolumeAttachment>),
}

impl VolumeStore {
    /// Takes in an object as it was seen; `None` if it is as it was.
    pub fn set(&mut self, object: VolumeObject) -> Option<VolumeChange> {
        use VolumeChange as Change;
        match object {
            VolumeObject::PersistentVolume(one) => {
                let name = one.name.clone();
                let change = self.change_volume(&name, |volumes| volumes.set(one));
                change.map(Change::PersistentVolume)
            }
            VolumeObject::PersistentVolumeClaim(one) => {
                self.claims.set(one).map(Change::PersistentVolumeClaim)
            }
            VolumeObject::StorageClass(one) => self.classes.set(one).map(Change::StorageClass),
            VolumeObject::CsiNode(one) => self.csi_nodes.set(one).map(Change::CsiNode),
            VolumeObject::CsiDriver(one) => self.csi_drivers.set(one).map(Change::CsiDriver),
            VolumeObject::CsiStorageCapacity(one) => {
                self.capacities.set(one).map(Change::CsiStorageCapacity)
            }
            VolumeObject::VolumeAttachment(one) => {
                self.attachments.set(one).map(Change::VolumeAttachment)
            }
        }
    }

    /// Forgets an object; `None` if it was not known. The namespace of a cluster-wide one is not
    /// looked at.
    pub fn remove(&mut self, kind: VolumeKind, key: &ObjectKey) -> Option<VolumeChange> {
        use VolumeChange as Change;
        let name = key.name.as_str();
        match kind {
            VolumeKind::PersistentVolume => {
                let change = self.change_volume(name, |volumes| volumes.remove(name));
                change.map(Change::PersistentVolume)
            }
            VolumeKind::PersistentVolumeClaim => {
                self.claims.remove(key).map(Change::PersistentVolumeClaim)
            }
            VolumeKind::StorageClass => self.classes.remove(name).map(Change::StorageClass),
            VolumeKind::CsiNode => self.csi_nodes.remove(name).map(Change::CsiNode),
            VolumeKind::CsiDriver => self.csi_drivers.remove(name).map(Change::CsiDriver),
            VolumeKind::CsiStorageCapacity => {
                self.capacities.remove(key).map(Change::CsiStorageCapacity)
            }
            VolumeKind::VolumeAttachment => {
                self.attachments.remove(name).map(Change::VolumeAttachment)
            }
        }
    }

    /// Does what a plugin wants to be assumed. What is gone meanwhile is passed over.
    pub fn assume(&mut self, assumption: Assumption) {
        match assumption {
            Assumption::Volume(volume) => {
                let name = volume.name.clone();
                self.change_volume(&name, |volumes| volumes.assume(*volume));
            }
            Assumption::Claim(claim) => {
                self.claims.assume(*claim);
            }
            Assumption::RestoreVolume(name) => {
                self.change_volume(&name, |volumes| volumes.restore(name.as_str()));
            }
            Assumption::RestoreClaim(key) => self.claims.restore(&key),
        }
    }

    /// PersistentVolumes.
    pub fn volumes(&self) -> &AssumeStore<PersistentVolume> {
        &self.volumes
    }

    /// The volumes of one class, as they are taken to be, in the order of their names. The empty
    /// class is that of volumes without one.
    pub fn volumes_of(&self, class: &str) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        self.by_class.get(class).into_iter().flat_map(BTreeMap::values)
    }

    /// Changes what is known of the volume `name`, and keeps its place among those of its class.
    fn change_volume<T>(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut AssumeStore<PersistentVolume>) -> T,
    ) -> T {
        let before = self.volumes.get(name).map(|volume| volume.class.clone());
        let changed = change(&mut self.volumes);
        if let Some(class) = before
            && let Some(volumes) = self.by_class.get_mut(&class)
        {
            volumes.remove(name);
            if volumes.is_empty() {
                self.by_class.remove(&class);
            }
        }
        if let Some(volume) = self.volumes.get(name) {
            let class = self.by_class.entry(volume.class.clone()).or_default();
            class.insert(volume.name.clone(), volume.clone());
        }
        changed
    }
}

impl VolumeChange {
    /// What happened, for those who wait for it.
    pub fn event(&self) -> ClusterEvent {
        let (resource, action) = match self {
            VolumeChange::PersistentVolume(of) => (Resource::PersistentVolume, action(of)),
            VolumeChange::PersistentVolumeClaim(of) => {
                (Resource::PersistentVolumeClaim, action(of))
            }
            VolumeChange::StorageClass(of) => (Resource::StorageClass, action(of)),
            VolumeChange::CsiNode(of) => (Resource::CsiNode, action(of)),
            VolumeChange::CsiDriver(of) => (Resource::CsiDriver, action(of)),
            VolumeChange::CsiStorageCapacity(of) => (Resource::CsiStorageCapacity, action(of)),
            VolumeChange::VolumeAttachment(of) => (Resource::VolumeAttachment, action(of)),
        };
        ClusterEvent::new(resource, action)
    }
}

fn action<T>(of: &Versions<T>) -> Action {
    match (&of.before, &of.after) {
        (None, _) => Action::ADD,
        (Some(_), Some(_)) => Action::UPDATE_OTHER,
        (Some(_), None) => Action::DELETE,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::VolumePhase;

    use super::*;

    #[test]
    fn objects_come_change_and_go_each_under_the_name_of_its_kind() {
        let key = ObjectKey::new("", "a");
        let objects = [
            VolumeObject::PersistentVolume(PersistentVolume {
                name: "a".into(),
                ..PersistentVolume::default()
            }),
            VolumeObject::PersistentVolumeClaim(PersistentVolumeClaim {
                key: key.clone(),
                ..PersistentVolumeClaim::default()
            }),
            VolumeObject::StorageClass(StorageClass {
                name: "a".into(),
                ..StorageClass::default()
            }),
            VolumeObject::CsiNode(CsiNode { name: "a".into(), ..CsiNode::default() }),
            VolumeObject::CsiDriver(CsiDriver { name: "a".into(), ..CsiDriver::default() }),
            VolumeObject::CsiStorageCapacity(CsiStorageCapacity {
                key: key.clone(),
                ..CsiStorageCapacity::default()
            }),
            VolumeObject::VolumeAttachment(VolumeAttachment {
                name: "a".into(),
                ..VolumeAttachment::default()
            }),
        ];
        let mut store = VolumeStore::default();
        for (object, kind) in objects.into_iter().zip(VolumeKind::ALL) {
            assert_eq!((object.kind(), object.key()), (kind, key.clone()));
            let came = store.set(object.clone()).expect("it is new").event();
            assert_eq!(came.to_string(), format!("{kind}/ADD"));
            assert_eq!(store.set(object), None);
            let gone = store.remove(kind, &key).expect("it is known").event();
            assert_eq!(gone.to_string(), format!("{kind}/DELETE"));
            assert_eq!(store.remove(kind, &key), None);
        }
    }

    #[test]
    fn volumes_are_found_by_the_class_they_are_taken_to_be_of() {
        let volume = |name: &str, class: &str| PersistentVolume {
            name: name.into(),
            class: class.into(),
            ..PersistentVolume::default()
        };
        let mut store = VolumeStore::default();
        for (name, class) in [("b", "x"), ("a", "x"), ("c", "y"), ("d", "")] {
            store.set(VolumeObject::PersistentVolume(volume(name, class)));
        }
        store.assume(Assumption::Volume(Box::new(volume("c", "x"))));
        let names = |store: &VolumeStore| -> Vec<String> {
            store.volumes_of("x").map(|one| one.name.to_string()).collect()
        };
        assert_eq!(names(&store), ["a", "b", "c"]);
        store.assume(Assumption::RestoreVolume("c".into()));
        assert_eq!(names(&store), ["a", "b"]);
        store.assume(Assumption::Volume(Box::new(volume("a", "y"))));
        store.assume(Assumption::Volume(Box::new(volume("unknown", "x"))));
        assert_eq!(names(&store), ["b"]);
        let seen = PersistentVolume { phase: VolumePhase::Released, ..volume("a", "x") };
        store.set(VolumeObject::PersistentVolume(seen.clone()));
        assert_eq!(store.volumes_of("x").next().map(|one| &**one), Some(&seen));
        for name in ["a", "b"] {
            store.remove(VolumeKind::PersistentVolume, &ObjectKey::new("", name));
        }
        assert_eq!(names(&store), [""; 0]);
        assert_eq!(store.volumes_of("").count(), 1);
    }
}
