//! Sends requests by HTTP/2 if TLS negotiates it, else by HTTP/1.1.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::{AuthError, Body};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::access::JSON;
use super::explain::{CredentialError, without_secrets};
use super::link::{Built, Link};
use super::metrics::{ResponseBody, RestMetrics};

/// The timeout of connecting, including the TLS handshake. As in client-go's transport/cache.go and
/// net/http: 30 s to dial, 10 s for the handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(40);
/// How long a connection may be idle before a ping is sent, and the timeout of the ping. As in
/// apimachinery's util/net/http.go.
const SILENT_FOR: Duration = Duration::from_secs(30);
const ALIVE_WITHIN: Duration = Duration::from_secs(15);
/// As in net/http.
const IDLE_FOR: Duration = Duration::from_secs(90);
/// As in apimachinery's util/net/http.go.
const IDLE_CONNECTIONS: usize = 25;
/// The flow control windows of one stream and of the connection. As in net/http2, a watch with a slow
/// reader must not block other streams of the connection; but buffered data take memory.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

type Stack = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// The versions of HTTP that a client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versions {
    /// HTTP/2 if the server takes it.
    All,
    /// Only HTTP/1.1, in which a connection can become a stream of something else.
    One,
}

/// Sends the requests of one client over its own connections.
#[derive(Clone)]
pub(super) struct Transport {
    link: Arc<Link>,
    versions: Versions,
    stack: Arc<Mutex<Option<(u64, Stack)>>>,
    user_agent: HeaderValue,
    metrics: Arc<RestMetrics>,
    host: Arc<str>,
}

impl Transport {
    pub(super) fn new(
        (link, versions): (Arc<Link>, Versions),
        user_agent: HeaderValue,
        metrics: Arc<RestMetrics>,
        host: Arc<str>,
    ) -> Self {
        Transport { link, versions, stack: Arc::default(), user_agent, metrics, host }
    }

    /// The service with the credentials in `built`.
    fn stack(&self, built: &Built) -> Result<Stack, BoxError> {
        let mut stack = self.stack.lock().unwrap_or_else(PoisonError::into_inner);
        match &*stack {
            Some((number, stack)) if *number == built.number => Ok(stack.clone()),
            _ => Ok(stack.insert((built.number, connect(built, self.versions)?)).1.clone()),
        }
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let transport = self.clone();
        Box::pin(async move {
            let Transport { link, user_agent, metrics, host, .. } = &transport;
            let built = link.current();
            let stack = transport.stack(&built)?;
            let headers = request.headers_mut();
            headers.insert(USER_AGENT, user_agent.clone());
            headers.entry(ACCEPT).or_insert(HeaderValue::from_static(JSON));
            if let Some(token) = &built.token {
                headers.insert(AUTHORIZATION, token.header());
            }
            let method = request.method().clone();
            let answer = stack.oneshot(request).await.map_err(readable);
            let code = answer.as_ref().ok().map(Response::status);
            metrics.answered(&method, host, code);
            if code == Some(StatusCode::UNAUTHORIZED) {
                link.refused(&built);
            }
            Ok(answer?.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        })
    }
}

/// An error without secrets.
fn readable(error: BoxError) -> BoxError {
    match error.downcast::<AuthError>() {
        Ok(error) => CredentialError(without_secrets(&error)).into(),
        Err(other) => other,
    }
}

fn connect(built: &Built, versions: Versions) -> Result<Stack, BoxError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(SILENT_FOR));
    tcp.set_keepalive_interval(Some(SILENT_FOR));
    let Some(proxy) = &built.loaded.proxy else { return client((built, versions), tcp) };
    let tunnel = Tunnel::new(proxy.uri().clone(), tcp);
    match proxy.basic_auth().cloned() {
        Some(auth) => client((built, versions), tunnel.with_auth(auth)),
        None => client((built, versions), tunnel),
    }
}

/// A client over the connections of `connector`.
fn client<C>((built, versions): (&Built, Versions), connector: C) -> Result<Stack, BoxError>
where
    C: Service<Uri, Response = TokioIo<TcpStream>> + Clone + Send + Sync + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let mut https = HttpsConnectorBuilder::new().with_tls_config(built.tls.clone()).https_or_http();
    if let Some(name) = &built.loaded.config.tls_server_name {
        let name = ServerName::try_from(name.clone())?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = match versions {
        Versions::All => https.enable_all_versions().wrap_connector(connector),
        Versions::One => https.enable_http1().wrap_connector(connector),
    };
    let connector = ServiceBuilder::new().map_future(in_time).service(https);
    let client = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_FOR)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(SILENT_FOR)
        .http2_keep_alive_timeout(ALIVE_WITHIN)
        .http2_keep_alive_while_idle(true)
        // Only requests that were not started: the connection had ended before the first byte was written.
        .retry_canceled_requests(true)
        .build(connector);
    let stack = ServiceBuilder::new()
        .layer(built.base.clone())
        .layer(&built.headers)
        .option_layer(built.auth.as_ref())
        .map_err(BoxError::from)
        .service(client);
    Ok(BoxCloneSyncService::new(stack))
}

/// A connection, or an error after the timeout.
fn in_time<T: 'static>(
    connecting: impl Future<Output = Result<T, BoxError>> + Send + 'static,
) -> Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>> {
    Box::pin(async {
        match tokio::time::timeout(CONNECT_WITHIN, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(format!("no connection within {CONNECT_WITHIN:?}").into()),
        }
    })
}
