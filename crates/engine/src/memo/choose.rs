//! From cells to the best nodes.

use std::ops::Range;

use plimsoll_framework::{DomainScore, MAX_NODE_SCORE, Row, Scored, Standing, TopologyKey};
use rand::{Rng, RngExt};
use smallvec::{SmallVec, smallvec};

use super::levels::Levels;
use super::overlay::{Covered, Overlay};
use super::rank_set::{Marked, Rank, RankSet};
use super::shape::{Ground, Shape};
use super::tallies::Tallies;
use crate::pick::{TieBreak, pick};

/// What was found among the nodes.
#[expect(clippy::large_enum_variant, reason = "one lives at a time, and only for a moment")]
pub(crate) enum Choice {
    /// No node is feasible.
    Nothing,
    /// The best nodes.
    Best(Best),
    /// The counts do not tell: the pod has to be judged from scratch.
    Unclear,
}

/// The nodes with the highest total, as sets that have no node in common.
pub(crate) struct Best {
    /// Number of the candidate and level in it.
    parts: SmallVec<[(usize, i64); 4]>,
    candidates: Candidates,
}

/// The groups of nodes that pass.
pub(crate) struct Feasible {
    pub(crate) candidates: Candidates,
    /// Of each candidate, for each term.
    standings: Standings,
}

impl Feasible {
    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.candidates.iter().map(|candidate| candidate.len).sum()
    }
}

type Standings = SmallVec<[Standing; 32]>;
type Candidates = SmallVec<[Candidate; 16]>;
type Scores = SmallVec<[i64; 16]>;

/// Feasible nodes that differ in nothing but their levels.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) cell: usize,
    /// The cell of the overlay; none for the nodes of the shape that nothing is laid over.
    pub(crate) over: Option<usize>,
    len: usize,
}

/// Everything that a choice is made from.
#[derive(Clone, Copy)]
pub(crate) struct Chooser<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) tallies: &'a Tallies,
    pub(crate) overlay: &'a Overlay,
    pub(crate) ground: Ground<'a>,
}

