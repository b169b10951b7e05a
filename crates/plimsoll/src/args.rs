//! The command line.

mod bench;
mod capacity;
mod emulation;
mod journal;
mod kubectl;
mod ranking;
mod rebalance;
mod replay;
mod reservation;
mod run;
mod serve;
mod shadow;
mod snapshot;
mod what_if;
mod why;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use plimsoll_api::PodKey;
use plimsoll_config::{DurationError, GoDuration};
use serde::{Deserialize, Serialize};

pub(crate) use self::bench::Bench;
pub(crate) use self::capacity::Capacity;
pub(crate) use self::emulation::Emulation;
pub(crate) use self::journal::{Journal, JournalFlags, Question};
pub(crate) use self::kubectl::{ClusterQuestion, Kubectl, NamedPod, SchedulerPlace, Target};
pub(crate) use self::ranking::Ranking;
pub(crate) use self::rebalance::{DEFAULT_MOVES, Rebalance, Rebalancing};
pub(crate) use self::replay::{Record, Replay, ReplayEngine};
pub(crate) use self::reservation::ReservationFlags;
pub(crate) use self::run::{Authentication, Authorization, Client, Election, Run, Serving};
pub(crate) use self::serve::Serve;
pub(crate) use self::shadow::{Shadow, ShadowServing};
pub(crate) use self::snapshot::Snapshot;
pub(crate) use self::what_if::{
    GivenAction, NodeTaint, ObjectName, WhatIf, labelled_pods, node_choice, node_taint,
    object_name, object_number, replicas,
};
pub(crate) use self::why::{Asked, Why};
use crate::canary::CanaryFlags;
use crate::deprecated::Deprecated;

/// The namespace of a pod that is named without one.
const DEFAULT_NAMESPACE: &str = "default";

const EXAMPLES: &str = "\
Examples:
  # Where would the pending pods of a cluster go?
  plimsoll snapshot --kubeconfig ~/.kube/config -o cluster.json.gz
  plimsoll simulate -f cluster.json.gz

  # Why does this pod not fit?
  plimsoll explain -f cluster.json.gz --pod team-a/web-0

  # Is this configuration valid, and what does it enable?
  plimsoll config check scheduler.yaml

Exit status: 0 when the command did its job, whether pods fit or not; 1 when a file or the \
configuration is wrong, the pod cannot be decided, an audit or a replay finds a difference, or the lease is \
lost; 2 \
when the command line is wrong; 3 when `what-if --fail-if-pending` leaves pods without a node.";

const SIMULATE_EXAMPLES: &str = "\
Examples:
  # The whole cluster, and some pods that do not exist yet
  plimsoll simulate -f cluster.json -f new-pods/

  # As JSON Lines: which pods found no node?
  plimsoll simulate -f cluster.json -o json | jq -r 'select(.result != \"scheduled\").pod'

  # Pods complete after ten minutes on their node: which pods are placed then?
  plimsoll simulate -f cluster.json --completion-after 10m

  # Look for bugs of the scheduler itself in 1000 random clusters
  plimsoll simulate --swarm 1000

  # The same in clusters with groups of pods
  plimsoll simulate --swarm 1000 --with groups

  # Break ties at random, as kube-scheduler does, but repeatably
  plimsoll simulate -f cluster.json --tie-break random --seed 7

  # Where would release 1.5 have placed the pods with this Policy?
  plimsoll simulate -f cluster.json --config policy.json --scale 10 --release 1.5";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  # A pod of the namespace default
  plimsoll explain -f cluster.json --pod web-0

  # With the scores of all nodes, as the configuration weighs them
  plimsoll explain -f cluster.json --config scheduler.yaml --pod team-a/web-0 --all

  # How would a release before 1.17 have ranked the nodes?
  plimsoll explain -f cluster.json --pod web-0 --scale 10

  # What is the highest total?
  plimsoll explain -f cluster.json --pod web-0 -o json | jq '[.nodes[].total] | max'";

const CONFIG_EXAMPLES: &str = "\
Examples:
  plimsoll config check scheduler.yaml
  plimsoll config check scheduler.yaml -o json | jq '.profiles[].points.score'";

