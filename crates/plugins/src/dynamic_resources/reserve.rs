//! Reserve and Unreserve: claims get devices, or lose them again.
//!
//! From Reserve on the devices are *held*: whatever is observed, the claim counts as allocated, and no other pod can use
//! it. This lasts until the written claim is observed, or the pod is given up. So no other pod gets the same devices,
//! even if an older state of the claim is observed in between.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use plimsoll_api::Timestamp;
use plimsoll_api::devices::{Allocation, ClaimConsumer};
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::prelude::*;
use rustc_hash::FxBuildHasher;

use super::allocate::NodeAllocations;
use super::extended::IN_MEMORY;
use super::held::{HeldClaim, HeldClaims, HeldExtended, Progress, has_lost_devices, held_for};
use super::metrics::{ConditionsOutcome, count_conditions};
use super::{DynamicResources, NodeParts, may_claim, writes};

/// The longest name of a pod that a claim's name repeats. As in generate.go, of names with 63 characters at most.
const MOST_OF_NAME: usize = 58;

/// As in dynamicresources.go, Reserve and Unreserve.
impl Reserve for DynamicResources {
    type Reservation = HeldClaims;

    fn applies(&self, pod: &PodInfo) -> bool {
        may_claim(&pod.resource_claims, &pod.container_devices)
    }

