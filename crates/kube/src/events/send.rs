//! Writing one event.

use std::time::Duration;

use http::StatusCode;

use super::wire::{Dialect, WireEvent};
use crate::call::{self, ApiError, ApiRequest};
use crate::client::Caller;

/// The pause before an event is tried again. As in event_broadcaster.go.
const PAUSE: Duration = Duration::from_secs(10);
/// How much longer it may be at random, so that many clients do not retry at the same time.
const PAUSE_JITTER: f64 = 0.25;
/// The same when the process is about to end.
const LAST_PAUSE: Duration = Duration::from_millis(500);
/// The longest `Retry-After` that is respected.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// The result of writing an event.
#[derive(Debug)]
pub(super) enum WriteOutcome {
    /// It is written.
    Done,
    /// It will be retried after this pause.
    Later(Duration, ApiError),
    /// A retry would not help.
    Rejected(ApiError),
}

impl WriteOutcome {
    /// The result when the process is about to end.
    pub(super) fn at_the_end(self) -> Self {
        match self {
            WriteOutcome::Later(span, failed) => match rest_at_the_end(&failed, span) {
                Some(span) => WriteOutcome::Later(span, failed),
                None => WriteOutcome::Rejected(failed),
            },
            other => other,
        }
    }
}

/// Writes events.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) caller: Caller,
    pub(super) hostname: String,
    pub(super) timeout: Duration,
}

impl Sender {
    /// Writes an event once. As in event_broadcaster.go, recordEvent.
    pub(super) async fn write(&self, event: &WireEvent, dialect: Dialect) -> WriteOutcome {
        let dialect = event.occurrence.regarding.dialect(dialect);
        if let Some(repeats) = event.series {
            match self.send(&event.repeat(dialect, repeats)).await {
                Ok(()) => return WriteOutcome::Done,
                // The API server no longer has the event: create it again.
                Err(failed) if failed.is_not_found() => {}
                Err(failed) => return judge(failed, false),
            }
        }
        match self.send(&event.create(dialect, &self.hostname)).await {
            Ok(()) => WriteOutcome::Done,
            Err(failed) => judge(failed, event.series.is_some()),
        }
    }

    /// Which API for events the API server has.
    pub(super) async fn dialect(&self) -> Result<Dialect, ApiError> {
        let group = ApiRequest::get("/apis/events.k8s.io/v1".to_owned());
        match self.send(&group).await {
            Ok(()) => Ok(Dialect::Events),
            Err(failed) if failed.is_not_found() => Ok(Dialect::Core),
            Err(failed) => Err(failed),
        }
    }

    async fn send(&self, request: &ApiRequest) -> Result<(), ApiError> {
        call::send(&self.caller, request, self.timeout).await
    }
}

/// Decides what to do with an event that could not be written.
fn judge(failed: ApiError, is_series: bool) -> WriteOutcome {
    if let ApiError::Status(refusal) = &failed
        && refusal.code == StatusCode::CONFLICT
        && refusal.reason == "AlreadyExists"
    {
        // A series that could neither be changed nor created was created a moment ago. Any other event
        // was created by a request whose answer was lost.
        return if is_series { WriteOutcome::Later(pause(), failed) } else { WriteOutcome::Done };
    }
    match rest(&failed) {
        Some(span) => WriteOutcome::Later(span, failed),
        None => WriteOutcome::Rejected(failed),
    }
}

/// The pause after which the same request may succeed; `None` if a retry would not help.
pub(super) fn rest(failed: &ApiError) -> Option<Duration> {
    let ApiError::Status(refusal) = failed else { return Some(pause()) };
    let is_busy = refusal.code == StatusCode::TOO_MANY_REQUESTS || refusal.code.is_server_error();
    refusal.retry_after.filter(|_| is_busy).map(|span| span.min(RETRY_AFTER_MAX))
}

/// The pause before a retry when the process is about to end. An API server that cannot be reached is
/// not waited for, and a lost request is retried soon. Only the API server itself can ask for a longer
/// pause.
pub(super) fn rest_at_the_end(failed: &ApiError, span: Duration) -> Option<Duration> {
    match failed {
        ApiError::NotSent(_) => None,
        ApiError::NoResponse(_) => Some(span.min(LAST_PAUSE)),
        ApiError::Status(_) => Some(span),
    }
}

pub(super) fn pause() -> Duration {
    PAUSE.mul_f64(1.0 + rand::random_range(0.0..PAUSE_JITTER))
}
