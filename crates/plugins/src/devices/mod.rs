//! What is derived from claims, slices and classes: which devices there are, which of them claims hold, and for which
//! extended resources classes stand. Every plugin that reads devices shares it.

mod attempts;
mod counted_devices;
mod extended_resources;
mod selector_fault;
mod selector_results;
mod sizes;
mod sound;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::devices::{Allocation, DeviceTaintRule};
use plimsoll_api::requests::RequestGates;
use plimsoll_api::{AnyVersions, Derived, MemoCell, ObjectStores};
use plimsoll_devices::{Allocated, DeviceIds, Features, HeldDevices, Inventory};
use plimsoll_framework::prelude::*;

use self::attempts::ReachVersions;
pub(crate) use self::attempts::{Attempts, ListId, Outcome};
pub(crate) use self::counted_devices::CountedDevices;
pub(crate) use self::extended_resources::ExtendedResources;
pub use self::selector_fault::selector_fault;
pub(crate) use self::selector_results::SelectorResults;
pub(crate) use self::sound::SoundSelectors;

/// The kinds from which [`Devices`] is derived.
pub(crate) type DeviceKinds =
    ((Objects<ResourceClaim>, Objects<ResourceSlice>), (Objects<DeviceClass>, TaintRules));

/// The taints that administrators add to devices. They are read only with the gate `DRADeviceTaintRules`.
pub(crate) type TaintRules = Objects<DeviceTaintRule>;

/// The feature gates about devices, as a plugin keeps them.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a gate of its own")]
pub(crate) struct DeviceGates {
    pub(crate) features: Features,
    /// `DRAExtendedResource`.
    pub(crate) extended_resources: bool,
    /// `DRADeviceTaintRules`.
    pub(crate) taint_rules: bool,
    /// `DRANodeAllocatableResources`.
    pub(crate) node_allocatable: bool,
    /// `DRAWorkloadResourceClaims`: the pods of a group can share claims of the group.
    pub(crate) group_claims: bool,
    /// A claim is no longer reserved for a group once none of its pods is on a node. Since 1.37.
    pub(crate) groups_release_claims: bool,
    /// Expressions see attributes that are lists. 1.36 asks `DRAListTypeAttributes`, later releases always do.
    pub(crate) list_attributes: bool,
    /// The gates that decide how requests are added up.
    pub(crate) requests: RequestGates,
}

impl DeviceGates {
    pub(crate) fn of(gates: &FeatureGates) -> Self {
        let release = gates.release();
        let is_on = |name: &str| gates.enabled(name, true);
        let features = Features {
            prioritized_list: is_on("DRAPrioritizedList"),
            partitionable_devices: is_on("DRAPartitionableDevices"),
            device_taints: is_on("DRADeviceTaints"),
            binding_conditions: is_on("DRADeviceBindingConditions")
                && is_on("DRAResourceClaimDeviceStatus"),
            consumable_capacity: is_on("DRAConsumableCapacity"),
            fractional_capacity: gates
                .enabled("DRAFractionalCapacityRange", Release::V1_37 <= release),
            ..Features::of(release)
        };
        let group_claims = gates.enabled("GenericWorkload", false)
            && gates.enabled("DRAWorkloadResourceClaims", false);
        DeviceGates {
            features,
            extended_resources: is_on("DRAExtendedResource"),
            taint_rules: features.device_taints
                && gates.enabled("DRADeviceTaintRules", Release::V1_37 <= release),
            node_allocatable: gates.enabled("DRANodeAllocatableResources", false),
            group_claims,
            groups_release_claims: group_claims && Release::V1_37 <= release,
            list_attributes: Release::V1_37 <= release
                || gates.enabled("DRAListTypeAttributes", false),
            requests: gates.requests(),
        }
    }

    /// The devices of the cluster.
    pub(crate) fn devices(&self, objects: &ObjectStores) -> Arc<Devices> {
        objects.derived(|objects| Devices::of(*self, objects))
    }
}

/// The devices of the cluster, and who holds them.
#[derive(Clone, Debug)]
pub(crate) struct Devices {
    gates: DeviceGates,
    ids: DeviceIds,
    /// The devices that drivers publish.
    pub(crate) inventory: Inventory,
    /// The devices that claims hold.
    pub(crate) allocated: Allocated,
    /// The classes that stand for extended resources.
    pub(crate) extended: ExtendedResources,
    rules: BTreeMap<Str, DeviceTaintRule>,
    /// The versions of what nodes reach, of slices and of what claims hold.
    pub(crate) versions: ReachVersions,
    /// How attempts to allocate devices have ended. It is derived from the devices of a version, so all copies share it.
    pub(crate) attempts: Arc<MemoCell<Attempts>>,
    /// What selectors said about devices. It is derived from the devices alone, so all copies share it.
    pub(crate) selectors: Arc<MemoCell<SelectorResults>>,
    /// Which selectors fail for no device; derived likewise.
    pub(crate) sound: Arc<MemoCell<SoundSelectors>>,
    /// The same as `selectors` for scores, in which `device.allowMultipleAllocations` is always false.
    pub(crate) score_selectors: Arc<MemoCell<SelectorResults>>,
}

