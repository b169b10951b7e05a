//! Sets of nodes, given by their index in [name order](super::name_order).

/// The index of a node in name order: the smaller its name, the smaller its index. Some indices have no node.
pub(crate) type NameIndex = u32;

/// Up to this many nodes a set is a sorted list.
const FEW: usize = 128;
const BITS: usize = 64;

/// The union of several sets: a bit for each node.
#[derive(Clone, Debug)]
pub(crate) struct NameIndexBits(Vec<u64>);

impl NameIndexBits {
    /// The empty set, in a cluster with `n_indices` name indices.
    pub(crate) fn none(n_indices: usize) -> Self {
        NameIndexBits(vec![0; n_indices.div_ceil(BITS)])
    }

    pub(crate) fn add(&mut self, set: &NameIndexSet) {
        match set {
            NameIndexSet::Few(indices) => {
                for &index in indices {
                    self.insert(index);
                }
            }
            NameIndexSet::Many(bits) => {
                for (all, word) in self.0.iter_mut().zip(&bits.words) {
                    *all |= word;
                }
            }
        }
    }

    /// Adds a node.
    pub(crate) fn insert(&mut self, index: NameIndex) {
        self.0[index as usize / BITS] |= 1 << (index as usize % BITS);
    }

    /// Whether a node is in the set.
    pub(crate) fn has(&self, index: NameIndex) -> bool {
        self.0[index as usize / BITS] & (1 << (index as usize % BITS)) != 0
    }

