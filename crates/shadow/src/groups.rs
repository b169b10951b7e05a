//! Decides the pending pods of a group as a group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::pod_group::GroupPolicy;
use plimsoll_api::{ObjectKey, Pod, PodGroup, PodKey, Str};
use plimsoll_engine::{
    Decision, GivenNodes, GroupDecision, GroupResult, MemberDecision, MemberResult, NodeVerdict,
    PlacementDecision, Scheduler, TransactionError,
};
use plimsoll_framework::pod_groups::{PodGroupState, group_of};
use plimsoll_framework::{GroupForest, GroupRef, GroupRules, Time};

use crate::comparison::{Comparison, Reordering, Verdict, agrees_with, points};

/// What rejects a choice that breaks a rule of a group, in place of a plugin.
pub(crate) const OF_GROUP: &str = "PodGroup";
/// The verdicts on so many nodes are kept at a time: each takes a few hundred bytes.
const MOST_VERDICTS: usize = 200_000;

/// A group with a pending pod.
#[derive(Clone, Debug)]
pub(crate) struct PendingGroup {
    group: ObjectKey,
    /// All pods of the group, or of its tree, pending ones and others.
    pub(crate) pods: BTreeSet<PodKey>,
}

impl PendingGroup {
    /// The group of a pod, if there is one that is decided as a group.
    pub(crate) fn of(scheduler: &Scheduler, pod: &PodKey) -> Option<Self> {
        if !scheduler.schedules_groups() {
            return None;
        }
        let group = group_of(&scheduler.queued_pod(pod)?.pod)?;
        let (stores, gates) = (scheduler.view().stores, scheduler.group_gates());
        let leaves = match gates.rules {
            GroupRules::V1_36 => vec![group.clone()],
            GroupRules::V1_37 => {
                let forest = GroupForest::of(stores, gates);
                let root = forest.root(&group);
                forest.leaves(&root.unwrap_or_else(|_| GroupRef::Pods(group.clone())))
            }
        };
        let states = leaves.iter().chain([&group]).filter_map(|leaf| stores.groups.get(leaf));
        let pods = states.flat_map(PodGroupState::pods).cloned().collect();
        Some(PendingGroup { group, pods })
    }

    /// As `namespace/name`.
    pub(crate) fn name(&self) -> String {
        self.group.to_string()
    }

    /// The pending pods of the group itself. Those of other groups in its tree are decided with it as they are known.
    fn members(&self, scheduler: &Scheduler) -> Vec<Arc<Pod>> {
        let pending = self.pods.iter().filter_map(|pod| scheduler.queued_pod(pod));
        let own = pending.filter(|info| group_of(&info.pod).as_ref() == Some(&self.group));
        let own = own.filter(|info| !info.pod.is_terminating());
        own.map(|info| info.pod.seen().clone()).collect()
    }

    /// What would be decided about the group, with pods that the other scheduler has bound on their nodes.
    pub(crate) fn decide(
        &self,
        scheduler: &mut Scheduler,
        now: Time,
        reordering: &Reordering,
        given: &GivenNodes,
    ) -> Result<GroupDecision, TransactionError> {
        let members = self.members(scheduler);
        scheduler.transaction(now, |transaction| {
            reordering.apply(transaction);
            transaction.decide_group_with(now, &self.group, members, given)
        })
    }