const MIGRATE_EXAMPLES: &str = "\
Examples:
  # The file goes to standard output, notes about it to standard error
  plimsoll config migrate old.yaml > scheduler.yaml

  # Which plugins of the file does kube-scheduler 1.36 not know?
  plimsoll config migrate old.yaml 2>&1 >/dev/null | grep 'does not know'";

const NEW_PLUGIN_EXAMPLES: &str = "\
Examples:
  plimsoll new-plugin RackDrain
  plimsoll new-plugin rack-drain --path plugins/rack-drain --plimsoll ../plimsoll";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(plimsoll completions bash)
  plimsoll completions zsh > ~/.zfunc/_plimsoll
  plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish";

/// Schedules pods as kube-scheduler does, and explains why
///
/// `plimsoll run` replaces kube-scheduler on a cluster. `kubectl`, `shadow` and `snapshot` read a cluster, and change
/// nothing there. The other commands read files, such as the nodes and pods of a cluster, and say to which node each pod
/// goes, or why it goes to none. Filters, scores and messages are those of kube-scheduler 1.37 or 1.36.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<Run>),
    Simulate(Simulate),
    Explain(Explain),
    Why(Box<Why>),
    WhatIf(Box<WhatIf>),
    Capacity(Box<Capacity>),
    Kubectl(Box<Kubectl>),
    Serve(Box<Serve>),
    Rebalance(Box<Rebalance>),
    Shadow(Box<Shadow>),
    Snapshot(Snapshot),
    Journal(Journal),
    Replay(Replay),
    Plugins(Plugins),
    #[command(subcommand)]
    Config(Config),
    Bench(Bench),
    NewPlugin(NewPlugin),
    Completions(Completions),
}

/// The files that describe the cluster, and the configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct Cluster {
    /// Manifests of nodes, pods and other objects
    ///
    /// YAML or JSON, compressed with gzip or not: single objects, several documents in one file, and lists as `kubectl get
    /// -o json` prints them. `-` is standard input. A directory means its files *.yaml, *.yml and *.json in the order of
    /// their names; its subdirectories are not read.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,

    /// A KubeSchedulerConfiguration or a scheduler Policy; without it, the default profile decides
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) emulation: Emulation,

    /// Feature gates, such as `DRAExtendedResource=false`
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',')]
    pub(crate) feature_gates: Vec<String>,

    #[command(flatten)]
    pub(crate) deprecated: Deprecated,
}

/// Place every pending pod of a cluster, one after another
///
/// Every pending pod goes through the scheduling queue, by priority and then by age, and takes up its resources on a
/// node before the next pod is decided. Only the files are read, and nothing is changed. Time is virtual: a decision
/// takes none. Pods that are being deleted are gone at their `metadata.deletionTimestamp`.
#[derive(Debug, clap::Args)]
#[command(after_help = SIMULATE_EXAMPLES)]
#[command(mut_arg("files", |files| files.required(false).required_unless_present("swarm")))]
pub(crate) struct Simulate {
    #[command(flatten)]
    pub(crate) cluster: Cluster,

    #[command(flatten)]
    pub(crate) canary: CanaryFlags,

    /// How to choose among equally good nodes
    #[arg(long, value_name = "RULE", value_enum, default_value_t)]
    pub(crate) tie_break: TieBreak,

    /// The seed for random choices: the same input and seed give the same output
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// How long a pod runs on its node until it completes, such as `90s` or `1h30m`
    ///
    /// For pods that are on nodes at the beginning, this time starts then. Without this option no pod completes.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) completion_after: Option<Duration>,

    #[command(flatten)]
    pub(crate) ranking: Ranking,

    #[command(flatten)]
    pub(crate) reservations: ReservationFlags,

    #[command(flatten)]
    pub(crate) decisions: Decisions,

