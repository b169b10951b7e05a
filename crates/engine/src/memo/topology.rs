//! The domains of a topology key.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use plimsoll_api::{Node, Str};
use plimsoll_framework::{Columns, Row, TopologyKey};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::name_order::NameOrder;

/// The number of a domain of a topology key. A domain keeps its number as long as it has a node.
pub(crate) type Domain = u32;
/// The node is in no domain.
pub(crate) const NO_DOMAIN: Domain = Domain::MAX;

/// A topology key with more domains than this is *fine*: there are too many to look at each in every
/// decision.
pub(super) const COARSE: usize = 64;

/// The domains of one topology key.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) key: TopologyKey,
    is_fine: bool,
    /// By the index of the row; beyond the end and where there is no node, [`NO_DOMAIN`].
    domains: Vec<Domain>,
    /// The numbers of domains by what their nodes have in common; empty for keys
    /// [by node](TopologyKey::is_by_node).
    by_value: HashMap<Str, Domain, FxBuildHasher>,
    /// How many nodes each domain has.
    sizes: Vec<u32>,
    /// Numbers that no domain has any more.
    free: Vec<Domain>,
    /// The nodes of each domain of a fine key.
    members: Vec<SmallVec<[Row; 2]>>,
    /// How many domains have more than one node.
    n_shared: usize,
    n_nodes: usize,
    /// How many nodes have an empty value. Nodes without the label may then count as in the same domain.
    n_empty: usize,
}

impl Topology {
    pub(crate) fn new(key: TopologyKey, nodes: &Columns, name_order: &NameOrder) -> Self {
        let mut topology = Topology {
            is_fine: key.is_by_node(),
            key,
            domains: Vec::new(),
            by_value: HashMap::default(),
            sizes: Vec::new(),
            free: Vec::new(),
            members: Vec::new(),
            n_shared: 0,
            n_nodes: 0,
            n_empty: 0,
        };
        for (_, row) in name_order.rows() {
            topology.enter(row, nodes.node(row));
        }
        if !topology.is_fine && COARSE < topology.sizes.len() {
            topology.is_fine = true;
            topology.members = vec![SmallVec::new(); topology.sizes.len()];
            for (_, row) in name_order.rows() {
                let domain = topology.domain(row);
                if domain != NO_DOMAIN {
                    topology.members[domain as usize].push(row);
                }
            }
        }
        topology
    }

