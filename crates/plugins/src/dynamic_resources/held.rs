//! The claims of a pod that is being bound, from Reserve on, and how far they are.
//!
//! A claim that has devices is reserved for one pod after the other: while one of them is written, the others wait for
//! the state that it leaves. If all wrote at once, all but one would meet a conflict, again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::devices::{Allocation, ClaimConsumer, NodeAllocatableClaimStatus};
use plimsoll_framework::prelude::*;

use super::conditions::{Conditions, conditions_of, has_conditions, is_timed_out};
use super::metrics::ConditionsOutcome;
use super::writes;

/// The claims of a pod that is being bound.
#[derive(Clone, Debug, Default)]
pub struct HeldClaims {
    /// A pod can name a claim twice, which then got devices twice: only the first of them are held and written.
    pub(super) claims: Vec<HeldClaim>,
    /// The claim to be made for extended resources.
    pub(super) extended: Option<HeldExtended>,
    /// The resources of the node that the claims use.
    pub(super) node_allocatable: Vec<NodeAllocatableClaimStatus>,
}

/// A claim that must be reserved for the pod.
#[derive(Clone, Debug)]
pub(super) struct HeldClaim {
    pub(super) key: ObjectKey,
    pub(super) uid: Str,
    /// The devices to allocate; `None` if it has devices already.
    pub(super) allocation: Option<Allocation>,
}

/// How far the writes for a pod are. It is shared with nobody, and lasts as long as the attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// The claims whose devices are being written, or were written.
    pub(super) allocating: BTreeSet<ObjectKey>,
    /// The versions at which writes of claims met a conflict. They are written again once another version is observed.
    pub(super) conflicts: BTreeMap<ObjectKey, Str>,
    /// When the wait for the conditions of devices began.
    pub(super) waits_since: Option<Time>,
}

impl Progress {
    pub(super) fn of(handle: &Handle<'_>) -> Self {
        handle.shared.read().cloned().unwrap_or_default()
    }
}

/// The claim to be made for extended resources.
#[derive(Clone, Debug)]
pub(super) struct HeldExtended {
    /// The claim as it is to be created.
    pub(super) claim: ResourceClaim,
    pub(super) allocation: Allocation,
}

impl HeldClaim {
    /// Requests the next write, if one is needed and it is the turn of this pod.
    pub(super) fn write(
        &self,
        claim: &ResourceClaim,
        store: &Store<ResourceClaim>,
        pod: &PodInfo,
        handle: &mut Handle<'_>,
    ) {
        match &self.allocation {
            None if is_reserved(claim, pod) => {}
            // Its devices were taken away, which `HeldClaims::ready` will say.
            None if claim.allocation.is_none() => {}
            None => {
                if reserving(&self.key, store).is_none_or(|uid| *uid == pod.uid) {
                    let consumer = consumer(pod);
                    let mut reserved = claim.clone();
                    reserved.reserved_for.push(consumer.clone());
                    handle.assume.hold(reserved);
                    writes::reserve(claim, &consumer, handle);
                }
            }
            Some(allocation) => match claim.has_finalizer() {
                true => allocate(claim, allocation, pod, handle),
                false => writes::add_finalizer(claim, handle),
            },
        }
    }
}

impl HeldClaims {
    /// The claims, each once.
    pub(super) fn each_once(&self) -> impl Iterator<Item = &HeldClaim> {
        let is_first = |&(at, one): &(usize, &HeldClaim)| {
            self.claims[..at].iter().all(|earlier| earlier.key != one.key)
        };
        self.claims.iter().enumerate().filter(is_first).map(|(_, one)| one)
    }

    /// Whether all claims are observed as they were written. The error says why they never will be.
    pub(super) fn ready(&self, at: &Placement<'_>) -> Result<bool, String> {
        let store = at.view.stores.of::<ResourceClaim>();
        let mut is_ready = true;
        for HeldClaim { key, uid, allocation } in &self.claims {
            let Some(claim) =
                store.observed(key).filter(|claim| claim.uid == *uid && !claim.is_terminating())
            else {
                return Err(format!("claim {key} got deleted in the meantime"));
            };
            match (&claim.allocation, allocation) {
                (Some(there), Some(ours)) if there.devices != ours.devices => {
                    return Err(format!("claim {key} got allocated elsewhere in the meantime"));
                }
                (None, None) => {
                    return Err(format!("claim {key} got deallocated elsewhere in the meantime"));
                }
                (there, _) => is_ready &= there.is_some() && is_reserved(claim, at.pod),
            }
        }
        if let Some(extended) = &self.extended {
            let claim = store.observed(&extended.claim.key);
            is_ready &= claim.is_some_and(|claim| claim.allocation.is_some());
        }
        Ok(is_ready)
    }

