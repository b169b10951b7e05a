//! One connection: the handshake, the requests, and timeouts for slow clients.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, PoisonError};

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::connections::OpenConnection;
use super::limits::{self, Patience};
use super::server_state::{Peer, ServerState};

/// What connections need to be served.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) state: Arc<ServerState>,
    pub(super) router: Router,
    pub(super) max_streams: u32,
    pub(super) patience: Patience,
    /// Cancelled when the server stops.
    pub(super) stop: CancellationToken,
}

impl Service {
    /// Serves a connection until it ends, or is closed for another one.
    pub(super) async fn serve(self, stream: TcpStream, connection: OpenConnection) {
        let Ok(address) = stream.peer_addr() else { return };
        let leave = connection.leave.clone();
        let serve = async {
            if let Some(stream) = self.shake_hands(stream, address.ip()).await {
                self.answer(stream, address.ip(), &connection).await;
            }
        };
        // A connection that is cancelled here is closed at once.
        if leave.run_until_cancelled(serve).await.is_none() {
            tracing::debug!(peer = %address, "a connection was closed to make room for another one");
        }
    }

    /// Waits for the handshake limit, and does the TLS handshake.
    async fn shake_hands(
        &self,
        stream: TcpStream,
        address: IpAddr,
    ) -> Option<TlsStream<TcpStream>> {
        let Service { state, patience, .. } = self;
        let acceptor = TlsAcceptor::from(state.material.borrow().config.clone());
        let shake = async {
            // A client that sends nothing does not count towards the limit.
            stream.readable().await?;
            while !self.may_shake_hands(address) {
                tokio::time::sleep(limits::TURN).await;
            }
            acceptor.accept(stream).await
        };
        let span = match state.connections.are_many() {
            true => patience.handshake_in_a_crowd.min(patience.handshake),
            false => patience.handshake,
        };
        match tokio::time::timeout(span, shake).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => tracing::debug!(peer = %address, %error, "TLS handshake error"),
            Err(_) => tracing::debug!(peer = %address, "TLS handshake took too long"),
        }
        None
    }

    fn may_shake_hands(&self, address: IpAddr) -> bool {
        let handshakes = self.state.handshakes.lock();
        let mut handshakes = handshakes.unwrap_or_else(PoisonError::into_inner);
        handshakes.allows(address, std::time::Instant::now())
    }

    /// Answers requests until the connection ends.
    async fn answer(&self, stream: TlsStream<TcpStream>, address: IpAddr, open: &OpenConnection) {
        let Service { router, max_streams, patience, stop, .. } = self;
        let activity = &open.activity;
        let tls = stream.get_ref().1;
        let chain = tls.peer_certificates().unwrap_or_default().iter();
        let chain = chain.map(|cert| cert.clone().into_owned()).collect();
        let peer = Arc::new(Peer { address, chain });
        let is_h2 = tls.alpn_protocol() == Some(b"h2");

        let service = service_fn(|mut request: Request<Incoming>| {
            let (router, under_way) = (router.clone(), activity.begin());
            request.extensions_mut().insert(peer.clone());
            async move {
                let response = router.oneshot(request.map(Body::new)).await;
                response.map(|response: Response<Body>| response.map(|body| under_way.track(body)))
            }
        });
        let builder = builder(is_h2, *max_streams, *patience);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut look = tokio::time::interval(patience.look);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut stopping) = (None, false);
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(peer = %address, %error, "connection ended with an error");
                    }
                    return;
                }
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    last = Some(Instant::now() + patience.shutdown);
                    connection.as_mut().graceful_shutdown();
                }
                _ = look.tick() => {
                    if activity.is_stuck(patience.request) {
                        return tracing::debug!(
                            peer = %address,
                            "closing a connection: the client reads its answer too slowly"
                        );
                    }
                    if activity.is_idle(patience.idle) && last.is_none() {
                        // If the client does not close the connection, close it after this.
                        last = Some(Instant::now() + patience.shutdown);
                        connection.as_mut().graceful_shutdown();
                    }
                }
                () = async { tokio::time::sleep_until(last.unwrap_or_else(Instant::now)).await },
                    if last.is_some() => return,
            }
        }
    }
}

/// All limits of a single connection.
pub(super) fn builder(is_h2: bool, max_streams: u32, patience: Patience) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_headers(limits::HEADERS)
        .max_buf_size(usize::try_from(limits::HEAD_BYTES).unwrap_or(usize::MAX));
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(patience.head)
        .keep_alive_timeout(patience.handshake)
        .max_concurrent_streams(max_streams)
        .max_header_list_size(limits::HEAD_BYTES);
    // As in Go the protocol is what both sides agreed on in the handshake.
    if is_h2 { builder.http2_only() } else { builder.http1_only() }
}
