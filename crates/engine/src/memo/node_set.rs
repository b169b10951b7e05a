//! The nodes, and what is derived from them alone.

use std::collections::BTreeMap;

use plimsoll_api::{Node, Str};
use plimsoll_framework::parts::NodeReads;
use plimsoll_framework::{Columns, LabelledNodes, Row, TopologyKey, View};

use super::change_log::ChangeLog;
use super::name_index_set::NameIndex;
use super::name_order::NameOrder;
use super::node_ranking::ClusterView;
use super::nominations::Nominations;
use super::topology::{Domain, Topology};

/// At most this many topology keys are known at a time. Pods may name keys that no node has.
const MOST_KEYS: usize = 1 << 16;
/// At most this many sets of topology keys are known at a time. They are searched for each new signature.
const MOST_SETS: usize = 1 << 12;
/// How many nodes can come or go before those that have not looked since must look at all nodes.
const MOST_CAME_OR_GONE: usize = 1 << 12;

/// Up to this many nodes are listed for a filter that names labels.
const MOST_LISTED: usize = 64;
/// Of labels that a filter names, at most this many are looked at: each gets a topology.
const MOST_LABELS: usize = 2;

/// The approximate size of an entry for a key, in bytes.
fn bytes_of_key(key: &TopologyKey) -> usize {
    let text = match key {
        TopologyKey::Node => 0,
        TopologyKey::Label(label) | TopologyKey::NodeWith(label) => label.len(),
        TopologyKey::EitherLabel(one, other) => one.len() + other.len(),
    };
    2 * size_of::<(TopologyKey, usize)>() + text
}

/// The nodes in the order of their names, their topology domains and their nominated pods. Nodes that come, go or
/// change are followed one by one.
pub(super) struct NodeSet {
    pub(super) name_order: NameOrder,
    topologies: Vec<Topology>,
    by_key: BTreeMap<TopologyKey, usize>,
    /// Topologies that no node belongs to, one for keys by label and one for keys
    /// [by node](TopologyKey::is_by_node). Each serves all keys that no node had when they were named first.
    without_nodes: [Option<usize>; 2],
    /// The approximate size of the topologies in bytes.
    topology_bytes: usize,
    /// Sets of topologies by index, each ascending.
    pub(super) sets: Vec<Vec<usize>>,
    /// The approximate size of `sets` in bytes.
    set_bytes: usize,
    /// The changes of single nodes. [`NodeReads::all`] means that the index may have another node, or none.
    pub(super) changed: ChangeLog<(NameIndex, NodeReads)>,
    /// The rows whose node has come or gone.
    pub(super) came_or_gone: ChangeLog<Row>,
    pub(super) nominations: Nominations,
}

/// Where nodes are: in topology domains, and in the order of names.
#[derive(Clone, Copy)]
pub(super) struct NodePlaces<'a> {
    pub(super) topologies: &'a [Topology],
    name_order: &'a NameOrder,
}

impl NodePlaces<'_> {
    /// The place by name of the only node of a domain of a topology [by node](TopologyKey::is_by_node).
    pub(super) fn index_in(&self, topology: usize, domain: Domain) -> NameIndex {
        let members = self.topologies[topology].members(domain);
        self.name_order.index(*members.first().expect("a domain has a node while pods count in it"))
    }
}

impl<'a> ClusterView<'a> {
    pub(super) fn places(self) -> NodePlaces<'a> {
        NodePlaces { topologies: self.topologies, name_order: self.name_order }
    }
}

impl NodeSet {
    pub(super) fn new(name_order: NameOrder, nominations: Nominations) -> Self {
        NodeSet {
            changed: ChangeLog::new(name_order.n_indices()),
            came_or_gone: ChangeLog::new(MOST_CAME_OR_GONE),
            name_order,
            topologies: Vec::new(),
            by_key: BTreeMap::new(),
            without_nodes: [None; 2],
            topology_bytes: 0,
            sets: Vec::new(),
            set_bytes: 0,
            nominations,
        }
    }

    pub(super) fn with<'a>(&'a self, view: View<'a>) -> ClusterView<'a> {
        let NodeSet { name_order, topologies, nominations, changed: changes, .. } = self;
        ClusterView { view, name_order, topologies, nominations, changes }
    }

    /// The approximate size of the topologies in bytes, with their keys and sets. What grows with the nodes alone is left out.
    pub(super) fn bytes(&self) -> usize {
        self.topology_bytes + self.set_bytes
    }

    /// Whether there are too many topologies, so that everything must be dropped. `budget` is the memory for their
    /// domains, in bytes.
    pub(super) fn is_full(&self, budget: usize) -> bool {
        MOST_KEYS <= self.by_key.len() || MOST_SETS <= self.sets.len() || budget <= self.bytes()
    }

    /// The index of a topology, which is made if necessary.
    pub(super) fn topology(&mut self, key: &TopologyKey, view: View<'_>) -> usize {
        if let Some(&known) = self.by_key.get(key) {
            return known;
        }
        let made = Topology::new(key.clone(), view.nodes, &self.name_order);
        let without_nodes = made.has_no_nodes().then(|| usize::from(key.is_by_node()));
        let number = without_nodes.and_then(|sort| self.without_nodes[sort]).unwrap_or_else(|| {
            self.topology_bytes += made.bytes();
            self.topologies.push(made);
            self.topologies.len() - 1
        });
        if let Some(sort) = without_nodes {
            self.without_nodes[sort] = Some(number);
        }
        self.topology_bytes += bytes_of_key(key);
        self.by_key.insert(key.clone(), number);
        number
    }

