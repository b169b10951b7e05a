//! Decisions about a sample of the nodes, for profiles with `percentageOfNodesToScore`.
//!
//! As from scratch, nodes are visited one after the other until enough of them are feasible. Whether a node is
//! feasible is known from the ranking and the counts, so a visit is a look into an array. If no more nodes are
//! feasible than the sample holds, all of them are in it, and nothing needs to be visited.

use plimsoll_framework::{MAX_NODE_SCORE, NEVER, NominatedPods, PodInfo, Row, Scored};
use rand::{Rng, RngExt};
use smallvec::SmallVec;

use super::NodeSet;
use super::choose::{Chooser, FeasibleNodes};
use super::decide::{Want, found};
use super::name_index_set::NameIndex;
use super::scan::Scanner;
use super::uncached_filters::{UncachedFilters, WeightedOnDemand};
use crate::cycle::Cycle;
use crate::pick::TieBreaker;
use crate::sample::SampleOrder;

/// In place of a candidate, for groups that are rejected.
const REJECTED: u32 = u32::MAX;

/// For each group of nodes, the candidate that it is.
pub(super) struct CandidateOfGroup {
    groups: Vec<u32>,
    sparse_groups: Vec<u32>,
}

/// The visited feasible nodes of one candidate.
#[derive(Clone, Copy)]
struct SampledGroup {
    candidate: u32,
    len: usize,
    /// The highest static score.
    top: i64,
    /// The first node by name that has it.
    first: NameIndex,
}

/// The nodes that were visited.
pub(super) struct Visited<'a> {
    order: SampleOrder<'a>,
    candidate_of: CandidateOfGroup,
    groups: SmallVec<[SampledGroup; 8]>,
    /// The visited nodes of feasible groups that do not pass, ascending.
    rejected: Vec<NameIndex>,
    /// How many nodes were visited before the sample was full and one more feasible node was found.
    len: usize,
}

impl SampleOrder<'_> {
    /// All rows in the order of the visits.
    fn visits(&self) -> impl Iterator<Item = Row> {
        let start = self.start.checked_rem(self.rows.len()).unwrap_or(0);
        let (behind, ahead) = self.rows.split_at(start);
        ahead.iter().chain(behind).copied()
    }

    /// Whether the node in `row` is among the first `n_visited`.
    fn has_visited(&self, row: Row, n_visited: usize) -> bool {
        self.visits().take(n_visited).any(|other| other == row)
    }
}

impl CandidateOfGroup {
    pub(super) fn new(chooser: &Chooser<'_>, feasible: &FeasibleNodes) -> Self {
        let mut candidate_of = CandidateOfGroup {
            groups: vec![REJECTED; chooser.ranking.groups.len()],
            sparse_groups: vec![REJECTED; chooser.sparse.groups.len()],
        };
        for (candidate, one) in (0..).zip(&feasible.candidates) {
            match one.sparse_group {
                None => candidate_of.groups[one.group] = candidate,
                Some(group) => candidate_of.sparse_groups[group] = candidate,
            }
        }
        candidate_of
    }

    /// The candidate of a node, and its static score; `None` if the node is not feasible.
    pub(super) fn look(&self, chooser: &Chooser<'_>, index: NameIndex) -> Option<(u32, i64)> {
        let (group, static_score) = chooser.ranking.entry(index)?;
        let candidate = match chooser.sparse.group_of(index) {
            Some(group) => self.sparse_groups[group],
            None => self.groups[group as usize],
        };
        (candidate != REJECTED).then_some((candidate, static_score))
    }
}

