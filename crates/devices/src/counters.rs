//! Counters that the devices of a pool share.

use std::sync::Arc;

use hashbrown::HashMap;
use plimsoll_api::devices::{CounterConsumption, CounterSet};
use plimsoll_api::{MemoCell, Quantity, Str};
use rustc_hash::FxBuildHasher;

use crate::pool::{IndexedSlice, Pool};
use crate::{Allocated, Features};

/// Counters, sorted by the names of their sets and their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters(Vec<Counter>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Counter {
    set: Str,
    name: Str,
    value: Quantity,
}

/// A pool: its driver and its name.
type PoolKey = (Str, Str);

/// What is left of the counters of pools. 1.36 tells pools apart by their names alone.
pub(crate) type PoolCounters = HashMap<PoolKey, Arc<Counters>, FxBuildHasher>;

/// How the counters of a pool are found.
pub(crate) fn key_of(pool: &Pool, features: Features) -> PoolKey {
    let driver = if features.is_37() { pool.driver.clone() } else { Str::default() };
    (driver, pool.name.clone())
}

impl Counters {
    /// What is left of the counters of a pool, after all that its allocated devices consume. It may be negative.
    pub(crate) fn available(pool: &Pool, allocated: &Allocated) -> Self {
        let mut left = Vec::new();
        for CounterSet { name: set, counters } in pool.counter_sets() {
            left.extend(counters.iter().map(|(name, value)| Counter {
                set: set.clone(),
                name: name.clone(),
                value: value.clone(),
            }));
        }
        left.sort_by(|one, other| (&one.set, &one.name).cmp(&(&other.set, &other.name)));
        let mut left = Counters(left);
        for slice in pool.slices.iter().chain(&pool.elsewhere) {
            for (device, id) in slice.slice.devices.iter().zip(&slice.ids) {
                if !device.consumes_counters.is_empty() && allocated.is_allocated(*id) {
                    left.take(&device.consumes_counters);
                }
            }
        }
        left
    }

    /// Takes away from counters that there are.
    fn take(&mut self, consumed: &[CounterConsumption]) {
        for (set, name, amount) in each(consumed) {
            if let Ok(at) = self.find(set, name) {
                self.0[at].value.sub(amount);
            }
        }
    }

    /// Adds what a device consumes.
    pub(crate) fn add(&mut self, consumed: &[CounterConsumption]) {
        for (set, name, amount) in each(consumed) {
            self.of(set, name).add(amount);
        }
    }

    /// Takes away what a device consumes.
    pub(crate) fn sub(&mut self, consumed: &[CounterConsumption]) {
        for (set, name, amount) in each(consumed) {
            self.of(set, name).sub(amount);
        }
    }

    /// Whether each of these available counters is at least what is consumed.
    pub(crate) fn cover(&self, consumed: &Counters) -> bool {
        let zero = Quantity::default();
        let mut others = consumed.0.iter().peekable();
        self.0.iter().all(|available| {
            let key = (&available.set, &available.name);
            while others.next_if(|other| (&other.set, &other.name) < key).is_some() {}
            let taken = others.peek().filter(|other| (&other.set, &other.name) == key);
            taken.map_or(&zero, |taken| &taken.value) <= &available.value
        })
    }

    fn of(&mut self, set: &Str, name: &Str) -> &mut Quantity {
        let at = self.find(set, name).unwrap_or_else(|at| {
            let value = Quantity::default();
            self.0.insert(at, Counter { set: set.clone(), name: name.clone(), value });
            at
        });
        &mut self.0[at].value
    }

    fn find(&self, set: &Str, name: &Str) -> Result<usize, usize> {
        self.0.binary_search_by(|one| (&one.set, &one.name).cmp(&(set, name)))
    }
}

/// Each counter that is consumed: its set, its name and how much of it.
fn each(consumed: &[CounterConsumption]) -> impl Iterator<Item = (&Str, &Str, &Quantity)> {
    consumed
        .iter()
        .flat_map(|one| one.counters.iter().map(|(name, amount)| (&one.counter_set, name, amount)))
}

/// What is left of the counters of pools, until a device of the pool is given, taken or changed. A search asks about
/// every pool that it comes to, and most of them have not changed since the last one.
#[derive(Debug, Default)]
pub(crate) struct KeptCounters(MemoCell<CountersByPool>);

/// Beyond this many bytes all counters are forgotten: pools come and go, with their nodes.
const MOST_BYTES: usize = 32 << 20;

#[derive(Debug, Default)]
struct CountersByPool {
    known: HashMap<PoolKey, Kept, FxBuildHasher>,
    /// The approximate size in bytes.
    bytes: usize,
}

