//! The nodes, by column.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_api::{
    AvoidedController, HostPort, Labels, Node, NodeImage, NonZero, PodKey, Resources, Str, Taint,
};

use crate::parts::NodeReads;
use crate::pod_info::PodInfo;
use crate::pod_set::PodSet;
use crate::volume_use::VolumesInUse;

/// The place of a node in [`Columns`]. A row is used again after its node is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(u32);

impl Row {
    /// The first row.
    pub const FIRST: Row = Row(0);

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

    /// Sets the value in `row`. Returns whether it changed.
    fn set(&mut self, row: Row, value: T) -> bool {
        let cell = &mut self.0[row.index()];
        let changed = *cell != value;
        *cell = value;
        changed
    }

    fn push(&mut self) {
        self.0.push(T::default());
    }

    /// Copies the value that `of` has in `row` into the first row.
    fn take_from(&mut self, of: &Column<T>, row: Row)
    where
        T: Clone,
    {
        self.0[0].clone_from(&of.0[row.index()]);
    }
}

/// The resources of a node that pods can use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocatable(pub Resources);

/// What the pods on a node request together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requested(pub Resources);

/// What the pods on a node count for in scoring, together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NonZeroRequested(pub NonZero);

/// The pods on one node, and what they take of it.
#[derive(Clone, Debug, Default)]
pub struct RowPods {
    requested: Requested,
    non_zero_requested: NonZeroRequested,
    used_ports: Vec<HostPort>,
    pods: PodSet,
}

/// Marks the ports of `pod` as used. As in framework/types.go, HostPortInfo: ports are a set. If someone else has
/// placed two pods with the same port, the first of them to leave frees it.
fn use_ports(used: &mut Vec<HostPort>, pod: &PodInfo) {
    if FEW_PORTS < pod.host_ports.len() {
        let mut known: BTreeSet<HostPort> = used.iter().cloned().collect();
        let new = pod.host_ports.iter().filter(|port| known.insert((*port).clone()));
        used.extend(new.cloned());
        return;
    }
    for port in &pod.host_ports {
        if !used.contains(port) {
            used.push(port.clone());
        }
    }
}

/// Removes `ports` from those that are used.
fn free_ports(used: &mut Vec<HostPort>, ports: &[HostPort]) {
    if FEW_PORTS < ports.len() {
        let freed: BTreeSet<&HostPort> = ports.iter().collect();
        used.retain(|port| !freed.contains(port));
    } else if !ports.is_empty() {
        used.retain(|port| !ports.contains(port));
    }
}

/// Up to this many ports, a linear search is fastest. A pod may have tens of thousands.
const FEW_PORTS: usize = 16;

/// Whether no column changes when one pod replaces the other.
fn takes_the_same(one: &PodInfo, other: &PodInfo) -> bool {
    let takes_the_same = Arc::ptr_eq(&one.template, &other.template)
        || (one.requests == other.requests
            && one.non_zero_requests == other.non_zero_requests
            && one.host_ports == other.host_ports
            && one.volumes == other.volumes);
    takes_the_same && one.affinity.is_empty() && other.affinity.is_empty()
}

/// The nodes, with one column for each property. kube-scheduler has one `NodeInfo` for each node instead.
///
/// Only the engine writes to it. Plugins see the columns that they declare.
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
    pub(crate) volumes_in_use: VolumesInUse,
    /// How many pods on nodes have any affinity or anti-affinity term.
    n_with_affinity: usize,
    /// The resources for which something else than a node stands.
    provided: Option<Arc<BTreeSet<Str>>>,
    node: Vec<Arc<Node>>,
}

impl Columns {
    /// The resources for which something else than a node [stands](crate::ProvidesResources).
    pub fn provided(&self) -> &BTreeSet<Str> {
        static NONE: BTreeSet<Str> = BTreeSet::new();
        self.provided.as_deref().unwrap_or(&NONE)
    }

    /// Sets the resources for which something else than a node stands.
    pub fn set_provided(&mut self, resources: BTreeSet<Str>) {
        self.provided = (!resources.is_empty()).then(|| Arc::new(resources));
    }

