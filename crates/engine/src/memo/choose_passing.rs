//! Chooses the best of the nodes that pass filters which judge node by node.
//!
//! The filters are asked as late as possible: the best node of each group proves that the group has a feasible
//! node, and scores depend on nothing else. If they also depend on the number of feasible nodes, all nodes are
//! asked about.

use plimsoll_framework::Row;
use smallvec::SmallVec;

use super::Want;
use super::choose::{Chooser, FeasibleNodes};
use super::name_index_set::{NameIndex, NameIndexBits};

/// The result of such a choice.
pub(crate) enum PassingChoice {
    /// No node is feasible.
    Nothing,
    /// The best nodes, sorted by name; those that are not wanted may be missing.
    Best {
        /// At least one.
        rows: Vec<Row>,
        /// Whether there are several feasible nodes.
        is_scored: bool,
    },
    /// The scores cannot be computed from the counts, so that the pod must be decided from scratch.
    Unclear,
}

impl Chooser<'_> {
    /// The best of the `feasible` nodes that pass.
    pub(crate) fn choose_passing(
        &self,
        mut feasible: FeasibleNodes,
        want: Want,
        mut passes: impl FnMut(NameIndex) -> bool,
    ) -> PassingChoice {
        if self.counts_feasible_nodes() {
            let passing = self.ask_all(&mut feasible, passes);
            return self.best_passing(feasible, want, |index| passing.has(index));
        }
        self.best_passing(feasible, want, &mut passes)
    }

    /// Whether scores depend on the number of feasible nodes.
    pub(super) fn counts_feasible_nodes(&self) -> bool {
        let counts_nodes = |term: usize| {
            let topology = &self.cluster.topologies[self.domain_counts.topology(term)];
            topology.key.is_by_node() || topology.is_fine()
        };
        let mut scores = self.domain_counts.scores.iter();
        scores.any(|(_, ranker, range)| {
            ranker.by_group().is_some() || ranker.reads_domains() && range.clone().any(counts_nodes)
        })
    }

    /// Asks about all feasible nodes, and corrects how many each group has.
    fn ask_all(
        &self,
        feasible: &mut FeasibleNodes,
        mut passes: impl FnMut(NameIndex) -> bool,
    ) -> NameIndexBits {
        let mut passing = NameIndexBits::none(self.cluster.name_order.n_indices());
        for group in &mut feasible.candidates {
            let mut len = 0;
            for (_, index) in self.highest_first(group) {
                if passes(index) {
                    passing.insert(index);
                    len += 1;
                }
            }
            group.len = len;
        }
        passing
    }

    fn best_passing(
        &self,
        mut feasible: FeasibleNodes,
        want: Want,
        mut passes: impl FnMut(NameIndex) -> bool,
    ) -> PassingChoice {
        let tops: SmallVec<[Option<(i64, NameIndex)>; 16]> = feasible
            .candidates
            .iter()
            .map(|group| self.highest_first(group).find(|&(_, index)| passes(index)))
            .collect();
        let kept = (0..tops.len()).filter(|&at| tops[at].is_some());
        feasible = feasible.with(kept.map(|at| (at, feasible.candidates[at].len)));
        let tops: SmallVec<[(i64, NameIndex); 16]> = tops.into_iter().flatten().collect();
        let is_scored = match (feasible.candidates.as_slice(), tops.as_slice()) {
            ([], _) => return PassingChoice::Nothing,
            ([group], [(_, first)]) => {
                let mut others = self.highest_first(group).skip_while(|(_, index)| index != first);
                others.next();
                others.any(|(_, index)| passes(index))
            }
            _ => true,
        };
        if !is_scored {
            let rows = vec![self.cluster.name_order.row(tops[0].1)];
            return PassingChoice::Best { rows, is_scored };
        }
        let Some(scores) = self.scores(&feasible) else { return PassingChoice::Unclear };
        let total = |at: usize| scores[at] + tops[at].0;
        let highest = (0..tops.len()).map(total).max();
        let best = (0..tops.len()).filter(|&at| Some(total(at)) == highest);
        let mut indices: Vec<NameIndex> = match want {
            Want::First => best.map(|at| tops[at].1).min().into_iter().collect(),
            Want::Any | Want::All => {
                let mut indices = Vec::new();
                for at in best {
                    let (static_score, first) = tops[at];
                    let all = self.highest_first(&feasible.candidates[at]);
                    let others = all.skip_while(|&(_, index)| index != first).skip(1);
                    let equal = others.take_while(|&(other, _)| other == static_score);
                    indices.push(first);
                    indices.extend(equal.map(|(_, index)| index).filter(|&index| passes(index)));
                }
                indices
            }
        };
        indices.sort_unstable();
        let rows = indices.into_iter().map(|index| self.cluster.name_order.row(index)).collect();
        PassingChoice::Best { rows, is_scored }
    }
}
