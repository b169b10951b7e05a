//! The nodes on which a fine count is not 0.
//!
//! A topology key with many domains, such as the host name, would split the cells of a shape until
//! every node is a cell of its own. But most domains hold none of the pods that a term counts. So a
//! shape has all nodes as if their fine counts were 0, and the few others are laid over it.

use hashbrown::{HashMap, HashTable};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::levels::Levels;
use super::rank_set::Rank;
use super::ranks::NO_DOMAIN;
use super::shape::{Ground, Shape};
use super::tallies::Tallies;

/// About what a cell takes beside its counts, with the sets of its nodes, in bytes.
const BYTES_PER_CELL: usize = 320;
/// About what a node takes here, in bytes.
const BYTES_PER_MEMBER: usize = 32;

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
    /// How many nodes of each level, ascending by level; none is 0.
    levels: Vec<(i64, usize)>,
}

impl Covered {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many nodes of this level are laid over the cell.
    pub(crate) fn at(&self, level: i64) -> usize {
        self.find(level).map_or(0, |at| self.levels[at].1)
    }

    fn add(&mut self, level: i64) {
        self.len += 1;
        match self.find(level) {
            Ok(at) => self.levels[at].1 += 1,
            Err(at) => self.levels.insert(at, (level, 1)),
        }
    }

    fn take(&mut self, level: i64) {
        self.len -= 1;
        let at = self.find(level).expect("it was counted when it came");
        self.levels[at].1 -= 1;
        if self.levels[at].1 == 0 {
            self.levels.remove(at);
        }
    }

    fn find(&self, level: i64) -> Result<usize, usize> {
        self.levels.binary_search_by_key(&level, |(level, _)| *level)
    }
}

/// A bit for each node that is a member: most nodes that moved are none, and a bit is found faster than
/// a place in a map. Where nodes are too many, all count as marked.
struct Marks(Vec<u64>);

/// Up to so many nodes have marks.
const MOST_MARKED: usize = 1 << 17;

impl Marks {
    fn new(n_ranks: usize) -> Self {
        Marks(if n_ranks <= MOST_MARKED { vec![0; n_ranks.div_ceil(64)] } else { Vec::new() })
    }

    fn set(&mut self, rank: Rank) {
        if let Some(word) = self.0.get_mut(rank as usize / 64) {
            *word |= 1 << (rank % 64);
        }
    }

    fn clear(&mut self, rank: Rank) {
        if let Some(word) = self.0.get_mut(rank as usize / 64) {
            *word &= !(1 << (rank % 64));
        }
    }

    fn has(&self, rank: Rank) -> bool {
        self.0.get(rank as usize / 64).is_none_or(|word| word & (1 << (rank % 64)) != 0)
    }
}

/// A node with a fine count that is not 0.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Member {
    /// The cell here; [`NOWHERE`] if the node is not feasible.
    cell: u32,
    level: i64,
}

/// The cell of nodes that are not feasible.
const NOWHERE: u32 = u32::MAX;

/// The nodes with fine counts that are not 0, over one shape and for one set of tallies.
pub(crate) struct Overlay {
    /// The fine terms.
    fine: SmallVec<[usize; 4]>,
    members: HashMap<Rank, Member, FxBuildHasher>,
    marks: Marks,
    pub(crate) cells: Vec<OverCell>,
    by_key: HashTable<u32>,
    /// By cell of the shape.
    covered: Vec<Covered>,
    /// Nodes that became feasible and have to be looked at.
    returning: Vec<Rank>,
    shape_followed: u64,
    tallies_followed: u64,
}

