//! The fields of KubeSchedulerConfiguration, version `kubescheduler.config.k8s.io/v1`.
//!
//! As in staging/src/k8s.io/kube-scheduler/config/v1/types.go and component-base/config/v1alpha1. An absent field is
//! `None` if upstream distinguishes it from zero, and zero otherwise.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::catalogue::Point;
use plimsoll_framework::GoDuration;

/// The configuration of a scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct KubeSchedulerConfiguration {
    /// `kubescheduler.config.k8s.io/v1`.
    pub api_version: String,
    /// `KubeSchedulerConfiguration`.
    pub kind: String,
    /// How many goroutines upstream uses for one pod. Default 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    /// How replicas elect the active one.
    pub leader_election: LeaderElection,
    /// How the API server is reached.
    pub client_connection: ClientConnection,
    /// Whether profiles of the process are served. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_profiling: Option<bool>,
    /// Whether profiles of lock contention are served; only together with the former. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_contention_profiling: Option<bool>,
    /// The search ends when this percentage of the nodes has been found feasible; 0 adapts to the size of the cluster.
    /// If it is absent, all nodes are looked at. Profiles override it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The first backoff of an unschedulable pod, in seconds. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_initial_backoff_seconds: Option<i64>,
    /// The longest backoff of an unschedulable pod, in seconds. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_max_backoff_seconds: Option<i64>,
    /// The profiles. A pod chooses one by its `schedulerName`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    /// The extenders, shared by all profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extenders: Vec<Extender>,
    /// Whether a replica watches the cluster only once it is the leader.
    #[serde(skip_serializing_if = "is_false")]
    pub delay_cache_until_active: bool,
}

/// Leader election among replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct LeaderElection {
    /// Whether there is an election. Default true.
    pub leader_elect: Option<bool>,
    /// How long other replicas wait after the leader last renewed the lease. Default 15s.
    pub lease_duration: GoDuration,
    /// How long the leader tries to renew the lease before it gives up. Default 10s.
    pub renew_deadline: GoDuration,
    /// The pause between tries. Default 2s.
    pub retry_period: GoDuration,
    /// The kind of the lock: `leases`.
    pub resource_lock: String,
    /// The name of the lock. Default `kube-scheduler`.
    pub resource_name: String,
    /// The namespace of the lock. Default `kube-system`.
    pub resource_namespace: String,
}

/// How the API server is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct ClientConnection {
    /// The path of a kubeconfig; empty inside a cluster.
    pub kubeconfig: String,
    /// The `Accept` header.
    pub accept_content_types: String,
    /// The content type of requests.
    pub content_type: String,
    /// Requests a second. Default 50.
    #[serde(serialize_with = "short_number")]
    pub qps: f32,
    /// Requests that may exceed the rate for a moment. Default 100.
    pub burst: i32,
}

/// A set of plugins with a scheduler name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct Profile {
    /// The profile schedules the pods with this `schedulerName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Overrides the global one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The differences from the default plugins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Plugins>,
    /// Args of plugins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugin_config: Vec<PluginConfig>,
}

