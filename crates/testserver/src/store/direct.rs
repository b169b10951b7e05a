//! Direct access of tests to the store, without HTTP.

use std::sync::Arc;

use serde_json::Value;

use super::{DeleteOptions, SharedStore, State, field_object, key_of, metadata, text};
use crate::counts::RequestOrigin;
use crate::defaults;
use crate::failure::FailureStatus;
use crate::kinds::{self, KindId, StoredForm};

/// Direct access to the objects of a server. Watches see these writes like all others.
///
/// Kinds are named as in URLs (`pods`), with their group if the name is ambiguous
/// (`events.events.k8s.io`).
#[derive(Debug, Clone)]
pub struct ObjectStore {
    pub(crate) shared: Arc<SharedStore>,
}

impl ObjectStore {
    /// Stores `object` as it is, status included, replacing the present one of that name. The server
    /// sets uid and defaults, and creates a missing namespace. An object without a name, or of an
    /// unknown kind, is an error.
    pub fn apply(&self, object: Value) -> Result<Value, FailureStatus> {
        apply(&mut self.shared.lock(), object)
    }

    /// [`ObjectStore::apply`] for many, under one lock: nothing else is written in between. Stops at the first error.
    pub fn apply_all(&self, objects: impl IntoIterator<Item = Value>) -> Result<(), FailureStatus> {
        let mut state = self.shared.lock();
        objects.into_iter().try_for_each(|object| apply(&mut state, object).map(drop))
    }

    /// The object, as its first group and version shows it.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let id = kinds::named(resource)?;
        let object = self.shared.lock().get(id, &key_of(namespace, name)).cloned()?;
        Some(shown(id, &object))
    }

    /// All objects of a kind, in the order of namespace and name.
    pub fn list(&self, resource: &str) -> Vec<Value> {
        let Some(id) = kinds::named(resource) else { return Vec::new() };
        let objects: Vec<_> = self.shared.lock().objects(id).cloned().collect();
        objects.iter().map(|object| shown(id, object)).collect()
    }

    /// How many objects of a kind there are.
    pub fn len(&self, resource: &str) -> usize {
        kinds::named(resource).map_or(0, |id| self.shared.lock().len(id))
    }

    /// Removes an object at once, without grace; finalizers still hold it. `false` if there is none.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> bool {
        let Some(id) = kinds::named(resource) else { return false };
        let options = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
        let mut state = self.shared.lock();
        state.delete(id, (namespace, name), &options, &RequestOrigin::DIRECT).is_ok()
    }

    /// The newest resource version.
    pub fn resource_version(&self) -> u64 {
        self.shared.lock().version()
    }
}

fn shown(id: KindId, object: &super::Stored) -> Value {
    let kind = id.kind();
    object.shown(StoredForm::Stored, &kind.served[0].api_version(), kind.kind)
}

fn apply(state: &mut State, object: Value) -> Result<Value, FailureStatus> {
    let (api_version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
    let Some((id, served)) = kinds::of_object(api_version, kind) else {
        let message = format!("no kind {kind:?} is known in version {api_version:?}");
        return Err(FailureStatus::bad_request(message));
    };
    let mut object = served.form.store(object);
    if id.kind().namespaced {
        let namespace =
            metadata(&mut object).entry("namespace").or_insert_with(|| "default".into());
        let namespace = namespace.as_str().unwrap_or("default").to_owned();
        ensure_namespace(state, &namespace)?;
    }
    metadata(&mut object).remove("resourceVersion");
    defaults::fill(id.kind(), &mut object);
    let (namespace, name) = (text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
    let present = state.get(id, &key_of(namespace, name)).cloned();
    let stored = match present {
        None => state.create(id, object, &RequestOrigin::DIRECT, false)?,
        Some(present) => {
            let old = present.value();
            let meta = metadata(&mut object);
            for key in ["uid", "creationTimestamp", "generation"] {
                if let Some(value) = old.pointer(&format!("/metadata/{key}")) {
                    meta.insert(key.to_owned(), value.clone());
                }
            }
            state.put(id, object, &RequestOrigin::DIRECT)
        }
    };
    Ok(shown(id, &stored))
}

/// Makes the namespace if there is none.
pub(crate) fn ensure_namespace(state: &mut State, name: &str) -> Result<(), FailureStatus> {
    let id = kinds::named("namespaces").expect("the table has namespaces");
    if state.get(id, name).is_some() {
        return Ok(());
    }
    let mut namespace = serde_json::json!({ "metadata": { "name": name } });
    defaults::fill(id.kind(), &mut namespace);
    field_object(&mut namespace, "status").insert("phase".to_owned(), "Active".into());
    state.create(id, namespace, &RequestOrigin::DIRECT, false).map(drop)
}
