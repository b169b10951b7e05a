//! The command line of `kubectl plimsoll`.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};
use plimsoll_api::PodKey;

use super::what_if::Actions;
use super::{DEFAULT_NAMESPACE, Output, Rebalancing};

const EXAMPLES: &str = "\
Examples:
  # Why is this pod pending, and what would change that?
  kubectl plimsoll why -n shop web-0

  # Where would the pods of a node go?
  kubectl plimsoll what-if --drain node-7

  # What would this configuration decide?
  kubectl plimsoll what-if --scale shop/web=40 --with-config new.yaml

  # What would let this group of pods be scheduled?
  kubectl plimsoll why -n shop --group train

  # Which pods should move so that whole nodes can go?
  kubectl plimsoll rebalance --free-nodes

  # How many more of these pods fit?
  kubectl plimsoll capacity --pod-file worker.yaml

  # For each sort of pod of a namespace, how many more of it, once the pending pods are placed?
  kubectl plimsoll capacity --all-shapes -n shop --after-pending

  # The scheduler runs elsewhere
  kubectl plimsoll why shop/web-0 --scheduler-namespace scheduling --service plimsoll

The same program is the plugin under the name kubectl-plimsoll: ln -s plimsoll ~/.local/bin/kubectl-plimsoll";

/// Ask the scheduler that runs in a cluster: `kubectl plimsoll`
///
/// Finds the instance that leads, forwards its port through the API server, and asks it with the credentials of the
/// kubeconfig. What you may ask is decided by the API server: deploy/questions.yaml has a role. Nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("format", |format| format.global(true)))]
pub(crate) struct Kubectl {
    #[command(flatten)]
    pub(crate) target: Target,

    #[command(flatten)]
    pub(crate) scheduler: SchedulerPlace,

    #[command(flatten)]
    pub(crate) output: Output,

    #[command(subcommand)]
    pub(crate) question: ClusterQuestion,
}

/// The flags of kubectl about the API server and the user.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "API server")]
pub(crate) struct Target {
    /// The kubeconfig; otherwise those of $KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) context: Option<String>,

    /// The cluster of the kubeconfig
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) cluster: Option<String>,

    /// The user of the kubeconfig
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) user: Option<String>,

    /// The address of the API server
    #[arg(short = 's', long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,

    /// A token in place of the credentials of the user
    #[arg(long, value_name = "TOKEN", global = true)]
    pub(crate) token: Option<String>,

    /// The namespace of pods that are named without one
    #[arg(short = 'n', long, value_name = "NAME", global = true)]
    pub(crate) namespace: Option<String>,

    /// Refused: the scheduler checks the credentials themselves; give a token of the other user
    #[arg(long = "as", value_name = "USER", global = true, hide_short_help = true)]
    pub(crate) impersonate: Option<String>,

    /// Refused like --as
    #[arg(long = "as-group", value_name = "GROUP", global = true, hide_short_help = true)]
    pub(crate) impersonate_group: Vec<String>,
}

/// Where the scheduler runs.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Scheduler")]
pub(crate) struct SchedulerPlace {
    /// The namespace of the scheduler
    #[arg(long, value_name = "NAME", default_value = "kube-system", global = true)]
    pub(crate) scheduler_namespace: String,

    /// The labels of its pods
    #[arg(
        long,
        value_name = "SELECTOR",
        default_value = "app in (plimsoll,plimsoll-default)",
        global = true
    )]
    pub(crate) scheduler_selector: String,

    /// A Service whose pods are meant, instead of the labels
    #[arg(long, value_name = "NAME", conflicts_with = "scheduler_pod", global = true)]
    pub(crate) service: Option<String>,

    /// The pod that is asked, instead of the one that leads
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) scheduler_pod: Option<String>,

    /// The port; without it, that which the pod calls `https`, or 10259
    #[arg(long, value_name = "PORT", global = true)]
    pub(crate) scheduler_port: Option<u16>,

    /// The leases whose holder is asked
    #[arg(long, value_name = "NAMES", value_delimiter = ',', global = true)]
    #[arg(default_value = "plimsoll,kube-scheduler")]
    pub(crate) scheduler_lease: Vec<String>,
}