    /// Adds a node, or one that has changed after it was [removed](Self::leave).
    pub(crate) fn enter(&mut self, row: Row, node: &Node) {
        let Some(value) = self.key.domain(node) else { return };
        let domain = match self.key.is_by_node() {
            true => next(&mut self.free, &mut self.sizes),
            false => match self.by_value.entry(value.clone()) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(place) => *place.insert(next(&mut self.free, &mut self.sizes)),
            },
        };
        grow_with(&mut self.domains, row);
        self.domains[row.index()] = domain;
        let size = &mut self.sizes[domain as usize];
        *size += 1;
        self.n_shared += usize::from(*size == 2);
        self.n_nodes += 1;
        self.n_empty += usize::from(value.is_empty());
        if self.is_fine {
            if self.members.len() < self.sizes.len() {
                self.members.resize(self.sizes.len(), SmallVec::new());
            }
            self.members[domain as usize].push(row);
        }
    }

    /// Removes a node, which is or was like this until now.
    pub(crate) fn leave(&mut self, row: Row, node: &Node) {
        let domain = self.domain(row);
        if domain == NO_DOMAIN {
            return;
        }
        self.domains[row.index()] = NO_DOMAIN;
        let value = self.key.domain(node).expect("the node was in a domain");
        let size = &mut self.sizes[domain as usize];
        *size -= 1;
        self.n_shared -= usize::from(*size == 1);
        if *size == 0 {
            self.by_value.remove(value);
            self.free.push(domain);
        }
        self.n_nodes -= 1;
        self.n_empty -= usize::from(value.is_empty());
        if self.is_fine {
            self.members[domain as usize].retain(|other| *other != row);
        }
    }

    /// Whether a change of a node moves it to another domain.
    pub(crate) fn tells_apart(&self, before: &Node, now: &Node) -> bool {
        self.key.domain(before) != self.key.domain(now)
    }

    /// The largest number of a domain, plus one. It grows when domains are added.
    pub(crate) fn n_numbers(&self) -> usize {
        self.sizes.len()
    }

    /// Whether there are so many domains that the key has become fine, so that everything about it must be made again.
    pub(crate) fn has_outgrown(&self) -> bool {
        !self.is_fine && COARSE < self.sizes.len()
    }

    /// Whether no node is in a domain.
    pub(crate) fn has_no_nodes(&self) -> bool {
        self.n_nodes == 0
    }

    /// Whether some node has an empty value of the label.
    pub(crate) fn has_empty(&self) -> bool {
        0 < self.n_empty
    }

    /// Its approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.domains.len() * size_of::<Domain>()
            + self.by_value.len() * (size_of::<(Str, Domain)>() + 1)
            + self.sizes.len() * size_of::<u32>()
            + self.members.len() * size_of::<SmallVec<[Row; 2]>>()
    }

    /// How it differs from the same topology made anew. The numbers of domains may differ.
    pub(super) fn difference(&self, anew: &Topology, nodes: &Columns) -> Option<String> {
        let numbers = |of: &Topology| (of.n_nodes, of.n_shared, of.n_empty);
        if numbers(self) != numbers(anew) {
            return Some(format!("numbers {:?}, anew {:?}", numbers(self), numbers(anew)));
        }
        let mut pairs = HashMap::<Domain, Domain, FxBuildHasher>::default();
        for row in nodes.rows() {
            let (known, domain) = (self.domain(row), anew.domain(row));
            let has_members = !self.is_fine || known == NO_DOMAIN || {
                let members = self.members(known);
                members.contains(&row) && members.len() == self.sizes[known as usize] as usize
            };
            let is_same = (known == NO_DOMAIN) == (domain == NO_DOMAIN)
                && *pairs.entry(known).or_insert(domain) == domain
                && (known == NO_DOMAIN
                    || self.sizes[known as usize] == anew.sizes[domain as usize]);
            if !is_same || !has_members {
                return Some(format!("{row:?} is in domain {known}, anew {domain}"));
            }
        }
        None
    }

    /// Whether there are too many domains to look at each.
    pub(crate) fn is_fine(&self) -> bool {
        self.is_fine
    }

    /// Whether no domain has two nodes.
    pub(crate) fn is_single(&self) -> bool {
        self.n_shared == 0
    }

    pub(crate) fn domain(&self, row: Row) -> Domain {
        self.domains.get(row.index()).copied().unwrap_or(NO_DOMAIN)
    }

    /// The domain of the nodes that have this in common, if there are any. Not for keys [by node](TopologyKey::is_by_node).
    pub(crate) fn domain_of(&self, value: &Str) -> Option<Domain> {
        self.by_value.get(value).copied()
    }

    /// The nodes of a domain of a fine key; none if the number is free.
    pub(crate) fn members(&self, domain: Domain) -> &[Row] {
        self.members.get(domain as usize).map_or(&[], SmallVec::as_slice)
    }
}

/// A number for a new domain.
fn next(free: &mut Vec<Domain>, sizes: &mut Vec<u32>) -> Domain {
    free.pop().unwrap_or_else(|| {
        sizes.push(0);
        Domain::try_from(sizes.len() - 1).expect("there are no more domains than nodes")
    })
}

fn grow_with(domains: &mut Vec<Domain>, row: Row) {
    if domains.len() <= row.index() {
        domains.resize(row.index() + 1, NO_DOMAIN);
    }
}
