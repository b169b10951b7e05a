//! Reviews: requests to the API server to authenticate or authorize a user.

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
struct Review<'a, S> {
    api_version: &'a str,
    kind: &'a str,
    spec: S,
}

/// The body of a response.
#[derive(Deserialize)]
struct ReviewResponse<T> {
    status: T,
}

/// The names of a kind of review.
pub(super) struct ReviewKind {
    pub(super) api_version: &'static str,
    pub(super) name: &'static str,
    pub(super) path: &'static str,
}

/// A review without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReviewError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("{0}")]
    Encode(String),
    #[error("{kind} is unclear: {why}")]
    Decode { kind: &'static str, why: String },
    #[error("reviews have stopped")]
    Closed,
}

impl Reviewer {
    pub(super) fn new(client: Client) -> Self {
        Reviewer { caller: client.into(), permits: Semaphore::new(limits::REVIEWS) }
    }

    /// Sends a review. It changes nothing, so it can be retried.
    pub(super) async fn review<T: DeserializeOwned>(
        &self,
        kind: &ReviewKind,
        spec: impl Serialize,
    ) -> Result<T, ReviewError> {
        let review = Review { api_version: kind.api_version, kind: kind.name, spec };
        let body =
            serde_json::to_vec(&review).map_err(|error| ReviewError::Encode(error.to_string()))?;
        let request = ApiRequest::post(kind.path.to_owned(), body);
        let mut pause = FIRST_PAUSE;
        let mut left = TRIES;
        loop {
            left -= 1;
            let result = {
                let permit = self.permits.acquire().await;
                let _permit = permit.map_err(|_| ReviewError::Closed)?;
                call::send_and_read(&self.caller, &request, TIMEOUT).await
            };
            match result {
                Ok(bytes) => {
                    let response: Result<ReviewResponse<T>, _> = serde_json::from_slice(&bytes);
                    let unclear = |error: serde_json::Error| ReviewError::Decode {
                        kind: kind.name,
                        why: error.to_string(),
                    };
                    return response.map(|response| response.status).map_err(unclear);
                }
                Err(failed) if left == 0 || !is_transient(&failed) => return Err(failed.into()),
                Err(_) => {
                    let longer = rand::rng().random_range(1.0..1.0 + JITTER);
                    tokio::time::sleep(pause.mul_f64(longer)).await;
                    pause = pause.mul_f64(FACTOR);
                }
            }
        }
    }
}

/// Whether a retry may succeed. As in util/webhook, DefaultShouldRetry.
fn is_transient(failed: &ApiError) -> bool {
    match failed {
        ApiError::NotSent(_) | ApiError::NoResponse(_) => true,
        ApiError::Status(status) => {
            status.retry_after.is_some()
                || matches!(
                    status.code,
                    StatusCode::INTERNAL_SERVER_ERROR
                        | StatusCode::TOO_MANY_REQUESTS
                        | StatusCode::GATEWAY_TIMEOUT
                )
        }
    }
}
