//! What pods say about claims on devices.

use serde::{Deserialize, Serialize};

use crate::{Quantity, Str};

/// A claim of a pod (`spec.resourceClaims`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodResourceClaim {
    /// Its name in the pod.
    pub name: Str,
    /// The ResourceClaim, or how it is made.
    pub source: ClaimSource,
}

/// The ResourceClaim of a pod, or how it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClaimSource {
    /// Nothing that is known is given.
    #[default]
    Unknown,
    /// The ResourceClaim of this name.
    Claim(Str),
    /// One that a controller makes from the ResourceClaimTemplate of this name.
    Template(Str),
}

/// A container that uses devices: by claims (`resources.claims`), or by requests for extended resources, for which
/// devices can stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContainerDevices {
    /// The name of the container.
    pub container: Str,
    /// Its place among the init containers and then the containers of the pod, from 0.
    pub index: u32,
    /// When it runs.
    pub runs: ContainerRun,
    /// The claims that it uses.
    pub claims: Vec<ContainerResourceClaim>,
    /// Its requests for extended resources that are not zero, by name.
    pub extended: Vec<ExtendedRequest>,
}

/// When a container runs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum ContainerRun {
    /// An init container, which ends before the containers begin.
    Init,
    /// An init container that keeps running, a sidecar.
    Sidecar,
    /// A container.
    #[default]
    Main,
}

/// A request of a container for an extended resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExtendedRequest {
    /// The resource.
    pub resource: Str,
    /// How much of it.
    pub amount: i64,
    /// The place of the resource among all requests of the container, sorted by name, from 0.
    pub index: u32,
}

/// A claim that a container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContainerResourceClaim {
    /// Its name in the pod.
    pub name: Str,
    /// The request that the container uses; empty for all.
    pub request: Str,
}

/// What the status of a pod says about its claims. Most pods have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodDevices {
    /// The claims that were made from templates (`resourceClaimStatuses`).
    pub claims: Vec<PodClaimStatus>,
    /// The claim that was made for its extended resources (`extendedResourceClaimStatus`).
    pub extended: Option<ExtendedClaimStatus>,
    /// The resources of the node that its claims use (`nodeAllocatableResourceClaimStatuses`).
    pub node_allocatable: Vec<NodeAllocatableClaimStatus>,
}

impl PodDevices {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.extended.is_none() && self.node_allocatable.is_empty()
    }
}

/// The claim that was made from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodClaimStatus {
    /// Its name in the pod.
    pub name: Str,
    /// The name of the ResourceClaim; `None` if the pod needs none.
    pub claim: Option<Str>,
}

/// The claim that was made for extended resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExtendedClaimStatus {
    /// The name of the ResourceClaim.
    pub claim: Str,
    /// The request of the claim for each resource of a container: container, resource and request.
    pub requests: Vec<(Str, Str, Str)>,
}

/// The resources of the node that a claim uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAllocatableClaimStatus {
    /// The name of the ResourceClaim.
    pub claim: Str,
    /// The containers that use it.
    pub containers: Vec<Str>,
    /// The amounts, sorted by resource.
    pub resources: Vec<(Str, Quantity)>,
}
