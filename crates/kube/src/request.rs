//! A GET request with limits on time and size, and with the API server's own message if it fails.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;

use crate::client::explain;

/// The maximum size of an error response.
const ERROR_LIMIT: usize = 1 << 20;
/// How long a response may pause while it arrives.
pub(crate) const SILENCE: Duration = Duration::from_mins(1);
/// The longest `Retry-After` that is respected.
const RETRY_AFTER_LIMIT: Duration = Duration::from_mins(1);

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GetError {
    /// The API server returned an error.
    #[error("{0}")]
    Status(Box<StatusError>),
    /// There was no response, or it broke off, or it is invalid.
    #[error("{0}")]
    Broken(String),
}

/// An error that the API server returned. The name is client-go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub(crate) struct StatusError {
    /// The HTTP status, or the code of the `StatusBody` object.
    pub(crate) code: u16,
    /// Such as `Expired`.
    pub(crate) reason: String,
    /// The message for users.
    pub(crate) message: String,
    /// When to retry at the earliest.
    pub(crate) retry_after: Option<Duration>,
    /// The API server does not have the requested resource version yet.
    pub(crate) is_version_too_large: bool,
}

/// `v1 Status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusBody {
    code: Option<u16>,
    reason: Option<String>,
    message: Option<String>,
    details: Option<StatusDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusDetails {
    causes: Option<Vec<StatusCause>>,
    retry_after_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusCause {
    reason: Option<String>,
    message: Option<String>,
}

impl StatusError {
    /// Reads the `StatusBody` in a body, if it is one. `code` is the HTTP status.
    pub(crate) fn read(code: u16, body: &[u8]) -> Self {
        let status: StatusBody = serde_json::from_slice(body).unwrap_or_default();
        let standard = StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason());
        let details = status.details.unwrap_or_default();
        // As in api/errors/errors.go: before 1.18 it is in the message of the cause.
        let is_version_too_large = details.causes.unwrap_or_default().into_iter().any(|cause| {
            cause.reason.as_deref() == Some("ResourceVersionTooLarge")
                || cause.message.as_deref() == Some("Too large resource version")
        });
        let retry_after = details.retry_after_seconds.map(Duration::from_secs);
        StatusError {
            code: status.code.unwrap_or(code),
            reason: status.reason.unwrap_or_else(|| standard.unwrap_or_default().to_owned()),
            message: status.message.unwrap_or_else(|| "no reason was given".to_owned()),
            retry_after: retry_after.map(|wait| wait.min(RETRY_AFTER_LIMIT)),
            is_version_too_large,
        }
    }

    /// Whether the requested resource version is too old. As in tools/cache/reflector.go,
    /// isExpiredError.
    pub(crate) fn is_expired(&self) -> bool {
        self.code == 410 || self.reason == "Expired" || self.reason == "Gone"
    }

    /// Whether the API server does not have the requested resource version any more, or not yet.
    pub(crate) fn is_version_unavailable(&self) -> bool {
        self.is_expired() || self.is_version_too_large
    }
}

impl GetError {
    /// The HTTP status, if the API server returned an error.
    pub(crate) fn code(&self) -> Option<u16> {
        self.status_error().map(|status| status.code)
    }

    /// The error that the API server returned, if it did.
    pub(crate) fn status_error(&self) -> Option<&StatusError> {
        match self {
            GetError::Status(status) => Some(status),
            GetError::Broken(_) => None,
        }
    }
}

impl From<kube::Error> for GetError {
    fn from(error: kube::Error) -> Self {
        GetError::Broken(explain(&error))
    }
}

/// Sends a GET request, and waits at most `timeout` for the headers of the response. A status other than
/// 2xx is an error.
pub(crate) async fn get(
    client: &kube::Client,
    path: &str,
    timeout: Duration,
) -> Result<Response<Body>, GetError> {
    let mut request = Request::get(path)
        .body(Body::empty())
        .map_err(|error| GetError::Broken(format!("{path}: {error}")))?;
    // Since 1.37 each event of a watch would be compressed by itself.
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let late = |_| GetError::Broken(format!("no response within {timeout:?}"));
    let response = tokio::time::timeout(timeout, client.send(request)).await.map_err(late)??;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    let body = whole(response.into_body(), ERROR_LIMIT).await.unwrap_or_default();
    let mut error = StatusError::read(status.as_u16(), &body);
    error.code = status.as_u16();
    error.retry_after = retry_after.map(|wait| wait.min(RETRY_AFTER_LIMIT)).or(error.retry_after);
    Err(GetError::Status(Box::new(error)))
}

/// The next piece of a body; `None` at its end. An error if nothing arrives for `silence`.
pub(crate) async fn piece(body: &mut Body, silence: Duration) -> Result<Option<Bytes>, GetError> {
    loop {
        let late = |_| GetError::Broken(format!("no data arrived for {silence:?}"));
        match tokio::time::timeout(silence, body.frame()).await.map_err(late)? {
            None => return Ok(None),
            Some(frame) => {
                // Trailers are ignored.
                if let Ok(data) = frame?.into_data()
                    && data.has_remaining()
                {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// A whole body of at most `limit` bytes.
pub(crate) async fn whole(mut body: Body, limit: usize) -> Result<Bytes, GetError> {
    let mut all = BytesMut::new();
    while let Some(piece) = piece(&mut body, SILENCE).await? {
        if limit < all.len() + piece.len() {
            return Err(GetError::Broken(format!("the response is larger than {limit} bytes")));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_message_of_the_server() {
        for (code, body, expected, expired, too_large) in [
            (
                410,
                r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 1 (5)"}"#,
                "410 Expired: too old resource version: 1 (5)",
                true,
                false,
            ),
            (
                504,
                r#"{"code":504,"reason":"Timeout","message":"Too large resource version: 9, current: 5",
                    "details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#,
                "504 Timeout: Too large resource version: 9, current: 5",
                false,
                true,
            ),
            (503, "<html>", "503 Service Unavailable: no reason was given", false, false),
        ] {
            let error = StatusError::read(code, body.as_bytes());
            assert_eq!(error.to_string(), expected);
            assert_eq!(
                (error.is_expired(), error.is_version_too_large),
                (expired, too_large),
                "{expected}"
            );
        }
    }
}
