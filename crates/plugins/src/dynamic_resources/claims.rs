//! The claims of a pod.

use std::sync::Arc;

use plimsoll_api::devices::{
    Allocation, ClaimConsumer, ClaimSource, ContainerDevices, RequestKind,
};
use plimsoll_api::requests::PodResourcesInput;
use plimsoll_api::{ObjectStores, PodGroup};
use plimsoll_framework::prelude::*;

use super::DynamicResources;

/// A pod, as far as its claims are concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimingPod<'a> {
    pub(super) key: &'a PodKey,
    pub(super) uid: &'a Str,
    pub(super) claims: &'a [PodResourceClaim],
    pub(super) statuses: Option<&'a PodDevices>,
    /// The name of its group, if groups can have claims that their pods share.
    pub(super) group: Option<&'a Str>,
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

impl DynamicResources {
    /// What it reads of a pod.
    pub(super) fn whole<'a>(&self, pod: &'a PodInfo) -> WholePod<'a> {
        WholePod {
            claiming: self.claiming(pod),
            containers: &pod.container_devices,
            fit: &pod.asks.fit,
            input: pod.resources.as_deref(),
        }
    }

    /// What it reads of a pod about claims.
    pub(super) fn claiming<'a>(&self, pod: &'a PodInfo) -> ClaimingPod<'a> {
        ClaimingPod {
            key: &pod.key,
            uid: &pod.uid,
            claims: &pod.resource_claims,
            statuses: pod.devices.as_deref(),
            group: self.group_with_claims(pod.scheduling_group.as_ref()),
        }
    }

    /// The name of the group of a pod, if groups can have claims that their pods share.
    pub(super) fn group_with_claims<'a>(&self, group: Option<&'a Str>) -> Option<&'a Str> {
        group.filter(|_| self.gates.group_claims)
    }
}

/// A claim of a pod.
#[derive(Clone, Debug)]
pub(super) struct FoundClaim {
    /// The claim, without what another pod is about to write.
    pub(super) claim: Arc<ResourceClaim>,
    /// Whether another pod, or an earlier attempt, has devices for it that are not observed yet.
    pub(super) is_in_flight: bool,
    /// The claim with these devices, if the other pod is of the same group and was placed in the same cycle: then both use
    /// them.
    pub(super) shared: Option<Arc<ResourceClaim>>,
}

impl FoundClaim {
    /// The devices that it has, or gets for another pod of the group.
    pub(super) fn allocation(&self) -> Option<&Allocation> {
        let shared = self.shared.as_deref();
        self.claim.allocation.as_ref().or_else(|| shared?.allocation.as_ref())
    }
}

impl<'a> ClaimingPod<'a> {
    /// The claims that are named, in order; the error says which one cannot be used. As in dynamicresources.go,
    /// foreachPodResourceClaim.
    pub(super) fn find(self, objects: &ObjectStores) -> Result<Vec<FoundClaim>, String> {
        let store = objects.of::<ResourceClaim>();
        let mut found = Vec::with_capacity(self.claims.len());
        for named in self.claims {
            let Some((name, is_made)) = self.name_of(named)? else { continue };
            let key = (self.key.namespace.as_str(), name.as_str());
            let known = store.entry(key);
            let Some((entry, claim)) = known.and_then(|entry| Some((entry, entry.observed()?)))
            else {
                return Err(format!("could not find ResourceClaim \"{}/{}\"", key.0, key.1));
            };
            if claim.is_terminating() {
                return Err(format!("resourceclaim {name:?} is being deleted"));
            }
            if is_made {
                self.check_owner(claim)?;
            }
            // As in dynamicresources.go, PreFilter: what a pod of the group has reserved in this cycle is known to those
            // after it, and to nobody else.
            let held = entry.assumed().filter(|_| objects.is_in_cycle(entry.held_in()));
            let shared = held.filter(|held| claim.allocation.is_none() && held.uid == claim.uid);
            let is_in_flight = entry.assumed().is_some();
            found.push(FoundClaim { claim: claim.clone(), is_in_flight, shared: shared.cloned() });
        }
        Ok(found)
    }

    /// Whether a claim was made for the pod, or for its group. As in resourceclaim.go, IsForPod, which fails for a pod
    /// without a group if groups can have claims.
    fn check_owner(self, claim: &ResourceClaim) -> Result<(), String> {
        let (pod, claim_key) = (self.key, &claim.key);
        match self.group {
            _ if is_made_for(claim, self.uid) => Ok(()),
            Some(group) if claim.is_made_for_group(group) => Ok(()),
            Some(group) => Err(format!(
                "ResourceClaim {claim_key} was not created for Pod {pod} (neither Pod nor PodGroup {group} is the owner)"
            )),
            None => Err(format!(
                "ResourceClaim {claim_key} was not created for Pod {pod} (Pod is not owner)"
            )),
        }
    }

    /// The name of a ResourceClaim, and whether it was made for the pod or its group. `None` if the pod needs none. As in
    /// resourceclaim.go, Name: the status of a pod names the claims of its group, too.
    fn name_of<'c>(&'c self, named: &'c PodResourceClaim) -> Result<Option<(&'c Str, bool)>, String>
    where
        'a: 'c,
    {
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

    /// The object of its group. The error says that it is missing.
    pub(super) fn group_object(
        self,
        objects: &ObjectStores,
    ) -> Result<Option<&Arc<PodGroup>>, String> {
        let Some(group) = self.group else { return Ok(None) };
        let object = objects.of::<PodGroup>().get((self.key.namespace.as_str(), group.as_str()));
        object.map(Some).ok_or_else(|| format!("podgroup.scheduling.k8s.io {group:?} not found"))
    }

    /// Who is to be in `status.reservedFor` of the claim of this name so that the pod can use it: the pod, or the group
    /// whose claim it is. As in resourceclaim.go, BindTo. The error says that its group is gone.
    pub(super) fn consumer(
        self,
        claim: &Str,
        objects: &ObjectStores,
    ) -> Result<ClaimConsumer, String> {
        let group = self.group_object(objects)?;
        let is_it = |named: &&PodResourceClaim| matches!(self.name_of(named), Ok(Some((name, _))) if name == claim);
        let named = self.claims.iter().find(is_it);
        match group.filter(|group| named.is_some_and(|named| group.shares(named))) {
            Some(group) => Ok(ClaimConsumer::group(group)),
            None => Ok(ClaimConsumer::pod(self.key, self.uid)),
        }
    }

    /// Whether it can use a claim. As in resourceclaim.go, IsReservedForPod: the name of its group is enough.
    pub(super) fn may_use(self, claim: &ResourceClaim) -> bool {
        self.is_reserved(claim)
            || self.group.is_some_and(|group| claim.is_reserved_for_group(group))
    }

    /// Whether it can use a claim, and still can tomorrow. A reservation for an earlier group of the same name ends soon, and
    /// the devices go with it, even if a pod has been bound that relies on them.
    pub(super) fn keeps(self, claim: &ResourceClaim, objects: &ObjectStores) -> bool {
        self.is_reserved(claim)
            || self.group_object(objects).ok().flatten().is_some_and(|group| {
                let is_it = |one: &ClaimConsumer| {
                    one.name == group.key.name && (group.uid.is_empty() || one.uid == group.uid)
                };
                claim.reserved_for.iter().any(|one| one.is_group() && is_it(one))
            })
    }

    fn is_reserved(self, claim: &ResourceClaim) -> bool {
        claim.reserved_for.iter().any(|one| one.uid == *self.uid)
    }
}

/// Whether a claim was made for the pod with this uid. As in resourceclaim.go, IsForPod, without groups.
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
