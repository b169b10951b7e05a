//! The interface of the server to the scheduler.

use std::sync::Arc;

use futures::future::BoxFuture;
use plimsoll_api::{KindRef, ObjectKey, PodKey};
use plimsoll_engine::metrics::Family;
use plimsoll_engine::{ClusterSnapshot, Decision, PendingPod};
use plimsoll_framework::PodInfo;
use plimsoll_ui::{ClusterAndQueue, CountedCluster};
use serde_json::Value;

use super::advisor::Advisor;

/// The scheduler does not answer: it is stopping or overloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler does not answer; it may be stopping")]
pub struct Unresponsive;

/// An answer that will arrive soon.
pub type Soon<'a, T> = BoxFuture<'a, Result<T, Unresponsive>>;

/// The scheduler as the server sees it. [`EngineHandle`](super::EngineHandle) answers for an engine on its own thread.
pub trait SchedulerView: Send + Sync + 'static {
    /// All metrics of the engine.
    fn metrics(&self) -> Soon<'_, Vec<Family>>;

    /// Resets the metrics (`DELETE /metrics`).
    fn reset_metrics(&self) -> Soon<'_, ()>;

    /// What would be decided about a pending pod, and why.
    fn explain(&self, pod: PodKey) -> Soon<'_, Explained>;

    /// All known pods.
    fn pods(&self) -> Soon<'_, Vec<PodInfo>>;

    /// The engine's view of the cluster, as text for people.
    fn dump(&self) -> Soon<'_, String>;

    /// The cluster at this moment, and what is known of one of its pods if that is pending.
    fn snapshot(&self, pod: Option<PodKey>) -> Soon<'_, (ClusterSnapshot, Option<PendingPod>)>;

    /// The cluster at this moment, and its queue.
    fn picture(&self) -> Soon<'_, ClusterAndQueue>;

    /// The nodes at this moment with what is on them, and how many pods there are.
    fn counts(&self) -> Soon<'_, CountedCluster>;

    /// The cluster at this moment, and what is known of those pods of a group that are pending.
    fn snapshot_of_group(&self, group: ObjectKey) -> Soon<'_, (ClusterSnapshot, Vec<PendingPod>)>;

    /// The manifest of an object, as the API server has it; `None` if there is no such object.
    fn manifest(
        &self,
        kind: KindRef,
        key: ObjectKey,
    ) -> BoxFuture<'_, Result<Option<Value>, ManifestError>>;

    /// What a shadow has found about the scheduler of the cluster; `None` if this is no shadow.
    fn comparison(&self) -> Option<Soon<'_, Value>> {
        None
    }

    /// What answers questions about a snapshot.
    fn advisor(&self) -> Arc<dyn Advisor>;

    /// The configuration in effect, as one JSON object in the form of `kubescheduler.config.k8s.io/v1`.
    fn configuration(&self) -> Arc<str>;

    /// The same of the default configuration.
    fn default_configuration(&self) -> Arc<str>;

    /// Whether this instance leads.
    fn is_leader(&self) -> bool;

    /// Sets how much is logged, as `-v` does. On failure the reason.
    fn set_verbosity(&self, level: &str) -> Result<(), VerbosityError>;
}

/// The answer about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explained {
    /// It is pending, and this would be the decision.
    Decision(Box<Decision>),
    /// It is not pending: it has a node, or is being bound to one.
    Placed,
    /// The pod is unknown, or another scheduler is responsible for it.
    Unknown,
}

/// Why the manifest of a pod could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server does not give the manifest: {0}")]
pub struct ManifestError(pub String);

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
