//! The PersistentVolume controller, and a provisioner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_api::storage::NO_PROVISIONER;
use plimsoll_api::{
    AnyObject, BindingMode, ClaimPhase, ClaimRef, KindRef, Labels, NodeSelectorTerm, ObjectKey,
    PersistentVolume, PersistentVolumeClaim, Requirement, StorageClass, Str, VolumePhase,
};
use plimsoll_engine::{Observation, WriteCause, WriteError};
use plimsoll_framework::{ObjectWrite, WriteVerb};
use serde_json::Value;

const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const ZONE: &str = "topology.kubernetes.io/zone";

/// How long the volume controllers take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeDelays {
    /// Until a claim is bound to the volume that is reserved for it.
    pub binding_after: Duration,
    /// Until a volume is provisioned.
    pub provisioning_after: Duration,
}

/// What must be done with a claim before its pod is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimBinding {
    /// The claim.
    pub claim: ObjectKey,
    /// The volume to which it is bound; `None` if one is provisioned for it.
    pub volume: Option<Str>,
}

impl ClaimBinding {
    /// What `write` asks for, if it is about a claim.
    pub(crate) fn of(write: &ObjectWrite) -> Option<Self> {
        let WriteVerb::Patch { merge, .. } = &write.verb else { return None };
        let merge = merge.to_value();
        let text = |at: &str| merge.pointer(at).and_then(|value| value.as_str());
        if write.kind.is::<PersistentVolume>() {
            let namespace = text("/spec/claimRef/namespace")?;
            let claim = ObjectKey::new(namespace, text("/spec/claimRef/name")?);
            return Some(ClaimBinding { claim, volume: Some(write.key.name.clone()) });
        }
        if write.kind.is::<PersistentVolumeClaim>() {
            merge["metadata"]["annotations"][SELECTED_NODE].as_str()?;
            return Some(ClaimBinding { claim: write.key.clone(), volume: None });
        }
        None
    }
}

/// The volumes of a cluster, and the claims on them.
#[derive(Debug, Default)]
pub(crate) struct SimulatedVolumes {
    all: BTreeMap<Str, PersistentVolume>,
    claims: BTreeMap<ObjectKey, PersistentVolumeClaim>,
    classes: BTreeMap<Str, StorageClass>,
    /// Claims for which a volume is being provisioned.
    asked: BTreeSet<ProvisioningOrder>,
}

/// A volume to provision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProvisioningOrder {
    pub(crate) claim: ObjectKey,
    uid: Str,
    pub(crate) node: Option<Str>,
}

impl SimulatedVolumes {
    /// An object is so, or gone. Whether the controllers of volumes look at it.
    pub(crate) fn happens(&mut self, seen: &Observation<AnyObject, (KindRef, ObjectKey)>) -> bool {
        match seen {
            Observation::Is(object) => {
                if let Some(volume) = object.get::<PersistentVolume>() {
                    self.all.insert(volume.name.clone(), volume.clone());
                } else if let Some(claim) = object.get::<PersistentVolumeClaim>() {
                    self.claims.insert(claim.key.clone(), claim.clone());
                } else if let Some(class) = object.get::<StorageClass>() {
                    self.classes.insert(class.name.clone(), class.clone());
                } else {
                    return false;
                }
            }
            Observation::Gone((kind, key)) => {
                if kind.is::<PersistentVolume>() {
                    self.all.remove(&key.name);
                } else if kind.is::<PersistentVolumeClaim>() {
                    self.claims.remove(key);
                } else if kind.is::<StorageClass>() {
                    self.classes.remove(&key.name);
                } else {
                    return false;
                }
            }
        }
        true
    }

    /// What the API server makes of a patch of a volume or a claim; `None` for other writes.
    pub(crate) fn patched(&self, write: &ObjectWrite) -> Option<Result<AnyObject, WriteError>> {
        let WriteVerb::Patch { merge, .. } = &write.verb else { return None };
        let merge = || merge.to_value();
        if write.kind.is::<PersistentVolume>() {
            Some(self.patched_volume(&write.key, &merge()).map(AnyObject::new))
        } else if write.kind.is::<PersistentVolumeClaim>() {
            Some(self.patched_claim(&write.key, &merge()).map(AnyObject::new))
        } else {
            None
        }
    }

