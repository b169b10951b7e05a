//! The devices that drivers publish, by node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use plimsoll_api::devices::{
    DeviceNodeSelector, DeviceNodes, DeviceTaint, DeviceTaintRule, ResourceSlice,
};
use plimsoll_api::{MemoCell, Str};
use rustc_hash::FxBuildHasher;

use crate::pool::{IndexedSlice, Pool, PoolState, WholePool, reaches};
use crate::{AllocateError, DeviceIds, DeviceRef, Features, NodeRef};

/// Driver and name.
type PoolKey = (Str, Str);

/// The slices of drivers, arranged so that the pools of a node are found at once.
///
/// Changes are recorded when they come, and take effect with [`Inventory::settle`]. Its cost is in proportion to the
/// pools that have changed. A pool whose slices name their nodes, or are for all nodes, is prepared for each node. One
/// whose slices or devices select nodes by their labels is judged when devices are allocated.
#[derive(Clone, Debug)]
pub struct Inventory {
    features: Features,
    rules: Vec<DeviceTaintRule>,
    stamp: u64,
    /// The last stamp that was given. Copies share it: they may change in different ways, and what is remembered of devices by
    /// their numbers and stamps is shared, too.
    last_stamp: Arc<MemoCell<u64>>,
    slices: BTreeMap<Str, Arc<IndexedSlice>>,
    by_pool: BTreeMap<PoolKey, PoolSlices>,
    changed: BTreeSet<PoolKey>,

    /// The prepared pools of the nodes that some slice names, in order.
    on_node: HashMap<Str, Vec<Arc<Pool>>, FxBuildHasher>,
    /// The same pools from nodes that no slice of the pool names, if that matters there.
    elsewhere: BTreeMap<PoolKey, Arc<Pool>>,
    /// Pools whose slices or devices select nodes by labels.
    selecting: BTreeMap<PoolKey, SelectingPool>,
    /// How many pools name a node.
    named: HashMap<Str, usize, FxBuildHasher>,
    /// Pools whose devices select nodes one by one.
    per_device: BTreeSet<PoolKey>,
    /// What the slices of the selecting pools select, with how many slices there are of each.
    selected: Vec<(DeviceNodeSelector, usize)>,
    /// The pools with counters, by their names without the driver.
    with_counters: BTreeMap<Str, BTreeSet<Str>>,
    /// The pools of nodes that no slice names, as far as they were asked for.
    gathered: Gathered,
}

/// Pools by what selects a node, for nodes that no slice names: all nodes of one reach have the same ones.
#[derive(Debug, Default)]
struct Gathered(MemoCell<PoolsBySelection>);

type PoolsBySelection = HashMap<u64, Arc<[Arc<Pool>]>, FxBuildHasher>;

/// Beyond this many ways in which nodes are selected, and beyond this many pools in all of them, all are gathered anew: some
/// 8 MiB.
const MOST_GATHERED: usize = 256;
const MOST_POOLS_GATHERED: usize = 1 << 20;

/// A copy knows nothing yet: it may change in another way.
impl Clone for Gathered {
    fn clone(&self) -> Self {
        Gathered::default()
    }
}

/// The slices of a pool, by name, and the nodes that they name.
#[derive(Clone, Debug, Default)]
struct PoolSlices {
    slices: BTreeMap<Str, Arc<IndexedSlice>>,
    nodes: BTreeSet<Str>,
}

/// The pools that nodes reach, apart from those that are for all nodes. Nodes of one reach get the same devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reach<'a> {
    /// The name of the node, if slices name it.
    pub own: Option<&'a str>,
    /// Which of the node selectors of slices match, one bit for each.
    pub selected: u64,
}

/// A pool whose slices or devices select nodes by labels.
#[derive(Clone, Debug)]
struct SelectingPool {
    whole: WholePool,
    on_node: BTreeMap<Str, Vec<Arc<IndexedSlice>>>,
    others: Vec<Arc<IndexedSlice>>,
}

impl Inventory {
    /// No slices.
    pub fn new(features: Features) -> Self {
        Inventory {
            features,
            rules: Vec::new(),
            stamp: 0,
            last_stamp: Arc::default(),
            slices: BTreeMap::new(),
            by_pool: BTreeMap::new(),
            changed: BTreeSet::new(),
            on_node: HashMap::default(),
            elsewhere: BTreeMap::new(),
            selecting: BTreeMap::new(),
            named: HashMap::default(),
            per_device: BTreeSet::new(),
            selected: Vec::new(),
            with_counters: BTreeMap::new(),
            gathered: Gathered::default(),
        }
    }

