//! The nodes on which a fine count is not 0.
//!
//! A topology key with many domains, such as the host name, would split the cells of a shape until
//! every node is a cell of its own. But most domains hold none of the pods that a term counts. So a
//! shape has all nodes as if their fine counts were 0, and the few others are laid over it.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashTable};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::levels::Levels;
use super::rank_set::Rank;
use super::ranks::NO_DOMAIN;
use super::shape::{Ground, Shape};
use super::tallies::Tallies;

/// A fine count for each fine term.
pub(crate) type FineCounts = SmallVec<[i64; 4]>;

/// Nodes of one cell of the shape that have the same fine counts.
pub(crate) struct OverCell {
    /// The cell of the shape.
    pub(crate) below: u32,
    pub(crate) counts: FineCounts,
    pub(crate) levels: Levels,
}

/// What is laid over one cell of the shape.
#[derive(Default)]
pub(crate) struct Covered {
    len: usize,
    levels: BTreeMap<i64, usize>,
}

impl Covered {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many nodes of this level are laid over the cell.
    pub(crate) fn at(&self, level: i64) -> usize {
        self.levels.get(&level).copied().unwrap_or(0)
    }
}

/// The nodes with fine counts that are not 0, over one shape and for one set of tallies.
pub(crate) struct Overlay {
    /// The fine terms.
    fine: SmallVec<[usize; 4]>,
    /// The cell here and the level of each node.
    members: HashMap<Rank, (u32, i64), FxBuildHasher>,
    pub(crate) cells: Vec<OverCell>,
    by_key: HashTable<u32>,
    /// By cell of the shape.
    covered: Vec<Covered>,
    shape_followed: u64,
    tallies_followed: u64,
}

impl Overlay {
    pub(crate) fn new(shape: &Shape, tallies: &Tallies, ground: Ground<'_>) -> Self {
        let mut overlay = Overlay {
            fine: tallies.fine_terms().collect(),
            members: HashMap::default(),
            cells: Vec::new(),
            by_key: HashTable::new(),
            covered: Vec::new(),
            shape_followed: shape.moved.end(),
            tallies_followed: tallies.changed.end(),
        };
        overlay.look_at_all(shape, tallies, ground);
        overlay
    }

    /// Follows what has changed in the shape and in the tallies. `false` if that is too long ago: then
    /// it has to be made anew.
    pub(crate) fn follow(&mut self, shape: &Shape, tallies: &Tallies, ground: Ground<'_>) -> bool {
        if self.fine.is_empty() {
            return true;
        }
        let (Some(changed), Some(moved)) =
            (tallies.changed.since(self.tallies_followed), shape.moved.since(self.shape_followed))
        else {
            return false;
        };
        self.tallies_followed = tallies.changed.end();
        self.shape_followed = shape.moved.end();
        for (term, domain) in changed {
            let topology = &ground.topologies[tallies.topology(term as usize)];
            for &rank in topology.members(domain) {
                self.look(rank, shape, tallies, ground);
            }
        }
        for rank in moved {
            self.look(rank, shape, tallies, ground);
        }
        true
    }

    fn look_at_all(&mut self, shape: &Shape, tallies: &Tallies, ground: Ground<'_>) {
        for term in self.fine.clone() {
            let topology = &ground.topologies[tallies.topology(term)];
            let domains: Vec<_> = tallies.counted_domains(term).collect();
            for domain in domains {
                for &rank in topology.members(domain) {
                    self.look(rank, shape, tallies, ground);
                }
            }
        }
    }

    fn look(&mut self, rank: Rank, shape: &Shape, tallies: &Tallies, ground: Ground<'_>) {
        let count = |&term: &usize| match ground.topologies[tallies.topology(term)].domain(rank) {
            NO_DOMAIN => 0,
            domain => tallies.count_in(term, domain),
        };
        let counts: FineCounts = self.fine.iter().map(count).collect();
        let place = shape.place(rank).filter(|_| counts.iter().any(|&count| count != 0));
        let Some((below, level)) = place else {
            self.remove(rank);
            return;
        };
        let cell = self.cell(below, counts);
        if self.members.get(&rank) == Some(&(cell, level)) {
            return;
        }
        self.remove(rank);
        self.members.insert(rank, (cell, level));
        self.cells[cell as usize].levels.insert(level, rank, ground.ranks.len());
        if self.covered.len() <= below as usize {
            self.covered.resize_with(below as usize + 1, Covered::default);
        }
        let covered = &mut self.covered[below as usize];
        covered.len += 1;
        *covered.levels.entry(level).or_default() += 1;
    }

    fn remove(&mut self, rank: Rank) {
        let Some((cell, level)) = self.members.remove(&rank) else { return };
        let cell = &mut self.cells[cell as usize];
        cell.levels.remove(level, rank);
        let covered = &mut self.covered[cell.below as usize];
        covered.len -= 1;
        let left = covered.levels.get_mut(&level).expect("it was counted when it came");
        *left -= 1;
        if *left == 0 {
            covered.levels.remove(&level);
        }
    }

    fn cell(&mut self, below: u32, counts: FineCounts) -> u32 {
        let (hash, cells) = (hash(below, &counts), &self.cells);
        let is_same = |&cell: &u32| {
            let cell = &cells[cell as usize];
            cell.below == below && cell.counts == counts
        };
        if let Some(&cell) = self.by_key.find(hash, is_same) {
            return cell;
        }
        let cell = u32::try_from(self.cells.len()).expect("there are fewer cells than nodes");
        self.cells.push(OverCell { below, counts, levels: Levels::default() });
        let cells = &self.cells;
        self.by_key.insert_unique(hash, cell, |&cell| {
            let cell = &cells[cell as usize];
            self::hash(cell.below, &cell.counts)
        });
        cell
    }

    /// Whether the node is here rather than in the shape.
    pub(crate) fn has(&self, rank: Rank) -> bool {
        self.members.contains_key(&rank)
    }

    /// What is laid over a cell of the shape.
    pub(crate) fn over(&self, below: usize) -> Option<&Covered> {
        self.covered.get(below)
    }

    /// The place of a fine term among the fine ones.
    pub(crate) fn place_of(&self, term: usize) -> Option<usize> {
        self.fine.iter().position(|&fine| fine == term)
    }
}

fn hash(below: u32, counts: &FineCounts) -> u64 {
    use std::hash::BuildHasher;
    FxBuildHasher.hash_one((below, counts.as_slice()))
}