    fn patched_volume(
        &self,
        key: &ObjectKey,
        merge: &Value,
    ) -> Result<PersistentVolume, WriteError> {
        let kind = "persistentvolumes";
        let volume = self.all.get(&key.name).ok_or_else(|| lost(kind, key))?;
        check(kind, key, merge, &volume.resource_version)?;
        let text = |at: &str| merge.pointer(at).and_then(|value| value.as_str()).map(Str::from);
        let claim = text("/spec/claimRef/name").map(|name| ClaimRef {
            key: ObjectKey::new(text("/spec/claimRef/namespace").unwrap_or_default(), name),
            uid: text("/spec/claimRef/uid").unwrap_or_default(),
        });
        let by_controller = &merge["metadata"]["annotations"][BOUND_BY_CONTROLLER];
        let mut volume = volume.clone();
        volume.claim = claim.or(volume.claim);
        volume.bound_by_controller |= by_controller.is_string();
        volume.resource_version = next(&volume.resource_version);
        Ok(volume)
    }

    fn patched_claim(
        &self,
        key: &ObjectKey,
        merge: &Value,
    ) -> Result<PersistentVolumeClaim, WriteError> {
        let kind = "persistentvolumeclaims";
        let claim = self.claims.get(key).ok_or_else(|| lost(kind, key))?;
        check(kind, key, merge, &claim.resource_version)?;
        let node = merge["metadata"]["annotations"][SELECTED_NODE].as_str();
        let mut claim = claim.clone();
        claim.selected_node = node.map(Str::from).or(claim.selected_node);
        claim.resource_version = next(&claim.resource_version);
        Ok(claim)
    }

    /// What the PersistentVolume controller does now. As in pv_controller.go, a claim gets the volume
    /// that is reserved for it or that it names; else, unless it waits for its first consumer, the
    /// smallest that will do.
    pub(crate) fn bind(&mut self) -> Vec<AnyObject> {
        let mut changed = Vec::new();
        let fresh = |volume: &&mut PersistentVolume| {
            volume.phase == VolumePhase::Pending && volume.claim.is_none()
        };
        for volume in self.all.values_mut().filter(fresh) {
            volume.phase = VolumePhase::Available;
            volume.resource_version = next(&volume.resource_version);
            changed.push(AnyObject::new(volume.clone()));
        }
        let unbound: Vec<ObjectKey> = self
            .claims
            .values()
            .filter(|claim| !claim.is_fully_bound() && !claim.is_terminating())
            .map(|claim| claim.key.clone())
            .collect();
        for key in unbound {
            let Some(name) = self.volume_for(&self.claims[&key]) else { continue };
            changed.extend(self.bind_to(&key, &name));
        }
        changed
    }

    /// The volume to which a claim should be bound.
    fn volume_for(&self, claim: &PersistentVolumeClaim) -> Option<Str> {
        let reserved = self.all.values().find(|volume| volume.is_reserved_for(claim));
        if let Some(volume) = reserved {
            return Some(volume.name.clone());
        }
        if let Some(named) = &claim.volume {
            return self
                .all
                .get(named)
                .filter(|one| one.claim.is_none())
                .map(|one| one.name.clone());
        }
        if self.waits_for_consumer(claim) {
            return None;
        }
        let suits = |volume: &&PersistentVolume| {
            volume.claim.is_none()
                && volume.phase == VolumePhase::Available
                && volume.class == claim.class
                && volume.mode == claim.mode
                && volume.access_modes.contains(claim.access_modes)
                && claim.requested <= volume.capacity
                && (claim.selector == plimsoll_api::Selector::Nothing
                    || claim.selector.matches(&volume.labels))
        };
        let smallest =
            self.all.values().filter(suits).min_by(|one, other| one.capacity.cmp(&other.capacity));
        smallest.map(|volume| volume.name.clone())
    }

    fn waits_for_consumer(&self, claim: &PersistentVolumeClaim) -> bool {
        let class = self.classes.get(&claim.class);
        class.is_some_and(|class| class.binding_mode == BindingMode::WaitForFirstConsumer)
    }

