//! The server for health checks, metrics and debugging.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::future::BoxFuture;
use plimsoll_api::{KindRef, ObjectKey, PodKey};
use plimsoll_engine::metrics::Family;
use plimsoll_engine::{ClusterSnapshot, PendingPod};
use plimsoll_framework::PodInfo;
use plimsoll_ui::{ClusterAndQueue, CountedCluster};
use prometheus::Registry;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::RunError;
use super::reload::ReloadMetrics;
use super::self_audit::SelfAuditMetrics;
use crate::api_resource::{ApiResource, ServedVersions};
use crate::call::{self, ApiRequest};
use crate::client::{Access, AccessError, Caller, RestMetrics, connect};
use crate::lease::{Leadership, State};
use crate::limit::Rate;
use crate::serve::{
    Advisor, Build, Clients, EngineHandle, Explained, Feature, HealthCheck, HealthChecks,
    ManifestError, Options, ProcessInfo, SchedulerView, Server, ServerSources, Soon,
    VerbosityError,
};
use crate::watch::WatchMetrics;

/// How long the API server may take to answer with a manifest.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Sets the log level, as `-v` does.
pub type SetVerbosity = Arc<dyn Fn(&str) -> Result<(), VerbosityError> + Send + Sync>;

/// The options of the server.
pub struct Serving {
    /// Addresses, certificates and access.
    pub options: Options,
    /// A listening socket that replaces `--bind-address` and `--secure-port`.
    pub listener: Option<std::net::TcpListener>,
    /// The API server for authentication; that of the scheduler if `None`.
    pub authentication: Option<Access>,
    /// The API server for authorization; that of the scheduler if `None`.
    pub authorization: Option<Access>,
    /// The configuration in effect, as JSON in the form of version v1.
    pub configuration: ServedConfiguration,
    /// The same of the default configuration.
    pub default_configuration: Arc<str>,
    /// The build.
    pub build: Build,
    /// The feature gates.
    pub features: Vec<Feature>,
    /// The flags with their values.
    pub flags: Vec<(String, String)>,
    /// `enableProfiling`.
    pub profiling: bool,
    /// Sets the log level.
    pub set_verbosity: SetVerbosity,
    /// Answers questions about the cluster.
    pub advisor: Arc<dyn Advisor>,
    /// Further metrics that are served.
    pub registries: Vec<Registry>,
}

/// The configuration in effect, as it is served. It can be replaced; all clones are the same.
#[derive(Clone, Debug)]
pub struct ServedConfiguration(Arc<RwLock<Arc<str>>>);

impl From<&str> for ServedConfiguration {
    fn from(text: &str) -> Self {
        ServedConfiguration(Arc::new(RwLock::new(text.into())))
    }
}

