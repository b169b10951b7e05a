//! A plain HTTP server for one user on one machine: the page and its data, of files.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use http::header::{ALLOW, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::assets::{SECURITY_HEADERS, asset};
use crate::events::changes;
use crate::question::{Failure, Question, WhyGroupQuestion, WhyQuestion};

/// The largest body of a question, in bytes: the manifests of a release.
const BODY_BYTES: usize = 1024 * 1024;

/// At most so many questions are answered at a time. Each may copy the cluster.
const ANSWERS: usize = 2;

/// At most so many streams of events are open. A browser opens no more than six connections.
const STREAMS: usize = 16;

/// How long a stream of events lasts.
const STREAM_SPAN: Duration = Duration::from_mins(10);

/// What the page shows.
pub trait Source: Send + Sync + 'static {
    /// Answers a question about the cluster, as JSON.
    fn answer(&self, question: &Question) -> Result<String, Failure>;

    /// The least that would have to change so that a pod fits, or why it is on its node.
    fn why(&self, question: &WhyQuestion) -> Result<Value, Failure>;

    /// Why a group of pods waits, and what would let it be scheduled.
    fn why_group(&self, question: &WhyGroupQuestion) -> Result<Value, Failure>;

    /// What would happen if the cluster changed.
    fn what_if(&self, request: &Value) -> Result<Value, Failure>;

    /// How many more pods fit.
    fn capacity(&self, request: &Value) -> Result<Value, Failure>;

    /// Which pods should move.
    fn rebalance(&self, request: &Value) -> Result<Value, Failure>;

    /// The description of the API.
    fn description(&self) -> &'static str;

    /// A number that changes when answers change.
    fn version(&self) -> u64;
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be used.
    #[error(
        "cannot listen on {address}: {error}; choose another address, or port 0 for any free one"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
}

/// A server that listens, and serves once [`PlainServer::serve`] is called.
#[derive(Debug)]
pub struct PlainServer {
    listener: TcpListener,
    router: Router,
}

struct Served {
    source: Arc<dyn Source>,
    answers: Semaphore,
    streams: Arc<Semaphore>,
}

type App = State<Arc<Served>>;
type Pairs = Query<Vec<(String, String)>>;

impl PlainServer {
    /// Listens on an address.
    pub async fn bind(address: SocketAddr, source: Arc<dyn Source>) -> Result<Self, ListenError> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| ListenError::Bind { address, error })?;
        Ok(PlainServer { listener, router: routes(source) })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is ready. Requests in progress are not finished.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> std::io::Result<()> {
        let serve = axum::serve(self.listener, self.router).into_future();
        tokio::select! {
            served = serve => served,
            () = stop => Ok(()),
        }
    }
}

fn routes(source: Arc<dyn Source>) -> Router {
    let served = Served {
        source,
        answers: Semaphore::new(ANSWERS),
        streams: Arc::new(Semaphore::new(STREAMS)),
    };
    Router::new()
        .route("/", get(page))
        .route("/{asset}", get(page_asset))
        .route("/api/v1/why", get(why))
        .route("/api/v1/why-group", get(why_group))
        .route("/api/v1/what-if", post(what_if))
        .route("/api/v1/capacity", post(capacity))
        .route("/api/v1/rebalance", post(rebalance))
        .route("/api/v1/openapi.json", get(description))
        .route("/api/v1/events", get(events))
        .route("/api/v1/{question}", get(question))
        .fallback(async || refusal(StatusCode::NOT_FOUND, "there is no such path"))
        .method_not_allowed_fallback(async || {
            let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "ask with another method");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
            response
        })
        .layer(from_fn(pass))
        .with_state(Arc::new(served))
}

