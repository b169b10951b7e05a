//! A decision about a pod with its reasons: the decision record as a value.

use std::borrow::Cow;
use std::sync::Arc;

use plimsoll_api::{Pod, PodKey, Str};
use plimsoll_framework::{Code, Description, Nomination, Reason, Rejection, Time};

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The pod.
    pub pod: PodKey,
    /// The number of the attempt, starting with 1.
    pub attempt: u32,
    /// The outcome.
    pub outcome: Outcome,
    /// The plugin that keeps the pod out of the queue, with its rejection, if the pod is decided all the same.
    pub pre_enqueue: Option<(Str, Rejection)>,
    /// Every node that was judged, by name; empty unless requested.
    pub nodes: Vec<NodeDecision>,
    /// What plugins add.
    pub described: Description,
    /// How the attempt came about; `None` for a decision that was not an attempt.
    pub context: Option<AttemptContext>,
}

/// How an attempt came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptContext {
    /// Which attempt of the scheduler it is: 1 for the first that is kept, and each has one more than the one before.
    pub sequence: u64,
    /// The pod as it was tried, with its uid and the scheduler name of its profile.
    pub pod: Arc<Pod>,
    /// The [fingerprint](crate::Profile::fingerprint) of its profile.
    pub fingerprint: u64,
    /// What moved the pod to where it could be tried, as `scheduler_queue_incoming_pods_total` calls it.
    pub woken_by: Str,
    /// When the pod was added, or returned after its last attempt.
    pub queued: Time,
    /// When it was first ready to be tried.
    pub first_ready: Option<Time>,
    /// How many nodes were judged.
    pub judged: usize,
    /// The plugins that rejected the pod or nodes, if no node was found.
    pub rejectors: Vec<&'static str>,
    /// Why nodes rejected the pod, each plugin with each of its reasons, if no node was found; empty if the pod was rejected
    /// for all nodes at once. Those that the most nodes have come first, and there are at most 32.
    pub rejections: Arc<[RejectionCount]>,
    /// How many nodes were feasible, if a node was found and that is known.
    pub feasible: Option<usize>,
    /// By how much the total of the chosen node is higher than that of the best other one, if both are known.
    pub margin: Option<i64>,
    /// The best nodes, if the scores of all feasible nodes were computed: in a decision from scratch, or one that was audited.
    pub best: Option<BestNodes>,
}

/// How many nodes a plugin rejected for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectionCount {
    /// The plugin.
    pub plugin: &'static str,
    /// The reason.
    pub reason: Reason,
    /// How many nodes. One that has several reasons counts for each.
    pub nodes: usize,
}

/// The best nodes of a decision with their scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestNodes {
    /// By how much the chosen node was better than the best other one; `None` if there is no other.
    pub margin: Option<i64>,
    /// The chosen node, then the best others: at most three in all.
    pub nodes: Vec<BestNode>,
}

/// A node with its scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestNode {
    /// Its name.
    pub name: Str,
    /// The sum of its scores.
    pub total: i64,
    /// Normalised scores times weight, by plugin.
    pub scores: Vec<(Arc<str>, i64)>,
}

impl Decision {
    /// A decision without details.
    pub fn of_pod(pod: PodKey, attempt: u32, outcome: Outcome) -> Self {
        let (nodes, described) = (Vec::new(), Description::default());
        Decision { pod, attempt, outcome, pre_enqueue: None, nodes, described, context: None }
    }
}

/// The outcome of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A node was found.
    Scheduled {
        /// The node that was chosen among the best.
        node: Str,
        /// All feasible nodes with the highest total, by name; empty for [`Detail::Choice`](crate::Detail::Choice).
        best: Vec<Str>,
    },
    /// No node was found.
    Unschedulable {
        /// The complete message for events and conditions.
        message: String,
        /// The plugin that rejected the pod for all nodes, with its rejection.
        pre_filter: Option<(Str, Rejection)>,
        /// A node on which preemption can make room.
        nomination: Option<Nomination>,
    },
    /// The pod could not be judged.
    Error {
        /// Why.
        message: String,
    },
}

impl Outcome {
    /// The node, or why there is none, for people: the message, and before it the reason why a plugin rejected the pod for all
    /// nodes if the message does not have it. kube-scheduler drops it if no node could be searched for victims.
    pub fn node(&self) -> Result<&Str, Cow<'_, str>> {
        match self {
            Outcome::Scheduled { node, .. } => Ok(node),
            Outcome::Error { message } => Err(message.into()),
            Outcome::Unschedulable { message, pre_filter, .. } => {
                let cause = pre_filter.as_ref().map(|(_, why)| why.to_string());
                Err(match cause.filter(|cause| !message.contains(cause)) {
                    Some(cause) => format!("{cause}; {message}").into(),
                    None => message.into(),
                })
            }
        }
    }
}

/// The decision about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDecision {
    /// The name of the node.
    pub name: Str,
    /// The verdict.
    pub verdict: NodeVerdict,
}

/// The verdict on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeVerdict {
    /// A plugin rejected it. This is the first one in the order of the profile.
    Rejected {
        /// The plugin.
        plugin: Str,
        /// The code of the rejection.
        code: Code,
        /// Its reasons.
        reasons: Vec<Reason>,
    },
    /// It was not judged because a plugin rejected the pod for all nodes.
    NotJudged,
    /// It is feasible, and was not scored because it is the only one.
    Only,
    /// It is feasible and was scored.
    Scored {
        /// Normalised score times weight, by plugin in the order of the profile.
        scores: Vec<(Arc<str>, i64)>,
        /// Their sum.
        total: i64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why_not(message: &str, cause: Option<&'static str>) -> String {
        let pre_filter =
            cause.map(|cause| (Str::from("VolumeBinding"), Rejection::unresolvable(cause)));
        let outcome =
            Outcome::Unschedulable { message: message.to_owned(), pre_filter, nomination: None };
        outcome.node().expect_err("there is none").into_owned()
    }

    #[test]
    fn the_cause_is_named_where_the_message_does_not_have_it() {
        let cause = Some("claim \"a\" not found");
        let dropped = why_not("postfilter error: not found", cause);
        assert_eq!(dropped, "claim \"a\" not found; postfilter error: not found");
        let told = "0/1 nodes are available: claim \"a\" not found.";
        assert_eq!(why_not(told, cause), told);
        assert_eq!(why_not("0/1 nodes", None), "0/1 nodes");
        let found = Outcome::Scheduled { node: "n".into(), best: Vec::new() };
        assert_eq!(found.node(), Ok(&Str::from("n")));
    }
}