    /// The nodes that have one of the values of a label, if one of these labels has so few nodes that they are worth a list.
    pub(super) fn few_with(
        &mut self,
        labels: &[LabelledNodes],
        view: View<'_>,
    ) -> Option<Vec<NameIndex>> {
        labels.iter().take(MOST_LABELS).find_map(|one| {
            if MOST_LISTED < one.values.len() {
                return None;
            }
            let number = self.topology(&TopologyKey::Label(one.label.clone()), view);
            let topology = &self.topologies[number];
            if !topology.is_fine() {
                return None;
            }
            let domains = one.values.iter().filter_map(|value| topology.domain_of(value));
            let rows: Vec<Row> =
                domains.flat_map(|domain| topology.members(domain)).copied().collect();
            let indices = || rows.iter().map(|&row| self.name_order.index(row)).collect();
            (rows.len() <= MOST_LISTED).then(indices)
        })
    }

    /// The index of the set of these topologies, which are ascending.
    pub(super) fn set_of(&mut self, topologies: &[usize]) -> usize {
        let known = self.sets.iter().position(|set| **set == *topologies);
        known.unwrap_or_else(|| {
            self.set_bytes += size_of::<Vec<usize>>() + size_of_val(topologies);
            self.sets.push(topologies.to_vec());
            self.sets.len() - 1
        })
    }

    /// Whether a change of a node moves it to another domain of a known topology key.
    pub(super) fn moves(&self, before: &Node, now: &Node) -> bool {
        self.topologies.iter().any(|topology| topology.tells_apart(before, now))
            || self.is_first_of_its_key(now)
    }

    /// Whether no node had a known topology key that this node has. Such keys share a topology, and must get their
    /// own.
    pub(super) fn is_first_of_its_key(&self, node: &Node) -> bool {
        if self.without_nodes == [None; 2] {
            return false;
        }
        let is_shared = |number: &usize| self.without_nodes.contains(&Some(*number));
        let shares = |key: TopologyKey| self.by_key.get(&key).is_some_and(is_shared);
        let shares_label = |label: &Str| {
            shares(TopologyKey::Label(label.clone()))
                || shares(TopologyKey::NodeWith(label.clone()))
        };
        let (first, last) = (
            TopologyKey::EitherLabel(Str::default(), Str::default()),
            TopologyKey::NodeWith(Str::default()),
        );
        let mut either = self.by_key.range(first..last);
        shares(TopologyKey::Node)
            || node.labels.iter().any(|(label, _)| shares_label(label))
            || either.any(|(key, number)| is_shared(number) && key.domain(node).is_some())
    }

    pub(super) fn places(&self) -> NodePlaces<'_> {
        NodePlaces { topologies: &self.topologies, name_order: &self.name_order }
    }

    /// How the topologies differ from those that are made anew.
    pub(super) fn difference_of_topologies(&self, view: View<'_>) -> Option<String> {
        self.by_key.iter().find_map(|(key, &number)| {
            let known = &self.topologies[number];
            let anew = Topology::new(key.clone(), view.nodes, &self.name_order);
            let what = match self.without_nodes.contains(&Some(number)) {
                true => (!anew.has_no_nodes()).then(|| "a node has it".to_owned()),
                false => known.difference(&anew, view.nodes),
            };
            what.map(|what| format!("topology {key:?}: {what}"))
        })
    }

    /// The domain of a node by topology.
    pub(super) fn domains(&self, row: Row) -> Vec<Domain> {
        self.topologies.iter().map(|topology| topology.domain(row)).collect()
    }

    /// Adds a node to the topologies. Returns `false` if one of them must be made again, so that everything must be.
    pub(super) fn enter_domains(&mut self, row: Row, node: &Node) -> bool {
        let mut fits = true;
        for (number, topology) in self.topologies.iter_mut().enumerate() {
            if !self.without_nodes.contains(&Some(number)) {
                self.topology_bytes -= topology.bytes();
                topology.enter(row, node);
                self.topology_bytes += topology.bytes();
                fits &= !topology.has_outgrown();
            }
        }
        fits
    }

    /// Removes a node, which is or was like this until now, from the topologies.
    pub(super) fn leave_domains(&mut self, row: Row, node: &Node) {
        for topology in &mut self.topologies {
            self.topology_bytes -= topology.bytes();
            topology.leave(row, node);
            self.topology_bytes += topology.bytes();
        }
    }

    /// Adds a node to the order of names. Returns `false` if there is no room, so that the order must be made again.
    pub(super) fn insert(&mut self, row: Row, node: &Node) -> bool {
        let NodeSet { name_order, changed, came_or_gone, .. } = self;
        came_or_gone.push(row);
        name_order.insert(row, &node.name, |index| changed.push((index, NodeReads::all())))
    }

    /// Removes a node from the order of names.
    pub(super) fn remove(&mut self, row: Row) {
        let index = self.name_order.remove(row);
        self.changed.push((index, NodeReads::all()));
        self.came_or_gone.push(row);
    }

    /// Makes the order of names again. All indices change.
    pub(super) fn order_again(&mut self, nodes: &Columns) {
        self.name_order = NameOrder::of(nodes);
        self.changed = ChangeLog::new(self.name_order.n_indices());
    }
}
