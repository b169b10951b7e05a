//! Which kinds are still waited for before anything can be decided.

use std::sync::Arc;

use tokio::sync::watch;

use plimsoll_api::KindRef;

/// The kinds that have not been told whole yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting(Arc<[KindRef]>);

impl Waiting {
    /// Whether every kind has been told, or is gone on without.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that have not.
    pub fn kinds(&self) -> &[KindRef] {
        &self.0
    }
}

/// Tells who waits.
#[derive(Debug)]
pub(super) struct Progress(watch::Sender<Waiting>);

impl Progress {
    pub(super) fn new(kinds: &[KindRef]) -> (Self, watch::Receiver<Waiting>) {
        let (sender, receiver) = watch::channel(Waiting(kinds.into()));
        (Progress(sender), receiver)
    }

    /// Nobody needs to wait for `kind` any more.
    pub(super) fn done(&self, kind: KindRef) {
        self.0.send_if_modified(|waiting| {
            let left: Vec<KindRef> =
                waiting.0.iter().copied().filter(|&other| other != kind).collect();
            let has_changed = left.len() != waiting.0.len();
            waiting.0 = left.into();
            has_changed
        });
    }

    /// Whether `kind` is still waited for.
    pub(super) fn awaits(&self, kind: KindRef) -> bool {
        self.0.borrow().0.contains(&kind)
    }
}
