//! The ResourceClaim controller: it makes claims from templates, and ends reservations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::devices::{ClaimConsumer, ClaimSource, ClaimSpec, PodClaimStatus};
use plimsoll_api::{
    AnyObject, Controller, KindRef, ObjectKey, Pod, PodKey, PodPhase, PodResourceClaim,
    ResourceClaim, ResourceClaimTemplate, Str,
};
use plimsoll_engine::{Event, Observation};
use plimsoll_framework::Time;
use rustc_hash::FxHashMap;

use super::group_claims::{GroupClaims, OfGroup};
use super::objects::{ClaimObjects, deleted, next};
use super::pod_status::boxed;

/// The controller, with what it has to look at.
///
/// It ends only reservations of pods that were there: of a pod that is not in the files nothing is known.
#[derive(Debug, Default)]
pub(crate) struct ClaimController {
    templates: BTreeMap<ObjectKey, ResourceClaimTemplate>,
    /// The claims that each pod owns.
    owned: BTreeMap<PodKey, BTreeSet<ObjectKey>>,
    /// The pods with claims that will not run any more, with their uids.
    done: BTreeSet<(PodKey, Str)>,
    /// Pods that may need claims.
    pods: BTreeSet<PodKey>,
    /// Claims that may not be needed any more.
    claims: BTreeSet<ObjectKey>,
    /// The claims that groups of pods share.
    of_groups: GroupClaims,
}

impl ClaimController {
    /// A template is there.
    pub(crate) fn add_template(&mut self, template: &ResourceClaimTemplate) {
        self.templates.insert(template.key.clone(), template.clone());
    }

    /// A pod is so.
    pub(crate) fn pod_is(&mut self, pod: &Pod) {
        if is_done(pod) {
            self.pod_ends(pod);
        } else if !pod.resource_claims.is_empty() {
            self.done.remove(&(pod.key.clone(), pod.uid.clone()));
            if missing(pod).next().is_some() {
                self.pods.insert(pod.key.clone());
            }
        }
    }

    /// A pod will not run any more, or is gone.
    pub(crate) fn pod_ends(&mut self, pod: &Pod) {
        let owned = self.owned.get(&pod.key).into_iter().flatten().cloned();
        let claims: Vec<ObjectKey> = owned.chain(named(pod)).collect();
        self.pods.remove(&pod.key);
        if !claims.is_empty() || !pod.container_devices.is_empty() {
            self.done.insert((pod.key.clone(), pod.uid.clone()));
        }
        self.claims.extend(claims);
    }

    /// A claim or a group is so, or gone.
    pub(crate) fn happens(
        &mut self,
        before: Option<&ResourceClaim>,
        seen: &Observation<AnyObject, (KindRef, ObjectKey)>,
    ) {
        let to_look_at = self.of_groups.happens(seen);
        self.pods.extend(to_look_at.pods);
        self.claims.extend(to_look_at.claims);
        if let Some(owner) = before.and_then(owner) {
            let key = before.map(|before| &before.key).expect("it has an owner");
            if let Some(owned) = self.owned.get_mut(&owner.0) {
                owned.remove(key);
            }
        }
        let Observation::Is(object) = seen else { return };
        let Some(claim) = object.get::<ResourceClaim>() else { return };
        if let Some((owner, _)) = owner(claim) {
            self.owned.entry(owner).or_default().insert(claim.key.clone());
        }
        self.claims.insert(claim.key.clone());
    }

    /// Whether it has something to look at.
    pub(crate) fn is_busy(&self) -> bool {
        !self.pods.is_empty() || !self.claims.is_empty() || self.of_groups.is_busy()
    }

    /// What the controller does now.
    pub(crate) fn work(
        &mut self,
        now: Time,
        pods: &FxHashMap<PodKey, Arc<Pod>>,
        claims: &mut ClaimObjects,
    ) -> Vec<Event> {
        let mut events = self.of_groups.make(&self.templates, claims);
        for key in std::mem::take(&mut self.pods) {
            if let Some(pod) = pods.get(&key).filter(|pod| !is_done(pod) && !pod.is_terminating()) {
                events.extend(self.make_claims(pod, claims));
            }
        }
        for key in std::mem::take(&mut self.claims) {
            if let Some(claim) = claims.get(&key) {
                events.extend(self.tidy(now, claim));
            }
        }
        events
    }

    /// The claims of a pod that are to be made from templates, and the pod that names them. As in controller.go of
    /// resourceclaim, handleClaim.
    fn make_claims(&mut self, pod: &Pod, claims: &mut ClaimObjects) -> Vec<Event> {
        let mut events = Vec::new();
        let mut devices = pod.devices.as_deref().cloned().unwrap_or_default();
        let n_before = devices.claims.len();
        for (claim, template) in missing(pod) {
            let name = &claim.name;
            match self.of_groups.of(pod, claim) {
                OfGroup::No => {}
                OfGroup::Made(made) => {
                    devices.claims.push(PodClaimStatus { name: name.clone(), claim: made });
                    continue;
                }
                OfGroup::Awaited => {
                    self.of_groups.is_awaited_by(pod);
                    continue;
                }
            }
            let template = ObjectKey::new(pod.key.namespace.clone(), template.clone());
            let Some(template) = self.templates.get(&template) else { continue };
            let key = free_name(claims, &pod.key, name);
            devices
                .claims
                .push(PodClaimStatus { name: name.clone(), claim: Some(key.name.clone()) });
            let claim = claims.created(claim_for(pod, key, &template.spec));
            let object = AnyObject::new(claim);
            // Its name is taken from now on.
            claims.observe(&Observation::Is(object.clone()));
            events.push(Event::object(object));
        }
        if n_before < devices.claims.len() {
            events.push(Event::pod(Pod { devices: boxed(devices), ..pod.clone() }));
        }
        events
    }

