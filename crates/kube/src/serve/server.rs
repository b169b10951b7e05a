//! The server: accepts and serves connections.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use kube::Client;
use plimsoll_api::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::api::{Pages, SAMPLE_INTERVAL};
use super::auth::{Authenticator, Authorizer, AuthorizerError, Lookup, NoChance};
use super::connection::Service;
use super::connections::Connections;
use super::health::Health;
use super::limits::Patience;
use super::listen::{self, ListenError};
use super::options::{OptionError, Options};
use super::process_info::ProcessInfo;
use super::rate::{Handshakes, Rates};
use super::scheduler_view::SchedulerView;
use super::server_state::ServerState;
use super::tls::{
    CertificateSource, KeepError, Keeper, Material, SelfSignedError, SniFiles, TlsSettings,
    own_certificate,
};
use super::{limits, routes};

/// The pause after an error of the listening socket, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Clients of the API server for authentication and authorization. `None` if it cannot be reached: then
/// tokens are not accepted, and only open paths are served.
#[derive(Clone, Default)]
pub struct Clients {
    /// `--authentication-kubeconfig`, or as inside the cluster.
    pub authentication: Option<Client>,
    /// `--authorization-kubeconfig`, or as inside the cluster.
    pub authorization: Option<Client>,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients")
            .field("authentication", &self.authentication.is_some())
            .field("authorization", &self.authorization.is_some())
            .finish()
    }
}

/// Why the server cannot start. The text says what to change.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ServeError(#[from] ServeErrorKind);

