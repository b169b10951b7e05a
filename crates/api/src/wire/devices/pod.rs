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

/// The most claims of a group. As in types.go of scheduling, MaxPodGroupResourceClaims.
const MOST_OF_GROUP: usize = 4;

/// The claims that the pods of a group share. As in the declarative validation of the API group.
pub(crate) fn group_claims(claims: List<WirePodClaim>) -> Result<Vec<PodResourceClaim>> {
    const FIELD: &str = "resourceClaims";
    let claims = claims.0;
    if MOST_OF_GROUP < claims.len() {
        let n = claims.len();
        let why = format!("Too many: {n}: must have at most {MOST_OF_GROUP} items");
        return Err(WireError::new(FIELD, why));
    }
    limits::unique(FIELD, claims.iter().map(|one| one.name.as_deref().unwrap_or_default()))?;
    for (index, one) in claims.iter().enumerate() {
        let field = format!("{FIELD}[{index}]");
        if one.name.as_deref().is_none_or(str::is_empty) {
            let why = "pods claim it by this name";
            return Err(WireError::required(&format!("{field}.name"), why));
        }
        match (&one.resource_claim_name, &one.resource_claim_template_name) {
            (Some(_), None) | (None, Some(_)) => {}
            (None, None) => {
                let why = format!("must specify one of: {SOURCES}");
                return Err(WireError::required(&field, why));
            }
            (Some(_), Some(_)) => {
                let why = format!("specify only one of: {SOURCES}");
                return Err(WireError::forbidden(&field, why));
            }
        }
    }
    Ok(claims.into_iter().map(WirePodClaim::take).collect())
}

/// What a claim of a group comes from.
const SOURCES: &str = "`resourceClaimName`, `resourceClaimTemplateName`";

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
    let claims = claims.into_iter().map(WirePodClaimStatus::take);
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

impl WirePodClaimStatus {
    /// As it is kept.
    pub(crate) fn take(self) -> PodClaimStatus {
        PodClaimStatus {
            name: self.name.unwrap_or_default(),
            claim: given(self.resource_claim_name),
        }
    }
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
