//! The claims of a pod.

use std::sync::Arc;

use plimsoll_api::ObjectStores;
use plimsoll_api::devices::{ClaimSource, ContainerDevices, RequestKind};
use plimsoll_api::requests::PodResourcesInput;
use plimsoll_framework::prelude::*;

/// A pod, as far as its claims are concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimingPod<'a> {
    pub(super) key: &'a PodKey,
    pub(super) uid: &'a Str,
    pub(super) claims: &'a [PodResourceClaim],
    pub(super) statuses: Option<&'a PodDevices>,
}

/// A pod with what devices can stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholePod<'a> {
    pub(super) claiming: ClaimingPod<'a>,
    pub(super) containers: &'a [ContainerDevices],
    /// What it requests.
    pub(super) fit: &'a Resources,
    pub(super) input: Option<&'a PodResourcesInput>,
}

impl<'a> From<&'a PodInfo> for WholePod<'a> {
    fn from(pod: &'a PodInfo) -> Self {
        WholePod {
            claiming: ClaimingPod::from(pod),
            containers: &pod.container_devices,
            fit: &pod.asks.fit,
            input: pod.resources.as_deref(),
        }
    }
}

impl<'a> From<&'a PodInfo> for ClaimingPod<'a> {
    fn from(pod: &'a PodInfo) -> Self {
        ClaimingPod {
            key: &pod.key,
            uid: &pod.uid,
            claims: &pod.resource_claims,
            statuses: pod.devices.as_deref(),
        }
    }
}

/// A claim of a pod.
#[derive(Clone, Debug)]
pub(super) struct FoundClaim {
    /// The claim, without what another pod is about to write.
    pub(super) claim: Arc<ResourceClaim>,
    /// Whether another pod, or an earlier attempt, has devices for it that are not observed yet.
    pub(super) is_in_flight: bool,
}

impl ClaimingPod<'_> {
    /// The claims that are named, in order; the error says which one cannot be used. As in dynamicresources.go,
    /// foreachPodResourceClaim.
    pub(super) fn find(self, objects: &ObjectStores) -> Result<Vec<FoundClaim>, String> {
        let store = objects.of::<ResourceClaim>();
        let mut found = Vec::with_capacity(self.claims.len());
        for named in self.claims {
            let Some((name, is_made)) = self.name_of(named)? else { continue };
            let key = (self.key.namespace.as_str(), name.as_str());
            let is_in_flight = store.is_assumed(key);
            let claim = if is_in_flight { store.observed(key) } else { store.get(key) };
            let Some(claim) = claim else {
                return Err(format!("could not find ResourceClaim \"{}/{}\"", key.0, key.1));
            };
            if claim.is_terminating() {
                return Err(format!("resourceclaim {name:?} is being deleted"));
            }
            if is_made && !is_made_for(claim, self.uid) {
                return Err(format!(
                    "ResourceClaim {} was not created for Pod {} (Pod is not owner)",
                    claim.key, self.key
                ));
            }
            found.push(FoundClaim { claim: claim.clone(), is_in_flight });
        }
        Ok(found)
    }

    /// The name of a ResourceClaim, and whether it was made for the pod. `None` if the pod needs none. As in
    /// resourceclaim.go, Name.
    fn name_of<'c>(
        &'c self,
        named: &'c PodResourceClaim,
    ) -> Result<Option<(&'c Str, bool)>, String> {
        match &named.source {
            ClaimSource::Claim(name) => Ok(Some((name, false))),
            ClaimSource::Template(_) => {
                let statuses = self.statuses.map_or(&[][..], |said| &said.claims);
                match statuses.iter().find(|status| status.name == named.name) {
                    None => Err(format!("pod \"{}\": ResourceClaim not created yet", self.key)),
                    Some(status) => Ok(status.claim.as_ref().map(|name| (name, true))),
                }
            }
            ClaimSource::Unknown => Err(format!(
                "pod \"{}\", spec.resourceClaim {:?}: none of the supported fields are set",
                self.key, named.name
            )),
        }
    }
}

/// Whether a claim was made for the pod with this uid. As in resourceclaim.go, IsForPod.
pub(super) fn is_made_for(claim: &ResourceClaim, uid: &Str) -> bool {
    claim.controller.as_ref().is_some_and(|owner| owner.uid == *uid)
}

/// Why a claim cannot be allocated on any node. As in dynamicresources.go, PreFilter.
pub(super) fn check_classes(
    claim: &ResourceClaim,
    classes: &Store<DeviceClass>,
    has_alternatives: bool,
) -> Result<(), Rejection> {
    let check = |name: &str, class: &str| {
        if class.is_empty() {
            return Err(Rejection::error(format!("request {name}: unsupported request type")));
        }
        if classes.get(class).is_none() {
            let why = format!("request {name}: device class {class} does not exist");
            return Err(Rejection::unresolvable(why));
        }
        Ok(())
    };
    for request in &claim.spec.requests {
        match &request.kind {
            RequestKind::Exactly { ask, .. } => check(&request.name, &ask.class)?,
            RequestKind::FirstAvailable(alternatives) if has_alternatives => {
                for one in alternatives {
                    check(&format!("{}/{}", request.name, one.name), &one.ask.class)?;
                }
            }
            RequestKind::FirstAvailable(_) => {
                return Err(Rejection::unresolvable(format!(
                    "resource claim {}, request {}: has subrequests, but the DRAPrioritizedList \
                     feature is disabled",
                    claim.key, request.name
                )));
            }
            RequestKind::Unknown => {
                return Err(Rejection::unresolvable(format!(
                    "resource claim {}, request {}: unknown request type",
                    claim.key, request.name
                )));
            }
        }
    }
    Ok(())
}
