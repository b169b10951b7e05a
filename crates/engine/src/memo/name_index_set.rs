//! Sets of nodes, given by their index in [name order](super::name_order).

use std::slice;

/// The index of a node in name order: the smaller its name, the smaller its index. Some indices have no node.
pub(crate) type NameIndex = u32;

/// Up to this many nodes a set is a sorted list.
const FEW: usize = 128;
/// In a large cluster a set is a list up to one in so many nodes, since a bit for each node would take much more
/// memory.
const PART: usize = 1 << 9;
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

    /// Removes a node.
    pub(crate) fn remove(&mut self, index: NameIndex) {
        self.0[index as usize / BITS] &= !(1 << (index as usize % BITS));
    }

    /// Removes all nodes.
    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Adds all nodes of `other`.
    pub(crate) fn add_bits(&mut self, other: &NameIndexBits) {
        for (all, word) in self.0.iter_mut().zip(&other.0) {
            *all |= word;
        }
    }

    /// A bit for each node.
    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }

    /// Whether a node is in the set.
    pub(crate) fn has(&self, index: NameIndex) -> bool {
        has(&self.0, index)
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
            NameIndexSet::Few(indices) if indices.len() < FEW.max(n_indices / PART) => {
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

    /// Whether a node is in the set.
    pub(crate) fn has(&self, index: NameIndex) -> bool {
        match self {
            NameIndexSet::Few(indices) => indices.binary_search(&index).is_ok(),
            NameIndexSet::Many(bits) => has(&bits.words, index),
        }
    }

    /// The nodes that are also in `other`, ascending.
    pub(crate) fn common<'a>(&'a self, other: &'a Self) -> NameIndices<'a> {
        match (self, other) {
            (NameIndexSet::Few(one), NameIndexSet::Few(two)) if two.len() < one.len() => {
                NameIndices::Few(two.iter(), Wanted::In(self))
            }
            (NameIndexSet::Few(few), of) | (of, NameIndexSet::Few(few)) => {
                NameIndices::Few(few.iter(), Wanted::In(of))
            }
            (NameIndexSet::Many(one), NameIndexSet::Many(two)) => one.those(WantedBits::In(two)),
        }
    }

    /// The nodes that are not in `other`, which has a bit for each node, ascending.
    pub(crate) fn outside<'a>(&'a self, other: &'a [u64]) -> NameIndices<'a> {
        match self {
            NameIndexSet::Few(indices) => NameIndices::Few(indices.iter(), Wanted::NotIn(other)),
            NameIndexSet::Many(bits) => bits.those(WantedBits::NotIn(other)),
        }
    }

    /// The nodes, ascending.
    pub(crate) fn iter(&self) -> NameIndices<'_> {
        match self {
            NameIndexSet::Few(indices) => NameIndices::Few(indices.iter(), Wanted::All),
            NameIndexSet::Many(bits) => bits.those(WantedBits::All),
        }
    }
}

/// Nodes of a set, ascending. A small type of its own: combinators of the standard library would make one of some kilobytes,
/// which is moved for each decision.
#[derive(Clone, Debug)]
pub(crate) enum NameIndices<'a> {
    Few(slice::Iter<'a, NameIndex>, Wanted<'a>),
    Many(BitIndices<'a>),
}

/// Which nodes of a list are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    All,
    In(&'a NameIndexSet),
    NotIn(&'a [u64]),
}

impl Iterator for NameIndices<'_> {
    type Item = NameIndex;
    fn next(&mut self) -> Option<NameIndex> {
        match self {
            NameIndices::Few(indices, wanted) => {
                indices.by_ref().copied().find(|&index| match *wanted {
                    Wanted::All => true,
                    Wanted::In(set) => set.has(index),
                    Wanted::NotIn(words) => !has(words, index),
                })
            }
            NameIndices::Many(bits) => bits.next(),
        }
    }
}

