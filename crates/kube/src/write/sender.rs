//! Sends single writes to the API server, with retries.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use plimsoll_api::PodKey;
use plimsoll_engine::{WriteCause, WriteError};
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Options;
use super::backoff::RetryBackoff;
use super::job::{WriteJob, WriteTask};
use crate::call::{self, ApiError, ApiRequest, segment};
use crate::client::Caller;

/// The error when another instance may lead, so that nothing may be sent.
const NOT_LEADING: &str = "this scheduler does not hold the lease";
const TOO_LATE: &str = "timed out before it was sent";
/// The error when the process ends and the API server cannot be reached.
const HOPELESS: &str = "the scheduler ends, and the API server cannot be reached";

/// The most retries of a request.
const RETRIES: u32 = 8;

/// How long an unreachable API server is retried at the end. The next leader decides again what was not
/// written.
const LAST_HOPE: Duration = Duration::from_secs(1);

/// Most bodies are shorter than this: a binding, an event.
const USUAL: usize = 768;

/// Sends single writes to the API server.
pub(super) struct RequestSender {
    caller: Caller,
    options: Options,
    is_closed: AtomicBool,
    /// Cancelled when the process is about to end.
    ends: CancellationToken,
    ends_since: OnceLock<Instant>,
    /// Cancelled when the process is about to end and the API server cannot be reached: there are no
    /// more retries, and nothing waits for the rate limit.
    hopeless: CancellationToken,
}

/// Why something was not written.
#[derive(Debug)]
pub(super) enum WriteFailure {
    /// It failed.
    Failed(WriteError),
    /// The pod that it was about is deleted: nobody needs it any more.
    PodDeleted(String),
}

impl From<ApiError> for WriteFailure {
    fn from(error: ApiError) -> Self {
        WriteFailure::Failed(WriteError::other(error.to_string()))
    }
}

/// When a request is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// Only if the API server certainly did not process it.
    IfNotProcessed,
    /// Whenever it may help: the request is idempotent.
    IfIdempotent,
}

impl std::fmt::Debug for RequestSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestSender").field("options", &self.options).finish_non_exhaustive()
    }
}

impl RequestSender {
    pub(super) fn new(caller: Caller, options: Options) -> Self {
        let (ends, hopeless) = (CancellationToken::new(), CancellationToken::new());
        let (is_closed, ends_since) = (AtomicBool::new(false), OnceLock::new());
        RequestSender { caller, options, is_closed, ends, ends_since, hopeless }
    }

    /// Tells the sender that the process is about to end: requests that cannot be sent are soon given
    /// up.
    pub(super) fn end_soon(&self) {
        self.ends_since.get_or_init(Instant::now);
        self.ends.cancel();
    }

    /// Stops sending.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Carries out a write. The error is for the engine.
    pub(super) async fn perform(&self, job: WriteJob) -> Result<(), WriteError> {
        let WriteJob { pod, task, deadline } = job;
        let result = match &task {
            WriteTask::Bind(_, node) => self.bind(&pod, node, deadline).await,
            WriteTask::Object(_, write) => {
                self.write_object(write, deadline).await.map_err(WriteFailure::Failed)
            }
            WriteTask::Evict(_, eviction) => {
                self.evict(&pod, eviction, deadline).await.map_err(WriteFailure::from)
            }
            WriteTask::Status(status) => {
                self.set_status(&pod, status).await.map_err(WriteFailure::from)
            }
        };
        let (what, pod) = (task.name(), &pod.key);
        result.map_err(|failure| match failure {
            WriteFailure::Failed(error) => {
                tracing::warn!(%pod, what, %error, "write failed");
                error
            }
            // This is not an error: the pod was deleted meanwhile.
            WriteFailure::PodDeleted(message) => {
                tracing::info!(%pod, what, error = message, "the pod was deleted meanwhile; the write is dropped");
                WriteError::new(WriteCause::Conflict, message)
            }
        })
    }

    /// Sends a request, with retries according to `policy`, as long as it can be answered before
    /// `deadline`.
    pub(super) async fn send(
        &self,
        request: &ApiRequest,
        policy: RetryPolicy,
        deadline: Instant,
    ) -> Result<(), ApiError> {
        let timeout = self.options.request_timeout;
        let mut backoff =
            RetryBackoff::new(Duration::from_millis(100), Duration::from_secs(5), RETRIES);
        let is_too_late = || deadline < Instant::now() + timeout;
        loop {
            if !is_too_late() {
                let rate_limiter = self.hopeless.run_until_cancelled((self.options.rate_limiter)());
                if rate_limiter.await.is_none() {
                    return Err(ApiError::NotSent(HOPELESS.to_owned()));
                }
            }
            if is_too_late() {
                return Err(ApiError::NotSent(TOO_LATE.to_owned()));
            }
            let span = (self.options.may_write)().filter(|_| !self.is_closed());
            let Some(span) = span else { return Err(ApiError::NotSent(NOT_LEADING.to_owned())) };
            let result = call::send(&self.caller, request, timeout.min(span)).await;
            let Err(failed) = result else { return Ok(()) };
            if !policy.allows(&failed) {
                return Err(failed);
            }
            match backoff.next(failed.retry_after()) {
                Some(wait) if Instant::now() + wait + timeout <= deadline => {
                    tracing::debug!(error = %failed, "a write failed; sending it again");
                    if !self.pause(wait, &failed).await {
                        return Err(failed);
                    }
                }
                _ => return Err(failed),
            }
        }
    }

