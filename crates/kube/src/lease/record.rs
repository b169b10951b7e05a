//! The content of a Lease.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

use crate::wire_time::micros;

/// The fields of the `spec` of a Lease that an election reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeaseRecord {
    pub(super) holder_identity: Option<String>,
    pub(super) lease_duration_seconds: Option<i32>,
    pub(super) acquire_time: Option<String>,
    pub(super) renew_time: Option<String>,
    pub(super) lease_transitions: Option<i32>,
}

impl LeaseRecord {
    /// A record in which `holder` leads since `now`, for `duration`.
    pub(super) fn new(holder: &str, duration: Duration, now: Timestamp) -> Self {
        let seconds = i32::try_from(duration.as_secs()).unwrap_or(i32::MAX);
        LeaseRecord {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            acquire_time: Some(micros(now)),
            renew_time: Some(micros(now)),
            lease_transitions: Some(0),
        }
    }

    /// The leader; empty if there is none.
    pub(super) fn holder(&self) -> &str {
        self.holder_identity.as_deref().unwrap_or_default()
    }

    /// How long others must wait.
    pub(super) fn duration(&self) -> Duration {
        let seconds = self.lease_duration_seconds.unwrap_or_default();
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    }

    /// How often the leader changed.
    pub(super) fn transitions(&self) -> i32 {
        self.lease_transitions.unwrap_or_default()
    }
}
