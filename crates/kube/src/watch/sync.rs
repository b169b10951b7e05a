//! Which kinds have not been listed completely. Nothing can be decided before all of them are.

use std::sync::Arc;

use plimsoll_api::KindRef;
use tokio::sync::watch;

/// The kinds that have not been listed completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsynced(Arc<[KindRef]>);

impl Unsynced {
    /// Whether every kind has been listed, or is done without.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kinds that are missing.
    pub fn kinds(&self) -> &[KindRef] {
        &self.0
    }
}

/// Keeps track of the kinds that have not been listed completely.
#[derive(Debug)]
pub(super) struct SyncTracker(watch::Sender<Unsynced>);

impl SyncTracker {
    pub(super) fn new(kinds: &[KindRef]) -> (Self, watch::Receiver<Unsynced>) {
        let (sender, receiver) = watch::channel(Unsynced(kinds.into()));
        (SyncTracker(sender), receiver)
    }

    /// Nobody needs to wait for `kind` any more.
    pub(super) fn done(&self, kind: KindRef) {
        self.0.send_if_modified(|unsynced| {
            let rest: Vec<KindRef> =
                unsynced.0.iter().copied().filter(|&other| other != kind).collect();
            let has_changed = rest.len() != unsynced.0.len();
            unsynced.0 = rest.into();
            has_changed
        });
    }

    /// Whether `kind` has not been listed completely.
    pub(super) fn is_awaited(&self, kind: KindRef) -> bool {
        self.0.borrow().0.contains(&kind)
    }
}
