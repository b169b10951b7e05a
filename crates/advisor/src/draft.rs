//! The manifests of a pod and of the objects that it needs, as they would be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use plimsoll_api::devices::ClaimSource;
use plimsoll_api::wire::{self, Object};
use plimsoll_api::{
    AnyObject, ClaimPhase, CsiNode, CsiStorageCapacity, ObjectKey, PersistentVolume,
    PersistentVolumeClaim, Pod, ResourceClaim, StorageClass, VolumePhase,
};
use plimsoll_framework::View;
use serde_json::{Value, json};

use crate::change::{Change, Reference, operations};
use crate::cluster::Edit;

/// The kind of templates of claims on devices, which no plugin reads.
pub(crate) const CLAIM_TEMPLATE: &str = "ResourceClaimTemplate";

/// Finds the manifests of objects. Changes of an object whose manifest is not found are not proposed.
#[derive(Clone, Copy)]
pub struct Manifests<'a> {
    known: &'a dyn Fn(&Reference) -> Option<Value>,
    /// The objects whose manifests were not found.
    missed: Option<&'a Missed>,
}

/// Objects whose manifests are not known.
#[expect(
    clippy::disallowed_types,
    reason = "manifests are looked up in many places that change nothing else"
)]
pub(crate) type Missed = std::cell::RefCell<BTreeSet<Reference>>;

impl<'a> Manifests<'a> {
    /// `find` knows the manifests.
    pub fn by(find: &'a dyn Fn(&Reference) -> Option<Value>) -> Self {
        Manifests { known: find, missed: None }
    }

    /// The same; objects whose manifests are not found are added to `missed`.
    pub(crate) fn noting<'b>(self, missed: &'b Missed) -> Manifests<'b>
    where
        'a: 'b,
    {
        Manifests { known: self.known, missed: Some(missed) }
    }

    /// The manifest of an object, without which something is not tried.
    pub(crate) fn find(self, object: &Reference) -> Option<Value> {
        let found = self.look(object);
        if let (None, Some(missed)) = (&found, self.missed) {
            missed.borrow_mut().insert(object.clone());
        }
        found
    }

    /// The manifest of an object, if there is one. Nothing depends on it.
    pub(crate) fn look(self, object: &Reference) -> Option<Value> {
        (self.known)(object)
    }
}

impl Manifests<'static> {
    /// No manifest is known besides that of the pod.
    pub fn none() -> Self {
        Manifests { known: &|_| None, missed: None }
    }
}

impl fmt::Debug for Manifests<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifests").finish_non_exhaustive()
    }
}

/// A change of one field. It names the object; `None` is the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) of: Option<Reference>,
    pub(crate) what: Make,
}

/// What a step does. Fields are JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    /// A field has this value.
    Set(String, Value),
    /// A list has this element.
    Push(String, Value),
    /// A list does not have this element.
    Without(String, Value),
    /// The whole object is this.
    Is(Value),
}

/// The manifests of objects.
pub(crate) type Objects = BTreeMap<Reference, Value>;

/// The manifests as they would be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Draft {
    pub(crate) pod: Value,
    pub(crate) objects: Objects,
}

impl Draft {
    /// Takes a step. Nothing happens if the object is not known.
    pub(crate) fn take(&mut self, step: &Step) {
        let object = match (&step.of, &step.what) {
            (None, _) => &mut self.pod,
            (Some(name), Make::Is(_)) => self.objects.entry(name.clone()).or_default(),
            (Some(name), _) => match self.objects.get_mut(name) {
                Some(object) => object,
                None => return,
            },
        };
        match &step.what {
            Make::Set(field, value) => set(object, field, value.clone()),
            Make::Is(manifest) => *object = manifest.clone(),
            Make::Push(field, value) => {
                if !object.pointer(field).is_some_and(Value::is_array) {
                    set(object, field, json!([]));
                }
                if let Some(list) = object.pointer_mut(field).and_then(Value::as_array_mut)
                    && !list.contains(value)
                {
                    list.push(value.clone());
                }
            }
            Make::Without(field, value) => {
                if let Some(list) = object.pointer_mut(field).and_then(Value::as_array_mut)
                    && let Some(at) = list.iter().position(|one| one == value)
                {
                    list.remove(at);
                }
            }
        }
    }

    /// The changes of the objects, compared with `before`.
    pub(crate) fn changes(&self, before: &Draft) -> Vec<Change> {
        changes_of(&self.objects, &before.objects)
    }

    /// What changes in the cluster, compared with `before`, for the pod that is `known`; `None` if an object is wrong.
    pub(crate) fn edits(&self, before: &Draft, known: &Pod, view: View<'_>) -> Option<Vec<Edit>> {
        let mut edits = Vec::new();
        for (name, after) in &self.objects {
            if before.objects.get(name) != Some(after) {
                edits.extend(edits_of(name, after, known, view)?);
            }
        }
        Some(edits)
    }
}

/// The changes of objects, compared with `before`.
pub(crate) fn changes_of(objects: &Objects, before: &Objects) -> Vec<Change> {
    let changes = objects.iter().filter_map(|(name, after)| {
        let Some(before) = before.get(name) else {
            return Some(Change::Create { create: after.clone() });
        };
        let operations = operations(before, after);
        let patch = name.clone();
        (!operations.is_empty()).then_some(Change::Patch { patch, operations })
    });
    changes.collect()
}

