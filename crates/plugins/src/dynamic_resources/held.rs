//! The claims of a pod that is being bound, from Reserve on, and how far they are.
//!
//! A claim that has devices is reserved for one pod after the other: while one of them is written, the others wait for
//! the state that it leaves. If all wrote at once, all but one would meet a conflict, again and again.
//!
//! Pods of a group that are placed in one cycle share the devices that a claim gets there. The first of its
//! [holders](ResourceClaim::holders) writes them, and the others wait until they are observed. If it is given up before, it
//! is the turn of the next one. A write of the first may take effect even so, and is remembered: see
//! [`ResourceClaim::late_writers`]. A claim of the group is reserved for the group, so that one write is enough for all of
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::devices::{Allocation, ClaimConsumer, NodeAllocatableClaimStatus};
use plimsoll_framework::prelude::*;

use super::claims::ClaimingPod;
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
    /// The name of the group of the pod, if groups can have claims that their pods share.
    pub(super) group: Option<Str>,
}

/// A claim that must be reserved for the pod, or for its group: see [`ClaimingPod::consumer`].
#[derive(Clone, Debug)]
pub(super) struct HeldClaim {
    pub(super) key: ObjectKey,
    pub(super) uid: Str,
    /// The claim with the devices to allocate; `None` if it has devices already.
    pub(super) with_devices: Option<Arc<ResourceClaim>>,
}

/// How far the writes for a pod are. It is shared with nobody, and lasts as long as the attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// The claims whose devices are being written, or were written.
    pub(super) allocating: BTreeSet<ObjectKey>,
    /// Those of them of which the answer says that they were.
    pub(super) allocated: BTreeSet<ObjectKey>,
    /// The claims that were reserved, by the answers, each with the version that the write named: of any other version that is
    /// observed the reservation is known.
    pub(super) reserved: BTreeMap<ObjectKey, Str>,
    /// The versions at which writes of claims met a conflict. They are written again once another version is observed.
    pub(super) conflicts: BTreeMap<ObjectKey, Str>,
    /// When the wait for the conditions of devices began.
    pub(super) waits_since: Option<Time>,
}

impl Progress {
    pub(super) fn of(handle: &Handle<'_>) -> Self {
        handle.shared.read().cloned().unwrap_or_default()
    }

    /// Whether a claim was reserved before it was as it is observed now.
    fn was_reserved(&self, claim: &ResourceClaim) -> bool {
        self.reserved.get(&claim.key).is_some_and(|version| *version != claim.resource_version)
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
    /// The devices to allocate; `None` if it has devices already.
    pub(super) fn allocation(&self) -> Option<&Allocation> {
        self.with_devices.as_ref()?.allocation.as_ref()
    }

    /// Requests the next write, if one is needed and it is the turn of this pod.
    pub(super) fn write(
        &self,
        claim: &Arc<ResourceClaim>,
        held: &HeldClaims,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) {
        let store = at.view.stores.of::<ResourceClaim>();
        let there = claim.allocation.as_ref();
        // The group may be another one than at Reserve. If it is gone, `HeldClaims::ready` says so.
        let objects = &at.view.stores.objects;
        let Ok(consumer) = held.claiming(at.pod).consumer(&self.key.name, objects) else { return };
        match (&self.with_devices, self.allocation()) {
            // If it has other devices by now, the API server refuses, or `HeldClaims::ready` says so.
            (Some(with_devices), Some(ours))
                if there.is_none_or(|there| there.devices != ours.devices) =>
            {
                if self.is_first(store, at.pod) {
                    match claim.has_finalizer() {
                        true => allocate(claim, with_devices, (consumer, store), handle),
                        false => writes::add_finalizer(claim, handle),
                    }
                }
            }
            // Its devices were taken away, which `HeldClaims::ready` will say.
            _ if there.is_none() => {}
            _ if held.keeps(claim, at) => {}
            _ => {
                if reserving(&self.key, store).is_none_or(|uid| *uid == at.pod.uid) {
                    let mut reserved = ResourceClaim::clone(claim);
                    reserved.reserved_for.push(consumer.clone());
                    reserved.holders = vec![at.pod.uid.clone()];
                    handle.assume.hold(reserved);
                    writes::reserve(claim, &consumer, handle);
                }
            }
        }
    }

    /// Whether the pod is the one that writes the devices of the claim.
    fn is_first(&self, store: &Store<ResourceClaim>, pod: &PodInfo) -> bool {
        let held = held_for(&self.key, store, pod);
        held.is_some_and(|held| held.holders.first() == Some(&pod.uid))
    }
}

impl HeldClaims {
    /// What is read of the pod about claims.
    fn claiming<'a>(&'a self, pod: &'a PodInfo) -> ClaimingPod<'a> {
        ClaimingPod {
            key: &pod.key,
            uid: &pod.uid,
            claims: &pod.resource_claims,
            statuses: pod.devices.as_deref(),
            group: self.group.as_ref(),
        }
    }

    /// Whether the pod can use a claim, now and later.
    fn keeps(&self, claim: &ResourceClaim, at: &Placement<'_>) -> bool {
        self.claiming(at.pod).keeps(claim, &at.view.stores.objects)
    }

    /// The claims, each once.
    pub(super) fn each_once(&self) -> impl Iterator<Item = &HeldClaim> {
        let is_first = |&(at, one): &(usize, &HeldClaim)| {
            self.claims[..at].iter().all(|earlier| earlier.key != one.key)
        };
        self.claims.iter().enumerate().filter(is_first).map(|(_, one)| one)
    }

