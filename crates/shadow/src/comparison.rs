//! Compares the node that another scheduler chose with a decision.

use std::sync::Arc;

use plimsoll_api::{Pod, PodKey, Str};
use plimsoll_engine::{
    Decision, Detail, NodeVerdict, Outcome, Scheduler, Transaction, TransactionError,
};
use plimsoll_framework::Time;
use serde::Serialize;

/// How a choice compares with a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the best node.
    Same,
    /// It is one of several nodes that are equally good.
    Tie {
        /// How many there are.
        of: usize,
    },
    /// Another node has a higher score.
    Worse {
        /// The best node whose name comes first.
        ours: Str,
        /// By how much its total is higher.
        margin: i64,
        /// The plugins whose scores make the difference, the greatest first; then those that speak for the choice.
        points: Vec<Points>,
    },
    /// A plugin rejects the node.
    Infeasible {
        /// The plugin.
        plugin: Str,
        /// Its reasons.
        reasons: Vec<String>,
        /// The node that would be chosen; `None` if the pod would stay pending.
        ours: Option<Str>,
    },
    /// The pod would stay pending with its group.
    GroupUnfit {
        /// What is said of the group.
        why: String,
    },
    /// The choice could not be judged.
    Unjudged {
        /// Why.
        why: String,
    },
}

/// The scores of a plugin for two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Points {
    /// The plugin.
    pub plugin: Str,
    /// Its weighted score for our node less that for theirs.
    pub points: i64,
}

impl Verdict {
    /// Whether the choice is as good as ours.
    pub fn agrees(&self) -> bool {
        matches!(self, Verdict::Same | Verdict::Tie { .. })
    }

    /// Compares the choice of `node` with a decision that has every node.
    pub(crate) fn of(decision: &Decision, node: &str) -> Self {
        if let Some(agreement) = agreement(decision, node) {
            return agreement;
        }
        let ours = match &decision.outcome {
            Outcome::Scheduled { best, node, .. } => Some(best.first().unwrap_or(node)),
            Outcome::Unschedulable { .. } => None,
            Outcome::Error { message } => return Verdict::Unjudged { why: message.clone() },
        };
        let of_node = |name: &str| decision.nodes.iter().find(|one| one.name == name);
        match (of_node(node).map(|one| &one.verdict), &decision.outcome) {
            (Some(NodeVerdict::Rejected { plugin, reasons, .. }), _) => Verdict::Infeasible {
                plugin: plugin.clone(),
                reasons: reasons.iter().map(ToString::to_string).collect(),
                ours: ours.cloned(),
            },
            (_, Outcome::Unschedulable { pre_filter: Some((plugin, why)), .. }) => {
                Verdict::Infeasible {
                    plugin: plugin.clone(),
                    reasons: why.reasons.iter().map(ToString::to_string).collect(),
                    ours: None,
                }
            }
            (Some(NodeVerdict::Scored { scores, total }), _) => {
                let best = ours.and_then(|ours| Some((ours, &of_node(ours)?.verdict)));
                match best {
                    Some((ours, NodeVerdict::Scored { scores: best_scores, total: best })) => {
                        Verdict::Worse {
                            ours: ours.clone(),
                            margin: best - total,
                            points: points(best_scores, scores),
                        }
                    }
                    _ => Verdict::Unjudged { why: format!("node {node} was not compared") },
                }
            }
            (None, Outcome::Scheduled { .. }) => {
                let why = format!(
                    "node {node} was not judged: it is not known yet, or the nominated node of the pod fits"
                );
                Verdict::Unjudged { why }
            }
            _ => Verdict::Unjudged { why: format!("node {node} is not known yet") },
        }
    }
}

/// The scores of plugins that differ, those for us first.
pub(crate) fn points<Name: AsRef<str>>(
    ours: &[(Name, i64)],
    theirs: &[(Name, i64)],
) -> Vec<Points> {
    let pairs = ours.iter().zip(theirs);
    let points = pairs.map(|((plugin, ours), (_, theirs))| Points {
        plugin: plugin.as_ref().into(),
        points: ours - theirs,
    });
    let mut points: Vec<Points> = points.filter(|one| one.points != 0).collect();
    points.sort_by(|a, b| (-a.points, &a.plugin).cmp(&(-b.points, &b.plugin)));
    points
}

/// The verdict if a decision agrees with the choice of `node`.
fn agreement(decision: &Decision, node: &str) -> Option<Verdict> {
    let Outcome::Scheduled { best, .. } = &decision.outcome else { return None };
    agrees_with(best, node)
}

