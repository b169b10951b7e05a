//! One request to the API server, and its result.
//!
//! Writers must know whether a failed request may have taken effect, because a binding must not be sent
//! twice. An error keeps the message of the API server.

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

use crate::client::{Caller, ResponseBody};

/// The maximum size of a response: the largest object that etcd accepts by default, with some room.
const RESPONSE_LIMIT: usize = 2 << 20;

/// The timeout for reading an unused response body. It is read only so that the connection can be reused.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The API server's timeout is this much shorter than ours. When ours expires, a write that has not taken
/// effect no longer will.
const SERVER_MARGIN: Duration = Duration::from_secs(2);

/// The content types of patches.
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
/// The content type of objects.
pub(crate) const JSON: &str = "application/json";

/// A request to the API server.
#[derive(Clone, Debug)]
pub(crate) struct ApiRequest {
    method: Method,
    /// The path, without a query.
    path: String,
    content_type: &'static str,
    body: Bytes,
}

impl ApiRequest {
    /// Reads the object at `path`.
    pub(crate) fn get(path: String) -> Self {
        ApiRequest { method: Method::GET, path, content_type: JSON, body: Bytes::new() }
    }

    /// Creates an object.
    pub(crate) fn post(path: String, body: Vec<u8>) -> Self {
        ApiRequest { method: Method::POST, path, content_type: JSON, body: body.into() }
    }

    /// Replaces an object.
    pub(crate) fn put(path: String, body: Vec<u8>) -> Self {
        ApiRequest { method: Method::PUT, path, content_type: JSON, body: body.into() }
    }

    /// Changes an object.
    pub(crate) fn patch(path: String, content_type: &'static str, body: Vec<u8>) -> Self {
        ApiRequest { method: Method::PATCH, path, content_type, body: body.into() }
    }

    /// Deletes an object.
    pub(crate) fn delete(path: String, body: Vec<u8>) -> Self {
        ApiRequest { method: Method::DELETE, path, content_type: JSON, body: body.into() }
    }

    fn build(&self, timeout: Duration) -> Result<Request<Body>, ApiError> {
        // As client-go does: the API server then aborts the request itself.
        let at_server = timeout.saturating_sub(SERVER_MARGIN).max(Duration::from_secs(1));
        let uri = format!("{}?timeout={}s", self.path, at_server.as_secs());
        let mut request = Request::builder().method(&self.method).uri(uri).header(ACCEPT, JSON);
        if !self.body.is_empty() {
            request = request.header(CONTENT_TYPE, self.content_type);
        }
        request
            .body(Body::from(self.body.clone()))
            .map_err(|error| ApiError::NotSent(self.text(&error.to_string())))
    }

    /// A message like those of Go's http.Client: `Post "/api/v1/...": why`.
    fn text(&self, why: &str) -> String {
        let mut verb = self.method.as_str().to_ascii_lowercase();
        verb[..1].make_ascii_uppercase();
        format!("{verb} {:?}: {why}", self.path)
    }
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApiError {
    /// It certainly did not reach the API server.
    #[error("{0}")]
    NotSent(String),
    /// It was sent but not answered, so it may have taken effect.
    #[error("{0}")]
    NoResponse(String),
    /// The API server returned an error.
    #[error("{0}")]
    Status(Box<ApiStatus>),
}

/// An error that the API server returned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiStatus {
    /// The HTTP status.
    pub(crate) code: StatusCode,
    /// Such as `AlreadyExists`.
    pub(crate) reason: String,
    /// The message for users.
    pub(crate) message: String,
    /// When to retry at the earliest, if the API server says so.
    pub(crate) retry_after: Option<Duration>,
    /// The fields that caused the error.
    pub(crate) fields: Vec<String>,
}

impl ApiError {
    /// The HTTP status, if the API server returned an error.
    pub(crate) fn code(&self) -> Option<StatusCode> {
        match self {
            ApiError::Status(status) => Some(status.code),
            ApiError::NotSent(_) | ApiError::NoResponse(_) => None,
        }
    }

