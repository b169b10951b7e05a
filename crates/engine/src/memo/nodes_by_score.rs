//! Nodes by static score: the weighted sum of the scores that need no normalizing.

use super::name_index_set::{NameIndex, NameIndexSet};

/// How many empty sets are kept to reuse their memory.
const SPARE: usize = 4;

/// The nodes of one group by static score.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodesByScore {
    /// Ascending by static score; no set is empty. There are few, since static scores are sums of a few small
    /// numbers.
    sets: Vec<(i64, NameIndexSet)>,
    spare: Vec<NameIndexSet>,
    len: usize,
}

impl NodesByScore {
    pub(crate) fn insert(&mut self, static_score: i64, index: NameIndex, n_indices: usize) {
        let at = match self.find(static_score) {
            Ok(at) => at,
            Err(at) => {
                self.sets.insert(at, (static_score, self.spare.pop().unwrap_or_default()));
                at
            }
        };
        self.sets[at].1.insert(index, n_indices);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, static_score: i64, index: NameIndex) {
        let at = self.find(static_score).expect("a node is where it was put");
        self.sets[at].1.remove(index);
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

    /// The static scores with their nodes, the highest first.
    pub(crate) fn highest_first(&self) -> impl Iterator<Item = (i64, &NameIndexSet)> {
        self.sets.iter().rev().map(|(static_score, set)| (*static_score, set))
    }

    /// The nodes with this static score.
    pub(crate) fn at(&self, static_score: i64) -> Option<&NameIndexSet> {
        self.find(static_score).ok().map(|at| &self.sets[at].1)
    }

    fn find(&self, static_score: i64) -> Result<usize, usize> {
        self.sets.binary_search_by_key(&static_score, |(static_score, _)| *static_score)
    }
}
