//! The drivers of devices: they report the conditions without which a pod is not bound.

use plimsoll_api::devices::{DeviceCondition, DeviceResult, DeviceStatus};
use plimsoll_api::{ObjectKey, ResourceClaim, Str};

use super::objects::{ClaimObjects, next};

/// Devices that their drivers prepare for a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preparation {
    claim: ObjectKey,
    uid: Str,
    /// Whether the drivers succeed.
    pub(crate) succeeds: bool,
}

impl Preparation {
    /// What the drivers have to do now that a claim is so; nothing if they had to do it `before`.
    pub(crate) fn of(before: Option<&ResourceClaim>, claim: &ResourceClaim) -> Option<Self> {
        let was_allocated = before.is_some_and(|before| before.allocation.is_some());
        let mut devices = claim.allocation.iter().flat_map(|allocation| &allocation.devices);
        let waits = devices.any(|device| !device.binding_conditions.is_empty());
        (waits && !was_allocated && claim.devices.is_empty()).then(|| Preparation {
            claim: claim.key.clone(),
            uid: claim.uid.clone(),
            succeeds: true,
        })
    }

    /// The claim with what the drivers report; `None` if it is not wanted any more.
    pub(crate) fn done(&self, claims: &ClaimObjects) -> Option<ResourceClaim> {
        let claim = claims.get(&self.claim).filter(|claim| claim.uid == self.uid)?;
        let reports = |device: &&DeviceResult| !device.binding_conditions.is_empty();
        let devices = claim.allocation.as_ref()?.devices.iter().filter(reports);
        let devices: Vec<DeviceStatus> = devices.map(|device| self.report(device)).collect();
        Some(next(ResourceClaim { devices, ..claim.clone() }))
    }

    fn report(&self, device: &DeviceResult) -> DeviceStatus {
        let names = match self.succeeds {
            true => &device.binding_conditions,
            false => &device.binding_failure_conditions,
        };
        let condition = |name: &Str| DeviceCondition {
            name: name.clone(),
            is_true: true,
            ..DeviceCondition::default()
        };
        DeviceStatus {
            driver: device.driver.clone(),
            pool: device.pool.clone(),
            device: device.device.clone(),
            conditions: names.iter().map(condition).collect(),
        }
    }
}
