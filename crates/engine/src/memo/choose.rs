//! Chooses the best nodes from groups of equal nodes.

use std::ops::Range;
use std::rc::Rc;

use plimsoll_framework::{
    DomainScore, MAX_NODE_SCORE, NormalizeByGroup, Rejection, Row, Scored, ScoredGroup, TermCount,
};
use smallvec::{SmallVec, smallvec};

use super::best_nodes::Best;
use super::counts_cache::{CountsCache, CountsId};
use super::domain_counts::{DomainCounts, RangedFilter};
use super::name_index_set::{NameIndex, NameIndexBits};
use super::node_ranking::{ClusterView, NodeRanking};
use super::rankings::{RankingId, Rankings};
use super::sparse_domain_counts::SparseDomainCounts;
use super::topology::Domain;

/// The result of a choice.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each decision, which mostly has the best nodes"
)]
pub(crate) enum GroupChoice<'f> {
    /// No node is feasible.
    Nothing,
    /// The best nodes.
    Best(Best<'f>),
    /// The scores cannot be computed from the counts, so that the pod must be decided from scratch.
    Unclear,
}

/// The groups that pass the filters.
pub(crate) struct FeasibleNodes {
    pub(crate) candidates: FeasibleGroups,
    /// For each candidate group, the counts for each term.
    term_counts: TermCounts,
    /// If only some of the nodes may pass what is asked last: these, ascending.
    only: Option<Vec<NameIndex>>,
    /// Nodes that are known not to pass what is asked last.
    rejecting: Option<Rc<NameIndexBits>>,
}

/// Which nodes of groups may pass what is asked last.
#[derive(Clone, Copy, Default)]
pub(super) struct MayPass<'a> {
    /// Only these, ascending; `None` for all.
    pub(super) only: Option<&'a [NameIndex]>,
    /// But not these.
    pub(super) rejecting: Option<&'a NameIndexBits>,
}

impl FeasibleNodes {
    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.candidates.iter().map(|candidate| candidate.len).sum()
    }

    /// The same, if only these nodes may pass what is asked last.
    pub(super) fn limited_to(mut self, only: Option<Vec<NameIndex>>) -> Self {
        self.only = only.map(|mut only| {
            only.sort_unstable();
            only.dedup();
            only
        });
        self
    }

    /// The same, if these nodes are known not to pass what is asked last.
    pub(super) fn without(self, rejecting: Option<Rc<NameIndexBits>>) -> Self {
        FeasibleNodes { rejecting, ..self }
    }

    /// The only nodes that may pass what is asked last, ascending; `None` if all may.
    pub(super) fn only(&self) -> Option<&[NameIndex]> {
        self.only.as_deref()
    }

    /// Which nodes may pass what is asked last.
    pub(super) fn may_pass(&self) -> MayPass<'_> {
        MayPass { only: self.only(), rejecting: self.rejecting.as_deref() }
    }

    /// Some of the nodes: the indices of candidates, with how many nodes of each. No number is 0.
    pub(crate) fn with(&self, some: impl Iterator<Item = (usize, usize)>) -> Self {
        let n_terms = self.term_counts.len().checked_div(self.candidates.len()).unwrap_or(0);
        let mut with = FeasibleNodes {
            candidates: FeasibleGroups::new(),
            term_counts: TermCounts::new(),
            only: self.only.clone(),
            rejecting: self.rejecting.clone(),
        };
        for (at, len) in some {
            with.candidates.push(FeasibleGroup { len, ..self.candidates[at] });
            with.term_counts.extend_from_slice(&self.term_counts[at * n_terms..(at + 1) * n_terms]);
        }
        with
    }
}

/// Filters by counts.
type Judges<'a> = SmallVec<[&'a RangedFilter; 4]>;
type TermCounts = SmallVec<[TermCount; 32]>;
type FeasibleGroups = SmallVec<[FeasibleGroup; 16]>;
pub(super) type Scores = SmallVec<[i64; 16]>;

