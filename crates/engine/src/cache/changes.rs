//! What has changed in the cluster since the derived data was brought up to date.

use std::sync::Arc;

use plimsoll_api::Node;
use plimsoll_framework::parts::{NodeReads, StoreReads};
use plimsoll_framework::{PodInfo, Row};

/// A change on one node.
#[derive(Clone, Debug)]
pub(crate) enum RowChange {
    /// A pod was added.
    Placed(Row, PodInfo),
    /// A pod was removed.
    Displaced(Row, PodInfo),
    /// A pod changed in something that no filter and no score reads.
    Touched(Row),
    /// A node was added, with the pods that are on it already.
    Came(Row),
    /// A node was removed: as it was, with the pods that were on it.
    Gone(Row, Arc<Node>, Vec<PodInfo>),
    /// Some columns changed; with the node as it was.
    Node(Row, NodeReads, Arc<Node>),
}

impl RowChange {
    /// Whether the node itself has changed, and not only the pods on it.
    pub(crate) fn is_of_node(&self) -> bool {
        use RowChange::{Displaced, Placed, Touched};
        !matches!(self, Placed(..) | Displaced(..) | Touched(_))
    }
}

/// At most this many changes are kept individually until they are taken.
const MOST_CHANGES: usize = 1 << 20;

/// The changes since they were last taken.
///
/// A change of a node itself must be taken before anything else changes, because it is followed by looking at the node.
/// If it is not, everything has to be computed again.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Whether changes are recorded.
    are_kept: bool,
    all_changed: bool,
    pub(super) stores: StoreReads,
    log: Vec<RowChange>,
}

impl Changes {
    pub(super) fn note(&mut self, change: RowChange) {
        if !self.are_kept || self.all_changed {
            return;
        }
        let is_alone = self.log.is_empty()
            || !change.is_of_node() && !self.log.last().is_some_and(RowChange::is_of_node);
        if is_alone && self.log.len() < MOST_CHANGES {
            self.log.push(change);
        } else {
            self.all_changed = true;
            self.log.clear();
        }
    }

    /// Whether everything has to be computed again.
    pub(crate) fn all_changed(&self) -> bool {
        self.all_changed
    }

    /// Takes the stores that changed and the changes of nodes, and clears them.
    pub(crate) fn take(&mut self) -> (StoreReads, Vec<RowChange>) {
        self.all_changed = false;
        (std::mem::take(&mut self.stores), std::mem::take(&mut self.log))
    }

    /// Everything has to be computed again.
    pub(super) fn keep_again(&mut self) {
        if self.are_kept {
            self.keep();
        }
    }

    /// Records changes from now on. Those so far are not known.
    pub(super) fn keep(&mut self) {
        self.are_kept = true;
        self.all_changed = true;
        self.log.clear();
    }
}
