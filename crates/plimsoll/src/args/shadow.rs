//! The command line of `plimsoll shadow`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use plimsoll_framework::Release;

use super::emulation::emulated_version;
use super::{Output, duration};

const EXAMPLES: &str = "\
Examples:
  # Beside the scheduler of a cluster, until Ctrl-C
  plimsoll shadow --kubeconfig ~/.kube/config

  # For a day, with a report as a page that is up to date, and files that reproduce disagreements
  plimsoll shadow --kubeconfig ~/.kube/config --duration 24h --report shadow.html --disagreements differ/

  # In a pod, with the report as a page at https://localhost:10259/ui/ (kubectl port-forward)
  plimsoll shadow --config scheduler.yaml --secure-port 10259

  # Would another configuration place the pods otherwise?
  plimsoll shadow --kubeconfig ~/.kube/config --config now.yaml --against planned.yaml

Exit status: 0 when it was stopped or the time is over, whatever it found; 1 after an error; 2 when the command line \
is wrong.";

/// Compare the scheduler of a cluster with this one, and change nothing
///
/// Follows a cluster that another scheduler serves. Whenever that binds a pod, the pod is decided on the state just before, and
/// the two are compared: the same node, one of several that are equally good, one with a lower score, or one that a plugin
/// rejects. It only sends GET requests, so get, list and watch are all the rights that it needs (deploy/shadow-rbac.yaml). The
/// report comes when it is stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Shadow {
    /// The kubeconfig of the cluster; without it, the in-cluster configuration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The address of the API server, instead of the one in the kubeconfig
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,

    /// A KubeSchedulerConfiguration or a scheduler Policy; without it, the default profile decides
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// A second configuration: it decides the same pods, and the two are compared with each other, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) against: Option<PathBuf>,

    /// Compare the pods of this scheduler; those of the profiles if not given
    ///
    /// If no profile has this name, and there is only one, that decides its pods.
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler_name: Option<String>,

    /// Feature gates, such as `DRAExtendedResource=false`
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',')]
    pub(crate) feature_gates: Vec<String>,

    /// The release of Kubernetes whose decisions are made: 1.36 or 1.37; if not given, that of the API server
    #[arg(long, value_name = "VERSION", value_parser = emulated_version)]
    pub(crate) emulated_version: Option<Release>,

    /// Stop after this time, such as `24h`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Option<Duration>,

    /// Bindings within this time may have been decided in another order
    ///
    /// Every event is processed this much later.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    pub(crate) window: Duration,

    /// Do not keep the cluster as it would be if our decisions had placed its pods
    ///
    /// It takes as much memory as a configuration, and each pod is decided once more.
    #[arg(long)]
    pub(crate) no_own_cluster: bool,

    /// Write the report to this file, and again whenever --report-every has passed; may be repeated
    ///
    /// It is a page for a browser if the name ends in .html, and JSON otherwise.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report: Vec<PathBuf>,

    /// How often the report is written, and a line about it logged
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1m")]
    pub(crate) report_every: Duration,

    /// How many disagreements the report lists, the latest
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_disagreements: u32,

    /// Write the state of each disagreement to this directory, as a snapshot, with the command that reproduces the decision
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) disagreements: Option<PathBuf>,

    /// At most this many snapshots are written
    #[arg(long, value_name = "N", default_value_t = 100, requires = "disagreements")]
    pub(crate) max_snapshots: u32,

    #[command(flatten)]
    pub(crate) serving: ShadowServing,

    /// The log level
    #[arg(short, long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub(crate) verbosity: u32,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// Where a shadow serves.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Serving")]
pub(crate) struct ShadowServing {
    /// Serve the page, its API, health checks and metrics over HTTPS on this port; 0 to serve nothing
    ///
    /// Who asks, and who may, is asked of the API server: for this the account needs the rights in deploy/shadow-page.yaml.
    /// Health checks are open to everybody.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) secure_port: i64,

    /// The address to listen on; 0.0.0.0 for all
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub(crate) bind_address: IpAddr,

    /// The directory for the self-signed certificate if no files are given; without it, it stays in memory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cert_dir: Option<PathBuf>,

    /// The certificate in PEM, followed by its chain
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// The key of the certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tls_private_key_file: Option<PathBuf>,
}
