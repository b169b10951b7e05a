//! What is written about claims.

use plimsoll_api::devices::{Allocation, ClaimConsumer, NodeAllocatableClaimStatus};
use plimsoll_framework::prelude::*;
use serde_json::{Map, Value, json};

/// The annotation of a claim that was made for extended resources.
const EXTENDED_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// Makes the API server refuse the write if the object is another one, or has changed.
fn precondition(claim: &ResourceClaim) -> Map<String, Value> {
    let mut metadata = same_object(claim);
    if !claim.resource_version.is_empty() {
        metadata.insert("resourceVersion".to_owned(), json!(claim.resource_version));
    }
    metadata
}

/// Makes the API server refuse the write if the object is another one.
fn same_object(claim: &ResourceClaim) -> Map<String, Value> {
    let mut metadata = Map::new();
    if !claim.uid.is_empty() {
        metadata.insert("uid".to_owned(), json!(claim.uid));
    }
    metadata
}

/// Adds the finalizer, without which a claim with devices could be gone at once.
pub(super) fn add_finalizer(claim: &ResourceClaim, handle: &mut Handle<'_>) {
    let mut metadata = precondition(claim);
    let own = Str::const_new(ResourceClaim::FINALIZER);
    let finalizers: Vec<&Str> = claim.finalizers.iter().chain([&own]).collect();
    metadata.insert("finalizers".to_owned(), json!(finalizers));
    let merge = json!({ "metadata": metadata });
    handle.writes.patch::<ResourceClaim>(claim.key.clone(), merge);
}

/// Allocates devices for a claim that has none, and reserves it for a pod or a group. An allocation cannot be replaced, so the
/// write needs no precondition but the object.
pub(super) fn allocate(
    claim: &ResourceClaim,
    allocation: &Allocation,
    consumer: &ClaimConsumer,
    handle: &mut Handle<'_>,
) {
    set_allocation(claim, allocation, (consumer, same_object(claim)), handle);
}

/// The same for a claim that must not have changed.
pub(super) fn allocate_this(
    claim: &ResourceClaim,
    allocation: &Allocation,
    consumer: &ClaimConsumer,
    handle: &mut Handle<'_>,
) {
    set_allocation(claim, allocation, (consumer, precondition(claim)), handle);
}

fn set_allocation(
    claim: &ResourceClaim,
    allocation: &Allocation,
    (consumer, metadata): (&ClaimConsumer, Map<String, Value>),
    handle: &mut Handle<'_>,
) {
    let merge = json!({
        "metadata": metadata,
        "status": { "allocation": allocation.to_json(), "reservedFor": [consumer.to_json()] },
    });
    handle.writes.patch_status::<ResourceClaim>(claim.key.clone(), merge);
}

/// Reserves a claim with devices for one more pod, or for a group.
pub(super) fn reserve(claim: &ResourceClaim, consumer: &ClaimConsumer, handle: &mut Handle<'_>) {
    let all = claim.reserved_for.iter().chain([consumer]);
    let all: Vec<Value> = all.map(ClaimConsumer::to_json).collect();
    set_reserved(claim, &all, handle);
}

/// Ends the reservation of a claim for the pod, or the group, with this uid.
pub(super) fn unreserve(claim: &ResourceClaim, uid: &Str, handle: &mut Handle<'_>) {
    let others = claim.reserved_for.iter().filter(|one| one.uid != *uid);
    let others: Vec<Value> = others.map(ClaimConsumer::to_json).collect();
    set_reserved(claim, &others, handle);
}

fn set_reserved(claim: &ResourceClaim, consumers: &[Value], handle: &mut Handle<'_>) {
    let merge = json!({
        "metadata": precondition(claim),
        "status": { "reservedFor": consumers },
    });
    handle.writes.patch_status::<ResourceClaim>(claim.key.clone(), merge);
}

/// Takes the devices from a claim.
pub(super) fn deallocate(claim: &ResourceClaim, handle: &mut Handle<'_>) {
    let merge = json!({
        "metadata": precondition(claim),
        "status": { "allocation": null, "reservedFor": null, "devices": null },
    });
    handle.writes.patch_status::<ResourceClaim>(claim.key.clone(), merge);
}

/// Deletes a claim that was made for extended resources. Its finalizer goes first.
pub(super) fn delete(claim: &ResourceClaim, handle: &mut Handle<'_>) {
    remove_finalizer(claim, handle);
    handle.writes.delete::<ResourceClaim>(claim.key.clone(), claim.uid.clone());
}

/// Removes the finalizer of a claim that is not needed any more.
pub(super) fn remove_finalizer(claim: &ResourceClaim, handle: &mut Handle<'_>) {
    let others = claim.finalizers.iter().filter(|name| *name != ResourceClaim::FINALIZER);
    let mut metadata = precondition(claim);
    metadata.insert("finalizers".to_owned(), others.map(|name| json!(name)).collect());
    let merge = json!({ "metadata": metadata });
    handle.writes.patch::<ResourceClaim>(claim.key.clone(), merge);
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
    handle.writes.create::<ResourceClaim>(claim.key.clone(), manifest);
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
    handle.writes.patch_status::<Pod>(pod.key.clone(), merge);
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
    handle.writes.patch_status::<Pod>(pod.key.clone(), merge);
}
