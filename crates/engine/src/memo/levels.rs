//! Nodes by their level: the sum of the scores that each node has by itself.

use super::rank_set::{Rank, RankSet};

/// So many sets that are empty keep their memory for the next level.
const SPARE: usize = 4;

/// The nodes of one cell by level, the highest at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    /// By level, ascending; none is empty. They are few: levels are sums of a few small scores.
    sets: Vec<(i64, RankSet)>,
    spare: Vec<RankSet>,
    len: usize,
}

impl Levels {
    pub(crate) fn insert(&mut self, level: i64, rank: Rank, n_ranks: usize) {
        let at = match self.find(level) {
            Ok(at) => at,
            Err(at) => {
                self.sets.insert(at, (level, self.spare.pop().unwrap_or_default()));
                at
            }
        };
        self.sets[at].1.insert(rank, n_ranks);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, level: i64, rank: Rank) {
        let at = self.find(level).expect("a node is where it was put");
        self.sets[at].1.remove(rank);
        if self.sets[at].1.is_empty() {
            let (_, set) = self.sets.remove(at);
            if self.spare.len() < SPARE {
                self.spare.push(set);
            }
        }
        self.len -= 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The levels with their nodes, the highest first.
    pub(crate) fn highest_first(&self) -> impl Iterator<Item = (i64, &RankSet)> {
        self.sets.iter().rev().map(|(level, set)| (*level, set))
    }

    /// The nodes of one level.
    pub(crate) fn at(&self, level: i64) -> Option<&RankSet> {
        self.find(level).ok().map(|at| &self.sets[at].1)
    }

    fn find(&self, level: i64) -> Result<usize, usize> {
        self.sets.binary_search_by_key(&level, |(level, _)| *level)
    }
}
