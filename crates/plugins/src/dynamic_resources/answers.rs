//! What follows from the answers to writes: the next write, another try, or giving up the pod.

use std::borrow::Cow;
use std::sync::Arc;

use plimsoll_api::devices::ClaimConsumer;
use plimsoll_framework::prelude::*;
use serde::Deserialize;

use super::held::{Progress, allocate, has_lost_devices, held_for, late_for};
use super::metrics::CREATES;
use super::writes::{self, Step};
use super::{DynamicResources, describe, extended};

impl Answered for DynamicResources {
    fn answered(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        let step = Step::of(write);
        if step == Step::Create {
            let status = if answer.is_ok() { "success" } else { "failure" };
            handle.metrics.add(&CREATES, [status], 1);
        }
        match answer {
            Ok(()) => {
                if step == Step::Reservation {
                    let mut progress = Progress::of(handle);
                    progress.reserved.insert(write.key.clone(), written_version(write));
                    handle.shared.write(progress);
                }
                self.written(step, &write.key, at, handle)
            }
            Err(error) if error.cause == WriteCause::Conflict => {
                self.met_conflict(step, write, error, at, handle)
            }
            Err(error) => give_up(step, &write.key, error, at, handle),
        }
    }
}

impl DynamicResources {
    /// Requests the write that follows one that has succeeded.
    fn written(
        &self,
        step: Step,
        key: &ObjectKey,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        let objects = &at.view.stores.objects;
        let store = objects.of::<ResourceClaim>();
        // The claim with the devices that Reserve has chosen.
        let held =
            |key| held_for(key, store, at.pod).filter(|one| one.allocation.is_some()).cloned();
        match step {
            Step::Finalizer => {
                if let Some((claim, with_devices)) = store.observed(key).zip(held(key)) {
                    let consumer = self.claiming(at.pod).consumer(&key.name, objects);
                    let consumer = consumer.map_err(Rejection::error)?;
                    allocate(claim, &with_devices, (consumer, store), handle);
                }
                Ok(())
            }
            Step::Create => {
                if let Some(with_devices) = held(key) {
                    let created = ResourceClaim { key: key.clone(), ..ResourceClaim::default() };
                    let consumer = ClaimConsumer::pod(&at.pod.key, &at.pod.uid);
                    allocate(&Arc::new(created), &with_devices, (consumer, store), handle);
                }
                Ok(())
            }
            Step::Allocation if is_extended(key, at) => {
                self.name_extended_claim(&key.name, at, handle)
            }
            Step::Allocation => {
                let lost = || store.observed(key).is_some_and(|claim| has_lost_devices(claim));
                match late_for(key, store, at.pod) {
                    Some(claim) if lost() => is_not_late(claim, at, handle),
                    Some(_) => {}
                    None => {
                        let mut progress = Progress::of(handle);
                        progress.allocated.insert(key.clone());
                        handle.shared.write(progress);
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The claim has changed since the version that the write names. It is written again, if that still makes sense, and
    /// as soon as another version is observed.
    fn met_conflict(
        &self,
        step: Step,
        write: &ObjectWrite,
        error: &WriteError,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        let objects = &at.view.stores.objects;
        let (store, pod) = (objects.of::<ResourceClaim>(), self.claiming(at.pod));
        let key = &write.key;
        let same = store.observed(key).filter(|claim| is_about(write, claim));
        let Some(claim) = same else { return give_up(step, key, error, at, handle) };
        match step {
            Step::Finalizer
                if claim.allocation.is_none() && held_for(key, store, at.pod).is_some() =>
            {
                if is_outdated(write, claim) {
                    wait_for_another(claim, handle);
                } else if claim.has_finalizer() {
                    return self.written(step, key, at, handle);
                } else {
                    writes::add_finalizer(claim, handle);
                }
            }
            // The write of another pod of the group, with which it shares the devices, was first.
            Step::Allocation
                if !written_version(write).is_empty() && held_for(key, store, at.pod).is_some() =>
            {
                wait_for_another_than(written_version(write), claim, handle);
            }
            Step::Reservation if pod.keeps(claim, objects) => {}
            Step::Reservation if is_outdated(write, claim) => wait_for_another(claim, handle),
            Step::Reservation => {
                let consumer = pod.consumer(&key.name, objects).map_err(Rejection::error)?;
                writes::reserve(claim, &consumer, handle);
            }
            Step::Unreservation => {
                if let Some(consumer) = self.reservation_to_end(claim, at) {
                    writes::unreserve(claim, &consumer, handle);
                }
            }
            Step::Release => writes::remove_finalizer(claim, handle),
            _ => return give_up(step, key, error, at, handle),
        }
        Ok(())
    }

    /// As in extendeddynamicresources.go, patchPodExtendedResourceClaimStatus.
    fn name_extended_claim(
        &self,
        claim: &Str,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        let devices = self.gates.devices(&at.view.stores.objects);
        let allocatable = at.row.map(|row| &at.view.nodes.node(row).allocatable);
        let mappings = allocatable.map(|allocatable| {
            extended::mappings(&at.pod.container_devices, &devices.extended, allocatable)
        });
        match mappings.filter(|mappings| !mappings.is_empty()) {
            Some(mappings) => {
                writes::name_extended_claim(at.pod, claim, &describe::mappings(&mappings), handle);
                Ok(())
            }
            None => Err(Rejection::error(format!(
                "nil or empty request mappings, no update of pod {} ExtendedResourceClaimStatus",
                at.pod.key
            ))),
        }
    }
}

/// Whether a claim was made for the extended resources of the pod that is being bound.
fn is_extended(claim: &ObjectKey, at: &Placement<'_>) -> bool {
    let store = at.view.stores.of::<ResourceClaim>();
    store.is_held(claim) && store.get(claim).is_some_and(|held| held.is_extended)
}

/// No write of a pod that was given up is on its way any more.
fn is_not_late(claim: &ResourceClaim, at: &Placement<'_>, handle: &mut Handle<'_>) {
    let is_held = at.view.stores.of::<ResourceClaim>().is_held(&claim.key);
    let mut left = ResourceClaim::clone(claim);
    left.late_writers.retain(|uid| *uid != at.pod.uid);
    match (is_held, left.late_writers.is_empty()) {
        (true, _) => handle.assume.hold(left),
        (false, false) => handle.assume.is(left),
        (false, true) => handle.assume.as_seen::<ResourceClaim>(&left.key),
    }
}

/// A write has failed for good.
#[cold]
fn give_up(
    step: Step,
    key: &ObjectKey,
    error: &WriteError,
    at: &Placement<'_>,
    handle: &mut Handle<'_>,
) -> Result<(), Rejection> {
    let store = at.view.stores.of::<ResourceClaim>();
    match step {
        // It is what was wanted.
        Step::Unreservation | Step::Release | Step::Delete
            if error.cause == WriteCause::NotFound =>
        {
            return Ok(());
        }
        // The pod was given up before: what was assumed since then does not come true, at least not by this write.
        Step::Finalizer | Step::Allocation if let Some(claim) = late_for(key, store, at.pod) => {
            is_not_late(claim, at, handle);
            return Ok(());
        }
        Step::Finalizer | Step::Allocation => {
            let mut progress = Progress::of(handle);
            progress.allocating.remove(key);
            handle.shared.write(progress);
        }
        _ => {}
    }
    Err(Rejection::error(format!("{}: {}", step.says(), error.message)))
}

/// What a patch of a claim names.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenClaim<'a> {
    #[serde(borrow)]
    metadata: WrittenMetadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenMetadata<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

/// The preconditions of a patch; `None` for other writes.
fn preconditions(write: &ObjectWrite) -> Option<WrittenMetadata<'_>> {
    let WriteVerb::Patch { merge, .. } = &write.verb else { return None };
    Some(merge.read::<WrittenClaim<'_>>()?.metadata)
}

/// Whether a patch is about this claim, and not about another one of the same name.
fn is_about(write: &ObjectWrite, claim: &ResourceClaim) -> bool {
    preconditions(write).is_none_or(|of| of.uid.is_empty() || of.uid == *claim.uid)
}

/// Whether nothing newer is observed than the version that a write names.
fn is_outdated(write: &ObjectWrite, claim: &ResourceClaim) -> bool {
    preconditions(write).is_some_and(|of| {
        !of.resource_version.is_empty() && of.resource_version == *claim.resource_version
    })
}

/// Waits until another version of the claim is observed.
fn wait_for_another(claim: &ResourceClaim, handle: &mut Handle<'_>) {
    wait_for_another_than(claim.resource_version.clone(), claim, handle);
}

/// Waits until another version of the claim than this one is observed.
fn wait_for_another_than(version: Str, claim: &ResourceClaim, handle: &mut Handle<'_>) {
    let mut progress = Progress::of(handle);
    progress.conflicts.insert(claim.key.clone(), version);
    handle.shared.write(progress);
}

/// The version that a write names; empty if it names none.
fn written_version(write: &ObjectWrite) -> Str {
    Str::from(preconditions(write).unwrap_or_default().resource_version)
}