impl<'a> Visited<'a> {
    /// Visits nodes until there are enough. `feasible` has more of them than that, of which some may not pass.
    pub(super) fn new(
        chooser: &Chooser<'_>,
        feasible: &FeasibleNodes,
        order: SampleOrder<'a>,
        mut passes: impl FnMut(Row) -> bool,
    ) -> Self {
        let candidate_of = CandidateOfGroup::new(chooser, feasible);
        let none = SampledGroup { candidate: 0, len: 0, top: i64::MIN, first: 0 };
        let mut groups: SmallVec<[SampledGroup; 8]> = SmallVec::new();
        groups.resize(feasible.candidates.len(), none);
        let (mut n_feasible, mut n_visited, mut rejected) = (0, 0, Vec::new());
        for row in order.visits() {
            let index = chooser.cluster.name_order.index(row);
            let found = candidate_of.look(chooser, index);
            let is_rejected = found.is_some() && !passes(row);
            if is_rejected {
                rejected.push(index);
            }
            if let Some((candidate, static_score)) = found.filter(|_| !is_rejected) {
                if n_feasible == order.limit {
                    break;
                }
                n_feasible += 1;
                groups[candidate as usize].add(index, static_score);
            }
            n_visited += 1;
        }
        for (candidate, group) in (0..).zip(&mut groups) {
            group.candidate = candidate;
        }
        groups.retain(|group| 0 < group.len);
        rejected.sort_unstable();
        Visited { order, candidate_of, groups, rejected, len: n_visited }
    }

    /// How many nodes were judged, with the nominated node of the pod, which was judged first and rejected.
    pub(super) fn n_judged(&self, nominated: Option<Row>) -> usize {
        let is_other = |row: Row| !self.order.has_visited(row, self.len);
        self.len + usize::from(nominated.is_some_and(is_other))
    }

    /// Whether no node is feasible.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether the nodes are scored.
    pub(super) fn is_scored(&self) -> bool {
        1 < self.groups.iter().map(|group| group.len).sum::<usize>()
    }

