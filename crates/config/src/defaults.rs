//! The defaults of a configuration.
//!
//! As in pkg/scheduler/apis/config/v1/defaults.go and component-base/config/v1alpha1/defaults.go. Default plugins are
//! merged in `multipoint`; the defaults of args are in `args`.

use crate::types::{ClientConnection, KubeSchedulerConfiguration, LeaderElection, Profile};
use crate::version::GROUP_VERSION;
use plimsoll_framework::GoDuration;

/// The profile of pods that name no scheduler.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

impl KubeSchedulerConfiguration {
    /// Sets every absent field, except plugins, their args, and `percentageOfNodesToScore`: if that is absent, all nodes
    /// are looked at, and no number says so for every profile.
    pub fn set_defaults(&mut self) {
        GROUP_VERSION.clone_into(&mut self.api_version);
        "KubeSchedulerConfiguration".clone_into(&mut self.kind);
        self.parallelism.get_or_insert(16);
        self.pod_initial_backoff_seconds.get_or_insert(1);
        self.pod_max_backoff_seconds.get_or_insert(10);
        let profiling = *self.enable_profiling.get_or_insert(true);
        self.enable_contention_profiling.get_or_insert(profiling);
        set_leader_election(&mut self.leader_election);
        set_client_connection(&mut self.client_connection);
        if self.profiles.is_empty() {
            self.profiles.push(Profile::default());
        }
        // If there are several, each must be named: a default would hide that one is not.
        if let [profile] = self.profiles.as_mut_slice() {
            profile.scheduler_name.get_or_insert_with(|| DEFAULT_SCHEDULER.to_owned());
        }
    }
}

fn set_leader_election(election: &mut LeaderElection) {
    election.leader_elect.get_or_insert(true);
    set_if_zero(&mut election.lease_duration, GoDuration::from_seconds(15));
    set_if_zero(&mut election.renew_deadline, GoDuration::from_seconds(10));
    set_if_zero(&mut election.retry_period, GoDuration::from_seconds(2));
    set_if_zero(&mut election.resource_lock, "leases".to_owned());
    set_if_zero(&mut election.resource_name, "kube-scheduler".to_owned());
    set_if_zero(&mut election.resource_namespace, "kube-system".to_owned());
}

fn set_client_connection(connection: &mut ClientConnection) {
    let protobuf = "application/vnd.kubernetes.protobuf".to_owned();
    set_if_zero(&mut connection.content_type, protobuf);
    set_if_zero(&mut connection.qps, 50.0);
    set_if_zero(&mut connection.burst, 100);
}

fn set_if_zero<T: Default + PartialEq>(field: &mut T, default: T) {
    if *field == T::default() {
        *field = default;
    }
}
