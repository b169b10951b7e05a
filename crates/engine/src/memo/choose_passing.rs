//! Chooses the best of the nodes that pass filters which judge node by node.
//!
//! The filters are asked as late as possible: the best node of each group proves that the group has a feasible
//! node, and scores depend on nothing else. If they also depend on the number of feasible nodes, all nodes are
//! asked about.
//!
//! With a score [on demand](plimsoll_framework::ScoreOnDemand) the best node of a group is not known before nodes are
//! scored. They are asked in the order of their other scores, and only where none before them is at least as good.

use plimsoll_framework::{MAX_NODE_SCORE, Row, Scored};
use smallvec::SmallVec;

use super::Want;
use super::choose::{Chooser, FeasibleGroup, FeasibleNodes, MayPass, Scores};
use super::name_index_set::{NameIndex, NameIndexBits};
use super::uncached_filters::WeightedOnDemand;

/// The result of such a choice.
pub(crate) enum PassingChoice {
    /// No node is feasible.
    Nothing,
    /// The best nodes, sorted by name; those that are not wanted may be missing.
    Best {
        /// At least one.
        rows: Vec<Row>,
        /// How many nodes are feasible, if that is known. It is if there is only one.
        n_feasible: Option<usize>,
        /// By how much they are better than the best of the others, if that is known.
        margin: Option<i64>,
    },
    /// The scores cannot be computed from the counts, so that the pod must be decided from scratch.
    Unclear,
}

/// A node that passes and may be the best.
struct Contender {
    /// Its candidate group.
    at: usize,
    static_score: i64,
    /// Its raw score on demand.
    raw: i64,
    index: NameIndex,
}

/// The highest raw scores of the nodes of a group that have been asked about.
#[derive(Default)]
struct Highest {
    /// Of nodes with a higher static score than the present one.
    above: Option<i64>,
    /// Of those with this static score.
    level: Option<(i64, i64)>,
}

impl Highest {
    /// Goes on to nodes with this static score.
    fn reach(&mut self, static_score: i64) {
        if self.level.is_some_and(|(level, _)| level != static_score) {
            self.above = self.above.max(self.level.take().map(|(_, raw)| raw));
        }
    }

    /// The highest raw score with which a node is better than another one of this raw score, or as good and earlier.
    fn before(&self, want: Want) -> Option<i64> {
        match want {
            Want::First => self.above.max(self.level.map(|(_, raw)| raw)),
            // Of equally good nodes all are wanted.
            Want::Any | Want::All => self.above,
        }
    }

    fn add(&mut self, static_score: i64, raw: i64) {
        let highest = self.level.map_or(raw, |(_, highest)| highest.max(raw));
        self.level = Some((static_score, highest));
    }
}

impl PassingChoice {
    /// No other node is feasible.
    fn only(row: Row) -> Self {
        PassingChoice::Best { rows: vec![row], n_feasible: Some(1), margin: None }
    }
}

