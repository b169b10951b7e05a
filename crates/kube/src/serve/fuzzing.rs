//! For fuzz targets: requests.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use plimsoll_api::{KindRef, ObjectKey, PodKey};
use plimsoll_engine::metrics::Family;
use plimsoll_engine::{ClusterSnapshot, Decision, PendingPod};
use plimsoll_framework::PodInfo;
use plimsoll_ui::{ClusterAndQueue, CountedCluster};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

use super::connection::builder;
use super::limits::{self, Patience};
use super::options::Options;
use super::server::Server;
use super::server_state::Peer;
use super::{
    AdviceError, Advisor, CapacityQuestion, Clients, Explained, ManifestError, ProcessInfo,
    SchedulerView, ServerSources, Soon, Unresponsive, VerbosityError, WhyGroupQuestion,
    WhyQuestion,
};

/// An answer that takes longer will never arrive, since no request here waits for anything.
const LONG: Duration = Duration::from_secs(30);

/// A scheduler that never answers.
struct Nobody;

fn silent<T: Send + 'static>() -> Soon<'static, T> {
    futures::future::ready(Err(Unresponsive)).boxed()
}

impl SchedulerView for Nobody {
    fn metrics(&self) -> Soon<'_, Vec<Family>> {
        futures::future::ready(Ok(Vec::new())).boxed()
    }

    fn reset_metrics(&self) -> Soon<'_, ()> {
        silent()
    }

    fn explain(&self, _: PodKey) -> Soon<'_, Explained> {
        futures::future::ready(Ok(Explained::Unknown)).boxed()
    }

    fn pods(&self) -> Soon<'_, Vec<PodInfo>> {
        silent()
    }

    fn dump(&self) -> Soon<'_, String> {
        silent()
    }

    fn snapshot(&self, _: Option<PodKey>) -> Soon<'_, (ClusterSnapshot, Option<PendingPod>)> {
        silent()
    }

    fn snapshot_of_group(&self, _: ObjectKey) -> Soon<'_, (ClusterSnapshot, Vec<PendingPod>)> {
        silent()
    }

    fn picture(&self) -> Soon<'_, ClusterAndQueue> {
        silent()
    }

    fn counts(&self) -> Soon<'_, CountedCluster> {
        silent()
    }

    fn manifest(
        &self,
        _: KindRef,
        _: ObjectKey,
    ) -> BoxFuture<'_, Result<Option<Value>, ManifestError>> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn advisor(&self) -> Arc<dyn Advisor> {
        Arc::new(Nobody)
    }

    fn configuration(&self) -> Arc<str> {
        "{}".into()
    }

    fn default_configuration(&self) -> Arc<str> {
        "{}".into()
    }

    fn is_leader(&self) -> bool {
        true
    }

    fn set_verbosity(&self, level: &str) -> Result<(), VerbosityError> {
        level.parse::<u8>().map(|_| ()).map_err(|_| VerbosityError::NoNumber(level.to_owned()))
    }
}

impl Advisor for Nobody {
    fn why(&self, question: WhyQuestion) -> Result<Value, AdviceError> {
        Err(AdviceError::Unknown(format!("pod {} is not known", question.pod)))
    }

    fn why_group(&self, question: WhyGroupQuestion) -> Result<Value, AdviceError> {
        Err(AdviceError::Unknown(format!("group {} is not known", question.group)))
    }

    fn decision_text(&self, decision: &Decision) -> String {
        format!("{} is decided", decision.pod)
    }

    fn what_if(&self, _: ClusterSnapshot, _: &Value) -> Result<Value, AdviceError> {
        Err(AdviceError::Wrong("nothing is answered here".to_owned()))
    }

    fn capacity(&self, _: CapacityQuestion) -> Result<Value, AdviceError> {
        Err(AdviceError::Wrong("nothing is answered here".to_owned()))
    }

    fn rebalance(&self, _: ClusterSnapshot, _: &Value) -> Result<Value, AdviceError> {
        Err(AdviceError::Wrong("nothing is answered here".to_owned()))
    }
}

/// The bytes of one connection, behind TLS, once as HTTP/1.1 and once as HTTP/2. Everything is allowed,
/// so that the bytes reach the handlers.
pub fn connection(input: &[u8]) {
    static SERVER: OnceLock<(Runtime, Router)> = OnceLock::new();
    let (runtime, router) = SERVER.get_or_init(|| {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let router = runtime.block_on(router());
        (runtime, router)
    });
    for is_h2 in [false, true] {
        let answered = async { tokio::time::timeout(LONG, exchange(input, is_h2, router)).await };
        runtime.block_on(answered).expect("the end of a client ends its connection");
    }
}

async fn router() -> Router {
    let mut options = Options::default();
    options.serving.bind_address = Ipv4Addr::LOCALHOST.into();
    options.authentication.skip_lookup = true;
    options.authorization.always_allow_paths = vec!["/*".to_owned()];
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("there is a free port");
    let process = ProcessInfo { profiling: true, ..ProcessInfo::default() };
    let sources =
        ServerSources { scheduler: Arc::new(Nobody), clients: Clients::default(), process };
    Server::on(listener, &options, sources).await.expect("the options are right").router()
}

async fn exchange(input: &[u8], is_h2: bool, router: &Router) {
    // Each input has its own client address, so that the rate limit does not refuse it.
    static CLIENTS: AtomicU32 = AtomicU32::new(0);
    let address = IpAddr::V4(Ipv4Addr::from(CLIENTS.fetch_add(1, Ordering::Relaxed)));
    let peer = Arc::new(Peer { address, chain: Vec::new() });
    let (mut client, server) = tokio::io::duplex(1 << 16);
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        router.clone().oneshot(request.map(Body::new))
    });
    let builder = builder(is_h2, limits::STREAMS, Patience::default());
    let serving = builder.serve_connection(TokioIo::new(server), service);
    let asking = async {
        let (mut answers, mut requests) = tokio::io::split(&mut client);
        let write = async {
            // The server may close the connection without reading everything.
            let _ = requests.write_all(input).await;
            let _ = requests.shutdown().await;
        };
        let mut all = Vec::new();
        // Neither side has to end without an error, but both have to end.
        let _: ((), std::io::Result<usize>) =
            futures::future::join(write, answers.read_to_end(&mut all)).await;
    };
    let (connection, ()) = futures::future::join(serving, asking).await;
    drop(connection);
}