impl Devices {
    fn of(gates: DeviceGates, objects: &ObjectStores) -> Self {
        let mut devices = Devices {
            gates,
            ids: DeviceIds::default(),
            inventory: Inventory::new(gates.features),
            allocated: Allocated::new(gates.features),
            extended: ExtendedResources::default(),
            rules: BTreeMap::new(),
            versions: ReachVersions::default(),
            attempts: Arc::default(),
            selectors: Arc::new(MemoCell::new(SelectorResults::new(&gates))),
            sound: Arc::default(),
            score_selectors: Arc::new(MemoCell::new(SelectorResults::for_scores(&gates))),
        };
        for rule in objects.of::<DeviceTaintRule>().iter() {
            devices.rules.insert(rule.name.clone(), DeviceTaintRule::clone(rule));
        }
        devices.rules_changed();
        for slice in objects.of::<ResourceSlice>().iter() {
            devices.inventory.set(&mut devices.ids, slice.clone());
        }
        devices.inventory.settle();
        for claim in objects.of::<ResourceClaim>().iter() {
            devices.claim_changed(None, Some(claim));
        }
        for class in objects.of::<DeviceClass>().iter() {
            devices.extended.change(None, Some(class));
        }
        devices
    }

    /// As in allocateddevices.go. There only whether a claim has an allocation counts, since one cannot be replaced. But
    /// between two states that are seen it can have ended, and the claim of another pod can have the same name.
    fn claim_changed(&mut self, before: Option<&ResourceClaim>, after: Option<&ResourceClaim>) {
        let before = before.and_then(|claim| claim.allocation.as_ref());
        let after = after.and_then(|claim| claim.allocation.as_ref());
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.allocated.remove(&mut self.ids, before);
            self.allocation_changed(before);
        }
        if let Some(after) = after {
            self.allocated.add(&mut self.ids, after);
            self.allocation_changed(after);
        }
        self.ids.forget_unused(&self.inventory, &self.allocated);
    }

    fn allocation_changed(&mut self, allocation: &Allocation) {
        for device in &allocation.devices {
            self.versions.pool_changed(&self.inventory, &device.driver, &device.pool);
        }
    }

    /// Changes slices. What nodes reached before is another version, and so is what they reach then.
    fn slice_changed(&mut self, before: Option<&ResourceSlice>, after: Option<Arc<ResourceSlice>>) {
        let pools = before.into_iter().chain(after.as_deref());
        let pools: Vec<(Str, Str)> =
            pools.map(|slice| (slice.driver.clone(), slice.pool.clone())).collect();
        for (driver, pool) in &pools {
            self.versions.pool_changed(&self.inventory, driver, pool);
        }
        match (before, after) {
            (_, Some(slice)) => self.inventory.set(&mut self.ids, slice),
            (Some(gone), None) => self.inventory.remove(&mut self.ids, &gone.name),
            (None, None) => {}
        }
        self.inventory.settle();
        self.ids.forget_unused(&self.inventory, &self.allocated);
        for (driver, pool) in &pools {
            self.versions.pool_changed(&self.inventory, driver, pool);
        }
    }

    fn rules_changed(&mut self) {
        if self.gates.taint_rules {
            self.inventory.set_rules(self.rules.values().cloned().collect());
        }
    }
}

impl Derived for Devices {
    fn change(&mut self, change: &AnyVersions) {
        if let Some(claim) = change.of::<ResourceClaim>() {
            self.claim_changed(claim.before.as_deref(), claim.after.as_deref());
        } else if let Some(slice) = change.of::<ResourceSlice>() {
            self.slice_changed(slice.before.as_deref(), slice.after);
        } else if let Some(class) = change.of::<DeviceClass>() {
            self.extended.change(class.before.as_ref(), class.after.as_ref());
            self.versions.all_changed();
        } else if let Some(rule) = change.of::<DeviceTaintRule>() {
            match (rule.before, rule.after) {
                (_, Some(rule)) => {
                    self.rules.insert(rule.name.clone(), DeviceTaintRule::clone(&rule));
                }
                (Some(gone), None) => _ = self.rules.remove(&gone.name),
                (None, None) => {}
            }
            self.rules_changed();
            self.inventory.settle();
            self.versions.all_changed();
        }
    }

    /// Which of two classes stands for an extended resource depends on the order in which they came and changed, and so does
    /// whether a device is held that several claims have.
    fn history(&self, kind: KindRef) -> Option<Box<dyn Any + Send + Sync>> {
        if kind.is::<ResourceClaim>() {
            return Some(Box::new(self.allocated.held()));
        }
        kind.is::<DeviceClass>().then(|| Box::new(self.extended.clone()) as Box<_>)
    }

    fn restore(&mut self, history: &(dyn Any + Send + Sync)) {
        if let Some(extended) = history.downcast_ref::<ExtendedResources>() {
            self.extended = extended.clone();
            self.versions.all_changed();
        }
        // That the pools have changed is known since the claim was put back.
        if let Some(held) = history.downcast_ref::<HeldDevices>() {
            self.allocated.put_back(held);
        }
    }
}
