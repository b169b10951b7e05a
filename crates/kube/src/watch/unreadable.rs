//! Logs each object that cannot be read completely, once.

use std::collections::BTreeSet;

use plimsoll_api::ObjectKey;

use super::decode::PartialObjectMeta;
use plimsoll_api::KindRef;

/// At most this many objects are remembered. Further ones are not logged.
const LIMIT: usize = 1000;

/// What is used of an object that cannot be read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    /// The fields that can be read.
    ReadableFields,
    /// The last version that could be read, if there is one.
    LastVersion,
}

impl Fallback {
    fn as_str(self) -> &'static str {
        match self {
            Fallback::ReadableFields => {
                "the fields that can be read are used, and a pending pod is not scheduled"
            }
            Fallback::LastVersion => {
                "the last version that could be read is used; without one, the object is ignored"
            }
        }
    }
}

/// The unreadable objects of one kind that have been logged.
#[derive(Debug, Default)]
pub(super) struct UnreadableObjects {
    logged: BTreeSet<ObjectKey>,
}

impl UnreadableObjects {
    /// Logs that an object cannot be read completely, unless that has been logged.
    pub(super) fn add(
        &mut self,
        kind: KindRef,
        meta: Option<&PartialObjectMeta<'_>>,
        why: &str,
        fallback: Fallback,
    ) {
        let key = meta
            .map_or_else(ObjectKey::default, |meta| ObjectKey::new(&*meta.namespace, &*meta.name));
        if LIMIT <= self.logged.len() || !self.logged.insert(key.clone()) {
            return;
        }
        tracing::error!(
            kind = kind.as_str(), object = %key, error = why,
            "could not read an object completely: {}; correct the field, or delete the object", fallback.as_str()
        );
    }

    /// Forgets an object that can be read or is deleted.
    pub(super) fn remove(&mut self, meta: &PartialObjectMeta<'_>) {
        if !self.logged.is_empty() {
            self.logged.remove(&ObjectKey::new(&*meta.namespace, &*meta.name));
        }
    }

    /// Forgets a deleted object.
    pub(super) fn remove_key(&mut self, key: &ObjectKey) {
        self.logged.remove(key);
    }
}