    /// Whether all claims are observed as they were written. The error says why they never will be.
    pub(super) fn ready(
        &self,
        at: &Placement<'_>,
        progress: Option<&Progress>,
    ) -> Result<bool, String> {
        let store = at.view.stores.of::<ResourceClaim>();
        let is_written = |key| progress.is_some_and(|progress| progress.allocated.contains(key));
        // What is reserved for a group that is gone will soon be free again.
        self.claiming(at.pod).group_object(&at.view.stores.objects)?;
        let mut is_ready = true;
        for one in self.each_once() {
            let HeldClaim { key, uid, .. } = one;
            let Some(claim) =
                store.observed(key).filter(|claim| claim.uid == *uid && !claim.is_terminating())
            else {
                return Err(format!("claim {key} got deleted in the meantime"));
            };
            match (&claim.allocation, one.allocation()) {
                (Some(there), Some(ours)) if there.devices != ours.devices => {
                    return Err(format!("claim {key} got allocated elsewhere in the meantime"));
                }
                (None, None) => {
                    return Err(format!("claim {key} got deallocated elsewhere in the meantime"));
                }
                // It was observed with its devices, which were shared, and has lost them since; or it has lost them before it
                // was looked at.
                (None, Some(_))
                    if held_for(key, store, at.pod).is_none()
                        || (is_written(key) && has_lost_devices(claim)) =>
                {
                    return Err(format!("claim {key} got deallocated elsewhere in the meantime"));
                }
                (there, _) if self.keeps(claim, at) => is_ready &= there.is_some(),
                // The pod is being deleted, or somebody else has ended the reservation. To write it again would not help.
                (Some(_), _) if progress.is_some_and(|progress| progress.was_reserved(claim)) => {
                    return Err(format!("claim {key} is no longer reserved for the pod"));
                }
                _ => is_ready = false,
            }
        }
        if let Some(extended) = &self.extended {
            let claim = store.observed(&extended.claim.key);
            is_ready &= claim.is_some_and(|claim| claim.allocation.is_some());
        }
        Ok(is_ready)
    }

    /// Writes again what met a conflict, and reserves or allocates claims whose turn has come.
    pub(super) fn write_again(&self, at: &Placement<'_>, handle: &mut Handle<'_>) {
        let store = at.view.stores.of::<ResourceClaim>();
        for one in self.each_once() {
            let Some(claim) = store.observed(&one.key) else { continue };
            let mut progress = Progress::of(handle);
            let is_due = match progress.conflicts.get(&one.key) {
                Some(version) => *version != claim.resource_version,
                // Only now it is the first of those that share the devices.
                None if claim.allocation.is_none() => {
                    one.with_devices.is_some()
                        && !progress.allocating.contains(&one.key)
                        && one.is_first(store, at.pod)
                }
                // It is another pod's turn, or its turn is over.
                None => !store.is_held(&one.key) || reserving(&one.key, store).is_none(),
            };
            if is_due {
                progress.conflicts.remove(&one.key);
                handle.shared.write(progress);
                one.write(claim, self, at, handle);
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

/// Writes the devices that Reserve has chosen for a claim: those that `with_devices` has.
pub(super) fn allocate(
    claim: &Arc<ResourceClaim>,
    with_devices: &Arc<ResourceClaim>,
    (consumer, store): (ClaimConsumer, &Store<ResourceClaim>),
    handle: &mut Handle<'_>,
) {
    let mut progress = Progress::of(handle);
    progress.allocating.insert(claim.key.clone());
    handle.shared.write(progress);
    // If another pod may take over, a write that comes late must not replace its reservation.
    let is_shared = store.get(&claim.key).is_some_and(|held| 1 < held.holders.len());
    match is_shared && !consumer.is_group() {
        true => writes::allocate_this(claim, with_devices, consumer, handle),
        false => writes::allocate(claim, with_devices, consumer, handle),
    }
}

/// A claim as it is held for a pod.
pub(super) fn held_for<'a>(
    key: &ObjectKey,
    store: &'a Store<ResourceClaim>,
    pod: &PodInfo,
) -> Option<&'a Arc<ResourceClaim>> {
    store.entry(key)?.held().filter(|claim| claim.holders.contains(&pod.uid))
}

/// A claim as it is assumed since a pod was given up whose write of the devices was on its way.
pub(super) fn late_for<'a>(
    key: &ObjectKey,
    store: &'a Store<ResourceClaim>,
    pod: &PodInfo,
) -> Option<&'a Arc<ResourceClaim>> {
    store.entry(key)?.assumed().filter(|claim| claim.late_writers.contains(&pod.uid))
}

/// Whether a claim whose devices were written has lost them again. Both may be observed before it is asked about. Its
/// finalizer goes with the devices.
pub(super) fn has_lost_devices(claim: &ResourceClaim) -> bool {
    claim.allocation.is_none() && !claim.has_finalizer()
}

/// The uid of the pod for which the claim is held, if that is not observed yet.
fn reserving<'a>(key: &ObjectKey, store: &'a Store<ResourceClaim>) -> Option<&'a Str> {
    let entry = store.entry(key)?;
    let held = entry.held()?;
    let last = held.reserved_for.last()?;
    let is_written = |claim: &Arc<ResourceClaim>| claim.reserved_for.contains(last);
    let holder = held.holders.first()?;
    entry.observed().is_none_or(|claim| !is_written(claim)).then_some(holder)
}