    /// Simulate N random clusters instead, and audit every decision
    ///
    /// Each cluster has its own seed, starting at --seed. Pods and nodes are added, changed and removed, bindings fail,
    /// and volumes are late. An auditor looks for pods on nodes that they do not fit, victims without a lower priority,
    /// and pods that are not tried again although they would fit. The exit status is 1 if it finds any.
    #[arg(long, value_name = "N")]
    #[arg(conflicts_with_all = ["files", "explain", "completion_after", "tie_break", "engine", "audit", "journal", "pod_group_waiting_time", "pod_group_reservation_time"])]
    pub(crate) swarm: Option<u64>,

    /// With --swarm, only clusters with these: seeds that have none are skipped
    #[arg(long, value_name = "WHAT", value_enum, requires = "swarm", conflicts_with_all = ["files", "feature_gates", "scale"])]
    pub(crate) with: Option<With>,

    /// Record everything that enters the engine to this file, for `plimsoll replay`
    ///
    /// If an audit finds a difference, the smallest recording that shows it is written to FILE.difference. With --swarm, FILE is
    /// a folder: for each seed with a difference it gets seed-N.difference, and nothing else.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "scale")]
    pub(crate) record: Option<PathBuf>,

    /// Write every decision to this SQLite file, for `plimsoll journal`
    ///
    /// With --explain it has the scores of the best nodes and all rejections. A file that exists must be a journal, and is
    /// continued.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) journal: Option<PathBuf>,

    /// Show for every node why it was rejected or how it scored
    ///
    /// In the table: how many nodes were feasible, and the score of the chosen one.
    #[arg(long)]
    pub(crate) explain: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// How decisions are made.
#[derive(Debug, clap::Args)]
pub(crate) struct Decisions {
    /// How decisions are made; both ways lead to the same decisions
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t)]
    pub(crate) engine: Engine,

    /// Make every N-th decision from scratch, too, and compare the two; 0 for none
    ///
    /// Only decisions from remembered results are counted. If the two differ, the one from scratch is used. Every
    /// difference is reported on standard error, and the exit status is 1 if there is any.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) audit: u32,
}

/// Show for every node why a pod fits there or not
///
/// Decides one pending pod as if it were the next, from scratch, with the cluster as it is in the files. Nothing is
/// changed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) cluster: Cluster,

    #[command(flatten)]
    pub(crate) canary: CanaryFlags,

    /// The pod; without a namespace it is in `default`
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = pod_key, required_unless_present = "group")]
    pub(crate) pod: Option<PodKey>,

    /// Instead of a pod, a group of pods, with the feature gate GenericWorkload; without a namespace it is in `default`
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = pod_key, conflicts_with = "pod")]
    pub(crate) group: Option<PodKey>,

    /// Show all feasible nodes in the table, not just the best
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) ranking: Ranking,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// List the plugins, what each reads, and which are not available yet
#[derive(Debug, clap::Args)]
pub(crate) struct Plugins {
    /// Print the permissions that plugins from outside need in the cluster, beside those in deploy/rbac.yaml
    #[arg(long, conflicts_with = "format")]
    pub(crate) rbac: bool,

    /// With --rbac: print those that the plugins of this configuration need, in-tree ones as well
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "rbac")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// Check and convert configurations
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    Check(Check),
    Migrate(Migrate),
}

/// Validate a configuration and show what it resolves to
///
/// Reads a KubeSchedulerConfiguration, merges each profile with the default one, and prints the plugins of each
/// extension point, in their order and with their weights. For a scheduler Policy, also in a ConfigMap, it prints the
/// plugins that replaced its predicates and priorities.
#[derive(Debug, clap::Args)]
#[command(after_help = CONFIG_EXAMPLES)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) subject: Subject,

    #[command(flatten)]
    pub(crate) emulation: Emulation,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// The configuration to check or to convert.
#[derive(Debug, clap::Args)]
pub(crate) struct Subject {
    /// The configuration; `-` is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present = "algorithm_provider", conflicts_with = "algorithm_provider")]
    pub(crate) file: Option<PathBuf>,

    /// Manifests that contain the ConfigMap named by `algorithmSource` of the configuration
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST", num_args = 1)]
    #[arg(value_hint = ValueHint::AnyPath, requires = "file")]
    pub(crate) manifests: Vec<PathBuf>,

