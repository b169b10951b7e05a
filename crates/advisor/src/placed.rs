//! Why a pod is on its node.

use plimsoll_engine::{Decision, Detail, NodeVerdict, Scheduler, TransactionError};
use plimsoll_framework::{PodInfo, Time};
use serde::Serialize;

/// The best node besides that of the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerUp {
    /// The node.
    pub node: String,
    /// Its total.
    pub total: i64,
    /// The total of the pod's node less that of this one. It is negative if the pod would go to another node today.
    pub margin: i64,
    /// The plugins whose scores make the difference, the greatest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decided_by: Vec<String>,
}

/// Decides a pod again as if it were not on its node yet.
pub(crate) fn decide_again(
    scheduler: &mut Scheduler,
    now: Time,
    pod: &PodInfo,
) -> Result<Decision, TransactionError> {
    scheduler.transaction(now, |transaction| {
        transaction.evict(&pod.key)?;
        let mut pending = (**pod.seen()).clone();
        pending.node_name = None;
        transaction.decide_in_detail(pending, Detail::Nodes)
    })
}

/// The best node besides `own`, if both were scored.
pub(crate) fn runner_up(decision: &Decision, own: &str) -> Option<RunnerUp> {
    let scored = decision.nodes.iter().filter_map(|node| match &node.verdict {
        NodeVerdict::Scored { scores, total } => Some((&node.name, scores, *total)),
        NodeVerdict::Rejected { .. } | NodeVerdict::NotJudged | NodeVerdict::Only => None,
    });
    let (of_own, others): (Vec<_>, Vec<_>) = scored.partition(|(name, ..)| *name == own);
    let (_, own_scores, own_total) = of_own.into_iter().next()?;
    let best = others.into_iter().min_by_key(|(name, _, total)| (-total, *name));
    let (node, its_scores, total) = best?;
    let margin = own_total - total;
    let differences = own_scores.iter().zip(its_scores).map(|((name, own), (_, other))| {
        let for_winner = if margin < 0 { other - own } else { own - other };
        (for_winner, name)
    });
    let mut decided: Vec<_> = differences.filter(|(by, _)| 0 < *by).collect();
    decided.sort_by_key(|(by, name)| (-by, *name));
    let decided_by = decided.into_iter().map(|(_, name)| name.to_string()).collect();
    Some(RunnerUp { node: node.to_string(), total, margin, decided_by })
}
