//! One request to the API server, and what came of it.
//!
//! What matters to those who write is whether a request that failed may have been carried out: a binding
//! must not be sent twice, and what was refused must be told in the words of the API server.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::poll_immediate;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;

use crate::client::{Answer, Caller};

/// How much of an answer is read: the largest object that etcd takes by default, and what surrounds it.
const ANSWER_LIMIT: usize = 2 << 20;

/// How long the rest of an answer may take that nobody reads. It is read only to keep the connection.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How much sooner the API server is told to give up than we do: what has not happened when we look again
/// will then not happen.
const SERVER_MARGIN: Duration = Duration::from_secs(2);

/// The content types of patches.
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
/// The content type of objects.
pub(crate) const JSON: &str = "application/json";

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    method: Method,
    /// The path, without a query.
    path: String,
    content_type: &'static str,
    body: Bytes,
}

impl Ask {
    /// Reads the object at `path`.
    pub(crate) fn get(path: String) -> Self {
        Ask { method: Method::GET, path, content_type: JSON, body: Bytes::new() }
    }

    /// Creates an object.
    pub(crate) fn post(path: String, body: Vec<u8>) -> Self {
        Ask { method: Method::POST, path, content_type: JSON, body: body.into() }
    }

    /// Replaces an object.
    pub(crate) fn put(path: String, body: Vec<u8>) -> Self {
        Ask { method: Method::PUT, path, content_type: JSON, body: body.into() }
    }

    /// Changes an object.
    pub(crate) fn patch(path: String, content_type: &'static str, body: Vec<u8>) -> Self {
        Ask { method: Method::PATCH, path, content_type, body: body.into() }
    }

    /// Deletes an object.
    pub(crate) fn delete(path: String, body: Vec<u8>) -> Self {
        Ask { method: Method::DELETE, path, content_type: JSON, body: body.into() }
    }

    fn request(&self, timeout: Duration) -> Result<Request<Body>, Failed> {
        // As client-go does with a timeout: the API server ends the request by itself.
        let at_server = timeout.saturating_sub(SERVER_MARGIN).max(Duration::from_secs(1));
        let uri = format!("{}?timeout={}s", self.path, at_server.as_secs());
        let mut request = Request::builder().method(&self.method).uri(uri).header(ACCEPT, JSON);
        if !self.body.is_empty() {
            request = request.header(CONTENT_TYPE, self.content_type);
        }
        request
            .body(Body::from(self.body.clone()))
            .map_err(|error| Failed::NotSent(self.text(&error.to_string())))
    }

    /// As Go's http.Client puts it: `Post "/api/v1/...": why`.
    fn text(&self, why: &str) -> String {
        let mut verb = self.method.as_str().to_ascii_lowercase();
        verb[..1].make_ascii_uppercase();
        format!("{verb} {:?}: {why}", self.path)
    }
}

/// Why a request did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failed {
    /// It surely never reached the API server.
    #[error("{0}")]
    NotSent(String),
    /// It may have been carried out: it was sent, and no answer came.
    #[error("{0}")]
    Unanswered(String),
    /// The API server answered with an error.
    #[error("{0}")]
    Refused(Box<Refusal>),
}

/// An error as the API server tells it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    /// The status of the answer.
    pub(crate) code: StatusCode,
    /// Such as `AlreadyExists`.
    pub(crate) reason: String,
    /// What people are told.
    pub(crate) message: String,
    /// How long to wait before it is tried again, if it says so.
    pub(crate) retry_after: Option<Duration>,
    /// The fields that are to blame.
    pub(crate) fields: Vec<String>,
}

impl Failed {
    /// The status that the API server answered with.
    pub(crate) fn code(&self) -> Option<StatusCode> {
        match self {
            Failed::Refused(refusal) => Some(refusal.code),
            Failed::NotSent(_) | Failed::Unanswered(_) => None,
        }
    }

    /// Whether the API server says that there is no such object.
    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == Some(StatusCode::NOT_FOUND)
    }

    /// How long the API server wants us to wait before the same request.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Failed::Refused(refusal) => refusal.retry_after,
            Failed::NotSent(_) | Failed::Unanswered(_) => None,
        }
    }
}

/// Asks for something to be done. What the API server says of it is not read.
pub(crate) async fn tell(caller: &Caller, ask: &Ask, timeout: Duration) -> Result<(), Failed> {
    let response = head(caller, ask, timeout).await?;
    let mut body = response.into_body();
    let mut drain = pin!(async { while let Some(Ok(_)) = body.frame().await {} });
    // Mostly all of it has come with the head, and no clock is needed.
    if poll_immediate(&mut drain).await.is_none() {
        // It is done. If the rest does not come the connection is given up, no more.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, drain).await;
    }
    Ok(())
}