    /// Ends reservations of pods that will not run any more, and of groups that are gone. A claim that is then reserved for no pod loses its devices,
    /// and if it was made for a pod, it is deleted. As in controller.go of resourceclaim, syncClaim.
    fn tidy(&self, now: Time, claim: &ResourceClaim) -> Vec<Event> {
        let (mut events, mut claim) = (Vec::new(), claim.clone());
        let n_before = claim.reserved_for.len();
        let namespace = claim.key.namespace.clone();
        claim.reserved_for.retain(|one| !self.is_done(&namespace, one));
        let own = claim.finalizers.iter().position(|name| name == ResourceClaim::FINALIZER);
        let is_unused = claim.reserved_for.is_empty();
        let ends = claim.reserved_for.len() < n_before;
        let deallocates = own.is_some() && is_unused && (ends || claim.is_terminating());
        if deallocates {
            claim.allocation = None;
            claim.devices.clear();
        }
        if ends || deallocates {
            claim = next(claim);
            events.push(Event::object(claim.clone()));
        }
        if let Some(own) = own.filter(|_| deallocates) {
            claim.finalizers.remove(own);
            if claim.is_terminating() && claim.finalizers.is_empty() {
                events.push(Event::gone(KindRef::of::<ResourceClaim>(), claim.key));
                return events;
            }
            claim = next(claim);
            events.push(Event::object(claim.clone()));
        }
        events.extend(self.delete_unused(now, &claim));
        events
    }

    fn delete_unused(&self, now: Time, claim: &ResourceClaim) -> Vec<Event> {
        let is_unused = claim.reserved_for.is_empty() && !claim.is_terminating();
        let owner_is_done = owner(claim).is_some_and(|owner| self.done.contains(&owner))
            || self.of_groups.has_lost_owner(claim);
        let event = (is_unused && owner_is_done).then(|| deleted(claim, now));
        event.into_iter().collect()
    }

    fn is_done(&self, namespace: &Str, consumer: &ClaimConsumer) -> bool {
        let pod = PodKey::new(namespace.clone(), consumer.name.clone());
        consumer.resource == "pods" && self.done.contains(&(pod, consumer.uid.clone()))
            || self.of_groups.has_ended(namespace, consumer)
    }
}

/// Whether a pod will not run any more. As in controller.go of resourceclaim, isPodDone.
fn is_done(pod: &Pod) -> bool {
    pod.phase == PodPhase::Ended || pod.is_terminating() && pod.node_name.is_none()
}

/// The claim of a pod that is made from a template with this spec.
pub(crate) fn claim_for(pod: &Pod, key: ObjectKey, spec: &ClaimSpec) -> ResourceClaim {
    let owner = Controller {
        api_version: Str::const_new("v1"),
        kind: Str::const_new("Pod"),
        name: pod.key.name.clone(),
        uid: pod.uid.clone(),
    };
    ResourceClaim { key, controller: Some(owner), spec: spec.clone(), ..ResourceClaim::default() }
}

/// The claims of a pod that are to be made, and their templates.
fn missing(pod: &Pod) -> impl Iterator<Item = (&PodResourceClaim, &Str)> {
    let made = pod.devices.as_deref().map_or(&[][..], |devices| &devices.claims);
    pod.resource_claims.iter().filter_map(move |claim| match &claim.source {
        ClaimSource::Template(template) if made.iter().all(|one| one.name != claim.name) => {
            Some((claim, template))
        }
        _ => None,
    })
}

/// The claims that a pod names.
pub(crate) fn named(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    let by_spec = pod.resource_claims.iter().filter_map(|claim| match &claim.source {
        ClaimSource::Claim(name) => Some(name),
        ClaimSource::Template(_) | ClaimSource::Unknown => None,
    });
    let said = pod.devices.as_deref();
    let made = said.into_iter().flat_map(|said| &said.claims);
    let made = made.filter_map(|one| one.claim.as_ref());
    let extended = said.and_then(|said| said.extended.as_ref()).map(|one| &one.claim);
    let all = by_spec.chain(made).chain(extended);
    all.map(|name| ObjectKey::new(pod.key.namespace.clone(), name.clone()))
}

/// The pod that owns a claim, with its uid.
fn owner(claim: &ResourceClaim) -> Option<(PodKey, Str)> {
    let owner = claim.controller.as_ref()?;
    let is_pod = owner.api_version == "v1" && owner.kind == "Pod";
    is_pod
        .then(|| (PodKey::new(claim.key.namespace.clone(), owner.name.clone()), owner.uid.clone()))
}

/// A name for a new claim of a pod or a group. The controller ends it at random; a number is easier to read.
pub(super) fn free_name(claims: &ClaimObjects, owner: &ObjectKey, name: &str) -> ObjectKey {
    let mut number = 1_u64;
    loop {
        let ending = if number == 1 { String::new() } else { format!("-{number}") };
        let key = ObjectKey::new(owner.namespace.clone(), format!("{}-{name}{ending}", owner.name));
        if claims.get(&key).is_none() {
            return key;
        }
        number += 1;
    }
}
