//! Undoes changes of the cluster: exactly, in the opposite order.
//!
//! While there is a [`Savepoint`], each change of a pod, a node or an object first records what it is about to change.
//! To roll back, the records are applied from the last one to that of the savepoint. Each is a change of the cluster
//! like any other, which derived data follows; so rolling back costs as much as the changes did.

use std::sync::Arc;

use plimsoll_api::{AnyEntry, Histories, KindRef, Node, ObjectKey, Str};
use plimsoll_framework::parts::{NodeReads, StoreReads};
use plimsoll_framework::{Row, RowPods};
use smallvec::SmallVec;

use super::{Cache, CachedPod, RowChange, zone_of};
use crate::names::PodId;

/// A state of the cluster to which it can be rolled back.
#[derive(Debug)]
pub(crate) struct Savepoint {
    /// The number of records before it.
    n_undos: usize,
    revision: u64,
}

/// What was changed since the first savepoint.
#[derive(Debug, Default)]
pub(super) struct UndoLog {
    /// How many savepoints there are.
    depth: usize,
    undos: Vec<Undo>,
}

/// How to undo one change.
#[derive(Debug)]
pub(super) enum Undo {
    Pod(Box<PodBefore>),
    Node(Box<NodeBefore>),
    Object { kind: KindRef, key: ObjectKey, before: Option<AnyEntry>, histories: Histories },
}

#[derive(Debug)]
pub(super) struct PodBefore {
    id: PodId,
    /// The pod, if it was there.
    known: Option<CachedPod>,
    rows: SmallVec<[RowBefore; 2]>,
    homeless: Homeless,
}

/// The pods of a row.
#[derive(Debug)]
pub(super) struct RowBefore {
    row: Row,
    pods: RowPods,
    ids: SmallVec<[PodId; 4]>,
}

/// The pods whose node is unknown, for some nodes.
type Homeless = SmallVec<[(Str, Option<Vec<PodId>>); 1]>;

#[derive(Debug)]
pub(super) struct NodeBefore {
    name: Str,
    /// The node, if it was there.
    known: Option<KnownNode>,
    homeless: Homeless,
    image_sizes: Vec<(Str, i64)>,
}

#[derive(Debug)]
struct KnownNode {
    node: Arc<Node>,
    pods: RowBefore,
    /// The place of its zone among the zones, and its place there.
    zone: (usize, usize),
}

impl Undo {
    /// Whether a node itself changes, and not only the pods on it.
    fn is_of_node(&self) -> bool {
        matches!(self, Undo::Node(_))
    }
}

impl Cache {
    /// From now on changes can be undone, until the savepoint is [committed](Self::commit) or
    /// [rolled back](Self::is_rolled_back).
    pub(crate) fn savepoint(&mut self) -> Savepoint {
        self.undo.depth += 1;
        Savepoint { n_undos: self.undo.undos.len(), revision: self.revision }
    }

    /// Keeps the changes since a savepoint, as far as there is none before it.
    pub(crate) fn commit(&mut self, _: Savepoint) {
        self.undo.depth -= 1;
        if self.undo.depth == 0 {
            self.undo.undos.clear();
        }
    }

    /// Ends a savepoint after all changes since have been undone.
    pub(crate) fn is_rolled_back(&mut self, to: Savepoint) {
        debug_assert_eq!(self.undo.undos.len(), to.n_undos, "all changes were undone");
        self.revision = to.revision;
        self.commit(to);
    }

    /// Whether the next change to undo until a savepoint is one of a node itself; `None` if there is no more.
    pub(crate) fn next_undo_is_of_node(&self, to: &Savepoint) -> Option<bool> {
        let undos = self.undo.undos.get(to.n_undos..)?;
        undos.last().map(Undo::is_of_node)
    }

    /// Undoes the last change.
    pub(crate) fn undo_last(&mut self) {
        match self.undo.undos.pop() {
            Some(Undo::Pod(before)) => self.undo_pod(*before),
            Some(Undo::Node(before)) => self.undo_node(*before),
            Some(Undo::Object { kind, key, before, histories }) => {
                self.changes.stores |= StoreReads::of_kind(kind);
                self.note_object(kind, || key.clone());
                self.stores.objects.put_back(kind, &key, before.as_ref());
                self.stores.objects.put_back_histories(kind, &histories);
                self.note_object(kind, || key.clone());
                self.objects_changed(kind);
            }
            None => {}
        }
    }

    /// Records a pod that is about to be added, changed or removed. `now` is its node after that.
    pub(super) fn log_pod(&mut self, id: PodId, now: Option<&Str>) {
        self.pods_before.changes(id.index(), || self.pods.get(id).map(|known| known.pod.clone()));
        if self.undo.depth == 0 {
            return;
        }
        let known = self.pods.get(id).cloned();
        let nodes: SmallVec<[Str; 2]> =
            known.iter().map(|known| known.node().clone()).chain(now.cloned()).collect();
        let mut rows: SmallVec<[Row; 2]> = nodes.iter().filter_map(|name| self.row(name)).collect();
        rows.dedup();
        let rows = rows.into_iter().map(|row| self.row_before(row)).collect();
        let homeless = nodes.iter().map(|node| self.homeless_of(node)).collect();
        let before = PodBefore { id, known, rows, homeless };
        self.undo.undos.push(Undo::Pod(Box::new(before)));
    }