/// Asks for something and reads the answer.
pub(crate) async fn ask(caller: &Caller, ask: &Ask, timeout: Duration) -> Result<Bytes, Failed> {
    let response = head(caller, ask, timeout).await?;
    let read = tokio::time::timeout(timeout, read(response.into_body())).await;
    read.unwrap_or(Err(DEADLINE.to_owned())).map_err(|why| Failed::Unanswered(ask.text(&why)))
}

const DEADLINE: &str = "context deadline exceeded";

/// The answer, once it has begun and is a success.
async fn head(caller: &Caller, ask: &Ask, timeout: Duration) -> Result<Response<Answer>, Failed> {
    let request = ask.request(timeout)?;
    let response = match tokio::time::timeout(timeout, caller.send(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) if was_not_sent(&error) => {
            return Err(Failed::NotSent(ask.text(&chain(&error))));
        }
        Ok(Err(error)) => return Err(Failed::Unanswered(ask.text(&chain(&error)))),
        Err(_) => return Err(Failed::Unanswered(ask.text(DEADLINE))),
    };
    if response.status().is_success() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(timeout, read(body)).await;
    let body = body.unwrap_or(Err(DEADLINE.to_owned())).unwrap_or_default();
    Err(Failed::Refused(Box::new(refusal(ask, parts.status, &parts.headers, &body))))
}

async fn read(mut body: Answer) -> Result<Bytes, String> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| chain(&*error))?;
        let Ok(data) = frame.into_data() else { continue };
        if ANSWER_LIMIT < bytes.len() + data.len() {
            return Err(format!("the answer is longer than {ANSWER_LIMIT} bytes"));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// Whether the request cannot have left this process.
fn was_not_sent(error: &kube::Error) -> bool {
    if matches!(error, kube::Error::Auth(_) | kube::Error::BuildRequest(_)) {
        return true;
    }
    let mut source: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = source {
        let hyper = error.downcast_ref::<hyper_util::client::legacy::Error>();
        let io = error.downcast_ref::<std::io::Error>();
        if hyper.is_some_and(hyper_util::client::legacy::Error::is_connect)
            || io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused)
        {
            return true;
        }
        source = error.source();
    }
    false
}

/// An error with what is behind it. Some errors repeat what is behind them.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            write!(text, ": {more}").expect("text can grow");
        }
        source = error.source();
    }
    text
}

/// `Status` of the API machinery, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    kind: String,
    reason: String,
    message: String,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    causes: Vec<Cause>,
    retry_after_seconds: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    field: String,
}

fn refusal(ask: &Ask, code: StatusCode, headers: &HeaderMap, body: &[u8]) -> Refusal {
    let status: Status = serde_json::from_slice(body).unwrap_or_default();
    let details = status.details.unwrap_or_default();
    let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let seconds =
        header.or((0 < details.retry_after_seconds).then_some(details.retry_after_seconds));
    let message = match status.message {
        message if status.kind == "Status" && !message.is_empty() => message,
        _ => unexplained(ask, code),
    };
    let fields = details.causes.into_iter().map(|cause| cause.field).collect();
    let retry_after = seconds.map(Duration::from_secs);
    Refusal { code, reason: status.reason, message, retry_after, fields }
}

/// What client-go says where the API server, or what stands before it, says nothing. As in
/// apimachinery's errors.go, NewGenericServerResponse.
fn unexplained(ask: &Ask, code: StatusCode) -> String {
    let what = match code.as_u16() {
        409 => "the server reported a conflict",
        404 => "the server could not find the requested resource",
        401 => "the server has asked for the client to provide credentials",
        403 => "the server does not allow access to the requested resource",
        422 => "the server rejected our request due to an error in our request",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request"
        }
        429 => "the server has received too many requests and has asked us to try again later",
        500..=599 => "an error on the server has prevented the request from succeeding",
        _ => "the server rejected our request for an unknown reason",
    };
    format!("{what} ({} {})", ask.method.as_str().to_ascii_lowercase(), ask.path)
}

/// A name as a segment of a path.
pub(crate) fn segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                text.push(char::from(byte));
            }
            other => write!(text, "%{other:02X}").expect("text can grow"),
        }
    }
    text
}

#[cfg(test)]
mod tests;