#[derive(Debug, thiserror::Error)]
enum ServeErrorKind {
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Options(Vec<OptionError>),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    SelfSigned(#[from] SelfSignedError),
    #[error(transparent)]
    Keep(#[from] KeepError),
    #[error(transparent)]
    NoChance(#[from] NoChance),
    #[error(transparent)]
    Authorizer(#[from] AuthorizerError),
}

/// The sources of the server.
pub struct ServerSources {
    /// The scheduler.
    pub scheduler: Arc<dyn SchedulerView>,
    /// The API server.
    pub clients: Clients,
    /// Information about this process.
    pub process: ProcessInfo,
}

impl std::fmt::Debug for ServerSources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ServerSources { scheduler: _, clients, process } = self;
        f.debug_struct("ServerSources")
            .field("clients", clients)
            .field("process", process)
            .finish_non_exhaustive()
    }
}

/// A server that listens, and serves once [`Server::serve`] is called.
pub struct Server {
    listener: TcpListener,
    pub(super) state: Arc<ServerState>,
    router: Router,
    max_streams: u32,
    pub(super) patience: Patience,
    keeper: Keeper,
    material: watch::Sender<Arc<Material>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts to listen; `None` with `--secure-port=0`. Before connections are accepted, certificates
    /// are read and authorities are looked up in the cluster.
    pub async fn bind(
        options: &Options,
        sources: ServerSources,
    ) -> Result<Option<Self>, ServeError> {
        let errors = options.validate();
        if !errors.is_empty() {
            return Err(ServeErrorKind::Options(errors).into());
        }
        let port = u16::try_from(options.serving.port).unwrap_or(0);
        if port == 0 {
            return Ok(None);
        }
        let listener = listen::listen(&options.serving, port).map_err(ServeErrorKind::from)?;
        Ok(Some(Server::on(listener, options, sources).await?))
    }

    /// Uses a socket that already listens.
    pub async fn over(
        listener: std::net::TcpListener,
        options: &Options,
        sources: ServerSources,
    ) -> Result<Self, ServeError> {
        let errors = options.validate();
        if !errors.is_empty() {
            return Err(ServeErrorKind::Options(errors).into());
        }
        let listener = listen::take_over(listener).map_err(ServeErrorKind::from)?;
        Server::on(listener, options, sources).await
    }

    /// The same with validated options.
    pub(super) async fn on(
        listener: TcpListener,
        options: &Options,
        sources: ServerSources,
    ) -> Result<Self, ServeError> {
        Ok(Server::make(listener, options, sources).await?)
    }

    async fn make(
        listener: TcpListener,
        options: &Options,
        sources: ServerSources,
    ) -> Result<Self, ServeErrorKind> {
        let Options { serving, authentication, authorization } = options;
        let terms = TlsSettings::new(serving).map_err(ServeErrorKind::Options)?;
        for name in &terms.left_out {
            tracing::warn!(%name, "the TLS option is too weak or not supported; it is not offered");
        }
        let own = match (&serving.cert_file, &serving.key_file) {
            (Some(cert), Some(key)) => CertificateSource::Files(cert.clone(), key.clone()),
            _ => own_certificate(serving.cert_dir.as_deref(), serving.bind_address)?,
        };
        let named: Result<Vec<_>, _> =
            serving.sni.iter().map(String::as_str).map(SniFiles::parse).collect();
        let named = named.map_err(|error| ServeErrorKind::Options(vec![error]))?;
        let ServerSources { scheduler, clients, process } = sources;
        if clients.authentication.is_none() && !authentication.skip_lookup {
            tracing::warn!(
                "no --authentication-kubeconfig and not in a cluster: tokens are not accepted, and client CAs \
                 are not looked up"
            );
        }
        let lookup = clients.authentication.clone().map(Lookup::new);
        let mut keeper = Keeper::new(options, terms, own, named, lookup);
        let (material, current) = watch::channel(keeper.begin().await?);
        let state = Arc::new(ServerState {
            scheduler,
            authenticator: Authenticator::new(
                clients.authentication,
                authentication.token_cache_ttl,
            )?,
            authorizer: Authorizer::new(clients.authorization, authorization)?,
            material: current,
            health: Health::new(process.checks),
            registries: process.registries,
            build: process.build,
            features: process.features,
            flags: process.flags,
            profiling: process.profiling,
            rates: Mutex::new(Rates::new(limits::RATE, limits::BURST, limits::CLIENTS)),
            handshakes: Mutex::new(Handshakes::new(Instant::now())),
            work: Semaphore::new(limits::REQUESTS),
            advice: Arc::new(Semaphore::new(1)),
            pages: Pages::default(),
            connections: Connections::default(),
        });
        let max_streams = u32::try_from(serving.max_streams).unwrap_or(0);
        Ok(Server {
            listener,
            router: routes::routes(state.clone()),
            state,
            max_streams: if max_streams == 0 { limits::STREAMS } else { max_streams },
            patience: Patience::default(),
            keeper,
            material,
        })
    }

    /// The request handlers.
    #[cfg(feature = "fuzzing")]
    pub(super) fn router(self) -> Router {
        self.router
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves until `stop`, and then finishes requests in progress, for a few seconds at most.
    pub async fn serve(self, stop: CancellationToken) {
        let Server { listener, state, router, max_streams, patience, keeper, material } = self;
        tracing::info!(address = ?listener.local_addr().ok(), "Serving securely");
        let mut tasks = JoinSet::new();
        let keeping = tokio::spawn(keeper.keep(material, patience.files));
        let sampling = tokio::spawn(sample(state.clone()));
        let connections = state.connections.clone();
        let service = Service { state, router, max_streams, patience, stop: stop.clone() };
        loop {
            // Connections that are closing may take a moment.
            let has_room = tasks.len() < limits::CONNECTIONS + limits::LEAVING;
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept(), if has_room => accepted,
                // Release tasks that have ended.
                Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
            };
            match accepted {
                Ok((stream, peer)) => {
                    tasks.spawn(service.clone().serve(stream, connections.admit(peer.ip())));
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        drop(listener);
        keeping.abort();
        sampling.abort();
        let finished = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(patience.shutdown, finished).await.is_err() {
            tracing::debug!("some connections did not end in time");
        }
    }
}

/// Keeps what the metrics were, for the charts of the page.
async fn sample(state: Arc<ServerState>) {
    let mut turn = tokio::time::interval(SAMPLE_INTERVAL);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turn.tick().await;
        if let Ok(families) = state.scheduler.metrics().await {
            let now = Timestamp::now().as_millisecond();
            let mut samples = state.pages.samples.lock().unwrap_or_else(PoisonError::into_inner);
            samples.add(now, &families);
        }
    }
}
