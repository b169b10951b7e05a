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
    /// How many nodes are not ruled out, if they were counted.
    n_left: Option<usize>,
}

/// Which nodes with the same bound were looked at.
enum Looked {
    AtNone,
    /// At those up to this one.
    UpTo(NameIndex),
    AtAll,
}

/// A search for the highest totals, by the bounds.
struct Search<'t> {
    totals: &'t Totals,
    /// All nodes with a higher bound were looked at.
    bar: f32,
    /// Which of those with this bound were, too.
    looked: Looked,
    /// The highest total of all nodes that were looked at.
    highest: i64,
    /// The next one; [`i64::MIN`] if there is none. It is the same if two nodes have it.
    second: i64,
}

impl Totals {
    /// Searches the highest total of each block.
    pub(super) fn find_tops(&mut self) {
        self.n_left = None;
        self.fallen.clear();
        self.tops.clear();
        self.tops.extend(self.of.chunks(BLOCK).map(highest));
    }

    /// Changes one total, and returns what it was. [`settle`](Self::settle) must follow.
    pub(super) fn set(&mut self, index: NameIndex, total: f32) -> f32 {
        let before = std::mem::replace(&mut self.of[index as usize], total);
        if let Some(n_left) = &mut self.n_left {
            *n_left = *n_left + usize::from(NEVER < total) - usize::from(NEVER < before);
        }
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

    /// How many nodes are not ruled out. It is counted once, and then follows the changes.
    pub(super) fn n_left(&mut self) -> usize {
        let of = &self.of;
        *self.n_left.get_or_insert_with(|| of.iter().filter(|&&total| NEVER < total).count())
    }

    /// The nodes with the [highest total](Search::best), and their [margin](Search::margin); so many more nodes are looked at for it,
    /// and none if it is not wanted.
    pub(super) fn best(
        &self,
        want: Want,
        most_looks: Option<usize>,
        mut exact: impl FnMut(NameIndex) -> Option<Option<i64>>,
    ) -> Option<(Vec<NameIndex>, Option<i64>)> {
        let mut search = self.search();
        let best = search.best(want, &mut exact)?;
        let margin = most_looks.and_then(|most_looks| search.margin(most_looks, &mut exact));
        Some((best, margin))
    }

    /// Begins a search for the highest totals.
    fn search(&self) -> Search<'_> {
        let bar = self.next_below(f32::INFINITY);
        Search { totals: self, bar, looked: Looked::AtNone, highest: i64::MIN, second: i64::MIN }
    }

    /// The highest total below `above`.
    fn next_below(&self, above: f32) -> f32 {
        let blocks = self.tops.iter().zip(self.of.chunks(BLOCK));
        blocks.fold(NEVER, |next, (&top, block)| {
            let found = match top {
                _ if top <= next => NEVER,
                _ if top < above => top,
                _ => highest_below(block, above),
            };
            found.max(next)
        })
    }

    /// The nodes with this bound from `first` on, ascending.
    fn at(&self, bar: f32, first: NameIndex) -> impl Iterator<Item = NameIndex> + '_ {
        let blocks = self.tops.iter().zip(self.of.chunks(BLOCK)).enumerate();
        // The blocks before it may be many.
        let blocks = blocks.skip(first as usize / BLOCK);
        let blocks = blocks.filter(move |(_, (top, _))| bar <= **top);
        blocks.flat_map(move |(number, (_, block))| {
            let at = block.iter().enumerate().filter(move |&(_, &one)| bar <= one && one <= bar);
            at.map(move |(at, _)| to_index(number * BLOCK + at)).filter(move |&at| first <= at)
        })
    }
}