    fn reserve(
        &self,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<HeldClaims, Rejection> {
        let objects = &at.view.stores.objects;
        let pod = self.whole(at.pod);
        let claims = self.prepare(pod, objects, handle.now)?;
        if claims.are_none() {
            return Ok(HeldClaims::default());
        }
        let mut found = NodeAllocations::default();
        if claims.need_devices() || claims.extended().is_some() {
            let Some(row) = at.row else {
                return Err(Rejection::error("claim allocation not found for node"));
            };
            // Of the pods there only claims for resources of the node read anything: without this pod, which counts already.
            let without = self.gates.node_allocatable.then(|| {
                let mut nodes = at.view.nodes.scratch(row);
                nodes.displace(Row::FIRST, &at.pod.key);
                nodes
            });
            let node = match &without {
                Some(nodes) => NodeParts::at(nodes, Row::FIRST),
                None => NodeParts::at(at.view.nodes, row),
            };
            found = self.on_node(&claims, node)?;
        }
        let node_allocatable = found.node_allocatable;
        let group = pod.claiming.group.cloned();
        let mut held = HeldClaims { node_allocatable, group, ..HeldClaims::default() };
        let uid = &at.pod.uid;
        for (claim, mut allocation) in found.allocations {
            name_shares(&mut allocation, &claim, at.pod);
            if self.gates.features.binding_conditions {
                allocation.timestamp = Timestamp::from_millisecond(handle.now.millis()).ok();
            }
            if claim.key.name == IN_MEMORY {
                let extended = HeldExtended::new(&claim, allocation, at.pod, handle.now);
                // Held by another name, its devices would be free as soon as that claim goes.
                handle.assume.hold(ResourceClaim {
                    key: extended.claim.key.clone(),
                    allocation: Some(extended.allocation.clone()),
                    reserved_for: vec![ClaimConsumer::pod(&at.pod.key, uid)],
                    holders: vec![uid.clone()],
                    is_extended: true,
                    ..ResourceClaim::default()
                });
                held.extended = Some(extended);
                continue;
            }
            // What is held is what will be written: of a claim that the pod names twice, the first devices.
            let is_first = held.claims.iter().all(|one| one.key != claim.key);
            let consumer = pod.claiming.consumer(&claim.key.name, objects);
            let with_devices = Arc::new(ResourceClaim {
                allocation: Some(allocation),
                reserved_for: vec![consumer.map_err(Rejection::unresolvable)?],
                holders: vec![uid.clone()],
                ..ResourceClaim::clone(&claim)
            });
            if is_first {
                handle.assume.hold(with_devices.clone());
            }
            held.claims.push(HeldClaim {
                key: claim.key.clone(),
                uid: claim.uid.clone(),
                with_devices: Some(with_devices),
            });
        }
        for one in claims.named().iter().filter(|one| one.allocation().is_some()) {
            if let Some(shared) = &one.shared {
                let mut shared = ResourceClaim::clone(shared);
                shared.holders.push(uid.clone());
                handle.assume.hold(shared);
            }
            held.claims.push(HeldClaim {
                key: one.claim.key.clone(),
                uid: one.claim.uid.clone(),
                with_devices: one.shared.clone(),
            });
        }
        Ok(held)
    }

    /// What was written already stays: only the reservation for the pod ends.
    fn unreserve(&self, held: HeldClaims, at: &Placement<'_>, handle: &mut Handle<'_>) {
        let store = at.view.stores.of::<ResourceClaim>();
        let progress = Progress::of(handle);
        if let Some(since) = progress.waits_since {
            let outcome = match since + self.binding_timeout <= handle.now {
                true => ConditionsOutcome::Timeout,
                false => ConditionsOutcome::Error,
            };
            count_conditions(outcome, since, &held.drivers(store), at.pod, handle);
        }
        for HeldClaim { key, .. } in held.each_once() {
            let observed = store.observed(key).filter(|claim| claim.allocation.is_some());
            if let Some(claim) = held_for(key, store, at.pod) {
                let mut left = ResourceClaim::clone(claim);
                left.holders.retain(|uid| *uid != at.pod.uid);
                let lost = || store.observed(key).is_some_and(|claim| has_lost_devices(claim));
                let is_over = progress.allocated.contains(key) && lost();
                if progress.allocating.contains(key) && observed.is_none() && !is_over {
                    left.late_writers.push(at.pod.uid.clone());
                }
                if !left.holders.is_empty() {
                    // Other pods of the group share the devices.
                    handle.assume.hold(left);
                } else if !left.late_writers.is_empty() && observed.is_none() {
                    // A write may have taken effect, or may yet: until that is observed, nobody else gets the devices.
                    handle.assume.is(left);
                } else {
                    handle.assume.as_seen::<ResourceClaim>(key);
                }
            }
            if let Some(claim) = observed
                && let Some(consumer) = self.reservation_to_end(claim, at)
            {
                writes::unreserve(claim, &consumer, handle);
            }
        }
        if let Some(extended) = held.extended {
            handle.assume.as_seen::<ResourceClaim>(&extended.claim.key);
            if let Some(claim) = store.observed(&extended.claim.key) {
                writes::delete(claim, handle);
            }
        }
    }
}

impl DynamicResources {
    /// The uid in `status.reservedFor` whose reservation ends if a pod is given up. As in dynamicresources.go, Unreserve: in
    /// 1.36 the reservation for its group stays, and since 1.37 it ends with the last pod of the group on a node.
    pub(super) fn reservation_to_end(
        &self,
        claim: &ResourceClaim,
        at: &Placement<'_>,
    ) -> Option<Str> {
        if claim.reserved_for.iter().any(|one| one.uid == at.pod.uid) {
            return Some(at.pod.uid.clone());
        }
        let group = self.claiming(at.pod).group.filter(|_| self.gates.groups_release_claims)?;
        let key = group_of(at.pod)?;
        let state = at.view.stores.groups.get(&key);
        if state.is_some_and(|state| state.places_others_than(&at.pod.key)) {
            return None;
        }
        let of_group = claim.reserved_for.iter().find(|one| one.is_group() && one.name == *group);
        of_group.map(|one| one.uid.clone())
    }
}

impl HeldExtended {
    fn new(claim: &ResourceClaim, allocation: Allocation, pod: &PodInfo, now: Time) -> Self {
        let namespace = &pod.key.namespace;
        let mut name = pod.key.name.to_string();
        name.push_str("-extended-resources-");
        name.truncate(MOST_OF_NAME);
        let id = hash(&(&pod.uid, &pod.key, now.millis()));
        let name = format!("{name}{:05}", id % 100_000);
        let key = ObjectKey::new(namespace.clone(), name);
        HeldExtended { claim: ResourceClaim { key, ..claim.clone() }, allocation }
    }
}

fn hash(of: &impl Hash) -> u64 {
    FxBuildHasher.hash_one(of)
}

/// Gives the shares of an allocation their ids. They must differ from those of all other claims, so they are made from
/// the uids of claim and pod.
fn name_shares(allocation: &mut Allocation, claim: &ResourceClaim, pod: &PodInfo) {
    let mut index = 0;
    allocation.name_shares(|| {
        index += 1;
        let of = (&claim.uid, &claim.key, &pod.uid, &pod.key, index);
        let (high, low) = (hash(&of), hash(&(1, of)));
        // The form of a random UUID.
        Str::from(format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            0x8000 | low >> 48 & 0x3fff,
            low & 0xffff_ffff_ffff
        ))
    });
}
