//! Pools of devices, as they are from one node.

use std::sync::Arc;

use plimsoll_api::Str;
use plimsoll_api::devices::{
    CounterConsumption, CounterSet, Device, DeviceNodes, DeviceTaint, ResourceSlice,
};

use crate::{DeviceId, Features, NodeRef};

/// A slice with the numbers of its devices.
#[derive(Debug)]
pub(crate) struct IndexedSlice {
    pub(crate) slice: Arc<ResourceSlice>,
    pub(crate) ids: Vec<DeviceId>,
    /// Another number after each change.
    pub(crate) stamp: u64,
    /// Taints that rules add: the index of the device, and the taint.
    pub(crate) rule_taints: Vec<(usize, DeviceTaint)>,
}

impl IndexedSlice {
    pub(crate) fn has_counters(&self) -> bool {
        !self.slice.shared_counters.is_empty()
    }

    fn has_bindings(&self) -> bool {
        self.slice.devices.iter().any(|device| !device.binding_conditions.is_empty())
    }

    /// Whether some device consumes counters.
    pub(crate) fn consumes(&self) -> bool {
        self.slice.devices.iter().any(|device| !device.consumes_counters.is_empty())
    }

    /// The taints of a device: its own, then those of rules.
    pub(crate) fn taints(&self, index: usize) -> impl Iterator<Item = &DeviceTaint> {
        let added = self.rule_taints.iter().filter(move |(at, _)| *at == index);
        self.slice.devices[index].taints.iter().chain(added.map(|(_, taint)| taint))
    }
}

/// Whether the devices of a pool can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolState {
    /// All its slices are there.
    Complete,
    /// Some slices are missing: its driver is updating it.
    Incomplete,
    /// It contradicts itself.
    Invalid,
}

/// A pool as it is from one node.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) driver: Str,
    pub(crate) name: Str,
    pub(crate) state: PoolState,
    /// The slices with devices that target the node, by name. Empty unless the pool is complete.
    pub(crate) slices: Vec<Arc<IndexedSlice>>,
    /// Other slices whose devices consume counters.
    pub(crate) elsewhere: Vec<Arc<IndexedSlice>>,
    counters: Vec<Arc<IndexedSlice>>,
    has_bindings: bool,
}

/// All slices of a pool, without regard to nodes.
#[derive(Clone, Debug)]
pub(crate) struct WholePool {
    /// The highest generation.
    pub(crate) newest: i64,
    /// How many slices each generation has.
    pub(crate) counts: Vec<(i64, i64)>,
    /// The slices whose devices consume counters.
    pub(crate) consumers: Vec<Arc<IndexedSlice>>,
    /// The slices with counters.
    pub(crate) counters: Vec<Arc<IndexedSlice>>,
}

impl WholePool {
    pub(crate) fn of<'a>(slices: impl Iterator<Item = &'a Arc<IndexedSlice>>) -> Self {
        let (mut newest, mut counts, mut consumers) = (i64::MIN, Vec::new(), Vec::new());
        let mut counters = Vec::new();
        for slice in slices {
            let generation = slice.slice.generation;
            newest = newest.max(generation);
            match counts.iter_mut().find(|(known, _)| *known == generation) {
                Some((_, count)) => *count += 1,
                None => counts.push((generation, 1)),
            }
            if slice.consumes() {
                consumers.push(slice.clone());
            }
            if slice.has_counters() {
                counters.push(slice.clone());
            }
        }
        WholePool { newest, counts, consumers, counters }
    }

    fn count(&self, generation: i64) -> i64 {
        let found = self.counts.iter().find(|(known, _)| *known == generation);
        found.map_or(0, |(_, count)| *count)
    }
}