    /// A slice is there, or has changed.
    pub fn set(&mut self, ids: &mut DeviceIds, slice: Arc<ResourceSlice>) {
        self.remove(ids, &slice.name);
        let key = (slice.driver.clone(), slice.pool.clone());
        let names = slice.devices.iter();
        let indexed = IndexedSlice {
            ids: names.map(|one| ids.take(&key.0, &key.1, &one.name)).collect(),
            stamp: self.next_stamp(),
            rule_taints: rule_taints(&self.rules, &slice),
            slice,
        };
        self.put(key, Arc::new(indexed));
    }

    /// A slice is gone.
    pub fn remove(&mut self, ids: &mut DeviceIds, name: &str) {
        let Some(slice) = self.slices.remove(name) else { return };
        self.next_stamp();
        let key = (slice.slice.driver.clone(), slice.slice.pool.clone());
        for device in &slice.slice.devices {
            ids.give_back(&key.0, &key.1, &device.name);
        }
        if let Some(pool) = self.by_pool.get_mut(&key) {
            pool.slices.remove(name);
        }
        self.changed.insert(key);
    }

    /// These are the rules that taint devices, and no others. They count only if the feature gate `DRADeviceTaintRules`
    /// is on, and that is for the caller to check.
    pub fn set_rules(&mut self, mut rules: Vec<DeviceTaintRule>) {
        rules.sort_by(|one, other| one.name.cmp(&other.name));
        self.rules = rules;
        let slices: Vec<Arc<IndexedSlice>> = self.slices.values().cloned().collect();
        for old in slices {
            let rule_taints = rule_taints(&self.rules, &old.slice);
            if rule_taints == old.rule_taints {
                continue;
            }
            let key = (old.slice.driver.clone(), old.slice.pool.clone());
            let slice = old.slice.clone();
            let stamp = self.next_stamp();
            let tainted = IndexedSlice { slice, ids: old.ids.clone(), stamp, rule_taints };
            self.put(key, Arc::new(tainted));
        }
    }

    /// Arranges the pools that have changed.
    pub fn settle(&mut self) {
        if !self.changed.is_empty() {
            self.gathered = Gathered::default();
        }
        for key in std::mem::take(&mut self.changed) {
            let Some(mut pool) = self.by_pool.remove(&key) else { continue };
            self.forget(&key, &pool.nodes);
            pool.nodes.clear();
            if !pool.slices.is_empty() {
                self.arrange(&key, &mut pool);
                self.by_pool.insert(key, pool);
            }
        }
    }

    /// The feature gates.
    pub fn features(&self) -> Features {
        self.features
    }

    /// A number that is another one after each change of a slice or of what taints its devices.
    pub fn revision(&self) -> u64 {
        self.stamp
    }

    /// All slices, by name, with their devices.
    pub fn slices(
        &self,
    ) -> impl Iterator<Item = (&ResourceSlice, impl Iterator<Item = DeviceRef<'_>>)> {
        self.slices.values().map(|slice| {
            let devices =
                slice.slice.devices.iter().zip(&slice.ids).map(|(device, id)| DeviceRef {
                    id: *id,
                    stamp: slice.stamp,
                    driver: &slice.slice.driver,
                    pool: &slice.slice.pool,
                    device,
                });
            (&*slice.slice, devices)
        })
    }

    /// All devices that can be reached from a node, of any generation and also of incomplete pools: for scores. Those
    /// whose node selector does not parse are left out.
    pub fn reachable<'a>(&'a self, node: NodeRef<'a>) -> impl Iterator<Item = DeviceRef<'a>> {
        self.slices.values().flat_map(move |slice| {
            let is_per_device = slice.slice.nodes == DeviceNodes::PerDevice;
            let is_reached = is_per_device || reaches(&slice.slice.nodes, node) == Ok(true);
            let devices = slice.slice.devices.iter().zip(&slice.ids).filter(move |(device, _)| {
                is_reached && (!is_per_device || reaches(&device.nodes, node) == Ok(true))
            });
            devices.map(|(device, id)| DeviceRef {
                id: *id,
                stamp: slice.stamp,
                driver: &slice.slice.driver,
                pool: &slice.slice.pool,
                device,
            })
        })
    }

