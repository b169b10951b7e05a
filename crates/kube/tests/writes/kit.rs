//! What the tests share: a server, a client, and pods as the scheduler would have seen them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use plimsoll_api::Pod;
use plimsoll_api::wire::{Object, object};
use plimsoll_engine::{Effect, EffectId, Write, WriteError};
use plimsoll_kube::events::{Broadcaster, Options as EventOptions};
use plimsoll_kube::write::{Options, Writer};
use plimsoll_testserver::TestServer;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::ServiceBuilder;

/// Far longer than anything takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// A client that tries nothing twice, with a connection for each request.
pub(crate) fn client(server: &TestServer) -> Client {
    let mut config = Config::new(server.url().parse().expect("the server has a valid URL"));
    config.default_retry = false;
    Client::try_from(config).expect("plain HTTP needs nothing more")
}

/// A client whose requests share one connection, and what becomes of it.
pub(crate) fn sharing_client(server: &TestServer) -> Client {
    let config = Config::new(server.url().parse().expect("the server has a valid URL"));
    let hyper = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .http2_only(true)
        .retry_canceled_requests(false)
        .build_http::<Body>();
    Client::new(ServiceBuilder::new().layer(config.base_uri_layer()).service(hyper), "default")
}

/// A writer with a broadcaster, and the answers.
pub(crate) struct Edge {
    pub(crate) writer: Writer,
    pub(crate) events: Broadcaster,
    answers: mpsc::UnboundedReceiver<(EffectId, Result<(), WriteError>)>,
}

impl Edge {
    pub(crate) fn new(server: &TestServer, change: impl FnOnce(&mut Options)) -> Self {
        Edge::over(client(server), change)
    }

    pub(crate) fn over(client: Client, change: impl FnOnce(&mut Options)) -> Self {
        let events = Broadcaster::new(client.clone(), EventOptions::new("host".to_owned()));
        let mut options = Options::new(Arc::new(events.clone()));
        change(&mut options);
        let (sender, answers) = mpsc::unbounded_channel();
        Edge { writer: Writer::new(client, options, sender), events, answers }
    }

    pub(crate) async fn answer(&mut self) -> (u64, Result<(), WriteError>) {
        let answer = tokio::time::timeout(PATIENCE, self.answers.recv()).await;
        let (id, answer) = answer.expect("it is answered in time").expect("the writer is there");
        (id.0, answer)
    }

    /// Performs effects that nobody awaits, or of which only the last is awaited.
    pub(crate) async fn finish(self) {
        assert_eq!(self.writer.finish(PATIENCE).await, plimsoll_kube::write::Load::default());
        self.events.finish(PATIENCE).await;
    }
}

pub(crate) fn effect(id: u64, pod: &Arc<Pod>, write: Write) -> Effect {
    Effect { id: EffectId(id), pod: pod.clone(), write }
}

/// Puts a pod there.
pub(crate) fn create(server: &TestServer, name: &str, node: Option<&str>) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "ns", "name": name },
        "spec": {
            "nodeName": node, "containers": [{ "name": "c", "image": "i" }],
            "schedulerName": "lab",
        },
    });
    server.store().apply(pod).expect("the pod is valid");
}

/// A pod as the scheduler sees it now.
pub(crate) fn seen(server: &TestServer, name: &str) -> Arc<Pod> {
    let pod = server.store().get("pods", "ns", name).expect("the pod is there");
    match object(&pod).expect("it can be read") {
        Object::Pod(pod) => Arc::from(pod),
        other => panic!("a pod is expected, not {other:?}"),
    }
}

/// Waits until `look` finds something.
pub(crate) async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// One field of a pod, null if it is not there.
pub(crate) fn field(server: &TestServer, pod: &str, pointer: &str) -> Value {
    let pod = server.store().get("pods", "ns", pod).unwrap_or_default();
    pod.pointer(pointer).cloned().unwrap_or_default()
}