    /// Records a node that is about to become `now`.
    pub(super) fn log_node(&mut self, name: &Str, now: Option<&Node>) {
        if let Some(&row) = self.rows.get(name) {
            self.nodes_before.changes(row.index(), || Some(self.columns.node(row).clone()));
        }
        if self.undo.depth == 0 {
            return;
        }
        let known = self.row(name).map(|row| {
            let node = self.columns.node(row).clone();
            let zone = zone_of(&node);
            let at = self.zones.iter().position(|(name, _)| *name == zone);
            let at = at.expect("every node is in a zone");
            let there = self.zones[at].1.iter().position(|&other| other == row);
            let zone = (at, there.expect("the node is in its zone"));
            KnownNode { node, pods: self.row_before(row), zone }
        });
        let nodes = known.as_ref().map(|known| &*known.node).into_iter().chain(now);
        let image_sizes = self.stores.images.sizes_of(nodes);
        let homeless = SmallVec::from_iter([self.homeless_of(name)]);
        let before = NodeBefore { name: name.clone(), known, homeless, image_sizes };
        self.undo.undos.push(Undo::Node(Box::new(before)));
    }

    /// Records an object that is about to be changed.
    pub(super) fn log_object(&mut self, kind: KindRef, key: impl FnOnce() -> ObjectKey) {
        if self.undo.depth == 0 {
            return;
        }
        let key = key();
        let before = self.stores.objects.entry(kind, &key);
        let histories = self.stores.objects.histories(kind);
        self.undo.undos.push(Undo::Object { kind, key, before, histories });
    }

    fn row_before(&self, row: Row) -> RowBefore {
        let ids = self.on_rows[row.index()].clone();
        RowBefore { row, pods: self.columns.row_pods(row), ids }
    }

    fn homeless_of(&self, node: &Str) -> (Str, Option<Vec<PodId>>) {
        (node.clone(), self.homeless.get(node).cloned())
    }

    fn undo_pod(&mut self, PodBefore { id, known, rows, homeless }: PodBefore) {
        if let Some(CachedPod { pod, at, .. }) = self.pods.remove(id) {
            self.member_is_displaced(&pod);
            if let Some((row, _)) = at {
                self.changes.note(RowChange::Displaced(row, pod));
            }
        }
        if let Some(known) = known {
            self.member_is_placed(&known.pod, false);
            if let Some((row, _)) = known.at {
                self.changes.note(RowChange::Placed(row, known.pod.clone()));
            }
            self.pods.insert(id, known);
        }
        for row in rows {
            self.put_back(row);
        }
        self.put_back_homeless(homeless);
    }

    /// Puts the pods of a row back, in their places.
    fn put_back(&mut self, RowBefore { row, pods, ids }: RowBefore) {
        self.columns.put_back(row, pods);
        for (at, &id) in ids.iter().enumerate() {
            self.pods[id].at = Some((row, at));
        }
        self.on_rows[row.index()] = ids;
    }

    fn put_back_homeless(&mut self, homeless: Homeless) {
        for (node, pods) in homeless {
            match pods {
                Some(pods) => _ = self.homeless.insert(node, pods),
                None => _ = self.homeless.remove(&node),
            }
        }
    }

    fn undo_node(&mut self, before: NodeBefore) {
        let NodeBefore { name, known, homeless, image_sizes } = before;
        let now = self.row(&name).map(|row| (row, self.columns.node(row).clone()));
        self.images_change(now.as_ref().map(|(_, node)| &**node), known.as_ref().map(|b| &*b.node));
        if let Some((row, now)) = &now {
            self.leave_zone(*row, &zone_of(now));
        }
        match (known, now) {
            (None, Some((row, now))) => {
                self.rows.remove(&name);
                for id in std::mem::take(&mut self.on_rows[row.index()]) {
                    self.pods[id].at = None;
                }
                let pods = self.columns.remove(row);
                self.changes.note(RowChange::Gone(row, now, pods));
            }
            (Some(known), None) => {
                let row = self.columns.add((*known.node).clone());
                debug_assert_eq!(row, known.pods.row, "rows are used again last in, first out");
                self.rows.insert(name, row);
                self.put_back_zone(row, &known);
                self.put_back(known.pods);
                self.changes.note(RowChange::Came(row));
            }
            (Some(known), Some((row, now))) => {
                let changed: NodeReads = self.columns.set(row, (*known.node).clone());
                self.put_back_zone(row, &known);
                if !changed.is_empty() {
                    self.changes.note(RowChange::Node(row, changed, now));
                }
            }
            (None, None) => {}
        }
        self.stores.images.set_sizes(&image_sizes);
        self.put_back_homeless(homeless);
    }

    fn put_back_zone(&mut self, row: Row, known: &KnownNode) {
        let (zone, (at, there)) = (zone_of(&known.node), known.zone);
        self.by_zone.take();
        if self.zones.get(at).is_none_or(|(name, _)| *name != zone) {
            self.zones.insert(at, (zone, Vec::new()));
        }
        self.zones[at].1.insert(there, row);
    }
}