    /// The pools that a node reaches. `None` if that cannot be told: devices select nodes one by one, slices select them
    /// in more than 64 ways, or what is found on one node depends on those that were asked before (see
    /// [`CycleMemory`](crate::CycleMemory)).
    pub fn reach<'n>(&self, node: NodeRef<'n>) -> Option<Reach<'n>> {
        let depends =
            !self.features.is_37() && self.with_counters.values().any(|drivers| 1 < drivers.len());
        if depends {
            return None;
        }
        let own = self.named.contains_key(node.name).then_some(node.name);
        Some(Reach { own, selected: self.selected(node)? })
    }

    /// Which of the node selectors of slices match a node, one bit for each. `None` if that is not all that counts.
    fn selected(&self, node: NodeRef<'_>) -> Option<u64> {
        if !self.per_device.is_empty() || 64 < self.selected.len() {
            return None;
        }
        let mut selected = 0;
        for (at, (selector, _)) in self.selected.iter().enumerate() {
            selected |= u64::from(selector.matches(node.name, node.labels).ok()?) << at;
        }
        Some(selected)
    }

    /// The nodes that a pool names, and whether it matters to others, too.
    pub fn reached_from(&self, driver: &Str, pool: &Str) -> (impl Iterator<Item = &Str>, bool) {
        let key = (driver.clone(), pool.clone());
        let named = self.by_pool.get(&key).into_iter().flat_map(|pool| &pool.nodes);
        let for_others = self.elsewhere.contains_key(&key)
            || self.selecting.contains_key(&key)
            || self.per_device.contains(&key);
        (named, for_others)
    }

    /// Whether all changes have taken effect.
    pub(crate) fn is_settled(&self) -> bool {
        self.changed.is_empty()
    }

    /// The pools that matter to a node, in the order of the search. They are added to `found` unless they are prepared.
    pub(crate) fn pools<'a>(
        &'a self,
        node: NodeRef<'_>,
        found: &'a mut Vec<Arc<Pool>>,
    ) -> Result<&'a [Arc<Pool>], AllocateError> {
        let prepared = self.on_node.get(node.name).map(Vec::as_slice).unwrap_or_default();
        if self.elsewhere.is_empty() && self.selecting.is_empty() {
            return Ok(prepared);
        }
        found.clear();
        let is_named = self.named.contains_key(node.name);
        let selected = if is_named { None } else { self.selected(node) };
        if let Some(selected) = selected
            && let Some(gathered) = self.gathered.0.open().get(&selected)
        {
            found.extend_from_slice(gathered);
            return Ok(found);
        }
        found.extend_from_slice(prepared);
        let names_node =
            |key| self.by_pool.get(key).is_some_and(|pool| pool.nodes.contains(node.name));
        let others = self.elsewhere.iter().filter(|(key, _)| !names_node(key));
        found.extend(others.map(|(_, pool)| pool.clone()));
        for pool in self.selecting.values() {
            let pool = pool.gather(self.features, node).map_err(AllocateError::Failed)?;
            found.extend(pool.map(Arc::new));
        }
        found.sort_by(|one, other| one.order().cmp(&other.order()));
        if let Some(selected) = selected {
            let mut gathered = self.gathered.0.open();
            let n_pools: usize = gathered.values().map(|pools| pools.len()).sum();
            if MOST_GATHERED <= gathered.len() || MOST_POOLS_GATHERED <= n_pools {
                gathered.clear();
            }
            gathered.insert(selected, found.as_slice().into());
        }
        Ok(found)
    }

    fn put(&mut self, key: PoolKey, slice: Arc<IndexedSlice>) {
        let name = slice.slice.name.clone();
        self.slices.insert(name.clone(), slice.clone());
        self.by_pool.entry(key.clone()).or_default().slices.insert(name, slice);
        self.changed.insert(key);
    }

    fn next_stamp(&mut self) -> u64 {
        let mut last = self.last_stamp.open();
        *last += 1;
        self.stamp = *last;
        self.stamp
    }

    /// Drops what is prepared of a pool.
    fn forget(&mut self, key: &PoolKey, nodes: &BTreeSet<Str>) {
        self.elsewhere.remove(key);
        if let Some(pool) = self.selecting.remove(key) {
            for selector in pool.selectors() {
                if let Some(at) = self.selected.iter().position(|(known, _)| known == selector) {
                    self.selected[at].1 -= 1;
                    if self.selected[at].1 == 0 {
                        self.selected.remove(at);
                    }
                }
            }
        }
        self.per_device.remove(key);
        if let Some(drivers) = self.with_counters.get_mut(&key.1) {
            drivers.remove(&key.0);
            if drivers.is_empty() {
                self.with_counters.remove(&key.1);
            }
        }
        for node in nodes {
            if let Some(n) = self.named.get_mut(node) {
                *n -= 1;
                if *n == 0 {
                    self.named.remove(node);
                }
            }
            let Some(pools) = self.on_node.get_mut(node) else { continue };
            pools.retain(|pool| (&pool.driver, &pool.name) != (&key.0, &key.1));
            if pools.is_empty() {
                self.on_node.remove(node);
            }
        }
    }

    /// Prepares a pool for its nodes.
    fn arrange(&mut self, key: &PoolKey, pool: &mut PoolSlices) {
        let features = self.features;
        let whole = WholePool::of(pool.slices.values());
        let mut on_node: BTreeMap<Str, Vec<Arc<IndexedSlice>>> = BTreeMap::new();
        let mut others = Vec::new();
        for slice in pool.slices.values().filter(|slice| counts(features, slice)) {
            match &slice.slice.nodes {
                DeviceNodes::Node(node) if !is_for_all(features, slice) => {
                    on_node.entry(node.clone()).or_default().push(slice.clone());
                }
                _ => others.push(slice.clone()),
            }
        }
        if pool.slices.values().any(|slice| slice.has_counters()) {
            self.with_counters.entry(key.1.clone()).or_default().insert(key.0.clone());
        }
        if others.iter().any(|slice| slice.slice.nodes == DeviceNodes::PerDevice) {
            self.per_device.insert(key.clone());
        }
        if others.iter().any(|slice| selects(features, slice)) {
            for node in on_node.keys() {
                *self.named.entry(node.clone()).or_default() += 1;
                pool.nodes.insert(node.clone());
            }
            let pool = SelectingPool { whole, on_node, others };
            for selector in pool.selectors() {
                match self.selected.iter_mut().find(|(known, _)| known == selector) {
                    Some((_, n)) => *n += 1,
                    None => self.selected.push((selector.clone(), 1)),
                }
            }
            self.selecting.insert(key.clone(), pool);
            return;
        }
        others.retain(|slice| is_for_all(features, slice) || slice.slice.nodes == DeviceNodes::All);
        for (node, own) in on_node {
            let gathered = Pool::gather(features, &whole, own.iter().chain(&others));
            if let Some(gathered) = gathered.map(Arc::new) {
                let pools = self.on_node.entry(node.clone()).or_default();
                let at = pools.partition_point(|known| known.order() < gathered.order());
                pools.insert(at, gathered);
            }
            *self.named.entry(node.clone()).or_default() += 1;
            pool.nodes.insert(node);
        }
        let gathered = Pool::gather(features, &whole, others.iter());
        // A complete pool without devices makes no difference.
        let matters = |pool: &Pool| pool.state != PoolState::Complete || !pool.slices.is_empty();
        if let Some(gathered) = gathered.filter(matters) {
            self.elsewhere.insert(key.clone(), Arc::new(gathered));
        }
    }
}