/// The verdict if the choice of `node` is one of the best.
pub(crate) fn agrees_with(best: &[Str], node: &str) -> Option<Verdict> {
    if !best.iter().any(|one| one == node) {
        return None;
    }
    Some(if best.len() == 1 { Verdict::Same } else { Verdict::Tie { of: best.len() } })
}

/// Bindings that are moved to where they may have been when the other scheduler decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reordering {
    /// Pods that were seen on their nodes later.
    pub(crate) earlier: Vec<(Arc<Pod>, Str)>,
    /// Pods that were seen on their nodes before.
    pub(crate) later: Vec<PodKey>,
}

impl Reordering {
    /// How many bindings are moved.
    pub(crate) fn len(&self) -> usize {
        self.earlier.len() + self.later.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes the changes. Those that are not possible on the present state are left out.
    pub(crate) fn apply(&self, transaction: &mut Transaction<'_>) {
        for pod in &self.later {
            let _ = transaction.evict(pod);
        }
        for (pod, node) in &self.earlier {
            let _ = transaction.place(pod.clone(), node);
        }
    }
}

/// A comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) verdict: Verdict,
    /// How many bindings had to be moved for the agreement.
    pub(crate) moved: usize,
    /// The best nodes on the state as it was seen; empty if there is none.
    pub(crate) best: Vec<Str>,
    /// The message if there is none.
    pub(crate) message: Option<String>,
}

/// Compares the choice of `node` for a pending pod with the decision on the present state, or else on one of the states
/// after `reorderings`, which are asked for only then.
pub(crate) fn compare(
    scheduler: &mut Scheduler,
    now: Time,
    (pod, node): (&Arc<Pod>, &str),
    reorderings: &dyn Fn() -> Vec<Reordering>,
) -> Comparison {
    let first = decide(scheduler, now, pod, &Reordering::default(), Detail::Outcome);
    let (best, message) = match &first {
        Ok(decision) => outcome_of(decision),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let comparison = |verdict, moved| Comparison {
        verdict,
        moved,
        best: best.clone(),
        message: message.clone(),
    };
    if let Some(verdict) = first.as_ref().ok().and_then(|first| agreement(first, node)) {
        return comparison(verdict, 0);
    }
    for reordering in &reorderings() {
        let decision = decide(scheduler, now, pod, reordering, Detail::Outcome);
        if let Some(verdict) = decision.ok().and_then(|decision| agreement(&decision, node)) {
            return comparison(verdict, reordering.len());
        }
    }
    let verdict = match decide(scheduler, now, pod, &Reordering::default(), Detail::Nodes) {
        Ok(decision) => Verdict::of(&decision, node),
        Err(error) => Verdict::Unjudged { why: error.to_string() },
    };
    comparison(verdict, 0)
}

/// Decides a pod of which the other scheduler says that it fits nowhere. Returns the best nodes if all states have some: then
/// the other scheduler is wrong, as far as can be seen.
pub(crate) fn would_fit(
    scheduler: &mut Scheduler,
    now: Time,
    pod: &Arc<Pod>,
    reorderings: &dyn Fn() -> Vec<Reordering>,
) -> Option<Vec<Str>> {
    let mut best_after = |reordering: &Reordering| {
        let decision = decide(scheduler, now, pod, reordering, Detail::Outcome).ok()?;
        match decision.outcome {
            Outcome::Scheduled { best, .. } => Some(best),
            Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
        }
    };
    let best = best_after(&Reordering::default())?;
    for reordering in &reorderings() {
        best_after(reordering)?;
    }
    Some(best)
}

fn decide(
    scheduler: &mut Scheduler,
    now: Time,
    pod: &Arc<Pod>,
    reordering: &Reordering,
    detail: Detail,
) -> Result<Decision, TransactionError> {
    scheduler.transaction(now, |transaction| {
        reordering.apply(transaction);
        transaction.decide_in_detail(pod.clone(), detail)
    })
}

/// The best nodes, or the message why there is none.
fn outcome_of(decision: &Decision) -> (Vec<Str>, Option<String>) {
    match &decision.outcome {
        Outcome::Scheduled { best, .. } => (best.clone(), None),
        Outcome::Unschedulable { message, .. } | Outcome::Error { message } => {
            (Vec::new(), Some(message.clone()))
        }
    }
}