/// Which nodes of a set of bits are wanted.
#[derive(Clone, Copy, Debug)]
enum WantedBits<'a> {
    All,
    In(&'a Bits),
    NotIn(&'a [u64]),
}

/// The nodes of a set of bits, ascending.
#[derive(Clone, Debug)]
pub(crate) struct BitIndices<'a> {
    of: &'a Bits,
    wanted: WantedBits<'a>,
    /// How many roofs were begun.
    n_roofs: usize,
    /// What is left of the last roof, of a word of tops, and of a word of bits, with the positions of the latter two.
    roof: u64,
    top: (usize, u64),
    word: (usize, u64),
}

impl Iterator for BitIndices<'_> {
    type Item = NameIndex;
    fn next(&mut self) -> Option<NameIndex> {
        loop {
            if let Some(bit) = take_lowest(&mut self.word.1) {
                return Some(to_index(self.word.0 * BITS + bit));
            }
            if let Some(bit) = take_lowest(&mut self.top.1) {
                let at = self.top.0 * BITS + bit;
                let wanted = match self.wanted {
                    WantedBits::All => u64::MAX,
                    WantedBits::In(other) => other.words[at],
                    WantedBits::NotIn(words) => !words[at],
                };
                self.word = (at, self.of.words[at] & wanted);
                continue;
            }
            if let Some(bit) = take_lowest(&mut self.roof) {
                let at = (self.n_roofs - 1) * BITS + bit;
                let wanted = match self.wanted {
                    WantedBits::In(other) => other.tops[at],
                    WantedBits::All | WantedBits::NotIn(_) => u64::MAX,
                };
                self.top = (at, self.of.tops[at] & wanted);
                continue;
            }
            let wanted = match self.wanted {
                WantedBits::In(other) => *other.roofs.get(self.n_roofs)?,
                WantedBits::All | WantedBits::NotIn(_) => u64::MAX,
            };
            self.roof = self.of.roofs.get(self.n_roofs)? & wanted;
            self.n_roofs += 1;
        }
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

    fn those<'a>(&'a self, wanted: WantedBits<'a>) -> NameIndices<'a> {
        let (roof, top, word) = (0, (0, 0), (0, 0));
        NameIndices::Many(BitIndices { of: self, wanted, n_roofs: 0, roof, top, word })
    }
}

/// Whether the bit of a node is set.
fn has(words: &[u64], index: NameIndex) -> bool {
    words[index as usize / BITS] & (1 << (index as usize % BITS)) != 0
}

/// Clears the lowest bit of a word, and returns its number.
fn take_lowest(word: &mut u64) -> Option<usize> {
    let lowest = (*word != 0).then(|| word.trailing_zeros() as usize);
    *word &= word.wrapping_sub(1);
    lowest
}

fn to_index(at: usize) -> NameIndex {
    NameIndex::try_from(at).expect("an index has 32 bits")
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
        for (seed, n_indices) in [(1, 10), (2, 300), (3, 5_000), (4, 300_000), (5, 60_000)] {
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

    /// A set with about so many nodes in a thousand.
    fn random(rng: &mut Pcg64, n_indices: u32, permille: u32) -> NameIndexSet {
        let mut set = NameIndexSet::default();
        for index in 0..n_indices {
            if rng.random_ratio(permille, 1000) {
                set.insert(index, n_indices as usize);
            }
        }
        set
    }

    #[test]
    fn sets_of_any_size_are_compared_with_each_other() {
        let mut rng = Pcg64::seed_from_u64(6);
        let n_indices = 10_000;
        for [one, other] in [[1, 1], [1, 300], [300, 1], [300, 300], [900, 20], [0, 500]] {
            let one = random(&mut rng, n_indices, one);
            let other = random(&mut rng, n_indices, other);
            let both = one.iter().filter(|&index| other.has(index));
            assert!(one.common(&other).eq(both));
            let mut bits = NameIndexBits::none(n_indices as usize);
            bits.add(&other);
            let outside = one.iter().filter(|&index| !other.has(index));
            assert!(one.outside(&bits.0).eq(outside));
        }
    }
}
