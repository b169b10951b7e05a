//! Binding conditions: what drivers must report about devices before a pod is bound.

use std::time::Duration;

use plimsoll_api::Timestamp;
use plimsoll_api::devices::{DeviceResult, DeviceStatus};
use plimsoll_framework::prelude::*;

/// What the drivers say about the devices of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Conditions {
    /// There are no devices with conditions, or all that must be true are.
    Met,
    /// Some are yet to be reported.
    Awaited,
    /// A condition says that the device cannot be used.
    Failed {
        /// Why.
        reason: Str,
        /// Why, for people.
        message: Str,
    },
}

/// As in dynamicresources.go, hasBindingConditions.
pub(super) fn has_conditions(claim: &ResourceClaim) -> bool {
    let mut devices = claim.allocation.iter().flat_map(|one| &one.devices);
    devices.any(|device| !device.binding_conditions.is_empty())
}

/// What is known of the conditions of a claim. As in dynamicresources.go, isClaimReadyForBinding: the first device that is not
/// ready decides, so a failure after it is not seen yet.
pub(super) fn conditions_of(claim: &ResourceClaim) -> Conditions {
    let Some(allocation) = &claim.allocation else { return Conditions::Met };
    for device in allocation.devices.iter().filter(|one| !one.binding_conditions.is_empty()) {
        let Some(status) = claim.devices.iter().find(|status| is_about(status, device)) else {
            return Conditions::Awaited;
        };
        let condition = |name: &Str| status.conditions.iter().find(|one| one.name == *name);
        let is_true = |name: &Str| condition(name).is_some_and(|one| one.is_true);
        if let Some(failed) = device.binding_failure_conditions.iter().find(|one| is_true(one)) {
            let failed = condition(failed).expect("it is true");
            let (reason, message) = (failed.reason.clone(), failed.message.clone());
            return Conditions::Failed { reason, message };
        }
        if !device.binding_conditions.iter().all(is_true) {
            return Conditions::Awaited;
        }
    }
    Conditions::Met
}

fn is_about(status: &DeviceStatus, device: &DeviceResult) -> bool {
    (&status.driver, &status.pool, &status.device) == (&device.driver, &device.pool, &device.device)
}

/// Whether a claim with conditions has waited too long. As in dynamicresources.go, isClaimTimeout.
pub(super) fn is_timed_out(claim: &ResourceClaim, timeout: Duration, now: Time) -> bool {
    let since = claim.allocation.as_ref().and_then(|one| one.timestamp);
    has_conditions(claim) && since.is_some_and(|since| time_of(since) + timeout < now)
}

/// A time of the API as the scheduler has it.
fn time_of(timestamp: Timestamp) -> Time {
    Time::from_millis(timestamp.as_millisecond())
}
