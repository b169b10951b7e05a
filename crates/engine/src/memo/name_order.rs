//! The nodes in the order of their names, and their topology domains.

use hashbrown::HashMap;
use plimsoll_api::Str;
use plimsoll_framework::{Columns, Row, TopologyKey};
use rustc_hash::FxBuildHasher;

use super::name_index_set::NameIndex;

/// The number of a domain of a topology key.
pub(crate) type Domain = u32;
/// The node is in no domain.
pub(crate) const NO_DOMAIN: Domain = Domain::MAX;

/// A topology key with more domains than this is *fine*: there are too many to look at each in every
/// decision.
const COARSE: usize = 64;

/// The nodes in the order of their names. It is made again when a node is added or removed, or
/// when its label of a known topology key changes.
#[derive(Debug, Default)]
pub(crate) struct NameOrder {
    row_of: Vec<Row>,
    /// By the index of the row.
    index_of: Vec<NameIndex>,
}

impl NameOrder {
    pub(crate) fn of(nodes: &Columns) -> Self {
        let mut row_of: Vec<Row> = nodes.rows().collect();
        row_of.sort_by(|&one, &other| nodes.name_of(one).cmp(nodes.name_of(other)));
        let n_rows = row_of.iter().map(|row| row.index() + 1).max().unwrap_or(0);
        let mut index_of = vec![0; n_rows];
        for (index, row) in (0..).zip(&row_of) {
            index_of[row.index()] = index;
        }
        NameOrder { row_of, index_of }
    }

    pub(crate) fn len(&self) -> usize {
        self.row_of.len()
    }

    pub(crate) fn row(&self, index: NameIndex) -> Row {
        self.row_of[index as usize]
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (NameIndex, Row)> {
        (0..).zip(self.row_of.iter().copied())
    }

    /// The node for whose name `order` returns `Equal`.
    pub(crate) fn find(&self, order: impl Fn(Row) -> std::cmp::Ordering) -> Option<NameIndex> {
        let at = self.row_of.binary_search_by(|&row| order(row)).ok()?;
        Some(NameIndex::try_from(at).expect("indices have 32 bits"))
    }

    pub(crate) fn index(&self, row: Row) -> NameIndex {
        self.index_of[row.index()]
    }
}

/// The domains of one topology key.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) key: TopologyKey,
    /// By name index.
    domains: Vec<Domain>,
    pub(crate) n_domains: usize,
    /// The nodes of each domain, one domain after the other; empty unless the key is fine.
    members: Vec<NameIndex>,
    /// Where the nodes of each domain start in `members`, and the end of the last one.
    starts: Vec<u32>,
    /// Whether some node has an empty value. Nodes without the label may then count as in the same domain.
    pub(crate) has_empty: bool,
}

impl Topology {
    pub(crate) fn new(key: TopologyKey, nodes: &Columns, name_order: &NameOrder) -> Self {
        let (mut domains, mut has_empty) = (Vec::with_capacity(name_order.len()), false);
        let mut numbers: HashMap<&Str, Domain, FxBuildHasher> = HashMap::default();
        let mut n_domains = 0;
        for (index, row) in name_order.rows() {
            let value = key.domain(nodes.node(row));
            has_empty |= value.is_some_and(Str::is_empty);
            domains.push(match value {
                None => NO_DOMAIN,
                Some(_) if key.is_by_node() => index,
                Some(value) => *numbers.entry(value).or_insert_with(|| {
                    n_domains += 1;
                    n_domains - 1
                }),
            });
        }
        let n_domains = if key.is_by_node() { name_order.len() } else { n_domains as usize };
        let (members, starts) = (Vec::new(), Vec::new());
        let mut topology = Topology { key, domains, n_domains, members, starts, has_empty };
        if topology.is_fine() && !topology.key.is_by_node() {
            topology.sort_members();
        }
        topology
    }

    /// Sorts the nodes by domain with a counting sort.
    fn sort_members(&mut self) {
        let mut starts = vec![0_u32; self.n_domains + 1];
        for &domain in self.domains.iter().filter(|&&domain| domain != NO_DOMAIN) {
            starts[domain as usize + 1] += 1;
        }
        for domain in 0..self.n_domains {
            starts[domain + 1] += starts[domain];
        }
        let mut next = starts.clone();
        self.members = vec![0; starts[self.n_domains] as usize];
        for (index, &domain) in (0..).zip(&self.domains) {
            if domain != NO_DOMAIN {
                self.members[next[domain as usize] as usize] = index;
                next[domain as usize] += 1;
            }
        }
        self.starts = starts;
    }

    /// Whether no node has the label.
    pub(crate) fn has_no_nodes(&self) -> bool {
        self.domains.iter().all(|&domain| domain == NO_DOMAIN)
    }

    /// Its approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        (self.domains.len() + self.members.len() + self.starts.len()) * size_of::<NameIndex>()
    }

    /// Whether there are too many domains to look at each.
    pub(crate) fn is_fine(&self) -> bool {
        self.key.is_by_node() || COARSE < self.n_domains
    }

    /// Whether no domain has two nodes.
    pub(crate) fn is_single(&self) -> bool {
        self.key.is_by_node() || self.n_domains == self.members.len()
    }

    pub(crate) fn domain(&self, index: NameIndex) -> Domain {
        self.domains[index as usize]
    }

    /// The nodes of a domain of a fine key.
    pub(crate) fn members(&self, domain: Domain) -> &[NameIndex] {
        let at = domain as usize;
        match self.key.is_by_node() {
            // Here the number of the domain is the name index of its only node.
            true => std::slice::from_ref(&self.domains[at]),
            false => &self.members[self.starts[at] as usize..self.starts[at + 1] as usize],
        }
    }
}
