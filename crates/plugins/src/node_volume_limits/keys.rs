//! What the verdicts of NodeVolumeLimits depend on beside the node: how many slots of which drivers the pod needs, as long as
//! none of its volumes is on the node already.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashMap;
use plimsoll_api::{Derived, ObjectStores};
use plimsoll_framework::prelude::*;
use rustc_hash::{FxBuildHasher, FxHasher};

use super::{NodeVolumeLimits, PodVolumeSlots, Slot, Slots, VolumeServers, slot_of_volume};
use crate::pod_claims;

/// The drivers of the slots that a pod needs, in the order of the slots: that of several missing drivers is told which comes
/// first.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct NewSlots {
    with_drivers: Vec<Str>,
    without_drivers: Vec<Str>,
}

/// How many volumes have each handle.
#[derive(Clone, Debug)]
struct Handles {
    /// By the hash of driver and handle. Handles that share a hash count as one, which is on the safe side.
    n_volumes: HashMap<u64, u32, FxBuildHasher>,
}

impl Handles {
    fn of(objects: &ObjectStores) -> Self {
        let mut handles = Handles { n_volumes: HashMap::default() };
        for volume in objects.of::<PersistentVolume>().iter() {
            handles.add(volume);
        }
        handles
    }

    fn add(&mut self, volume: &PersistentVolume) {
        if let Some(slot) = slot_of_volume(volume, VolumeServers::Migrated) {
            *self.n_volumes.entry(hash(&slot)).or_default() += 1;
        }
    }

    fn remove(&mut self, volume: &PersistentVolume) {
        let Some(slot) = slot_of_volume(volume, VolumeServers::Migrated) else { return };
        let hash = hash(&slot);
        let left = self.n_volumes.get_mut(&hash).expect("every volume was added");
        *left -= 1;
        if *left == 0 {
            self.n_volumes.remove(&hash);
        }
    }

    /// Whether another volume may have the same handle.
    fn may_share(&self, slot: &Slot) -> bool {
        self.n_volumes.get(&hash(slot)).is_some_and(|&n| 1 < n)
    }
}

impl Derived for Handles {
    fn change(&mut self, change: &AnyVersions) {
        let Some(change) = change.of::<PersistentVolume>() else { return };
        if let Some(before) = &change.before {
            self.remove(before);
        }
        if let Some(after) = &change.after {
            self.add(after);
        }
    }
}

fn hash(slot: &Slot) -> u64 {
    let mut hasher = FxHasher::default();
    slot.hash(&mut hasher);
    hasher.finish()
}

/// The verdict on a node is the same for all pods that need as many slots of the same drivers, unless a volume of the pod is
/// on the node already. Where that is, the uses of its claims say: no other claim is bound to the same volume, and no other
/// volume has the same handle.
///
/// What a node has is known by the claims of the pods there, so a verdict is remembered only where each of them is bound to a
/// volume that names it, and where nothing else is attached.
impl FilterByKey for NodeVolumeLimits {
    type Key = NewSlots;

    fn key(
        &self,
        wanted: &Arc<PodVolumeSlots>,
        (store, objects, _): Ref<'_, Self::Cluster>,
    ) -> Option<NewSlots> {
        if wanted.others_may_err {
            return None;
        }
        for key in wanted.claims.as_ref()? {
            let claim = store.claims.observed(key)?;
            let volume = claim.volume.as_ref().and_then(|name| store.volumes.observed(name));
            let slot = volume.and_then(|one| slot_of_volume(one, VolumeServers::Migrated));
            let (Some(volume), Some(slot)) = (volume, slot) else { continue };
            if !names(volume, key) || objects.derived(Handles::of).may_share(&slot) {
                return None;
            }
        }
        let drivers = |slots: &Result<Slots, Rejection>| {
            let slots = slots.as_ref().ok()?;
            Some(slots.iter().map(|slot| slot.driver.clone()).collect())
        };
        Some(NewSlots {
            with_drivers: drivers(&wanted.with_drivers)?,
            without_drivers: drivers(&wanted.without_drivers)?,
        })
    }

    fn key_bytes(&self, key: &NewSlots) -> usize {
        let drivers = key.with_drivers.iter().chain(&key.without_drivers);
        drivers.map(|driver| size_of::<Str>() + driver.len()).sum()
    }

    /// Nodes on which a claim of the pod is in use.
    fn exceptions(
        &self,
        wanted: &Arc<PodVolumeSlots>,
        (.., in_use): Ref<'_, Self::Cluster>,
    ) -> Vec<Row> {
        let claims = wanted.claims.iter().flatten();
        claims.flat_map(|key| in_use.rows_with(&key.namespace, &key.name)).collect()
    }

    fn may_keep(&self, wanted: &Arc<PodVolumeSlots>, (name, pods): (&Str, &PodSet)) -> bool {
        let store = wanted.store.store();
        let mut volumes: Vec<&Str> = Vec::new();
        for pod in pods.iter() {
            for claim in pod_claims::named(&pod.volumes) {
                let key = KeyRef::from((pod.key.namespace.as_str(), claim.as_str()));
                let volume = store.claims.observed(key).and_then(|claim| claim.volume.as_ref());
                let Some(volume) = volume else { continue };
                let is_known = |volume: &Arc<PersistentVolume>| {
                    let of = volume.claim.as_ref().map(|claim| &claim.key);
                    of.is_some_and(|of| of.namespace == pod.key.namespace && of.name == *claim)
                };
                if !store.volumes.observed(volume).is_some_and(is_known) {
                    return false;
                }
                volumes.push(volume);
            }
        }
        volumes.sort_unstable();
        store.attachments.by_index(name).all(|attachment| match &attachment.attached {
            Attached::Volume(volume) => volumes.binary_search(&volume).is_ok(),
            Attached::Inline(_) => true,
        })
    }

    fn concerns(&self, object: &AnyObject, (.., in_use): Ref<'_, Self::Cluster>) -> ConcernedNodes {
        let with = |claim: &ObjectKey| {
            ConcernedNodes::Rows(in_use.rows_with(&claim.namespace, &claim.name).collect())
        };
        if let Some(claim) = object.shared::<PersistentVolumeClaim>() {
            return with(&claim.key);
        }
        if let Some(volume) = object.shared::<PersistentVolume>() {
            return volume.claim.as_ref().map_or_else(ConcernedNodes::none, |of| with(&of.key));
        }
        if let Some(csi_node) = object.shared::<CsiNode>() {
            return ConcernedNodes::Named(csi_node.name.clone());
        }
        if let Some(attachment) = object.shared::<VolumeAttachment>() {
            return ConcernedNodes::Named(attachment.node.clone());
        }
        let is_class = object.kind().is::<StorageClass>();
        let is_driver = self.drivers_must_run && object.kind().is::<CsiDriver>();
        if is_class || is_driver { ConcernedNodes::All } else { ConcernedNodes::none() }
    }
}

/// Whether a volume names this claim as its own.
fn names(volume: &PersistentVolume, claim: &ObjectKey) -> bool {
    volume.claim.as_ref().is_some_and(|of| of.key == *claim)
}