    /// Writes again what met a conflict, and reserves claims whose turn has come.
    pub(super) fn write_again(&self, at: &Placement<'_>, handle: &mut Handle<'_>) {
        let store = at.view.stores.of::<ResourceClaim>();
        for one in self.each_once() {
            let Some(claim) = store.observed(&one.key) else { continue };
            let mut progress = Progress::of(handle);
            let is_due = match progress.conflicts.get(&one.key) {
                Some(version) => *version != claim.resource_version,
                // It is another pod's turn, or its turn is over.
                None if one.allocation.is_none() => {
                    !store.is_held(&one.key) || reserving(&one.key, store).is_none()
                }
                None => false,
            };
            if is_due {
                progress.conflicts.remove(&one.key);
                handle.shared.write(progress);
                one.write(claim, store, at.pod, handle);
            }
        }
    }

    /// The drivers of the devices that have conditions.
    pub(super) fn drivers(&self, store: &Store<ResourceClaim>) -> BTreeSet<Str> {
        let claims = self.claims.iter().filter_map(|one| store.observed(&one.key));
        let devices = claims.flat_map(|claim| claim.allocation.iter()).flat_map(|one| &one.devices);
        let awaited = devices.filter(|device| !device.binding_conditions.is_empty());
        awaited.map(|device| device.driver.clone()).collect()
    }

    /// What the drivers say about the devices. As in dynamicresources.go, isPodReadyForBinding.
    pub(super) fn conditions(
        &self,
        store: &Store<ResourceClaim>,
        timeout: Duration,
        now: Time,
    ) -> (Readiness, Option<ConditionsOutcome>) {
        let mut is_met = true;
        for one in &self.claims {
            let Some(claim) = store.observed(&one.key).filter(|claim| has_conditions(claim)) else {
                continue;
            };
            let name = &one.key.name;
            let failed =
                |why: String, outcome| (Readiness::Failed(Rejection::error(why)), Some(outcome));
            match conditions_of(claim) {
                Conditions::Met => {}
                Conditions::Awaited if is_timed_out(claim, timeout, now) => {
                    let why = format!("device binding timeout: claim={name}");
                    return failed(why, ConditionsOutcome::Timeout);
                }
                Conditions::Awaited => is_met = false,
                Conditions::Failed { reason, message } => {
                    let why = format!(
                        "device binding failed: claim={name}, reason={reason}, message={message:?}"
                    );
                    return failed(why, ConditionsOutcome::Failed);
                }
            }
        }
        match is_met {
            true => (Readiness::Ready, Some(ConditionsOutcome::Success)),
            false => (Readiness::Waiting, None),
        }
    }
}

/// Writes the devices that Reserve has chosen for a claim.
pub(super) fn allocate(
    claim: &ResourceClaim,
    allocation: &Allocation,
    pod: &PodInfo,
    handle: &mut Handle<'_>,
) {
    let mut progress = Progress::of(handle);
    progress.allocating.insert(claim.key.clone());
    handle.shared.write(progress);
    writes::allocate(claim, allocation, &consumer(pod), handle);
}

/// A claim as it is held for a pod: it is the last one for which the claim is reserved.
pub(super) fn held_for<'a>(
    key: &ObjectKey,
    store: &'a Store<ResourceClaim>,
    pod: &PodInfo,
) -> Option<&'a Arc<ResourceClaim>> {
    store.get(key).filter(|claim| store.is_held(key) && is_last_user(claim, pod))
}

/// Whether a claim is reserved for this pod, and for no pod after it.
pub(super) fn is_last_user(claim: &ResourceClaim, pod: &PodInfo) -> bool {
    claim.reserved_for.last().is_some_and(|last| last.uid == pod.uid)
}

/// The uid of the pod for which the claim is held, if that is not observed yet.
fn reserving<'a>(key: &ObjectKey, store: &'a Store<ResourceClaim>) -> Option<&'a Str> {
    let held = store.get(key).filter(|_| store.is_held(key))?;
    let last = held.reserved_for.last()?;
    let is_written = |claim: &ResourceClaim| claim.reserved_for.contains(last);
    store.observed(key).is_none_or(|claim| !is_written(claim)).then_some(&last.uid)
}

/// A pod in `status.reservedFor`.
pub(super) fn consumer(pod: &PodInfo) -> ClaimConsumer {
    ClaimConsumer {
        api_group: Str::default(),
        resource: Str::const_new("pods"),
        name: pod.key.name.clone(),
        uid: pod.uid.clone(),
    }
}

pub(super) fn is_reserved(claim: &ResourceClaim, pod: &PodInfo) -> bool {
    claim.reserved_for.iter().any(|one| one.uid == pod.uid)
}