/// Refuses requests that other pages make, and adds the security headers to every answer.
///
/// A name of another host may be made to point to this machine (DNS rebinding). So only addresses, and `localhost`, are
/// accepted as the host.
async fn pass(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let origin = request.headers().get(ORIGIN).map(|origin| origin.to_str().unwrap_or("null"));
    let mut response = match host {
        Some(host) if !is_own(host) => {
            let why = format!(
                "the host is {host:?}: open the page by an address, such as http://127.0.0.1, or by localhost"
            );
            refusal(StatusCode::FORBIDDEN, &why)
        }
        None => refusal(StatusCode::BAD_REQUEST, "the header Host is missing"),
        Some(host) if origin.is_some_and(|origin| origin != format!("http://{host}")) => {
            refusal(StatusCode::FORBIDDEN, "other pages may not ask")
        }
        Some(_) => next.run(request).await,
    };
    for (name, value) in SECURITY_HEADERS {
        let name = HeaderName::from_static(name);
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Whether the host of a request is an address, or `localhost`.
fn is_own(host: &str) -> bool {
    if host.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || [name, bare].iter().any(|text| text.parse::<IpAddr>().is_ok())
}

async fn page(headers: HeaderMap) -> Response {
    file("", &headers)
}

async fn page_asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    file(&name, &headers)
}

fn file(name: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = asset(name) else {
        return refusal(StatusCode::NOT_FOUND, "there is no such path");
    };
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known == asset.etag);
    let mut response = match is_known {
        true => Response::new(Body::empty()),
        false => Response::new(Body::from(asset.bytes)),
    };
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    response.headers_mut().insert(ETAG, HeaderValue::from_static(asset.etag));
    response
}

