//! Claims that groups of pods share: one is made from a template for the whole group, and is kept as long as the group.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::devices::{ClaimConsumer, ClaimSource, PodClaimStatus};
use plimsoll_api::{
    AnyObject, Controller, KindRef, ObjectKey, Pod, PodGroup, PodKey, PodResourceClaim,
    ResourceClaim, ResourceClaimTemplate, Str,
};
use plimsoll_engine::{Event, Observation};

use super::controller::free_name;
use super::objects::ClaimObjects;

/// The groups that have claims.
#[derive(Debug, Default)]
pub(super) struct GroupClaims {
    groups: BTreeMap<ObjectKey, PodGroup>,
    /// Groups that are gone, with their uids.
    ended: BTreeSet<(ObjectKey, Str)>,
    /// Groups that may need claims.
    noted: BTreeSet<ObjectKey>,
    /// Pods that wait until the claims of their group are made.
    waiting: BTreeMap<ObjectKey, BTreeSet<PodKey>>,
}

/// What to look at after a change of a group.
#[derive(Debug, Default)]
pub(super) struct ToLookAt {
    pub(super) pods: BTreeSet<PodKey>,
    pub(super) claims: BTreeSet<ObjectKey>,
}

/// What a claim of a pod is, if the pod is in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OfGroup {
    /// It is the pod's own.
    No,
    /// It is the claim of this name, which was made for the group; `None` if none was needed.
    Made(Option<Str>),
    /// It is one of the group that is yet to be made.
    Awaited,
}

impl GroupClaims {
    /// A group is so, or gone.
    pub(super) fn happens(
        &mut self,
        seen: &Observation<AnyObject, (KindRef, ObjectKey)>,
    ) -> ToLookAt {
        match seen {
            Observation::Is(object) => {
                let Some(group) = object.get::<PodGroup>() else { return ToLookAt::default() };
                let known = self.groups.get(&group.key);
                let replaced = known.is_some_and(|known| known.uid != group.uid);
                let claims = if replaced { self.end(&group.key) } else { BTreeSet::new() };
                if group.resource_claims.is_empty() {
                    return ToLookAt { claims, ..ToLookAt::default() };
                }
                self.noted.insert(group.key.clone());
                self.groups.insert(group.key.clone(), group.clone());
                ToLookAt { pods: self.waiting.remove(&group.key).unwrap_or_default(), claims }
            }
            Observation::Gone((kind, key)) if kind.is::<PodGroup>() => ToLookAt {
                pods: self.waiting.remove(key).unwrap_or_default(),
                claims: self.end(key),
            },
            Observation::Gone(_) => ToLookAt::default(),
        }
    }

    /// A group is gone. Returns its claims.
    fn end(&mut self, key: &ObjectKey) -> BTreeSet<ObjectKey> {
        let Some(group) = self.groups.remove(key) else { return BTreeSet::new() };
        self.noted.remove(key);
        self.ended.insert((key.clone(), group.uid.clone()));
        let by_spec = group.resource_claims.iter().filter_map(|claim| match &claim.source {
            ClaimSource::Claim(name) => Some(name),
            ClaimSource::Template(_) | ClaimSource::Unknown => None,
        });
        let made = group.claim_statuses.iter().filter_map(|one| one.claim.as_ref());
        let names = by_spec.chain(made);
        names.map(|name| ObjectKey::new(key.namespace.clone(), name.clone())).collect()
    }

    /// Whether some group may need claims.
    pub(super) fn is_busy(&self) -> bool {
        !self.noted.is_empty()
    }

    /// Makes claims of groups from templates, and names them in the status of the groups.
    pub(super) fn make(
        &mut self,
        templates: &BTreeMap<ObjectKey, ResourceClaimTemplate>,
        claims: &mut ClaimObjects,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        for key in std::mem::take(&mut self.noted) {
            let Some(group) = self.groups.get(&key) else { continue };
            let mut group = group.clone();
            let n_before = group.claim_statuses.len();
            for claim in group.resource_claims.clone() {
                let ClaimSource::Template(template) = &claim.source else { continue };
                let template = ObjectKey::new(key.namespace.clone(), template.clone());
                let is_made = group.claim_statuses.iter().any(|one| one.name == claim.name);
                let Some(template) = templates.get(&template).filter(|_| !is_made) else {
                    continue;
                };
                let owner = Controller {
                    api_version: Str::const_new("scheduling.k8s.io/v1beta1"),
                    kind: Str::const_new("PodGroup"),
                    name: key.name.clone(),
                    uid: group.uid.clone(),
                };
                let made = claims.created(ResourceClaim {
                    key: free_name(claims, &key, &claim.name),
                    controller: Some(owner),
                    spec: template.spec.clone(),
                    ..ResourceClaim::default()
                });
                let name = Some(made.key.name.clone());
                group.claim_statuses.push(PodClaimStatus { name: claim.name, claim: name });
                let object = AnyObject::new(made);
                // Its name is taken from now on.
                claims.observe(&Observation::Is(object.clone()));
                events.push(Event::object(object));
            }
            if n_before < group.claim_statuses.len() {
                self.groups.insert(key, group.clone());
                events.push(Event::object(group));
            }
        }
        events
    }

    /// What a claim of a pod is. As in resourceclaim.go, BindTo.
    pub(super) fn of(&self, pod: &Pod, claim: &PodResourceClaim) -> OfGroup {
        let Some(group) = self.group_of(pod).filter(|group| group.shares(claim)) else {
            return OfGroup::No;
        };
        let status = group.claim_statuses.iter().find(|one| one.name == claim.name);
        status.map_or(OfGroup::Awaited, |status| OfGroup::Made(status.claim.clone()))
    }

    /// A pod waits for the claims of its group.
    pub(super) fn is_awaited_by(&mut self, pod: &Pod) {
        if let Some(group) = self.group_of(pod) {
            let key = group.key.clone();
            self.waiting.entry(key).or_default().insert(pod.key.clone());
        }
    }

    fn group_of(&self, pod: &Pod) -> Option<&PodGroup> {
        let name = pod.scheduling_group.as_ref()?;
        self.groups.get(&ObjectKey::new(pod.key.namespace.clone(), name.clone()))
    }

    /// Whether a consumer in `status.reservedFor` is a group that is gone.
    pub(super) fn has_ended(&self, namespace: &Str, consumer: &ClaimConsumer) -> bool {
        let key = ObjectKey::new(namespace.clone(), consumer.name.clone());
        consumer.is_group() && self.ended.contains(&(key, consumer.uid.clone()))
    }

    /// Whether a claim was made for a group that is gone.
    pub(super) fn has_lost_owner(&self, claim: &ResourceClaim) -> bool {
        claim.controller.as_ref().is_some_and(|owner| {
            let key = ObjectKey::new(claim.key.namespace.clone(), owner.name.clone());
            claim.is_made_for_group(&owner.name) && self.ended.contains(&(key, owner.uid.clone()))
        })
    }
}
