//! One GET request and its answer: within a time and a size, and with the API server's own words where it
//! refuses.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;

use crate::client::explain;

/// How much of a refusal is read.
const REFUSAL_LIMIT: usize = 1 << 20;
/// How long the rest of an answer that has begun may be silent.
pub(crate) const SILENCE: Duration = Duration::from_mins(1);
/// How long a server may ask to be left alone.
const RETRY_AFTER_LIMIT: Duration = Duration::from_mins(1);

/// Why a request brought nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The server refused.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// There was no answer, or it broke off.
    #[error("{0}")]
    Broken(String),
}

/// What a server says when it refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub(crate) struct Refusal {
    /// The HTTP status, or the code of the `Status` object.
    pub(crate) code: u16,
    /// Such as `Expired`.
    pub(crate) reason: String,
    /// For people.
    pub(crate) message: String,
    /// How long it wants to be left alone.
    pub(crate) retry_after: Option<Duration>,
    /// It has not got as far as the resource version that was asked for.
    pub(crate) is_behind: bool,
}

/// `v1 Status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    code: Option<u16>,
    reason: Option<String>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: Option<String>,
    message: Option<String>,
}

impl Refusal {
    /// From the `Status` in a body, if it is one; `code` is the HTTP status.
    pub(crate) fn read(code: u16, body: &[u8]) -> Self {
        let status: Status = serde_json::from_slice(body).unwrap_or_default();
        let standard = StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason());
        let details = status.details.unwrap_or_default();
        // As in api/errors/errors.go: servers before 1.18 say it in the message of the cause.
        let is_behind = details.causes.unwrap_or_default().into_iter().any(|cause| {
            cause.reason.as_deref() == Some("ResourceVersionTooLarge")
                || cause.message.as_deref() == Some("Too large resource version")
        });
        let retry_after = details.retry_after_seconds.map(Duration::from_secs);
        Refusal {
            code: status.code.unwrap_or(code),
            reason: status.reason.unwrap_or_else(|| standard.unwrap_or_default().to_owned()),
            message: status.message.unwrap_or_else(|| "no reason was given".to_owned()),
            retry_after: retry_after.map(|wait| wait.min(RETRY_AFTER_LIMIT)),
            is_behind,
        }
    }

    /// Whether the resource version that was asked for is too old. As in tools/cache/reflector.go,
    /// isExpiredError.
    pub(crate) fn is_expired(&self) -> bool {
        self.code == 410 || self.reason == "Expired" || self.reason == "Gone"
    }
}

impl Failure {
    /// The HTTP status, if there was an answer.
    pub(crate) fn code(&self) -> Option<u16> {
        self.refusal().map(|refusal| refusal.code)
    }

    /// What the server said, if it refused.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Failure::Refused(refusal) => Some(refusal),
            Failure::Broken(_) => None,
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Failure::Broken(explain(&error))
    }
}

/// Sends a GET, and waits at most `within` for the head of the answer. An answer other than 2xx is a
/// failure.
pub(crate) async fn get(
    client: &kube::Client,
    path: &str,
    within: Duration,
) -> Result<Response<Body>, Failure> {
    let mut request = Request::get(path)
        .body(Body::empty())
        .map_err(|error| Failure::Broken(format!("{path}: {error}")))?;
    // From 1.37 on, each event of a watch would be compressed by itself.
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let late = |_| Failure::Broken(format!("no answer within {within:?}"));
    let answer = tokio::time::timeout(within, client.send(request)).await.map_err(late)??;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let asked = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let asked = asked.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    let body = whole(answer.into_body(), REFUSAL_LIMIT).await.unwrap_or_default();
    let mut refusal = Refusal::read(status.as_u16(), &body);
    refusal.code = status.as_u16();
    refusal.retry_after = asked.map(|wait| wait.min(RETRY_AFTER_LIMIT)).or(refusal.retry_after);
    Err(Failure::Refused(Box::new(refusal)))
}

/// The next piece of a body; `None` at its end. An error where nothing comes for `silence`.
pub(crate) async fn piece(body: &mut Body, silence: Duration) -> Result<Option<Bytes>, Failure> {
    loop {
        let late = |_| Failure::Broken(format!("nothing was received for {silence:?}"));
        match tokio::time::timeout(silence, body.frame()).await.map_err(late)? {
            None => return Ok(None),
            Some(frame) => {
                // Trailers say nothing.
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
pub(crate) async fn whole(mut body: Body, limit: usize) -> Result<Bytes, Failure> {
    let mut all = BytesMut::new();
    while let Some(piece) = piece(&mut body, SILENCE).await? {
        if limit < all.len() + piece.len() {
            return Err(Failure::Broken(format!("the answer is larger than {limit} bytes")));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_speaks_in_the_words_of_the_server() {
        for (code, body, expected, expired, behind) in [
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
            let refusal = Refusal::read(code, body.as_bytes());
            assert_eq!(refusal.to_string(), expected);
            assert_eq!((refusal.is_expired(), refusal.is_behind), (expired, behind), "{expected}");
        }
    }
}