async fn question(State(served): App, uri: Uri, Query(query): Pairs) -> Response {
    let Some(parsed) = Question::parse(uri.path(), &query) else {
        return refusal(StatusCode::NOT_FOUND, "there is no such path");
    };
    match parsed {
        Ok(question) => served.send(move |source| source.answer(&question)).await,
        Err(error) => refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

async fn why(State(served): App, Query(query): Pairs) -> Response {
    match WhyQuestion::parse(&query) {
        Ok(question) => served.answer(move |source| source.why(&question)).await,
        Err(error) => refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

async fn why_group(State(served): App, Query(query): Pairs) -> Response {
    match WhyGroupQuestion::parse(&query) {
        Ok(question) => served.answer(move |source| source.why_group(&question)).await,
        Err(error) => refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

async fn what_if(State(served): App, headers: HeaderMap, body: Body) -> Response {
    match posted(&headers, body).await {
        Ok(request) => served.answer(move |source| source.what_if(&request)).await,
        Err(refusal) => *refusal,
    }
}

async fn capacity(State(served): App, headers: HeaderMap, body: Body) -> Response {
    match posted(&headers, body).await {
        Ok(request) => served.answer(move |source| source.capacity(&request)).await,
        Err(refusal) => *refusal,
    }
}

async fn rebalance(State(served): App, headers: HeaderMap, body: Body) -> Response {
    match posted(&headers, body).await {
        Ok(request) => served.answer(move |source| source.rebalance(&request)).await,
        Err(refusal) => *refusal,
    }
}

/// The body of a question. Its type must be JSON, which no form of another page can send.
async fn posted(headers: &HeaderMap, body: Body) -> Result<Value, Box<Response>> {
    let refused = |code, why: &str| Err(Box::new(refusal(code, why)));
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        let why = "the header Content-Type must be application/json";
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
    }
    let body = match Limited::new(body, BODY_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let why = format!("the body is too large: at most {BODY_BYTES} bytes are read");
            return refused(StatusCode::PAYLOAD_TOO_LARGE, &why);
        }
        Err(error) => {
            return refused(StatusCode::BAD_REQUEST, &format!("the body cannot be read: {error}"));
        }
    };
    serde_json::from_slice(&body).or_else(|error| {
        refused(StatusCode::BAD_REQUEST, &format!("the body is not JSON: {error}"))
    })
}

async fn description(State(served): App) -> Response {
    json_of(StatusCode::OK, served.source.description().to_owned())
}

async fn events(State(served): App, method: Method) -> Response {
    if method == Method::HEAD {
        return Response::new(Body::empty());
    }
    let Ok(permit) = served.streams.clone().try_acquire_owned() else {
        return refusal(StatusCode::TOO_MANY_REQUESTS, "too many pages are open: close some");
    };
    let version = move || {
        // The stream has it until it ends.
        let _permit = &permit;
        served.source.version()
    };
    changes(version, STREAM_SPAN)
}

impl Served {
    /// Answers on a thread for work that blocks.
    async fn answer(
        self: &Arc<Self>,
        ask: impl FnOnce(&dyn Source) -> Result<Value, Failure> + Send + 'static,
    ) -> Response {
        self.send(move |source| ask(source).map(|answer| answer.to_string())).await
    }

    /// Answers with JSON, on a thread for work that blocks.
    async fn send(
        self: &Arc<Self>,
        ask: impl FnOnce(&dyn Source) -> Result<String, Failure> + Send + 'static,
    ) -> Response {
        let Ok(_permit) = self.answers.acquire().await else {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
        };
        let source = self.source.clone();
        let written =
            tokio::task::spawn_blocking(move || ask(&*source).map(|answer| answer + "\n"));
        match written.await {
            Ok(Ok(answer)) => json_of(StatusCode::OK, answer),
            Ok(Err(Failure::NotFound(why))) => refusal(StatusCode::NOT_FOUND, &why),
            Ok(Err(Failure::Wrong(why))) => refusal(StatusCode::BAD_REQUEST, &why),
            Ok(Err(Failure::Failed(why))) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &why),
            Err(error) => {
                refusal(StatusCode::INTERNAL_SERVER_ERROR, &format!("no answer: {error}"))
            }
        }
    }
}

fn json_of(code: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Why there is no answer, as the API of Kubernetes says it.
fn refusal(code: StatusCode, why: &str) -> Response {
    let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": why, "reason": reason, "code": code.as_u16(),
    });
    json_of(code, format!("{status}\n"))
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt as _;

    use super::*;

    /// Answers every question with its name.
    struct Echo;

    impl Source for Echo {
        fn answer(&self, question: &Question) -> Result<String, Failure> {
            match question {
                Question::Node(name) => Err(Failure::NotFound(format!("nodes {name:?} not found"))),
                _ => Ok(json!(format!("{question:?}")).to_string()),
            }
        }
        fn why(&self, question: &WhyQuestion) -> Result<Value, Failure> {
            Ok(json!(question.pod.to_string()))
        }
        fn why_group(&self, question: &WhyGroupQuestion) -> Result<Value, Failure> {
            Ok(json!(question.group.to_string()))
        }
        fn what_if(&self, request: &Value) -> Result<Value, Failure> {
            Ok(request.clone())
        }
        fn capacity(&self, _: &Value) -> Result<Value, Failure> {
            Err(Failure::Wrong("pods are missing".to_owned()))
        }
        fn rebalance(&self, request: &Value) -> Result<Value, Failure> {
            Ok(json!([request]))
        }
        fn description(&self) -> &'static str {
            "{}"
        }
        fn version(&self) -> u64 {
            7
        }
    }

    async fn ask(request: http::request::Builder, body: &'static str) -> (u16, HeaderMap, String) {
        let request = request.body(Body::from(body)).expect("it is a request");
        let response = routes(Arc::new(Echo)).oneshot(request).await.expect("it answers");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("it is there").to_bytes();
        (head.status.as_u16(), head.headers, String::from_utf8_lossy(&body).into_owned())
    }

    fn to(method: &str, path: &str) -> http::request::Builder {
        Request::builder().method(method).uri(path).header(HOST, "127.0.0.1:8042")
    }

    #[tokio::test]
    async fn the_page_is_served_with_a_policy_and_only_once() {
        let (code, headers, body) = ask(to("GET", "/"), "").await;
        assert_eq!(
            (code, &headers[CONTENT_TYPE]),
            (200, &HeaderValue::from_static("text/html; charset=utf-8"))
        );
        assert!(body.starts_with("<!doctype html>"), "{body}");
        let policy = headers["content-security-policy"].to_str().expect("it is text");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        let again = to("GET", "/").header(IF_NONE_MATCH, &headers[ETAG]);
        let (code, _, body) = ask(again, "").await;
        assert_eq!((code, body.as_str()), (304, ""));
        assert_eq!(ask(to("GET", "/secret.js"), "").await.0, 404);
    }

    #[tokio::test]
    async fn a_name_that_may_point_here_is_refused() {
        for host in
            ["127.0.0.1:8042", "localhost", "LOCALHOST:1", "[::1]:8042", "[::1]", "10.0.0.1"]
        {
            let request = Request::builder().uri("/").header(HOST, host);
            assert_eq!(ask(request, "").await.0, 200, "{host}");
        }
        for host in ["evil.example:8042", "127.0.0.1.evil.example", "localhost.evil.example", ""] {
            let request = Request::builder().uri("/api/v1/nodes").header(HOST, host);
            let (code, _, body) = ask(request, "").await;
            assert_eq!(code, 403, "{host}");
            assert!(body.contains("open the page by an address"), "{body}");
        }
        assert_eq!(ask(Request::builder().uri("/"), "").await.0, 400, "no host");
    }

    #[tokio::test]
    async fn other_pages_may_not_ask() {
        let from = |origin: &'static str| {
            to("POST", "/api/v1/what-if")
                .header(ORIGIN, origin)
                .header(CONTENT_TYPE, "application/json")
        };
        assert_eq!(ask(from("http://127.0.0.1:8042"), "{}").await.0, 200);
        for origin in
            ["http://evil.example", "http://127.0.0.1:1", "https://127.0.0.1:8042", "null"]
        {
            assert_eq!(ask(from(origin), "{}").await.0, 403, "{origin}");
        }
        let form = to("POST", "/api/v1/what-if").header(CONTENT_TYPE, "text/plain");
        assert_eq!(ask(form, "{}").await.0, 415);
    }

    #[tokio::test]
    async fn questions_are_answered_and_errors_are_those_of_the_kubernetes_api() {
        assert_eq!(ask(to("GET", "/api/v1/nodes"), "").await.2, "\"Nodes\"\n");
        assert_eq!(ask(to("GET", "/api/v1/why?pod=a/b"), "").await.2, "\"a/b\"\n");
        let json = |path| to("POST", path).header(CONTENT_TYPE, "application/json; charset=utf-8");
        assert_eq!(ask(json("/api/v1/what-if"), "[1]").await.2, "[1]\n");
        assert_eq!(ask(json("/api/v1/rebalance"), "1").await.2, "[1]\n");
        let group = to("GET", "/api/v1/why-group?group=a/b&remedies=3");
        assert_eq!(ask(group, "").await.2, "\"a/b\"\n");
        for (request, body, code, message) in [
            (to("GET", "/api/v1/node?name=n9"), "", 404, "nodes \"n9\" not found"),
            (to("GET", "/api/v1/node"), "", 400, "ask for one node"),
            (to("GET", "/api/v1/nothing"), "", 404, "there is no such path"),
            (to("GET", "/api/v1/why"), "", 400, "ask for one pod"),
            (to("GET", "/api/v1/why-group?pod=a/b"), "", 400, "unknown parameter \"pod\""),
            (to("GET", "/api/v1/what-if"), "", 405, "ask with another method"),
            (json("/api/v1/what-if"), "{", 400, "the body is not JSON"),
            (json("/api/v1/capacity"), "{}", 400, "pods are missing"),
        ] {
            let (seen, _, answer) = ask(request, body).await;
            let status: Value = serde_json::from_str(&answer).expect("it is JSON");
            assert_eq!((seen, &status["kind"]), (code, &json!("Status")), "{answer}");
            assert!(
                status["message"].as_str().expect("it says why").starts_with(message),
                "{answer}"
            );
        }
    }

    #[tokio::test]
    async fn a_stream_of_events_begins_with_the_version() {
        let request = to("GET", "/api/v1/events").body(Body::empty()).expect("it is a request");
        let response = routes(Arc::new(Echo)).oneshot(request).await.expect("it answers");
        let mut body = response.into_body();
        let first = body.frame().await.expect("there is one").expect("it is whole");
        let first = first.into_data().expect("it is data");
        assert_eq!(&first[..], b"event: change\ndata: {\"version\":7}\n\n");
    }
}
