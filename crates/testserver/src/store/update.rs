//! Creating and changing objects, with the rules that hold for every kind (as in the generic registry of
//! kube-apiserver, `registry/generic/registry/store.go` and `registry/rest`).

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{State, Stored, key_of, metadata, now, text};
use crate::counts::RequestOrigin;
use crate::devices;
use crate::failure::{FailureStatus, FieldError, OBJECT_MODIFIED};
use crate::kinds::{KindId, ResourceKind, Trait};
use crate::validate;

/// Which part of an object a request may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateMode {
    /// All but the status, where that is a subresource.
    Whole,
    /// The status, labels, annotations and finalizers; of some kinds only the status.
    Status,
    /// Everything: for subresources that check their changes themselves.
    Free,
}

/// Metadata fields that only the server writes.
const SYSTEM: &[&str] = &[
    "uid",
    "name",
    "namespace",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
];

impl State {
    /// Stores a new object, whose defaults have been filled in.
    pub(crate) fn create(
        &mut self,
        id: KindId,
        mut object: Value,
        origin: &RequestOrigin,
        dry_run: bool,
    ) -> Result<Arc<Stored>, FailureStatus> {
        let kind = id.kind();
        let (uid, suffix) = (self.new_uid(), self.new_suffix());
        let meta = metadata(&mut object);
        let value = |meta: &Map<String, Value>, key: &str| {
            meta.get(key).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
        };
        if !["", "0"].contains(&value(meta, "resourceVersion").as_str()) {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(FailureStatus::plain(500, message));
        }
        let base = value(meta, "generateName");
        if value(meta, "name").is_empty() && !base.is_empty() {
            // As in names.SimpleNameGenerator: at most 63 characters, the last five of them random.
            let base: String = base.chars().take(58).collect();
            meta.insert("name".to_owned(), format!("{base}{suffix}").into());
        }
        let (namespace, name) = (value(meta, "namespace"), value(meta, "name"));
        meta.insert("uid".to_owned(), uid.into());
        meta.insert("creationTimestamp".to_owned(), now().into());
        meta.retain(|key, _| {
            !["deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"]
                .contains(&key.as_str())
        });
        if kind.has(Trait::Generation) {
            meta.insert("generation".to_owned(), 1.into());
        }
        validate::new_object(kind, &object)?;
        if self.get(id, &key_of(&namespace, &name)).is_some() {
            return Err(FailureStatus::already_exists(kind.resource(), &name));
        }
        if dry_run {
            return Ok(Arc::new(Stored::new(kind, object, 0)));
        }
        Ok(self.put(id, object, origin))
    }

    /// Replaces the object at `key` with the result of `change`. If nothing changes, nothing is
    /// written.
    pub(crate) fn update(
        &mut self,
        id: KindId,
        (namespace, name): (&str, &str),
        mode: UpdateMode,
        origin: &RequestOrigin,
        dry_run: bool,
        change: impl FnOnce(&Self, Value) -> Result<Value, FailureStatus>,
    ) -> Result<Arc<Stored>, FailureStatus> {
        let kind = id.kind();
        let key = key_of(namespace, name);
        let present = self.get(id, &key).cloned();
        let present = present.ok_or_else(|| FailureStatus::not_found(kind.resource(), name))?;
        let old = present.value();
        let new = change(self, old.clone())?;
        check_version(kind, &present, &new)?;
        let new = settled(kind, mode, &old, new);
        validate::change(kind, mode, &old, &new)?;
        if new == old {
            return Ok(present);
        }
        if dry_run {
            return Ok(Arc::new(Stored::new(kind, new, present.version)));
        }
        if is_finished(kind, &new) {
            return Ok(self.remove(id, &key, origin).unwrap_or(present));
        }
        Ok(self.put(id, new, origin))
    }
}

/// Checks that `new` is based on the stored object, if it names a uid or version.
fn check_version(kind: &ResourceKind, present: &Stored, new: &Value) -> Result<(), FailureStatus> {
    let name = &present.name;
    let uid = text(new, "/metadata/uid");
    if !uid.is_empty() && uid != present.uid {
        let why = format!("UID in precondition: {uid}, UID in object meta: {}", present.uid);
        return Err(precondition_failed(kind, present, &why));
    }
    match text(new, "/metadata/resourceVersion") {
        "" | "0" if kind.has(Trait::NeedsVersion) => {
            let why = "must be specified for an update";
            let error = FieldError::invalid("metadata.resourceVersion", "0x0", why);
            Err(FailureStatus::invalid(kind.resource(), name, &[error]))
        }
        "" | "0" => Ok(()),
        version if version == present.version.to_string() => Ok(()),
        _ => Err(FailureStatus::conflict(kind.resource(), name, OBJECT_MODIFIED)),
    }
}

/// As etcd3's storage words a precondition that does not hold.
pub(crate) fn precondition_failed(
    kind: &ResourceKind,
    present: &Stored,
    why: &str,
) -> FailureStatus {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: {why}",
        kind.plural, present.key
    );
    FailureStatus::conflict(kind.resource(), &present.name, why)
}

/// The object to store: the parts of `new` that `mode` may change, and all other parts as they were.
fn settled(kind: &ResourceKind, mode: UpdateMode, old: &Value, mut new: Value) -> Value {
    let mut result = match mode {
        UpdateMode::Whole if kind.has(Trait::Status) => {
            copy(&mut new, old, "status");
            new
        }
        UpdateMode::Whole | UpdateMode::Free => new,
        UpdateMode::Status => {
            let mut result = old.clone();
            copy(&mut result, &new, "status");
            let meta = metadata(&mut new);
            let free: &[&str] = match kind.has(Trait::BareStatus) {
                true => &[],
                false => &["labels", "annotations", "finalizers"],
            };
            for key in free.iter().copied() {
                set(metadata(&mut result), key, meta.remove(key));
            }
            result
        }
    };
    if kind.kind == "ResourceClaim" {
        devices::forget_deallocated(&mut result);
    }
    let old_meta = old.get("metadata").and_then(Value::as_object);
    let meta = metadata(&mut result);
    for key in SYSTEM.iter().chain(&["resourceVersion"]) {
        set(meta, key, old_meta.and_then(|old| old.get(*key)).cloned());
    }
    for unkept in ["managedFields", "selfLink"] {
        meta.remove(unkept);
    }
    if kind.has(Trait::Generation)
        && mode == UpdateMode::Whole
        && result.get("spec") != old.get("spec")
    {
        let generation = old.pointer("/metadata/generation").and_then(Value::as_u64);
        metadata(&mut result).insert("generation".to_owned(), (generation.unwrap_or(0) + 1).into());
    }
    if let Some(object) = result.as_object_mut() {
        object.remove("apiVersion");
        object.remove("kind");
    }
    result
}

fn copy(to: &mut Value, from: &Value, field: &str) {
    if let Some(to) = to.as_object_mut() {
        set(to, field, from.get(field).cloned());
    }
}

fn set(to: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => to.insert(key.to_owned(), value),
        None => to.remove(key),
    };
}

/// Whether nothing keeps a deleted object any more. A pod is also kept by its grace period.
fn is_finished(kind: &ResourceKind, object: &Value) -> bool {
    let meta = |field: &str| object.pointer(&format!("/metadata/{field}"));
    let is_deleted = meta("deletionTimestamp").is_some();
    let grace = meta("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    is_deleted && !has_finalizers(object) && (kind.kind != "Pod" || grace == 0)
}

/// Whether the object has finalizers, which must be removed before it can be deleted.
pub(super) fn has_finalizers(object: &Value) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}