impl From<String> for ServedConfiguration {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl ServedConfiguration {
    /// Serves this text from now on.
    pub fn set(&self, text: &str) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    /// The text.
    pub(crate) fn get(&self) -> Arc<str> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The state of the scheduler for health checks.
pub(super) struct ServedState {
    pub(super) engine: EngineHandle,
    /// Reads manifests.
    pub(super) manifests: Caller,
    /// The versions in which the API server has them.
    pub(super) versions: ServedVersions,
    pub(super) metrics: Arc<RestMetrics>,
    pub(super) watched: WatchMetrics,
    pub(super) audited: SelfAuditMetrics,
    pub(super) reloaded: ReloadMetrics,
    pub(super) leadership: Option<Leadership>,
    pub(super) state: watch::Receiver<State>,
    /// Whether decisions can be made.
    pub(super) is_ready: watch::Receiver<bool>,
    pub(super) stop: CancellationToken,
    /// Cancelled when the engine is stuck.
    pub(super) stuck: CancellationToken,
}

/// Starts to listen. `None` if nothing is served.
pub(super) async fn listen(
    serving: Serving,
    own: &Access,
    served: ServedState,
) -> Result<Option<Server>, RunError> {
    let Serving { authentication, authorization, configuration, .. } = &serving;
    let clients = Clients {
        authentication: reviewer(authentication.as_ref(), own, &served.metrics)
            .await
            .map_err(|error| RunError::Reviews { flag: "--authentication-kubeconfig", error })?,
        authorization: reviewer(authorization.as_ref(), own, &served.metrics)
            .await
            .map_err(|error| RunError::Reviews { flag: "--authorization-kubeconfig", error })?,
    };
    let checks = checks(&served);
    let registry = Registry::new();
    let registered = served
        .metrics
        .register(&registry)
        .and_then(|()| served.watched.register(&registry))
        .and_then(|()| served.audited.register(&registry))
        .and_then(|()| served.reloaded.register(&registry));
    let led = served.leadership.as_ref().map(|leadership| leadership.register(&registry));
    if let Some(error) = registered.err().or(led.and_then(Result::err)) {
        tracing::error!(%error, "could not register some metrics; they are not served");
    }
    let view = EngineView {
        engine: served.engine,
        configuration: configuration.clone(),
        default_configuration: serving.default_configuration.clone(),
        state: served.state,
        set_verbosity: serving.set_verbosity.clone(),
        advisor: serving.advisor.clone(),
        manifests: served.manifests,
        versions: served.versions,
    };
    let process = ProcessInfo {
        checks,
        registries: [registry].into_iter().chain(serving.registries.clone()).collect(),
        build: serving.build.clone(),
        features: serving.features.clone(),
        flags: serving.flags.clone(),
        profiling: serving.profiling,
    };
    let sources = ServerSources { scheduler: Arc::new(view), clients, process };
    Ok(match serving.listener {
        Some(listener) => Some(Server::over(listener, &serving.options, sources).await?),
        None => Server::bind(&serving.options, sources).await?,
    })
}

/// A client for reviews. An explicit access must be valid. `None` if the scheduler's own access is used
/// and is invalid.
async fn reviewer(
    given: Option<&Access>,
    own: &Access,
    metrics: &Arc<RestMetrics>,
) -> Result<Option<kube::Client>, AccessError> {
    match connect(given.unwrap_or(own).clone(), metrics.clone()).await {
        Ok(connection) => Ok(Some(connection.client("review", Rate::UNLIMITED))),
        Err(error) if given.is_some() => Err(error),
        Err(error) => {
            tracing::warn!(%error, "could not create a client for token and access reviews; tokens are not accepted");
            Ok(None)
        }
    }
}

/// Why a health check fails. The last two messages are those of kube-scheduler's server.go.
#[derive(Debug, thiserror::Error)]
enum Unhealthy {
    #[error("the engine makes no progress")]
    Stuck,
    #[error("handlers are not fully synchronized")]
    NotSynchronized,
    #[error("process is shutting down")]
    Stopping,
}

/// As in kube-scheduler's server.go: all endpoints check the leader election, and `/readyz` also whether
/// the cluster is known and the process is not ending. Unlike in kube-scheduler, all check that the engine
/// makes progress.
fn checks(served: &ServedState) -> HealthChecks {
    let election = served
        .leadership
        .clone()
        .map(|leadership| HealthCheck::new("leaderElection", move || leadership.check()));
    let stuck = served.stuck.clone();
    let engine = HealthCheck::new("engine", move || match stuck.is_cancelled() {
        false => Ok(()),
        true => Err(Unhealthy::Stuck),
    });
    let election: Vec<HealthCheck> = election.into_iter().chain([engine]).collect();
    let (is_ready, stop) = (served.is_ready.clone(), served.stop.clone());
    let synced = |name: &str| {
        let is_ready = is_ready.clone();
        HealthCheck::new(name, move || match *is_ready.borrow() {
            true => Ok(()),
            false => Err(Unhealthy::NotSynchronized),
        })
    };
    let ends = HealthCheck::new("shutdown", move || match stop.is_cancelled() {
        false => Ok(()),
        true => Err(Unhealthy::Stopping),
    });
    let mut readyz = election.clone();
    readyz.extend([ends, synced("informer-sync"), synced("sched-handler-sync")]);
    HealthChecks { healthz: election.clone(), livez: election, readyz }
}

/// The scheduler as the server sees it.
struct EngineView {
    engine: EngineHandle,
    configuration: ServedConfiguration,
    default_configuration: Arc<str>,
    state: watch::Receiver<State>,
    set_verbosity: SetVerbosity,
    advisor: Arc<dyn Advisor>,
    manifests: Caller,
    versions: ServedVersions,
}

/// The manifest of an object, as the API server has it; `None` if there is no such object.
pub(crate) async fn manifest(
    from: &Caller,
    resource: ApiResource,
    key: &ObjectKey,
) -> Result<Option<Value>, ManifestError> {
    let request = ApiRequest::get(resource.object_path(key));
    match call::send_and_read(from, &request, READ_TIMEOUT).await {
        Ok(bytes) => {
            let read = serde_json::from_slice(&bytes);
            read.map(Some).map_err(|error| ManifestError(error.to_string()))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(ManifestError(error.to_string())),
    }
}

impl SchedulerView for EngineView {
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

    fn snapshot_of_group(&self, group: ObjectKey) -> Soon<'_, (ClusterSnapshot, Vec<PendingPod>)> {
        Box::pin(self.engine.snapshot_of_group(group))
    }

    fn picture(&self) -> Soon<'_, ClusterAndQueue> {
        Box::pin(self.engine.picture())
    }

    fn counts(&self) -> Soon<'_, CountedCluster> {
        Box::pin(self.engine.counts())
    }

    fn manifest(
        &self,
        kind: KindRef,
        key: ObjectKey,
    ) -> BoxFuture<'_, Result<Option<Value>, ManifestError>> {
        let resource = self.versions.manifest(kind);
        Box::pin(async move { manifest(&self.manifests, resource, &key).await })
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

    fn is_leader(&self) -> bool {
        *self.state.borrow() == State::Leading
    }

    fn set_verbosity(&self, level: &str) -> Result<(), VerbosityError> {
        (self.set_verbosity)(level)
    }
}
