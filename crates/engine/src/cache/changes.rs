//! What has changed in the cluster since the derived data was brought up to date.

use std::sync::Arc;

use plimsoll_api::{AnyObject, KindRef, Node};
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

/// At most this many versions of objects are kept until they are taken.
const MOST_OBJECTS: usize = 1 << 12;

/// The objects that have changed, of those stores of which somebody wants to know.
#[derive(Debug, Default)]
pub(crate) struct ObjectChanges {
    /// The stores.
    of: StoreReads,
    /// The objects as they were and as they are; `None` if there were too many.
    versions: Option<Vec<AnyObject>>,
}

impl ObjectChanges {
    fn of(of: StoreReads) -> Self {
        ObjectChanges { of, versions: Some(Vec::new()) }
    }

    /// The objects that have changed in `reads`, with others. `changed` are the stores that have changed. `None` if some objects
    /// are not known.
    pub(crate) fn known(&self, changed: StoreReads, reads: StoreReads) -> Option<&[AnyObject]> {
        if !changed.intersects(reads) {
            return Some(&[]);
        }
        let misses_some = changed.without(self.of).intersects(reads);
        self.versions.as_deref().filter(|_| !misses_some)
    }
}

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
    objects: ObjectChanges,
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

    /// Takes the stores that changed, the changes of nodes and those of objects, and clears them.
    pub(crate) fn take(&mut self) -> (StoreReads, Vec<RowChange>, ObjectChanges) {
        self.all_changed = false;
        let next = ObjectChanges::of(self.objects.of);
        let objects = std::mem::replace(&mut self.objects, next);
        (std::mem::take(&mut self.stores), std::mem::take(&mut self.log), objects)
    }

    /// From now on the objects in these stores are wanted. None may have changed since changes were last taken.
    pub(crate) fn keep_objects(&mut self, of: StoreReads) {
        self.objects.of = of;
    }

    /// Whether objects of a kind are wanted.
    pub(super) fn keeps_objects(&self, kind: KindRef) -> bool {
        self.are_kept
            && self.objects.versions.is_some()
            && self.objects.of.intersects(StoreReads::of_kind(kind))
    }

    /// Records an object as it was before it changed, or as it is since.
    pub(super) fn note_object(&mut self, object: AnyObject) {
        let Some(versions) = &mut self.objects.versions else { return };
        match versions.len() < MOST_OBJECTS {
            true => versions.push(object),
            false => self.objects.versions = None,
        }
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
