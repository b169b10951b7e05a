//! A fake API server for tests: a function from requests to responses, without a network.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A request that was received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    /// Such as `POST /api/v1/pods`, without the query.
    pub(crate) line: String,
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub(crate) enum FakeResponse {
    /// A response with this status and body.
    Response(u16, Value),
    /// A response with a header `Retry-After`.
    RetryAfter(u16, u64),
    /// A response after a delay.
    Slow(Duration, u16, Value),
    /// The connection breaks.
    Broken,
    /// There is no connection.
    Unreachable,
    /// There is never a response.
    Silence,
}

impl FakeResponse {
    pub(crate) fn ok() -> Self {
        FakeResponse::Response(200, json!({ "kind": "Status", "status": "Success" }))
    }

    /// An error as the API server returns it.
    pub(crate) fn error(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
        });
        FakeResponse::Response(code, status)
    }

    pub(crate) fn not_found() -> Self {
        FakeResponse::error(404, "NotFound", "pods \"p\" not found")
    }
}

/// An API server with scripted responses.
#[derive(Clone)]
pub(crate) struct FakeApiServer {
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    client: Client,
}

impl FakeApiServer {
    /// Answers each request by `respond`, which also gets the number of earlier requests with this line.
    pub(crate) fn new(
        respond: impl FnMut(&ReceivedRequest, usize) -> FakeResponse + Send + 'static,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let state = Arc::new(Mutex::new((respond, BTreeMap::<String, usize>::new())));
        let log = seen.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, state) = (log.clone(), state.clone());
            async move {
                let seen = read(request).await;
                let reply = {
                    let (respond, counts) = &mut *state.lock().expect("no test panics in it");
                    let count = counts.entry(seen.line.clone()).or_default();
                    let before = *count;
                    *count += 1;
                    respond(&seen, before)
                };
                log.lock().expect("no test panics in it").push(seen);
                carry_out(reply).await
            }
        });
        FakeApiServer { seen, client: Client::new(service, "default") }
    }

    /// Answers lines with one of these prefixes with its responses in turn, repeating the last one. All
    /// other lines get a success.
    pub(crate) fn scripted(script: &[(&str, &[FakeResponse])]) -> Self {
        let script: Vec<(String, Vec<FakeResponse>)> =
            script.iter().map(|(line, replies)| ((*line).to_owned(), replies.to_vec())).collect();
        FakeApiServer::new(move |seen, before| {
            let replies = script.iter().find(|(line, _)| seen.line.starts_with(line.as_str()));
            let reply = replies.map(|(_, replies)| &replies[before.min(replies.len() - 1)]);
            reply.cloned().unwrap_or_else(FakeResponse::ok)
        })
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().expect("no test panics in it").clone()
    }

    /// The lines of the requests so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.requests().into_iter().map(|seen| seen.line).collect()
    }
}

async fn read(request: Request<Body>) -> ReceivedRequest {
    let (parts, body) = request.into_parts();
    let bytes = body.collect_bytes().await.expect("the body is at hand");
    let header = parts.headers.get(http::header::CONTENT_TYPE);
    ReceivedRequest {
        line: format!("{} {}", parts.method, parts.uri.path()),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        content_type: header.map_or("", |value| value.to_str().expect("text")).to_owned(),
        body: match bytes.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&bytes).expect("bodies are JSON"),
        },
    }
}

async fn carry_out(reply: FakeResponse) -> Result<Response<Body>, tower::BoxError> {
    let answer = |code: u16, retry_after: Option<u64>, body: &Value| {
        let mut response = Response::builder().status(code);
        if let Some(seconds) = retry_after {
            response = response.header(http::header::RETRY_AFTER, seconds);
        }
        Ok(response.body(Body::from(body.to_string().into_bytes()))?)
    };
    match reply {
        FakeResponse::Response(code, body) => answer(code, None, &body),
        FakeResponse::RetryAfter(code, seconds) => answer(code, Some(seconds), &json!({})),
        FakeResponse::Slow(span, code, body) => {
            tokio::time::sleep(span).await;
            answer(code, None, &body)
        }
        FakeResponse::Broken => {
            Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into())
        }
        FakeResponse::Unreachable => {
            Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into())
        }
        FakeResponse::Silence => {
            let never: Infallible = std::future::pending().await;
            match never {}
        }
    }
}
