//! What the server asks of the scheduler.

use std::sync::Arc;

use futures::future::BoxFuture;
use plimsoll_api::PodKey;
use plimsoll_engine::Decision;
use plimsoll_engine::metrics::Family;
use plimsoll_framework::PodInfo;

/// The scheduler does not answer: it is stopping, or busier than anybody should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler does not answer; it may be stopping")]
pub struct Silent;

/// What will be known in a moment.
pub type Soon<'a, T> = BoxFuture<'a, Result<T, Silent>>;

/// The scheduler as the server sees it. [`Desk`](super::Desk) answers for an engine on a thread of its own.
pub trait Inside: Send + Sync + 'static {
    /// All that the engine has counted.
    fn metrics(&self) -> Soon<'_, Vec<Family>>;

    /// Begins to count anew (`DELETE /metrics`).
    fn reset_metrics(&self) -> Soon<'_, ()>;

    /// What would be decided about a pending pod, and why.
    fn explain(&self, pod: PodKey) -> Soon<'_, Explained>;

    /// Every pod that is known.
    fn pods(&self) -> Soon<'_, Vec<PodInfo>>;

    /// What the engine knows of the cluster, as text for people.
    fn dump(&self) -> Soon<'_, String>;

    /// The configuration in effect, as one JSON object in the form of `kubescheduler.config.k8s.io/v1`.
    fn configuration(&self) -> Arc<str>;

    /// Whether this instance leads.
    fn is_leader(&self) -> bool;

    /// Sets how much is logged, as `-v` does. On failure the reason.
    fn set_verbosity(&self, level: &str) -> Result<(), VerbosityError>;
}

/// What can be said about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explained {
    /// It is pending, and this would be decided.
    Decision(Box<Decision>),
    /// It is not pending: it has a node, or is being bound to one.
    Placed,
    /// No such pod is known, or another scheduler is to place it.
    Unknown,
}

/// Why it cannot be set how much is logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbosityError {
    /// The level is not a number.
    #[error("{0:?} is no number")]
    NoNumber(String),
    /// The log does not take another level.
    #[error("{0}")]
    Log(String),
}
