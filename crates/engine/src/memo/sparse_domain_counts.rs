//! The nodes with counts other than 0 in topologies with many domains.
//!
//! A topology key with many domains, such as the host name, would split the groups of a ranking until every
//! node has its own group. But in most domains there is no pod that a term counts. So a ranking treats all
//! nodes as if these counts were 0, and the few other nodes are in groups here.
//!
//! The groups do not have the static scores of their nodes, which change with every placement of any pod. Whoever
//! looks for the best nodes of a group finds them through the ranking.

use hashbrown::{HashMap, HashTable};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::domain_counts::DomainCounts;
use super::name_index_set::{NameIndex, NameIndexSet};
use super::node_ranking::{ClusterView, NodeRanking};
use super::topology::NO_DOMAIN;

/// The approximate size of a group without its counts but with its nodes, in bytes.
const BYTES_PER_GROUP: usize = 320;
/// The approximate size of a node's entry, in bytes.
const BYTES_PER_MEMBER: usize = 32;

/// The count for each term with a fine topology.
pub(crate) type FineCounts = SmallVec<[i64; 4]>;

/// Nodes of one group of the ranking with equal fine counts.
pub(crate) struct SparseGroup {
    /// The group of the ranking.
    pub(crate) ranking_group: u32,
    pub(crate) counts: FineCounts,
    pub(crate) nodes: NameIndexSet,
}

/// A bit for each node that has an entry. Most changed nodes have none, and a bit is found faster than an
/// entry in a map. In very large clusters there are no bits, and every node counts as having an entry.
struct MemberBits(Vec<u64>);

/// The largest number of nodes for which bits are kept.
const MOST_MEMBER_BITS: usize = 1 << 17;

impl MemberBits {
    fn new(n_indices: usize) -> Self {
        MemberBits(if n_indices <= MOST_MEMBER_BITS {
            vec![0; n_indices.div_ceil(64)]
        } else {
            Vec::new()
        })
    }

    fn set(&mut self, index: NameIndex) {
        if let Some(word) = self.0.get_mut(index as usize / 64) {
            *word |= 1 << (index % 64);
        }
    }

