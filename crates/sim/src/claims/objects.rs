//! ResourceClaims, and what the API server makes of writes of them.

use std::collections::BTreeMap;

use plimsoll_api::wire::Object;
use plimsoll_api::{AnyObject, KindRef, ObjectKey, ResourceClaim, Str};
use plimsoll_engine::{Event, Observation, WriteCause, WriteError};
use plimsoll_framework::{ObjectWrite, Time, WriteVerb};
use serde_json::{Value, json};

use crate::lifecycle;

/// `status.reservedFor` has no more items than this. As in types.go of resource/v1, ResourceClaimReservedForMaxSize.
const MOST_CONSUMERS: usize = 256;

/// The ResourceClaims of a cluster.
///
/// A write changes the typed claim directly: the parts of a claim that scheduling does not read do not exist here.
#[derive(Debug, Default)]
pub(crate) struct ClaimObjects {
    claims: BTreeMap<ObjectKey, ResourceClaim>,
    /// How many claims there have been, at least.
    n_seen: u64,
}

impl ClaimObjects {
    /// The claim of this name.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&ResourceClaim> {
        self.claims.get(key)
    }

    /// A claim is so, or gone. Returns its state before; an object of another kind changes nothing.
    pub(crate) fn observe(
        &mut self,
        seen: &Observation<AnyObject, (KindRef, ObjectKey)>,
    ) -> Option<ResourceClaim> {
        match seen {
            Observation::Is(object) => {
                let claim = object.get::<ResourceClaim>()?;
                let before = self.claims.insert(claim.key.clone(), claim.clone());
                self.n_seen += u64::from(before.is_none());
                before
            }
            Observation::Gone((kind, key)) if kind.is::<ResourceClaim>() => self.claims.remove(key),
            Observation::Gone(_) => None,
        }
    }

    /// What the API server makes of a write. The result takes effect when it is observed.
    ///
    /// # Panics
    /// If the write is not one of a claim.
    pub(crate) fn written(&mut self, now: Time, write: &ObjectWrite) -> Result<Event, WriteError> {
        assert!(write.kind.is::<ResourceClaim>(), "{} is not a claim", write.kind);
        let key = &write.key;
        if let WriteVerb::Create(manifest) = &write.verb {
            if self.claims.contains_key(key) {
                return Err(error(key, WriteCause::AlreadyExists, "already exists"));
            }
            let claim = read(key, &manifest.to_value())?;
            return Ok(Event::object(self.created(claim)));
        }
        let claim = self.claims.get(key);
        let claim = claim.ok_or_else(|| error(key, WriteCause::NotFound, "not found"))?;
        match &write.verb {
            WriteVerb::Create(_) => unreachable!("it was created above"),
            WriteVerb::Update(manifest) => {
                let manifest = manifest.to_value();
                check(claim, &manifest)?;
                let new = read(key, &manifest)?;
                changed(claim, ResourceClaim { finalizers: new.finalizers, ..claim.clone() })
            }
            WriteVerb::Patch { subresource, merge } => {
                let merge = merge.to_value();
                check(claim, &merge)?;
                match subresource.as_deref() {
                    None => changed(claim, with_metadata(claim, &merge)?),
                    Some("status") => changed(claim, with_status(claim, &merge)?),
                    Some(other) => {
                        let why = format!("has no subresource {other}");
                        Err(error(key, WriteCause::NotFound, &why))
                    }
                }
            }
            WriteVerb::Delete { uid } if !uid.is_empty() && claim.uid != *uid => {
                Err(error(key, WriteCause::Conflict, "has another uid"))
            }
            WriteVerb::Delete { .. } => Ok(deleted(claim, now)),
        }
    }

    /// A new claim, as the API server stores it.
    pub(crate) fn created(&mut self, claim: ResourceClaim) -> ResourceClaim {
        self.n_seen += 1;
        let ObjectKey { namespace, name } = &claim.key;
        ResourceClaim {
            uid: format!("{namespace}.{name}-{}", self.n_seen).into(),
            resource_version: "1".into(),
            ..claim
        }
    }
}

/// The event for a claim that is deleted: with a finalizer it terminates.
pub(crate) fn deleted(claim: &ResourceClaim, now: Time) -> Event {
    if claim.finalizers.is_empty() {
        return Event::gone(KindRef::of::<ResourceClaim>(), claim.key.clone());
    }
    let deletion = claim.deletion.or_else(|| lifecycle::timestamp(now));
    Event::object(next(ResourceClaim { deletion, ..claim.clone() }))
}

