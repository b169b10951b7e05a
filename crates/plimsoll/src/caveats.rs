//! Warns about oddities of a cluster that may be mistakes.

use std::collections::BTreeSet;

use plimsoll_api::{Pod, PodPhase, Str};
use plimsoll_sim::InitialCluster;

use crate::notices;
use crate::wording::{count, some_of};

/// A warning lists at most 3 names.
const NAMES: usize = 3;

/// Warns of pods on nodes that are not in the files.
pub(crate) fn before(cluster: &InitialCluster) {
    let nodes: BTreeSet<&Str> = cluster.nodes.iter().map(|node| &node.name).collect();
    let lost = |pod: &&Pod| {
        is_there(pod) && pod.node_name.as_ref().is_some_and(|node| !nodes.contains(node))
    };
    tell(cluster.pods.iter().filter(lost), "on nodes that are not in the files");
}

fn is_there(pod: &Pod) -> bool {
    pod.phase != PodPhase::Ended
}

/// Whether a pod still needs a node.
pub(crate) fn is_pending(pod: &Pod) -> bool {
    is_there(pod) && pod.node_name.is_none()
}

fn tell<'a>(pods: impl Iterator<Item = &'a Pod>, what: &str) {
    let names: Vec<_> = pods.map(|pod| &pod.key).collect();
    if !names.is_empty() {
        let pods = count(names.len(), "pod");
        notices::warning(format_args!("{pods} {what} ({})", some_of(&names, NAMES)));
    }
}
