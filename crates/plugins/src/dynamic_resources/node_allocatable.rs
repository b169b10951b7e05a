//! Devices that stand for CPU, memory and the like of their node. As in nodeallocatabledynamicresources.go; only with
//! the feature gate `DRANodeAllocatableResources`.

use std::collections::BTreeMap;

use plimsoll_api::devices::{
    Allocation, ClaimSource, ContainerDevices, Device, DeviceResult, NodeAllocatableClaimStatus,
};
use plimsoll_api::requests::{Demand, PodResourcesInput, RequestGates};
use plimsoll_api::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, amount_in};
use plimsoll_api::{Quantity, ResourceSlice};
use plimsoll_framework::prelude::*;

/// What is read of a pod to add up what it requests.
#[derive(Clone, Debug)]
pub(super) struct RequestingPod {
    /// What it requests without devices.
    pub(super) fit: Resources,
    pub(super) input: Option<Box<PodResourcesInput>>,
    pub(super) gates: RequestGates,
    pub(super) claims: Vec<PodResourceClaim>,
    pub(super) statuses: Option<PodDevices>,
    pub(super) containers: Vec<ContainerDevices>,
}

/// The room on a node.
#[derive(Clone, Copy)]
pub(super) struct NodeRoom<'a> {
    pub(super) allocatable: &'a Resources,
    pub(super) requested: &'a Resources,
}

/// Why a claim that has devices cannot be used on a node, if other pods there use the resources that these stand for.
pub(super) fn check_sharing(
    claim: &ResourceClaim,
    uid: &Str,
    pods: &PodSet,
) -> Result<(), Rejection> {
    let is_user = |pod: &&PodInfo| {
        let statuses = pod.devices.as_ref().map_or(&[][..], |said| &said.node_allocatable);
        pod.key.namespace == claim.key.namespace
            && statuses.iter().any(|status| status.claim == claim.key.name)
    };
    let others: Vec<&PodInfo> = pods.iter().filter(is_user).collect();
    let name = &claim.key.name;
    match others.as_slice() {
        [] => Ok(()),
        [one] if one.uid == *uid => Ok(()),
        [_] => Err(Rejection::unresolvable(format!(
            "node allocatable resource claim {name} is already used by another pod"
        ))),
        _ => Err(Rejection::unresolvable(format!(
            "node allocatable resource claim {name} shared by multiple pods"
        ))),
    }
}

/// What the allocations of a pod use of the node's own resources, by the name of the claim. Fails if the node lacks them.
pub(super) fn uses_of<'a>(
    pod: &RequestingPod,
    allocations: impl Iterator<Item = (&'a ResourceClaim, &'a Allocation)>,
    slices: &Store<ResourceSlice>,
    room: NodeRoom<'_>,
) -> Result<Vec<NodeAllocatableClaimStatus>, Rejection> {
    let mut uses = Vec::new();
    for (claim, allocation) in allocations {
        let Some(resources) = resources_of(claim, allocation, slices)? else { continue };
        let names = pod.names_of(claim);
        let is_used = |container: &&ContainerDevices| {
            container.claims.iter().any(|used| names.contains(&used.name))
        };
        let containers = pod.containers.iter().filter(is_used);
        uses.push(NodeAllocatableClaimStatus {
            claim: claim.key.name.clone(),
            containers: containers.map(|one| one.container.clone()).collect(),
            resources: resources.into_iter().collect(),
        });
    }
    uses.sort_by(|one, other| one.claim.cmp(&other.claim));
    if uses.is_empty() {
        return Ok(uses);
    }
    if let Some(unused) = uses.iter().find(|one| one.containers.is_empty()) {
        return Err(Rejection::unresolvable(format!(
            "claim {}: node-allocatable resource claim not referenced by any container within the pod",
            unused.claim
        )));
    }
    let total = pod.total(&uses)?;
    fits(&total, room)?;
    Ok(uses)
}

