//! Objects that cannot be read: each is named once.

use std::collections::BTreeSet;

use plimsoll_api::ObjectKey;

use super::head::Head;
use crate::kinds::Kind;

/// How many are remembered by name. Of more than that, those that come later may be named again or not
/// at all.
const LIMIT: usize = 1000;

/// The objects of one kind that cannot be read.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    named: BTreeSet<ObjectKey>,
}

impl Unreadable {
    /// An object cannot be read. What was last read of it stays: a pod on a node must go on to count, and a
    /// node does not become another by a field that is not understood.
    pub(super) fn add(&mut self, kind: Kind, head: Option<&Head<'_>>, why: &str) {
        let key = head
            .map_or_else(ObjectKey::default, |head| ObjectKey::new(&*head.namespace, &*head.name));
        if LIMIT <= self.named.len() || !self.named.insert(key.clone()) {
            return;
        }
        tracing::error!(
            kind = kind.as_str(), object = %key, error = why,
            "an object cannot be read; what was last read of it stays, and an object that was never read is \
             not there. Correct the field, or delete the object"
        );
    }

    /// An object can be read, or is gone.
    pub(super) fn remove(&mut self, head: &Head<'_>) {
        if !self.named.is_empty() {
            self.named.remove(&ObjectKey::new(&*head.namespace, &*head.name));
        }
    }
}