    fn clear(&mut self, index: NameIndex) {
        if let Some(word) = self.0.get_mut(index as usize / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    fn has(&self, index: NameIndex) -> bool {
        self.0.get(index as usize / 64).is_none_or(|word| word & (1 << (index % 64)) != 0)
    }
}

/// In place of a sparse group, for nodes that are not feasible.
const NO_GROUP: u32 = u32::MAX;

/// The nodes with fine counts other than 0, for one ranking and one set of domain counts.
pub(crate) struct SparseDomainCounts {
    /// The terms with fine topologies.
    fine: SmallVec<[usize; 4]>,
    /// The sparse group of each node with a fine count other than 0; [`NO_GROUP`] if it is not feasible.
    members: HashMap<NameIndex, u32, FxBuildHasher>,
    member_bits: MemberBits,
    pub(crate) groups: Vec<SparseGroup>,
    by_key: HashTable<u32>,
    /// By group of the ranking: how many of its nodes are in sparse groups instead.
    excluded: Vec<usize>,
    /// Nodes that have become feasible and must be looked at.
    returning: Vec<NameIndex>,
    ranking_followed: u64,
    arrivals_followed: u64,
    domain_counts_followed: u64,
}

impl SparseDomainCounts {
    pub(crate) fn new(
        ranking: &NodeRanking,
        domain_counts: &DomainCounts,
        cluster: ClusterView<'_>,
    ) -> Self {
        let mut sparse = SparseDomainCounts {
            fine: domain_counts.fine_terms().collect(),
            members: HashMap::default(),
            member_bits: MemberBits::new(cluster.name_order.n_indices()),
            groups: Vec::new(),
            by_key: HashTable::new(),
            excluded: Vec::new(),
            returning: Vec::new(),
            ranking_followed: ranking.regrouped.end(),
            arrivals_followed: ranking.arrived.end(),
            domain_counts_followed: domain_counts.changed.end(),
        };
        sparse.look_at_all(ranking, domain_counts, cluster);
        sparse
    }

    /// Applies the changes of the ranking and the domain counts. Returns `false` if the change logs no longer
    /// hold all of them; then it must be made again.
    pub(crate) fn follow(
        &mut self,
        ranking: &NodeRanking,
        domain_counts: &DomainCounts,
        cluster: ClusterView<'_>,
    ) -> bool {
        if self.fine.is_empty() {
            return true;
        }
        let (Some(changed), Some(regrouped), Some(arrived)) = (
            domain_counts.changed.since(self.domain_counts_followed),
            ranking.regrouped.since(self.ranking_followed),
            ranking.arrived.since(self.arrivals_followed),
        ) else {
            return false;
        };
        self.domain_counts_followed = domain_counts.changed.end();
        self.ranking_followed = ranking.regrouped.end();
        self.arrivals_followed = ranking.arrived.end();
        for index in arrived {
            self.look(index, ranking, domain_counts, cluster);
        }
        for (term, domain) in changed {
            let topology = &cluster.topologies[domain_counts.topology(term as usize)];
            for &row in topology.members(domain) {
                self.look(cluster.name_order.index(row), ranking, domain_counts, cluster);
            }
        }
        for index in regrouped {
            if self.member_bits.has(index)
                && let Some(&group) = self.members.get(&index)
            {
                self.move_with(index, group, ranking, cluster);
            }
        }
        for index in std::mem::take(&mut self.returning) {
            self.look(index, ranking, domain_counts, cluster);
        }
        true
    }

    fn look_at_all(
        &mut self,
        ranking: &NodeRanking,
        domain_counts: &DomainCounts,
        cluster: ClusterView<'_>,
    ) {
        for term in self.fine.clone() {
            let topology = &cluster.topologies[domain_counts.topology(term)];
            let domains: Vec<_> = domain_counts.counted_domains(term).collect();
            for domain in domains {
                for &row in topology.members(domain) {
                    self.look(cluster.name_order.index(row), ranking, domain_counts, cluster);
                }
            }
        }
    }

    /// Updates an index after a change of its node's counts, or of its node.
    fn look(
        &mut self,
        index: NameIndex,
        ranking: &NodeRanking,
        domain_counts: &DomainCounts,
        cluster: ClusterView<'_>,
    ) {
        let row = cluster.name_order.at(index);
        let count = |&term: &usize| {
            let topology = &cluster.topologies[domain_counts.topology(term)];
            match row.map_or(NO_DOMAIN, |row| topology.domain(row)) {
                NO_DOMAIN => 0,
                domain => domain_counts.count_in(term, domain),
            }
        };
        // Most nodes have no counted pod and no entry.
        if !self.member_bits.has(index) && self.fine.iter().all(|term| count(term) == 0) {
            return;
        }
        let counts: FineCounts = self.fine.iter().map(count).collect();
        if counts.iter().all(|&count| count == 0) {
            if let Some(group) = self.members.remove(&index) {
                self.member_bits.clear(index);
                self.take_out(index, group);
            }
            return;
        }
        let group = match ranking.entry(index) {
            Some((ranking_group, _)) => self.group(ranking_group, counts),
            None => NO_GROUP,
        };
        self.put(index, group, cluster);
    }

    /// Updates a node after a change of its group in the ranking. `group` is its sparse group before.
    fn move_with(
        &mut self,
        index: NameIndex,
        group: u32,
        ranking: &NodeRanking,
        cluster: ClusterView<'_>,
    ) {
        let moved = match ranking.entry(index) {
            None => NO_GROUP,
            // Its counts are not stored for an infeasible node, so they must be read again.
            Some(_) if group == NO_GROUP => return self.returning.push(index),
            Some((ranking_group, _)) => {
                let counts = self.groups[group as usize].counts.clone();
                self.group(ranking_group, counts)
            }
        };
        self.put(index, moved, cluster);
    }

    fn put(&mut self, index: NameIndex, group: u32, cluster: ClusterView<'_>) {
        match self.members.insert(index, group) {
            Some(before) if before == group => return,
            Some(before) => self.take_out(index, before),
            None => self.member_bits.set(index),
        }
        if group == NO_GROUP {
            return;
        }
        let group = &mut self.groups[group as usize];
        group.nodes.insert(index, cluster.name_order.n_indices());
        let ranking_group = group.ranking_group as usize;
        if self.excluded.len() <= ranking_group {
            self.excluded.resize(ranking_group + 1, 0);
        }
        self.excluded[ranking_group] += 1;
    }

    fn take_out(&mut self, index: NameIndex, group: u32) {
        if group != NO_GROUP {
            let group = &mut self.groups[group as usize];
            group.nodes.remove(index);
            self.excluded[group.ranking_group as usize] -= 1;
        }
    }

    fn group(&mut self, ranking_group: u32, counts: FineCounts) -> u32 {
        let (hash, groups) = (hash(ranking_group, &counts), &self.groups);
        let is_same = |&group: &u32| {
            let group = &groups[group as usize];
            group.ranking_group == ranking_group && group.counts == counts
        };
        if let Some(&group) = self.by_key.find(hash, is_same) {
            return group;
        }
        let group = u32::try_from(self.groups.len()).expect("there are fewer groups than nodes");
        self.groups.push(SparseGroup { ranking_group, counts, nodes: NameIndexSet::default() });
        let groups = &self.groups;
        self.by_key.insert_unique(hash, group, |&group| {
            let group = &groups[group as usize];
            self::hash(group.ranking_group, &group.counts)
        });
        group
    }

    /// How it differs from what is derived anew from the same ranking and counts.
    pub(super) fn difference(&self, anew: &SparseDomainCounts) -> Option<String> {
        let place = |of: &SparseDomainCounts, index: &NameIndex| {
            let group = of.groups.get(*of.members.get(index)? as usize);
            Some(group.map(|group| (group.ranking_group, group.counts.clone())))
        };
        let both = self.members.keys().chain(anew.members.keys());
        for index in both {
            let (known, anew) = (place(self, index), place(anew, index));
            if known != anew {
                return Some(format!("sparse counts of {index}: {known:?}, anew {anew:?}"));
            }
        }
        let is_in_group = |(&index, &group): (&NameIndex, &u32)| {
            self.member_bits.has(index)
                && (group == NO_GROUP || self.groups[group as usize].nodes.has(index))
        };
        let n_placed = self.members.values().filter(|group| **group != NO_GROUP).count();
        let n_in_groups = self.groups.iter().map(|group| group.nodes.len()).sum::<usize>();
        let excluded = (0..self.excluded.len().max(anew.excluded.len()))
            .find(|&group| self.n_excluded(group) != anew.n_excluded(group));
        if !self.members.iter().all(is_in_group) || n_in_groups != n_placed {
            return Some(format!("sparse groups have {n_in_groups} nodes, and not {n_placed}"));
        }
        excluded.map(|group| format!("the sparse counts exclude other nodes of group {group}"))
    }

    /// Its approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.groups.len() * (BYTES_PER_GROUP + self.fine.len() * size_of::<i64>())
            + self.members.len() * BYTES_PER_MEMBER
            + self.excluded.len() * size_of::<usize>()
            + self.member_bits.0.len() * size_of::<u64>()
    }

    /// Whether the node has an entry here.
    pub(crate) fn has(&self, index: NameIndex) -> bool {
        self.member_bits.has(index) && self.members.contains_key(&index)
    }

    /// The sparse group of a feasible node that has one.
    pub(crate) fn group_of(&self, index: NameIndex) -> Option<usize> {
        if self.groups.is_empty() || !self.member_bits.has(index) {
            return None;
        }
        let group = self.members.get(&index).filter(|&&group| group != NO_GROUP)?;
        Some(*group as usize)
    }

    /// A bit for each node that has an entry, by name index; `None` in clusters too large for bits.
    pub(crate) fn member_bits(&self) -> Option<&[u64]> {
        (!self.member_bits.0.is_empty()).then_some(self.member_bits.0.as_slice())
    }

    /// The feasible nodes with an entry, and their groups.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (NameIndex, usize)> {
        let placed = self.members.iter().filter(|(_, group)| **group != NO_GROUP);
        placed.map(|(&index, &group)| (index, group as usize))
    }

    /// How many nodes of a group of the ranking are in sparse groups instead.
    pub(crate) fn n_excluded(&self, ranking_group: usize) -> usize {
        self.excluded.get(ranking_group).copied().unwrap_or(0)
    }

    /// The index of a term among those with fine topologies.
    pub(crate) fn place_of(&self, term: usize) -> Option<usize> {
        self.fine.iter().position(|&fine| fine == term)
    }
}

fn hash(ranking_group: u32, counts: &FineCounts) -> u64 {
    use std::hash::BuildHasher;
    FxBuildHasher.hash_one((ranking_group, counts.as_slice()))
}
