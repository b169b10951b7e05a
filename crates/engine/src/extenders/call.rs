//! What extenders are asked, and what they answer.

use std::sync::Arc;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::Rejection;

/// Which extender: its place in the order in which they are called, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtenderId(pub usize);

/// One question to one extender about one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who is asked.
    pub extender: ExtenderId,
    /// What it is asked.
    pub question: Question,
}

/// A question about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// On which of these nodes may it run? At least one. Answered with [`Reply::Filtered`].
    Filter(Arc<[Str]>),
    /// How good are these nodes? At least two. Answered with [`Reply::Prioritized`].
    Prioritize(Arc<[Str]>),
    /// Which of these nodes may be cleared for it, and of whom? At least one. Answered with
    /// [`Reply::Preempting`].
    Preempt(Arc<[Way]>),
    /// Will you bind it to this node? Answered with [`Reply::Bound`].
    Bind(Str),
}

/// A node that can be cleared, and what that takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The name of the node.
    pub node: Str,
    /// The pods that have to go: at least one.
    pub victims: Vec<Victim>,
    /// How many of the evictions would break a PodDisruptionBudget.
    pub broken_budgets: i64,
}

/// A pod that has to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Namespace and name.
    pub key: PodKey,
    /// Its unique identity.
    pub uid: Str,
}

/// What an extender answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Which nodes will do.
    Filtered(Filtered),
    /// Scores of nodes, 0 to 10 each, before they are weighed. It need not name all nodes.
    Prioritized(Vec<(Str, i64)>),
    /// The nodes that may be cleared.
    Preempting(Vec<Kept>),
    /// The pod is bound.
    Bound,
}

/// Which nodes will do. One that is in neither list will not, for no reason that is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// The nodes on which the pod may run: some of those that were asked about.
    pub passed: Vec<Str>,
    /// Why it may not run on others; each node once.
    pub rejected: Vec<(Str, Rejection)>,
}

/// A node that may be cleared, as the extender wants it to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The name of the node.
    pub node: Str,
    /// The unique identities of the pods that have to go.
    pub victims: Vec<Str>,
    /// How many of the evictions would break a PodDisruptionBudget.
    pub broken_budgets: i64,
}

/// Why an extender did not answer, in words for conditions and events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExtenderError(pub String);
