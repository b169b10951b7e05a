//! Sets of nodes by their rank.

/// The place of a node among all nodes by name, counted from 0.
pub(crate) type Rank = u32;

/// Up to so many ranks are kept as a list.
const FEW: usize = 128;
const BITS: usize = 64;

/// Ranks that are put together for one look: a bit for each.
#[derive(Clone, Debug)]
pub(crate) struct Marked(Vec<u64>);

impl Marked {
    /// No rank of so many.
    pub(crate) fn none(n_ranks: usize) -> Self {
        Marked(vec![0; n_ranks.div_ceil(BITS)])
    }

    pub(crate) fn add(&mut self, set: &RankSet) {
        match set {
            RankSet::Few(ranks) => {
                for &rank in ranks {
                    self.0[rank as usize / BITS] |= 1 << (rank as usize % BITS);
                }
            }
            RankSet::Many(bits) => {
                for (all, word) in self.0.iter_mut().zip(&bits.words) {
                    *all |= word;
                }
            }
        }
    }

    /// Takes out all that `other` has, a bit for each rank.
    pub(crate) fn take_out(&mut self, other: &[u64]) {
        for (all, word) in self.0.iter_mut().zip(other) {
            *all &= !word;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The rank that `n` others are before.
    pub(crate) fn nth(&self, mut n: usize) -> Option<Rank> {
        for (at, &word) in self.0.iter().enumerate() {
            let here = word.count_ones() as usize;
            if n < here {
                // Without the lowest of them, as often as it takes.
                let left = (0..n).fold(word, |word, _| word & (word - 1));
                return Rank::try_from(at * BITS + left.trailing_zeros() as usize).ok();
            }
            n -= here;
        }
        None
    }
}

/// A set of ranks: its least and its n-th element are at hand.
#[derive(Clone, Debug)]
pub(crate) enum RankSet {
    /// Sorted.
    Few(Vec<Rank>),
    Many(Bits),
}

/// A bit for each rank, a bit for each word that is not 0, and a bit for each word of those.
#[derive(Clone, Debug)]
pub(crate) struct Bits {
    words: Vec<u64>,
    tops: Vec<u64>,
    roofs: Vec<u64>,
    len: usize,
}

impl Default for RankSet {
    fn default() -> Self {
        RankSet::Few(Vec::new())
    }
}

impl RankSet {
    /// Adds `rank`, which is not in the set and below `n_ranks`.
    pub(crate) fn insert(&mut self, rank: Rank, n_ranks: usize) {
        match self {
            RankSet::Few(ranks) if ranks.len() < FEW => {
                let at = ranks.partition_point(|&other| other < rank);
                ranks.insert(at, rank);
            }
            RankSet::Few(ranks) => {
                let mut bits = Bits::new(n_ranks);
                for &other in ranks.iter() {
                    bits.insert(other);
                }
                bits.insert(rank);
                *self = RankSet::Many(bits);
            }
            RankSet::Many(bits) => bits.insert(rank),
        }
    }

    /// Takes out `rank`, which is in the set.
    pub(crate) fn remove(&mut self, rank: Rank) {
        match self {
            RankSet::Few(ranks) => {
                let at = ranks.binary_search(&rank).expect("a rank is taken out once");
                ranks.remove(at);
            }
            RankSet::Many(bits) => bits.remove(rank),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            RankSet::Few(ranks) => ranks.len(),
            RankSet::Many(bits) => bits.len,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ranks, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Rank> + '_ {
        let (few, many) = match self {
            RankSet::Few(ranks) => (ranks.as_slice(), None),
            RankSet::Many(bits) => (&[][..], Some(bits.iter())),
        };
        few.iter().copied().chain(many.into_iter().flatten())
    }
}

impl Bits {
    fn new(n_ranks: usize) -> Self {
        let n_words = n_ranks.div_ceil(BITS);
        let n_tops = n_words.div_ceil(BITS);
        let n_roofs = n_tops.div_ceil(BITS);
        Bits { words: vec![0; n_words], tops: vec![0; n_tops], roofs: vec![0; n_roofs], len: 0 }
    }

    fn insert(&mut self, rank: Rank) {
        let at = rank as usize;
        let (word, top) = (at / BITS, at / (BITS * BITS));
        self.words[word] |= 1 << (at % BITS);
        self.tops[top] |= 1 << (word % BITS);
        self.roofs[top / BITS] |= 1 << (top % BITS);
        self.len += 1;
    }

    fn remove(&mut self, rank: Rank) {
        let at = rank as usize;
        let (word, top) = (at / BITS, at / (BITS * BITS));
        debug_assert!(self.words[word] & (1 << (at % BITS)) != 0, "a rank is taken out once");
        self.words[word] &= !(1 << (at % BITS));
        if self.words[word] == 0 {
            self.tops[top] &= !(1 << (word % BITS));
            if self.tops[top] == 0 {
                self.roofs[top / BITS] &= !(1 << (top % BITS));
            }
        }
        self.len -= 1;
    }

    fn iter(&self) -> impl Iterator<Item = Rank> + '_ {
        let roofs = ones(&self.roofs, 0..self.roofs.len());
        let tops = roofs.flat_map(|top| ones(&self.tops, top..top + 1));
        let words = tops.flat_map(|word| ones(&self.words, word..word + 1));
        words.map(|rank| Rank::try_from(rank).expect("a rank has 32 bits"))
    }
}

/// The numbers of the bits that are set in some of `words`.
fn ones(words: &[u64], of: std::ops::Range<usize>) -> impl Iterator<Item = usize> + '_ {
    of.flat_map(|at| {
        let mut word = words[at];
        std::iter::from_fn(move || {
            if word == 0 {
                return None;
            }
            let bit = word.trailing_zeros() as usize;
            word &= word - 1;
            Some(at * BITS + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn the_nth_of_sets_that_are_put_together_is_that_of_their_union() {
        let mut rng = Pcg64::seed_from_u64(5);
        for n_ranks in [1, 64, 500, 5_000] {
            let sizes = [3, 100, n_ranks / 2];
            let sets = sizes.map(|n| {
                let ranks: BTreeSet<Rank> = (0..n)
                    .map(|_| rng.random_range(0..Rank::try_from(n_ranks).expect("it is small")))
                    .collect();
                let mut set = RankSet::default();
                for &rank in &ranks {
                    set.insert(rank, n_ranks);
                }
                (ranks, set)
            });
            let mut marked = Marked::none(n_ranks);
            marked.add(&sets[0].1);
            marked.add(&sets[2].1);
            let mut other = Marked::none(n_ranks);
            other.add(&sets[1].1);
            marked.take_out(&other.0);
            let expected: Vec<Rank> = sets[0]
                .0
                .union(&sets[2].0)
                .filter(|rank| !sets[1].0.contains(rank))
                .copied()
                .collect();
            assert_eq!(marked.len(), expected.len());
            let all: Vec<Rank> = (0..=n_ranks).map_while(|n| marked.nth(n)).collect();
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn a_set_of_ranks_is_a_set_whatever_its_size() {
        for (seed, n_ranks) in [(1, 10), (2, 300), (3, 5_000), (4, 300_000)] {
            let mut rng = Pcg64::seed_from_u64(seed);
            let (mut set, mut expected) = (RankSet::default(), BTreeSet::new());
            for _ in 0..2_000 {
                let rank = rng.random_range(0..n_ranks);
                if expected.remove(&rank) {
                    set.remove(rank);
                } else {
                    expected.insert(rank);
                    set.insert(rank, n_ranks as usize);
                }
                assert_eq!(set.len(), expected.len());
                assert_eq!(set.iter().next(), expected.first().copied());
            }
            assert!(set.iter().eq(expected), "seed {seed}");
        }
    }
}
