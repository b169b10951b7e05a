//! Reviews: questions to the API server in the form of created objects.

use std::time::Duration;

use http::StatusCode;
use kube::Client;
use rand::RngExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::call::{self, ApiError, ApiRequest};
use crate::client::Caller;
use crate::serve::limits;

/// The timeout of one request. As in options/authentication.go and authorization.go.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The number of attempts, and the pauses between them. As in DefaultAuthWebhookRetryBackoff.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;

/// Sends reviews to the API server, with a limit on concurrent ones.
pub(super) struct Reviewer {
    caller: Caller,
    permits: Semaphore,
}

/// The body of a review request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a, S> {
    api_version: &'a str,
    kind: &'a str,
    spec: S,
}

/// The body of the answer.
#[derive(Deserialize)]
struct Answer<T> {
    status: T,
}

/// The names of a kind of review.
pub(super) struct Kind {
    pub(super) api_version: &'static str,
    pub(super) name: &'static str,
    pub(super) path: &'static str,
}

/// The API server did not answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unanswered(String);

impl Reviewer {
    pub(super) fn new(client: Client) -> Self {
        Reviewer { caller: client.into(), permits: Semaphore::new(limits::REVIEWS) }
    }

    /// Sends a review. It changes nothing, so it can be retried.
    pub(super) async fn review<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        spec: impl Serialize,
    ) -> Result<T, Unanswered> {
        let question = Question { api_version: kind.api_version, kind: kind.name, spec };
        let body = serde_json::to_vec(&question).map_err(|error| Unanswered(error.to_string()))?;
        let ask = ApiRequest::post(kind.path.to_owned(), body);
        let mut pause = FIRST_PAUSE;
        for left in (0..TRIES).rev() {
            let asked = {
                let permit = self.permits.acquire().await;
                let _permit = permit.map_err(|error| Unanswered(error.to_string()))?;
                call::send_and_read(&self.caller, &ask, TIMEOUT).await
            };
            match asked {
                Ok(bytes) => {
                    let answer: Result<Answer<T>, _> = serde_json::from_slice(&bytes);
                    let unclear = |error| Unanswered(format!("{} is unclear: {error}", kind.name));
                    return answer.map(|answer| answer.status).map_err(unclear);
                }
                Err(failed) if left == 0 || !is_passing(&failed) => {
                    return Err(Unanswered(failed.to_string()));
                }
                Err(_) => {
                    let longer = rand::rng().random_range(1.0..1.0 + JITTER);
                    tokio::time::sleep(pause.mul_f64(longer)).await;
                    pause = pause.mul_f64(FACTOR);
                }
            }
        }
        Err(Unanswered(format!("{} was asked for too often", kind.name)))
    }
}

/// Whether a retry may succeed. As in util/webhook, DefaultShouldRetry.
fn is_passing(failed: &ApiError) -> bool {
    match failed {
        ApiError::NotSent(_) | ApiError::NoResponse(_) => true,
        ApiError::Status(refusal) => {
            refusal.retry_after.is_some()
                || matches!(
                    refusal.code,
                    StatusCode::INTERNAL_SERVER_ERROR
                        | StatusCode::TOO_MANY_REQUESTS
                        | StatusCode::GATEWAY_TIMEOUT
                )
        }
    }
}
