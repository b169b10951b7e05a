//! The command line of `plimsoll capacity`.

use std::path::PathBuf;

use clap::ValueHint;
use plimsoll_api::PodKey;

use super::{Cluster, Output, pod_key};
use crate::canary::CanaryFlags;

const EXAMPLES: &str = "\
Examples:
  # How many more of these pods fit?
  plimsoll capacity -f cluster.json --pod-file worker.yaml

  # A web server and a database in turn: how many of both?
  plimsoll capacity -f cluster.json --pod-file web.yaml --pod-file db.yaml

  # For each sort of pod that the cluster has, how many more of it?
  plimsoll capacity -f cluster.json --all-shapes

  # How many more groups like this one? The file has a PodGroup and its pods
  plimsoll capacity -f cluster.json --pod-file train.yaml --feature-gates GenericWorkload=true

  # The same for a group of the cluster
  plimsoll capacity -f cluster.json --group team-a/train --feature-gates GenericWorkload=true";

/// Say how many more pods or groups of pods fit, and what stops the next one
///
/// Places copies of pods until none of them fits any more; of several files, the pods take turns. Nothing is evicted for
/// them. Says why the next one does not fit, what would have to change, and how many more nodes let a tenth more in. Of a
/// group all pods are placed or none.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Capacity {
    #[command(flatten)]
    pub(crate) cluster: Cluster,

    #[command(flatten)]
    pub(crate) canary: CanaryFlags,

    /// The manifest of a pod, of a workload with a template, or of a PodGroup with its pods; - is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present_any = ["all_shapes", "group"])]
    pub(crate) pod_file: Vec<PathBuf>,

    /// A group of the cluster with all its pods, with the feature gate GenericWorkload; without a namespace it is in `default`
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = pod_key, conflicts_with = "pod_file")]
    pub(crate) group: Option<PodKey>,

    /// One pod of each controller of the cluster, and each of its groups, each by itself
    #[arg(long, conflicts_with_all = ["pod_file", "group"])]
    pub(crate) all_shapes: bool,

    /// Place the pending pods of the files first
    #[arg(long)]
    pub(crate) after_pending: bool,

    /// Stop after so many pods; with --all-shapes after so many of each
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) limit: usize,

    /// How many changes are shown that would let the next pod or group in
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) remedies: usize,

    #[command(flatten)]
    pub(crate) output: Output,
}
