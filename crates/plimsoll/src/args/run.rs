//! `plimsoll run`: the flags of kube-scheduler.
#![expect(clippy::struct_field_names, reason = "fields are named as the flags are")]

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgAction, ValueHint};
use plimsoll_config::GoDuration;
use plimsoll_framework::Release;

use super::emulation::emulated_version;
use super::{JournalFlags, Ranking, Record, ReservationFlags};
use crate::canary::CanaryFlags;
use crate::commands::ReloadFlag;
use crate::deprecated::Deprecated;

const EXAMPLES: &str = "\
Examples:
  # Inside a cluster, with the default profile
  plimsoll run

  # Outside a cluster, for pods whose schedulerName is `plimsoll`
  plimsoll run --kubeconfig ~/.kube/config --config beside.yaml --leader-elect=false

  # Show the configuration with all defaults
  plimsoll run --config scheduler.yaml --write-config-to effective.yaml

Exit status: 0 after a signal to stop; 1 after an error or when the lease was lost; 2 when the \
command line is wrong.";

/// Schedule the pods of a cluster, in kube-scheduler's place
///
/// Takes the flags and the configuration of kube-scheduler 1.37, and those of earlier releases. Underscores in flags
/// count as dashes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) main: Main,
    #[command(flatten)]
    pub(crate) serving: Serving,
    #[command(flatten)]
    pub(crate) authentication: Authentication,
    #[command(flatten)]
    pub(crate) authorization: Authorization,
    #[command(flatten)]
    pub(crate) election: Election,
    #[command(flatten)]
    pub(crate) gates: Gates,
    #[command(flatten)]
    pub(crate) logs: Logs,
    #[command(flatten)]
    pub(crate) record: Record,
    #[command(flatten)]
    pub(crate) journal: JournalFlags,
    #[command(flatten)]
    pub(crate) client: Client,
    #[command(flatten)]
    pub(crate) deprecated: Deprecated,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Main {
    /// A KubeSchedulerConfiguration or a scheduler Policy; without it, the default profile decides
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// Write the configuration with all defaults to this file, and exit
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) write_config_to: Option<PathBuf>,

    /// The address of the API server, instead of the one in the kubeconfig
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,

    /// How long an unschedulable pod may wait for an event before it is tried again anyway
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    pub(crate) pod_max_in_unschedulable_pods_duration: GoDuration,

    /// How long writes in progress may take after a signal to stop
    #[arg(long, value_name = "DURATION", default_value = "20s")]
    pub(crate) shutdown_grace_period: GoDuration,

    /// If the engine makes no progress for this long, `/livez` fails, the lease is released and the process exits; 0
    /// for never
    #[arg(long, value_name = "DURATION", default_value = "1m0s")]
    pub(crate) engine_stall_timeout: GoDuration,

    /// Make every N-th decision from scratch, too, and compare the two; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) audit: u32,

    /// Add the smallest change that would help to the event and the condition of a pod that fits nowhere
    ///
    /// It is found beside the scheduler, which does not wait for it, and written once it is known.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) why_in_events: bool,

    /// How often the instance checks its own work, such as whether it knows the cluster as the API server has it, and
    /// whether pods sleep although they would fit; 0 for never
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) self_audit_period: GoDuration,

    /// What happens when the file of --config, or the ConfigMap of --policy-configmap, changes
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    pub(crate) reload: ReloadFlag,

    #[command(flatten)]
    pub(crate) canary: CanaryFlags,

    #[command(flatten)]
    pub(crate) ranking: Ranking,

    #[command(flatten)]
    pub(crate) reservations: ReservationFlags,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Secure serving")]
pub(crate) struct Serving {
    /// The address on which HTTPS is served; 0.0.0.0 and :: mean all
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub(crate) bind_address: IpAddr,

    /// The port; 0 to serve nothing
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub(crate) secure_port: i64,

    /// The directory for the self-signed certificate if no files are given; without it, it stays in memory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cert_dir: Option<PathBuf>,

    /// The certificate in PEM, followed by its chain
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// The key of the certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tls_private_key_file: Option<PathBuf>,

    /// Cipher suites, with the names that Go uses; all secure ones if not given
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) tls_cipher_suites: Vec<String>,

    /// Numbers of the groups for the key exchange, such as 29 for X25519
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub(crate) tls_curve_preferences: Vec<i64>,

    /// VersionTLS12 or VersionTLS13
    #[arg(long, value_name = "VERSION", default_value = "")]
    pub(crate) tls_min_version: String,

    /// A certificate for certain host names: `CERT,KEY` or `CERT,KEY:NAME,NAME`; may be repeated
    #[arg(long, value_name = "CERT,KEY[:NAMES]")]
    pub(crate) tls_sni_cert_key: Vec<String>,

    /// The maximum number of streams of an HTTP/2 connection; 0 for the default
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) http2_max_streams_per_connection: i64,

    /// Serve HTTP/1.1 only
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) disable_http2_serving: bool,

    /// Listen with SO_REUSEPORT
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) permit_port_sharing: bool,

    /// Listen with SO_REUSEADDR
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) permit_address_sharing: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Authentication")]
pub(crate) struct Authentication {
    /// The kubeconfig for token reviews; that of the scheduler if not given
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) authentication_kubeconfig: Option<PathBuf>,

    /// How long the answer to a token review is cached
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) authentication_token_webhook_cache_ttl: GoDuration,

    /// Look nothing up in the cluster
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) authentication_skip_lookup: bool,

    /// Start even if the lookup fails
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "true", default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) authentication_tolerate_lookup_failure: bool,

    /// The CA of client certificates
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) client_ca_file: Option<PathBuf>,

    /// The CA of the certificates of authenticating proxies
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) requestheader_client_ca_file: Option<PathBuf>,

    /// Allowed common names of proxies; any if not given
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) requestheader_allowed_names: Vec<String>,

    /// Headers that name the user
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "x-remote-user")]
    pub(crate) requestheader_username_headers: Vec<String>,

    /// Headers with the uid of the user
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) requestheader_uid_headers: Vec<String>,

    /// Headers that name groups
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "x-remote-group")]
    pub(crate) requestheader_group_headers: Vec<String>,

    /// Prefixes of headers with further attributes of the user
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',', default_value = "x-remote-extra-")]
    pub(crate) requestheader_extra_headers_prefix: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Authorization")]