    fn bind_to(&mut self, key: &ObjectKey, name: &Str) -> [AnyObject; 2] {
        let claim = self.claims.get_mut(key).expect("it was just looked at");
        let volume = self.all.get_mut(name).expect("it was just chosen");
        volume.bound_by_controller |= volume.claim.is_none();
        volume.claim = Some(ClaimRef { key: key.clone(), uid: claim.uid.clone() });
        volume.phase = VolumePhase::Bound;
        volume.resource_version = next(&volume.resource_version);
        claim.volume = Some(name.clone());
        claim.bind_completed = true;
        claim.phase = ClaimPhase::Bound;
        claim.resource_version = next(&claim.resource_version);
        [AnyObject::new(volume.clone()), AnyObject::new(claim.clone())]
    }

    /// New volumes to provision.
    pub(crate) fn orders(&mut self) -> Vec<ProvisioningOrder> {
        let provisions = |claim: &&PersistentVolumeClaim| {
            let class = self.classes.get(&claim.class);
            class.is_some_and(|class| class.provisioner != NO_PROVISIONER)
        };
        let wanted: BTreeSet<ProvisioningOrder> = self
            .claims
            .values()
            .filter(|claim| claim.volume.is_none() && !claim.is_terminating())
            .filter(provisions)
            .filter(|claim| claim.selected_node.is_some() || !self.waits_for_consumer(claim))
            .filter(|claim| !self.all.values().any(|volume| volume.is_reserved_for(claim)))
            .map(|claim| ProvisioningOrder {
                claim: claim.key.clone(),
                uid: claim.uid.clone(),
                node: claim.selected_node.clone(),
            })
            .collect();
        let new = wanted.difference(&self.asked).cloned().collect();
        self.asked = wanted;
        new
    }

    /// A volume is provisioned, in the zone of the node if it has one; `None` if it is not wanted any
    /// more.
    pub(crate) fn provision(
        &self,
        order: &ProvisioningOrder,
        node: Option<&Labels>,
    ) -> Option<AnyObject> {
        let claim = self.wanted(order)?;
        let zone = node.and_then(|labels| labels.get(ZONE));
        let in_zone = |zone: &Str| NodeSelectorTerm {
            labels: vec![Requirement::equals(ZONE, zone.clone())],
            ..NodeSelectorTerm::default()
        };
        let name = if claim.uid.is_empty() { &claim.key.name } else { &claim.uid };
        Some(AnyObject::new(PersistentVolume {
            name: format!("pvc-{name}").into(),
            resource_version: "1".into(),
            class: claim.class.clone(),
            capacity: claim.requested.clone(),
            access_modes: claim.access_modes,
            mode: claim.mode,
            node_affinity: zone.map(|zone| vec![in_zone(zone)]),
            claim: Some(ClaimRef { key: claim.key.clone(), uid: claim.uid.clone() }),
            provisioned_by: self.classes.get(&claim.class)?.provisioner.clone(),
            bound_by_controller: true,
            ..PersistentVolume::default()
        }))
    }

    /// A volume cannot be provisioned: the scheduler is asked for another node, as the external
    /// provisioner does; `None` if it is not wanted any more.
    pub(crate) fn refuse(&mut self, order: &ProvisioningOrder) -> Option<AnyObject> {
        let mut claim = self.wanted(order)?.clone();
        claim.selected_node.take()?;
        claim.resource_version = next(&claim.resource_version);
        Some(AnyObject::new(claim))
    }

    fn wanted(&self, order: &ProvisioningOrder) -> Option<&PersistentVolumeClaim> {
        let claim = self.claims.get(&order.claim)?;
        let same = claim.uid == order.uid && claim.selected_node == order.node;
        (same && claim.volume.is_none()).then_some(claim)
    }
}

fn lost(kind: &str, key: &ObjectKey) -> WriteError {
    WriteError::new(WriteCause::NotFound, format!("{kind} {:?} not found", key.name))
}

/// Whether a patch takes for granted the version that is there.
fn check(kind: &str, key: &ObjectKey, merge: &Value, is: &Str) -> Result<(), WriteError> {
    match merge["metadata"]["resourceVersion"].as_str() {
        Some(wanted) if wanted != is => {
            let text = format!(
                "Operation cannot be fulfilled on {kind} {:?}: the object has been modified; \
                 please apply your changes to the latest version and try again",
                key.name
            );
            Err(WriteError::new(WriteCause::Conflict, text))
        }
        _ => Ok(()),
    }
}

/// The version of an object after `version`.
fn next(version: &Str) -> Str {
    (version.parse::<u64>().unwrap_or(0) + 1).to_string().into()
}