    /// Whether the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == Some(StatusCode::NOT_FOUND)
    }

    /// When to retry at the earliest, if the API server says so.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            ApiError::Status(status) => status.retry_after,
            ApiError::NotSent(_) | ApiError::NoResponse(_) => None,
        }
    }
}

/// Sends a request and ignores the body of the response.
pub(crate) async fn send(
    caller: &Caller,
    request: &ApiRequest,
    timeout: Duration,
) -> Result<(), ApiError> {
    let response = response(caller, request, timeout).await?;
    let mut body = response.into_body();
    let mut drain = pin!(async { while let Some(Ok(_)) = body.frame().await {} });
    // Usually the body has arrived with the headers, and no timer is needed.
    if poll_immediate(&mut drain).await.is_none() {
        // The request has succeeded. If the rest does not arrive, only the connection is lost.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, drain).await;
    }
    Ok(())
}

/// Sends a request and reads the response.
pub(crate) async fn send_and_read(
    caller: &Caller,
    request: &ApiRequest,
    timeout: Duration,
) -> Result<Bytes, ApiError> {
    let response = response(caller, request, timeout).await?;
    let read = tokio::time::timeout(timeout, read(response.into_body())).await;
    read.unwrap_or(Err(BodyError::DeadlineExceeded))
        .map_err(|error| ApiError::NoResponse(request.text(&error.to_string())))
}

const DEADLINE: &str = "context deadline exceeded";

/// A response body that could not be read.
#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error("{DEADLINE}")]
    DeadlineExceeded,
    #[error("the response is longer than {RESPONSE_LIMIT} bytes")]
    TooLong,
    /// The connection broke; the message includes the causes.
    #[error("{0}")]
    Broken(String),
}

/// Sends a request, and waits for the headers of a successful response.
async fn response(
    caller: &Caller,
    request: &ApiRequest,
    timeout: Duration,
) -> Result<Response<ResponseBody>, ApiError> {
    let http_request = request.build(timeout)?;
    let response = match tokio::time::timeout(timeout, caller.send(http_request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) if was_not_sent(&error) => {
            return Err(ApiError::NotSent(request.text(&chain(&error))));
        }
        Ok(Err(error)) => return Err(ApiError::NoResponse(request.text(&chain(&error)))),
        Err(_) => return Err(ApiError::NoResponse(request.text(DEADLINE))),
    };
    if response.status().is_success() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(timeout, read(body)).await;
    let body = body.unwrap_or(Err(BodyError::DeadlineExceeded)).unwrap_or_default();
    Err(ApiError::Status(Box::new(status_of(request, parts.status, &parts.headers, &body))))
}

async fn read(mut body: ResponseBody) -> Result<Bytes, BodyError> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken(chain(&*error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if RESPONSE_LIMIT < bytes.len() + data.len() {
            return Err(BodyError::TooLong);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// Whether the request certainly was not sent.
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

/// An error with its causes. Some errors already repeat their causes.
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

/// `v1 Status`, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    kind: String,
    reason: String,
    message: String,
    details: Option<WireDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireDetails {
    causes: Vec<WireCause>,
    retry_after_seconds: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireCause {
    field: String,
}

fn status_of(
    request: &ApiRequest,
    code: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> ApiStatus {
    let status: WireStatus = serde_json::from_slice(body).unwrap_or_default();
    let details = status.details.unwrap_or_default();
    let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let seconds =
        header.or((0 < details.retry_after_seconds).then_some(details.retry_after_seconds));
    let message = match status.message {
        message if status.kind == "Status" && !message.is_empty() => message,
        _ => generic_message(request, code),
    };
    let fields = details.causes.into_iter().map(|cause| cause.field).collect();
    let retry_after = seconds.map(Duration::from_secs);
    ApiStatus { code, reason: status.reason, message, retry_after, fields }
}

/// The message of client-go if the API server, or a proxy, returns none. As in apimachinery's errors.go,
/// NewGenericServerResponse.
fn generic_message(request: &ApiRequest, code: StatusCode) -> String {
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
    format!("{what} ({} {})", request.method.as_str().to_ascii_lowercase(), request.path)
}

/// Percent-encodes a name as a path segment.
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
