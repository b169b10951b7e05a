//! The PersistentVolume controller, and a provisioner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_api::storage::NO_PROVISIONER;
use plimsoll_api::{
    BindingMode, ClaimPhase, ClaimRef, Labels, NodeSelectorTerm, ObjectKey, PersistentVolume,
    PersistentVolumeClaim, Requirement, StorageClass, Str, VolumeKind, VolumeObject, VolumePhase,
};
use plimsoll_engine::{Seen, WriteError};
use plimsoll_framework::binding::Patch;

const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const ZONE: &str = "topology.kubernetes.io/zone";

/// How long the volume controllers take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
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
    /// The claim binding that `patch` requests, if it is about a claim.
    pub(crate) fn of(patch: &Patch) -> Option<Self> {
        let text = |at: &str| patch.merge.pointer(at).and_then(|value| value.as_str());
        match patch.kind.as_str() {
            "PersistentVolume" => {
                let namespace = text("/spec/claimRef/namespace")?;
                let claim = ObjectKey::new(namespace, text("/spec/claimRef/name")?);
                Some(ClaimBinding { claim, volume: Some(patch.key.name.clone()) })
            }
            "PersistentVolumeClaim" => {
                patch.merge["metadata"]["annotations"][SELECTED_NODE].as_str()?;
                Some(ClaimBinding { claim: patch.key.clone(), volume: None })
            }
            _ => None,
        }
    }
}

/// The volumes of a cluster, and the claims on them.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    all: BTreeMap<Str, PersistentVolume>,
    claims: BTreeMap<ObjectKey, PersistentVolumeClaim>,
    classes: BTreeMap<Str, StorageClass>,
    /// Claims for which a volume is being provisioned.
    asked: BTreeSet<Order>,
}

/// A volume to provision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    pub(crate) claim: ObjectKey,
    uid: Str,
    pub(crate) node: Option<Str>,
}

impl Volumes {
    /// Records that an object was changed or deleted.
    pub(crate) fn happens(&mut self, seen: &Seen<VolumeObject, (VolumeKind, ObjectKey)>) {
        match seen {
            Seen::Is(VolumeObject::PersistentVolume(volume)) => {
                self.all.insert(volume.name.clone(), volume.clone());
            }
            Seen::Is(VolumeObject::PersistentVolumeClaim(claim)) => {
                self.claims.insert(claim.key.clone(), claim.clone());
            }
            Seen::Is(VolumeObject::StorageClass(class)) => {
                self.classes.insert(class.name.clone(), class.clone());
            }
            Seen::Gone((VolumeKind::PersistentVolume, key)) => {
                self.all.remove(&key.name);
            }
            Seen::Gone((VolumeKind::PersistentVolumeClaim, key)) => {
                self.claims.remove(key);
            }
            Seen::Gone((VolumeKind::StorageClass, key)) => {
                self.classes.remove(&key.name);
            }
            Seen::Is(_) | Seen::Gone(_) => {}
        }
    }

    /// The result of a patch of a volume or a claim; `None` for other objects.
    pub(crate) fn patched(&self, patch: &Patch) -> Option<Result<VolumeObject, WriteError>> {
        let merge = &patch.merge;
        let key = &patch.key;
        let text = |at: &str| merge.pointer(at).and_then(|value| value.as_str()).map(Str::from);
        let version = text("/metadata/resourceVersion");
        let check = |kind: &str, is: &Str| match version {
            Some(wanted) if wanted != *is => Err(WriteError(format!(
                "Operation cannot be fulfilled on {kind} {:?}: the object has been modified; \
                 please apply your changes to the latest version and try again",
                key.name
            ))),
            _ => Ok(()),
        };
        let lost = |kind: &str| WriteError(format!("{kind} {:?} not found", key.name));
        match patch.kind.as_str() {
            "PersistentVolume" => Some((|| {
                let kind = "persistentvolumes";
                let volume = self.all.get(&key.name).ok_or_else(|| lost(kind))?;
                check(kind, &volume.resource_version)?;
                let claim = text("/spec/claimRef/name").map(|name| ClaimRef {
                    key: ObjectKey::new(text("/spec/claimRef/namespace").unwrap_or_default(), name),
                    uid: text("/spec/claimRef/uid").unwrap_or_default(),
                });
                let by_controller = &merge["metadata"]["annotations"][BOUND_BY_CONTROLLER];
                let mut volume = volume.clone();
                volume.claim = claim.or(volume.claim);
                volume.bound_by_controller |= by_controller.is_string();
                volume.resource_version = next(&volume.resource_version);
                Ok(VolumeObject::PersistentVolume(volume))
            })()),
            "PersistentVolumeClaim" => Some((|| {
                let kind = "persistentvolumeclaims";
                let claim = self.claims.get(key).ok_or_else(|| lost(kind))?;
                check(kind, &claim.resource_version)?;
                let node = merge["metadata"]["annotations"][SELECTED_NODE].as_str();
                let mut claim = claim.clone();
                claim.selected_node = node.map(Str::from).or(claim.selected_node);
                claim.resource_version = next(&claim.resource_version);
                Ok(VolumeObject::PersistentVolumeClaim(claim))
            })()),
            _ => None,
        }
    }