    /// Waits before a retry. `false` if the request is given up instead, since the process ends and the
    /// API server cannot be reached.
    pub(super) async fn pause(&self, wait: Duration, failed: &ApiError) -> bool {
        let hopeless = async {
            self.ends.cancelled().await;
            let since = *self.ends_since.get_or_init(Instant::now);
            tokio::time::sleep_until(since + LAST_HOPE).await;
        };
        tokio::select! {
            biased;
            () = hopeless, if matches!(failed, ApiError::NotSent(_)) => {
                self.hopeless.cancel();
                false
            }
            () = tokio::time::sleep(wait) => true,
        }
    }

    /// Reads an object, to learn the result of a write.
    pub(super) async fn read(
        &self,
        path: String,
        timeout: Duration,
    ) -> Result<bytes::Bytes, ApiError> {
        call::send_and_read(&self.caller, &ApiRequest::get(path), timeout).await
    }
}

impl RetryPolicy {
    fn allows(self, failed: &ApiError) -> bool {
        match (self, failed) {
            (_, ApiError::NotSent(_)) => true,
            (RetryPolicy::IfNotProcessed, ApiError::NoResponse(_)) => false,
            (RetryPolicy::IfIdempotent, ApiError::NoResponse(_)) => true,
            (_, ApiError::Status(status)) if status.code == StatusCode::TOO_MANY_REQUESTS => {
                status.retry_after.is_some() || self == RetryPolicy::IfIdempotent
            }
            (RetryPolicy::IfNotProcessed, ApiError::Status(_)) => false,
            (RetryPolicy::IfIdempotent, ApiError::Status(status)) => {
                status.code.is_server_error()
                    || status.code == StatusCode::REQUEST_TIMEOUT
                    || (status.code == StatusCode::CONFLICT && !is_gone(failed))
            }
        }
    }
}

/// Whether a failed request may have taken effect.
pub(super) fn may_have_taken_effect(failed: &ApiError) -> bool {
    match failed {
        ApiError::NotSent(_) => false,
        ApiError::NoResponse(_) => true,
        ApiError::Status(status) => {
            status.code.is_server_error() || status.code == StatusCode::REQUEST_TIMEOUT
        }
    }
}

/// Whether the object is deleted, or another one now has its name, so that the uid in the request does
/// not match.
pub(super) fn is_gone(failed: &ApiError) -> bool {
    match failed {
        ApiError::NotSent(_) | ApiError::NoResponse(_) => false,
        ApiError::Status(status) => match status.code {
            StatusCode::NOT_FOUND => true,
            StatusCode::UNPROCESSABLE_ENTITY => {
                status.fields.iter().any(|field| field == "metadata.uid")
            }
            // As in rest's delete.go and storage's errors.go.
            StatusCode::CONFLICT => ["UID in precondition", "UID in the precondition"]
                .iter()
                .any(|words| status.message.contains(words)),
            _ => false,
        },
    }
}

/// The deadline of a request that leaves `span` to read its result.
pub(super) fn earlier(deadline: Instant, span: Duration) -> Instant {
    deadline.checked_sub(span).unwrap_or(deadline)
}

/// Whether the pod of a request is deleted or terminating. As in pod/storage/storage.go, assignPod.
pub(super) fn is_deleted_or_terminating(failed: &ApiError) -> bool {
    let is_going = |failed: &ApiError| match failed {
        ApiError::Status(status) if status.code == StatusCode::CONFLICT => {
            status.message.contains("is being deleted")
        }
        _ => false,
    };
    is_gone(failed) || is_going(failed)
}

/// The path of a pod.
pub(super) fn pod_path(pod: &PodKey) -> String {
    let (namespace, name) = (segment(&pod.namespace), segment(&pod.name));
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

/// An object as JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> Vec<u8> {
    let mut text = Vec::with_capacity(USUAL);
    serde_json::to_writer(&mut text, value).expect("texts and numbers can be written as JSON");
    text
}