    /// Removes all nodes of `other`, which has a bit for each node.
    pub(crate) fn take_out(&mut self, other: &[u64]) {
        for (all, word) in self.0.iter_mut().zip(other) {
            *all &= !word;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The node that follows `n` others.
    pub(crate) fn nth(&self, mut n: usize) -> Option<NameIndex> {
        for (at, &word) in self.0.iter().enumerate() {
            let here = word.count_ones() as usize;
            if n < here {
                // Clears the lowest bit `n` times.
                let left = (0..n).fold(word, |word, _| word & (word - 1));
                return NameIndex::try_from(at * BITS + left.trailing_zeros() as usize).ok();
            }
            n -= here;
        }
        None
    }
}

/// A set of nodes that finds its first node quickly.
#[derive(Clone, Debug)]
pub(crate) enum NameIndexSet {
    /// Sorted.
    Few(Vec<NameIndex>),
    Many(Bits),
}

/// A bit for each node, a bit for each word of these that is not 0, and a bit for each word of those.
#[derive(Clone, Debug)]
pub(crate) struct Bits {
    words: Vec<u64>,
    tops: Vec<u64>,
    roofs: Vec<u64>,
    len: usize,
}

impl Default for NameIndexSet {
    fn default() -> Self {
        NameIndexSet::Few(Vec::new())
    }
}

impl NameIndexSet {
    /// Adds `index`, which must not be in the set and is below `n_indices`.
    pub(crate) fn insert(&mut self, index: NameIndex, n_indices: usize) {
        match self {
            NameIndexSet::Few(indices) if indices.len() < FEW => {
                let at = indices.partition_point(|&other| other < index);
                indices.insert(at, index);
            }
            NameIndexSet::Few(indices) => {
                let mut bits = Bits::new(n_indices);
                for &other in indices.iter() {
                    bits.insert(other);
                }
                bits.insert(index);
                *self = NameIndexSet::Many(bits);
            }
            NameIndexSet::Many(bits) => bits.insert(index),
        }
    }

    /// Removes `index`, which must be in the set.
    pub(crate) fn remove(&mut self, index: NameIndex) {
        match self {
            NameIndexSet::Few(indices) => {
                let at = indices.binary_search(&index).expect("an index is taken out once");
                indices.remove(at);
            }
            NameIndexSet::Many(bits) => bits.remove(index),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            NameIndexSet::Few(indices) => indices.len(),
            NameIndexSet::Many(bits) => bits.len,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The nodes, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NameIndex> + '_ {
        let (few, many) = match self {
            NameIndexSet::Few(indices) => (indices.as_slice(), None),
            NameIndexSet::Many(bits) => (&[][..], Some(bits.iter())),
        };
        few.iter().copied().chain(many.into_iter().flatten())
    }
}

impl Bits {
    fn new(n_indices: usize) -> Self {
        let n_words = n_indices.div_ceil(BITS);
        let n_tops = n_words.div_ceil(BITS);
        let n_roofs = n_tops.div_ceil(BITS);
        Bits { words: vec![0; n_words], tops: vec![0; n_tops], roofs: vec![0; n_roofs], len: 0 }
    }

    fn insert(&mut self, index: NameIndex) {
        let at = index as usize;
        let (word, top) = (at / BITS, at / (BITS * BITS));
        self.words[word] |= 1 << (at % BITS);
        self.tops[top] |= 1 << (word % BITS);
        self.roofs[top / BITS] |= 1 << (top % BITS);
        self.len += 1;
    }

    fn remove(&mut self, index: NameIndex) {
        let at = index as usize;
        let (word, top) = (at / BITS, at / (BITS * BITS));
        debug_assert!(self.words[word] & (1 << (at % BITS)) != 0, "an index is taken out once");
        self.words[word] &= !(1 << (at % BITS));
        if self.words[word] == 0 {
            self.tops[top] &= !(1 << (word % BITS));
            if self.tops[top] == 0 {
                self.roofs[top / BITS] &= !(1 << (top % BITS));
            }
        }
        self.len -= 1;
    }

    fn iter(&self) -> impl Iterator<Item = NameIndex> + '_ {
        let roofs = ones(&self.roofs, 0..self.roofs.len());
        let tops = roofs.flat_map(|top| ones(&self.tops, top..top + 1));
        let words = tops.flat_map(|word| ones(&self.words, word..word + 1));
        words.map(|index| NameIndex::try_from(index).expect("an index has 32 bits"))
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
    fn the_nth_index_is_that_of_the_union() {
        let mut rng = Pcg64::seed_from_u64(5);
        for n_indices in [1, 64, 500, 5_000] {
            let sizes = [3, 100, n_indices / 2];
            let sets = sizes.map(|n| {
                let indices: BTreeSet<NameIndex> = (0..n)
                    .map(|_| {
                        rng.random_range(0..NameIndex::try_from(n_indices).expect("it is small"))
                    })
                    .collect();
                let mut set = NameIndexSet::default();
                for &index in &indices {
                    set.insert(index, n_indices);
                }
                (indices, set)
            });
            let mut marked = NameIndexBits::none(n_indices);
            marked.add(&sets[0].1);
            marked.add(&sets[2].1);
            let mut other = NameIndexBits::none(n_indices);
            other.add(&sets[1].1);
            marked.take_out(&other.0);
            let expected: Vec<NameIndex> = sets[0]
                .0
                .union(&sets[2].0)
                .filter(|index| !sets[1].0.contains(index))
                .copied()
                .collect();
            assert_eq!(marked.len(), expected.len());
            let all: Vec<NameIndex> = (0..=n_indices).map_while(|n| marked.nth(n)).collect();
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn a_set_behaves_alike_at_every_size() {
        for (seed, n_indices) in [(1, 10), (2, 300), (3, 5_000), (4, 300_000)] {
            let mut rng = Pcg64::seed_from_u64(seed);
            let (mut set, mut expected) = (NameIndexSet::default(), BTreeSet::new());
            for _ in 0..2_000 {
                let index = rng.random_range(0..n_indices);
                if expected.remove(&index) {
                    set.remove(index);
                } else {
                    expected.insert(index);
                    set.insert(index, n_indices as usize);
                }
                assert_eq!(set.len(), expected.len());
                assert_eq!(set.iter().next(), expected.first().copied());
            }
            assert!(set.iter().eq(expected), "seed {seed}");
        }
    }
}
