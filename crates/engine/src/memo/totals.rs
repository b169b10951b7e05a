//! Upper bounds of the totals of all nodes, and the search for the best nodes by them.

use plimsoll_framework::NEVER;

use super::decide::Want;
use super::name_index_set::NameIndex;
use super::scan::{to_i64, to_index};

/// The size of the blocks of nodes whose highest total is stored, so that most blocks are skipped.
const BLOCK: usize = 64;
/// In place of the highest total of a block that must be searched again.
const FALLEN: f32 = f32::INFINITY;

/// An upper bound of the total of each node.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// By name index; [`NEVER`] for a node that is ruled out and for a free index.
    pub(super) of: Vec<f32>,
    /// The highest of each block.
    tops: Vec<f32>,
    /// The blocks whose highest total has fallen since it was searched.
    fallen: Vec<u32>,
}

impl Totals {
    /// Searches the highest total of each block.
    pub(super) fn find_tops(&mut self) {
        self.fallen.clear();
        self.tops.clear();
        self.tops.extend(self.of.chunks(BLOCK).map(highest));
    }

    /// Changes one total, and returns what it was. [`settle`](Self::settle) must follow.
    pub(super) fn set(&mut self, index: NameIndex, total: f32) -> f32 {
        let before = std::mem::replace(&mut self.of[index as usize], total);
        let block = index as usize / BLOCK;
        let top = &mut self.tops[block];
        if *top < total {
            *top = total;
        } else if total < before && *top <= before {
            *top = FALLEN;
            self.fallen.push(to_index(block));
        }
        before
    }

    /// Ends a series of changes.
    pub(super) fn settle(&mut self) {
        for block in self.fallen.drain(..) {
            let first = block as usize * BLOCK;
            let end = self.of.len().min(first + BLOCK);
            self.tops[block as usize] = highest(&self.of[first..end]);
        }
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        (self.of.len() + self.tops.len() + self.fallen.capacity()) * size_of::<f32>()
    }

    /// The nodes with the highest total, ascending; if only the first one is wanted, the others may be
    /// missing. `exact` computes the real total of a node, which is at most its bound; `Some(None)` if the node
    /// is rejected. `None` if it cannot be computed.
    pub(super) fn best(
        &self,
        want: Want,
        mut exact: impl FnMut(NameIndex) -> Option<Option<i64>>,
    ) -> Option<Vec<NameIndex>> {
        let mut best: Vec<NameIndex> = Vec::new();
        let mut highest_yet = i64::MIN;
        let mut bar = self.next_below(f32::INFINITY);
        while NEVER < bar && highest_yet <= to_i64(bar) {
            for index in self.at(bar) {
                let Some(total) = exact(index)? else { continue };
                if highest_yet < total {
                    highest_yet = total;
                    best.clear();
                }
                if highest_yet == total {
                    best.push(index);
                }
                // No other node can be better, and equally good ones follow.
                if want == Want::First && total == to_i64(bar) && best.len() == 1 {
                    return Some(best);
                }
            }
            if highest_yet == to_i64(bar) {
                break;
            }
            bar = self.next_below(bar);
        }
        best.sort_unstable();
        Some(best)
    }

    /// The highest total below `above`.
    fn next_below(&self, above: f32) -> f32 {
        let blocks = self.tops.iter().zip(self.of.chunks(BLOCK));
        blocks.fold(NEVER, |next, (&top, block)| {
            let found = match top {
                _ if top <= next => NEVER,
                _ if top < above => top,
                _ => block.iter().copied().filter(|&one| one < above).fold(NEVER, f32::max),
            };
            found.max(next)
        })
    }

    /// The nodes with this bound, ascending.
    fn at(&self, bar: f32) -> impl Iterator<Item = NameIndex> + '_ {
        let blocks = self.tops.iter().zip(self.of.chunks(BLOCK)).enumerate();
        let blocks = blocks.filter(move |(_, (top, _))| bar <= **top);
        blocks.flat_map(move |(number, (_, block))| {
            let at = block.iter().enumerate().filter(move |&(_, &one)| bar <= one && one <= bar);
            at.map(move |(at, _)| to_index(number * BLOCK + at))
        })
    }
}

/// The highest number. Several are compared at a time.
fn highest(block: &[f32]) -> f32 {
    const LANES: usize = 8;
    let (chunks, rest) = block.as_chunks::<LANES>();
    let mut lanes = [NEVER; LANES];
    for chunk in chunks {
        for at in 0..LANES {
            lanes[at] = if lanes[at] < chunk[at] { chunk[at] } else { lanes[at] };
        }
    }
    // Halves are compared, which needs few instructions.
    for half in [LANES / 2, LANES / 4, LANES / 8] {
        for at in 0..half {
            lanes[at] = if lanes[at] < lanes[at + half] { lanes[at + half] } else { lanes[at] };
        }
    }
    rest.iter().copied().fold(lanes[0], f32::max)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn the_best_are_the_same_after_changes_and_from_scratch() {
        let mut rng = Pcg64::seed_from_u64(1);
        let any = |rng: &mut Pcg64| match rng.random_range(0..4_u8) {
            0 => NEVER,
            _ => f32::from(rng.random_range(0..20_u8)),
        };
        let of: Vec<f32> = (0..300).map(|_| any(&mut rng)).collect();
        let mut changed = Totals { of, ..Totals::default() };
        changed.find_tops();
        for _ in 0..200 {
            for _ in 0..rng.random_range(0..20) {
                let total = any(&mut rng);
                changed.set(rng.random_range(0..300), total);
            }
            changed.settle();
            let mut made = Totals { of: changed.of.clone(), ..Totals::default() };
            made.find_tops();
            assert_eq!(changed.tops, made.tops);
            let highest = made.of.iter().copied().fold(NEVER, f32::max);
            let expected = (0..300).filter(|&at| NEVER < highest && made.of[at] >= highest);
            let best = changed.best(Want::All, |index| Some(Some(to_i64(made.of[index as usize]))));
            assert_eq!(best, Some(expected.map(to_index).collect::<Vec<_>>()));
        }
    }
}
