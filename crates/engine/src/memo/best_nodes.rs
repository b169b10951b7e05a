//! The nodes with the highest total among groups of equal nodes.
//!
//! The nodes of a [sparse group](super::sparse_domain_counts) are found through the sets of the ranking, which are
//! by static score. A group is searched only if its nodes can be among the best.

use std::cmp::Reverse;

use plimsoll_framework::Row;
use rand::{Rng, RngExt};
use smallvec::SmallVec;

use super::choose::{Chooser, FeasibleGroup, MayPass, Scores};
use super::name_index_set::{NameIndex, NameIndexBits, NameIndexSet};
use crate::pick::{TieBreak, pick};

/// The nodes with the highest total, as disjoint sets.
pub(crate) struct Best<'f> {
    /// The index of a candidate group, and a static score in it.
    pub(super) parts: SmallVec<[(usize, i64); 4]>,
    pub(super) candidates: &'f [FeasibleGroup],
    /// The score of each candidate without the static score; none if there is only one node.
    pub(super) scores: Scores,
}

/// Sets of nodes, each with the candidate of which its nodes are wanted.
type Parts<'a> = SmallVec<[(&'a NameIndexSet, &'a FeasibleGroup); 4]>;

impl Chooser<'_> {
    /// The highest static score in a candidate group.
    pub(super) fn top(&self, candidate: &FeasibleGroup) -> i64 {
        let by_score = &self.ranking.groups[candidate.group].nodes;
        if let Some(sparse_group) = candidate.sparse_group
            && let NameIndexSet::Few(few) = &self.sparse.groups[sparse_group].nodes
        {
            let scores = few.iter().filter_map(|&index| self.ranking.entry(index));
            let highest = scores.map(|(_, static_score)| static_score).max();
            return highest.expect("a candidate has a node");
        }
        let mut scores = by_score.highest_first();
        let with_own = scores.find(|(_, set)| {
            let is_larger = self.sparse.n_excluded(candidate.group) < set.len();
            (candidate.sparse_group.is_none() && is_larger)
                || self.first_own(candidate, set).is_some()
        });
        with_own.expect("a candidate has a node").0
    }

    /// The first node of a set that belongs to a candidate group. All nodes of the set are in its group of the
    /// ranking.
    fn first_own(&self, candidate: &FeasibleGroup, set: &NameIndexSet) -> Option<NameIndex> {
        match (candidate.sparse_group, self.sparse.member_bits()) {
            (Some(sparse_group), _) => set.common(&self.sparse.groups[sparse_group].nodes).next(),
            (None, Some(bits)) => set.outside(bits).next(),
            (None, None) => set.iter().find(|&index| !self.sparse.has(index)),
        }
    }

    /// All of them, ascending, without those that are known to be rejected.
    fn own<'b>(
        &'b self,
        candidate: &FeasibleGroup,
        set: &'b NameIndexSet,
        rejecting: Option<&'b NameIndexBits>,
    ) -> impl Iterator<Item = NameIndex> + 'b {
        let sparse = candidate.sparse_group.map(|sparse_group| &self.sparse.groups[sparse_group]);
        // The larger set is left out word by word, and the other one node by node.
        let (own, are_own, may_pass) = match (sparse, rejecting, self.sparse.member_bits()) {
            (Some(sparse), ..) => (set.common(&sparse.nodes), true, rejecting.is_none()),
            (None, Some(rejecting), _) => (set.outside(rejecting.words()), false, true),
            (None, None, Some(bits)) => (set.outside(bits), true, true),
            (None, None, None) => (set.iter(), false, true),
        };
        let is_rejected = move |index| rejecting.is_some_and(|rejecting| rejecting.has(index));
        own.filter(move |&index| {
            (are_own || !self.sparse.has(index)) && (may_pass || !is_rejected(index))
        })
    }

    /// The nodes of a candidate group with their static scores: the highest first, and ascending for each. Nodes that cannot
    /// pass what is asked last are left out.
    pub(super) fn highest_first<'b>(
        &'b self,
        candidate: &'b FeasibleGroup,
        MayPass { only, rejecting }: MayPass<'b>,
    ) -> impl Iterator<Item = (i64, NameIndex)> + 'b {
        let mut named = only.map(|only| self.named_of(candidate, only)).unwrap_or_default();
        if let Some(rejecting) = rejecting {
            named.retain(|(_, index)| !rejecting.has(*index));
        }
        let sets = self.ranking.groups[candidate.group].nodes.highest_first();
        let sets = sets.take(if only.is_some() { 0 } else { usize::MAX });
        let of_set = move |(score, set)| {
            self.own(candidate, set, rejecting).map(move |index| (score, index))
        };
        named.into_iter().chain(sets.flat_map(of_set))
    }

    /// Those of the named nodes that belong to a candidate group, in the same order, without a look at the others.
    fn named_of(
        &self,
        candidate: &FeasibleGroup,
        named: &[NameIndex],
    ) -> SmallVec<[(i64, NameIndex); 4]> {
        let is_own = |index: NameIndex| match candidate.sparse_group {
            Some(sparse_group) => self.sparse.groups[sparse_group].nodes.has(index),
            None => !self.sparse.has(index),
        };
        let with_score = |&index: &NameIndex| {
            let (group, static_score) = self.ranking.entry(index)?;
            (group as usize == candidate.group && is_own(index)).then_some((static_score, index))
        };
        let mut own: SmallVec<_> = named.iter().filter_map(with_score).collect();
        own.sort_unstable_by_key(|&(static_score, index)| (Reverse(static_score), index));
        own
    }

    /// The best nodes of the candidates, which have these scores without the static score.
    pub(super) fn best<'f>(&self, candidates: &'f [FeasibleGroup], scores: Scores) -> Best<'f> {
        // A group whose nodes cannot be as good as those of another one is not searched.
        let bound = |at: usize| scores[at] + self.bound(&candidates[at]);
        let mut order: SmallVec<[(i64, usize); 16]> =
            (0..candidates.len()).map(|at| (bound(at), at)).collect();
        order.sort_unstable_by_key(|&(bound, at)| (Reverse(bound), at));
        let (mut highest, mut parts) = (i64::MIN, SmallVec::new());
        for (bound, at) in order {
            if bound < highest {
                break;
            }
            let top = self.top(&candidates[at]);
            let total = scores[at] + top;
            if highest < total {
                parts.clear();
                highest = total;
            }
            if total == highest {
                parts.push((at, top));
            }
        }
        Best { parts, candidates, scores }
    }

    /// No static score in a candidate group is higher.
    fn bound(&self, candidate: &FeasibleGroup) -> i64 {
        let mut of_group = self.ranking.groups[candidate.group].nodes.highest_first();
        of_group.next().map_or(0, |(static_score, _)| static_score)
    }

    /// By how much a best node is better than the best of the others; `None` if there is no other.
    pub(super) fn margin(&self, best: &Best<'_>) -> Option<i64> {
        let Best { parts, candidates, scores } = best;
        let (&[(at, top)], Some(score)) = (parts.as_slice(), scores.get(parts[0].0)) else {
            return (1 < parts.len()).then_some(0);
        };
        let of_same = self.highest_first(&candidates[at], MayPass::default()).nth(1);
        let mut second = of_same.map(|(static_score, _)| score + static_score);
        for (other, candidate) in candidates.iter().enumerate().filter(|(other, _)| *other != at) {
            let bound = Some(scores[other] + self.bound(candidate));
            if second < bound {
                second = second.max(Some(scores[other] + self.top(candidate)));
            }
        }
        second.map(|second| score + top - second)
    }

    /// The nodes of one part by name index, ascending.
    fn indices<'b>(
        &'b self,
        best: &'b Best<'_>,
        (at, static_score): (usize, i64),
    ) -> impl Iterator<Item = NameIndex> + 'b {
        let candidate = &best.candidates[at];
        self.own(candidate, self.nodes_at(candidate, static_score), None)
    }

    /// The nodes with a static score in the candidate's group of the ranking.
    fn nodes_at(&self, candidate: &FeasibleGroup, static_score: i64) -> &NameIndexSet {
        let of_group = &self.ranking.groups[candidate.group].nodes;
        of_group.at(static_score).expect("a node has this static score")
    }

    /// The best node with the smallest name.
    pub(crate) fn first(&self, best: &Best<'_>) -> Row {
        let firsts = best.parts.iter().filter_map(|&(at, static_score)| {
            let candidate = &best.candidates[at];
            self.first_own(candidate, self.nodes_at(candidate, static_score))
        });
        self.cluster.name_order.row(firsts.min().expect("there is a best node"))
    }

    /// A random one of the best nodes: the same one that [`pick`] would take from their list, but without
    /// making the list.
    pub(crate) fn any(&self, best: &Best<'_>, rng: &mut impl Rng) -> Row {
        let sets = || {
            best.parts.iter().map(|&(at, static_score)| {
                let candidate = &best.candidates[at];
                (self.nodes_at(candidate, static_score), candidate)
            })
        };
        let n_indices = self.cluster.name_order.n_indices();
        // For few candidates among very many nodes a list is faster.
        let n_listed: usize = sets().map(|(set, candidate)| set.len().min(candidate.len)).sum();
        let Some(member_bits) =
            self.sparse.member_bits().filter(|member_bits| member_bits.len() <= n_listed)
        else {
            return pick(&self.all(best), TieBreak::Random, rng);
        };
        let mut marked = NameIndexBits::none(n_indices);
        let (sparse, whole): (Parts<'_>, Parts<'_>) =
            sets().partition(|(_, candidate)| candidate.sparse_group.is_some());
        whole.iter().for_each(|(set, _)| marked.add(set));
        marked.take_out(member_bits);
        for (set, candidate) in sparse {
            self.own(candidate, set, None).for_each(|index| marked.insert(index));
        }
        let index = match marked.len() {
            1 => marked.nth(0),
            len => marked.nth(rng.random_range(0..len)),
        };
        self.cluster.name_order.row(index.expect("there is a best node"))
    }

    /// All best nodes, sorted by name.
    pub(crate) fn all(&self, best: &Best<'_>) -> Vec<Row> {
        let parts = best.parts.iter();
        let mut indices: Vec<NameIndex> =
            parts.flat_map(|&part| self.indices(best, part)).collect();
        if 1 < best.parts.len() {
            indices.sort_unstable();
        }
        indices.into_iter().map(|index| self.cluster.name_order.row(index)).collect()
    }
}
