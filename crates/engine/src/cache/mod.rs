//! The cluster as the engine knows it: nodes, the pods on them, and assumed pods.

mod changes;
mod state;
mod undo;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use plimsoll_api::{AnyObject, HostPort, KindRef, Node, ObjectKey, Pod, Str};
use plimsoll_framework::parts::{NodeReads, PodReads, StoreReads};
use plimsoll_framework::points::ProvidePoint;
use plimsoll_framework::{Assumption, Columns, PodInfo, Row, Stores, Time, View};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

pub(crate) use self::changes::{Changes, ObjectChanges, RowChange};
pub(crate) use self::undo::Savepoint;
use self::undo::UndoLog;
use crate::as_they_were::AsTheyWere;
use crate::by_pod::ByPod;
use crate::names::PodId;
use crate::signature;

/// The label that names the zone of a node, and the one that names its region.
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
/// The deprecated names of these labels, which still count if a node has them.
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// A pod on a node.
#[derive(Clone, Debug)]
struct CachedPod {
    pod: PodInfo,
    /// Its position in the columns, if its node is known.
    at: Option<(Row, usize)>,
    /// Placed by this scheduler, but not observed on its node yet.
    assumed: bool,
}

impl CachedPod {
    fn node(&self) -> &Str {
        self.pod.node().expect("only pods that have a node are taken in")
    }
}

/// How it is known that a pod is on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It was observed there.
    Seen,
    /// It was placed by this scheduler, but not observed there yet.
    Assumed,
    /// The same, but it was placed only on trial, in the cycle of its group.
    OnTrial,
}

/// The state of a pod before it was observed on its node.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) pod: PodInfo,
    /// Whether it was only assumed.
    pub(crate) assumed: bool,
}

/// A change of a node.
#[derive(Debug)]
pub(crate) struct NodeUpdate {
    pub(crate) before: Option<Arc<Node>>,
    pub(crate) changed: NodeReads,
}

/// A state of the cluster, and when it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The [revision](Cache::revision) of the cluster.
    pub(crate) revision: u64,
    pub(crate) now: Time,
}

/// The cluster as the engine knows it.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    changes: Changes,
    /// Grows with every change of what plugins can read, except the time.
    revision: u64,
    /// The stores on which the order of the queue depends, and a number that grows when they change.
    order_reads: StoreReads,
    order_revision: u64,
    /// How many cycles of groups there have been.
    n_group_cycles: u64,
    columns: Columns,
    stores: Stores,
    /// They say for which resources something else than a node stands.
    providers: Vec<ProvidePoint>,
    rows: HashMap<Str, Row, FxBuildHasher>,
    /// Nodes by zone, both in the order in which they were added.
    zones: Vec<(Str, Vec<Row>)>,
    /// All rows, zones in turn, once they were asked for; derived from `zones`.
    by_zone: OnceCell<Arc<[Row]>>,
    pods: ByPod<CachedPod>,
    /// The pods on each node, in their order there.
    on_rows: Vec<SmallVec<[PodId; 4]>>,
    /// Pods on nodes that are not known, by node.
    homeless: BTreeMap<Str, Vec<PodId>>,
    undo: UndoLog,
    /// The pods and nodes of a snapshot that is taken in parts.
    pods_before: AsTheyWere<PodInfo>,
    nodes_before: AsTheyWere<Arc<Node>>,
}

impl Cache {
    /// Adds or updates a node.
    pub(crate) fn set_node(&mut self, node: Node) -> NodeUpdate {
        self.revision += 1;
        let name = node.name.clone();
        let zone = zone_of(&node);
        self.log_node(&name, Some(&node));
        let Some(&row) = self.rows.get(&name) else {
            self.images_change(None, Some(&node));
            let row = self.columns.add(node);
            self.nodes_before.changes(row.index(), || None);
            self.rows.insert(name.clone(), row);
            self.enter_zone(row, zone);
            if self.on_rows.len() == row.index() {
                self.on_rows.push(SmallVec::new());
            }
            for id in self.homeless.remove(&name).unwrap_or_default() {
                let pod = self.pods[id].pod.clone();
                self.pods[id].at = Some(self.put_on_row(id, &pod, row));
            }
            self.changes.note(RowChange::Came(row));
            return NodeUpdate { before: None, changed: NodeReads::all() };
        };
        let before = self.columns.node(row).clone();
        // Nodes are updated often, while their images are many and rarely change.
        if before.images != node.images {
            self.images_change(Some(&before), Some(&node));
        }
        let changed = self.columns.set(row, node);
        if !changed.is_empty() {
            self.changes.note(RowChange::Node(row, changed, before.clone()));
        }
        if zone_of(&before) != zone {
            self.leave_zone(row, &zone_of(&before));
            self.enter_zone(row, zone);
        }
        NodeUpdate { before: Some(before), changed }
    }

