//! Finds volumes and storage on one node for the claims of a pod.

use std::sync::Arc;

use plimsoll_api::storage::NO_PROVISIONER;
use plimsoll_framework::prelude::*;

use super::claims::{BoundVolumeClaim, PodClaims, WaitingClaim};

const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
const NOT_ENOUGH_SPACE: &str = "node(s) did not have enough free storage";
const NO_VOLUME: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

/// The volumes and storage of a node for the unbound claims of a pod.
#[derive(Debug, Default)]
pub(super) struct FoundVolumes<'a> {
    /// Claims with the volumes to which they will be bound.
    pub(super) bindings: Vec<(&'a WaitingClaim, &'a Arc<PersistentVolume>)>,
    /// Claims for which a volume will be provisioned.
    pub(super) provisions: Vec<Provision<'a>>,
}

/// A claim for which a volume will be provisioned.
#[derive(Debug)]
pub(super) struct Provision<'a> {
    pub(super) claim: &'a WaitingClaim,
    /// The free storage for it, if its driver reports it.
    pub(super) left: Option<&'a CsiStorageCapacity>,
}

impl PodClaims {
    /// Finds volumes and storage on node `name` for the claims. As in binder.go, `FindPodVolumes`:
    /// problems with bound and with unbound claims are reported together.
    pub(super) fn find(&self, name: &Str, labels: &Labels) -> Result<FoundVolumes<'_>, Rejection> {
        let mut reasons = SmallVec::new();
        reasons.extend(bound_conflict(self.bound(), name, labels)?.map(Reason::Text));
        let found = self.find_unbound(name, labels);
        match found {
            Ok(found) if reasons.is_empty() => return Ok(found),
            Ok(_) => {}
            Err(reason) => reasons.push(Reason::Text(reason)),
        }
        // The missing volume comes last.
        reasons.sort_by_key(|reason| *reason == Reason::Text(NO_VOLUME));
        Err(Rejection { code: Code::UnschedulableAndUnresolvable, reasons })
    }

    fn find_unbound(&self, name: &Str, labels: &Labels) -> Result<FoundVolumes<'_>, &'static str> {
        let mut found = FoundVolumes::default();
        if self.are_bound() {
            return Ok(found);
        }
        if self.provisioning().iter().any(|one| one.claim.selected_node.as_ref() != Some(name)) {
            return Err(BIND_CONFLICT);
        }
        let mut to_provision: Vec<&WaitingClaim> = self.provisioning().iter().collect();
        for waiting in self.matching() {
            match volume_for(waiting, labels, &found.bindings) {
                Some(volume) => found.bindings.push((waiting, volume)),
                None => to_provision.push(waiting),
            }
        }
        for waiting in to_provision {
            found.provisions.push(provision(waiting, labels)?);
        }
        Ok(found)
    }
}

/// The reason for the first claim whose volume the node cannot use. It is an error if a volume could
/// not be judged. As in binder.go, `checkBoundClaims`.
fn bound_conflict(
    bound: &[BoundVolumeClaim],
    name: &Str,
    labels: &Labels,
) -> Result<Option<&'static str>, Rejection> {
    for one in bound {
        let Some(volume) = &one.volume else { return Ok(Some(NO_VOLUME)) };
        let volume = match &one.migrated {
            Some(migrated) if migrated.is_on(name) => match &migrated.volume {
                Ok(volume) => volume,
                Err(why) => return Err(Rejection::error(format!("could not translate pv: {why}"))),
            },
            _ => volume,
        };
        if !volume.reaches(labels) {
            return Ok(Some(NODE_CONFLICT));
        }
    }
    Ok(None)
}

/// The volume for a claim on a node: the one that is reserved for it, otherwise the smallest that no
/// other claim of the pod has taken. As in pv_helpers.go, `FindMatchingVolume`: if the reserved one
/// cannot be reached, no other is used.
fn volume_for<'a>(
    waiting: &'a WaitingClaim,
    labels: &Labels,
    taken: &[(&'a WaitingClaim, &'a Arc<PersistentVolume>)],
) -> Option<&'a Arc<PersistentVolume>> {
    let is_free =
        |volume: &&Arc<PersistentVolume>| taken.iter().all(|(_, other)| other.name != volume.name);
    if let Some(reserved) = waiting.reserved.iter().find(is_free) {
        return Some(reserved).filter(|volume| volume.reaches(labels));
    }
    waiting.fitting.iter().find(|volume| is_free(volume) && volume.reaches(labels))
}

/// As in binder.go, `checkVolumeProvisions`.
fn provision<'a>(
    waiting: &'a WaitingClaim,
    labels: &Labels,
) -> Result<Provision<'a>, &'static str> {
    let class = &waiting.class;
    if class.provisioner.is_empty()
        || class.provisioner == NO_PROVISIONER
        || !class.provisions_for(labels)
    {
        return Err(BIND_CONFLICT);
    }
    let Some(capacities) = &waiting.capacities else {
        return Ok(Provision { claim: waiting, left: None });
    };
    let here = capacities.iter().find(|left| left.topology.matches(labels));
    here.map(|left| Provision { claim: waiting, left: Some(left) }).ok_or(NOT_ENOUGH_SPACE)
}
