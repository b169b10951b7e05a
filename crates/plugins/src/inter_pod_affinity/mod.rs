//! InterPodAffinity: affinity and anti-affinity between pods.
//!
//! `filter` evaluates required terms, `score` preferred ones, and `requeue` says when to try a rejected
//! pod again. All three use `terms` to match terms with pods.

mod by_domain;
mod filter;
mod incoming_pod;
mod requeue;
mod rule_counts;
mod score;
mod terms;

use plimsoll_framework::prelude::*;
use serde::{Deserialize, Serialize};

const AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING_ANTI_AFFINITY: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// Rejects nodes in whose topology domains the pod must not run because of other pods, and prefers
/// domains with pods that it prefers, or that prefer it.
///
/// A domain is all nodes with the same value of a label. Three rules reject nodes, in this order:
///
/// 1. for each required affinity term of the pod, the domain of the node must have a pod that matches
///    *all* required affinity terms. The first pod of a group with affinity to itself could never
///    start, so these terms are waived as long as no pod matches them anywhere and the pod itself does;
/// 2. no required anti-affinity term of the pod may match a pod in the domain of the node;
/// 3. no required anti-affinity term of a pod in the domain of the node may match the pod.
///
/// The score adds up, over the domains of a node, the weights of all preferred terms of the pod that
/// match a pod there, and of all preferred terms of pods there that match the pod. Anti-affinity counts
/// negatively. A required affinity term of another pod that matches the pod counts, too, with
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct InterPodAffinityArgs {
    #[serde(skip_serializing)]
    api_version: String,
    #[serde(skip_serializing)]
    kind: String,
    /// The weight of another pod's required affinity term that speaks of the pod: 0 to 100, and 1 if
    /// not given.
    pub hard_pod_affinity_weight: i32,
    /// Whether a pod without preferred terms is not scored.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        InterPodAffinityArgs {
            api_version: String::new(),
            kind: String::new(),
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

    /// As in validation_pluginargs.go, ValidateInterPodAffinityArgs.
    fn validate(args: &InterPodAffinityArgs, _: &FeatureGates, faults: &mut ArgsFaults) {
        let weight = args.hard_pod_affinity_weight;
        if !(0..=100).contains(&weight) {
            let field = ArgsField::default().key("hardPodAffinityWeight");
            faults.invalid(field, weight, "not in valid range [0, 100]");
        }
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
        .shows_args()
        .done()
}

#[cfg(test)]
mod tests;
