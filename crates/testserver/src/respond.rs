//! Answers over the wire.

use std::io;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::Value;

use crate::failure::FailureStatus;

/// The body of an answer: whole, or a stream.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum RequestOutcome {
    Response(Response<Body>),
    /// None: the connection is closed.
    Hangup,
    /// None: on HTTP/2 only the stream is closed.
    Reset,
}

impl From<Response<Body>> for RequestOutcome {
    fn from(response: Response<Body>) -> Self {
        Self::Response(response)
    }
}

fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

fn response(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// JSON that has been written already.
pub(crate) fn bytes(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    response(code, "application/json", full(body.into()))
}

pub(crate) fn json(code: u16, value: &Value) -> Response<Body> {
    bytes(code, value.to_string())
}

/// JSON with a special content type, by which clients recognize it.
pub(crate) fn json_as(content_type: &'static str, value: &Value) -> Response<Body> {
    response(200, content_type, full(value.to_string().into()))
}

pub(crate) fn text(code: u16, body: &str) -> Response<Body> {
    response(code, "text/plain; charset=utf-8", full(Bytes::copy_from_slice(body.as_bytes())))
}

/// The answer of kube-apiserver for an unknown path.
pub(crate) fn no_such_path() -> Response<Body> {
    text(404, "404 page not found\n")
}

pub(crate) fn failure(failure: &FailureStatus) -> Response<Body> {
    let mut response = json(failure.code, &failure.to_status());
    if let Some(seconds) = failure.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// A body that is generated while it is sent.
pub(crate) fn stream(
    chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Response<Body> {
    let body = StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data)));
    response(200, "application/json", BodyExt::boxed_unsync(body))
}