    /// Removes a node. Its pods stay known until they are deleted themselves.
    pub(crate) fn remove_node(&mut self, name: &Str) -> Option<Arc<Node>> {
        self.log_node(name, None);
        let row = self.rows.remove(name)?;
        self.revision += 1;
        let before = self.columns.node(row).clone();
        self.images_change(Some(&before), None);
        self.leave_zone(row, &zone_of(&before));
        let displaced = self.columns.remove(row);
        self.changes.note(RowChange::Gone(row, before.clone(), displaced));
        let pods = std::mem::take(&mut self.on_rows[row.index()]).into_vec();
        for &id in &pods {
            self.pods[id].at = None;
        }
        if !pods.is_empty() {
            self.homeless.insert(name.clone(), pods);
        }
        Some(before)
    }

    fn images_change(&mut self, before: Option<&Node>, now: Option<&Node>) {
        if before.into_iter().chain(now).any(|node| !node.images.is_empty()) {
            self.changes.stores |= StoreReads::IMAGES;
        }
        self.stores.images.set(before, now);
    }

    /// Adds or updates a pod that was observed on its node, and returns its previous state, if any.
    pub(crate) fn set_pod(&mut self, id: PodId, pod: PodInfo) -> Option<Before> {
        self.revision += 1;
        self.log_pod(id, pod.node());
        let Some(known) = self.pods.get_mut(id) else {
            let row = pod.node().and_then(|node| self.row(node));
            self.put(id, pod, row, Known::Seen);
            return None;
        };
        if known.pod.node() != pod.node() {
            let assumed = known.assumed;
            let before = self.take(id)?;
            let row = pod.node().and_then(|node| self.row(node));
            self.put(id, pod, row, Known::Seen);
            return Some(Before { pod: before, assumed });
        }
        if let Some((row, at)) = known.at {
            self.columns.exchange(row, at, &pod);
            // A pod with host ports uses them again, even if a removed pod has freed one of them.
            if !pod.host_ports.is_empty() || !is_as_it_was(&known.pod, &pod) {
                self.changes.note(RowChange::Displaced(row, known.pod.clone()));
                self.changes.note(RowChange::Placed(row, pod.clone()));
            } else if !signature::are_alike(PodReads::empty(), &known.pod, &pod) {
                // No filter and no score reads this, but preemption reads when pods started.
                self.changes.note(RowChange::Touched(row));
            }
        }
        let assumed = std::mem::replace(&mut known.assumed, false);
        let before = std::mem::replace(&mut known.pod, pod.clone());
        if before.labels != pod.labels {
            self.member_is_displaced(&before);
            self.member_is_placed(&pod, false);
        }
        Some(Before { pod: before, assumed })
    }

    /// Assumes a pod on its node, which is in `row`, before it is observed there.
    pub(crate) fn assume(&mut self, id: PodId, pod: PodInfo, row: Row) {
        self.log_pod(id, pod.node());
        self.put(id, pod, Some(row), Known::Assumed);
    }

    /// The same in the cycle of its group, on trial. Returns those of its ports that are in use there already.
    pub(crate) fn assume_on_trial(&mut self, id: PodId, pod: PodInfo, row: Row) -> Vec<HostPort> {
        let shared = self.columns.ports_in_use(row, &pod.host_ports);
        self.log_pod(id, pod.node());
        self.put(id, pod, Some(row), Known::OnTrial);
        shared
    }

    /// Reverts an assumption, and returns the pod if it was still only assumed.
    pub(crate) fn forget(&mut self, id: PodId) -> Option<PodInfo> {
        self.pods.get(id).filter(|cached| cached.assumed)?;
        self.log_pod(id, None);
        self.take(id)
    }

