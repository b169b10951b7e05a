//! How many pods of each signature are on each node.

use hashbrown::hash_map::Entry;
use plimsoll_framework::Row;

use super::FastMap;
use super::signatures::SignatureId;

/// The approximate size of a place in a map, in bytes.
const BYTES_PER_PLACE: usize = size_of::<(Row, u32)>() + 1;
/// A map with fewer places is never made smaller.
const FEW: usize = 16;

/// For each signature of pods on nodes: how many of them are on each node.
#[derive(Debug, Default)]
pub(super) struct PlacedPods {
    by_signature: Vec<FastMap<Row, u32>>,
    /// How many places all maps have together.
    n_places: usize,
}

impl PlacedPods {
    /// Adds a signature.
    pub(super) fn add_signature(&mut self) {
        self.by_signature.push(FastMap::default());
    }

    /// A pod has come to a node.
    pub(super) fn add(&mut self, signature: SignatureId, row: Row) {
        let rows = &mut self.by_signature[signature as usize];
        let before = rows.capacity();
        *rows.entry(row).or_default() += 1;
        self.n_places = self.n_places + rows.capacity() - before;
    }

    /// A pod has left a node. Returns whether it was the last one of its signature.
    pub(super) fn remove(&mut self, signature: SignatureId, row: Row) -> bool {
        let rows = &mut self.by_signature[signature as usize];
        let Entry::Occupied(mut known) = rows.entry(row) else { return false };
        *known.get_mut() -= 1;
        if 0 < *known.get() {
            return false;
        }
        known.remove();
        // A map keeps its places. Signatures come and go, with every template of a Deployment.
        let before = rows.capacity();
        if rows.is_empty() {
            *rows = FastMap::default();
        } else if FEW < before && rows.len() < before / 4 {
            rows.shrink_to(before / 2);
        }
        self.n_places = self.n_places + rows.capacity() - before;
        rows.is_empty()
    }

    /// Removes all signatures.
    pub(super) fn clear(&mut self) {
        *self = PlacedPods::default();
    }

    /// The nodes with pods of a signature, and how many there are on each, in no particular order.
    pub(super) fn rows(&self, signature: SignatureId) -> impl Iterator<Item = (Row, u32)> {
        self.by_signature[signature as usize].iter().map(|(&row, &n)| (row, n))
    }

    /// Whether a pod of a signature is on a node.
    pub(super) fn has(&self, signature: SignatureId) -> bool {
        !self.by_signature[signature as usize].is_empty()
    }

    /// How many signatures there are.
    pub(super) fn n_signatures(&self) -> SignatureId {
        SignatureId::try_from(self.by_signature.len()).expect("signatures have 32 bits")
    }

    /// Its approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.by_signature.len() * size_of::<FastMap<Row, u32>>() + self.n_places * BYTES_PER_PLACE
    }

    /// How it differs from `anew`, which may lack signatures without pods.
    pub(super) fn difference(&self, anew: &PlacedPods) -> Option<String> {
        let places: usize = self.by_signature.iter().map(FastMap::capacity).sum();
        if places != self.n_places {
            return Some(format!("maps have {places} places, and not {}", self.n_places));
        }
        let none = FastMap::default();
        let mut all = self.by_signature.iter().enumerate();
        all.find_map(|(signature, known)| {
            let anew = anew.by_signature.get(signature).unwrap_or(&none);
            let what = format!("pods of signature {signature}: {known:?}, anew {anew:?}");
            (known != anew).then_some(what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at: usize) -> Row {
        Row::from_index(at)
    }

    #[test]
    fn the_last_pod_of_a_signature_is_told() {
        let mut placed = PlacedPods::default();
        placed.add_signature();
        placed.add_signature();
        for at in [1, 1, 2] {
            placed.add(1, row(at));
        }
        let mut rows: Vec<_> = placed.rows(1).collect();
        rows.sort_unstable();
        assert_eq!(rows, [(row(1), 2), (row(2), 1)]);
        assert!(!placed.has(0) && placed.has(1));
        assert_eq!([1, 2, 1].map(|at| placed.remove(1, row(at))), [false, false, true]);
        assert!(!placed.has(1));
        // Nothing is left to be removed.
        assert!(!placed.remove(1, row(1)));
        assert_eq!((placed.n_signatures(), placed.rows(1).count()), (2, 0));
    }

    #[test]
    fn what_pods_have_left_takes_no_memory() {
        let mut placed = PlacedPods::default();
        placed.add_signature();
        let empty = placed.bytes();
        (0..1000).for_each(|at| placed.add(0, row(at)));
        let full = placed.bytes();
        assert!(empty + 1000 * BYTES_PER_PLACE <= full);
        (0..990).for_each(|at| assert!(!placed.remove(0, row(at))));
        assert!(placed.bytes() < full / 8, "{} of {full}", placed.bytes());
        (990..1000).for_each(|at| assert_eq!(placed.remove(0, row(at)), at == 999));
        assert_eq!(placed.bytes(), empty);
        placed.add(0, row(0));
        placed.clear();
        assert_eq!((placed.bytes(), placed.n_signatures()), (0, 0));
    }
}
