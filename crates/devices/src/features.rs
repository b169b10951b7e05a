//! The feature gates that change allocations.

use plimsoll_api::Release;

/// The feature gates that change allocations, and the release whose decisions are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a feature gate")]
pub struct Features {
    /// `DRAPrioritizedList`: requests may have alternatives.
    pub prioritized_list: bool,
    /// `DRAPartitionableDevices`: devices may consume shared counters, and say on their own from which nodes they can be
    /// reached.
    pub partitionable_devices: bool,
    /// `DRADeviceTaints`: taints keep devices from requests that do not tolerate them.
    pub device_taints: bool,
    /// `DRADeviceBindingConditions` and `DRAResourceClaimDeviceStatus`: devices may have binding conditions.
    pub binding_conditions: bool,
    /// `DRAConsumableCapacity`: requests may ask for capacity, and claims may share devices.
    pub consumable_capacity: bool,
    /// `DRAFractionalCapacityRange`: ranges of capacity may have fractions.
    pub fractional_capacity: bool,
    /// The release.
    pub release: Release,
}

impl Features {
    /// The defaults of a release.
    pub fn of(release: Release) -> Self {
        Features {
            prioritized_list: true,
            partitionable_devices: true,
            device_taints: true,
            binding_conditions: true,
            consumable_capacity: true,
            fractional_capacity: Release::V1_36 < release,
            release,
        }
    }

    /// Whether the release is 1.37 or newer.
    pub(crate) fn is_37(self) -> bool {
        Release::V1_36 < self.release
    }
}