/// The amounts that an allocation stands for; `None` if none of its devices does. Devices are found by pool and name
/// alone, as upstream.
fn resources_of(
    claim: &ResourceClaim,
    allocation: &Allocation,
    slices: &Store<ResourceSlice>,
) -> Result<Option<BTreeMap<Str, Quantity>>, Rejection> {
    let mut sums: Option<BTreeMap<Str, Quantity>> = None;
    for result in &allocation.devices {
        let Some(device) = find(result, slices) else { continue };
        for (resource, mapping) in &device.node_allocatable {
            let key = mapping.capacity_key.as_ref().filter(|key| !key.is_empty());
            let amount = match key {
                None => mapping.multiplier.clone().unwrap_or_default(),
                Some(key) if result.consumed_capacity.is_empty() => {
                    return Err(Rejection::error(format!(
                        "claim {}, device {}: ConsumedCapacity is nil, but Capacity key '{key}' is set \
                         in NodeAllocatableResourceMappings for resource {resource}",
                        claim.key, result.device
                    )));
                }
                Some(key) => {
                    let consumed = result.consumed_capacity.iter().find(|(name, _)| name == key);
                    let Some((_, consumed)) = consumed else { continue };
                    match &mapping.multiplier {
                        Some(multiplier) => product(consumed, multiplier),
                        None => consumed.clone(),
                    }
                }
            };
            let sums = sums.get_or_insert_with(BTreeMap::new);
            sums.entry(resource.clone()).or_default().add(&amount);
        }
    }
    Ok(sums)
}

fn find<'a>(result: &DeviceResult, slices: &'a Store<ResourceSlice>) -> Option<&'a Device> {
    let in_pool = slices.iter().filter(|slice| slice.pool == result.pool);
    in_pool.flat_map(|slice| &slice.devices).find(|device| device.name == result.device)
}

/// A product to the thousandth, which is all that requests have.
fn product(amount: &Quantity, multiplier: &Quantity) -> Quantity {
    let milli = i128::from(amount.milli_value()) * i128::from(multiplier.milli_value()) / 1000;
    Quantity::from_milli(i64::try_from(milli).unwrap_or(i64::MAX), amount.format())
}

impl RequestingPod {
    /// What the pod requests together with its claims. What is requested for the pod as a whole must cover both.
    fn total(&self, uses: &[NodeAllocatableClaimStatus]) -> Result<Resources, Rejection> {
        let pod_level = self.input.as_ref().and_then(|input| input.pod_level.as_ref());
        let pod_level = pod_level.filter(|_| self.gates.pod_level_resources);
        let mut sum = match (&self.input, pod_level) {
            (Some(input), Some(_)) => {
                let gates = RequestGates { pod_level_resources: false, ..self.gates };
                Demand::of(input, gates).asks.fit
            }
            _ => self.fit.clone(),
        };
        for (resource, amount) in uses.iter().flat_map(|one| &one.resources) {
            let amount = amount_in(amount, resource);
            match resource.as_str() {
                CPU => sum.milli_cpu += amount,
                MEMORY => sum.memory += amount,
                EPHEMERAL_STORAGE => sum.ephemeral_storage += amount,
                _ => *sum.scalar.or_default(resource) += amount,
            }
        }
        for (resource, asked) in pod_level.iter().flat_map(|one| &one.requests) {
            let asked = amount_in(asked, resource);
            if asked < sum.get(resource) {
                return Err(Rejection::unresolvable(format!(
                    "pod level request for {resource} is insufficient to cover the aggregated container \
                     and node-allocatable DRA requests"
                )));
            }
            match resource.as_str() {
                CPU => sum.milli_cpu = self.fit.milli_cpu,
                MEMORY => sum.memory = self.fit.memory,
                _ => *sum.scalar.or_default(resource) = self.fit.get(resource),
            }
        }
        Ok(sum)
    }

    /// The names of a claim in the pod.
    fn names_of(&self, claim: &ResourceClaim) -> Vec<Str> {
        let made = self.statuses.as_ref().map_or(&[][..], |said| &said.claims);
        let is_it = |named: &&PodResourceClaim| match &named.source {
            ClaimSource::Claim(name) => *name == claim.key.name,
            ClaimSource::Template(_) => made.iter().any(|status| {
                status.name == named.name && status.claim.as_ref() == Some(&claim.key.name)
            }),
            ClaimSource::Unknown => false,
        };
        self.claims.iter().filter(is_it).map(|named| named.name.clone()).collect()
    }
}

/// As in nodeallocatabledynamicresources.go, nodeFitsResources: the only rejection that preemption may help.
fn fits(
    total: &Resources,
    NodeRoom { allocatable, requested }: NodeRoom<'_>,
) -> Result<(), Rejection> {
    let mut lacks = Rejection { code: Code::Unschedulable, reasons: SmallVec::new() };
    let own = [CPU, MEMORY, EPHEMERAL_STORAGE].map(Str::const_new);
    for name in own.iter().chain(total.scalar.keys()) {
        let (asked, all) = (total.get(name), allocatable.get(name));
        if 0 < asked && all.saturating_sub(requested.get(name)) < asked {
            lacks.reasons.push(Reason::Insufficient(name.clone()));
            if all < asked {
                lacks.code = Code::UnschedulableAndUnresolvable;
            }
        }
    }
    if lacks.reasons.is_empty() { Ok(()) } else { Err(lacks) }
}