/// Sets a field, and makes the objects around it that are missing.
fn set(object: &mut Value, field: &str, value: Value) {
    let mut at = object;
    for name in field.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        at = match at {
            Value::Array(list) => {
                match name.parse().ok().and_then(|index: usize| list.get_mut(index)) {
                    Some(element) => element,
                    None => return,
                }
            }
            other => {
                if !other.is_object() {
                    *other = json!({});
                }
                &mut other[name.as_str()]
            }
        };
    }
    *at = value;
}

/// What a changed object means for the scheduler: what its controllers have made of it stays. Of a template it changes the claims
/// of the pod that is `known`.
pub(crate) fn edits_of(
    name: &Reference,
    manifest: &Value,
    known: &Pod,
    view: View<'_>,
) -> Option<Vec<Edit>> {
    if name.kind == CLAIM_TEMPLATE {
        return edits_of_template(name, manifest, known, view);
    }
    let Object::Other(object) = wire::object(manifest).ok()? else { return None };
    let stores = view.stores;
    if let Some(claim) = object.get::<ResourceClaim>() {
        let known = stores.of::<ResourceClaim>().get(&claim.key)?;
        let changed = ResourceClaim { spec: claim.spec.clone(), ..ResourceClaim::clone(known) };
        return Some(vec![Edit::object(changed)]);
    }
    if let Some(claim) = object.get::<PersistentVolumeClaim>() {
        let known = stores.of::<PersistentVolumeClaim>().get(&claim.key);
        let changed = if let Some(known) = known {
            PersistentVolumeClaim {
                class: claim.class.clone(),
                requested: claim.requested.clone(),
                ..PersistentVolumeClaim::clone(known)
            }
        } else {
            let uid = format!("{}.{}", claim.key.namespace, claim.key.name).into();
            PersistentVolumeClaim { uid, ..claim.clone() }
        };
        return Some(vec![Edit::object(changed)]);
    }
    if let Some(volume) = object.get::<PersistentVolume>() {
        return Some(edits_of_volume(volume, view));
    }
    let is_plain = object.get::<StorageClass>().is_some()
        || object.get::<CsiNode>().is_some()
        || object.get::<CsiStorageCapacity>().is_some();
    is_plain.then(|| vec![Edit::Object(object)])
}

/// A new volume: it is available, or the claim for which it is reserved is bound to it.
fn edits_of_volume(volume: &PersistentVolume, view: View<'_>) -> Vec<Edit> {
    let claims = view.stores.of::<PersistentVolumeClaim>();
    let reserved = volume.claim.as_ref().and_then(|by| claims.get(&by.key));
    let Some(claim) = reserved else {
        let volume = PersistentVolume { phase: VolumePhase::Available, ..volume.clone() };
        return vec![Edit::object(volume)];
    };
    let mut bound = PersistentVolume { phase: VolumePhase::Bound, ..volume.clone() };
    if let Some(by) = &mut bound.claim {
        by.uid.clone_from(&claim.uid);
    }
    let claim = PersistentVolumeClaim {
        volume: Some(volume.name.clone()),
        bind_completed: true,
        phase: ClaimPhase::Bound,
        ..PersistentVolumeClaim::clone(claim)
    };
    vec![Edit::object(bound), Edit::object(claim)]
}

/// The claims of the pod that are made from a template are like it.
fn edits_of_template(
    name: &Reference,
    manifest: &Value,
    known: &Pod,
    view: View<'_>,
) -> Option<Vec<Edit>> {
    let as_claim = json!({
        "apiVersion": manifest["apiVersion"], "kind": "ResourceClaim",
        "metadata": {"name": name.name, "namespace": name.namespace},
        "spec": manifest["spec"]["spec"],
    });
    let Object::Other(object) = wire::object(&as_claim).ok()? else { return None };
    let spec = &object.get::<ResourceClaim>()?.spec;
    let of_template = known.resource_claims.iter().filter(
        |one| matches!(&one.source, ClaimSource::Template(template) if *template == name.name),
    );
    let changed = of_template.map(|one| {
        let key = claim_of(known, &one.name)?;
        let claim = view.stores.of::<ResourceClaim>().get(&key)?;
        let claim = ResourceClaim { spec: spec.clone(), ..ResourceClaim::clone(claim) };
        Some(Edit::object(claim))
    });
    changed.collect()
}

/// The claim on devices that a pod calls `name`.
pub(crate) fn claim_of(pod: &Pod, name: &str) -> Option<ObjectKey> {
    let source = &pod.resource_claims.iter().find(|one| one.name == name)?.source;
    let claim = match source {
        ClaimSource::Claim(claim) => claim.clone(),
        ClaimSource::Template(_) => {
            let made = pod.devices.as_deref()?.claims.iter().find(|one| one.name == name)?;
            made.claim.clone()?
        }
        ClaimSource::Unknown => return None,
    };
    Some(ObjectKey::new(pod.key.namespace.clone(), claim))
}

impl Edit {
    /// An object is like this.
    pub(crate) fn object(object: impl Into<AnyObject>) -> Self {
        Edit::Object(object.into())
    }
}