    /// Reverts an assumption that was made on trial. The pod may have been on the node of its victims together with them: ports
    /// that were in use before are in use again.
    pub(crate) fn take_back(&mut self, id: PodId, shared: &[HostPort]) {
        let at = self.pods.get(id).and_then(|cached| cached.at);
        if let (Some(_), Some((row, _))) = (self.forget(id), at) {
            self.columns.use_again(row, shared);
        }
    }

    /// Removes a pod, and returns it if it was known.
    pub(crate) fn remove_pod(&mut self, id: PodId) -> Option<PodInfo> {
        self.log_pod(id, None);
        self.take(id)
    }

    fn put(&mut self, id: PodId, pod: PodInfo, row: Option<Row>, known: Known) {
        self.revision += 1;
        let at = row.map(|row| self.settle(id, &pod, row));
        self.member_is_placed(&pod, known == Known::OnTrial);
        let cached = CachedPod { pod, at, assumed: known != Known::Seen };
        if at.is_none() {
            self.homeless.entry(cached.node().clone()).or_default().push(id);
        }
        self.pods.insert(id, cached);
    }

    /// Puts a pod onto a known node, and returns its position.
    fn settle(&mut self, id: PodId, pod: &PodInfo, row: Row) -> (Row, usize) {
        self.changes.note(RowChange::Placed(row, pod.clone()));
        self.put_on_row(id, pod, row)
    }

    fn put_on_row(&mut self, id: PodId, pod: &PodInfo, row: Row) -> (Row, usize) {
        self.columns.place(row, pod);
        let on_row = &mut self.on_rows[row.index()];
        on_row.push(id);
        (row, on_row.len() - 1)
    }

    fn take(&mut self, id: PodId) -> Option<PodInfo> {
        let cached = self.pods.remove(id)?;
        self.revision += 1;
        self.member_is_displaced(&cached.pod);
        match cached.at {
            Some((row, at)) => {
                let pod = self.columns.displace_at(row, at);
                self.changes.note(RowChange::Displaced(row, pod));
                let on_row = &mut self.on_rows[row.index()];
                on_row.swap_remove(at);
                if let Some(&moved) = on_row.get(at) {
                    self.pods[moved].at = Some((row, at));
                }
            }
            None => {
                if let Some(pods) = self.homeless.get_mut(cached.node()) {
                    pods.retain(|&other| other != id);
                    if pods.is_empty() {
                        self.homeless.remove(cached.node());
                    }
                }
            }
        }
        Some(cached.pod)
    }

    /// Counts a pod of a group that is on a node.
    fn member_is_placed(&mut self, pod: &PodInfo, is_on_trial: bool) {
        if pod.scheduling_group.is_some() {
            self.changes.stores |= StoreReads::GROUPS;
            match is_on_trial {
                true => self.stores.groups.is_on_trial(pod),
                false => self.stores.groups.is_placed(pod),
            }
        }
        if !self.stores.labelled.is_empty() && self.stores.labelled.is_placed(pod) {
            self.changes.stores |= StoreReads::GROUPS;
        }
    }

    /// A pod of a group is no longer on a node.
    fn member_is_displaced(&mut self, pod: &PodInfo) {
        if pod.scheduling_group.is_some() {
            self.changes.stores |= StoreReads::GROUPS;
            self.stores.groups.is_displaced(pod);
        }
        if !self.stores.labelled.is_empty() && self.stores.labelled.is_displaced(pod) {
            self.changes.stores |= StoreReads::GROUPS;
        }
    }

    /// Whether a pod is on a node, or assumed to be.
    pub(crate) fn knows(&self, id: PodId) -> bool {
        self.pods.has(id)
    }

