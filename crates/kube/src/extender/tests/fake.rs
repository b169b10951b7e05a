//! An extender in the same process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// What it does with every request.
#[derive(Clone, Debug)]
pub(super) enum Reaction {
    /// Answers with this status and text.
    Says(u16, String),
    /// Answers by path.
    Routes(&'static [(&'static str, &'static str)]),
    /// Never answers.
    Hangs,
    /// Begins to answer.
    Stops,
    /// Answers with this many mebibytes of spaces.
    Floods(usize),
}

/// A request that it got.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Got {
    pub(super) path: String,
    pub(super) body: String,
}

/// A fake extender.
pub(super) struct FakeExtender {
    pub(super) address: SocketAddr,
    state: FakeState,
}

#[derive(Clone)]
struct FakeState {
    reaction: Reaction,
    got: Arc<Mutex<Vec<Got>>>,
    /// How many received requests have no answer yet.
    open: watch::Sender<usize>,
}

impl FakeExtender {
    pub(super) async fn says(text: &str) -> Self {
        FakeExtender::new(Reaction::Says(200, text.to_owned()), None).await
    }

    pub(super) async fn new(reaction: Reaction, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let state = FakeState { reaction, got: Arc::default(), open: watch::Sender::new(0) };
        let router = Router::new().fallback(handle).with_state(state.clone());
        tokio::spawn(serve(listener, router, tls));
        FakeExtender { address, state }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn got(&self) -> Vec<Got> {
        self.state.got.lock().expect("nobody panics").clone()
    }

    /// The JSON of the only request.
    pub(super) fn json(&self) -> (String, Value) {
        let got = self.got();
        let [Got { path, body }] = got.as_slice() else { panic!("one request, not {got:?}") };
        (path.clone(), serde_json::from_str(body).expect("it is JSON"))
    }

    /// Waits until this many requests are open.
    pub(super) async fn has_open(&self, n: usize) {
        let mut open = self.state.open.subscribe();
        let waiting = open.wait_for(|open| n <= *open);
        let waited = tokio::time::timeout(super::LONG, waiting).await;
        waited.expect("requests come in time").expect("it counts them");
    }

    pub(super) fn n_open(&self) -> usize {
        *self.state.open.borrow()
    }
}

async fn serve(listener: TcpListener, router: Router, tls: Option<TlsAcceptor>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (service, tls) = (TowerToHyperService::new(router.clone()), tls.clone());
        tokio::spawn(async move {
            let builder = Builder::new(TokioExecutor::new());
            // Broken connections do not matter here: the client reports them.
            let _ = match tls {
                None => builder.serve_connection(TokioIo::new(stream), service).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => builder.serve_connection(TokioIo::new(stream), service).await,
                    Err(_) => Ok(()),
                },
            };
        });
    }
}

async fn handle(State(state): State<FakeState>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let length = request.headers().get(CONTENT_LENGTH).cloned();
    let is_json = request.headers().get("content-type").is_some_and(|t| t == "application/json");
    let body = request.into_body().collect().await.expect("a body comes").to_bytes();
    // Many small servers do not support chunked bodies.
    let length = length.expect("the length is told").to_str().map(str::parse::<usize>);
    assert!(is_json && matches!(length, Ok(Ok(length)) if length == body.len()));
    let body = String::from_utf8(body.to_vec()).expect("it is text");
    let asked = path.clone();
    state.got.lock().expect("nobody panics").push(Got { path, body });
    match state.reaction {
        Reaction::Says(status, text) => {
            (StatusCode::from_u16(status).expect("it is a status"), text).into_response()
        }
        Reaction::Routes(routes) => match routes.iter().find(|(route, _)| *route == asked) {
            Some((_, text)) => text.into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        Reaction::Hangs => {
            state.open.send_modify(|open| *open += 1);
            std::future::pending().await
        }
        Reaction::Stops => {
            let first = futures::stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{"))]);
            Body::from_stream(first.chain(futures::stream::pending())).into_response()
        }
        Reaction::Floods(n) => {
            let chunk = Bytes::from(vec![b' '; 1 << 20]);
            let chunks =
                futures::stream::iter((0..n).map(move |_| Ok::<_, Infallible>(chunk.clone())));
            Body::from_stream(chunks).into_response()
        }
    }
}