impl SelectingPool {
    /// The node selectors of its slices.
    fn selectors(&self) -> impl Iterator<Item = &DeviceNodeSelector> {
        self.others.iter().filter_map(|slice| match &slice.slice.nodes {
            DeviceNodes::Selected(selector) => Some(&**selector),
            _ => None,
        })
    }

    /// The pool from a node; the error is that of a selector which does not parse.
    fn gather(&self, features: Features, node: NodeRef<'_>) -> Result<Option<Pool>, String> {
        let own = self.on_node.get(node.name).map(Vec::as_slice).unwrap_or_default();
        let mut relevant: Vec<&Arc<IndexedSlice>> = own.iter().collect();
        for slice in &self.others {
            if is_relevant(features, slice, node)
                .map_err(|error| format!("gather pool information: {error}"))?
            {
                relevant.push(slice);
            }
        }
        Ok(Pool::gather(features, &self.whole, relevant.into_iter()))
    }
}

/// Whether the feature gates let a slice count. As in pools_incubating.go, GatherPools.
fn counts(features: Features, slice: &IndexedSlice) -> bool {
    features.partitionable_devices
        || slice.slice.nodes != DeviceNodes::PerDevice && !slice.has_counters()
}

/// Whether a slice matters to all nodes, whatever it selects. In 1.36 slices with counters do.
fn is_for_all(features: Features, slice: &IndexedSlice) -> bool {
    slice.has_counters() && !features.is_37()
}

/// Whether the labels of nodes decide about a slice.
fn selects(features: Features, slice: &IndexedSlice) -> bool {
    let is_by_labels =
        matches!(slice.slice.nodes, DeviceNodes::Selected(_) | DeviceNodes::PerDevice);
    is_by_labels && !is_for_all(features, slice)
}

