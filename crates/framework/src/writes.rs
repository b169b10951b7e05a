//! What plugins write: objects of any kind that is registered.

use std::fmt;
use std::sync::{Arc, LazyLock};

use bitflags::bitflags;
use plimsoll_api::{Kind, KindRef, ObjectKey, Str};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::binding::{Handle, Placement};
use crate::plugin::Plugin;
use crate::pod_info::PodInfo;
use crate::status::Rejection;
use crate::view::View;

/// A write of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectWrite {
    /// Its kind.
    pub kind: KindRef,
    /// Its namespace and name.
    pub key: ObjectKey,
    /// What to do.
    pub verb: WriteVerb,
    /// What the plugin says that it is for, by a number of its own ([`Writes::of_purpose`]). It finds it here when the write is
    /// [`Answered`]; nobody else reads it. 0 if nothing is said.
    pub purpose: u8,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteVerb {
    /// Create it. The manifest may omit version, kind, name and namespace.
    Create(Json),
    /// Replace it as a whole. A manifest with `metadata.resourceVersion` fails if the object has changed.
    Update(Json),
    /// Change it by a JSON merge patch (RFC 7386).
    Patch {
        /// The subresource, such as `status`; `None` for the object itself.
        subresource: Option<Str>,
        /// The merge patch. A patch with `metadata.resourceVersion` fails if the object has changed.
        merge: Json,
    },
    /// Delete it.
    Delete {
        /// The uid that it must have; empty for any.
        uid: Str,
    },
}

impl WriteVerb {
    /// `create`, `update`, `patch` or `delete`, the verb in RBAC.
    pub fn as_str(&self) -> &'static str {
        match self {
            WriteVerb::Create(_) => "create",
            WriteVerb::Update(_) => "update",
            WriteVerb::Patch { .. } => "patch",
            WriteVerb::Delete { .. } => "delete",
        }
    }
}

/// A JSON document that is written. It is kept as the text that is sent, so that a copy costs nothing.
///
/// A [`Value`] becomes one by `into`; a type that implements [`Serialize`] is written without a `Value` by [`Json::of`].
/// With [`Json::later`] whoever sends it writes the text, and not the scheduler.
#[derive(Clone)]
pub struct Json(Arc<LazyText>);

/// A text that is made when it is first read.
type LazyText = LazyLock<String, Box<dyn FnOnce() -> String + Send>>;

impl Json {
    /// `value` as JSON.
    ///
    /// # Panics
    /// If `value` has no form in JSON: if its `Serialize` fails, or if the keys of a map are not strings.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Self {
        let text = serde_json::to_string(value).expect("what is written has a form in JSON");
        Json::of_text(text)
    }

    /// The document that `make` returns, which is made when it is first read.
    pub fn later(make: impl FnOnce() -> Json + Send + 'static) -> Self {
        Json(Arc::new(LazyLock::new(Box::new(move || make().as_str().to_owned()))))
    }

    fn of_text(text: String) -> Self {
        Json(Arc::new(LazyLock::new(Box::new(|| text))))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The document, for those who look into it.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(self.as_str()).expect("it was made from a value")
    }

    /// The parts of the document that `T` reads. `None` if it is of another form.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(self.as_str()).ok()
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Json::of_text(value.to_string())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

bitflags! {
    /// The ways in which a plugin writes objects of a kind: for the permissions that it needs.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WriteVerbs: u8 {
        /// It creates them.
        const CREATE = 1 << 0;
        /// It replaces them.
        const UPDATE = 1 << 1;
        /// It patches them.
        const PATCH = 1 << 2;
        /// It patches their status.
        const PATCH_STATUS = 1 << 3;
        /// It deletes them.
        const DELETE = 1 << 4;
    }
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WriteError {
    /// What kind of failure it is.
    pub cause: WriteCause,
    /// The message of whoever executed the write, such as the API server.
    pub message: String,
}

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCause {
    /// The object, its kind or its namespace does not exist (404).
    NotFound,
    /// An object of this name exists already (409, `AlreadyExists`).
    AlreadyExists,
    /// The object has changed since the version that the write names (409).
    Conflict,
    /// The write is forbidden or invalid (400, 403, 422 and others): it would fail again.
    Refused,
    /// No answer came in time: the write may have been done.
    TimedOut,
    /// Anything else, such as an API server that cannot be reached.
    Other,
}

impl WriteError {
    /// An error of this cause.
    pub fn new(cause: WriteCause, message: impl Into<String>) -> Self {
        WriteError { cause, message: message.into() }
    }

    /// An error of unknown cause.
    pub fn other(message: impl Into<String>) -> Self {
        WriteError::new(WriteCause::Other, message)
    }
}

