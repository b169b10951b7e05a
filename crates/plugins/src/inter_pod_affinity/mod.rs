//! InterPodAffinity: affinity and anti-affinity between pods.
//!
//! `filter` judges by required terms, `score` by preferred ones, and `requeue` says when a rejected
//! pod is worth another attempt. All three ask `terms` whom a term speaks of.

mod by_domain;
mod filter;
mod requeue;
mod score;
mod subject;
mod tally;
mod terms;

use plimsoll_framework::prelude::*;
use serde::Deserialize;

const AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING_ANTI_AFFINITY: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// Rejects nodes in whose topology domains a pod must not run for the sake of the pods there, and
/// prefers domains with pods that it likes, or that like it.
///
/// A domain is all nodes with the same value of a label. Three rules reject, asked in this order:
///
/// 1. each required affinity term of the pod needs, in its domain of the node, a pod that meets *all*
///    required affinity terms. The first pod of a group that wants its own kind could never start, so
///    these terms are waived while no pod meets them anywhere and the pod itself does;
/// 2. no required anti-affinity term of the pod may speak of a pod in its domain of the node;
/// 3. no required anti-affinity term of a pod in its domain of the node may speak of the pod.
///
/// The score adds up, over the domains of a node, the weights of all preferred terms that speak of a
/// pod there, the pod's own and those of the others about it; anti-affinity counts against the node.
/// A required affinity term of another pod about this one counts too, with
/// [`hard_pod_affinity_weight`](InterPodAffinityArgs::hard_pod_affinity_weight).
///
/// ```yaml
/// kind: Pod
/// metadata: {labels: {app: db}}
/// spec:
///   affinity:
///     podAntiAffinity:   # no two of them in one zone
///       requiredDuringSchedulingIgnoredDuringExecution:
///       - topologyKey: topology.kubernetes.io/zone
///         labelSelector: {matchLabels: {app: db}}
/// ```
#[derive(Debug)]
pub struct InterPodAffinity(InterPodAffinityArgs);

/// What to make of the terms of other pods in scoring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct InterPodAffinityArgs {
    /// The weight of another pod's required affinity term that speaks of the pod: 0 to 100, and 1 if
    /// not given.
    pub hard_pod_affinity_weight: i32,
    /// Whether a pod without preferred terms of its own gets no scores.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        InterPodAffinityArgs {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
        }
    }
}

impl Plugin for InterPodAffinity {
    const NAME: &'static str = "InterPodAffinity";
    type Args = InterPodAffinityArgs;

    fn new(args: InterPodAffinityArgs, _: &FeatureGates) -> Self {
        InterPodAffinity(args)
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<InterPodAffinity>()
        .pre_filter()
        .filter_by_counts()
        .pre_score()
        .score_by_counts()
        .requeue()
        .done()
}

#[cfg(test)]
mod tests;