    /// Compares the nodes of pending pods of the group with the decision about the group on the present state, or else on one of
    /// the states after `reorderings`. These count only if all pods agree then: a group is one choice.
    pub(crate) fn compare(
        &self,
        scheduler: &mut Scheduler,
        now: Time,
        theirs: &BTreeMap<PodKey, Str>,
        reorderings: &dyn Fn() -> Vec<Reordering>,
    ) -> BTreeMap<PodKey, Comparison> {
        let mut given = GivenNodes { nodes: theirs.clone(), ..GivenNodes::default() };
        let first = match self.decide(scheduler, now, &Reordering::default(), &given) {
            Ok(first) => first,
            Err(error) => return unjudged(theirs, &error.to_string()),
        };
        let mut comparisons = BTreeMap::new();
        let mut open = BTreeSet::new();
        for (pod, node) in theirs {
            match agreement(&first, pod, node) {
                Some(verdict) => {
                    comparisons.insert(pod.clone(), comparison(&first, pod, verdict, 0));
                }
                None => drop(open.insert(pod.clone())),
            }
        }
        if open.is_empty() {
            return comparisons;
        }
        for reordering in reorderings() {
            let Ok(decision) = self.decide(scheduler, now, &reordering, &given) else { continue };
            let verdicts = theirs.iter().map(|(pod, node)| agreement(&decision, pod, node));
            let verdicts: Option<Vec<Verdict>> = verdicts.collect();
            for (pod, verdict) in theirs.keys().zip(verdicts.unwrap_or_default()) {
                if open.remove(pod) {
                    let moved = reordering.len();
                    comparisons.insert(pod.clone(), comparison(&first, pod, verdict, moved));
                }
            }
            if open.is_empty() {
                return comparisons;
            }
        }
        let open: Vec<PodKey> = open.into_iter().collect();
        let at_a_time = MOST_VERDICTS / scheduler.view().nodes.len().max(1);
        for some in open.chunks(at_a_time.max(1)) {
            given.in_detail = some.iter().cloned().collect();
            let decision = self.decide(scheduler, now, &Reordering::default(), &given);
            for pod in some {
                let leaf = scheduler.queued_pod(pod).and_then(|info| group_of(&info.pod));
                let verdict = match &decision {
                    Ok(decision) => verdict(decision, leaf.as_ref(), (pod, &theirs[pod])),
                    Err(error) => Verdict::Unjudged { why: error.to_string() },
                };
                comparisons.insert(pod.clone(), comparison(&first, pod, verdict, 0));
            }
        }
        comparisons
    }

    /// The best nodes of each pending pod of the group on all states: then the other scheduler is wrong if it says that the pod
    /// fits nowhere. They are empty if the pod would stay pending on one of them.
    pub(crate) fn would_fit(
        &self,
        scheduler: &mut Scheduler,
        now: Time,
        reorderings: &dyn Fn() -> Vec<Reordering>,
    ) -> BTreeMap<PodKey, Vec<Str>> {
        let pending = self.pods.iter().filter(|pod| scheduler.queued_pod(pod).is_some());
        let mut fits: BTreeMap<PodKey, Vec<Str>> =
            pending.map(|pod| (pod.clone(), Vec::new())).collect();
        let given = GivenNodes::default();
        let first = self.decide(scheduler, now, &Reordering::default(), &given);
        let Some(first) = first.ok().filter(|first| first.result == GroupResult::Scheduled) else {
            return fits;
        };
        for (pod, best) in &mut fits {
            best.extend(best_of(&first, pod).into_iter().flatten().cloned());
        }
        for reordering in reorderings() {
            let decision = self.decide(scheduler, now, &reordering, &given).ok();
            for (pod, best) in &mut fits {
                if decision.as_ref().and_then(|decision| best_of(decision, pod)).is_none() {
                    best.clear();
                }
            }
        }
        fits
    }
}

/// How many gangs have fewer pods on nodes than their `minCount`, while others of their pods are pending.
pub(crate) fn gangs_in_part(scheduler: &Scheduler) -> u64 {
    let stores = scheduler.view().stores;
    let in_part = stores.of::<PodGroup>().iter().filter(|group| {
        let GroupPolicy::Gang { min_count } = group.policy else { return false };
        let Some(state) = stores.groups.get(&group.key) else { return false };
        let (n_placed, min_count) =
            (state.n_placed(), usize::try_from(min_count).unwrap_or(usize::MAX));
        0 < n_placed && n_placed < min_count && n_placed < state.n_pods()
    });
    u64::try_from(in_part.count()).unwrap_or(u64::MAX)
}

fn unjudged(theirs: &BTreeMap<PodKey, Str>, why: &str) -> BTreeMap<PodKey, Comparison> {
    let comparison = Comparison {
        verdict: Verdict::Unjudged { why: why.to_owned() },
        moved: 0,
        best: Vec::new(),
        message: Some(why.to_owned()),
    };
    theirs.keys().map(|pod| (pod.clone(), comparison.clone())).collect()
}