/// Feasible nodes that are equal except for their static scores.
#[derive(Clone, Copy)]
pub(crate) struct FeasibleGroup {
    pub(crate) group: usize,
    /// The sparse group; `None` for nodes of the ranking's group that are in no sparse group.
    pub(crate) sparse_group: Option<usize>,
    pub(super) len: usize,
}

/// Where the counts of a term are found.
struct TermPlace {
    term: usize,
    /// The place of the domain in the key of a group.
    in_key: usize,
    /// For a fine topology, the place of the count in a sparse group.
    sparse: Option<usize>,
    /// The domain of the first node of its filter.
    first: Option<Domain>,
}

/// The data for a choice.
#[derive(Clone, Copy)]
pub(crate) struct Chooser<'a> {
    pub(crate) ranking: &'a NodeRanking,
    pub(crate) domain_counts: &'a DomainCounts,
    pub(crate) sparse: &'a SparseDomainCounts,
    pub(crate) cluster: ClusterView<'a>,
}

impl<'a> Chooser<'a> {
    /// The data for a choice by a ranking and domain counts, which must be up to date.
    pub(super) fn of(
        (rankings, counts): (&'a Rankings, &'a CountsCache),
        with: (RankingId, CountsId),
        cluster: ClusterView<'a>,
    ) -> Option<Self> {
        let entry = rankings.get(with.0)?;
        let (domain_counts, sparse) = (counts.get(with.1)?, entry.sparse(with.1)?);
        Some(Chooser { ranking: &entry.ranking, domain_counts, sparse, cluster })
    }
}