impl Chooser<'_> {
    /// The best of the `feasible` nodes that pass. So many more nodes are asked about to know by how much it is better than others.
    pub(super) fn choose_passing(
        &self,
        mut feasible: FeasibleNodes,
        wanted: (Want, Option<usize>),
        on_demand: Option<&WeightedOnDemand>,
        mut passes: impl FnMut(NameIndex) -> bool,
    ) -> PassingChoice {
        if !self.counts_feasible_nodes() {
            return self.best_with(feasible, wanted, on_demand, &mut passes);
        }
        let passing = self.ask_all(&mut feasible, passes);
        let known = feasible.len();
        match self.best_with(feasible, wanted, on_demand, |index| passing.has(index)) {
            PassingChoice::Best { rows, margin, .. } => {
                PassingChoice::Best { rows, n_feasible: Some(known), margin }
            }
            choice @ (PassingChoice::Nothing | PassingChoice::Unclear) => choice,
        }
    }

    fn best_with(
        &self,
        feasible: FeasibleNodes,
        (want, most_asked): (Want, Option<usize>),
        on_demand: Option<&WeightedOnDemand>,
        passes: impl FnMut(NameIndex) -> bool,
    ) -> PassingChoice {
        match on_demand {
            None => self.best_passing(feasible, (want, most_asked), passes),
            // A node that cannot be the best is not scored, so the margin is not known.
            Some(score) => self.best_on_demand(&feasible, want, score, passes),
        }
    }

    /// The same with a score on demand.
    fn best_on_demand(
        &self,
        feasible: &FeasibleNodes,
        want: Want,
        score: &WeightedOnDemand,
        mut passes: impl FnMut(NameIndex) -> bool,
    ) -> PassingChoice {
        let (contenders, kept) = self.contenders(feasible, want, score, &mut passes);
        let feasible = feasible.with(kept.iter().map(|&at| (at, feasible.candidates[at].len)));
        let is_scored = match (contenders.as_slice(), kept.len()) {
            ([], _) => return PassingChoice::Nothing,
            ([only], 1) => {
                let mut others = self.highest_first(&feasible.candidates[0], feasible.may_pass());
                others.any(|(_, index)| index != only.index && passes(index))
            }
            _ => true,
        };
        let row = |index| self.cluster.name_order.row(index);
        if !is_scored {
            return PassingChoice::only(row(contenders[0].index));
        }
        let Some(scores) = self.scores(&feasible) else { return PassingChoice::Unclear };
        let raw = |one: &Contender| Scored { row: row(one.index), score: one.raw };
        let mut on_demand: Vec<Scored> = contenders.iter().map(raw).collect();
        score.scores.normalize.apply(&mut on_demand);
        if on_demand.iter().any(|one| !(0..=MAX_NODE_SCORE).contains(&one.score)) {
            return PassingChoice::Unclear;
        }
        let total = |(one, on_demand): (&Contender, &Scored)| {
            let group = kept.binary_search(&one.at).expect("groups of contenders are kept");
            scores[group] + one.static_score + score.weight * on_demand.score
        };
        let totals: Vec<i64> = contenders.iter().zip(&on_demand).map(total).collect();
        let highest = totals.iter().max();
        let best = contenders.iter().zip(&totals).filter(|(_, total)| Some(*total) == highest);
        let mut indices: Vec<NameIndex> = best.map(|(one, _)| one.index).collect();
        indices.sort_unstable();
        if want == Want::First {
            indices.truncate(1);
        }
        let rows = indices.into_iter().map(row).collect();
        PassingChoice::Best { rows, n_feasible: None, margin: None }
    }

    /// The nodes that pass and may be the best, and the candidate groups of which a node passes, ascending.
    fn contenders(
        &self,
        feasible: &FeasibleNodes,
        want: Want,
        score: &WeightedOnDemand,
        mut passes: impl FnMut(NameIndex) -> bool,
    ) -> (Vec<Contender>, Vec<usize>) {
        let (mut contenders, mut kept) = (Vec::new(), Vec::new());
        for (at, group) in feasible.candidates.iter().enumerate() {
            let mut highest = Highest::default();
            let n_before = contenders.len();
            for (static_score, index) in self.highest_first(group, feasible.may_pass()) {
                highest.reach(static_score);
                let before = highest.before(want);
                if before.is_some_and(|raw| score.scores.highest <= raw) {
                    break;
                }
                if !passes(index) {
                    continue;
                }
                let row = self.cluster.name_order.row(index);
                let raw = score.scores.raw(self.cluster.view.nodes, row);
                if before.is_none_or(|before| before < raw) {
                    contenders.push(Contender { at, static_score, raw, index });
                }
                highest.add(static_score, raw);
            }
            if n_before < contenders.len() {
                kept.push(at);
            }
        }
        (contenders, kept)
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
        for at in 0..feasible.candidates.len() {
            let mut len = 0;
            for (_, index) in self.highest_first(&feasible.candidates[at], feasible.may_pass()) {
                if passes(index) {
                    passing.insert(index);
                    len += 1;
                }
            }
            feasible.candidates[at].len = len;
        }
        passing
    }

    fn best_passing(
        &self,
        mut feasible: FeasibleNodes,
        (want, most_asked): (Want, Option<usize>),
        mut passes: impl FnMut(NameIndex) -> bool,
    ) -> PassingChoice {
        let tops: SmallVec<[Option<(i64, NameIndex)>; 16]> = feasible
            .candidates
            .iter()
            .map(|group| {
                self.highest_first(group, feasible.may_pass()).find(|&(_, index)| passes(index))
            })
            .collect();
        let kept = (0..tops.len()).filter(|&at| tops[at].is_some());
        feasible = feasible.with(kept.map(|at| (at, feasible.candidates[at].len)));
        let tops: SmallVec<[(i64, NameIndex); 16]> = tops.into_iter().flatten().collect();
        let next = match (feasible.candidates.as_slice(), tops.as_slice()) {
            ([], _) => return PassingChoice::Nothing,
            ([group], &[(_, first)]) => {
                let next = self.behind(group, feasible.may_pass(), first).find(|one| passes(one.1));
                if next.is_none() {
                    return PassingChoice::only(self.cluster.name_order.row(first));
                }
                next
            }
            _ => None,
        };
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
                    let others = self.behind(&feasible.candidates[at], feasible.may_pass(), first);
                    let equal = others.take_while(|&(other, _)| other == static_score);
                    indices.push(first);
                    indices.extend(equal.map(|(_, index)| index).filter(|&index| passes(index)));
                }
                indices
            }
        };
        indices.sort_unstable();
        let margin = match (indices.len(), next) {
            (2.., _) => Some(0),
            (_, Some((static_score, _))) => Some(tops[0].0 - static_score),
            _ => most_asked.and_then(|most_asked| {
                self.margin_over_passing(&feasible, (&tops, &scores), most_asked, passes)
            }),
        };
        let rows = indices.into_iter().map(|index| self.cluster.name_order.row(index)).collect();
        PassingChoice::Best { rows, n_feasible: None, margin }
    }

    /// The nodes of a candidate group behind one of them, in the order of [`Self::highest_first`].
    fn behind<'b>(
        &'b self,
        candidate: &'b FeasibleGroup,
        may_pass: MayPass<'b>,
        first: NameIndex,
    ) -> impl Iterator<Item = (i64, NameIndex)> + 'b {
        self.highest_first(candidate, may_pass)
            .skip_while(move |&(_, index)| index != first)
            .skip(1)
    }

    /// By how much the best node is better than the best other one that passes. `tops` are the best nodes of the candidate groups.
    /// `None` if so many nodes do not tell.
    fn margin_over_passing(
        &self,
        feasible: &FeasibleNodes,
        (tops, scores): (&[(i64, NameIndex)], &Scores),
        most_asked: usize,
        mut passes: impl FnMut(NameIndex) -> bool,
    ) -> Option<i64> {
        let total = |at: usize| scores[at] + tops[at].0;
        let best = (0..tops.len()).max_by_key(|&at| total(at))?;
        let of_others = (0..tops.len()).filter(|&at| at != best).map(total).max()?;
        let candidate = &feasible.candidates[best];
        let behind = self.behind(candidate, feasible.may_pass(), tops[best].1);
        // A node that is not better than the best one of another group does not matter.
        let totals = behind.map(|(static_score, index)| (scores[best] + static_score, index));
        let mut better = totals.take_while(|&(total, _)| of_others < total);
        let next = better.by_ref().take(most_asked).find(|&(_, index)| passes(index));
        match next {
            Some((next, _)) => Some(total(best) - next),
            None => better.next().is_none().then(|| total(best) - of_others),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a node of this static and raw score need not be looked at any more, after nodes with these scores, the highest
    /// static scores first.
    fn is_beaten(want: Want, before: &[(i64, i64)], (static_score, raw): (i64, i64)) -> bool {
        let mut highest = Highest::default();
        for &(static_score, raw) in before {
            highest.reach(static_score);
            highest.add(static_score, raw);
        }
        highest.reach(static_score);
        highest.before(want).is_some_and(|highest| raw <= highest)
    }

    #[test]
    fn a_node_is_beaten_by_one_that_is_as_good_in_both_scores() {
        for want in [Want::First, Want::Any, Want::All] {
            assert!(is_beaten(want, &[(9, 5)], (8, 5)), "{want:?}");
            assert!(is_beaten(want, &[(9, 5), (8, 7)], (7, 6)), "{want:?}");
            assert!(!is_beaten(want, &[(9, 5)], (8, 6)), "{want:?}");
            assert!(!is_beaten(want, &[], (8, 6)), "{want:?}");
        }
    }

    #[test]
    fn of_nodes_that_are_equal_only_the_first_one_counts_if_that_is_wanted() {
        assert!(is_beaten(Want::First, &[(9, 5)], (9, 5)));
        assert!(!is_beaten(Want::First, &[(9, 5)], (9, 6)));
        for want in [Want::Any, Want::All] {
            assert!(!is_beaten(want, &[(9, 5)], (9, 5)), "{want:?}");
            // One with a higher static score beats it nevertheless.
            assert!(is_beaten(want, &[(10, 5), (9, 4)], (9, 5)), "{want:?}");
        }
    }
}