/// With this a plugin requests writes.
#[derive(Debug)]
pub struct Writes<'a> {
    said: &'a mut Vec<ObjectWrite>,
    purpose: u8,
}

impl<'a> Writes<'a> {
    /// Requests are added to `said`, in order.
    pub fn new(said: &'a mut Vec<ObjectWrite>) -> Self {
        Writes { said, purpose: 0 }
    }

    /// With this a plugin requests writes of one purpose, which it knows when they are [`Answered`].
    pub fn of_purpose(&mut self, purpose: u8) -> Writes<'_> {
        Writes { said: self.said, purpose }
    }

    /// Creates an object of kind `K`. The manifest may omit version, kind, name and namespace.
    pub fn create<K: Kind>(&mut self, key: ObjectKey, manifest: impl Into<Json>) {
        self.say::<K>(key, WriteVerb::Create(manifest.into()));
    }

    /// Replaces an object as a whole. A manifest with `metadata.resourceVersion` fails if it has changed.
    pub fn update<K: Kind>(&mut self, key: ObjectKey, manifest: impl Into<Json>) {
        self.say::<K>(key, WriteVerb::Update(manifest.into()));
    }

    /// Changes an object by a JSON merge patch.
    pub fn patch<K: Kind>(&mut self, key: ObjectKey, merge: impl Into<Json>) {
        self.say::<K>(key, WriteVerb::Patch { subresource: None, merge: merge.into() });
    }

    /// Changes the status of an object by a JSON merge patch.
    pub fn patch_status<K: Kind>(&mut self, key: ObjectKey, merge: impl Into<Json>) {
        let subresource = Some(Str::const_new("status"));
        self.say::<K>(key, WriteVerb::Patch { subresource, merge: merge.into() });
    }

    /// Deletes an object if it has this uid. An empty uid means any.
    pub fn delete<K: Kind>(&mut self, key: ObjectKey, uid: impl Into<Str>) {
        self.say::<K>(key, WriteVerb::Delete { uid: uid.into() });
    }

    /// Requests the same write again, after it failed.
    pub fn again(&mut self, write: &ObjectWrite) {
        self.said.push(write.clone());
    }

    fn say<K: Kind>(&mut self, key: ObjectKey, verb: WriteVerb) {
        let (kind, purpose) = (KindRef::of::<K>(), self.purpose);
        self.said.push(ObjectWrite { kind, key, verb, purpose });
    }
}

/// Handles the answers to the writes of a plugin. Without this trait a write that fails before the pod is bound fails
/// the attempt, and a write that fails later is recorded as an event about the pod.
pub trait Answered: Plugin {
    /// Called when `write` was answered. If this returns `Ok`, the pod continues once all writes are answered,
    /// including those requested now. If it returns `Err`, the attempt fails, as it would without this trait.
    ///
    /// It is also called if the pod was bound or given up in the meantime, after PostBind or Unreserve. An error is
    /// then recorded as an event about the pod.
    fn answered(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection>;

    /// The same for what was written after PostFilter ([`AfterPostFilter`](crate::AfterPostFilter)). The attempt is over:
    /// an error is recorded as an event about the pod.
    fn answered_without_node(
        &self,
        _write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        _pod: &PodInfo,
        _view: &View<'_>,
        _handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        answer.clone().map_err(|error| Rejection::error(error.message))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_what_it_was_made_of() {
        #[derive(Serialize)]
        struct Patch<'a> {
            metadata: Metadata<'a>,
        }
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Metadata<'a> {
            uid: &'a str,
        }
        #[derive(Deserialize)]
        struct Read<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        let value = json!({ "metadata": { "uid": "u" } });
        let written = Json::of(&Patch { metadata: Metadata { uid: "u" } });
        assert_eq!(written, Json::from(value.clone()));
        assert_eq!(written.to_string(), r#"{"metadata":{"uid":"u"}}"#);
        assert_eq!(written.to_value(), value);
        let read = written.read::<Read<'_>>().expect("it has this form");
        assert_eq!(read.metadata, Metadata { uid: "u" });
        assert!(written.read::<Vec<u8>>().is_none());
    }

    #[test]
    fn a_document_that_is_made_later_is_made_once_by_its_first_reader() {
        let n_made = Arc::new(AtomicU32::new(0));
        let counted = n_made.clone();
        let later = Json::later(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Json::from(json!({ "uid": "u" }))
        });
        let copy = later.clone();
        assert!(later == copy && n_made.load(Ordering::Relaxed) == 0);
        assert_eq!(later, Json::from(json!({ "uid": "u" })));
        assert_eq!((copy.as_str(), n_made.load(Ordering::Relaxed)), (r#"{"uid":"u"}"#, 1));
    }
}