    /// The pods on nodes, in no particular order.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &PodInfo> {
        self.pods.iter().map(|(_, cached)| &cached.pod)
    }

    /// Those of the pods on nodes of whose ids `is_meant` is true, in no particular order.
    pub(crate) fn pods_of(
        &self,
        is_meant: impl Fn(PodId) -> bool,
    ) -> impl Iterator<Item = &PodInfo> {
        let all = self.pods.iter().filter(move |(id, _)| is_meant(*id));
        all.map(|(_, cached)| &cached.pod)
    }

    /// The row of the node that a pod is on, if the node is known.
    pub(crate) fn row_of(&self, id: PodId) -> Option<Row> {
        self.pods.get(id)?.at.map(|(row, _)| row)
    }

    /// A pod, if it is on a node or assumed to be.
    pub(crate) fn pod(&self, id: PodId) -> Option<&PodInfo> {
        self.pods.get(id).map(|cached| &cached.pod)
    }

    /// A pod, if it was observed on its node.
    pub(crate) fn seen(&self, id: PodId) -> Option<&PodInfo> {
        self.pods.get(id).filter(|cached| !cached.assumed).map(|cached| &cached.pod)
    }

    /// A pod, if it is assumed to be on a node but was not observed there yet.
    pub(crate) fn assumed(&self, id: PodId) -> Option<&PodInfo> {
        self.pods.get(id).filter(|cached| cached.assumed).map(|cached| &cached.pod)
    }

    /// The row of the node named `name`.
    pub(crate) fn row(&self, name: &str) -> Option<Row> {
        self.rows.get(name).copied()
    }

    /// From now on pods, nodes and objects can be read as they are at this moment.
    pub(crate) fn begin_to_read(&mut self) {
        self.pods_before.begin();
        self.nodes_before.begin();
        self.stores.objects.begin_list();
    }

    /// Pods, nodes and objects are no longer read.
    pub(crate) fn end_reading(&mut self) {
        self.pods_before.end();
        self.nodes_before.end();
        self.stores.objects.end_list();
    }

    /// How many pods and nodes are kept because they have changed before they were read.
    #[cfg(test)]
    pub(crate) fn n_kept(&self) -> usize {
        self.pods_before.n_kept() + self.nodes_before.n_kept()
    }

    /// The pod as it was when [reading began](Self::begin_to_read), if it was on a node then. Ids are read in their order.
    pub(crate) fn read_pod(&mut self, id: PodId) -> Option<PodInfo> {
        let now = || self.pods.get(id).map(|cached| cached.pod.clone());
        self.pods_before.read(id.index(), now)
    }

    /// The node of a row as it was when reading began. Rows are read in their order.
    pub(crate) fn read_node(&mut self, row: Row) -> Option<Arc<Node>> {
        let now = || {
            let node = self.columns.node(row);
            (self.rows.get(&node.name) == Some(&row)).then(|| node.clone())
        };
        self.nodes_before.read(row.index(), now)
    }

    /// How many rows there are, with those that hold no node now.
    pub(crate) fn n_rows(&self) -> usize {
        self.on_rows.len()
    }

    /// Adds objects as they were when reading began. Returns how many it looked at; `None` if these were the last.
    pub(crate) fn read_objects(&mut self, most: usize, list: &mut Vec<AnyObject>) -> Option<usize> {
        self.stores.objects.list_more(most, list)
    }

    /// The cluster for plugins.
    pub(crate) fn view(&self) -> View<'_> {
        View { nodes: &self.columns, stores: &self.stores }
    }

    /// Sets the current time, which plugins may read.
    pub(crate) fn set_now(&mut self, now: Time) {
        self.stores.now = now;
    }

    /// A group is decided from now on. What its pods hold in this cycle is known as such to those after them.
    pub(crate) fn begin_group_cycle(&mut self) {
        self.n_group_cycles += 1;
        self.revision += 1;
        self.stores.objects.set_cycle(self.n_group_cycles);
    }

    /// The group is decided.
    pub(crate) fn end_group_cycle(&mut self) {
        self.revision += 1;
        self.stores.objects.set_cycle(0);
    }

    /// A number that is the same only if nothing that plugins can read has changed, except the time.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// What is the same only if nothing that plugins can read has changed.
    pub(crate) fn moment(&self) -> Moment {
        Moment { revision: self.revision, now: self.stores.now }
    }

    /// The stores, to change those in `stores`.
    pub(crate) fn stores_mut(&mut self, stores: StoreReads) -> &mut Stores {
        self.revision += 1;
        self.changes.stores |= stores;
        if stores.intersects(self.order_reads) {
            self.order_revision += 1;
        }
        &mut self.stores
    }

    /// Changes an object with this key in its store.
    pub(crate) fn change_object<T>(
        &mut self,
        kind: KindRef,
        key: impl Fn() -> ObjectKey,
        change: impl FnOnce(&mut Stores) -> T,
    ) -> T {
        self.log_object(kind, &key);
        self.note_object(kind, &key);
        let result = change(self.stores_mut(StoreReads::of_kind(kind)));
        self.note_object(kind, &key);
        result
    }

    /// Records an object before or after a change, if somebody wants to know.
    fn note_object(&mut self, kind: KindRef, key: impl FnOnce() -> ObjectKey) {
        if !self.changes.keeps_objects(kind) {
            return;
        }
        let Some(entry) = self.stores.objects.entry(kind, &key()) else { return };
        for object in [entry.observed, entry.assumed].into_iter().flatten() {
            self.changes.note_object(object);
        }
    }

    /// From now on the order of the queue depends on these stores.
    pub(crate) fn set_order_reads(&mut self, stores: StoreReads) {
        self.order_reads = stores;
    }

    /// Whether the order of the queue depends on objects.
    pub(crate) fn is_order_by_objects(&self) -> bool {
        !self.order_reads.is_empty()
    }

    /// A number that is the same only if nothing has changed on which the order of the queue depends.
    pub(crate) fn order_revision(&self) -> u64 {
        self.order_revision
    }

    /// From now on pods are grouped by `label`. If pods are known already, they must be [told](Self::regroup_pods).
    pub(crate) fn group_pods_by(&mut self, label: &'static str) {
        self.stores.labelled.keep(label);
    }

    /// Groups all pods by their labels again: `known` are all that there are, as last observed.
    pub(crate) fn regroup_pods<'a>(&mut self, known: impl Iterator<Item = &'a Pod>) {
        let on_nodes: Vec<PodInfo> = self.pods().cloned().collect();
        let groups = &mut self.stores_mut(StoreReads::GROUPS).labelled;
        for pod in known {
            groups.is_known(pod);
        }
        for pod in &on_nodes {
            groups.is_placed(pod);
        }
    }

    /// A pod is known, and was `before`: groups by label have it.
    pub(crate) fn pod_is_known(&mut self, before: Option<&Pod>, pod: &Pod) {
        if self.stores.labelled.is_empty() {
            return;
        }
        let is_as_it_was = |before: &Pod| {
            (&before.labels, &before.scheduling_gates, &before.scheduling_group)
                == (&pod.labels, &pod.scheduling_gates, &pod.scheduling_group)
        };
        if before.is_some_and(is_as_it_was) {
            return;
        }
        let groups = &mut self.stores_mut(StoreReads::GROUPS).labelled;
        if let Some(before) = before {
            groups.is_gone(before);
        }
        groups.is_known(pod);
    }

    /// A pod is no longer known: groups by label lose it.
    pub(crate) fn pod_is_unknown(&mut self, pod: &Pod) {
        if !self.stores.labelled.is_empty() && self.stores.labelled.is_gone(pod) {
            self.changes.stores |= StoreReads::GROUPS;
        }
    }

    /// Records changes from now on, until they are taken.
    pub(crate) fn keep_changes(&mut self) {
        self.changes.keep();
    }

    /// The cluster, and the changes since they were last taken.
    pub(crate) fn with_changes(&mut self) -> (View<'_>, &mut Changes) {
        let view = View { nodes: &self.columns, stores: &self.stores };
        (view, &mut self.changes)
    }

    /// The number of nodes, of pods, and of assumed pods.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        let assumed = self.pods.iter().filter(|(_, pod)| pod.assumed).count();
        [self.columns.len(), self.pods.len(), assumed]
    }

    /// From now on these say for which resources something else than a node stands.
    pub(crate) fn set_providers(&mut self, providers: Vec<ProvidePoint>) {
        self.providers = providers;
    }

    /// The same while the cluster is known: asks at once, and nothing that was found out with the ones before holds.
    pub(crate) fn replace_providers(&mut self, providers: Vec<ProvidePoint>) {
        self.providers = providers;
        self.revision += 1;
        self.ask_providers();
    }

    /// Objects of this kind have changed: asks again for which resources something else than a node stands.
    pub(crate) fn objects_changed(&mut self, kind: KindRef) {
        if self.providers.iter().all(|one| !one.kinds().contains(&kind)) {
            return;
        }
        self.ask_providers();
    }

    fn ask_providers(&mut self) {
        let view = self.view();
        let provided = self.providers.iter().flat_map(|one| one.resources(&view)).collect();
        if *self.columns.provided() != provided {
            self.columns.set_provided(provided);
            self.revision += 1;
            // It concerns all nodes.
            self.changes.keep_again();
        }
    }

    /// From now on objects of `kind` are kept.
    pub(crate) fn keep(&mut self, kind: KindRef) {
        self.stores.keep(kind);
    }

    /// Does what a plugin wants to be assumed of objects. What is gone meanwhile is passed over.
    pub(crate) fn assume_objects(&mut self, said: Vec<Assumption>) {
        for assumption in said {
            match assumption {
                Assumption::Is(object) => {
                    let key = || object.key();
                    self.change_object(object.kind(), key, |stores| stores.assume(&object));
                }
                Assumption::Held(object) => {
                    let key = || object.key();
                    self.change_object(object.kind(), key, |stores| stores.hold(&object));
                }
                Assumption::AsSeen(kind, key) => {
                    let of = || key.clone();
                    self.change_object(kind, of, |stores| stores.restore(kind, &key));
                }
            }
        }
    }

    /// All rows, taking one node of each zone in turn. As in node_tree.go, list. They are put in order
    /// again only after a node was added, was removed or has changed its zone.
    pub(crate) fn rows_by_zone(&self) -> Arc<[Row]> {
        let in_turn = || {
            let mut left: Vec<_> = self.zones.iter().map(|(_, rows)| rows.iter()).collect();
            let mut in_turn = Vec::with_capacity(self.columns.len());
            while !left.is_empty() {
                left.retain_mut(|rows| rows.next().map(|&row| in_turn.push(row)).is_some());
            }
            in_turn.into()
        };
        self.by_zone.get_or_init(in_turn).clone()
    }

    fn enter_zone(&mut self, row: Row, zone: Str) {
        self.by_zone.take();
        match self.zones.iter_mut().find(|(name, _)| *name == zone) {
            Some((_, rows)) => rows.push(row),
            None => self.zones.push((zone, vec![row])),
        }
    }

    fn leave_zone(&mut self, row: Row, zone: &Str) {
        self.by_zone.take();
        let Some(at) = self.zones.iter().position(|(name, _)| name == zone) else { return };
        self.zones[at].1.retain(|&other| other != row);
        if self.zones[at].1.is_empty() {
            self.zones.remove(at);
        }
    }
}

