//! What a cluster holds that is not judged yet as kube-scheduler would.

use std::collections::BTreeSet;

use plimsoll_api::{Pod, PodPhase, PreemptionPolicy, Str};
use plimsoll_framework::{PodInfo, Registry, View};
use plimsoll_sim::Cluster;

use crate::notices;
use crate::wording::{count, some_of};

/// How many names stand in a warning.
const NAMES: usize = 3;

/// Warns of pods with volumes if no plugin in `registry` judges those, and of pods on nodes that are
/// not there.
pub(crate) fn before(cluster: &Cluster, registry: &Registry) {
    if registry.get("VolumeBinding").is_none() {
        let claiming = |pod: &&Pod| is_pending(pod) && !pod.volume_claims.is_empty();
        tell(
            cluster.pods.iter().filter(claiming),
            "with PersistentVolumeClaims: which nodes their volumes allow is not judged yet",
        );
    }
    let nodes: BTreeSet<&Str> = cluster.nodes.iter().map(|node| &node.name).collect();
    let lost = |pod: &&Pod| {
        is_there(pod) && pod.node_name.as_ref().is_some_and(|node| !nodes.contains(node))
    };
    tell(cluster.pods.iter().filter(lost), "on nodes that are not in the files");
}

/// Warns of those of the `failed` pods for which kube-scheduler might evict others, if no plugin in
/// `registry` does that.
pub(crate) fn after<'a>(
    failed: impl IntoIterator<Item = &'a PodInfo>,
    view: View<'_>,
    registry: &Registry,
) {
    if registry.get("DefaultPreemption").is_some() {
        return;
    }
    let placed = view.nodes.rows().flat_map(|row| view.nodes.pods_on(row).iter());
    let lowest = placed.map(|pod| pod.priority).min();
    let may_evict = |pod: &&Pod| {
        pod.preemption_policy == PreemptionPolicy::PreemptLowerPriority
            && lowest.is_some_and(|lowest| lowest < pod.priority)
    };
    tell(
        failed.into_iter().map(|pod| &**pod).filter(may_evict),
        "might evict others of lower priority: preemption is not judged yet",
    );
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
