//! Devices as small numbers.

use hashbrown::HashMap;
use plimsoll_api::Str;
use rustc_hash::FxBuildHasher;

/// A device: its driver, pool and name, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub(crate) u32);

/// The numbers of devices. A number stays as long as this value, so it grows with the number of names that were ever
/// used; the [`Inventory`](crate::Inventory) and [`Allocated`](crate::Allocated) can be made anew with a new one.
#[derive(Clone, Debug, Default)]
pub struct DeviceIds {
    ids: HashMap<(Str, Str, Str), DeviceId, FxBuildHasher>,
}

impl DeviceIds {
    /// The number of a device.
    pub fn intern(&mut self, driver: &str, pool: &str, device: &str) -> DeviceId {
        let next = u32::try_from(self.ids.len()).expect("there are fewer than 2^32 devices");
        let name = (driver.into(), pool.into(), device.into());
        *self.ids.entry(name).or_insert(DeviceId(next))
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