/// Whether an update of a pod on its node makes no difference to others. The pod and the node are the
/// same.
fn is_as_it_was(before: &PodInfo, pod: &PodInfo) -> bool {
    const SAME: PodReads =
        PodReads::KEY.union(PodReads::NAMESPACE).union(PodReads::UID).union(PodReads::PINNED_NODE);
    before.is_terminating() == pod.is_terminating()
        && signature::parts_are_alike(PodReads::all().difference(SAME), before, pod)
}

/// Region and zone as one text. As in component-helpers' GetZoneKey: empty if a node has neither.
fn zone_of(node: &Node) -> Str {
    let label =
        |old, new| node.labels.get(old).or_else(|| node.labels.get(new)).map_or("", Str::as_str);
    match (label(OLD_REGION, REGION), label(OLD_ZONE, ZONE)) {
        ("", "") => Str::default(),
        (region, zone) => Str::from(format!("{region}:\0:{zone}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_api::{Pod, PodKey, PodTemplate};

    fn node(name: &str, zone: &str) -> Node {
        let labels = [(ZONE, zone)].into_iter().collect();
        Node { name: name.into(), labels, ..Node::default() }
    }

    fn pod(name: &str) -> PodInfo {
        let mut pod = Pod { key: PodKey::new("default", name), ..Pod::default() };
        pod.requests.milli_cpu = 100;
        PodInfo::new(pod).placed_on("a".into())
    }

    #[test]
    fn a_pod_waits_for_its_node_and_outlives_it() {
        let mut cache = Cache::default();
        cache.set_pod(PodId::from_index(0), pod("p"));
        cache.set_node(node("a", "z"));
        let row = cache.row("a").expect("the node is known");
        assert_eq!(cache.view().nodes.requested_of(row).milli_cpu, 100);
        cache.remove_node(&"a".into());
        assert!(cache.row("a").is_none());
        cache.set_node(node("a", "z"));
        let row = cache.row("a").expect("the node is back");
        assert_eq!(cache.view().nodes.requested_of(row).milli_cpu, 100);
    }

    #[test]
    fn pods_that_are_there_are_in_the_groups_of_a_new_label() {
        let (mut cache, label) = (Cache::default(), "team");
        let labelled = |name: &str| {
            let mut pod = Pod { key: PodKey::new("default", name), ..Pod::default() };
            pod.labels = [(label, "x")].into_iter().collect();
            pod
        };
        let known = [labelled("p"), labelled("q")];
        cache.set_node(node("a", "z"));
        let placed = PodInfo::new(labelled("p")).placed_on("a".into());
        cache.set_pod(PodId::from_index(0), placed);
        // Nothing is counted twice if the label is not new.
        for _ in 0..2 {
            cache.group_pods_by(label);
            cache.regroup_pods(known.iter());
            let key = plimsoll_api::ObjectKey::new("default", "x");
            let group = cache.view().stores.labelled.get(label, &key);
            let counts = group.map(|group| (group.n_pods(), group.placed().len()));
            assert_eq!(counts, Some((2, 1)));
        }
    }

    #[test]
    fn an_assumed_pod_can_be_forgotten_until_it_is_seen() {
        let mut cache = Cache::default();
        cache.set_node(node("a", "z"));
        let (row, id) = (cache.row("a").expect("the node is known"), PodId::from_index(0));
        cache.assume(id, pod("p"), row);
        assert!(cache.forget(id).is_some());
        cache.assume(id, pod("p"), row);
        cache.set_pod(id, pod("p"));
        assert!(cache.forget(id).is_none());
        assert_eq!(cache.view().nodes.pods_on(row).len(), 1);
    }

    /// Two pods of somebody else have one port, which the first of them to leave frees, as in kube-scheduler.
    #[test]
    fn a_trial_leaves_the_ports_of_a_node_as_they_were() {
        let port = HostPort { protocol: "TCP".into(), ip: "0.0.0.0".into(), port: 80 };
        let with_port = |name: &str| {
            let mut template = PodTemplate::clone(&Pod::default().template);
            template.host_ports = vec![port.clone()];
            let key = PodKey::new("default", name);
            let pod = Pod { key, template: Arc::new(template), ..Pod::default() };
            PodInfo::new(pod).placed_on("a".into())
        };
        let mut cache = Cache::default();
        cache.set_node(node("a", "z"));
        let row = cache.row("a").expect("the node is known");
        for (id, name) in [(0, "p"), (1, "q")] {
            cache.set_pod(PodId::from_index(id), with_port(name));
        }
        let trial = PodId::from_index(2);
        for expected in [vec![port.clone()], vec![]] {
            let shared = cache.assume_on_trial(trial, with_port("r"), row);
            cache.take_back(trial, &shared);
            let ports = std::slice::from_ref(&port);
            assert_eq!(cache.view().nodes.ports_in_use(row, ports), expected);
            cache.remove_pod(PodId::from_index(0));
        }
    }

    #[test]
    fn pods_of_a_node_are_found_whichever_of_them_left() {
        let mut cache = Cache::default();
        cache.set_node(node("a", "z"));
        for (id, name) in [(0, "p"), (1, "q"), (2, "r"), (3, "s")] {
            cache.set_pod(PodId::from_index(id), pod(name));
        }
        for (gone, left) in [(1, 300), (3, 200), (0, 100), (2, 0)] {
            assert!(cache.remove_pod(PodId::from_index(gone)).is_some());
            let row = cache.row("a").expect("the node is known");
            assert_eq!(cache.view().nodes.requested_of(row).milli_cpu, left);
        }
    }

    #[test]
    fn zones_take_turns_in_the_order_of_nodes() {
        let mut cache = Cache::default();
        for (name, zone) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "z"), ("e", "y")] {
            cache.set_node(node(name, zone));
        }
        let view = cache.view();
        let names: Vec<_> =
            cache.rows_by_zone().iter().map(|&row| view.nodes.name_of(row).as_str()).collect();
        assert_eq!(names, ["a", "c", "d", "b", "e"]);
    }
}
