//! A decision about a pod with its reasons: the decision record as a value.

use std::sync::Arc;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::{Code, Description, Nomination, Reason, Rejection};

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
}

impl Decision {
    /// A decision without details.
    pub fn of_pod(pod: PodKey, attempt: u32, outcome: Outcome) -> Self {
        let (nodes, described) = (Vec::new(), Description::default());
        Decision { pod, attempt, outcome, pre_enqueue: None, nodes, described }
    }
}

/// The outcome of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A node was found.
    Scheduled {
        /// The node that was chosen among the best.
        node: Str,
        /// All feasible nodes with the highest total, by name.
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