impl Chooser<'_> {
    /// The groups of nodes that pass as shape and overlay have them.
    pub(crate) fn feasible_now(&self) -> Feasible {
        self.feasible(|cell, over| match over {
            None => {
                let covered = self.overlay.over(cell).map_or(0, Covered::len);
                self.shape.cells[cell].levels.len() - covered
            }
            Some(over) => self.overlay.cells[over].levels.len(),
        })
    }

    /// The best of the nodes that pass.
    pub(crate) fn choose(&self, feasible: Feasible) -> Choice {
        match feasible.len() {
            0 => Choice::Nothing,
            1 => {
                let candidates = feasible.candidates;
                let only = candidates.iter().position(|candidate| 0 < candidate.len);
                let only = only.expect("one of them has a node");
                let (level, _) = self.top(&candidates[only]);
                Choice::Best(Best { parts: smallvec![(only, level)], candidates })
            }
            _ => match self.scores(&feasible) {
                Some(scores) => Choice::Best(self.best(feasible.candidates, &scores)),
                None => Choice::Unclear,
            },
        }
    }

    /// Whether nodes may differ in anything but their levels.
    pub(crate) fn tells_apart(&self) -> bool {
        0 < self.tallies.n_terms() || 1 < self.shape.cells.len()
    }

    /// The groups of nodes that pass. `len` says how many nodes there are in a cell that nothing is laid
    /// over, or in one that is laid over it.
    pub(crate) fn feasible(&self, len: impl Fn(usize, Option<usize>) -> usize) -> Feasible {
        let n_terms = self.tallies.n_terms();
        let mut candidates = Candidates::new();
        let mut standings = Standings::new();
        let totals = self.tallies.totals();
        let mut consider = |cell: usize, over: Option<usize>| {
            let candidate = Candidate { cell, over, len: len(cell, over) };
            if candidate.len == 0 {
                return;
            }
            let first = standings.len();
            standings.extend((0..n_terms).map(|term| self.standing(&candidate, term)));
            let own = &standings[first..];
            let mut judges = self.tallies.judges.iter();
            match judges.all(|(judge, range)| {
                judge.verdict(&own[range.clone()], &totals[range.clone()]).passes()
            }) {
                true => candidates.push(candidate),
                false => standings.truncate(first),
            }
        };
        for cell in 0..self.shape.cells.len() {
            consider(cell, None);
        }
        for (over, one) in self.overlay.cells.iter().enumerate() {
            consider(one.below as usize, Some(over));
        }
        Feasible { candidates, standings }
    }

    fn standing(&self, candidate: &Candidate, term: usize) -> Standing {
        let topology = self.tallies.topology(term);
        let domain = self.shape.domain_in(&self.shape.cells[candidate.cell], topology);
        let Ok(domain) = u32::try_from(domain) else { return Standing::default() };
        let count = match (self.overlay.place_of(term), candidate.over) {
            (None, _) => self.tallies.count_in(term, domain),
            (Some(place), Some(over)) => self.overlay.cells[over].counts[place],
            (Some(_), None) => 0,
        };
        Standing { present: true, count }
    }

    /// What the counts say of one node, for each term. `None` if the node does not pass by itself.
    pub(crate) fn standings_of(&self, rank: Rank) -> Option<SmallVec<[Standing; 32]>> {
        let (cell, _) = self.shape.place(rank)?;
        let over = self.overlay.cell_of(rank);
        let candidate = Candidate { cell: cell as usize, over, len: 1 };
        Some((0..self.tallies.n_terms()).map(|term| self.standing(&candidate, term)).collect())
    }

    /// What each candidate scores without its levels. `None` if the counts do not tell.
    pub(crate) fn scores(&self, feasible: &Feasible) -> Option<Scores> {
        let Feasible { candidates, standings } = feasible;
        let mut scores: Scores = smallvec![0; candidates.len()];
        let mut raws: SmallVec<[Scored; 16]> = SmallVec::new();
        for (at, related) in self.shape.related.iter().enumerate() {
            raws.clear();
            let cells = &self.shape.cells;
            raws.extend(candidates.iter().map(|one| scored(cells[one.cell].key[at])));
            related.normalize.apply(&mut raws);
            add(&mut scores, &raws, related.weight)?;
        }
        let n_terms = self.tallies.n_terms();
        for (weight, ranker, range) in &self.tallies.rankers {
            let own = |at: usize| &standings[at * n_terms + range.start..at * n_terms + range.end];
            let domains = match ranker.reads_domains() {
                true => self.domains(ranker.as_ref(), range, candidates, own)?,
                false => SmallVec::new(),
            };
            raws.clear();
            raws.extend((0..candidates.len()).map(|at| scored(ranker.raw(own(at), &domains))));
            ranker.normalize(&mut raws);
            add(&mut scores, &raws, *weight)?;
        }
        Some(scores)
    }

    /// For each term of a ranker, how many domains have a node that is ranked.
    fn domains<'s>(
        &self,
        ranker: &dyn DomainScore,
        range: &Range<usize>,
        candidates: &[Candidate],
        own: impl Fn(usize) -> &'s [Standing],
    ) -> Option<SmallVec<[usize; 4]>> {
        let counting: SmallVec<[usize; 16]> =
            (0..candidates.len()).filter(|&at| ranker.is_ranked(own(at))).collect();
        let count = |term: usize| {
            let topology = &self.ground.topologies[self.tallies.topology(term)];
            let place = term - range.start;
            let present = |at: &&usize| own(**at)[place].present;
            if matches!(topology.key, TopologyKey::NodeWith(_)) {
                return Some(counting.iter().map(|&at| candidates[at].len).sum());
            }
            let some_miss = counting.iter().any(|&at| !own(at)[place].present);
            if some_miss && topology.has_empty {
                return None;
            }
            let n_present = if topology.is_fine() {
                if !topology.is_single() {
                    return None;
                }
                counting.iter().filter(present).map(|&at| candidates[at].len).sum()
            } else {
                let cells = counting.iter().filter(present).map(|&at| candidates[at].cell);
                let number = self.tallies.topology(term);
                let domain = |cell: usize| self.shape.domain_in(&self.shape.cells[cell], number);
                // A coarse key has at most 64 domains.
                let met = cells.fold(0_u64, |met, cell| met | 1 << domain(cell));
                met.count_ones() as usize
            };
            Some(n_present + usize::from(some_miss))
        };
        range.clone().map(count).collect()
    }

    /// The highest level of a candidate, and how many nodes are there.
    fn top(&self, candidate: &Candidate) -> (i64, usize) {
        let covered = match candidate.over {
            Some(_) => None,
            None => self.overlay.over(candidate.cell),
        };
        let left = |level: i64, len: usize| len - covered.map_or(0, |covered| covered.at(level));
        let levels = self.levels(candidate).highest_first();
        levels
            .map(|(level, set)| (level, left(level, set.len())))
            .find(|(_, left)| 0 < *left)
            .expect("a candidate has a node")
    }

    fn levels(&self, candidate: &Candidate) -> &Levels {
        match candidate.over {
            Some(over) => &self.overlay.cells[over].levels,
            None => &self.shape.cells[candidate.cell].levels,
        }
    }

    fn best(&self, candidates: Candidates, scores: &[i64]) -> Best {
        let tops: Scores = candidates.iter().map(|one| self.top(one).0).collect();
        let total = |at: usize| scores[at] + tops[at];
        let highest = (0..candidates.len()).map(total).max();
        let parts = (0..candidates.len()).filter(|&at| Some(total(at)) == highest);
        Best { parts: parts.map(|at| (at, tops[at])).collect(), candidates }
    }

    /// The ranks of one part, ascending.
    fn ranks<'b>(
        &'b self,
        best: &'b Best,
        (at, level): (usize, i64),
    ) -> impl Iterator<Item = Rank> {
        let (set, all) = self.part(best, at, level);
        set.iter().filter(move |&rank| all || !self.overlay.has(rank))
    }

    /// The nodes of one part, and whether they are those of the overlay: else those that are in the overlay
    /// do not count.
    fn part(&self, best: &Best, at: usize, level: i64) -> (&RankSet, bool) {
        let candidate = &best.candidates[at];
        let set = self.levels(candidate).at(level).expect("the level has a node");
        (set, candidate.over.is_some())
    }

    /// The best node whose name is the smallest.
    pub(crate) fn first(&self, best: &Best) -> Row {
        let firsts = best.parts.iter().filter_map(|&part| self.ranks(best, part).next());
        self.ground.ranks.row(firsts.min().expect("there is a best node"))
    }

    /// Any of the best nodes: the one that [`pick`] takes of all of them, without listing them.
    pub(crate) fn any(&self, best: &Best, rng: &mut impl Rng) -> Row {
        let sets = || best.parts.iter().map(|&(at, level)| self.part(best, at, level));
        let n_ranks = self.ground.ranks.len();
        // A few among very many nodes are listed sooner than looked for.
        let n_listed: usize = sets().map(|(set, _)| set.len()).sum();
        let Some(marks) = self.overlay.marks().filter(|marks| marks.len() <= n_listed) else {
            return pick(&self.all(best), TieBreak::Random, rng);
        };
        let mut marked = Marked::none(n_ranks);
        sets().filter(|(_, is_over)| !is_over).for_each(|(set, _)| marked.add(set));
        marked.take_out(marks);
        sets().filter(|(_, is_over)| *is_over).for_each(|(set, _)| marked.add(set));
        let rank = match marked.len() {
            1 => marked.nth(0),
            len => marked.nth(rng.random_range(0..len)),
        };
        self.ground.ranks.row(rank.expect("there is a best node"))
    }

    /// All best nodes, by name.
    pub(crate) fn all(&self, best: &Best) -> Vec<Row> {
        let parts = best.parts.iter();
        let mut ranks: Vec<Rank> = parts.flat_map(|&part| self.ranks(best, part)).collect();
        if 1 < best.parts.len() {
            ranks.sort_unstable();
        }
        ranks.into_iter().map(|rank| self.ground.ranks.row(rank)).collect()
    }
}

fn scored(score: i64) -> Scored {
    // Which node it is of is of no account.
    Scored { row: Row::from_index(0), score }
}

/// Adds weighted scores. `None` if some score is out of range.
fn add(scores: &mut [i64], normalized: &[Scored], weight: i64) -> Option<()> {
    for (score, one) in scores.iter_mut().zip(normalized) {
        if !(0..=MAX_NODE_SCORE).contains(&one.score) {
            return None;
        }
        *score += one.score * weight;
    }
    Some(())
}
