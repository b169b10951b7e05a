//! The nodes, by column.

use std::sync::Arc;

use plimsoll_api::{
    AvoidedController, HostPort, Labels, Node, NodeImage, NonZero, PodKey, Resources, Str, Taint,
};

use crate::parts::NodeReads;
use crate::pod_info::PodInfo;

/// The place of a node in [`Columns`]. A row is used again after its node is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(u32);

impl Row {
    /// The first row.
    pub(crate) const FIRST: Row = Row(0);

    /// The row at `index`.
    ///
    /// # Panics
    /// Beyond 2³² rows.
    pub fn from_index(index: usize) -> Self {
        Row(u32::try_from(index).expect("a cluster has fewer than 2^32 nodes"))
    }

    /// Its index, counted from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One property of every node.
#[derive(Clone, Debug)]
pub struct Column<T>(Vec<T>);

impl<T> Default for Column<T> {
    fn default() -> Self {
        Column(Vec::new())
    }
}

impl<T: Default + PartialEq> Column<T> {
    /// The value in `row`.
    #[inline]
    pub fn at(&self, row: Row) -> &T {
        &self.0[row.index()]
    }

    /// Puts `value` into `row`; whether it was another one before.
    fn set(&mut self, row: Row, value: T) -> bool {
        let cell = &mut self.0[row.index()];
        let changed = *cell != value;
        *cell = value;
        changed
    }

    fn push(&mut self) {
        self.0.push(T::default());
    }
}

/// What pods can use of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocatable(pub Resources);

/// What the pods on a node ask for together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requested(pub Resources);

/// What the pods on a node count for in scoring, together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NonZeroRequested(pub NonZero);

/// The pods on a node, in no particular order.
#[derive(Clone, Debug, Default)]
pub struct PodSet {
    all: Vec<PodInfo>,
    affinity: Vec<PodInfo>,
    anti_affinity: Vec<PodInfo>,
}

impl PodSet {
    /// All pods.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &PodInfo> {
        self.all.iter()
    }

    /// The pods with any affinity or anti-affinity term.
    pub fn with_affinity(&self) -> &[PodInfo] {
        &self.affinity
    }

    /// The pods with a required anti-affinity term.
    pub fn with_required_anti_affinity(&self) -> &[PodInfo] {
        &self.anti_affinity
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn insert(&mut self, pod: &PodInfo) {
        self.all.push(pod.clone());
        if !pod.affinity.is_empty() {
            self.affinity.push(pod.clone());
        }
        if !pod.affinity.required_anti.is_empty() {
            self.anti_affinity.push(pod.clone());
        }
    }

    fn remove(&mut self, key: &PodKey) -> Option<PodInfo> {
        let at = self.all.iter().position(|pod| pod.key == *key)?;
        self.affinity.retain(|pod| pod.key != *key);
        self.anti_affinity.retain(|pod| pod.key != *key);
        Some(self.all.swap_remove(at))
    }
}

/// What `NodeInfo` holds in kube-scheduler, turned sideways: one column for each property.
///
/// Only the engine writes here; plugins see the columns that they declare.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    live: Vec<bool>,
    free: Vec<Row>,
    pub(crate) name: Column<Str>,
    pub(crate) labels: Column<Labels>,
    pub(crate) annotations: Column<Labels>,
    pub(crate) avoided: Column<Vec<AvoidedController>>,
    pub(crate) taints: Column<Vec<Taint>>,
    pub(crate) unschedulable: Column<bool>,
    pub(crate) allocatable: Column<Allocatable>,
    pub(crate) images: Column<Vec<NodeImage>>,
    pub(crate) declared_features: Column<Vec<Str>>,
    pub(crate) requested: Column<Requested>,
    pub(crate) non_zero_requested: Column<NonZeroRequested>,
    pub(crate) used_ports: Column<Vec<HostPort>>,
    pub(crate) pods: Vec<PodSet>,
    node: Vec<Arc<Node>>,
}

impl Columns {
    /// Takes in a node and gives it a row.
    pub fn add(&mut self, node: Node) -> Row {
        let row = self.free.pop().unwrap_or_else(|| self.grow());
        self.live[row.index()] = true;
        self.set(row, node);
        row
    }

