//! Sends single writes to the API server.

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
use super::backoff::Backoff;
use super::job::{Job, Task};
use crate::call::{self, Ask, Failed, segment};
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

/// Sends writes to the API server.
pub(super) struct Courier {
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
pub(super) enum Unwritten {
    /// It failed.
    Failed(WriteError),
    /// The pod that it was about is deleted: nobody needs it any more.
    PodDeleted(String),
}

impl From<String> for Unwritten {
    fn from(why: String) -> Self {
        Unwritten::Failed(WriteError::other(why))
    }
}

/// When a request is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Only if the API server certainly did not process it.
    IfNotTaken,
    /// Whenever it may help: the request is idempotent.
    IfItMayHelp,
}

impl std::fmt::Debug for Courier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Courier").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Courier {
    pub(super) fn new(caller: Caller, options: Options) -> Self {
        let (ends, hopeless) = (CancellationToken::new(), CancellationToken::new());
        let (is_closed, ends_since) = (AtomicBool::new(false), OnceLock::new());
        Courier { caller, options, is_closed, ends, ends_since, hopeless }
    }

    /// Tells the courier that the process is about to end: requests that cannot be sent are soon given
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

    /// Does what is to be done. The error is what the engine is told.
    pub(super) async fn perform(&self, job: Job) -> Result<(), WriteError> {
        let Job { pod, task, deadline } = job;
        let done = match &task {
            Task::Bind(_, node) => self.bind(&pod, node, deadline).await,
            Task::Object(_, write) => {
                self.write_object(write, deadline).await.map_err(Unwritten::Failed)
            }
            Task::Evict(_, eviction) => {
                self.evict(&pod, eviction, deadline).await.map_err(Unwritten::from)
            }
            Task::Status(status) => self.set_status(&pod, status).await.map_err(Unwritten::from),
        };
        let (what, pod) = (task.name(), &pod.key);
        done.map_err(|unwritten| match unwritten {
            Unwritten::Failed(error) => {
                tracing::warn!(%pod, what, %error, "write failed");
                error
            }
            // This is not an error: the pod was deleted meanwhile.
            Unwritten::PodDeleted(answer) => {
                tracing::info!(%pod, what, answer, "the pod was deleted meanwhile: nothing is written");
                WriteError::new(WriteCause::Conflict, answer)
            }
        })
    }

    /// Sends a request, with retries according to `again`, as long as it can be answered before
    /// `deadline`.
    pub(super) async fn deliver(
        &self,
        ask: &Ask,
        again: Again,
        deadline: Instant,
    ) -> Result<(), Failed> {
        let timeout = self.options.request_timeout;
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5), RETRIES);
        let is_too_late = || deadline < Instant::now() + timeout;
        loop {
            if !is_too_late() {
                let turn = self.hopeless.run_until_cancelled((self.options.turn)());
                if turn.await.is_none() {
                    return Err(Failed::NotSent(HOPELESS.to_owned()));
                }
            }
            if is_too_late() {
                return Err(Failed::NotSent(TOO_LATE.to_owned()));
            }
            let span = (self.options.may_write)().filter(|_| !self.is_closed());
            let Some(span) = span else { return Err(Failed::NotSent(NOT_LEADING.to_owned())) };
            let answer = call::tell(&self.caller, ask, timeout.min(span)).await;
            let Err(failed) = answer else { return Ok(()) };
            if !again.allows(&failed) {
                return Err(failed);
            }
            match backoff.next(failed.retry_after()) {
                Some(wait) if Instant::now() + wait + timeout <= deadline => {
                    tracing::debug!(error = %failed, "a write failed; sending it again");
                    if !self.rest(wait, &failed).await {
                        return Err(failed);
                    }
                }
                _ => return Err(failed),
            }
        }
    }

    /// Waits before a retry. `false` if the request is given up instead, since the process ends and the
    /// API server cannot be reached.
    pub(super) async fn rest(&self, wait: Duration, failed: &Failed) -> bool {
        let hopeless = async {
            self.ends.cancelled().await;
            let since = *self.ends_since.get_or_init(Instant::now);
            tokio::time::sleep_until(since + LAST_HOPE).await;
        };
        tokio::select! {
            biased;
            () = hopeless, if matches!(failed, Failed::NotSent(_)) => {
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
    ) -> Result<bytes::Bytes, Failed> {
        call::ask(&self.caller, &Ask::get(path), timeout).await
    }
}

impl Again {
    fn allows(self, failed: &Failed) -> bool {
        match (self, failed) {
            (_, Failed::NotSent(_)) => true,
            (Again::IfNotTaken, Failed::Unanswered(_)) => false,
            (Again::IfItMayHelp, Failed::Unanswered(_)) => true,
            (_, Failed::Refused(refusal)) if refusal.code == StatusCode::TOO_MANY_REQUESTS => {
                refusal.retry_after.is_some() || self == Again::IfItMayHelp
            }
            (Again::IfNotTaken, Failed::Refused(_)) => false,
            (Again::IfItMayHelp, Failed::Refused(refusal)) => {
                refusal.code.is_server_error()
                    || refusal.code == StatusCode::REQUEST_TIMEOUT
                    || (refusal.code == StatusCode::CONFLICT && !is_about_another(failed))
            }
        }
    }
}

/// Whether a failed request may have taken effect.
pub(super) fn may_be_done(failed: &Failed) -> bool {
    match failed {
        Failed::NotSent(_) => false,
        Failed::Unanswered(_) => true,
        Failed::Refused(refusal) => {
            refusal.code.is_server_error() || refusal.code == StatusCode::REQUEST_TIMEOUT
        }
    }
}

/// Whether the object is deleted, or another one now has its name, so that the uid in the request does
/// not match.
pub(super) fn is_about_another(failed: &Failed) -> bool {
    match failed {
        Failed::NotSent(_) | Failed::Unanswered(_) => false,
        Failed::Refused(refusal) => match refusal.code {
            StatusCode::NOT_FOUND => true,
            StatusCode::UNPROCESSABLE_ENTITY => {
                refusal.fields.iter().any(|field| field == "metadata.uid")
            }
            // As in rest's delete.go and storage's errors.go.
            StatusCode::CONFLICT => ["UID in precondition", "UID in the precondition"]
                .iter()
                .any(|words| refusal.message.contains(words)),
            _ => false,
        },
    }
}

/// The deadline of a request that leaves `span` to read its result.
pub(super) fn earlier(deadline: Instant, span: Duration) -> Instant {
    deadline.checked_sub(span).unwrap_or(deadline)
}

/// Whether the pod of a request is deleted or terminating. As in pod/storage/storage.go, assignPod.
pub(super) fn is_about_deleted(failed: &Failed) -> bool {
    let is_going = |failed: &Failed| match failed {
        Failed::Refused(refusal) if refusal.code == StatusCode::CONFLICT => {
            refusal.message.contains("is being deleted")
        }
        _ => false,
    };
    is_about_another(failed) || is_going(failed)
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