impl CountersByPool {
    fn insert(&mut self, key: PoolKey, kept: Kept) {
        self.remove(&key);
        if MOST_BYTES < self.bytes {
            *self = CountersByPool::default();
        }
        self.bytes += kept.bytes(&key);
        self.known.insert(key, kept);
    }

    fn remove(&mut self, key: &PoolKey) {
        if let Some(gone) = self.known.remove(key) {
            self.bytes -= gone.bytes(key);
        }
    }
}

#[derive(Debug)]
struct Kept {
    /// The stamps of the slices on which the counters depend.
    stamps: Vec<u64>,
    left: Arc<Counters>,
}

impl Kept {
    /// The approximate size in bytes, with its key.
    fn bytes(&self, (driver, pool): &PoolKey) -> usize {
        let names = self.left.0.iter().map(|one| one.set.len() + one.name.len());
        size_of::<(PoolKey, Kept)>()
            + driver.len()
            + pool.len()
            + size_of_val(self.stamps.as_slice())
            + size_of_val(self.left.0.as_slice())
            + names.sum::<usize>()
    }
}

/// A copy knows nothing yet: it may change in another way.
impl Clone for KeptCounters {
    fn clone(&self) -> Self {
        KeptCounters::default()
    }
}

impl KeptCounters {
    /// A device of a pool was given or taken.
    pub(crate) fn changed(&mut self, driver: &Str, pool: &Str) {
        let known = self.0.get_mut();
        if !known.known.is_empty() {
            known.remove(&(driver.clone(), pool.clone()));
        }
    }

    /// As [`Counters::available`].
    pub(crate) fn available(&self, pool: &Pool, allocated: &Allocated) -> Arc<Counters> {
        let key = (pool.driver.clone(), pool.name.clone());
        let mut known = self.0.open();
        let is_same = |kept: &&Kept| kept.stamps.iter().copied().eq(stamps(pool));
        let count = || Counters::available(pool, allocated);
        if let Some(kept) = known.known.get(&key).filter(is_same) {
            debug_assert_eq!(*kept.left, count(), "what is left in {key:?} is not what is kept");
            return kept.left.clone();
        }
        let left = Arc::new(count());
        known.insert(key, Kept { stamps: stamps(pool).collect(), left: left.clone() });
        left
    }
}

fn stamps(pool: &Pool) -> impl Iterator<Item = u64> {
    pool.all_slices().map(|slice: &Arc<IndexedSlice>| slice.stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumption(set: &str, counters: &[(&str, i64)]) -> CounterConsumption {
        let amount = |n| Quantity::new(n, plimsoll_api::quantity::Format::DecimalSi);
        let counters = counters.iter().map(|(name, n)| ((*name).into(), amount(*n)));
        CounterConsumption { counter_set: set.into(), counters: counters.collect() }
    }

    fn counters(all: &[CounterConsumption]) -> Counters {
        let mut counters = Counters::default();
        counters.add(all);
        counters
    }

    #[test]
    fn the_bytes_of_kept_counters_are_bounded() {
        let mut all = CountersByPool::default();
        let left = Arc::new(counters(&[consumption(&"s".repeat(1 << 20), &[("x", 1)])]));
        let kept = || Kept { stamps: vec![1], left: left.clone() };
        let key = |number: usize| ("driver".into(), format!("pool-{number}").into());
        all.insert(key(0), kept());
        let one = all.bytes;
        all.insert(key(0), kept());
        assert_eq!(all.bytes, one, "it is replaced");
        all.remove(&key(0));
        all.remove(&key(0));
        assert_eq!(all.bytes, 0);
        for number in 0..100 {
            all.insert(key(number), kept());
            assert!(all.bytes <= MOST_BYTES + 2 * one && all.known.contains_key(&key(number)));
        }
    }

    #[test]
    fn every_counter_must_suffice_and_unknown_ones_do_not_matter() {
        let available =
            counters(&[consumption("a", &[("x", 2), ("y", 1)]), consumption("b", &[("x", 3)])]);
        let covers = |all: &[CounterConsumption]| available.cover(&counters(all));
        assert!(covers(&[]));
        assert!(covers(&[consumption("b", &[("x", 3)]), consumption("a", &[("y", 1), ("x", 2)])]));
        assert!(!covers(&[consumption("b", &[("x", 3)]), consumption("a", &[("y", 2)])]));
        assert!(!covers(&[consumption("b", &[("x", 2)]), consumption("b", &[("x", 2)])]));
        assert!(covers(&[consumption("a", &[("z", 9)]), consumption("c", &[("x", 9)])]));
        // Counters may be used up beyond zero.
        let below = counters(&[consumption("a", &[("x", -1)])]);
        assert!(!below.cover(&Counters::default()));
    }
}
