//! What pods say about claims on devices, on the wire.

use serde::Deserialize;

use super::super::container::Containers;
use super::super::error::{Result, WireError};
use super::super::primitive::{List, Table, given};
use super::{amounts, limits};
use crate::devices::{
    ClaimSource, ContainerDevices, ContainerResourceClaim, ContainerRun, ExtendedClaimStatus,
    NodeAllocatableClaimStatus, PodClaimStatus, PodDevices, PodResourceClaim,
};
use crate::{Quantity, Str};

/// An item of `spec.resourceClaims`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WirePodClaim {
    name: Option<Str>,
    resource_claim_name: Option<Str>,
    resource_claim_template_name: Option<Str>,
}

/// An item of `resources.claims`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireContainerClaim {
    name: Option<Str>,
    request: Option<Str>,
}

/// An item of `status.resourceClaimStatuses`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WirePodClaimStatus {
    name: Option<Str>,
    resource_claim_name: Option<Str>,
}

/// `status.extendedResourceClaimStatus`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WireExtendedClaim {
    resource_claim_name: Option<Str>,
    request_mappings: List<WireRequestMapping>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireRequestMapping {
    #[serde(rename = "containerName")]
    container: Option<Str>,
    #[serde(rename = "resourceName")]
    resource: Option<Str>,
    #[serde(rename = "requestName")]
    request: Option<Str>,
}

/// An item of `status.nodeAllocatableResourceClaimStatuses`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WireNodeAllocatable {
    resource_claim_name: Option<Str>,
    containers: List<Str>,
    resources: Table<Quantity>,
}

/// The claims of a pod. As in validation.go of core, ValidatePodSpec. A claim from a source that is not known is kept: such
/// a pod waits.
pub(crate) fn pod_claims(claims: List<WirePodClaim>) -> Result<Vec<PodResourceClaim>> {
    let names = claims.0.iter().map(|one| one.name.as_deref().unwrap_or_default());
    limits::unique("resourceClaims", names)?;
    for (index, one) in claims.0.iter().enumerate() {
        if one.resource_claim_name.is_some() && one.resource_claim_template_name.is_some() {
            let field = format!("resourceClaims[{index}]");
            let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            return Err(WireError::new(&field, format!("Invalid value: null: {why}")));
        }
    }
    Ok(claims.into_iter().map(WirePodClaim::take).collect())
}

impl WirePodClaim {
    fn take(self) -> PodResourceClaim {
        let source = match (self.resource_claim_name, self.resource_claim_template_name) {
            (Some(name), _) => ClaimSource::Claim(name),
            (None, Some(name)) => ClaimSource::Template(name),
            (None, None) => ClaimSource::Unknown,
        };
        PodResourceClaim { name: self.name.unwrap_or_default(), source }
    }
}

/// The containers that use devices.
pub(crate) fn container_devices(containers: Containers<'_>) -> Vec<ContainerDevices> {
    let n_init = containers.init.len();
    let using = containers.all().enumerate().filter_map(|(index, container)| {
        let resources = container.resources.as_ref()?;
        let claims = resources.claims.0.iter().map(|claim| ContainerResourceClaim {
            name: claim.name.clone().unwrap_or_default(),
            request: claim.request.clone().unwrap_or_default(),
        });
        let claims: Vec<_> = claims.collect();
        let extended = resources.extended_requests();
        let uses = !claims.is_empty() || !extended.is_empty();
        uses.then(|| ContainerDevices {
            container: container.name.clone().unwrap_or_default(),
            index: u32::try_from(index).unwrap_or(u32::MAX),
            runs: match container.restarts_always() {
                _ if n_init <= index => ContainerRun::Main,
                true => ContainerRun::Sidecar,
                false => ContainerRun::Init,
            },
            claims,
            extended,
        })
    });
    using.collect()
}

/// What the status says about claims, if it says anything.
pub(crate) fn pod_devices(
    claims: List<WirePodClaimStatus>,
    extended: Option<WireExtendedClaim>,
    node_allocatable: List<WireNodeAllocatable>,
) -> Option<Box<PodDevices>> {
    let claims = claims.into_iter().map(|one| PodClaimStatus {
        name: one.name.unwrap_or_default(),
        claim: given(one.resource_claim_name),
    });
    let node_allocatable = node_allocatable.into_iter().map(|one| NodeAllocatableClaimStatus {
        claim: one.resource_claim_name.unwrap_or_default(),
        containers: one.containers.0,
        resources: amounts(one.resources),
    });
    let devices = PodDevices {
        claims: claims.collect(),
        extended: extended.map(WireExtendedClaim::take),
        node_allocatable: node_allocatable.collect(),
    };
    (!devices.is_empty()).then(|| Box::new(devices))
}

impl WireExtendedClaim {
    fn take(self) -> ExtendedClaimStatus {
        let requests = self.request_mappings.into_iter().map(|one| {
            let text = Option::unwrap_or_default;
            (text(one.container), text(one.resource), text(one.request))
        });
        ExtendedClaimStatus {
            claim: self.resource_claim_name.unwrap_or_default(),
            requests: requests.collect(),
        }
    }
}