/// Whether a slice that names no node matters to a node.
fn is_relevant(
    features: Features,
    slice: &IndexedSlice,
    node: NodeRef<'_>,
) -> Result<bool, String> {
    if is_for_all(features, slice) {
        return Ok(true);
    }
    let ResourceSlice { name, nodes, devices, .. } = &*slice.slice;
    let failed = |what: &str, error| {
        format!("failed to perform node selection for {what}slice {name}: {error}")
    };
    if *nodes != DeviceNodes::PerDevice {
        return reaches(nodes, node).map_err(|error| failed("", error));
    }
    for device in devices {
        let of_device = || format!("device {} in ", device.name);
        if reaches(&device.nodes, node).map_err(|error| failed(&of_device(), error))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn rule_taints(rules: &[DeviceTaintRule], slice: &ResourceSlice) -> Vec<(usize, DeviceTaint)> {
    let mut taints = Vec::new();
    for rule in rules {
        for (index, device) in slice.devices.iter().enumerate() {
            if rule.applies_to(&slice.driver, &slice.pool, &device.name) {
                taints.push((index, rule.taint.clone()));
            }
        }
    }
    taints
}

#[cfg(test)]
mod tests {
    use plimsoll_api::devices::{Device, DeviceNodeTerm, WrittenRequirement};
    use plimsoll_api::{Labels, Release};

    use super::*;
    use crate::DeviceId;

    /// A slice of a pool of its own, for nodes of a rack.
    fn slice(name: &str, rack: &str) -> Arc<ResourceSlice> {
        let requirement = WrittenRequirement {
            key: "rack".into(),
            operator: "In".into(),
            values: vec![rack.into()],
        };
        let term = DeviceNodeTerm { expressions: vec![requirement], fields: Vec::new() };
        Arc::new(ResourceSlice {
            name: name.into(),
            driver: "d".into(),
            pool: name.into(),
            generation: 1,
            slice_count: 1,
            nodes: DeviceNodes::Selected(Box::new(DeviceNodeSelector::of(vec![term]))),
            devices: vec![Device::default()],
            ..ResourceSlice::default()
        })
    }

    #[test]
    fn pools_that_are_gathered_once_follow_the_slices() {
        let (mut ids, mut inventory) =
            (DeviceIds::default(), Inventory::new(Features::of(Release::V1_36)));
        inventory.set(&mut ids, slice("a", "r1"));
        inventory.settle();
        let names = |inventory: &Inventory, node: &str, rack: &str| -> Vec<String> {
            let labels: Labels = [("rack", rack)].into_iter().collect();
            let mut found = Vec::new();
            let node = NodeRef { name: node, labels: &labels };
            let pools = inventory.pools(node, &mut found).expect("selectors parse");
            pools.iter().map(|pool| pool.name.to_string()).collect()
        };
        assert_eq!(names(&inventory, "n", "r1"), ["a"]);
        assert_eq!(names(&inventory, "n", "r2"), [""; 0]);
        // Another node of the same rack reaches the same.
        assert_eq!(names(&inventory, "m", "r1"), ["a"]);
        inventory.set(&mut ids, slice("b", "r1"));
        inventory.set(&mut ids, slice("c", "r2"));
        inventory.settle();
        assert_eq!(names(&inventory, "n", "r1"), ["a", "b"]);
        assert_eq!(names(&inventory, "n", "r2"), ["c"]);
        inventory.remove(&mut ids, "a");
        inventory.settle();
        assert_eq!(names(&inventory, "m", "r1"), ["b"]);
    }

    #[test]
    fn copies_that_change_in_different_ways_have_different_stamps() {
        let (mut ids, mut one) =
            (DeviceIds::default(), Inventory::new(Features::of(Release::V1_36)));
        one.set(&mut ids, slice("a", "r1"));
        let mut other = one.clone();
        one.set(&mut ids.clone(), slice("b", "r1"));
        other.set(&mut ids.clone(), slice("c", "r1"));
        assert_ne!(one.revision(), other.revision());
        let stamps = |inventory: &Inventory| -> Vec<(DeviceId, u64)> {
            let devices = inventory.slices().flat_map(|(_, devices)| devices);
            devices.map(|device| (device.id, device.stamp)).collect()
        };
        let [one, other] = [&one, &other].map(stamps);
        assert_eq!(one[0], other[0]);
        assert_ne!(one[1], other[1]);
    }
}
