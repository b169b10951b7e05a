//! Explains decisions about pods: of an attempt that was made, or of a hypothetical one.

use std::collections::BTreeSet;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::{
    AttemptEnd, AttemptOutcome, ClusterEvent, Code, Description, PodInfo, Point, Scope, View,
};

use crate::cycle::{self, Cycle, CycleResult};
use crate::decision::{BestNode, BestNodes, Decision, NodeDecision, NodeVerdict, Outcome};
use crate::metrics::CycleMeter;
use crate::pick::TieBreaker;
use crate::profile::Profile;
use crate::queue::{QueuePlace, QueuedPodInfo};
use crate::scheduler::{Detail, Scheduler};
use crate::unit::{Member, Snapshot};

impl Scheduler {
    /// Decides a pending pod with details of every node, and changes nothing. Extenders are not called.
    /// `None` if the pod is not pending: it is unknown, or already has a node.
    pub fn explain(&self, pod: &PodKey) -> Option<Decision> {
        self.explain_by(pod, Self::profile_of)
    }

    /// The same as if the pod belonged to `profile`, which need not be a profile of this scheduler.
    pub fn explain_under(&self, profile: &Profile, pod: &PodKey) -> Option<Decision> {
        self.explain_by(pod, |_, _| profile)
    }

    /// A pod that has no node, or is not bound to it yet, with its place in the queue.
    pub fn queued_pod(&self, pod: &PodKey) -> Option<&QueuedPodInfo> {
        self.queue.get(self.names.find(pod)?)
    }

    /// The node for which a preemption has made room, or makes it, for a pending pod.
    pub fn nominated_node(&self, pod: &PodKey) -> Option<&Str> {
        self.nominated.node_of(pod)
    }

    /// The scheduler names of all profiles.
    pub fn profile_names(&self) -> Vec<String> {
        self.profiles.iter().map(|profile| profile.scheduler_name.clone()).collect()
    }

    /// The events after which a pod is tried again that these plugins have rejected. With `scheduler_name` goes the profile.
    /// Not every such event wakes it: plugins look at what has changed.
    pub fn events_for(&self, scheduler_name: &str, plugins: &[&str]) -> BTreeSet<ClusterEvent> {
        let profile = self.profiles.get(scheduler_name).into_iter();
        let all = profile.flat_map(Profile::plugins);
        let rejectors = all.filter(|plugin| plugins.contains(&plugin.name));
        rejectors.flat_map(|plugin| plugin.events().iter().copied()).collect()
    }

    /// A pending pod.
    pub(crate) fn pending_pod(&self, pod: &PodKey) -> Option<&QueuedPodInfo> {
        let info = self.queue.get(self.names.find(pod)?)?;
        (info.place != QueuePlace::InFlight).then_some(info)
    }

    fn explain_by<'a>(
        &'a self,
        pod: &PodKey,
        profile_of: impl FnOnce(&'a Self, &PodInfo) -> &'a Profile,
    ) -> Option<Decision> {
        let info = self.pending_pod(pod)?;
        let profile = profile_of(self, &info.pod);
        let mut gate = None;
        if let QueuePlace::Gated { why, plugin } = &info.place {
            // A plugin that also stands at PreFilter repeats itself there.
            let repeats = profile.at(Point::PreFilter).any(|(one, _)| one.name == *plugin);
            if !repeats {
                let (message, attempt) = (why.to_string(), info.attempts + 1);
                let outcome =
                    Outcome::Unschedulable { message, pre_filter: None, nomination: None };
                return Some(Decision::of_pod(pod.clone(), attempt, outcome));
            }
            gate = Some((Str::from(*plugin), why.clone()));
        }
        let (view, mut rng) = (self.cache.view(), self.rng.clone());
        let chance = &mut TieBreaker { tie_break: self.options.tie_break, rng: &mut rng };
        let sample = self.sample(profile);
        let (member, meter) = (Member { profile, pod: &info.pod }, CycleMeter::default());
        let on = Snapshot::of(view, &self.nominated);
        let cycle = cycle::schedule(member, on, &sample, chance, meter);
        let described = described(profile, &info.pod, &cycle, view, Detail::Nodes);
        let decision = decision(pod, info.attempts + 1, &cycle, view, Detail::Nodes);
        Some(Decision { pre_enqueue: gate, described, ..decision })
    }
}

