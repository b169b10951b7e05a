//! Values for pods, indexed by pod id.

use std::ops::{Index, IndexMut};

use crate::names::PodId;

/// Values for some of the known pods, at most one for each.
///
/// Values are stored contiguously. A pod without a value costs four bytes.
#[derive(Debug)]
pub(crate) struct ByPod<T> {
    /// The index of the value of each pod; [`NOWHERE`] if it has none.
    places: Vec<u32>,
    values: Vec<(PodId, T)>,
}

const NOWHERE: u32 = u32::MAX;

/// A capacity below this is never shrunk.
const FEW: usize = 1 << 10;

impl<T> Default for ByPod<T> {
    fn default() -> Self {
        ByPod { places: Vec::new(), values: Vec::new() }
    }
}

impl<T> ByPod<T> {
    /// Adds the value of a pod that has none.
    pub(crate) fn insert(&mut self, pod: PodId, value: T) {
        debug_assert!(!self.has(pod), "a pod has one value");
        if self.places.len() <= pod.index() {
            self.places.resize(pod.index() + 1, NOWHERE);
        }
        self.places[pod.index()] = place(self.values.len());
        self.values.push((pod, value));
    }

    /// Sets the value of a pod, which may have one.
    pub(crate) fn set(&mut self, pod: PodId, value: T) {
        match self.get_mut(pod) {
            Some(known) => *known = value,
            None => self.insert(pod, value),
        }
    }

    /// Takes the value of a pod out.
    pub(crate) fn remove(&mut self, pod: PodId) -> Option<T> {
        let at = self.place(pod)?;
        self.places[pod.index()] = NOWHERE;
        let (_, value) = self.values.swap_remove(at);
        if let Some(&(moved, _)) = self.values.get(at) {
            self.places[moved.index()] = place(at);
        }
        if FEW < self.values.capacity() && self.values.len() < self.values.capacity() / 4 {
            self.values.shrink_to(self.values.capacity() / 2);
        }
        Some(value)
    }

    /// The value of a pod.
    pub(crate) fn get(&self, pod: PodId) -> Option<&T> {
        self.place(pod).map(|at| &self.values[at].1)
    }

    /// The value of a pod, mutably.
    pub(crate) fn get_mut(&mut self, pod: PodId) -> Option<&mut T> {
        self.place(pod).map(|at| &mut self.values[at].1)
    }

    /// Whether a pod has one.
    pub(crate) fn has(&self, pod: PodId) -> bool {
        self.place(pod).is_some()
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// All pods that have one, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PodId, &T)> {
        self.values.iter().map(|(pod, value)| (*pod, value))
    }

    fn place(&self, pod: PodId) -> Option<usize> {
        let place = *self.places.get(pod.index())?;
        (place != NOWHERE).then_some(place as usize)
    }
}

fn place(at: usize) -> u32 {
    u32::try_from(at).expect("there are fewer than 2^32 pods")
}

const HAS: &str = "whoever goes by the number knows that the pod has a value";

impl<T> Index<PodId> for ByPod<T> {
    type Output = T;
    fn index(&self, pod: PodId) -> &T {
        self.get(pod).expect(HAS)
    }
}

impl<T> IndexMut<PodId> for ByPod<T> {
    fn index_mut(&mut self, pod: PodId) -> &mut T {
        self.get_mut(pod).expect(HAS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn every_pod_has_the_value_that_it_was_given_whichever_come_and_go() {
        let mut rng = rand_pcg::Pcg64::seed_from_u64(0);
        let (mut by_pod, mut map) = (ByPod::default(), BTreeMap::new());
        // First mostly insertions, and then mostly removals.
        for round in 0..20_000_usize {
            let pod = PodId::from_index(rng.random_range(0..8_000));
            let comes = rng.random_range(0..10) < if round < 10_000 { 9 } else { 1 };
            if comes && !by_pod.has(pod) {
                by_pod.insert(pod, round);
                map.insert(pod, round);
            } else if !comes {
                assert_eq!(by_pod.remove(pod), map.remove(&pod));
            }
            assert_eq!((by_pod.get(pod), by_pod.len()), (map.get(&pod), map.len()));
        }
        assert_eq!(
            by_pod.iter().map(|(pod, &value)| (pod, value)).collect::<BTreeMap<_, _>>(),
            map
        );
    }
}
