//! A fake API server: each request waits until the test answers it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Request};
use plimsoll_kube::client::{Access, Connection, RestMetrics, connect};
use plimsoll_kube::limit::Rate;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How long a test waits for what must come, on a machine that has much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A request that waits for a response.
pub(crate) struct PendingRequest {
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
    responder: oneshot::Sender<Response>,
}

/// A server whose requests come to the test.
pub(crate) struct Fake {
    pub(crate) address: String,
    requests: mpsc::UnboundedReceiver<PendingRequest>,
}

/// What the server says it has, by version of an API group.
type ApiGroups = Arc<BTreeMap<&'static str, Vec<&'static str>>>;

impl Fake {
    /// A server that answers itself only what kinds it has: those in `groups`, by paths such as `/api/v1`.
    pub(crate) async fn with(groups: &[(&'static str, &[&'static str])]) -> Self {
        let groups: ApiGroups =
            Arc::new(groups.iter().map(|(path, plurals)| (*path, plurals.to_vec())).collect());
        let (sender, requests) = mpsc::unbounded_channel();
        let router = Router::new().fallback(pass_on).with_state((groups, sender));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Fake { address: format!("http://{address}"), requests }
    }

    /// A server with pods and nodes.
    pub(crate) async fn start() -> Self {
        Fake::with(&[("/api/v1", &["pods", "nodes"])]).await
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> PendingRequest {
        let next = timeout(PATIENCE, self.requests.recv()).await;
        next.expect("a request comes in time").expect("the server runs")
    }

    /// A connection to it.
    pub(crate) async fn connection(&self) -> Connection {
        let access = Access { master: Some(self.address.clone()), ..Access::default() };
        connect(access, Arc::new(RestMetrics::default())).await.expect("the address is right")
    }

    /// A client of it.
    pub(crate) async fn client(&self) -> kube::Client {
        self.connection().await.client("test", Rate::UNLIMITED)
    }
}

async fn pass_on(
    State((groups, sender)): State<(ApiGroups, mpsc::UnboundedSender<PendingRequest>)>,
    request: Request<Body>,
) -> Response {
    let path = request.uri().path().to_owned();
    if let Some(plurals) = groups.get(path.as_str()) {
        let verbs = ["get", "list", "watch"];
        let resources: Vec<Value> =
            plurals.iter().map(|plural| json!({"name": plural, "verbs": verbs})).collect();
        return full(200, json!({"kind": "APIResourceList", "resources": resources}).to_string());
    }
    if path == "/version" {
        return full(200, json!({"major": "1", "minor": "31+"}).to_string());
    }
    if !groups.is_empty() && path.matches('/').count() < 4 && !path.starts_with("/api/v1/") {
        return full(404, json!({"kind": "Status", "code": 404}).to_string());
    }
    let query = request.uri().query().unwrap_or_default();
    let query = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = query.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (responder, response) = oneshot::channel();
    let headers = request.headers().clone();
    let _ = sender.send(PendingRequest { path, query, headers, responder });
    // A request that the test drops is never answered.
    match response.await {
        Ok(response) => response,
        Err(_) => std::future::pending().await,
    }
}

fn full(status: u16, body: String) -> Response {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Body::from(body)).expect("it is well-formed")
}

impl PendingRequest {
    /// A parameter of the query; empty where it is not given.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    /// The parameters that say what is asked for, in one line.
    pub(crate) fn summary(&self) -> String {
        let shown = ["limit", "continue", "watch", "sendInitialEvents", "resourceVersion"];
        let shown = shown.iter().filter(|name| self.query.contains_key(**name));
        let shown: Vec<String> = shown.map(|name| format!("{name}={}", self.get(name))).collect();
        format!("{}?{}", self.path, shown.join("&"))
    }

    /// Answers with an object.
    pub(crate) fn json(self, value: &Value) {
        self.text(200, value.to_string());
    }

    /// Answers with a text.
    pub(crate) fn text(self, status: u16, text: String) {
        let _ = self.responder.send(full(status, text));
    }

    /// Refuses.
    pub(crate) fn refuse(self, code: u16, reason: &str) {
        let status = json!({"kind": "Status", "code": code, "reason": reason, "message": "no"});
        self.text(code, status.to_string());
    }

    /// Refuses a streaming list, as servers do that know none.
    pub(crate) fn no_streaming(self) {
        assert_eq!(self.get("sendInitialEvents"), "true", "{}", self.summary());
        self.refuse(422, "Invalid");
    }

    /// Answers with a list at a version.
    pub(crate) fn list(self, version: &str, next: &str, items: &[Value]) {
        assert_eq!(self.get("watch"), "", "{}", self.summary());
        let metadata = json!({"resourceVersion": version, "continue": next});
        self.json(
            &json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}),
        );
    }

    /// Answers with a watch.
    pub(crate) fn stream(self) -> WatchStream {
        assert_eq!(self.get("watch"), "true", "{}", self.summary());
        let (sender, receiver) = mpsc::channel(16);
        let pieces = futures::stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|piece| (piece, receiver))
        });
        let _ = self.responder.send(Response::new(Body::from_stream(pieces)));
        WatchStream(sender)
    }
}

/// A watch that the test feeds. Dropping it ends it well.
pub(crate) struct WatchStream(mpsc::Sender<Result<Bytes, std::io::Error>>);

impl WatchStream {
    /// Sends bytes as they are.
    pub(crate) async fn send(&self, text: impl Into<Bytes>) {
        let sent = timeout(PATIENCE, self.0.send(Ok(text.into()))).await;
        let _ = sent.expect("the client reads");
    }

    /// Says something of an object.
    pub(crate) async fn say(&self, word: &str, object: &Value) {
        self.send(frame(word, object)).await;
    }

    /// Says that nothing was left out up to `version`.
    pub(crate) async fn bookmark(&self, version: &str) {
        self.say("BOOKMARK", &json!({"metadata": {"resourceVersion": version}})).await;
    }

    /// Ends a streaming list.
    pub(crate) async fn end_list(&self, version: &str) {
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let metadata = json!({"resourceVersion": version, "annotations": annotations});
        self.say("BOOKMARK", &json!({"metadata": metadata})).await;
    }

    /// Breaks the connection.
    pub(crate) async fn break_off(self) {
        let _ = self.0.send(Err(std::io::Error::other("cut"))).await;
    }
}

/// A line of a watch.
pub(crate) fn frame(word: &str, object: &Value) -> String {
    format!("{{\"type\":\"{word}\",\"object\":{object}}}\n")
}

/// A pod `n/NAME` of a version.
pub(crate) fn pod(name: &str, version: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}"), "resourceVersion": version},
        "spec": {"containers": [{"name": "c"}]},
    })
}