    /// Adds a node, and returns its row.
    pub fn add(&mut self, node: Node) -> Row {
        let row = self.free.pop().unwrap_or_else(|| self.grow());
        self.live[row.index()] = true;
        self.set(row, node);
        row
    }

    /// Updates the node in `row`, and returns the columns that changed.
    pub fn set(&mut self, row: Row, node: Node) -> NodeReads {
        let mut changed = NodeReads::empty();
        changed.set(NodeReads::NAME, self.name.set(row, node.name.clone()));
        changed.set(NodeReads::LABELS, self.labels.set(row, node.labels.clone()));
        let annotations = self.annotations.set(row, node.annotations.clone());
        // The controllers that the node avoids are given in an annotation.
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

    /// Removes the node in `row` with all pods on it, and returns the pods.
    pub fn remove(&mut self, row: Row) -> Vec<PodInfo> {
        self.live[row.index()] = false;
        self.free.push(row);
        self.set(row, Node::default());
        self.requested.set(row, Requested::default());
        self.non_zero_requested.set(row, NonZeroRequested::default());
        self.used_ports.set(row, Vec::new());
        let gone = std::mem::take(&mut self.pods[row.index()]);
        self.n_with_affinity -= gone.with_affinity().len();
        let gone = gone.into_all();
        for pod in &gone {
            self.volumes_in_use.sub(row, pod);
        }
        gone
    }

    /// Places a pod on the node in `row`.
    pub fn place(&mut self, row: Row, pod: &PodInfo) {
        let i = row.index();
        self.requested.0[i].0.add(&pod.requests);
        self.non_zero_requested.0[i].0.add(pod.non_zero_requests);
        use_ports(&mut self.used_ports.0[i], pod);
        self.pods[i].insert(pod);
        self.n_with_affinity += usize::from(!pod.affinity.is_empty());
        self.volumes_in_use.add(row, pod);
    }

    /// Removes a pod from the node in `row`; `None` if it was not there.
    pub fn displace(&mut self, row: Row, key: &PodKey) -> Option<PodInfo> {
        let at = self.pods_on(row).iter().position(|pod| pod.key == *key)?;
        Some(self.displace_at(row, at))
    }

    /// Removes the pod at place `at` from the node in `row`. The last pod of the node moves to that place.
    ///
    /// # Panics
    /// If no pod is there.
    pub fn displace_at(&mut self, row: Row, at: usize) -> PodInfo {
        let i = row.index();
        let pod = self.pods[i].remove(at);
        self.n_with_affinity -= usize::from(!pod.affinity.is_empty());
        self.volumes_in_use.sub(row, &pod);
        if self.requested.0[i].0.is_full() || self.non_zero_requested.0[i].0.is_full() {
            self.sum_up(i);
        } else {
            self.requested.0[i].0.sub(&pod.requests);
            self.non_zero_requested.0[i].0.sub(pod.non_zero_requests);
        }
        free_ports(&mut self.used_ports.0[i], &pod.host_ports);
        pod
    }

    /// Recomputes what the pods in a row request. A sum that is saturated cannot be reduced by subtraction.
    fn sum_up(&mut self, i: usize) {
        let (mut requested, mut non_zero) = (Resources::default(), NonZero::default());
        for pod in self.pods[i].iter() {
            requested.add(&pod.requests);
            non_zero.add(pod.non_zero_requests);
        }
        self.requested.0[i] = Requested(requested);
        self.non_zero_requested.0[i] = NonZeroRequested(non_zero);
    }

    /// The pods on the node in `row`, and what they take of it, to be [put back](Self::put_back) later.
    pub fn row_pods(&self, row: Row) -> RowPods {
        RowPods {
            requested: self.requested.at(row).clone(),
            non_zero_requested: self.non_zero_requested.at(row).clone(),
            used_ports: self.used_ports.at(row).clone(),
            pods: self.pods_on(row).clone(),
        }
    }

    /// Makes the pods in `row` what they were when [`row_pods`](Self::row_pods) gave this, in the same places.
    pub fn put_back(&mut self, row: Row, before: RowPods) {
        self.requested.set(row, before.requested);
        self.non_zero_requested.set(row, before.non_zero_requested);
        self.used_ports.set(row, before.used_ports);
        self.n_with_affinity += before.pods.with_affinity().len();
        let now = std::mem::replace(&mut self.pods[row.index()], before.pods);
        self.n_with_affinity -= now.with_affinity().len();
        now.iter().for_each(|pod| self.volumes_in_use.sub(row, pod));
        self.pods[row.index()].iter().for_each(|pod| self.volumes_in_use.add(row, pod));
    }

    /// Those of these ports that are in use on the node in `row`.
    pub fn ports_in_use(&self, row: Row, ports: &[HostPort]) -> Vec<HostPort> {
        let used = self.used_ports.at(row);
        ports.iter().filter(|port| used.contains(port)).cloned().collect()
    }

    /// Marks those of these ports as used that pods on the node in `row` have, although somebody else who had them has left.
    pub fn use_again(&mut self, row: Row, ports: &[HostPort]) {
        let pods = &self.pods[row.index()];
        let used = &mut self.used_ports.0[row.index()];
        for port in ports {
            let is_there = pods.iter().any(|pod| pod.host_ports.contains(port));
            if is_there && !used.contains(port) {
                used.push(port.clone());
            }
        }
    }

    /// Replaces the pod at place `at` of the node in `row` by its new version. As in framework/types.go, NodeInfo: the
    /// old pod is removed and the new one added, so that its ports are in use again.
    ///
    /// # Panics
    /// If no pod is there.
    pub fn exchange(&mut self, row: Row, at: usize, pod: &PodInfo) {
        let i = row.index();
        let before = self.pods[i].get(at).expect("the caller knows that it is there");
        if takes_the_same(before, pod) {
            self.pods[i].replace(at, pod);
            use_ports(&mut self.used_ports.0[i], pod);
            return;
        }
        self.displace_at(row, at);
        self.place(row, pod);
        self.pods[i].swap_with_last(at);
    }

    /// Whether two nodes are equal in those of their allocatable and requested resources that are among `reads`.
    /// `false` if `reads` contains anything else.
    pub fn have_alike(&self, a: Row, b: Row, reads: NodeReads) -> bool {
        const ALLOCATABLE: NodeReads = NodeReads::ALLOCATABLE;
        const REQUESTED: NodeReads = NodeReads::REQUESTED;
        const NON_ZERO: NodeReads = NodeReads::NON_ZERO_REQUESTED;
        let is_equal = |part: NodeReads, equal: bool| equal || !reads.contains(part);
        ALLOCATABLE.union(REQUESTED).union(NON_ZERO).contains(reads)
            && is_equal(NON_ZERO, self.non_zero_requested.at(a) == self.non_zero_requested.at(b))
            && is_equal(REQUESTED, self.requested.at(a) == self.requested.at(b))
            && is_equal(ALLOCATABLE, self.allocatable.at(a) == self.allocatable.at(b))
    }

    /// Copies the node in `row` alone into row 0 of new columns, for a dry run to change.
    pub fn scratch(&self, row: Row) -> Columns {
        let mut scratch = Columns::default();
        scratch.become_scratch(self, row);
        scratch
    }

    /// Becomes a copy of the node in `row` of `of`, as [`scratch`](Self::scratch) makes one, but reuses its own
    /// memory. The node itself is shared.
    ///
    /// # Panics
    /// If these columns have held more than one node.
    pub fn become_scratch(&mut self, of: &Columns, row: Row) {
        if self.live.is_empty() {
            self.grow();
            // A filter reads which volumes are in use before any dry run.
            self.volumes_in_use.ignore();
        }
        assert!(self.live.len() == 1, "a scratch holds one node");
        self.live[0] = true;
        self.free.clear();
        self.provided.clone_from(&of.provided);
        let node = of.node(row);
        if !Arc::ptr_eq(&self.node[0], node) {
            self.name.take_from(&of.name, row);
            self.labels.take_from(&of.labels, row);
            self.annotations.take_from(&of.annotations, row);
            self.avoided.take_from(&of.avoided, row);
            self.taints.take_from(&of.taints, row);
            self.unschedulable.take_from(&of.unschedulable, row);
            self.allocatable.take_from(&of.allocatable, row);
            self.images.take_from(&of.images, row);
            self.declared_features.take_from(&of.declared_features, row);
            self.node[0] = node.clone();
        }
        self.requested.take_from(&of.requested, row);
        self.non_zero_requested.take_from(&of.non_zero_requested, row);
        self.used_ports.take_from(&of.used_ports, row);
        self.pods[0].become_copy(of.pods_on(row));
        self.n_with_affinity = self.pods[0].with_affinity().len();
    }

    /// Whether some pod on a node has an affinity or anti-affinity term.
    pub fn has_pods_with_affinity(&self) -> bool {
        self.n_with_affinity != 0
    }

    /// The rows that hold a node, ascending.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.live.len()).filter(|&i| self.live[i]).map(Row::from_index)
    }