/// Converts a cycle to a decision.
pub(crate) fn decision(
    pod: &PodKey,
    attempt: u32,
    cycle: &Cycle,
    view: View<'_>,
    detail: Detail,
) -> Decision {
    let outcome = match &cycle.result {
        CycleResult::Found { row, best } => {
            let node = view.nodes.name_of(*row).clone();
            let best = match detail {
                Detail::None | Detail::Choice => Vec::new(),
                Detail::Outcome | Detail::Nodes => cycle::names(view.nodes, best),
            };
            Outcome::Scheduled { node, best }
        }
        CycleResult::Unschedulable(failure) => Outcome::Unschedulable {
            message: failure.record.as_ref().unwrap_or(&failure.message).clone(),
            pre_filter: failure
                .pre_filter
                .as_ref()
                .map(|(plugin, why)| (Str::from(*plugin), why.clone())),
            nomination: failure.nomination.clone(),
        },
        CycleResult::Error(message) => Outcome::Error { message: message.clone() },
    };
    let nodes = match detail {
        Detail::Nodes => nodes(cycle, view),
        Detail::None | Detail::Choice | Detail::Outcome => Vec::new(),
    };
    Decision { nodes, ..Decision::of_pod(pod.clone(), attempt, outcome) }
}

/// As many of the best nodes are kept for recorders.
const MOST_BEST: usize = 3;

/// The best nodes of a cycle that has scored all feasible nodes: the chosen one, then the others with the highest totals.
pub(crate) fn best_nodes(cycle: &Cycle, view: View<'_>) -> Option<BestNodes> {
    let (CycleResult::Found { row: chosen, .. }, Some(scores)) = (&cycle.result, &cycle.scores)
    else {
        return None;
    };
    let chosen = cycle.feasible.iter().position(|row| row == chosen)?;
    let mut best: Vec<usize> = vec![chosen];
    // One pass over the totals, since there may be thousands: an insertion is rare.
    for (index, total) in scores.totals.iter().enumerate() {
        if index == chosen {
            continue;
        }
        let place = best[1..].iter().position(|&other| scores.totals[other] < *total);
        match place {
            Some(place) => best.insert(place + 1, index),
            None if best.len() < MOST_BEST => best.push(index),
            None => continue,
        }
        best.truncate(MOST_BEST);
    }
    let margin = best.get(1).map(|&second| scores.totals[chosen] - scores.totals[second]);
    let nodes = best.into_iter().map(|index| BestNode {
        name: view.nodes.name_of(cycle.feasible[index]).clone(),
        total: scores.totals[index],
        scores: scores.plugins.iter().map(|(name, all)| (name.clone(), all[index])).collect(),
    });
    Some(BestNodes { margin, nodes: nodes.collect() })
}

/// What plugins add to the record of a decision.
pub(crate) fn described(
    profile: &Profile,
    pod: &PodInfo,
    cycle: &Cycle,
    view: View<'_>,
    detail: Detail,
) -> Description {
    let mut described = Description::default();
    let outcome = match &cycle.result {
        CycleResult::Found { row, .. } => AttemptOutcome::Node(*row),
        CycleResult::Unschedulable(_) => AttemptOutcome::NoNode,
        CycleResult::Error(_) => AttemptOutcome::Error,
    };
    let scope = if detail == Detail::Nodes { Scope::Nodes } else { Scope::Decision };
    let end =
        AttemptEnd { pod, view, outcome, feasible: &cycle.feasible, rejected: &cycle.rejected };
    for plugin in profile.plugins() {
        if let Some(point) = &plugin.points.describe {
            point.describe(&end, scope, &mut described);
        }
    }
    described
}

/// Every node, by name. A rejection of the pod for all nodes is not repeated here.
pub(crate) fn nodes(cycle: &Cycle, view: View<'_>) -> Vec<NodeDecision> {
    let for_all = matches!(&cycle.result, CycleResult::Unschedulable(f) if f.pre_filter.is_some());
    let mut nodes: Vec<NodeDecision> = Vec::new();
    for node in &cycle.rejected {
        let verdict = match for_all {
            true => NodeVerdict::NotJudged,
            false => NodeVerdict::Rejected {
                plugin: node.plugin.into(),
                code: node.rejection.code,
                // As in runtime/framework.go, RunFilterPlugins: an error names the plugin.
                reasons: match node.rejection.code {
                    Code::Error => vec![cycle::filter_error(node).into()],
                    _ => node.rejection.reasons.to_vec(),
                },
            },
        };
        nodes.push(NodeDecision { name: view.nodes.name_of(node.row).clone(), verdict });
    }
    for (i, &row) in cycle.feasible.iter().enumerate() {
        let verdict = cycle.scores.as_ref().map_or(NodeVerdict::Only, |scores| {
            let of_plugin = scores.plugins.iter().map(|(name, all)| (name.clone(), all[i]));
            NodeVerdict::Scored { scores: of_plugin.collect(), total: scores.totals[i] }
        });
        nodes.push(NodeDecision { name: view.nodes.name_of(row).clone(), verdict });
    }
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}
