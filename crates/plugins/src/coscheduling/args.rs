//! The args of Coscheduling, and which are valid.

use std::time::Duration;

use plimsoll_framework::prelude::*;
use serde::{Deserialize, Serialize};

/// `CoschedulingArgs` of `kubescheduler.config.k8s.io/v1`, as scheduler-plugins defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct CoschedulingArgs {
    #[serde(skip_serializing)]
    api_version: String,
    #[serde(skip_serializing)]
    kind: String,
    /// How many seconds a pod waits at Permit for its siblings, unless its group says so; 60 if not given. So long a group
    /// whose `minResources` were found is not checked again, too.
    pub permit_waiting_time_seconds: Option<i64>,
    /// For how many seconds a group that was rejected is not tried again; 0, which means that it is, if not given.
    pub pod_group_backoff_seconds: Option<i64>,
    /// A group is not rejected as long as at most so many percent of its `minMember` lack a node; 10 if not given.
    pub pod_group_reject_percentage: Option<i32>,
}

const AT_LEAST_0: &str = "must be greater than 0";

impl CoschedulingArgs {
    /// As in defaults.go, SetDefaults_CoschedulingArgs.
    pub(super) fn complete(&mut self) {
        self.permit_waiting_time_seconds.get_or_insert(60);
        self.pod_group_backoff_seconds.get_or_insert(0);
        self.pod_group_reject_percentage.get_or_insert(10);
    }

    /// As in validation_pluginargs.go, ValidateCoschedulingArgs. 0 is valid, whatever the texts say.
    pub(super) fn validate(&self, faults: &mut ArgsFaults) {
        let args = ArgsField::default();
        for (key, seconds) in [
            ("permitWaitingTimeSeconds", self.permit_waiting_time_seconds),
            ("podGroupBackoffSeconds", self.pod_group_backoff_seconds),
        ] {
            if let Some(seconds) = seconds.filter(|seconds| *seconds < 0) {
                faults.invalid(args.key(key), seconds, AT_LEAST_0);
            }
        }
        if let Some(percentage) = self.pod_group_reject_percentage
            && !(0..=100).contains(&percentage)
        {
            let field = args.key("podGroupRejectPercentage");
            faults.invalid(field, percentage, "must be between 0 and 100");
        }
    }

    /// How long a pod waits for its siblings.
    pub(super) fn permit_waiting_time(&self) -> Duration {
        seconds(self.permit_waiting_time_seconds)
    }

    /// For how long a group that was rejected is not tried again; zero if it is.
    pub(super) fn backoff(&self) -> Duration {
        seconds(self.pod_group_backoff_seconds)
    }

    /// The part of a group that may lack nodes without a rejection of the group.
    pub(super) fn tolerated_part(&self) -> f64 {
        f64::from(self.pod_group_reject_percentage.unwrap_or_default()) / 100.0
    }
}

fn seconds(given: Option<i64>) -> Duration {
    Duration::from_secs(given.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0))
}
