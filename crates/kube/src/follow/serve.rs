//! Serves what is known of a cluster that is followed: health, metrics, the page, and what was compared.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use plimsoll_api::{KindRef, ObjectKey, PodKey};
use plimsoll_engine::metrics::Family;
use plimsoll_engine::{ClusterSnapshot, PendingPod};
use plimsoll_framework::PodInfo;
use plimsoll_ui::{ClusterAndQueue, CountedCluster};
use serde_json::Value;
use tokio::sync::watch;

use crate::api_resource::ServedVersions;
use crate::client::{Caller, ReadOnlyConnection};
use crate::limit::Rate;
use crate::run::{ServedConfiguration, Serving, SetVerbosity, manifest};
use crate::serve::{
    Advisor, Clients, EngineHandle, Explained, HealthCheck, HealthChecks, ManifestError,
    ProcessInfo, SchedulerView, ServeError, Server, ServerSources, Soon, Unresponsive,
    VerbosityError,
};

/// If the loop that follows the cluster does not turn for this long, it is stuck. It is what `--engine-stall-timeout` of
/// `plimsoll run` has by default.
const STALLED: Duration = Duration::from_mins(1);

/// Asks what was compared so far.
pub type Comparison =
    Arc<dyn Fn() -> BoxFuture<'static, Result<Value, Unresponsive>> + Send + Sync>;

/// When the loop that follows a cluster last turned. Clones share it.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Mutex<Instant>>);

impl Default for Turns {
    fn default() -> Self {
        Turns(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Turns {
    /// The loop turns.
    pub fn turn(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn are_stalled(&self) -> bool {
        STALLED < self.0.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// What is served of a cluster that is followed.
pub struct FollowedServing {
    /// How it is served, and what is known of the configuration. Who may ask is always asked of the API server that is
    /// followed.
    pub serving: Serving,
    /// The engine that knows the cluster.
    pub engine: EngineHandle,
    /// What was compared.
    pub comparison: Comparison,
    /// Whether the whole cluster is known.
    pub is_known: watch::Receiver<bool>,
    /// Whether the loop that follows the cluster turns.
    pub turns: Turns,
}

impl fmt::Debug for FollowedServing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedServing")
            .field("serving", &self.serving)
            .field("turns", &self.turns)
            .finish_non_exhaustive()
    }
}

/// Why a health check fails.
#[derive(Debug, thiserror::Error)]
enum Unhealthy {
    #[error("the loop that follows the cluster makes no progress")]
    Stuck,
    #[error("the cluster is not known completely")]
    NotKnown,
}

/// Starts to listen. `None` with `--secure-port=0`.
pub async fn serve(
    followed: FollowedServing,
    connection: &ReadOnlyConnection,
) -> Result<Option<Server>, ServeError> {
    let FollowedServing { serving, engine, comparison, is_known, turns } = followed;
    let reviewer = connection.reviewer();
    let clients = Clients { authentication: Some(reviewer.clone()), authorization: Some(reviewer) };
    let process = ProcessInfo {
        checks: checks(&turns, &is_known),
        registries: serving.registries,
        build: serving.build,
        features: serving.features,
        flags: serving.flags,
        profiling: serving.profiling,
    };
    let view = FollowedView {
        engine,
        comparison,
        manifests: connection.client("shadow", Rate::UNLIMITED).into(),
        versions: connection.served().clone(),
        configuration: serving.configuration,
        default_configuration: serving.default_configuration,
        set_verbosity: serving.set_verbosity,
        advisor: serving.advisor,
    };
    let sources = ServerSources { scheduler: Arc::new(view), clients, process };
    Server::bind(&serving.options, sources).await
}

/// It lives while the loop turns, and is ready once the whole cluster is known.
fn checks(turns: &Turns, is_known: &watch::Receiver<bool>) -> HealthChecks {
    let turns = turns.clone();
    let alive = vec![HealthCheck::new("following", move || match turns.are_stalled() {
        false => Ok(()),
        true => Err(Unhealthy::Stuck),
    })];
    let is_known = is_known.clone();
    let known = HealthCheck::new("informer-sync", move || match *is_known.borrow() {
        true => Ok(()),
        false => Err(Unhealthy::NotKnown),
    });
    let readyz = alive.iter().cloned().chain([known]).collect();
    HealthChecks { healthz: alive.clone(), livez: alive, readyz }
}

/// A cluster that is followed, as the server sees it.
struct FollowedView {
    engine: EngineHandle,
    comparison: Comparison,
    /// Reads manifests.
    manifests: Caller,
    versions: ServedVersions,
    configuration: ServedConfiguration,
    default_configuration: Arc<str>,
    set_verbosity: SetVerbosity,
    advisor: Arc<dyn Advisor>,
}

impl SchedulerView for FollowedView {
    fn metrics(&self) -> Soon<'_, Vec<Family>> {
        Box::pin(self.engine.metrics())
    }

    fn reset_metrics(&self) -> Soon<'_, ()> {
        Box::pin(self.engine.reset_metrics())
    }

    fn explain(&self, pod: PodKey) -> Soon<'_, Explained> {
        Box::pin(self.engine.explain(pod))
    }

    fn pods(&self) -> Soon<'_, Vec<PodInfo>> {
        Box::pin(self.engine.pods())
    }