pub(crate) struct Authorization {
    /// The kubeconfig for access reviews; that of the scheduler if not given
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) authorization_kubeconfig: Option<PathBuf>,

    /// Paths that everybody may read
    #[arg(long, value_name = "PATHS", value_delimiter = ',')]
    #[arg(default_value = "/healthz,/readyz,/livez")]
    pub(crate) authorization_always_allow_paths: Vec<String>,

    /// How long a permission is cached
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) authorization_webhook_cache_authorized_ttl: GoDuration,

    /// How long a denial is cached
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) authorization_webhook_cache_unauthorized_ttl: GoDuration,
}

/// Leader election. Each flag takes precedence over the configuration.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct Election {
    /// Whether to elect a leader; true unless the configuration says otherwise
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    pub(crate) leader_elect: Option<bool>,

    /// How long other replicas wait after the leader last renewed the lease; 15s
    #[arg(long, value_name = "DURATION")]
    pub(crate) leader_elect_lease_duration: Option<GoDuration>,

    /// How long the leader tries to renew the lease before it gives up; 10s
    #[arg(long, value_name = "DURATION")]
    pub(crate) leader_elect_renew_deadline: Option<GoDuration>,

    /// The pause between tries; 2s
    #[arg(long, value_name = "DURATION")]
    pub(crate) leader_elect_retry_period: Option<GoDuration>,

    /// The kind of the lock: leases
    #[arg(long, value_name = "KIND")]
    pub(crate) leader_elect_resource_lock: Option<String>,

    /// The name of the lock; kube-scheduler
    #[arg(long, value_name = "NAME")]
    pub(crate) leader_elect_resource_name: Option<String>,

    /// The namespace of the lock; kube-system
    #[arg(long, value_name = "NAME")]
    pub(crate) leader_elect_resource_namespace: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Features and metrics")]
pub(crate) struct Gates {
    /// Feature gates, such as `NodeDeclaredFeatures=false`
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',')]
    pub(crate) feature_gates: Vec<String>,

    /// The release of Kubernetes whose decisions are made: 1.36 or 1.37; if not given, that of the API server
    ///
    /// It is 1.36 for an older API server and 1.37 for a newer one.
    #[arg(long, value_name = "VERSION", value_parser = emulated_version)]
    pub(crate) emulated_version: Option<Release>,

    /// No effect: --emulated-version alone decides
    #[arg(long, value_name = "VERSION", hide_short_help = true)]
    pub(crate) min_compatibility_version: Vec<String>,

    /// No effect: no metric is hidden
    #[arg(long, value_name = "VERSION", hide_short_help = true)]
    pub(crate) show_hidden_metrics_for_version: Option<String>,

    /// No effect: every metric is served
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide_short_help = true)]
    pub(crate) disabled_metrics: Vec<String>,

    /// No effect: labels have the values that they have
    #[arg(long, value_name = "METRIC,LABEL=VALUES", hide_short_help = true)]
    pub(crate) allow_metric_labels: Vec<String>,

    /// No effect: labels have the values that they have
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) allow_metric_labels_manifest: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Logs")]
pub(crate) struct Logs {
    /// The log level: 4 adds retries and every request that is served, 10 adds every score
    #[arg(short, long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub(crate) verbosity: u32,

    /// `text` or `json`
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    #[arg(value_parser = ["text", "json"])]
    pub(crate) logging_format: String,

    /// No effect: every line is written immediately
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub(crate) log_flush_frequency: Option<GoDuration>,

    /// No effect: use -v
    #[arg(long, value_name = "PATTERN=LEVEL", hide_short_help = true)]
    pub(crate) vmodule: Vec<String>,

    /// No effect: the log goes to standard error
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, hide_short_help = true)]
    #[arg(default_missing_value = "true")]
    pub(crate) log_text_split_stream: Option<bool>,

    /// No effect
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub(crate) log_text_info_buffer_size: Option<String>,

    /// No effect: the log goes to standard error
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, hide_short_help = true)]
    #[arg(default_missing_value = "true")]
    pub(crate) log_json_split_stream: Option<bool>,

    /// No effect
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub(crate) log_json_info_buffer_size: Option<String>,
}

/// How to reach the API server without a configuration. kube-scheduler calls these flags deprecated.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Without --config")]
pub(crate) struct Client {
    /// The kubeconfig; without it, the in-cluster configuration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Requests a second; 50
    #[arg(long, value_name = "N")]
    pub(crate) kube_api_qps: Option<f32>,

    /// Requests that may exceed the rate for a moment; 100
    #[arg(long, value_name = "N")]
    pub(crate) kube_api_burst: Option<i32>,

    /// No effect on requests, which are always JSON
    #[arg(long, value_name = "TYPE")]
    pub(crate) kube_api_content_type: Option<String>,

    /// Whether `/debug/flags/v` is served; there are no profiles of the process
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, hide_short_help = true)]
    #[arg(default_missing_value = "true")]
    pub(crate) profiling: Option<bool>,

    /// No effect: there are no profiles of the process
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, hide_short_help = true)]
    #[arg(default_missing_value = "true")]
    pub(crate) contention_profiling: Option<bool>,
}
