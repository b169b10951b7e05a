//! The metrics of the plugin. kube-scheduler has the same.

use std::collections::BTreeSet;

use plimsoll_framework::metrics::{Buckets, Counter, Histogram};
use plimsoll_framework::prelude::*;

/// How often a claim for extended resources was created, or was not.
pub(super) static CREATES: Counter<1> = Counter::upstream(
    "scheduler_resourceclaim_creates_total",
    &["status"],
    "Number of ResourceClaims creation requests within scheduler",
);

/// How the waits for binding conditions ended, by profile, driver and status.
pub(super) static CONDITIONS: Counter<3> = Counter::upstream(
    "scheduler_dra_bindingconditions_allocations_total",
    &["profile", "driver", "status"],
    "Number of device allocations that waited for binding conditions, by their result",
);

/// How long these waits took.
pub(super) static CONDITIONS_WAIT: Histogram<3> = Histogram::upstream(
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    &["profile", "driver", "status"],
    Buckets { start: 0.1, factor: 2.0, count: 14 },
    "Time spent waiting for binding conditions of devices, by the result",
);

/// How a wait for binding conditions ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionsOutcome {
    /// All are met.
    Success,
    /// A device cannot be used.
    Failed,
    /// They were not met in time.
    Timeout,
    /// The wait was given up for another reason, such as a deleted claim.
    Error,
}

impl ConditionsOutcome {
    fn as_str(self) -> &'static str {
        match self {
            ConditionsOutcome::Success => "success",
            ConditionsOutcome::Failed => "failed",
            ConditionsOutcome::Timeout => "timeout",
            ConditionsOutcome::Error => "error",
        }
    }
}

/// Counts a wait that began at `since`, once for each driver.
pub(super) fn count_conditions(
    outcome: ConditionsOutcome,
    since: Time,
    drivers: &BTreeSet<Str>,
    pod: &PodInfo,
    handle: &mut Handle<'_>,
) {
    let seconds = handle.now.since(since).as_secs_f64();
    for driver in drivers {
        let labels = [pod.scheduler_name.as_str(), driver.as_str(), outcome.as_str()];
        handle.metrics.add(&CONDITIONS, labels, 1);
        handle.metrics.observe(&CONDITIONS_WAIT, labels, seconds);
    }
}