impl Pool {
    /// The pool from a node for which these slices are relevant. `None` if there are none, or if a newer generation
    /// exists elsewhere. As in pools_incubating.go, GatherPools.
    pub(crate) fn gather<'a>(
        features: Features,
        whole: &WholePool,
        relevant: impl Iterator<Item = &'a Arc<IndexedSlice>>,
    ) -> Option<Self> {
        let mut newest: Vec<Arc<IndexedSlice>> = Vec::new();
        for slice in relevant {
            let generation = slice.slice.generation;
            match newest.first().map(|first| first.slice.generation) {
                Some(first) if generation < first => continue,
                Some(first) if first < generation => newest.clear(),
                _ => {}
            }
            newest.push(slice.clone());
        }
        let first = &newest.first()?.slice;
        let (generation, expected) = (first.generation, first.slice_count);
        let (driver, name) = (first.driver.clone(), first.pool.clone());
        let without_devices = |state| Pool {
            driver: driver.clone(),
            name: name.clone(),
            state,
            slices: Vec::new(),
            elsewhere: Vec::new(),
            counters: Vec::new(),
            has_bindings: false,
        };
        let is_whole = i64::try_from(newest.len()) == Ok(expected);
        if !is_whole {
            if generation < whole.newest {
                return None;
            }
            if whole.count(generation) != expected {
                return Some(without_devices(PoolState::Incomplete));
            }
        }
        newest.sort_by(|one, other| one.slice.name.cmp(&other.slice.name));
        let mut elsewhere = Vec::new();
        if !is_whole && features.partitionable_devices {
            let is_here =
                |one: &IndexedSlice| newest.iter().any(|here| here.slice.name == one.slice.name);
            let consumers = whole.consumers.iter();
            let others =
                consumers.filter(|one| one.slice.generation == generation && !is_here(one));
            elsewhere.extend(others.cloned());
        }
        let (mut counters, slices): (Vec<_>, Vec<_>) =
            newest.into_iter().partition(|one| one.has_counters());
        if features.is_37() && features.partitionable_devices {
            // Wherever they are, they count for the devices that are reached.
            let all = whole.counters.iter();
            counters = all.filter(|one| one.slice.generation == generation).cloned().collect();
        }
        let mut pool = without_devices(PoolState::Complete);
        pool.slices = slices;
        pool.elsewhere = elsewhere;
        pool.counters = counters;
        if !pool.is_valid(features) {
            return Some(without_devices(PoolState::Invalid));
        }
        pool.has_bindings = pool.slices.iter().any(|slice| slice.has_bindings());
        Some(pool)
    }

    /// Pools without binding conditions come first, then the driver and the name decide.
    pub(crate) fn order(&self) -> (bool, &str, &str) {
        (self.has_bindings, &self.driver, &self.name)
    }

    /// All slices on which its counters depend.
    pub(crate) fn all_slices(&self) -> impl Iterator<Item = &Arc<IndexedSlice>> {
        self.slices.iter().chain(&self.elsewhere).chain(&self.counters)
    }

    pub(crate) fn counter_sets(&self) -> impl Iterator<Item = &CounterSet> {
        self.counters.iter().flat_map(|slice| &slice.slice.shared_counters)
    }

    fn is_valid(&self, features: Features) -> bool {
        let mut names: Vec<DeviceId> =
            self.slices.iter().flat_map(|slice| slice.ids.iter().copied()).collect();
        let n_devices = names.len();
        names.sort_unstable();
        names.dedup();
        if names.len() != n_devices {
            return false;
        }
        if !features.partitionable_devices {
            return true;
        }
        let mut sets: Vec<&str> = self.counter_sets().map(|set| set.name.as_str()).collect();
        let n_sets = sets.len();
        sets.sort_unstable();
        sets.dedup();
        let slices = self.slices.iter().chain(&self.elsewhere);
        let mut consumed = slices.flat_map(|slice| &slice.slice.devices).flat_map(consumptions);
        sets.len() == n_sets && consumed.all(|one| self.has(one))
    }

    /// Whether the counters exist from which a device consumes.
    fn has(&self, consumed: &CounterConsumption) -> bool {
        let mut sets = self.counter_sets();
        let Some(set) = sets.find(|set| set.name == consumed.counter_set) else { return false };
        consumed
            .counters
            .iter()
            .all(|(name, _)| set.counters.iter().any(|(known, _)| known == name))
    }
}

fn consumptions(device: &Device) -> &[CounterConsumption] {
    &device.consumes_counters
}

/// Whether devices can be reached from a node. The error is that of a selector which does not parse. As in
/// pools_incubating.go, nodeMatches.
pub(crate) fn reaches(nodes: &DeviceNodes, node: NodeRef<'_>) -> Result<bool, String> {
    match nodes {
        DeviceNodes::Node(name) => Ok(name == node.name),
        DeviceNodes::All => Ok(true),
        DeviceNodes::Selected(selector) => selector
            .matches(node.name, node.labels)
            .map_err(|error| format!("failed to parse node selector {selector}: {error}")),
        DeviceNodes::PerDevice | DeviceNodes::Unknown => Ok(false),
    }
}