/// A changed claim, in its next version.
pub(crate) fn next(claim: ResourceClaim) -> ResourceClaim {
    let version = claim.resource_version.parse::<u64>().unwrap_or(0) + 1;
    ResourceClaim { resource_version: version.to_string().into(), ..claim }
}

/// The event for a changed claim. A terminating one is gone when its last finalizer is.
fn changed(old: &ResourceClaim, new: ResourceClaim) -> Result<Event, WriteError> {
    let key = &old.key;
    let adds_finalizer = new.finalizers.iter().any(|name| !old.finalizers.contains(name));
    if old.is_terminating() && adds_finalizer {
        let why = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted";
        return Err(error(key, WriteCause::Refused, why));
    }
    if new.is_terminating() && new.finalizers.is_empty() {
        return Ok(Event::gone(KindRef::of::<ResourceClaim>(), key.clone()));
    }
    Ok(Event::object(if new == *old { new } else { next(new) }))
}

fn with_metadata(claim: &ResourceClaim, merge: &Value) -> Result<ResourceClaim, WriteError> {
    let mut claim = claim.clone();
    if merge["metadata"].get("finalizers").is_some() {
        claim.finalizers = read(&claim.key, merge)?.finalizers;
    }
    Ok(claim)
}

/// As in validation.go of resource, ValidateResourceClaimStatusUpdate.
fn with_status(old: &ResourceClaim, merge: &Value) -> Result<ResourceClaim, WriteError> {
    let refused = |why: &str| Err(error(&old.key, WriteCause::Refused, why));
    let written = read(&old.key, merge)?;
    let is_given = |field: &str| merge["status"].get(field).is_some();
    let mut new = old.clone();
    if is_given("allocation") {
        if old.allocation.is_some() && written.allocation.is_some() {
            if old.allocation != written.allocation {
                return refused("status.allocation: Invalid value: field is immutable");
            }
        } else if old.is_terminating() && written.allocation.is_some() {
            return refused("status.allocation: Forbidden: claim is being deleted");
        }
        new.allocation = written.allocation;
    }
    if is_given("reservedFor") {
        let is_new = |one| !old.reserved_for.contains(one);
        if old.is_terminating() && written.reserved_for.iter().any(is_new) {
            return refused(
                "status.reservedFor: Forbidden: new reservations while `deletionTimestamp` is set are not allowed",
            );
        }
        new.reserved_for = written.reserved_for;
    }
    if is_given("devices") {
        new.devices = written.devices;
    }
    if !new.reserved_for.is_empty() && new.allocation.is_none() {
        return refused(
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
        );
    }
    if MOST_CONSUMERS < new.reserved_for.len() {
        return refused("status.reservedFor: Too many: must have at most 256 items");
    }
    Ok(new)
}

/// Reads the parts of a claim that are written.
fn read(key: &ObjectKey, written: &Value) -> Result<ResourceClaim, WriteError> {
    let kind = KindRef::of::<ResourceClaim>();
    let refused = |why: &str| error(key, WriteCause::Refused, why);
    let version = written["apiVersion"].as_str().unwrap_or(kind.versions()[0]);
    let reader = kind.reader(version).ok_or_else(|| refused("has no such version"))?;
    let mut manifest = written.clone();
    if !manifest["metadata"].is_object() {
        manifest["metadata"] = json!({});
    }
    manifest["metadata"]["name"] = json!(key.name);
    manifest["metadata"]["namespace"] = json!(key.namespace);
    let object = reader.read(&manifest.to_string()).map_err(|error| refused(&error.to_string()))?;
    match object {
        Object::Other(object) => {
            Ok(object.get::<ResourceClaim>().cloned().expect("a reader reads its own kind"))
        }
        _ => unreachable!("a claim is neither a pod nor a node"),
    }
}

/// Whether a write takes for granted what is there.
fn check(claim: &ResourceClaim, written: &Value) -> Result<(), WriteError> {
    for (field, is) in [("uid", &claim.uid), ("resourceVersion", &claim.resource_version)] {
        let wanted = written["metadata"][field].as_str();
        if wanted.is_some_and(|wanted| wanted != is) {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(error(&claim.key, WriteCause::Conflict, why));
        }
    }
    Ok(())
}

/// As the API server puts it.
fn error(key: &ObjectKey, cause: WriteCause, why: &str) -> WriteError {
    let name: &Str = &key.name;
    WriteError::new(cause, format!("resourceclaims.resource.k8s.io {name:?} {why}"))
}

