//! A sorted set of pods, of which mostly the first is taken.

use std::collections::{BTreeMap, VecDeque};

use crate::names::PodId;

/// How many ascending runs of pods a set has. Pods are mostly inserted in ascending order, and after a
/// change a whole group of earlier ones is inserted at once. Pods that fit into no run go into a tree.
const RUNS: usize = 4;

/// A run shorter than this is never compacted.
const SHORT: usize = 64;

/// An ascending run of pods. A pod that is removed from the middle leaves a hole.
#[derive(Debug)]
struct AscendingRun<K> {
    /// Neither the first nor the last is a hole.
    pods: VecDeque<(K, Option<PodId>)>,
    holes: usize,
}

/// Pods sorted by unique keys. Inserting at the end and removing the first take constant time.
#[derive(Debug)]
pub(crate) struct SortedPods<K> {
    runs: [AscendingRun<K>; RUNS],
    /// The runs after these are empty.
    n_runs: usize,
    rest: BTreeMap<K, PodId>,
}

impl<K> Default for SortedPods<K> {
    fn default() -> Self {
        let run = |_| AscendingRun { pods: VecDeque::new(), holes: 0 };
        SortedPods { runs: std::array::from_fn(run), n_runs: 0, rest: BTreeMap::new() }
    }
}

impl<K: Ord> SortedPods<K> {
    /// Puts a pod in.
    pub(crate) fn insert(&mut self, key: K, pod: PodId) {
        let fits = |run: &AscendingRun<K>| run.pods.back().is_none_or(|(last, _)| *last < key);
        match self.runs.iter().position(fits) {
            Some(at) => {
                self.runs[at].pods.push_back((key, Some(pod)));
                self.n_runs = self.n_runs.max(at + 1);
            }
            None => {
                self.rest.insert(key, pod);
            }
        }
    }

    /// Takes the pod of this key out, if it is here.
    pub(crate) fn remove(&mut self, key: &K) {
        if !self.runs[..self.n_runs].iter_mut().any(|run| run.remove(key)) {
            self.rest.remove(key);
        }
        while self.runs[..self.n_runs].last().is_some_and(|run| run.pods.is_empty()) {
            self.n_runs -= 1;
        }
    }

    /// The first key and its pod.
    pub(crate) fn first(&self) -> Option<(&K, PodId)> {
        let rest = self.rest.first_key_value().map(|(key, &pod)| (key, pod));
        self.runs().filter_map(AscendingRun::first).chain(rest).min()
    }

    /// The pods with keys up to `last`, in no particular order.
    pub(crate) fn up_to(&self, last: K) -> impl Iterator<Item = PodId>
    where
        K: Copy,
    {
        let runs = self.runs().flat_map(move |run| {
            run.pods.iter().take_while(move |(key, _)| *key <= last).filter_map(|&(_, pod)| pod)
        });
        runs.chain(self.rest.range(..=last).map(|(_, &pod)| pod))
    }

    /// All pods, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PodId> {
        let runs = self.runs().flat_map(|run| run.pods.iter().filter_map(|(_, pod)| *pod));
        runs.chain(self.rest.values().copied())
    }

    /// All pods with their keys, in their order.
    pub(crate) fn in_order(&self) -> Vec<(K, PodId)>
    where
        K: Copy,
    {
        let runs =
            self.runs().flat_map(|run| run.pods.iter().filter_map(|&(key, pod)| Some((key, pod?))));
        let mut all: Vec<_> = runs.chain(self.rest.iter().map(|(&key, &pod)| (key, pod))).collect();
        all.sort_unstable();
        all
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.n_runs == 0 && self.rest.is_empty()
    }

    fn runs(&self) -> impl Iterator<Item = &AscendingRun<K>> {
        self.runs[..self.n_runs].iter()
    }
}

impl<K: Ord> AscendingRun<K> {
    fn first(&self) -> Option<(&K, PodId)> {
        self.pods.front().and_then(|(key, pod)| Some((key, (*pod)?)))
    }

    /// Takes the pod of this key out; whether it was here.
    fn remove(&mut self, key: &K) -> bool {
        match self.pods.front() {
            // Mostly it is the first.
            Some((first, _)) if first == key => {
                self.pods.pop_front();
            }
            Some((first, _)) if first < key => {
                let Ok(at) = self.pods.binary_search_by(|(other, _)| other.cmp(key)) else {
                    return false;
                };
                if self.pods[at].1.take().is_none() {
                    return false;
                }
                self.holes += 1;
            }
            _ => return false,
        }
        if 0 < self.holes {
            self.close_holes();
        }
        true
    }

    /// Drops holes at both ends, and all holes if there are many.
    fn close_holes(&mut self) {
        while self.pods.pop_front_if(|(_, pod)| pod.is_none()).is_some() {
            self.holes -= 1;
        }
        while self.pods.pop_back_if(|(_, pod)| pod.is_none()).is_some() {
            self.holes -= 1;
        }
        if SHORT + self.pods.len() / 2 < self.holes {
            self.pods.retain(|(_, pod)| pod.is_some());
            self.holes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn a_lane_is_a_sorted_map_whatever_comes_and_goes() {
        let pods: Vec<PodId> = (0..50).map(PodId::from_index).collect();
        for seed in 0..200 {
            let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
            let (mut sorted, mut map) = (SortedPods::default(), BTreeMap::new());
            for _ in 0..200 {
                let key = rng.random_range(0..pods.len());
                match rng.random_range(0..4) {
                    0 => {
                        let first = sorted.first().map(|(&key, pod)| (key, pod));
                        assert_eq!(first, map.pop_first(), "seed {seed}");
                        if let Some((key, _)) = first {
                            sorted.remove(&key);
                        }
                    }
                    1 => {
                        sorted.remove(&key);
                        map.remove(&key);
                    }
                    _ if map.contains_key(&key) => {}
                    _ => {
                        sorted.insert(key, pods[key]);
                        map.insert(key, pods[key]);
                    }
                }
                assert_eq!(sorted.is_empty(), map.is_empty(), "seed {seed}");
                let last = rng.random_range(0..pods.len());
                let up_to: BTreeSet<PodId> = sorted.up_to(last).collect();
                assert_eq!(up_to, map.range(..=last).map(|(_, &pod)| pod).collect(), "seed {seed}");
                let all: Vec<_> = map.iter().map(|(&key, &pod)| (key, pod)).collect();
                assert_eq!(sorted.in_order(), all, "seed {seed}");
            }
        }
    }
}