macro_rules! plugins {
    ($($point:ident: $set:ident),+; $($(#[$meta:meta])* $group_point:ident: $group_set:ident),+) => {
        /// The plugins to enable and to disable at each extension point.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
        #[expect(missing_docs, reason = "each field is the set of the extension point of its name")]
        pub struct Plugins {
            $(pub $set: PluginSet,)+
            pub multi_point: PluginSet,
            $($(#[$meta])* pub $group_set: PluginSet,)+
        }

        impl Plugins {
            /// The set of `point`.
            pub fn at(&self, point: Point) -> &PluginSet {
                match point {
                    $(Point::$point => &self.$set,)+
                    $(Point::$group_point => &self.$group_set,)+
                }
            }

            /// The set of `point`, to be changed.
            pub fn at_mut(&mut self, point: Point) -> &mut PluginSet {
                match point {
                    $(Point::$point => &mut self.$set,)+
                    $(Point::$group_point => &mut self.$group_set,)+
                }
            }
        }
    };
}

// The field of each point: serde takes the names from here, and the compiler checks that none is missing.
plugins! {
    PreEnqueue: pre_enqueue,
    QueueSort: queue_sort,
    PreFilter: pre_filter,
    Filter: filter,
    PostFilter: post_filter,
    PreScore: pre_score,
    Score: score,
    Reserve: reserve,
    Permit: permit,
    PreBind: pre_bind,
    Bind: bind,
    PostBind: post_bind;
    PlacementGenerate: placement_generate,
    PlacementScore: placement_score,
    // Only 1.37 has it, so that a configuration without it is one for both releases.
    #[serde(skip_serializing_if = "PluginSet::is_empty")]
    PodGroupPostFilter: pod_group_post_filter
}

/// Plugins to enable and to disable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct PluginSet {
    /// Plugins to enable in addition to the default ones, or with another weight.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<Plugin>,
    /// Default plugins to disable; `*` stands for all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<Plugin>,
}

impl PluginSet {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.enabled.is_empty() && self.disabled.is_empty()
    }
}

/// A plugin in a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct Plugin {
    /// Its name.
    pub name: String,
    /// Its weight among the scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// The args of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct PluginConfig {
    /// The name of the plugin.
    pub name: String,
    /// The args. The plugin's own type determines their form.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub args: Value,
}

/// A scheduler extender: a webhook that filters, ranks, preempts or binds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct Extender {
    /// Where it is.
    pub url_prefix: String,
    /// The verb for filtering; empty if it does not filter. The same holds for the other verbs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_verb: String,
    /// The verb for choosing victims.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempt_verb: String,
    /// The verb for ranking.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prioritize_verb: String,
    /// The factor of its scores; positive if it ranks.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// The verb for binding. Only one extender may bind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bind_verb: String,
    /// Whether to use TLS.
    #[serde(rename = "enableHTTPS", skip_serializing_if = "is_false")]
    pub enable_https: bool,
    /// The TLS settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<ExtenderTlsConfig>,
    /// How long a call may take. 0 means upstream's 5 seconds.
    pub http_timeout: GoDuration,
    /// Whether it caches the nodes itself, so that their names are enough.
    #[serde(skip_serializing_if = "is_false")]
    pub node_cache_capable: bool,
    /// If not empty, only pods that request one of these are sent to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ManagedResource>,
    /// Whether scheduling continues if it fails.
    #[serde(skip_serializing_if = "is_false")]
    pub ignorable: bool,
}

/// An extended resource that an extender manages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct ManagedResource {
    /// The name of the resource.
    pub name: String,
    /// Whether the scheduler ignores the resource and leaves it to the extender.
    #[serde(skip_serializing_if = "is_false")]
    pub ignored_by_scheduler: bool,
}

/// How an extender is reached by TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct ExtenderTlsConfig {
    /// Whether the certificate of the server is not checked.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// The name to check the certificate against; by default that of the host.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_name: String,
    /// The file of the client certificate.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_file: String,
    /// The file of the client key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_file: String,
    /// The file of the certificates to trust.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_file: String,
    /// The client certificate itself, which takes precedence over the file. The same holds for the next two fields.
    #[serde(skip_serializing_if = "Base64::is_empty")]
    pub cert_data: Base64,
    /// The client key itself.
    #[serde(skip_serializing_if = "Base64::is_empty")]
    pub key_data: Base64,
    /// The certificates to trust.
    #[serde(skip_serializing_if = "Base64::is_empty")]
    pub ca_data: Base64,
}

/// Bytes in base64, kept as written. They may be a key, so `Debug` does not show them.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
pub struct Base64(
    // Valid base64 with padding.
    String,
);

impl Base64 {
    /// The base64 text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Base64({} characters)", self.0.len())
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // As in encoding/base64, line breaks are allowed anywhere.
        let digits: Vec<_> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
        let padding = digits.iter().rev().take_while(|byte| **byte == b'=').count();
        let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        let is_valid = digits.len().is_multiple_of(4)
            && padding <= 2
            && digits[..digits.len() - padding].iter().all(is_digit);
        if is_valid { Ok(Self(text)) } else { Err(serde::de::Error::custom("illegal base64 data")) }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

/// Writes a number as Go does: without a fraction if it has none.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn short_number<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    match format!("{value}").parse::<i64>() {
        Ok(integer) => serializer.serialize_i64(integer),
        Err(_) => serializer.serialize_f32(*value),
    }
}
