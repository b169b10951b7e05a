//! One connection: the handshake, the requests, and an end to clients that take too long.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::limits::{self, Patience};
use super::site::{Peer, Site};

/// The requests of a connection that are under way.
#[derive(Debug)]
struct Activity(Mutex<Requests>);

#[derive(Debug)]
struct Requests {
    next: u64,
    /// Number and beginning of each, the oldest first.
    under_way: Vec<(u64, Instant)>,
    /// When the last one ended, or the connection began.
    idle_since: Instant,
}

impl Activity {
    fn new() -> Arc<Self> {
        let (next, under_way, idle_since) = (0, Vec::new(), Instant::now());
        Arc::new(Activity(Mutex::new(Requests { next, under_way, idle_since })))
    }

    /// A request begins; it ends when what this returns is dropped.
    fn begin(self: &Arc<Self>) -> UnderWay {
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = requests.next;
        requests.next += 1;
        requests.under_way.push((number, Instant::now()));
        UnderWay { activity: self.clone(), number }
    }

    /// Whether a request takes longer than `patience`.
    fn is_stuck(&self, patience: Duration) -> bool {
        let requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        requests.under_way.first().is_some_and(|(_, began)| patience <= began.elapsed())
    }

    /// Whether there was no request for `patience`.
    fn is_idle(&self, patience: Duration) -> bool {
        let requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        requests.under_way.is_empty() && patience <= requests.idle_since.elapsed()
    }
}

/// A request that is under way.
#[derive(Debug)]
struct UnderWay {
    activity: Arc<Activity>,
    number: u64,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut requests = self.activity.0.lock().unwrap_or_else(PoisonError::into_inner);
        requests.under_way.retain(|(number, _)| *number != self.number);
        requests.idle_since = Instant::now();
    }
}

/// An answer that is under way until all of it was taken.
struct Tracked {
    body: Body,
    _under_way: UnderWay,
}

impl hyper::body::Body for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Serves a connection until it ends.
pub(super) async fn serve(
    stream: TcpStream,
    site: Arc<Site>,
    router: Router,
    max_streams: u32,
    patience: Patience,
    stop: CancellationToken,
) {
    let Ok(address) = stream.peer_addr() else { return };
    let acceptor = TlsAcceptor::from(site.material.borrow().config.clone());
    let handshake = tokio::time::timeout(patience.handshake, acceptor.accept(stream)).await;
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return tracing::debug!(peer = %address, %error, "TLS handshake error");
        }
        Err(_) => return tracing::debug!(peer = %address, "TLS handshake took too long"),
    };
    let tls = stream.get_ref().1;
    let chain = tls.peer_certificates().unwrap_or_default().iter();
    let chain = chain.map(|cert| cert.clone().into_owned()).collect();
    let peer = Arc::new(Peer { address: address.ip(), chain });
    let is_h2 = tls.alpn_protocol() == Some(b"h2");

    let activity = Activity::new();
    let service = service_fn(|mut request: Request<Incoming>| {
        let (router, under_way) = (router.clone(), activity.begin());
        request.extensions_mut().insert(peer.clone());
        async move {
            let response = router.oneshot(request.map(Body::new)).await;
            response.map(|response: Response<Body>| {
                response.map(|body| Tracked { body, _under_way: under_way })
            })
        }
    });
    let builder = builder(is_h2, max_streams, patience);
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
                    return tracing::debug!(peer = %address, "a client takes too long for an answer");
                }
                if activity.is_idle(patience.idle) && last.is_none() {
                    // A client that does not take leave by itself is left.
                    last = Some(Instant::now() + patience.shutdown);
                    connection.as_mut().graceful_shutdown();
                }
            }
            () = async { tokio::time::sleep_until(last.unwrap_or_else(Instant::now)).await },
                if last.is_some() => return,
        }
    }
}

/// Every limit that a connection by itself can keep.
fn builder(is_h2: bool, max_streams: u32, patience: Patience) -> Builder<TokioExecutor> {
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
