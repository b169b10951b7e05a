//! What was found: the report of a shadow.

use std::collections::{BTreeMap, VecDeque};

use plimsoll_api::Str;
use serde::Serialize;

use crate::balance::Balance;
use crate::configurations::Differences;
use crate::disagreement::Disagreement;
use crate::histogram::Durations;

/// Everything that was found so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The scheduler names whose pods are compared.
    pub scheduler_names: Vec<String>,
    /// When the comparison began, in RFC 3339; `None` if the cluster was not known completely yet.
    pub began: Option<String>,
    /// When this report was made.
    pub ended: String,
    /// How long that was.
    pub seconds: u64,
    /// How the choices of the other scheduler compare with the decisions of each configuration: one, or two.
    pub configurations: Vec<Configuration>,
    /// How the decisions of two configurations compare with each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_configurations: Option<Differences>,
    /// Pods that were first seen on a node, so that they could not be compared.
    pub not_seen_pending: u64,
    /// How long pods were pending until the other scheduler bound them.
    pub pending_time: Durations,
    /// The pods that are pending now.
    pub still_pending: StillPending,
    /// The share of all resources that pods request, as the other scheduler has placed them.
    pub utilisation: BTreeMap<Str, f64>,
    /// How evenly the pods are spread, as the other scheduler has placed them.
    pub balance: Balance,
    /// The cluster as our decisions would have made it, if it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub our_cluster: Option<OurCluster>,
    /// The latest disagreements.
    pub disagreements: VecDeque<Disagreement>,
    /// How many disagreements are not in the list any more.
    pub disagreements_dropped: u64,
    /// How far the comparison can be trusted.
    pub limits: Vec<String>,
}

/// A cluster in which our placements stand.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OurCluster {
    /// How often a pod was placed.
    pub placed: u64,
    /// The pods that are on another node than in the cluster that is followed.
    pub elsewhere: u64,
    /// The pods that are pending.
    pub still_pending: u64,
    /// Those of them that the other scheduler has placed.
    pub pending_only_here: u64,
    /// How long pods were pending until there was room for them. A decision takes no time.
    pub pending_time: Durations,
    /// The share of all resources that pods request.
    pub utilisation: BTreeMap<Str, f64>,
    /// How evenly the pods are spread.
    pub balance: Balance,
}

/// What one configuration says of the choices of the other scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// Its name: the file, or `default`.
    pub name: String,
    /// The release whose decisions are made.
    pub release: String,
    /// Counts of pods.
    pub pods: Agreement,
    /// By how much nodes were worse: the median, in points of the weighted scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_margin: Option<u64>,
    /// The largest margin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_margin: Option<u64>,
    /// Which plugins made nodes worse, the most frequent first.
    pub worse_by: Vec<WorseBy>,
    /// By which rules nodes were infeasible, the most frequent first.
    pub infeasible_by: Vec<InfeasibleBy>,
}

/// Counts of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Agreement {
    /// The pods that were compared when they were bound.
    pub compared: u64,
    /// They are on the best node.
    pub same: u64,
    /// They are on one of several nodes that are equally good.
    pub tie: u64,
    /// Those of `same` and `tie` that agree only if bindings of about the same time came in another order.
    pub reordered: u64,
    /// Another node has a higher score.
    pub worse: u64,
    /// A plugin rejects their node, and they would be on another one.
    pub infeasible: u64,
    /// They would be on no node: a plugin rejects theirs, or their group does not fit.
    pub unschedulable: u64,
    /// The choice could not be judged.
    pub unjudged: u64,
    /// How often the other scheduler said that a pod fits nowhere, and so it was.
    pub both_pending: u64,
    /// How often the other scheduler said that a pod fits nowhere, although it fits.
    pub pending_although_fits: u64,
}

impl Agreement {
    /// The pods that are on nodes that are as good as ours.
    pub fn agreed(&self) -> u64 {
        self.same + self.tie
    }

    /// The pods that were judged.
    pub fn judged(&self) -> u64 {
        self.compared - self.unjudged
    }
}

/// A plugin that makes nodes worse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorseBy {
    /// The plugin.
    pub plugin: Str,
    /// The pods for which it makes the greatest difference.
    pub pods: u64,
    /// The mean of its difference, in points of its weighted score.
    pub mean_points: i64,
}

/// A rule by which nodes are infeasible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InfeasibleBy {
    /// The plugin.
    pub plugin: Str,
    /// Its reasons.
    pub reason: String,
    /// The pods on nodes that it rejects.
    pub pods: u64,
}

/// The pods that are pending now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StillPending {
    /// How many there are.
    pub pods: u64,
    /// Those of which the other scheduler says that they fit nowhere.
    pub said_unschedulable: u64,
    /// Those that a plugin keeps out of the queue.
    pub gated: u64,
    /// The gangs of which fewer pods are on nodes than their `minCount`, while others of them are pending.
    #[serde(skip_serializing_if = "is_zero")]
    pub gangs_in_part: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
