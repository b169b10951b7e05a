//! How many pods and nodes there are, and how much is used.

use std::collections::BTreeMap;

use plimsoll_api::{Effect, Resources, Str};
use serde::Serialize;

use crate::counts::Counts;
use crate::picture::{PodState, Views};

/// At most so many reasons are listed.
const MOST_REASONS: usize = 20;

/// How many pods and nodes there are, and how much is used.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    as_of: String,
    views: Views,
    nodes: NodeCounts,
    /// How many pods are in each state.
    pods: BTreeMap<&'static str, usize>,
    /// What the nodes have and what pods request, by resource.
    resources: Vec<Usage>,
    zones: Vec<ZoneUsage>,
    /// Why pods are pending, the most frequent first.
    reasons: Vec<PendingReason>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeCounts {
    all: usize,
    /// Those that are cordoned.
    unschedulable: usize,
    /// Those with a taint that keeps pods off.
    tainted: usize,
}

/// How much of a resource there is, and how much pods request.
#[derive(Debug, Serialize)]
pub(crate) struct Usage {
    name: Str,
    allocatable: i64,
    requested: i64,
}

#[derive(Debug, Serialize)]
struct ZoneUsage {
    /// Empty for nodes without a zone.
    zone: Str,
    nodes: usize,
    pods: usize,
    resources: Vec<Usage>,
}

#[derive(Debug, Serialize)]
struct PendingReason {
    reason: String,
    pods: usize,
}

impl Usage {
    /// The usage of each of these resources.
    pub(crate) fn of(names: &[Str], allocatable: &Resources, requested: &Resources) -> Vec<Self> {
        let usage = |name: &Str| Usage {
            name: name.clone(),
            allocatable: allocatable.get(name),
            requested: requested.get(name),
        };
        names.iter().map(usage).collect()
    }
}

/// The overview of a cluster.
pub(crate) fn overview(counts: &Counts) -> Overview {
    let number = |state: &PodState| counts.pods.states.get(state).copied().unwrap_or(0);
    let pods = PodState::ALL.iter().map(|state| (state.as_str(), number(state)));
    let mut nodes = NodeCounts { all: counts.nodes.len(), ..NodeCounts::default() };
    let mut all = (Resources::default(), Resources::default());
    let mut zones = BTreeMap::<Str, (usize, usize, Resources, Resources)>::new();
    for node in &counts.nodes {
        nodes.unschedulable += usize::from(node.node.unschedulable);
        let keeps_off = |effect| matches!(effect, Effect::NoSchedule | Effect::NoExecute);
        let is_tainted = node.node.taints.iter().any(|taint| keeps_off(taint.effect));
        nodes.tainted += usize::from(is_tainted);
        all.0.add(&node.node.allocatable);
        all.1.add(&node.requested);
        let zone = zones.entry(node.zone().cloned().unwrap_or_default()).or_default();
        zone.0 += 1;
        zone.1 += node.n_pods;
        zone.2.add(&node.node.allocatable);
        zone.3.add(&node.requested);
    }
    let names = &counts.resources;
    let zones = zones.into_iter().map(|(zone, (nodes, pods, allocatable, requested))| ZoneUsage {
        zone,
        nodes,
        pods,
        resources: Usage::of(names, &allocatable, &requested),
    });
    Overview {
        as_of: counts.as_of(),
        views: counts.views,
        nodes,
        pods: pods.collect(),
        resources: Usage::of(names, &all.0, &all.1),
        zones: zones.collect(),
        reasons: reasons(counts),
    }
}

fn reasons(counts: &Counts) -> Vec<PendingReason> {
    let reasons = counts.pods.reasons.iter();
    let reasons = reasons.map(|(reason, &pods)| PendingReason { reason: reason.clone(), pods });
    let mut reasons: Vec<PendingReason> = reasons.collect();
    reasons.sort_by_key(|one| std::cmp::Reverse(one.pods));
    reasons.truncate(MOST_REASONS);
    reasons
}
