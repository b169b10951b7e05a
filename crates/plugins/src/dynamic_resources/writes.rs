//! What is written about claims.

use std::sync::Arc;

use plimsoll_api::devices::{Allocation, ClaimConsumer, NodeAllocatableClaimStatus};
use plimsoll_framework::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The annotation of a claim that was made for extended resources.
const EXTENDED_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// What a write is for. The write itself says it by its number, so that nothing is read again when it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Creates the claim for extended resources.
    Create,
    /// Adds the finalizer.
    Finalizer,
    /// Adds the devices, and reserves them for the pod.
    Allocation,
    /// Reserves a claim that has devices.
    Reservation,
    /// Ends the reservation.
    Unreservation,
    /// Removes the finalizer.
    Release,
    /// Deletes the claim for extended resources.
    Delete,
    /// Changes the status of the pod.
    PodStatus,
}

impl Step {
    const ALL: [Self; 8] = [
        Step::Create,
        Step::Finalizer,
        Step::Allocation,
        Step::Reservation,
        Step::Unreservation,
        Step::Release,
        Step::Delete,
        Step::PodStatus,
    ];

    /// What a write is for that this plugin has requested.
    pub(super) fn of(write: &ObjectWrite) -> Self {
        let known = Self::ALL.into_iter().find(|step| *step as u8 == write.purpose);
        known.expect("every write of this plugin has a purpose")
    }

    /// How the error of such a write begins.
    pub(super) fn says(self) -> &'static str {
        match self {
            Step::Create => "create claim for extended resources",
            Step::Finalizer => "add finalizer to claim",
            Step::Allocation => "add allocation and reservation to claim",
            Step::Reservation => "add reservation to claim",
            Step::Unreservation => "remove reservation from claim",
            Step::Release => "remove finalizer from claim",
            Step::PodStatus => "update pod ExtendedResourceClaimStatus",
            Step::Delete => "delete claim",
        }
    }
}

/// A merge patch of a claim. Fields are in the order of their names, as in a `Value`.
#[derive(Serialize)]
struct ClaimPatch<'a, S> {
    metadata: PatchedMetadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<S>,
}

/// The uid and the version are preconditions; a precondition that is not known is left out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchedMetadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    finalizers: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
}

impl<'a> PatchedMetadata<'a> {
    /// Makes the API server refuse the write if the object is another one, or has changed.
    fn of_version(claim: &'a ResourceClaim) -> Self {
        PatchedMetadata { resource_version: &claim.resource_version, ..Self::of_object(claim) }
    }

    /// Makes the API server refuse the write if the object is another one.
    fn of_object(claim: &'a ResourceClaim) -> Self {
        PatchedMetadata { finalizers: None, resource_version: "", uid: &claim.uid }
    }
}

/// Adds the finalizer, without which a claim with devices could be gone at once.
pub(super) fn add_finalizer(claim: &Arc<ResourceClaim>, handle: &mut Handle<'_>) {
    let of = claim.clone();
    let merge = Json::later(move || {
        let all = of.finalizers.iter().map(Str::as_str).chain([ResourceClaim::FINALIZER]);
        finalizers(&of, all.collect())
    });
    let mut writes = handle.writes.of_purpose(Step::Finalizer as u8);
    writes.patch::<ResourceClaim>(claim.key.clone(), merge);
}

/// Removes the finalizer of a claim that is not needed any more.
pub(super) fn remove_finalizer(claim: &ResourceClaim, handle: &mut Handle<'_>) {
    let all = claim.finalizers.iter().map(Str::as_str);
    let others = all.filter(|name| *name != ResourceClaim::FINALIZER).collect();
    let merge = finalizers(claim, others);
    let mut writes = handle.writes.of_purpose(Step::Release as u8);
    writes.patch::<ResourceClaim>(claim.key.clone(), merge);
}

/// The patch that gives a claim these finalizers.
fn finalizers(claim: &ResourceClaim, finalizers: Vec<&str>) -> Json {
    let finalizers = Some(finalizers);
    let metadata = PatchedMetadata { finalizers, ..PatchedMetadata::of_version(claim) };
    Json::of(&ClaimPatch { metadata, status: None::<()> })
}

fn set_status(claim: &ResourceClaim, merge: Json, step: Step, handle: &mut Handle<'_>) {
    handle.writes.of_purpose(step as u8).patch_status::<ResourceClaim>(claim.key.clone(), merge);
}

/// The patch that gives a claim this status, unless it has changed.
fn status_of_version(claim: &ResourceClaim, status: impl Serialize) -> Json {
    Json::of(&ClaimPatch { metadata: PatchedMetadata::of_version(claim), status: Some(status) })
}

/// Allocates for a claim that has no devices those of `with_devices`, and reserves it for a pod or a group. An allocation
/// cannot be replaced, so the write needs no precondition but the object.
pub(super) fn allocate(
    claim: &Arc<ResourceClaim>,
    with_devices: &Arc<ResourceClaim>,
    consumer: ClaimConsumer,
    handle: &mut Handle<'_>,
) {
    set_allocation(claim, with_devices, (consumer, |of| PatchedMetadata::of_object(of)), handle);
}