impl Overlay {
    pub(crate) fn new(shape: &Shape, tallies: &Tallies, ground: Ground<'_>) -> Self {
        let mut overlay = Overlay {
            fine: tallies.fine_terms().collect(),
            members: HashMap::default(),
            marks: Marks::new(ground.ranks.len()),
            cells: Vec::new(),
            by_key: HashTable::new(),
            covered: Vec::new(),
            returning: Vec::new(),
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
            if self.marks.has(rank)
                && let Some(&member) = self.members.get(&rank)
            {
                self.move_with(rank, member, shape, ground);
            }
        }
        for rank in std::mem::take(&mut self.returning) {
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

    /// Looks at the counts of a node.
    fn look(&mut self, rank: Rank, shape: &Shape, tallies: &Tallies, ground: Ground<'_>) {
        let count = |&term: &usize| match ground.topologies[tallies.topology(term)].domain(rank) {
            NO_DOMAIN => 0,
            domain => tallies.count_in(term, domain),
        };
        let counts: FineCounts = self.fine.iter().map(count).collect();
        if counts.iter().all(|&count| count == 0) {
            if let Some(member) = self.members.remove(&rank) {
                self.marks.clear(rank);
                self.take_out(rank, member);
            }
            return;
        }
        let member = match shape.place(rank) {
            Some((below, level)) => Member { cell: self.cell(below, counts), level },
            None => Member { cell: NOWHERE, level: 0 },
        };
        self.put(rank, member, ground);
    }

    /// Moves a node whose counts are as they were to where it is in the shape now.
    fn move_with(&mut self, rank: Rank, member: Member, shape: &Shape, ground: Ground<'_>) {
        let moved = match shape.place(rank) {
            None => Member { cell: NOWHERE, level: 0 },
            // Its counts are not known here: it is looked at when it comes back.
            Some(_) if member.cell == NOWHERE => return self.returning.push(rank),
            Some((below, level)) if self.cells[member.cell as usize].below == below => {
                Member { level, ..member }
            }
            Some((below, level)) => {
                let counts = self.cells[member.cell as usize].counts.clone();
                Member { cell: self.cell(below, counts), level }
            }
        };
        self.put(rank, moved, ground);
    }

    fn put(&mut self, rank: Rank, member: Member, ground: Ground<'_>) {
        match self.members.insert(rank, member) {
            Some(before) if before == member => return,
            Some(before) => self.take_out(rank, before),
            None => self.marks.set(rank),
        }
        if member.cell == NOWHERE {
            return;
        }
        let cell = &mut self.cells[member.cell as usize];
        cell.levels.insert(member.level, rank, ground.ranks.len());
        let below = cell.below as usize;
        if self.covered.len() <= below {
            self.covered.resize_with(below + 1, Covered::default);
        }
        self.covered[below].add(member.level);
    }

    fn take_out(&mut self, rank: Rank, Member { cell, level }: Member) {
        if cell != NOWHERE {
            let cell = &mut self.cells[cell as usize];
            cell.levels.remove(level, rank);
            self.covered[cell.below as usize].take(level);
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

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.cells.len() * (BYTES_PER_CELL + self.fine.len() * size_of::<i64>())
            + self.members.len() * BYTES_PER_MEMBER
            + self.covered.len() * size_of::<Covered>()
            + self.marks.0.len() * size_of::<u64>()
    }

    /// Whether the node is here rather than in the shape.
    pub(crate) fn has(&self, rank: Rank) -> bool {
        self.members.contains_key(&rank)
    }

    /// The cell of a feasible node that is here.
    pub(crate) fn cell_of(&self, rank: Rank) -> Option<usize> {
        let member = self.members.get(&rank).filter(|member| member.cell != NOWHERE)?;
        Some(member.cell as usize)
    }

    /// The nodes that are here rather than in the shape, a bit for each by rank; `None` where there are too
    /// many nodes to have a bit each.
    pub(crate) fn marks(&self) -> Option<&[u64]> {
        (!self.marks.0.is_empty()).then_some(self.marks.0.as_slice())
    }

    /// The feasible nodes that are here, with their cells.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (Rank, usize)> {
        let placed = self.members.iter().filter(|(_, member)| member.cell != NOWHERE);
        placed.map(|(&rank, member)| (rank, member.cell as usize))
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