impl Chooser<'_> {
    /// The groups that pass, according to the ranking and the sparse counts.
    pub(crate) fn feasible_now(&self) -> FeasibleNodes {
        self.feasible(|group, sparse_group| match sparse_group {
            None => self.ranking.groups[group].nodes.len() - self.sparse.n_excluded(group),
            Some(sparse_group) => self.sparse.groups[sparse_group].nodes.len(),
        })
    }

    /// The best of the feasible nodes.
    pub(crate) fn choose<'f>(&self, feasible: &'f FeasibleNodes) -> GroupChoice<'f> {
        match feasible.len() {
            0 => GroupChoice::Nothing,
            1 => {
                let candidates = &feasible.candidates[..];
                let only = candidates.iter().position(|candidate| 0 < candidate.len);
                let only = only.expect("one of them has a node");
                let static_score = self.top(&candidates[only]);
                let parts = smallvec![(only, static_score)];
                GroupChoice::Best(Best { parts, candidates, scores: Scores::new() })
            }
            _ => match self.scores(feasible) {
                Some(scores) => GroupChoice::Best(self.best(&feasible.candidates, scores)),
                None => GroupChoice::Unclear,
            },
        }
    }

    /// The number of groups of the ranking and sparse groups.
    pub(super) fn n_groups(&self) -> usize {
        self.ranking.groups.len() + self.sparse.groups.len()
    }

    /// Whether nodes can differ in anything other than their static scores.
    pub(crate) fn tells_apart(&self) -> bool {
        0 < self.domain_counts.n_terms() || 1 < self.ranking.groups.len()
    }

    /// The groups that pass. `len` returns the number of nodes in a sparse group, or the number of nodes in a
    /// group of the ranking that are in no sparse group.
    pub(crate) fn feasible(&self, len: impl Fn(usize, Option<usize>) -> usize) -> FeasibleNodes {
        let mut candidates = FeasibleGroups::new();
        let mut term_counts = TermCounts::new();
        // Without terms a filter judges all nodes alike.
        let (judges, blind): (Judges<'_>, Judges<'_>) =
            self.domain_counts.filters.iter().partition(|(_, range)| !range.is_empty());
        if !blind.iter().all(|(judge, _)| judge.verdict(&[], &[]).passes()) {
            return FeasibleNodes { candidates, term_counts, only: None, rejecting: None };
        }
        let places = self.places();
        let totals = self.domain_counts.totals(self.cluster);
        let (of_filters, of_scores) = places.split_at(totals.len());
        let mut consider = |group: usize, sparse_group: Option<usize>| {
            let candidate = FeasibleGroup { group, sparse_group, len: len(group, sparse_group) };
            if candidate.len == 0 {
                return;
            }
            let first = term_counts.len();
            term_counts.extend(of_filters.iter().map(|place| self.term_count(&candidate, place)));
            let own = &term_counts[first..];
            match judges.iter().all(|(judge, range)| {
                judge.verdict(&own[range.clone()], &totals[range.clone()]).passes()
            }) {
                true => {
                    let of_scores = of_scores.iter();
                    term_counts.extend(of_scores.map(|place| self.term_count(&candidate, place)));
                    candidates.push(candidate);
                }
                false => term_counts.truncate(first),
            }
        };
        for group in 0..self.ranking.groups.len() {
            consider(group, None);
        }
        for (sparse_group, one) in self.sparse.groups.iter().enumerate() {
            consider(one.ranking_group as usize, Some(sparse_group));
        }
        FeasibleNodes { candidates, term_counts, only: None, rejecting: None }
    }

    /// Where the counts of each term are found.
    fn places(&self) -> SmallVec<[TermPlace; 8]> {
        let place = |term: usize| TermPlace {
            term,
            in_key: self.ranking.place_in_key(self.domain_counts.topology(term)),
            sparse: self.sparse.place_of(term),
            first: self.domain_counts.first_domain(term, self.cluster),
        };
        (0..self.domain_counts.n_terms()).map(place).collect()
    }

    fn term_count(&self, candidate: &FeasibleGroup, place: &TermPlace) -> TermCount {
        let domain = self.ranking.groups[candidate.group].key[place.in_key];
        let Ok(domain) = u32::try_from(domain) else { return TermCount::default() };
        let count = match (place.sparse, candidate.sparse_group) {
            (None, _) => self.domain_counts.count_in(place.term, domain),
            (Some(place), Some(sparse_group)) => self.sparse.groups[sparse_group].counts[place],
            (Some(_), None) => 0,
        };
        TermCount { present: true, count, with_first: place.first == Some(domain) }
    }

    /// The counts for each term on one node; `None` if the node is rejected by itself.
    pub(crate) fn term_counts_of(&self, index: NameIndex) -> Option<SmallVec<[TermCount; 32]>> {
        let (group, _) = self.ranking.entry(index)?;
        let sparse_group = self.sparse.group_of(index);
        let candidate = FeasibleGroup { group: group as usize, sparse_group, len: 1 };
        Some(self.places().iter().map(|place| self.term_count(&candidate, place)).collect())
    }

    /// The first filter by counts that rejects the nodes of a group, and why.
    pub(super) fn rejection_by_counts(
        &self,
        group: usize,
        sparse_group: Option<usize>,
    ) -> Option<(&'static str, Rejection)> {
        let candidate = FeasibleGroup { group, sparse_group, len: 1 };
        let totals = self.domain_counts.totals(self.cluster);
        let places = self.places();
        let counts: TermCounts =
            places[..totals.len()].iter().map(|place| self.term_count(&candidate, place)).collect();
        self.domain_counts.first_rejection(&counts, &totals)
    }

    /// The score of each candidate group without the static score; `None` if the counts do not suffice.
    pub(crate) fn scores(&self, feasible: &FeasibleNodes) -> Option<Scores> {
        let FeasibleNodes { candidates, term_counts, .. } = feasible;
        let mut scores: Scores = smallvec![0; candidates.len()];
        let mut raws: SmallVec<[Scored; 16]> = SmallVec::new();
        for (at, normalized) in self.ranking.normalized.iter().enumerate() {
            raws.clear();
            let groups = &self.ranking.groups;
            raws.extend(candidates.iter().map(|one| scored(groups[one.group].key[at])));
            normalized.normalize.apply(&mut raws);
            add(&mut scores, &raws, normalized.weight)?;
        }
        let n_terms = self.domain_counts.n_terms();
        for (weight, ranker, range) in &self.domain_counts.scores {
            let own =
                |at: usize| &term_counts[at * n_terms + range.start..at * n_terms + range.end];
            let weights = match ranker.reads_domains() {
                true => self.weights(ranker.as_ref(), range, candidates, own)?,
                false => SmallVec::new(),
            };
            let by_group = ranker.by_group();
            // Without terms all nodes have the same score.
            let is_same = range.is_empty() && by_group.is_none();
            let n_raws = if is_same { 1 } else { candidates.len() };
            raws.clear();
            raws.extend((0..n_raws).map(|at| scored(ranker.raw(own(at), &weights))));
            match by_group {
                None => ranker.normalize(&mut raws),
                Some(by_group) => self.normalize_by_group(by_group, range, candidates, &mut raws),
            }
            raws.resize(candidates.len(), raws[0]);
            add(&mut scores, &raws, *weight)?;
        }
        Some(scores)
    }

    fn normalize_by_group(
        &self,
        by_group: &dyn NormalizeByGroup,
        range: &Range<usize>,
        candidates: &[FeasibleGroup],
        raws: &mut [Scored],
    ) {
        let group = |(candidate, raw): (&FeasibleGroup, &Scored)| {
            let domain = |&term: &usize| {
                let topology = self.domain_counts.topology(range.start + term);
                let group = &self.ranking.groups[candidate.group];
                u32::try_from(self.ranking.domain_in(group, topology)).ok()
            };
            let len = i64::try_from(candidate.len).expect("nodes have 32-bit indices");
            ScoredGroup {
                score: raw.score,
                len,
                domains: by_group.terms().iter().map(domain).collect(),
            }
        };
        let mut groups: SmallVec<[ScoredGroup; 16]> =
            candidates.iter().zip(&*raws).map(group).collect();
        by_group.normalize(&mut groups);
        raws.iter_mut().zip(groups).for_each(|(raw, group)| raw.score = group.score);
    }

    /// The weight of each term of a score, by how many domains have a node that is ranked.
    fn weights<'s>(
        &self,
        ranker: &dyn DomainScore,
        range: &Range<usize>,
        candidates: &[FeasibleGroup],
        own: impl Fn(usize) -> &'s [TermCount],
    ) -> Option<SmallVec<[f64; 4]>> {
        let counting: SmallVec<[usize; 16]> =
            (0..candidates.len()).filter(|&at| ranker.is_ranked(own(at))).collect();
        let count = |term: usize| {
            let topology = &self.cluster.topologies[self.domain_counts.topology(term)];
            let place = term - range.start;
            let present = |at: &&usize| own(**at)[place].present;
            if topology.key.is_by_node() {
                return Some(counting.iter().map(|&at| candidates[at].len).sum());
            }
            let some_miss = counting.iter().any(|&at| !own(at)[place].present);
            if some_miss && topology.has_empty() {
                return None;
            }
            let n_present = if topology.is_fine() {
                if !topology.is_single() {
                    return None;
                }
                counting.iter().filter(present).map(|&at| candidates[at].len).sum()
            } else {
                let groups = counting.iter().filter(present).map(|&at| candidates[at].group);
                let number = self.domain_counts.topology(term);
                let domain =
                    |group: usize| self.ranking.domain_in(&self.ranking.groups[group], number);
                // A coarse key has at most 64 domains.
                let met = groups.fold(0_u64, |met, group| met | 1 << domain(group));
                met.count_ones() as usize
            };
            Some(n_present + usize::from(some_miss))
        };
        range.clone().map(|term| Some(ranker.weight(count(term)?))).collect()
    }
}

fn scored(score: i64) -> Scored {
    // The row does not matter here.
    Scored { row: Row::from_index(0), score }
}

/// Adds weighted scores; `None` if a score is out of range.
fn add(scores: &mut [i64], normalized: &[Scored], weight: i64) -> Option<()> {
    for (score, one) in scores.iter_mut().zip(normalized) {
        if !(0..=MAX_NODE_SCORE).contains(&one.score) {
            return None;
        }
        *score += one.score * weight;
    }
    Some(())
}
