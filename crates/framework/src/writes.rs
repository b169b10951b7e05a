//! What plugins write: objects of any kind that is registered.

use plimsoll_api::{Kind, KindRef, ObjectKey, Str};
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
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteVerb {
    /// Make it. The manifest need not say its version, kind, name and namespace.
    Create(Value),
    /// Replace it as a whole. A manifest with `metadata.resourceVersion` fails where the object has changed since.
    Update(Value),
    /// Change it by a JSON merge patch (RFC 7386).
    Patch {
        /// The subresource, such as `status`, where not the object itself is changed.
        subresource: Option<Str>,
        /// The merge patch. One with `metadata.resourceVersion` fails where the object has changed since.
        merge: Value,
    },
    /// Delete it.
    Delete {
        /// The uid that it must have; empty for any.
        uid: Str,
    },
}

impl WriteVerb {
    /// `create`, `update`, `patch`, `delete`: as RBAC names it.
    pub fn as_str(&self) -> &'static str {
        match self {
            WriteVerb::Create(_) => "create",
            WriteVerb::Update(_) => "update",
            WriteVerb::Patch { .. } => "patch",
            WriteVerb::Delete { .. } => "delete",
        }
    }
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WriteError {
    /// What kind of failure it is.
    pub cause: WriteCause,
    /// In the words of whoever did it.
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
    /// Nobody answered in time: it may have been done.
    TimedOut,
    /// Anything else, such as an API server that cannot be reached.
    Other,
}

impl WriteError {
    /// An error of this cause.
    pub fn new(cause: WriteCause, message: impl Into<String>) -> Self {
        WriteError { cause, message: message.into() }
    }

    /// An error of which nothing is known but its text.
    pub fn other(message: impl Into<String>) -> Self {
        WriteError::new(WriteCause::Other, message)
    }
}

/// With this a plugin requests writes.
#[derive(Debug)]
pub struct Writes<'a>(&'a mut Vec<ObjectWrite>);

impl<'a> Writes<'a> {
    /// Requests are added to `said`, in order.
    pub fn new(said: &'a mut Vec<ObjectWrite>) -> Self {
        Writes(said)
    }

    /// Makes an object of kind `K`. The manifest need not say its version, kind, name and namespace.
    pub fn create<K: Kind>(&mut self, key: ObjectKey, manifest: Value) {
        self.say::<K>(key, WriteVerb::Create(manifest));
    }

    /// Replaces an object as a whole. A manifest with `metadata.resourceVersion` fails where it has changed since.
    pub fn update<K: Kind>(&mut self, key: ObjectKey, manifest: Value) {
        self.say::<K>(key, WriteVerb::Update(manifest));
    }

    /// Changes an object by a JSON merge patch.
    pub fn patch<K: Kind>(&mut self, key: ObjectKey, merge: Value) {
        self.say::<K>(key, WriteVerb::Patch { subresource: None, merge });
    }

    /// Changes the status of an object by a JSON merge patch.
    pub fn patch_status<K: Kind>(&mut self, key: ObjectKey, merge: Value) {
        let subresource = Some(Str::const_new("status"));
        self.say::<K>(key, WriteVerb::Patch { subresource, merge });
    }

    /// Deletes an object, if it has this uid; an empty one means whichever is there.
    pub fn delete<K: Kind>(&mut self, key: ObjectKey, uid: impl Into<Str>) {
        self.say::<K>(key, WriteVerb::Delete { uid: uid.into() });
    }

    /// Writes the same again, as a plugin may whose write failed.
    pub fn again(&mut self, write: &ObjectWrite) {
        self.0.push(write.clone());
    }

    fn say<K: Kind>(&mut self, key: ObjectKey, verb: WriteVerb) {
        self.0.push(ObjectWrite { kind: KindRef::of::<K>(), key, verb });
    }
}

/// What a plugin makes of the answers to its writes. Without it a write that fails before the pod is bound fails the
/// attempt, and one that fails later is recorded as an event about the pod.
pub trait Answered: Plugin {
    /// `write` was answered. With `Ok` the pod goes its way once all that was written is answered; what the plugin
    /// writes now is awaited, too. With `Err` the attempt fails, as it would without this trait.
    ///
    /// Also told where the pod was bound or given up meanwhile: after Unreserve and PostBind. Then the error is recorded
    /// as an event about the pod.
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
