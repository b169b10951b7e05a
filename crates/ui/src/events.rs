//! Server-sent events: a message whenever there is something new to ask for.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tokio::time::{Instant, sleep};

/// How often a line is sent while nothing changes, so that both sides notice if the other one is gone.
pub const PING: Duration = Duration::from_secs(10);

/// How often `version` is asked.
const LOOK: Duration = Duration::from_millis(500);

/// A stream of events `change`, one at the beginning and one whenever `version` has another value. It ends after `span`: the
/// page then asks again, and is authorized again.
pub fn changes(version: impl Fn() -> u64 + Send + 'static, span: Duration) -> Response {
    let begin = Instant::now();
    let state = (version, None, begin);
    let events = stream::unfold(state, move |(version, mut last, mut told)| async move {
        loop {
            let now = version();
            if last != Some(now) {
                last = Some(now);
                told = Instant::now();
                let event = format!("event: change\ndata: {{\"version\":{now}}}\n\n");
                return Some((Ok::<_, Infallible>(event), (version, last, told)));
            }
            if span <= begin.elapsed() {
                return None;
            }
            if PING <= told.elapsed() {
                return Some((Ok(":\n\n".to_owned()), (version, last, Instant::now())));
            }
            sleep(LOOK).await;
        }
    });
    let mut response = Response::new(Body::from_stream(events));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
