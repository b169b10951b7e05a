//! Counters that the devices of a pool share.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use plimsoll_api::devices::{CounterConsumption, CounterSet};
use plimsoll_api::{Quantity, Str};
use rustc_hash::FxBuildHasher;

use crate::pool::Pool;
use crate::{Allocated, Features};

/// Counters by the names of their sets and their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(BTreeMap<Str, BTreeMap<Str, Quantity>>);

/// Counters by pool: its driver and its name. 1.36 tells pools apart by their names alone.
pub(crate) type PoolCounters = HashMap<(Str, Str), Counters, FxBuildHasher>;

/// How the counters of a pool are found.
pub(crate) fn key_of(pool: &Pool, features: Features) -> (Str, Str) {
    let driver = if features.is_37() { pool.driver.clone() } else { Str::default() };
    (driver, pool.name.clone())
}

impl Counters {
    /// What is left of the counters of a pool, after all that its allocated devices consume. It may be negative.
    pub(crate) fn available(pool: &Pool, allocated: &Allocated) -> Self {
        let mut left = Counters::default();
        for CounterSet { name, counters } in pool.counter_sets() {
            left.0.insert(name.clone(), counters.iter().cloned().collect());
        }
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
        for one in consumed {
            let Some(set) = self.0.get_mut(&one.counter_set) else { continue };
            for (name, amount) in &one.counters {
                if let Some(counter) = set.get_mut(name) {
                    counter.sub(amount);
                }
            }
        }
    }

    /// Adds what a device consumes.
    pub(crate) fn add(&mut self, consumed: &[CounterConsumption]) {
        for one in consumed {
            let set = self.0.entry(one.counter_set.clone()).or_default();
            for (name, amount) in &one.counters {
                set.entry(name.clone()).or_default().add(amount);
            }
        }
    }

    /// Takes away what a device consumes.
    pub(crate) fn sub(&mut self, consumed: &[CounterConsumption]) {
        for one in consumed {
            let set = self.0.entry(one.counter_set.clone()).or_default();
            for (name, amount) in &one.counters {
                set.entry(name.clone()).or_default().sub(amount);
            }
        }
    }

    /// Whether each of these available counters is at least what is consumed.
    pub(crate) fn cover(&self, consumed: &Counters) -> bool {
        let zero = Quantity::default();
        self.0.iter().all(|(set, counters)| {
            let consumed = consumed.0.get(set);
            counters.iter().all(|(name, available)| {
                let consumed = consumed.and_then(|set| set.get(name)).unwrap_or(&zero);
                consumed <= available
            })
        })
    }
}
