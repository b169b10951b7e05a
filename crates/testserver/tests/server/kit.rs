//! Shared code of the tests of the server: an independent client (kube-rs), and plain requests.

use std::time::{Duration, Instant};

use http::{Method, Request, Response, header};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use plimsoll_testserver::TestServer;
use serde_json::{Value, json};

/// Far longer than anything takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A kube-rs client without retries of its own.
pub(crate) async fn client(server: &TestServer) -> Client {
    let config = Kubeconfig::from_yaml(&server.kubeconfig()).expect("the kubeconfig can be read");
    let options = KubeConfigOptions::default();
    let mut config =
        Config::from_custom_kubeconfig(config, &options).await.expect("the kubeconfig is valid");
    config.default_retry = false;
    Client::try_from(config).expect("the configuration makes a client")
}

/// A kube-rs client over HTTP/2, which kube's own transport does not speak.
pub(crate) async fn http2_client(server: &TestServer) -> Client {
    let config = Kubeconfig::from_yaml(&server.kubeconfig()).expect("the kubeconfig can be read");
    let options = KubeConfigOptions::default();
    let config =
        Config::from_custom_kubeconfig(config, &options).await.expect("the kubeconfig is valid");
    let mut tls = config.rustls_client_config().expect("the certificates are valid");
    // The connector sets them itself.
    tls.alpn_protocols.clear();
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http2()
        .build();
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build(connector);
    let service = tower::ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().expect("the token is valid"))
        .map_err(tower::BoxError::from)
        .service(client);
    Client::new(service, config.default_namespace)
}

/// One request, and its answer with the body as JSON (null if it is none).
pub(crate) async fn ask(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let content_type = "application/json";
    let body = body.map(|body| (content_type, body));
    let response = send(client, method, path, "application/json", body).await;
    let (parts, body) = response.into_parts();
    let bytes = body.collect_bytes().await.expect("the body arrives");
    (parts.status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
}

/// One request with its content type.
pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    accept: &str,
    body: Option<(&str, Value)>,
) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept);
    let bytes = match body {
        Some((content_type, body)) => {
            request = request.header(header::CONTENT_TYPE, content_type);
            body.to_string().into_bytes()
        }
        None => Vec::new(),
    };
    let request = request.body(Body::from(bytes)).expect("the request is valid");
    client.send(request).await.expect("the server answers")
}

pub(crate) async fn get(client: &Client, path: &str) -> (u16, Value) {
    ask(client, Method::GET, path, None).await
}

pub(crate) async fn post(client: &Client, path: &str, body: Value) -> (u16, Value) {
    ask(client, Method::POST, path, Some(body)).await
}

pub(crate) async fn patch(client: &Client, path: &str, kind: &str, body: Value) -> (u16, Value) {
    let content_type = format!("application/{kind}+json");
    let body = Some((content_type.as_str(), body));
    let response = send(client, Method::PATCH, path, "application/json", body).await;
    let (parts, body) = response.into_parts();
    let bytes = body.collect_bytes().await.expect("the body arrives");
    (parts.status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Waits until `done`, for a bounded time.
pub(crate) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

pub(crate) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    })
}

pub(crate) fn binding(pod: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "namespace": "default"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })
}