    /// Chooses among the best of the visited nodes, of which one is feasible; `n_judged` nodes were judged. `None` if
    /// the counts do not suffice.
    pub(super) fn choose(
        &self,
        chooser: &Chooser<'_>,
        feasible: &FeasibleNodes,
        n_judged: usize,
        want: Want,
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Option<Cycle> {
        let sampled =
            feasible.with(self.groups.iter().map(|one| (one.candidate as usize, one.len)));
        let scores = if self.is_scored() {
            chooser.scores(&sampled)
        } else {
            Some([0].into_iter().collect())
        };
        let scores = scores?;
        let totals = || self.groups.iter().zip(&scores).map(|(group, score)| group.top + score);
        let highest = totals().max();
        let best = || self.groups.iter().zip(totals()).filter(|(_, total)| Some(*total) == highest);
        let name_order = chooser.cluster.name_order;
        if want == Want::First {
            let first = best().map(|(group, _)| group.first).min();
            let row = name_order.row(first.expect("more nodes are feasible than the sample holds"));
            return Some(Cycle { n_judged, ..Cycle::found(row, Vec::new()) });
        }
        let mut top_of = vec![None; feasible.candidates.len()];
        best().for_each(|(group, _)| top_of[group.candidate as usize] = Some(group.top));
        let mut indices: Vec<NameIndex> = Vec::new();
        for row in self.order.visits().take(self.len) {
            let index = name_order.index(row);
            let is_best = self
                .candidate_of
                .look(chooser, index)
                .is_some_and(|(candidate, score)| top_of[candidate as usize] == Some(score));
            if is_best && self.rejected.binary_search(&index).is_err() {
                indices.push(index);
            }
        }
        if want == Want::Any && 1 < indices.len() {
            // The same node as from the sorted list.
            let at = chance.rng.random_range(0..indices.len());
            let (_, &mut index, _) = indices.select_nth_unstable(at);
            return Some(Cycle { n_judged, ..Cycle::found(name_order.row(index), Vec::new()) });
        }
        indices.sort_unstable();
        let best = indices.into_iter().map(|index| name_order.row(index)).collect();
        Some(found(best, n_judged, want, chance))
    }

    /// The same with a score on demand: all visited nodes are scored.
    pub(super) fn choose_on_demand(
        &self,
        (chooser, feasible, score): (&Chooser<'_>, &FeasibleNodes, &WeightedOnDemand),
        n_judged: usize,
        want: Want,
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Option<Cycle> {
        if !self.is_scored() {
            return self.choose(chooser, feasible, n_judged, want, chance);
        }
        let sampled =
            feasible.with(self.groups.iter().map(|one| (one.candidate as usize, one.len)));
        let mut of_candidate = vec![0; feasible.candidates.len()];
        for (group, total) in self.groups.iter().zip(chooser.scores(&sampled)?) {
            of_candidate[group.candidate as usize] = total;
        }
        let name_order = chooser.cluster.name_order;
        let (mut nodes, mut on_demand) = (Vec::new(), Vec::new());
        for row in self.order.visits().take(self.len) {
            let index = name_order.index(row);
            let Some((candidate, static_score)) = self.candidate_of.look(chooser, index) else {
                continue;
            };
            if self.rejected.binary_search(&index).is_err() {
                nodes.push((index, of_candidate[candidate as usize] + static_score));
                let raw = score.scores.raw(chooser.cluster.view.nodes, row);
                on_demand.push(Scored { row, score: raw });
            }
        }
        score.scores.normalize.apply(&mut on_demand);
        if on_demand.iter().any(|one| !(0..=MAX_NODE_SCORE).contains(&one.score)) {
            return None;
        }
        let totals = nodes.iter().zip(&on_demand);
        let totals: Vec<i64> =
            totals.map(|((_, total), one)| total + score.weight * one.score).collect();
        let highest = totals.iter().max();
        let best = nodes.iter().zip(&totals).filter(|(_, total)| Some(*total) == highest);
        let mut indices: Vec<NameIndex> = best.map(|((index, _), _)| *index).collect();
        indices.sort_unstable();
        let best = indices.into_iter().map(|index| name_order.row(index)).collect();
        Some(found(best, n_judged, want, chance))
    }
}

impl SampledGroup {
    fn add(&mut self, index: NameIndex, static_score: i64) {
        self.len += 1;
        if self.top < static_score {
            (self.top, self.first) = (static_score, index);
        } else if self.top == static_score {
            self.first = self.first.min(index);
        }
    }
}

impl Scanner {
    /// Excludes the nodes that are not in the sample, and those that one of the `uncached` filters rejects.
    /// Returns how many nodes were judged.
    pub(super) fn keep_sample(
        &mut self,
        order: SampleOrder<'_>,
        mut uncached: Option<&mut UncachedFilters>,
        chooser: &Chooser<'_>,
    ) -> usize {
        let candidate_of =
            chooser.tells_apart().then(|| CandidateOfGroup::new(chooser, &chooser.feasible_now()));
        let mut sample: Vec<(NameIndex, f32)> = Vec::with_capacity(order.limit);
        let mut n_visited = 0;
        for row in order.visits() {
            let index = chooser.cluster.name_order.index(row);
            let total = self.totals.of[index as usize];
            let is_left = NEVER < total
                && candidate_of.as_ref().is_none_or(|all| all.look(chooser, index).is_some());
            let mut passes =
                || uncached.as_deref_mut().is_none_or(|one| one.pass(row, chooser.asked()));
            if is_left && passes() {
                if sample.len() == order.limit {
                    break;
                }
                sample.push((index, total));
            }
            n_visited += 1;
        }
        self.totals.of.fill(NEVER);
        for (index, total) in sample {
            self.totals.of[index as usize] = total;
        }
        n_visited
    }
}

impl NodeSet {
    /// The row of the node to which a pod is nominated, if it is known.
    pub(super) fn nominated_row(&self, pod: &PodInfo, nominated: &NominatedPods) -> Option<Row> {
        let index = self.name_order.find(nominated.node_of(&pod.key)?)?;
        Some(self.name_order.row(index))
    }
}