    /// Instead of a file: DefaultProvider or ClusterAutoscalerProvider of release 1.20
    #[arg(long, value_name = "NAME")]
    pub(crate) algorithm_provider: Option<String>,
}

/// Convert a configuration of any version to version v1
///
/// Prints a file of version kubescheduler.config.k8s.io/v1 that leads to the same decisions here. It lists only
/// differences from the defaults. Notes on standard error say what changes, what v1 does not have, and what to do about
/// it.
#[derive(Debug, clap::Args)]
#[command(after_help = MIGRATE_EXAMPLES)]
pub(crate) struct Migrate {
    #[command(flatten)]
    pub(crate) subject: Subject,

    #[command(flatten)]
    pub(crate) emulation: Emulation,

    /// The output format: the file with notes, or both as JSON
    #[arg(short = 'o', long = "output", value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) format: FileFormat,
}

/// Write a crate with a plugin of your own and a scheduler that includes it
///
/// The crate contains a plugin with args, its tests, a program that is plimsoll with this plugin, a configuration that
/// enables it, and a Dockerfile. It builds without changes, from the sources of plimsoll.
#[derive(Debug, clap::Args)]
#[command(after_help = NEW_PLUGIN_EXAMPLES)]
pub(crate) struct NewPlugin {
    /// The name of the plugin in configurations, such as RackDrain; the crate is then called rack-drain
    pub(crate) name: String,

    /// The directory of the crate; by default, one with its name in the working directory
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub(crate) path: Option<PathBuf>,

    /// The directory of the sources of plimsoll; by default, searched above the working directory and this program
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub(crate) plimsoll: Option<PathBuf>,
}

/// Print a shell script that completes command lines of plimsoll
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// The output format.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// The output format
    #[arg(short = 'o', long = "output", value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) format: Format,
}

/// What the clusters of a swarm must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum With {
    /// Groups of pods, by the API or by Coscheduling
    Groups,
    /// Gangs by the plugin Coscheduling
    Coscheduling,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs; `simulate` prints one decision per line
    Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// A file, with notes on standard error
    #[default]
    Yaml,
    /// The file as `configuration`, and `notes`
    Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    /// From remembered results, where possible
    #[default]
    Fast,
    /// From scratch
    Reference,
}

impl From<Engine> for plimsoll_engine::Engine {
    fn from(typed: Engine) -> Self {
        match typed {
            Engine::Fast => Self::Fast,
            Engine::Reference => Self::Reference,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TieBreak {
    /// The node whose name comes first in the alphabet
    #[default]
    First,
    /// Any of them, with equal probability
    Random,
}

impl From<TieBreak> for plimsoll_engine::TieBreak {
    fn from(typed: TieBreak) -> Self {
        match typed {
            TieBreak::First => Self::First,
            TieBreak::Random => Self::Random,
        }
    }
}

/// Reads a duration as Kubernetes writes it.
fn duration(text: &str) -> Result<Duration, SpanError> {
    text.parse::<GoDuration>()?.to_std().ok_or(SpanError::Negative)
}

/// A text is not a valid duration.
#[derive(Debug, thiserror::Error)]
enum SpanError {
    #[error(transparent)]
    NoDuration(#[from] DurationError),
    #[error("a duration must not be negative")]
    Negative,
}

/// Reads `NAMESPACE/NAME` or `NAME`.
fn pod_key(text: &str) -> Result<PodKey, &'static str> {
    let (namespace, name) = text.split_once('/').unwrap_or((DEFAULT_NAMESPACE, text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err("write NAMESPACE/NAME, or NAME for a pod in the namespace default");
    }
    Ok(PodKey::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_pod_without_a_namespace_is_in_default() {
        assert_eq!(pod_key("web-0"), Ok(PodKey::new("default", "web-0")));
        assert_eq!(pod_key("team-a/web-0"), Ok(PodKey::new("team-a", "web-0")));
        for text in ["", "/", "a/", "/b", "a/b/c"] {
            assert!(pod_key(text).is_err(), "{text:?}");
        }
    }
}
