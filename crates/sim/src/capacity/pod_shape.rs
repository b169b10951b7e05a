//! A pod of which copies are made, each with claims of its own.

use plimsoll_api::devices::{ClaimSource, ClaimSpec, PodClaimStatus};
use plimsoll_api::{ObjectKey, Pod, ResourceClaim, Str};

use super::copies::copy_of_pod;
use crate::InitialCluster;
use crate::claims::{boxed, claim_for};

/// A pod of which copies are made.
#[derive(Clone, Debug)]
pub struct PodShape {
    pod: Pod,
    /// What is claimed by each claim that is made for the pod from a template, by its name in the pod.
    claims: Vec<(Str, ClaimSpec)>,
}

impl PodShape {
    /// A pod in a cluster that has the templates of its claims, or the claims that were made for it. A claim of which neither is
    /// known is not made for copies, either.
    pub fn of(pod: Pod, cluster: &InitialCluster) -> Self {
        let of_template = |name: &Str| {
            let is_it = |key: &ObjectKey| key.name == *name && key.namespace == pod.key.namespace;
            cluster.claim_templates().find(|one| is_it(&one.key)).map(|one| one.spec.clone())
        };
        let made = pod.devices.as_deref().map_or(&[][..], |devices| &devices.claims);
        let of_made = |name: &Str| {
            let made = made.iter().find(|one| one.name == *name)?.claim.as_ref()?;
            let key = ObjectKey::new(pod.key.namespace.clone(), made.clone());
            let mut claims = cluster.objects.iter().filter_map(|one| one.get::<ResourceClaim>());
            claims.find(|claim| claim.key == key).map(|claim| claim.spec.clone())
        };
        let claims = pod.resource_claims.iter().filter_map(|claim| match &claim.source {
            ClaimSource::Template(template) => {
                let spec = of_template(template).or_else(|| of_made(&claim.name))?;
                Some((claim.name.clone(), spec))
            }
            ClaimSource::Claim(_) | ClaimSource::Unknown => None,
        });
        PodShape { claims: claims.collect(), pod }
    }

    /// The templates that the pod names of claims that are not made for copies, since they are not known.
    pub fn unknown_templates(&self) -> impl Iterator<Item = ObjectKey> {
        self.pod.resource_claims.iter().filter_map(|claim| match &claim.source {
            ClaimSource::Template(name)
                if self.claims.iter().all(|(one, _)| *one != claim.name) =>
            {
                Some(ObjectKey::new(self.pod.key.namespace.clone(), name.clone()))
            }
            _ => None,
        })
    }

    /// A copy with the claims that are made for it. The numbers of the shape and of the copy make its name.
    pub(super) fn copy(&self, number: (usize, usize)) -> (Pod, Vec<ResourceClaim>) {
        let mut pod = copy_of_pod(&self.pod, number);
        let mut devices = pod.devices.take().map(|devices| *devices).unwrap_or_default();
        (devices.extended, devices.node_allocatable) = (None, Vec::new());
        devices.claims.retain(|one| self.claims.iter().all(|(name, _)| *name != one.name));
        let claims: Vec<ResourceClaim> = self
            .claims
            .iter()
            .map(|(name, spec)| {
                let key =
                    ObjectKey::new(pod.key.namespace.clone(), format!("{}-{name}", pod.key.name));
                let claim = Some(key.name.clone());
                devices.claims.push(PodClaimStatus { name: name.clone(), claim });
                ResourceClaim { uid: key.name.clone(), ..claim_for(&pod, key, spec) }
            })
            .collect();
        pod.devices = boxed(devices);
        (pod, claims)
    }
}
