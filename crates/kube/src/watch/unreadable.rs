//! Objects that cannot be read, in whole or in part: each is named once.

use std::collections::BTreeSet;

use plimsoll_api::ObjectKey;

use super::head::Head;
use plimsoll_api::KindRef;

/// How many are remembered by name. Of more than that, those that come later may be named again or not
/// at all.
const LIMIT: usize = 1000;

/// What counts of an object that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// All of it that can be read.
    Rest,
    /// What was last read of it.
    Last,
}

impl Counts {
    fn as_str(self) -> &'static str {
        match self {
            Counts::Rest => "what can be read of it counts, and a pending pod is not scheduled",
            Counts::Last => {
                "what was last read of it counts, and nothing of it if it was never read"
            }
        }
    }
}

/// The objects of one kind that cannot be read.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    named: BTreeSet<ObjectKey>,
}

impl Unreadable {
    /// An object cannot be read: why, and what counts of it all the same.
    pub(super) fn add(
        &mut self,
        kind: KindRef,
        head: Option<&Head<'_>>,
        why: &str,
        counts: Counts,
    ) {
        let key = head
            .map_or_else(ObjectKey::default, |head| ObjectKey::new(&*head.namespace, &*head.name));
        if LIMIT <= self.named.len() || !self.named.insert(key.clone()) {
            return;
        }
        tracing::error!(
            kind = kind.as_str(), object = %key, error = why,
            "an object cannot be read: {}. Correct the field, or delete the object", counts.as_str()
        );
    }

    /// An object can be read, or is gone.
    pub(super) fn remove(&mut self, head: &Head<'_>) {
        if !self.named.is_empty() {
            self.named.remove(&ObjectKey::new(&*head.namespace, &*head.name));
        }
    }

    /// An object is gone.
    pub(super) fn is_gone(&mut self, key: &ObjectKey) {
        self.named.remove(key);
    }
}
