//! The command line of `plimsoll snapshot`.

use std::path::PathBuf;

use clap::ValueHint;

use super::SchedulerPlace;

const EXAMPLES: &str = "\
Examples:
  # Everything that decisions depend on, from a cluster
  plimsoll snapshot --kubeconfig ~/.kube/config -o cluster.json.gz
  plimsoll simulate -f cluster.json.gz
  plimsoll why -f cluster.json.gz team-a/web-0

  # As the instance that runs in the cluster has it, with what it assumes and what waits in its queue
  plimsoll snapshot --instance --kubeconfig ~/.kube/config -o cluster.json.gz

  # For a bug report, without the names of anything
  plimsoll snapshot --kubeconfig ~/.kube/config --hash-names -o cluster.json.gz

  # What `kubectl get -o json` has written, without secrets and names
  plimsoll snapshot -f cluster.json volumes.json --hash-names -o report.json.gz";

/// Write everything that decisions depend on to one file, without secrets
///
/// The file is a `v1 List` that -f reads, for `simulate`, `explain`, `why`, `what-if` and `capacity`, which decide with it as
/// they do with the whole objects. Of each object it has only the fields that scheduling reads: no Secrets and ConfigMaps, no
/// environment, command lines, annotations, image pull secrets or messages. Objects come from a cluster, where nothing is
/// changed, or from files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Snapshot {
    /// Take the objects from these files instead of a cluster
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1..)]
    #[arg(value_hint = ValueHint::AnyPath, conflicts_with_all = ["kubeconfig", "master"])]
    pub(crate) files: Vec<PathBuf>,

    /// The kubeconfig of the cluster; without it, the in-cluster configuration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The address of the API server, instead of the one in the kubeconfig
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,

    /// Take the cluster as the instance that runs in it has it
    ///
    /// The objects come from the API server, and the instance says what it believes of them: pods for which it has chosen a node
    /// are on that node, nominated pods say so, and pods and nodes that it does not know are left out. Each pod that waits has
    /// the profile that decides it, and the annotation plimsoll.io/queue with its place in the queue. The instance is found as
    /// `kubectl plimsoll` finds it.
    #[arg(long, conflicts_with = "files")]
    pub(crate) instance: bool,

    /// The file to write, compressed if its name ends in `.gz`; `-` is standard output
    #[arg(short = 'o', long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Replace all names and values of labels by hashes
    ///
    /// References still match, and decisions are the same apart from the names. What depends on the order of names may
    /// change: which of several equally good nodes is chosen, and which of several equal pods is first. Numbers, label keys,
    /// and the names of resources, drivers and schedulers stay.
    #[arg(long)]
    pub(crate) hash_names: bool,

    /// The key of the hashes: a file with at least 16 bytes, to hash alike in several snapshots; a random one if not given
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "hash_names")]
    pub(crate) hash_key: Option<PathBuf>,

    /// Keep annotations with this key, for a plugin that reads them; may be repeated
    #[arg(long, value_name = "KEY")]
    pub(crate) keep_annotation: Vec<String>,

    #[command(flatten)]
    pub(crate) scheduler: SchedulerPlace,
}
