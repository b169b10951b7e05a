//! What is allocated for a claim.

use serde::{Deserialize, Serialize};

use super::{DeviceNodeSelector, DeviceToleration, OpaqueConfig};
use crate::{Quantity, Str, Timestamp};

/// What is allocated for a claim (`status.allocation`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The devices, in the order in which they were picked.
    pub devices: Vec<DeviceResult>,
    /// The configurations of the classes, then of the claim.
    pub config: Vec<AllocationConfig>,
    /// The nodes on which the devices can be used; `None` for all.
    pub node_selector: Option<DeviceNodeSelector>,
    /// When it was allocated.
    #[serde(with = "crate::timestamp")]
    pub timestamp: Option<Timestamp>,
}

impl Allocation {
    /// Gives an id to each share of a device that has none yet. An allocator is pure and leaves the ids empty, because
    /// they must be unique.
    pub fn name_shares(&mut self, mut id: impl FnMut() -> Str) {
        for device in &mut self.devices {
            if let Some(share) = device.share_id.as_mut().filter(|share| share.is_empty()) {
                *share = id();
            }
        }
    }
}

/// A device that is allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceResult {
    /// The request, as `REQUEST` or `REQUEST/SUBREQUEST`.
    pub request: Str,
    /// The driver.
    pub driver: Str,
    /// The pool.
    pub pool: Str,
    /// The name of the device.
    pub device: Str,
    /// Whether it is for monitoring. Such a device stays available. `None` if not given.
    pub admin_access: Option<bool>,
    /// The tolerations of the request.
    pub tolerations: Vec<DeviceToleration>,
    /// The conditions that must be true before a pod is bound.
    pub binding_conditions: Vec<Str>,
    /// The conditions of which none may be true then.
    pub binding_failure_conditions: Vec<Str>,
    /// The id of the share of a device that several claims can share; empty before [`Allocation::name_shares`]. `None`
    /// if the claim has the device for itself.
    pub share_id: Option<Str>,
    /// What the share consumes of the capacities of the device, sorted by name.
    pub consumed_capacity: Vec<(Str, Quantity)>,
}

impl DeviceResult {
    /// Whether the device is only monitored.
    pub fn is_admin(&self) -> bool {
        self.admin_access == Some(true)
    }
}

/// A configuration of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationConfig {
    /// Where it comes from.
    pub source: ConfigSource,
    /// The requests that it is for; empty for all.
    pub requests: Vec<Str>,
    /// The configuration; `None` for one of an unknown kind.
    pub opaque: Option<OpaqueConfig>,
}

/// Where a configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigSource {
    /// From a class.
    Class,
    /// From the claim.
    Claim,
    /// A word of a later release.
    Other(Str),
}

impl ConfigSource {
    /// The word Kubernetes uses for it.
    pub fn as_str(&self) -> &str {
        match self {
            ConfigSource::Class => "FromClass",
            ConfigSource::Claim => "FromClaim",
            ConfigSource::Other(word) => word,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shares_without_an_id_get_one() {
        let device = |share_id: Option<&str>| DeviceResult {
            share_id: share_id.map(Str::from),
            ..DeviceResult::default()
        };
        let mut allocation = Allocation {
            devices: vec![device(None), device(Some("")), device(Some("a")), device(Some(""))],
            ..Allocation::default()
        };
        let mut made = 0;
        allocation.name_shares(|| {
            made += 1;
            Str::from(made.to_string())
        });
        let ids: Vec<_> = allocation.devices.iter().map(|one| one.share_id.as_deref()).collect();
        assert_eq!(ids, [None, Some("1"), Some("a"), Some("2")]);
    }
}
