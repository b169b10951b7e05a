//! An API server for tests that is a function: requests in, answers out, no network.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A request as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Such as `POST /api/v1/pods`, without the query.
    pub(crate) line: String,
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// An answer with this status and body.
    Answer(u16, Value),
    /// An answer with a header `Retry-After`.
    RetryAfter(u16, u64),
    /// An answer that takes its time.
    Slow(Duration, u16, Value),
    /// The connection breaks.
    Broken,
    /// There is no connection.
    Unreachable,
    /// No answer ever comes.
    Silence,
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Reply::Answer(200, json!({ "kind": "Status", "status": "Success" }))
    }

    /// An error as the API server tells it.
    pub(crate) fn error(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
        });
        Reply::Answer(code, status)
    }

    pub(crate) fn not_found() -> Self {
        Reply::error(404, "NotFound", "pods \"p\" not found")
    }
}

/// An API server that answers as it is told.
#[derive(Clone)]
pub(crate) struct Fake {
    seen: Arc<Mutex<Vec<Seen>>>,
    client: Client,
}

impl Fake {
    /// Answers each request as `answer` says, which is also told how often this line came before.
    pub(crate) fn new(answer: impl FnMut(&Seen, usize) -> Reply + Send + 'static) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let state = Arc::new(Mutex::new((answer, BTreeMap::<String, usize>::new())));
        let log = seen.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, state) = (log.clone(), state.clone());
            async move {
                let seen = read(request).await;
                let reply = {
                    let (answer, counts) = &mut *state.lock().expect("no test panics in it");
                    let count = counts.entry(seen.line.clone()).or_default();
                    let before = *count;
                    *count += 1;
                    answer(&seen, before)
                };
                log.lock().expect("no test panics in it").push(seen);
                carry_out(reply).await
            }
        });
        Fake { seen, client: Client::new(service, "default") }
    }

    /// Answers lines that begin with one of these with what stands beside it, in turn, the last one over and
    /// over; all others with success.
    pub(crate) fn scripted(script: &[(&str, &[Reply])]) -> Self {
        let script: Vec<(String, Vec<Reply>)> =
            script.iter().map(|(line, replies)| ((*line).to_owned(), replies.to_vec())).collect();
        Fake::new(move |seen, before| {
            let replies = script.iter().find(|(line, _)| seen.line.starts_with(line.as_str()));
            let reply = replies.map(|(_, replies)| &replies[before.min(replies.len() - 1)]);
            reply.cloned().unwrap_or_else(Reply::ok)
        })
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// What came in so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panics in it").clone()
    }

    /// The lines that came in so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }
}

async fn read(request: Request<Body>) -> Seen {
    let (parts, body) = request.into_parts();
    let bytes = body.collect_bytes().await.expect("the body is at hand");
    let header = parts.headers.get(http::header::CONTENT_TYPE);
    Seen {
        line: format!("{} {}", parts.method, parts.uri.path()),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        content_type: header.map_or("", |value| value.to_str().expect("text")).to_owned(),
        body: match bytes.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&bytes).expect("bodies are JSON"),
        },
    }
}

async fn carry_out(reply: Reply) -> Result<Response<Body>, tower::BoxError> {
    let answer = |code: u16, retry_after: Option<u64>, body: &Value| {
        let mut response = Response::builder().status(code);
        if let Some(seconds) = retry_after {
            response = response.header(http::header::RETRY_AFTER, seconds);
        }
        Ok(response.body(Body::from(body.to_string().into_bytes()))?)
    };
    match reply {
        Reply::Answer(code, body) => answer(code, None, &body),
        Reply::RetryAfter(code, seconds) => answer(code, Some(seconds), &json!({})),
        Reply::Slow(span, code, body) => {
            tokio::time::sleep(span).await;
            answer(code, None, &body)
        }
        Reply::Broken => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
        Reply::Unreachable => {
            Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into())
        }
        Reply::Silence => {
            let never: Infallible = std::future::pending().await;
            match never {}
        }
    }
}
