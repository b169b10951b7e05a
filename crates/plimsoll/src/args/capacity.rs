//! The command line of `plimsoll capacity`.

use std::path::PathBuf;

use clap::ValueHint;

use super::{Cluster, Output};
use crate::canary::CanaryFlags;

const EXAMPLES: &str = "\
Examples:
  # How many more of these pods fit?
  plimsoll capacity -f cluster.json --pod-file worker.yaml

  # A web server and a database in turn: how many of both?
  plimsoll capacity -f cluster.json --pod-file web.yaml --pod-file db.yaml

  # For each sort of pod that the cluster has, how many more of it?
  plimsoll capacity -f cluster.json --all-shapes";

/// Say how many more pods fit, and what stops the next one
///
/// Places copies of pods until none of them fits any more; of several files, the pods take turns. Nothing is evicted for
/// them. Says why the next one does not fit, what would have to change, and how many more nodes let a tenth more in.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Capacity {
    #[command(flatten)]
    pub(crate) cluster: Cluster,

    #[command(flatten)]
    pub(crate) canary: CanaryFlags,

    /// The manifest of a pod, or of a workload with a template; - is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present = "all_shapes")]
    pub(crate) pod_file: Vec<PathBuf>,

    /// One pod of each controller of the cluster, each by itself
    #[arg(long, conflicts_with = "pod_file")]
    pub(crate) all_shapes: bool,

    /// Place the pending pods of the files first
    #[arg(long)]
    pub(crate) after_pending: bool,

    /// Stop after so many pods
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) limit: usize,

    /// How many changes are shown that would let the next pod in
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) remedies: usize,

    #[command(flatten)]
    pub(crate) output: Output,
}