fn member<'a>(decision: &'a GroupDecision, pod: &PodKey) -> Option<&'a MemberDecision> {
    decision.pods.iter().find(|member| member.pod == *pod)
}

/// The best nodes of a member that is scheduled.
fn best_of<'a>(decision: &'a GroupDecision, pod: &PodKey) -> Option<&'a [Str]> {
    match &member(decision, pod)?.result {
        MemberResult::Scheduled { best, .. } => Some(best),
        _ => None,
    }
}

/// The verdict if the decision about the group agrees with the node of a member.
fn agreement(decision: &GroupDecision, pod: &PodKey, node: &str) -> Option<Verdict> {
    agrees_with(best_of(decision, pod)?, node)
}

/// A comparison with the decision on the state as it was seen.
fn comparison(first: &GroupDecision, pod: &PodKey, verdict: Verdict, moved: usize) -> Comparison {
    let message = match member(first, pod).map(|member| &member.result) {
        Some(MemberResult::Scheduled { .. }) => None,
        Some(MemberResult::Unschedulable { message, .. } | MemberResult::Error { message }) => {
            Some(message.clone())
        }
        Some(MemberResult::Skipped) | None => first.message.clone(),
    };
    let best = best_of(first, pod).unwrap_or_default().to_vec();
    Comparison { verdict, moved, best, message }
}

/// Compares the node of a member of the PodGroup `leaf` with a decision about its group that has every node of the member.
fn verdict(
    decision: &GroupDecision,
    leaf: Option<&ObjectKey>,
    (pod, node): (&PodKey, &Str),
) -> Verdict {
    let of_group =
        || decision.message.clone().unwrap_or_else(|| "no pod of it is tried".to_owned());
    let Some(member) = member(decision, pod) else {
        return Verdict::GroupUnfit { why: of_group() };
    };
    let Some(own) = member.as_decision() else {
        return Verdict::Unjudged { why: "the pod is being deleted".to_owned() };
    };
    let own = Decision { nodes: member.nodes.clone(), ..own };
    let judged = own.nodes.iter().find(|one| one.name == *node).map(|one| &one.verdict);
    match (&member.result, judged) {
        (MemberResult::Unschedulable { .. }, Some(NodeVerdict::Rejected { .. }))
        | (MemberResult::Scheduled { .. } | MemberResult::Error { .. }, Some(_)) => {
            Verdict::of(&own, node)
        }
        (MemberResult::Unschedulable { message, .. }, _) => {
            let is_scheduled = decision.result == GroupResult::Scheduled;
            Verdict::GroupUnfit { why: if is_scheduled { message.clone() } else { of_group() } }
        }
        (MemberResult::Scheduled { node: ours, .. }, None) => {
            let leaf = decision.groups.iter().find(|one| Some(&one.group) == leaf);
            let in_leaf =
                leaf.and_then(|leaf| of_placement(leaf.placement.as_ref(), &leaf.placements, ours));
            let in_root = || of_placement(decision.placement.as_ref(), &decision.placements, ours);
            in_leaf.or_else(in_root).unwrap_or_else(|| Verdict::of(&own, node))
        }
        _ => Verdict::of(&own, node),
    }
}

/// Compares placements of a group: of the one with the nodes of the other scheduler, and of ours. `node` is ours for the pod. `None`
/// if both are the same.
fn of_placement(chosen: Option<&Str>, all: &[PlacementDecision], node: &Str) -> Option<Verdict> {
    let chosen = all.iter().find(|one| Some(&one.name) == chosen)?;
    if chosen.holds_given {
        return None;
    }
    let infeasible = |reason: String| Verdict::Infeasible {
        plugin: Str::const_new(OF_GROUP),
        reasons: vec![reason],
        ours: Some(node.clone()),
    };
    let Some(theirs) = all.iter().find(|one| one.holds_given) else {
        let reason = "no placement of the group has the nodes of all its pods";
        return Some(infeasible(reason.to_owned()));
    };
    Some(match (chosen.score, theirs.score) {
        (Some(ours), Some(score)) => Verdict::Worse {
            ours: node.clone(),
            margin: ours - score,
            points: points(&chosen.scores, &theirs.scores),
        },
        _ => infeasible(format!("the group does not fit in {}", theirs.name)),
    })
}
