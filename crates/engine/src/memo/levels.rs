//! Nodes by their level: the sum of the scores that each node has by itself.

use std::collections::BTreeMap;

use super::rank_set::{Rank, RankSet};

/// The nodes of one cell by level, the highest at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    sets: BTreeMap<i64, RankSet>,
    len: usize,
}

impl Levels {
    pub(crate) fn insert(&mut self, level: i64, rank: Rank, n_ranks: usize) {
        self.sets.entry(level).or_default().insert(rank, n_ranks);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, level: i64, rank: Rank) {
        let set = self.sets.get_mut(&level).expect("a node is where it was put");
        set.remove(rank);
        if set.is_empty() {
            self.sets.remove(&level);
        }
        self.len -= 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The levels with their nodes, the highest first.
    pub(crate) fn highest_first(&self) -> impl Iterator<Item = (i64, &RankSet)> {
        self.sets.iter().rev().map(|(&level, set)| (level, set))
    }

    /// The nodes of one level.
    pub(crate) fn at(&self, level: i64) -> Option<&RankSet> {
        self.sets.get(&level)
    }
}