impl Search<'_> {
    /// The nodes with the highest total, ascending; if only the first one is wanted, the others may be
    /// missing. `exact` computes the real total of a node, which is at most its bound; `Some(None)` if the node
    /// is rejected. `None` if it cannot be computed.
    fn best(
        &mut self,
        want: Want,
        mut exact: impl FnMut(NameIndex) -> Option<Option<i64>>,
    ) -> Option<Vec<NameIndex>> {
        let mut best: Vec<NameIndex> = Vec::new();
        while NEVER < self.bar && self.highest <= to_i64(self.bar) {
            for index in self.totals.at(self.bar, 0) {
                let Some(total) = exact(index)? else { continue };
                if self.highest < total {
                    best.clear();
                }
                self.look(total);
                if self.highest == total {
                    best.push(index);
                }
                // No other node can be better, and equally good ones follow.
                if want == Want::First && total == to_i64(self.bar) && best.len() == 1 {
                    self.looked = Looked::UpTo(index);
                    return Some(best);
                }
            }
            if self.highest == to_i64(self.bar) {
                self.looked = Looked::AtAll;
                break;
            }
            self.bar = self.totals.next_below(self.bar);
        }
        best.sort_unstable();
        Some(best)
    }

    /// By how much the highest total is higher than that of the best other node, after the [best](Self::best) were found. At most
    /// so many more nodes are looked at; `None` if these do not tell, or there is no other.
    fn margin(
        &mut self,
        most_looks: usize,
        mut exact: impl FnMut(NameIndex) -> Option<Option<i64>>,
    ) -> Option<i64> {
        // Two nodes have the highest total: what follows need not be searched.
        if self.second == self.highest {
            return (self.second != i64::MIN).then_some(0);
        }
        let mut n_looks = 0;
        loop {
            if matches!(self.looked, Looked::AtAll) {
                (self.bar, self.looked) = (self.totals.next_below(self.bar), Looked::AtNone);
            }
            if self.bar <= NEVER || to_i64(self.bar) <= self.second {
                return (self.second != i64::MIN).then(|| self.highest - self.second);
            }
            let first = match self.looked {
                Looked::UpTo(index) => index + 1,
                Looked::AtNone | Looked::AtAll => 0,
            };
            for index in self.totals.at(self.bar, first) {
                if n_looks == most_looks {
                    return None;
                }
                n_looks += 1;
                if let Some(total) = exact(index)? {
                    self.look(total);
                }
                if to_i64(self.bar) <= self.second {
                    break;
                }
            }
            self.looked = Looked::AtAll;
        }
    }

    /// Notes the total of a node.
    fn look(&mut self, total: i64) {
        self.second = self.second.max(self.highest.min(total));
        self.highest = self.highest.max(total);
    }
}

/// The highest number.
fn highest(block: &[f32]) -> f32 {
    highest_below(block, f32::INFINITY)
}

/// The highest number below `above`. Several are compared at a time.
fn highest_below(block: &[f32], above: f32) -> f32 {
    const LANES: usize = 8;
    let (chunks, rest) = block.as_chunks::<LANES>();
    let mut lanes = [NEVER; LANES];
    for chunk in chunks {
        for at in 0..LANES {
            let one = if chunk[at] < above { chunk[at] } else { NEVER };
            lanes[at] = if lanes[at] < one { one } else { lanes[at] };
        }
    }
    // Halves are compared, which needs few instructions.
    for half in [LANES / 2, LANES / 4, LANES / 8] {
        for at in 0..half {
            lanes[at] = if lanes[at] < lanes[at + half] { lanes[at + half] } else { lanes[at] };
        }
    }
    rest.iter().copied().filter(|&one| one < above).fold(lanes[0], f32::max)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::super::scan::to_f32;
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
            let exact = |index: NameIndex| Some(Some(to_i64(made.of[index as usize])));
            let best = changed.best(Want::All, None, exact);
            assert_eq!(best, Some((expected.map(to_index).collect(), None)));
            let n_left = made.of.iter().filter(|&&total| NEVER < total).count();
            assert_eq!(changed.n_left(), n_left, "it follows the changes");
        }
    }

    #[test]
    fn the_margin_is_that_of_the_real_totals() {
        let mut rng = Pcg64::seed_from_u64(2);
        for _ in 0..500 {
            let n = rng.random_range(1..100);
            // Some are rejected, and the bounds of some are too high.
            let real: Vec<Option<i64>> =
                (0..n).map(|_| rng.random_ratio(3, 4).then(|| rng.random_range(0..30))).collect();
            let bound = |total: &Option<i64>| match rng.random_range(0..4_u8) {
                0 if total.is_none() => NEVER,
                more => to_f32(total.unwrap_or(9) + i64::from(more / 2)),
            };
            let mut totals = Totals { of: real.iter().map(bound).collect(), ..Totals::default() };
            totals.find_tops();
            let mut sorted: Vec<i64> = real.iter().copied().flatten().collect();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            let expected = sorted.get(1).map(|second| sorted[0] - second);
            let exact = |index: NameIndex| Some(real[index as usize]);
            for want in [Want::First, Want::All] {
                let margin = |most_looks| {
                    totals.best(want, Some(most_looks), exact).expect("all can be computed").1
                };
                assert_eq!(margin(n), expected, "{want:?}: {real:?}");
                let little = margin(1);
                assert!(little.is_none() || little == expected, "{want:?}: {real:?}");
            }
        }
    }
}
