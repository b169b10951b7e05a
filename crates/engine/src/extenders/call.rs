//! Questions to extenders, and their answers.

use std::sync::Arc;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::Rejection;

/// The index of an extender in the order in which they are called, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtenderId(pub usize);

/// One question to one extender about one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The extender.
    pub extender: ExtenderId,
    /// The question.
    pub question: ExtenderQuestion,
}

/// A question about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtenderQuestion {
    /// On which of these nodes may it run? At least one. Answered with [`ExtenderReply::Filtered`].
    Filter(Arc<[Str]>),
    /// How good are these nodes? At least two. Answered with [`ExtenderReply::Prioritized`].
    Prioritize(Arc<[Str]>),
    /// On which of these nodes may which victims be evicted for it? At least one. Answered with
    /// [`ExtenderReply::Preempting`].
    Preempt(Arc<[ExtenderCandidate]>),
    /// A request to bind it to this node. Answered with [`ExtenderReply::Bound`].
    Bind(Str),
}

/// A candidate node for preemption with its victims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderCandidate {
    /// The name of the node.
    pub node: Str,
    /// The victims: at least one.
    pub victims: Vec<Victim>,
    /// How many of the evictions would break a PodDisruptionBudget.
    pub broken_budgets: i64,
}

/// A victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Namespace and name.
    pub key: PodKey,
    /// Its unique identity.
    pub uid: Str,
}

/// The answer of an extender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtenderReply {
    /// Which nodes are feasible.
    Filtered(Filtered),
    /// Scores of nodes, 0 to 10 each, before the weight. It need not name all nodes.
    Prioritized(Vec<(Str, i64)>),
    /// The candidate nodes that remain.
    Preempting(Vec<KeptCandidate>),
    /// The pod is bound.
    Bound,
}

/// Which nodes are feasible. A node in neither list is rejected without a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// The nodes on which the pod may run: a subset of those in the question.
    pub passed: Vec<Str>,
    /// Why it may not run on others; each node once.
    pub rejected: Vec<(Str, Rejection)>,
}

/// A candidate node, with the victims that the extender chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCandidate {
    /// The name of the node.
    pub node: Str,
    /// The uids of the victims.
    pub victims: Vec<Str>,
    /// How many of the evictions would break a PodDisruptionBudget.
    pub broken_budgets: i64,
}

/// Why an extender did not answer, as text for conditions and events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExtenderError(pub String);