    /// Does the work of the PersistentVolume controller. As in pv_controller.go, a claim gets the
    /// volume that is reserved for it or that it names; otherwise, unless it waits for its first
    /// consumer, the smallest that fits.
    pub(crate) fn bind(&mut self) -> Vec<VolumeObject> {
        let mut changed = Vec::new();
        let fresh = |volume: &&mut PersistentVolume| {
            volume.phase == VolumePhase::Pending && volume.claim.is_none()
        };
        for volume in self.all.values_mut().filter(fresh) {
            volume.phase = VolumePhase::Available;
            volume.resource_version = next(&volume.resource_version);
            changed.push(VolumeObject::PersistentVolume(volume.clone()));
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

    fn bind_to(&mut self, key: &ObjectKey, name: &Str) -> [VolumeObject; 2] {
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
        [
            VolumeObject::PersistentVolume(volume.clone()),
            VolumeObject::PersistentVolumeClaim(claim.clone()),
        ]
    }

    /// New volumes to provision.
    pub(crate) fn orders(&mut self) -> Vec<Order> {
        let provisions = |claim: &&PersistentVolumeClaim| {
            let class = self.classes.get(&claim.class);
            class.is_some_and(|class| class.provisioner != NO_PROVISIONER)
        };
        let wanted: BTreeSet<Order> = self
            .claims
            .values()
            .filter(|claim| claim.volume.is_none() && !claim.is_terminating())
            .filter(provisions)
            .filter(|claim| claim.selected_node.is_some() || !self.waits_for_consumer(claim))
            .filter(|claim| !self.all.values().any(|volume| volume.is_reserved_for(claim)))
            .map(|claim| Order {
                claim: claim.key.clone(),
                uid: claim.uid.clone(),
                node: claim.selected_node.clone(),
            })
            .collect();
        let new = wanted.difference(&self.asked).cloned().collect();
        self.asked = wanted;
        new
    }

    /// Provisions a volume, in the zone of the node if it has one; `None` if it is no longer needed.
    pub(crate) fn provision(&self, order: &Order, node: Option<&Labels>) -> Option<VolumeObject> {
        let claim = self.wanted(order)?;
        let zone = node.and_then(|labels| labels.get(ZONE));
        let in_zone = |zone: &Str| NodeSelectorTerm {
            labels: vec![Requirement::equals(ZONE, zone.clone())],
            ..NodeSelectorTerm::default()
        };
        let name = if claim.uid.is_empty() { &claim.key.name } else { &claim.uid };
        Some(VolumeObject::PersistentVolume(PersistentVolume {
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

    /// Fails to provision a volume: the claim is changed so that the scheduler chooses another node, as
    /// the external provisioner does; `None` if it is no longer needed.
    pub(crate) fn refuse(&mut self, order: &Order) -> Option<VolumeObject> {
        let mut claim = self.wanted(order)?.clone();
        claim.selected_node.take()?;
        claim.resource_version = next(&claim.resource_version);
        Some(VolumeObject::PersistentVolumeClaim(claim))
    }

    fn wanted(&self, order: &Order) -> Option<&PersistentVolumeClaim> {
        let claim = self.claims.get(&order.claim)?;
        let same = claim.uid == order.uid && claim.selected_node == order.node;
        (same && claim.volume.is_none()).then_some(claim)
    }
}

/// The version of an object after `version`.
fn next(version: &Str) -> Str {
    (version.parse::<u64>().unwrap_or(0) + 1).to_string().into()
}
