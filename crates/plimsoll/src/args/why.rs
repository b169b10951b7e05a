//! The command line of `plimsoll why`.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Error, ValueHint};
use plimsoll_api::{ObjectKey, PodKey};

use super::{Args, Cluster, Output, pod_key};
use crate::canary::CanaryFlags;
use crate::recorded::At;

const EXAMPLES: &str = "\
Examples:
  # What would have to change so that this pod fits?
  plimsoll why -f cluster.json team-a/web-0

  # The changes as JSON Patches, to be applied to the manifests
  plimsoll why -f cluster.json team-a/web-0 -o json | jq '.remedies[0].changes'

  # What would have helped it an hour into this recording?
  plimsoll why --recording recording --at 1h team-a/web-0

  # What does a journal know of a pod that is gone?
  plimsoll why --journal decisions.db team-a/web-0

  # What would have to change so that a group of pods is scheduled?
  plimsoll why -f cluster.json --group team-a/train --feature-gates GenericWorkload=true

  # Why is this pod on its node, and by how much?
  plimsoll why -f cluster.json team-a/web-1 -o json | jq .runnerUp";

/// Say why a pod is pending and the least that must change, or why it is on its node
///
/// For a pending pod: the decision about it, the changes that would make it fit, the smallest first, and the nodes that
/// miss by least with all that rejects them. Every change was tried: the pod then goes to the node that is named. A change is
/// about the pod, about nodes and other pods, or about the configuration. For a pod on a node: the best other node, by how
/// much it is worse, and the plugins that decided. Like `explain`, it decides the pod against the state in the files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("files", |files| files.required(false).required_unless_present_any(["journal", "recording"])))]
pub(crate) struct Why {
    #[command(flatten)]
    pub(crate) cluster: Cluster,

    #[command(flatten)]
    pub(crate) canary: CanaryFlags,

    /// Instead of files, a journal of decisions: the last attempt, as far as it was written
    ///
    /// A journal has no objects, so nothing is said about what would have to change.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["files", "group", "canary"])]
    pub(crate) journal: Option<PathBuf>,

    /// Instead of files, the cluster of a recording of `run` or `simulate`, at its end or --at a time
    ///
    /// The recorded profiles decide, unless --config is given. A recording holds what decisions read of a pod and its claims, and
    /// not their manifests: changes of these apply to the manifests that -o json has.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["files", "group", "journal"])]
    pub(crate) recording: Option<PathBuf>,

    /// The time of the recording, such as 2026-11-25T15:00:00Z, or 1h30m after its beginning
    #[arg(long, value_name = "TIME", value_parser = At::parse, requires = "recording", conflicts_with_all = ["files", "group", "journal"])]
    pub(crate) at: Option<At>,

    /// The pod; without a namespace it is in `default`
    #[arg(value_name = "NAMESPACE/NAME", value_parser = pod_key)]
    pub(crate) pod: Option<PodKey>,

    /// The same as an option
    #[arg(long = "pod", value_name = "NAMESPACE/NAME", value_parser = pod_key, conflicts_with = "pod")]
    pub(crate) named: Option<PodKey>,

    /// Instead of a pod, a group of pods, with the feature gate GenericWorkload; without a namespace it is in `default`
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = pod_key, conflicts_with_all = ["pod", "named"])]
    pub(crate) group: Option<PodKey>,

    /// How many changes are shown
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) remedies: usize,

    /// How many of the nearest nodes are shown
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) nearest: usize,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// What is asked about.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A pod.
    Pod(PodKey),
    /// A group of pods.
    Group(ObjectKey),
}

impl Why {
    /// Takes the last file for the pod if none was named: in `-f cluster.json web-0` it looks like a file.
    pub(crate) fn settle(mut self) -> Result<(Self, Asked), Error> {
        if let Some(group) = self.group.take() {
            return Ok((self, Asked::Group(group)));
        }
        let named = self.pod.take().or_else(|| self.named.take());
        let last = || {
            let last = self.cluster.files.last().filter(|_| 1 < self.cluster.files.len())?;
            let text = last.to_str().filter(|_| !Path::exists(last))?;
            pod_key(text).ok()
        };
        if let Some(pod) = named {
            return Ok((self, Asked::Pod(pod)));
        }
        let Some(pod) = last() else {
            let message =
                "name the pod: plimsoll why -f FILE... NAMESPACE/NAME, or a group with --group\n";
            return Err(Args::command().error(ErrorKind::MissingRequiredArgument, message));
        };
        self.cluster.files.pop();
        Ok((self, Asked::Pod(pod)))
    }
}