    /// Takes in what became of the node in `row`, and says which columns changed.
    pub fn set(&mut self, row: Row, node: Node) -> NodeReads {
        let mut changed = NodeReads::empty();
        changed.set(NodeReads::NAME, self.name.set(row, node.name.clone()));
        changed.set(NodeReads::LABELS, self.labels.set(row, node.labels.clone()));
        let annotations = self.annotations.set(row, node.annotations.clone());
        // What the node avoids stands in an annotation.
        let avoided = self.avoided.set(row, node.avoided.clone());
        changed.set(NodeReads::ANNOTATIONS, annotations || avoided);
        changed.set(NodeReads::TAINTS, self.taints.set(row, node.taints.clone()));
        changed.set(NodeReads::UNSCHEDULABLE, self.unschedulable.set(row, node.unschedulable));
        let allocatable = Allocatable(node.allocatable.clone());
        changed.set(NodeReads::ALLOCATABLE, self.allocatable.set(row, allocatable));
        changed.set(NodeReads::IMAGES, self.images.set(row, node.images.clone()));
        let features = node.declared_features.clone();
        changed.set(NodeReads::FEATURES, self.declared_features.set(row, features));
        self.node[row.index()] = Arc::new(node);
        changed
    }

    /// Forgets the node in `row` with all pods on it, and gives the pods back.
    pub fn remove(&mut self, row: Row) -> Vec<PodInfo> {
        self.live[row.index()] = false;
        self.free.push(row);
        self.set(row, Node::default());
        self.requested.set(row, Requested::default());
        self.non_zero_requested.set(row, NonZeroRequested::default());
        self.used_ports.set(row, Vec::new());
        std::mem::take(&mut self.pods[row.index()]).all
    }

    /// Puts a pod onto the node in `row`.
    pub fn place(&mut self, row: Row, pod: &PodInfo) {
        let i = row.index();
        self.requested.0[i].0.add(&pod.requests);
        self.non_zero_requested.0[i].0.add(pod.non_zero_requests);
        self.used_ports.0[i].extend(pod.host_ports.iter().cloned());
        self.pods[i].insert(pod);
    }

    /// Takes a pod off the node in `row`; `None` if it was not there.
    pub fn displace(&mut self, row: Row, key: &PodKey) -> Option<PodInfo> {
        let i = row.index();
        let pod = self.pods[i].remove(key)?;
        self.requested.0[i].0.sub(&pod.requests);
        self.non_zero_requested.0[i].0.sub(pod.non_zero_requests);
        let ports = &mut self.used_ports.0[i];
        for port in &pod.host_ports {
            if let Some(at) = ports.iter().position(|used| used == port) {
                ports.swap_remove(at);
            }
        }
        Some(pod)
    }

    /// A copy of the node in `row` alone, in row 0 of new columns: what a what-if changes.
    pub fn scratch(&self, row: Row) -> Columns {
        let mut scratch = Columns::default();
        let only = scratch.add(Node::clone(self.node(row)));
        for pod in self.pods_on(row).iter() {
            scratch.place(only, pod);
        }
        scratch
    }

    /// The rows that hold a node, ascending.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.live.len()).filter(|&i| self.live[i]).map(Row::from_index)
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.live.len() - self.free.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The node in `row` as it came in.
    pub fn node(&self, row: Row) -> &Arc<Node> {
        &self.node[row.index()]
    }

    /// The name of the node in `row`.
    pub fn name_of(&self, row: Row) -> &Str {
        self.name.at(row)
    }

    /// The pods on the node in `row`.
    pub fn pods_on(&self, row: Row) -> &PodSet {
        &self.pods[row.index()]
    }

    /// What the pods on the node in `row` ask for together.
    pub fn requested_of(&self, row: Row) -> &Resources {
        &self.requested.at(row).0
    }

    fn grow(&mut self) -> Row {
        self.live.push(false);
        self.name.push();
        self.labels.push();
        self.annotations.push();
        self.avoided.push();
        self.taints.push();
        self.unschedulable.push();
        self.allocatable.push();
        self.images.push();
        self.declared_features.push();
        self.requested.push();
        self.non_zero_requested.push();
        self.used_ports.push();
        self.pods.push(PodSet::default());
        self.node.push(Arc::default());
        Row::from_index(self.live.len() - 1)
    }
}