    /// Of each row, whether it holds a node: up to the last one that has ever held one.
    pub fn live_rows(&self) -> &[bool] {
        &self.live
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.live.len() - self.free.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The node in `row` as it was added.
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

    /// What the pods on the node in `row` request together.
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

#[cfg(test)]
mod tests {
    use plimsoll_api::ports::ANY_IP;
    use plimsoll_api::{AffinityTerm, Pod, PodTemplate, Selector};

    use super::*;

    fn pod(name: &str, milli_cpu: i64, has_affinity: bool) -> PodInfo {
        let mut pod = Pod { key: PodKey::new("default", name), ..Pod::default() };
        pod.requests.milli_cpu = milli_cpu;
        if has_affinity {
            pod.affinity.required_anti.push(AffinityTerm {
                selector: Selector::default(),
                namespaces: Vec::new(),
                namespace_selector: Selector::default(),
                topology_key: "zone".into(),
            });
        }
        PodInfo::new(pod)
    }

    fn told(nodes: &Columns, row: Row) -> String {
        let names = |pods: &mut dyn Iterator<Item = &PodInfo>| {
            pods.map(|pod| pod.key.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let pods = nodes.pods_on(row);
        let anti = names(&mut pods.with_required_anti_affinity().iter());
        let all = names(&mut pods.iter());
        format!("{all} | {anti} | {}", nodes.requested_of(row).milli_cpu)
    }

    #[test]
    fn a_pod_that_changes_keeps_its_place() {
        let mut nodes = Columns::default();
        let row = nodes.add(Node::default());
        for (name, milli_cpu, has_affinity) in [("p", 1, false), ("q", 2, true), ("r", 4, false)] {
            nodes.place(row, &pod(name, milli_cpu, has_affinity));
        }
        nodes.exchange(row, 0, &pod("p", 1, false));
        assert_eq!(told(&nodes, row), "p q r | q | 7");
        nodes.exchange(row, 0, &pod("p", 8, true));
        assert_eq!(told(&nodes, row), "p q r | q p | 14");
        nodes.exchange(row, 1, &pod("q", 16, false));
        assert_eq!(told(&nodes, row), "p q r | p | 28");
        assert!(nodes.has_pods_with_affinity());
        let before = nodes.row_pods(row);
        nodes.displace(row, &PodKey::new("default", "p"));
        assert!(!nodes.has_pods_with_affinity());
        nodes.put_back(row, before);
        assert!(nodes.has_pods_with_affinity());
        assert!(nodes.scratch(row).has_pods_with_affinity());
        nodes.remove(row);
        assert!(!nodes.has_pods_with_affinity());
    }

    #[test]
    fn the_first_of_two_pods_with_the_same_port_that_leaves_frees_it() {
        let with_ports = |name: &str, ports: &[i32]| {
            let port = |&port: &i32| HostPort { protocol: "TCP".into(), ip: ANY_IP.into(), port };
            let host_ports = ports.iter().map(port).collect();
            let template = PodTemplate { host_ports, ..PodTemplate::default() };
            PodInfo::new(Pod::new(PodKey::new("default", name), template))
        };
        let used = |nodes: &Columns, row| {
            let mut ports: Vec<i32> = nodes.used_ports.at(row).iter().map(|one| one.port).collect();
            ports.sort_unstable();
            ports
        };
        let mut nodes = Columns::default();
        let row = nodes.add(Node::default());
        nodes.place(row, &with_ports("p", &[80, 443]));
        nodes.place(row, &with_ports("q", &[80]));
        assert_eq!(used(&nodes, row), [80, 443]);
        let gone = nodes.displace(row, &PodKey::new("default", "q"));
        assert_eq!(used(&nodes, row), [443]);
        // An update of the other pod marks its ports as used again.
        nodes.exchange(row, 0, &with_ports("p", &[80, 443]));
        assert_eq!(used(&nodes, row), [80, 443]);
        nodes.place(row, &gone.expect("it was there"));
        nodes.displace(row, &PodKey::new("default", "p"));
        assert_eq!(used(&nodes, row), Vec::<i32>::new());
    }

    #[test]
    fn a_scratch_can_be_reused_for_another_node() {
        let mut nodes = Columns::default();
        let (a, b) = (nodes.add(named("a")), nodes.add(named("b")));
        nodes.place(a, &pod("p", 1, true));
        nodes.place(b, &pod("q", 2, false));
        let mut scratch = nodes.scratch(a);
        assert_eq!((scratch.name_of(Row::FIRST).as_str(), scratch.len()), ("a", 1));
        scratch.place(Row::FIRST, &pod("r", 4, false));
        assert_eq!(told(&scratch, Row::FIRST), "p r | p | 5");
        scratch.become_scratch(&nodes, b);
        assert_eq!(scratch.name_of(Row::FIRST), "b");
        assert_eq!(told(&scratch, Row::FIRST), "q |  | 2");
        scratch.become_scratch(&nodes, a);
        assert_eq!(told(&scratch, Row::FIRST), "p | p | 1");
        assert_eq!(told(&nodes, a), "p | p | 1");
    }

    fn named(name: &str) -> Node {
        Node { name: name.into(), ..Node::default() }
    }

    #[test]
    fn sums_are_right_again_after_pods_that_overflowed_them_leave() {
        const MUCH: i64 = i64::MAX / 4 * 3;
        let mut nodes = Columns::default();
        let row = nodes.add(Node::default());
        let large = |name: &str| {
            let mut pod = Pod::clone(&pod(name, MUCH, false));
            pod.non_zero_requests = NonZero { milli_cpu: MUCH, memory: MUCH };
            PodInfo::new(pod)
        };
        let taken = |nodes: &Columns| {
            (nodes.requested_of(row).milli_cpu, nodes.non_zero_requested.at(row).0.memory)
        };
        nodes.place(row, &pod("small", 1, false));
        for name in ["p", "q", "r"] {
            nodes.place(row, &large(name));
        }
        assert_eq!(taken(&nodes), (i64::MAX, i64::MAX));
        assert!(nodes.displace(row, &PodKey::new("default", "q")).is_some());
        assert_eq!(taken(&nodes), (i64::MAX, i64::MAX));
        assert!(nodes.displace(row, &PodKey::new("default", "p")).is_some());
        assert_eq!(taken(&nodes), (MUCH + 1, MUCH));
        assert!(nodes.displace(row, &PodKey::new("default", "r")).is_some());
        assert_eq!(taken(&nodes), (1, 0));
    }

    #[test]
    fn the_last_pod_takes_the_place_of_one_that_leaves() {
        let mut nodes = Columns::default();
        let row = nodes.add(Node::default());
        for name in ["p", "q", "r"] {
            nodes.place(row, &pod(name, 1, name == "p"));
        }
        assert_eq!(nodes.displace_at(row, 0).key.name, "p");
        assert_eq!(told(&nodes, row), "r q |  | 2");
        assert!(nodes.displace(row, &PodKey::new("default", "p")).is_none());
        assert!(nodes.displace(row, &PodKey::new("default", "q")).is_some());
        assert_eq!(told(&nodes, row), "r |  | 1");
    }
}