#[cfg(test)]
mod tests {
    use plimsoll_api::devices::ClaimConsumer;

    use super::*;

    /// What comes of a write, in words.
    fn done(objects: &mut ClaimObjects, verb: WriteVerb) -> String {
        let kind = KindRef::of::<ResourceClaim>();
        let write = ObjectWrite { kind, key: ObjectKey::new("default", "c"), verb, purpose: 0 };
        match objects.written(Time::from_millis(1000), &write) {
            Ok(Event::Object(seen)) => {
                objects.observe(&seen);
                let Observation::Is(object) = &seen else { return "gone".to_owned() };
                let claim: &ResourceClaim = object.get().expect("it is a claim");
                let mut words = vec![format!("v{}", claim.resource_version)];
                words.extend(claim.finalizers.iter().map(ToString::to_string));
                words.extend(claim.deletion.map(|_| "terminating".to_owned()));
                words.extend(
                    claim.allocation.as_ref().map(|one| format!("{} devices", one.devices.len())),
                );
                let consumer = |one: &ClaimConsumer| format!("for {}", one.uid);
                words.extend(claim.reserved_for.iter().map(consumer));
                words.join(" ")
            }
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("{:?}: {error}", error.cause),
        }
    }

    #[test]
    fn writes_of_claims_do_what_an_api_server_does() {
        let mut objects = ClaimObjects::default();
        let patch = |merge: Value| WriteVerb::Patch { subresource: None, merge: merge.into() };
        let status = |merge: Value| WriteVerb::Patch {
            subresource: Some("status".into()),
            merge: json!({ "status": merge }).into(),
        };
        let finalizers = |names: &[&str]| patch(json!({ "metadata": { "finalizers": names } }));
        let delete = |uid: &str| WriteVerb::Delete { uid: uid.into() };
        let devices = |name: &str| json!({ "devices": { "results": [{ "device": name }] } });
        let consumer = |uid: &str| json!({ "resource": "pods", "name": "p", "uid": uid });
        let not_found = "NotFound: resourceclaims.resource.k8s.io \"c\" not found";
        for (verb, expected) in [
            (patch(json!({})), not_found),
            (delete(""), not_found),
            (WriteVerb::Create(json!({ "spec": {} }).into()), "v1"),
            (
                WriteVerb::Create(json!({}).into()),
                "AlreadyExists: resourceclaims.resource.k8s.io \"c\" already exists",
            ),
            (finalizers(&["f"]), "v2 f"),
            // An object without a change keeps its version.
            (finalizers(&["f"]), "v2 f"),
            (
                patch(json!({ "metadata": { "resourceVersion": "1", "finalizers": [] } })),
                "Conflict: resourceclaims.resource.k8s.io \"c\" the object has been modified; \
                 please apply your changes to the latest version and try again",
            ),
            (
                status(json!({ "reservedFor": [consumer("u")] })),
                "Refused: resourceclaims.resource.k8s.io \"c\" status.reservedFor: Forbidden: may \
                 not be specified when `allocated` is not set",
            ),
            (
                status(json!({ "allocation": devices("d"), "reservedFor": [consumer("u")] })),
                "v3 f 1 devices for u",
            ),
            (
                status(json!({ "allocation": devices("e") })),
                "Refused: resourceclaims.resource.k8s.io \"c\" status.allocation: Invalid value: \
                 field is immutable",
            ),
            (delete("another"), "Conflict: resourceclaims.resource.k8s.io \"c\" has another uid"),
            (delete("default.c-1"), "v4 f terminating 1 devices for u"),
            (
                status(json!({ "reservedFor": [consumer("u"), consumer("v")] })),
                "Refused: resourceclaims.resource.k8s.io \"c\" status.reservedFor: Forbidden: new \
                 reservations while `deletionTimestamp` is set are not allowed",
            ),
            (
                finalizers(&["f", "g"]),
                "Refused: resourceclaims.resource.k8s.io \"c\" metadata.finalizers: Forbidden: no \
                 new finalizers can be added if the object is being deleted",
            ),
            (status(json!({ "allocation": null, "reservedFor": null })), "v5 f terminating"),
            (finalizers(&[]), "gone"),
            (delete(""), not_found),
        ] {
            assert_eq!(done(&mut objects, verb.clone()), expected, "{verb:?}");
        }
    }
}