/// The same for a claim that must not have changed.
pub(super) fn allocate_this(
    claim: &Arc<ResourceClaim>,
    with_devices: &Arc<ResourceClaim>,
    consumer: ClaimConsumer,
    handle: &mut Handle<'_>,
) {
    set_allocation(claim, with_devices, (consumer, |of| PatchedMetadata::of_version(of)), handle);
}

fn set_allocation(
    claim: &Arc<ResourceClaim>,
    with_devices: &Arc<ResourceClaim>,
    (consumer, metadata): (ClaimConsumer, fn(&ResourceClaim) -> PatchedMetadata<'_>),
    handle: &mut Handle<'_>,
) {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<A, C> {
        allocation: Option<A>,
        reserved_for: [C; 1],
    }
    let (of, with_devices) = (claim.clone(), with_devices.clone());
    let merge = Json::later(move || {
        let allocation = with_devices.allocation.as_ref().map(Allocation::wire);
        let status = Status { allocation, reserved_for: [consumer.wire()] };
        Json::of(&ClaimPatch { metadata: metadata(&of), status: Some(status) })
    });
    set_status(claim, merge, Step::Allocation, handle);
}

/// Reserves a claim with devices for one more pod, or for a group.
pub(super) fn reserve(claim: &ResourceClaim, consumer: &ClaimConsumer, handle: &mut Handle<'_>) {
    set_reserved(claim, claim.reserved_for.iter().chain([consumer]), Step::Reservation, handle);
}

/// Ends the reservation of a claim for the pod, or the group, with this uid.
pub(super) fn unreserve(claim: &ResourceClaim, uid: &Str, handle: &mut Handle<'_>) {
    let others = claim.reserved_for.iter().filter(|one| one.uid != *uid);
    set_reserved(claim, others, Step::Unreservation, handle);
}

fn set_reserved<'a>(
    claim: &ResourceClaim,
    consumers: impl Iterator<Item = &'a ClaimConsumer>,
    step: Step,
    handle: &mut Handle<'_>,
) {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<C> {
        reserved_for: Vec<C>,
    }
    let status = Status { reserved_for: consumers.map(ClaimConsumer::wire).collect() };
    set_status(claim, status_of_version(claim, status), step, handle);
}

/// Takes the devices from a claim.
pub(super) fn deallocate(claim: &ResourceClaim, handle: &mut Handle<'_>) {
    let status = json!({ "allocation": null, "reservedFor": null, "devices": null });
    set_status(claim, status_of_version(claim, status), Step::Unreservation, handle);
}

/// Deletes a claim that was made for extended resources. Its finalizer goes first.
pub(super) fn delete(claim: &ResourceClaim, handle: &mut Handle<'_>) {
    remove_finalizer(claim, handle);
    let mut writes = handle.writes.of_purpose(Step::Delete as u8);
    writes.delete::<ResourceClaim>(claim.key.clone(), claim.uid.clone());
}

/// Creates the claim for the extended resources of a pod.
pub(super) fn create(claim: &ResourceClaim, pod: &PodInfo, handle: &mut Handle<'_>) {
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": pod.key.name, "uid": pod.uid,
        "controller": true,
    });
    let manifest = json!({
        "metadata": {
            "annotations": { EXTENDED_CLAIM: "true" },
            "finalizers": [ResourceClaim::FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": claim.spec.to_json("resource.k8s.io/v1"),
    });
    let mut writes = handle.writes.of_purpose(Step::Create as u8);
    writes.create::<ResourceClaim>(claim.key.clone(), manifest);
}

/// Says in the status of a pod which resources of the node its claims use.
pub(super) fn name_node_allocatable(
    pod: &PodInfo,
    uses: &[NodeAllocatableClaimStatus],
    handle: &mut Handle<'_>,
) {
    let status = |one: &NodeAllocatableClaimStatus| {
        let amounts = one.resources.iter().map(|(name, amount)| (name.to_string(), amount));
        let resources: Map<String, Value> =
            amounts.map(|(name, amount)| (name, json!(amount.canonical()))).collect();
        json!({
            "resourceClaimName": one.claim, "containers": one.containers, "resources": resources,
        })
    };
    let statuses: Vec<Value> = uses.iter().map(status).collect();
    let merge = json!({
        "metadata": { "uid": pod.uid },
        "status": { "nodeAllocatableResourceClaimStatuses": statuses },
    });
    let mut writes = handle.writes.of_purpose(Step::PodStatus as u8);
    writes.patch_status::<Pod>(pod.key.clone(), merge);
}

/// Says in the status of a pod which claim was made for it, and for what.
pub(super) fn name_extended_claim(
    pod: &PodInfo,
    claim: &Str,
    mappings: &[Value],
    handle: &mut Handle<'_>,
) {
    let status = json!({ "resourceClaimName": claim, "requestMappings": mappings });
    let merge = json!({
        "metadata": { "uid": pod.uid },
        "status": { "extendedResourceClaimStatus": status },
    });
    let mut writes = handle.writes.of_purpose(Step::PodStatus as u8);
    writes.patch_status::<Pod>(pod.key.clone(), merge);
}
