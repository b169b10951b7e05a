//! What claims hold of the devices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::devices::Allocation;
use plimsoll_api::{Quantity, Str};

use crate::capacity::Amounts;
use crate::counters::KeptCounters;
use crate::ids::DeviceSet;
use crate::{DeviceId, DeviceIds, Features};

/// The devices that claims hold. Allocations are added and removed one by one; those in flight are added by the caller
/// like any other.
///
/// As in allocateddevices.go, the devices are a set: if two claims hold the same device and one of them goes away, the
/// device counts as free. Devices for monitoring do not count.
///
/// So they depend on the order in which claims have changed, and not only on the claims that there are. Whoever undoes a change of
/// a claim [puts them back](Self::put_back).
#[derive(Clone, Debug)]
pub struct Allocated {
    features: Features,
    held: Arc<Held>,
    /// The copies of what was held, of this value or of a clone.
    copies: Arc<Copies>,
    /// What is left of the counters of pools.
    pub(crate) counters: KeptCounters,
}

/// The devices that claims hold at some time. A copy is cheap until one of the two changes: then all of it is copied.
/// So in a transaction, which keeps a copy for each change of a claim, such a change costs the more the more devices are held.
/// As long as there is one, the numbers of devices [are not forgotten](DeviceIds::forget_unused).
#[derive(Clone, Debug)]
pub struct HeldDevices {
    held: Arc<Held>,
    _copy: Arc<()>,
}

/// Each [`HeldDevices`] that there is has another `Arc` of this one.
#[derive(Debug, Default)]
struct Copies(Arc<()>);

#[derive(Clone, Debug, Default)]
struct Held {
    exclusive: DeviceSet,
    shares: BTreeMap<DeviceId, BTreeSet<Str>>,
    capacity: BTreeMap<DeviceId, Amounts>,
}

impl Allocated {
    /// No device is held.
    pub fn new(features: Features) -> Self {
        let (held, copies, counters) = <(Arc<Held>, Arc<Copies>, KeptCounters)>::default();
        Allocated { features, held, copies, counters }
    }

    /// The devices that are held now.
    pub fn held(&self) -> HeldDevices {
        HeldDevices { held: self.held.clone(), _copy: self.copies.0.clone() }
    }

    /// The devices that were held before changes that were undone, claim by claim, are held again.
    pub fn put_back(&mut self, held: &HeldDevices) {
        self.held = held.held.clone();
    }

    /// A claim has got this allocation.
    pub fn add(&mut self, ids: &mut DeviceIds, allocation: &Allocation) {
        let held = Arc::make_mut(&mut self.held);
        for device in allocation.devices.iter().filter(|device| !device.is_admin()) {
            self.counters.changed(&device.driver, &device.pool);
            let id = ids.take(&device.driver, &device.pool, &device.device);
            match &device.share_id {
                Some(share) if self.features.consumable_capacity => {
                    held.shares.entry(id).or_default().insert(share.clone());
                    if !device.consumed_capacity.is_empty() {
                        add_amounts(
                            held.capacity.entry(id).or_default(),
                            &device.consumed_capacity,
                        );
                    }
                }
                _ => held.exclusive.insert(id),
            }
        }
    }

    /// A claim has lost this allocation.
    pub fn remove(&mut self, ids: &mut DeviceIds, allocation: &Allocation) {
        let held = Arc::make_mut(&mut self.held);
        for device in allocation.devices.iter().filter(|device| !device.is_admin()) {
            self.counters.changed(&device.driver, &device.pool);
            let name = (&device.driver, &device.pool, &device.device);
            let Some(id) = ids.give_back(name.0, name.1, name.2) else { continue };
            match &device.share_id {
                Some(share) if self.features.consumable_capacity => {
                    if let Some(shares) = held.shares.get_mut(&id) {
                        shares.remove(share);
                        if shares.is_empty() {
                            held.shares.remove(&id);
                        }
                    }
                    if let Some(amounts) = held.capacity.get_mut(&id) {
                        sub_amounts(amounts, &device.consumed_capacity);
                        if amounts.iter().all(|(_, amount)| amount.is_zero()) {
                            held.capacity.remove(&id);
                        }
                    }
                }
                _ => held.exclusive.remove(id),
            }
        }
    }

    /// Whether devices that were held at some time can be put back.
    pub(crate) fn may_be_put_back(&self) -> bool {
        1 < Arc::strong_count(&self.copies.0)
    }

    /// Whether a claim holds the device for itself.
    pub fn is_exclusive(&self, id: DeviceId) -> bool {
        self.held.exclusive.contains(id)
    }

    /// Whether any claim holds the device, or a share of it.
    pub fn is_allocated(&self, id: DeviceId) -> bool {
        self.is_exclusive(id) || self.is_shared(id) || self.held.capacity.contains_key(&id)
    }

    /// Whether any claim holds a share of the device.
    pub(crate) fn is_shared(&self, id: DeviceId) -> bool {
        self.held.shares.contains_key(&id)
    }

    /// What shares consume of the capacities of the device, sorted by name. `None` if nothing is consumed.
    pub fn consumed(&self, id: DeviceId) -> Option<&[(Str, Quantity)]> {
        self.held.capacity.get(&id).map(Vec::as_slice)
    }
}

/// Adds amounts, by name.
pub(crate) fn add_amounts(amounts: &mut Amounts, more: &[(Str, Quantity)]) {
    for (name, amount) in more {
        match amounts.binary_search_by(|(known, _)| known.cmp(name)) {
            Ok(at) => amounts[at].1.add(amount),
            Err(at) => amounts.insert(at, (name.clone(), amount.clone())),
        }
    }
}

/// Takes amounts away, by name.
pub(crate) fn sub_amounts(amounts: &mut Amounts, less: &[(Str, Quantity)]) {
    for (name, amount) in less {
        if let Ok(at) = amounts.binary_search_by(|(known, _)| known.cmp(name)) {
            amounts[at].1.sub(amount);
        }
    }
}
