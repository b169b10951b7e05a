//! What was decided about a pod, and why: the decision record as a value.

use std::sync::Arc;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::{Code, Nomination, Reason, Rejection};

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The pod.
    pub pod: PodKey,
    /// The how-manieth attempt it was, from 1.
    pub attempt: u32,
    /// What came out.
    pub outcome: Outcome,
    /// Every node that was judged, by name; empty unless it was asked for.
    pub nodes: Vec<NodeDecision>,
}

/// What came out of a decision.
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
        /// The whole text for events and conditions.
        message: String,
        /// The plugin that rejected the pod for all nodes, with its rejection.
        pre_filter: Option<(Str, Rejection)>,
        /// A node that can be made to fit.
        nomination: Option<Nomination>,
    },
    /// The pod could not be judged.
    Error {
        /// Why.
        message: String,
    },
}

/// What was decided about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDecision {
    /// The name of the node.
    pub name: Str,
    /// What was decided.
    pub verdict: NodeVerdict,
}

/// What was decided about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeVerdict {
    /// A plugin rejected it: the first in the order of the profile.
    Rejected {
        /// The plugin.
        plugin: Str,
        /// The kind of the rejection.
        code: Code,
        /// Its reasons.
        reasons: Vec<Reason>,
    },
    /// It was not judged, since a plugin rejected the pod for all nodes.
    NotJudged,
    /// It is feasible, and nothing had to be scored since it is the only one.
    Only,
    /// It is feasible and was scored.
    Scored {
        /// Normalised score times weight, by plugin in the order of the profile.
        scores: Vec<(Arc<str>, i64)>,
        /// Their sum.
        total: i64,
    },
}