/// What is asked.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterQuestion {
    /// Why a pod is pending and the least that must change, or why it is on its node
    Why {
        /// The pod; without a namespace it is in that of -n or the context
        #[arg(value_name = "[NAMESPACE/]NAME", value_parser = named_pod, required_unless_present = "group")]
        pod: Option<NamedPod>,

        /// Instead of a pod, a group of pods; without a namespace it is in that of -n or the context
        #[arg(long, value_name = "[NAMESPACE/]NAME", value_parser = named_pod, conflicts_with = "pod")]
        group: Option<NamedPod>,

        /// How many changes are shown
        #[arg(long, value_name = "N", default_value_t = 10)]
        remedies: usize,

        /// How many of the nearest nodes are shown
        #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "group")]
        nearest: usize,
    },
    /// For every node, why a pending pod fits there or not
    Explain {
        /// The pod; without a namespace it is in that of -n or the context
        #[arg(value_name = "[NAMESPACE/]NAME", value_parser = named_pod)]
        pod: NamedPod,
    },
    /// What would happen if the cluster changed
    WhatIf {
        #[command(flatten)]
        actions: Actions,

        /// Decide by this configuration instead of that of the scheduler; the file is read here
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Actions")]
        with_config: Option<PathBuf>,

        /// Exit with status 3 if a pod that had a node, or one that was applied, ends without one
        #[arg(long)]
        fail_if_pending: bool,
    },
    /// Which pods should move to free whole nodes or to spread pods evenly: advice only
    Rebalance {
        #[command(flatten)]
        asked: Rebalancing,
    },
    /// How many more pods or groups of pods fit, and what stops the next one
    Capacity {
        /// The manifest of a pod, of a workload with a template, or of a PodGroup with its pods; - is standard input
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        #[arg(required_unless_present_any = ["all_shapes", "group"])]
        pod_file: Vec<PathBuf>,

        /// A group of the cluster with all its pods; without a namespace it is in that of -n or the context
        #[arg(long, value_name = "[NAMESPACE/]NAME", value_parser = named_pod, conflicts_with = "pod_file")]
        group: Option<NamedPod>,

        /// One pod of each controller, and each group, each by itself: of the namespace of -n, or of all
        #[arg(long, conflicts_with_all = ["pod_file", "group"])]
        all_shapes: bool,

        /// Place the pending pods of the cluster first
        #[arg(long)]
        after_pending: bool,

        /// Stop after so many pods; with --all-shapes after so many of each
        #[arg(long, value_name = "N", default_value_t = 1_000_000)]
        limit: usize,

        /// How many changes are shown that would let the next pod or group in
        #[arg(long, value_name = "N", default_value_t = 3)]
        remedies: usize,
    },
}

/// A pod, perhaps without its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPod {
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl NamedPod {
    /// The pod, which is in `namespace` unless it says otherwise.
    pub(crate) fn key(&self, namespace: &str) -> PodKey {
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE } else { namespace };
        PodKey::new(namespace, self.name.as_str())
    }
}

/// Reads `NAMESPACE/NAME` or `NAME`. As kubectl does, `pod/NAME` is not taken: `pod` would be a namespace here.
fn named_pod(text: &str) -> Result<NamedPod, &'static str> {
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => (None, text),
    };
    if namespace.as_deref() == Some("") || name.is_empty() || name.contains('/') {
        return Err(
            "write NAMESPACE/NAME, or NAME for a pod in the namespace of -n or the context",
        );
    }
    Ok(NamedPod { namespace, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_without_a_namespace_is_in_that_of_the_context() {
        let key = |text: &str| named_pod(text).map(|pod| pod.key("team").to_string());
        assert_eq!(key("web-0"), Ok("team/web-0".to_owned()));
        assert_eq!(key("shop/web-0"), Ok("shop/web-0".to_owned()));
        for wrong in ["", "/web-0", "shop/", "a/b/c"] {
            assert!(key(wrong).is_err(), "{wrong:?}");
        }
        let nowhere = named_pod("web-0").map(|pod| pod.key("").to_string());
        assert_eq!(nowhere, Ok("default/web-0".to_owned()));
    }
}
