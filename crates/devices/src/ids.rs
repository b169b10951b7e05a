//! Devices as small numbers.

use hashbrown::{Equivalent, HashMap};
use plimsoll_api::Str;
use rustc_hash::FxBuildHasher;

use crate::{Allocated, Inventory};

/// A device: its driver, pool and name, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub(crate) u32);

/// The numbers of devices, as long as a slice or an allocation has them. Each counts as one use of the number.
///
/// A number without a use stays with its device until it is [forgotten](Self::forget_unused), and then another device can get
/// it. So there are at most as many numbers as devices were in use at one time.
#[derive(Clone, Debug, Default)]
pub struct DeviceIds {
    named: HashMap<DeviceName, Named, FxBuildHasher>,
    /// The names whose numbers have lost their last use. Some have got one again.
    unused: Vec<DeviceName>,
    /// The numbers that no device has any more.
    free: Vec<DeviceId>,
}

/// Driver, pool and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DeviceName(Str, Str, Str);

/// The same, to look for.
#[derive(PartialEq, Eq, Hash)]
struct NameRef<'a>(&'a str, &'a str, &'a str);

#[derive(Clone, Copy, Debug)]
struct Named {
    id: DeviceId,
    n_uses: usize,
}

impl Equivalent<DeviceName> for NameRef<'_> {
    fn equivalent(&self, DeviceName(driver, pool, device): &DeviceName) -> bool {
        (self.0, self.1, self.2) == (driver.as_str(), pool.as_str(), device.as_str())
    }
}

impl DeviceIds {
    /// The number of a device, with one use more.
    pub fn take(&mut self, driver: &str, pool: &str, device: &str) -> DeviceId {
        if let Some(named) = self.named.get_mut(&NameRef(driver, pool, device)) {
            named.n_uses += 1;
            return named.id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            // None is free, so all below have names.
            let next = u32::try_from(self.named.len());
            DeviceId(next.expect("there are fewer than 2^32 devices"))
        });
        let name = DeviceName(driver.into(), pool.into(), device.into());
        self.named.insert(name, Named { id, n_uses: 1 });
        id
    }

    /// The number of a device, with one use less. `None` if it has none.
    pub fn give_back(&mut self, driver: &str, pool: &str, device: &str) -> Option<DeviceId> {
        let named = self.named.get_mut(&NameRef(driver, pool, device))?;
        named.n_uses = named.n_uses.checked_sub(1)?;
        if named.n_uses == 0 {
            self.unused.push(DeviceName(driver.into(), pool.into(), device.into()));
        }
        Some(named.id)
    }

    /// Forgets the devices that nothing uses, so that others can get their numbers. Nothing is forgotten as long as pools still
    /// have them, since the inventory is not [settled](Inventory::settle), or what was [held](Allocated::held) before may be put
    /// back.
    pub fn forget_unused(&mut self, inventory: &Inventory, allocated: &Allocated) {
        if !inventory.is_settled() || allocated.may_be_put_back() {
            return;
        }
        for name in self.unused.drain(..) {
            if self.named.get(&name).is_some_and(|named| named.n_uses == 0) {
                self.free.extend(self.named.remove(&name).map(|named| named.id));
            }
        }
    }

    /// The number of a device, if it has one.
    pub fn get(&self, driver: &str, pool: &str, device: &str) -> Option<DeviceId> {
        Some(self.named.get(&NameRef(driver, pool, device))?.id)
    }

    /// How many devices have a number.
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Whether no device has one.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }
}

/// A set of devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceSet(Vec<u64>);

impl DeviceSet {
    pub(crate) fn insert(&mut self, id: DeviceId) {
        let (word, bit) = place(id);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }

    pub(crate) fn remove(&mut self, id: DeviceId) {
        let (word, bit) = place(id);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    pub(crate) fn contains(&self, id: DeviceId) -> bool {
        let (word, bit) = place(id);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }
}

fn place(DeviceId(id): DeviceId) -> (usize, u64) {
    ((id / u64::BITS) as usize, 1 << (id % u64::BITS))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_api::devices::{Allocation, Device, DeviceResult, ResourceSlice};
    use plimsoll_api::{Release, Str};

    use super::*;
    use crate::Features;

    /// Everything that has the numbers of devices.
    struct Cluster {
        ids: DeviceIds,
        inventory: Inventory,
        allocated: Allocated,
    }

    impl Cluster {
        fn new() -> Self {
            let features = Features::of(Release::V1_36);
            let (inventory, allocated) = (Inventory::new(features), Allocated::new(features));
            Cluster { ids: DeviceIds::default(), inventory, allocated }
        }

        /// The slice has this device only.
        fn publish(&mut self, device: &str) {
            let device = Device { name: device.into(), ..Device::default() };
            let (name, devices) = (Str::from("slice"), vec![device]);
            let slice = ResourceSlice {
                name,
                driver: "d".into(),
                pool: "p".into(),
                devices,
                ..ResourceSlice::default()
            };
            self.inventory.set(&mut self.ids, Arc::new(slice));
            self.settle();
        }

        fn settle(&mut self) {
            self.inventory.settle();
            self.ids.forget_unused(&self.inventory, &self.allocated);
        }

        fn id(&self, device: &str) -> Option<DeviceId> {
            self.ids.get("d", "p", device)
        }
    }

    fn allocation(device: &str) -> Allocation {
        let device = DeviceResult {
            driver: "d".into(),
            pool: "p".into(),
            device: device.into(),
            ..DeviceResult::default()
        };
        Allocation { devices: vec![device], ..Allocation::default() }
    }

    #[test]
    fn devices_under_ever_new_names_get_the_numbers_of_those_that_are_gone() {
        let mut all = Cluster::new();
        for number in 0..1000_usize {
            let (device, before) = (format!("d{number}"), format!("d{}", number.saturating_sub(1)));
            all.publish(&device);
            // Its claim lasts longer than its slice.
            all.allocated.add(&mut all.ids, &allocation(&device));
            if 0 < number {
                assert!(all.id(&before).is_some(), "a claim holds {before}");
                all.allocated.remove(&mut all.ids, &allocation(&before));
                all.settle();
                assert_eq!(all.id(&before), None);
            }
            assert!(all.ids.len() <= 2 && all.id(&device) < Some(DeviceId(3)), "{:?}", all.ids);
            assert!(all.allocated.is_exclusive(all.id(&device).expect("it is published")));
        }
        all.inventory.remove(&mut all.ids, "slice");
        all.allocated.remove(&mut all.ids, &allocation("d999"));
        all.settle();
        assert!(all.ids.is_empty());
    }

    #[test]
    fn a_number_is_not_given_to_another_device_as_long_as_pools_have_it() {
        let mut all = Cluster::new();
        all.publish("a");
        let a = all.id("a");
        all.inventory.remove(&mut all.ids, "slice");
        all.ids.forget_unused(&all.inventory, &all.allocated);
        assert!(a.is_some() && all.id("a") == a, "the pools are not settled");
        all.settle();
        assert_eq!(all.id("a"), None);
    }

    #[test]
    fn a_device_has_its_number_when_what_was_held_is_put_back() {
        let mut all = Cluster::new();
        all.allocated.add(&mut all.ids, &allocation("a"));
        let (a, before) = (all.id("a"), all.allocated.held());
        all.allocated.remove(&mut all.ids, &allocation("a"));
        all.settle();
        all.publish("b");
        // It is undone, in another copy.
        let mut copy = all.allocated.clone();
        copy.add(&mut all.ids, &allocation("a"));
        copy.put_back(&before);
        drop(before);
        all.allocated = copy;
        all.settle();
        assert_eq!(all.id("a"), a);
        let [a, b] = ["a", "b"].map(|device| all.id(device).expect("it is in use"));
        assert!(all.allocated.is_exclusive(a) && !all.allocated.is_exclusive(b));
        // Nothing can be put back any more.
        all.allocated.remove(&mut all.ids, &allocation("a"));
        all.settle();
        assert_eq!(all.id("a"), None);
    }

    #[test]
    fn what_was_never_taken_cannot_be_given_back() {
        let mut ids = DeviceIds::default();
        assert_eq!(ids.give_back("d", "p", "a"), None);
        let a = ids.take("d", "p", "a");
        assert_eq!(ids.give_back("d", "p", "a"), Some(a));
        assert_eq!(ids.give_back("d", "p", "a"), None);
    }
}