    fn dump(&self) -> Soon<'_, String> {
        Box::pin(self.engine.dump())
    }

    fn snapshot(&self, pod: Option<PodKey>) -> Soon<'_, (ClusterSnapshot, Option<PendingPod>)> {
        Box::pin(self.engine.snapshot(pod))
    }

    fn picture(&self) -> Soon<'_, ClusterAndQueue> {
        Box::pin(self.engine.picture())
    }

    fn counts(&self) -> Soon<'_, CountedCluster> {
        Box::pin(self.engine.counts())
    }

    fn snapshot_of_group(&self, group: ObjectKey) -> Soon<'_, (ClusterSnapshot, Vec<PendingPod>)> {
        Box::pin(self.engine.snapshot_of_group(group))
    }

    fn manifest(
        &self,
        kind: KindRef,
        key: ObjectKey,
    ) -> BoxFuture<'_, Result<Option<Value>, ManifestError>> {
        let resource = self.versions.manifest(kind);
        Box::pin(async move { manifest(&self.manifests, resource, &key).await })
    }

    fn comparison(&self) -> Option<Soon<'_, Value>> {
        Some((self.comparison)())
    }

    fn advisor(&self) -> Arc<dyn Advisor> {
        self.advisor.clone()
    }

    fn configuration(&self) -> Arc<str> {
        self.configuration.get()
    }

    fn default_configuration(&self) -> Arc<str> {
        self.default_configuration.clone()
    }

    /// The scheduler of the cluster reports the requests of its pods.
    fn is_leader(&self) -> bool {
        false
    }

    fn set_verbosity(&self, level: &str) -> Result<(), VerbosityError> {
        (self.set_verbosity)(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_once_the_cluster_is_known_and_lives_before() {
        let (known, is_known) = watch::channel(false);
        let HealthChecks { livez, readyz, .. } = checks(&Turns::default(), &is_known);
        let failing = |checks: &[HealthCheck]| -> Vec<String> {
            checks.iter().filter_map(HealthCheck::failure).collect()
        };
        assert_eq!(failing(&livez), Vec::<String>::new());
        assert_eq!(failing(&readyz), ["the cluster is not known completely"]);
        known.send_replace(true);
        assert_eq!(failing(&readyz), Vec::<String>::new());
    }

    #[test]
    fn a_loop_that_does_not_turn_is_stuck() {
        let turns = Turns::default();
        let long_ago = Instant::now().checked_sub(STALLED + Duration::from_secs(1));
        *turns.0.lock().expect("nobody has it") = long_ago.expect("clocks begin before a test");
        assert!(turns.are_stalled());
        turns.turn();
        assert!(!turns.are_stalled());
    }
}
