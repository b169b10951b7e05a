//! The release of the API server.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_framework::Release;
use serde::Deserialize;

use crate::client::{Access, AccessError, RestMetrics, connect_read_only};
use crate::limit::Rate;
use crate::request::{GetError, get, whole};
use crate::watch::{Backoff, Pace};

/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of the response.
const LIMIT: usize = 1 << 20;

/// The release whose behaviour to follow in the cluster of this API server: that of the API server, or the
/// nearest supported one. The newest if the API server does not report its release.
///
/// Retries while the API server is unreachable or fails. The error means that the access is invalid.
pub async fn server_release(access: Access, pace: Pace) -> Result<Release, AccessError> {
    let connection = connect_read_only(access, Arc::new(RestMetrics::default())).await?;
    let client = connection.client("release", Rate::UNLIMITED);
    let mut backoff = Backoff::new(pace);
    loop {
        match minor_release(&client).await {
            Ok(Some(minor)) => return Ok(Release::nearest(minor)),
            Ok(None) => {
                let release = Release::NEWEST;
                tracing::warn!(%release, "the API server does not report its release; assuming the newest");
                return Ok(release);
            }
            Err(error) => {
                let wait = backoff.next();
                let again_in_seconds = wait.as_secs_f32();
                tracing::warn!(%error, again_in_seconds, "could not read the release of the API server; retrying");
                tokio::time::sleep(wait).await;
            }
        }
    }
}

/// The minor release of the API server: 36 of 1.36. `None` if it does not report it; an error if a retry
/// may help.
pub(crate) async fn minor_release(client: &kube::Client) -> Result<Option<u32>, GetError> {
    #[derive(Deserialize)]
    struct VersionInfo {
        minor: String,
    }
    let response = match get(client, "/version", TIMEOUT).await {
        Ok(response) => response,
        Err(error) => {
            return match error.code() {
                Some(code) if (400..500).contains(&code) && code != 429 => Ok(None),
                _ => Err(error),
            };
        }
    };
    let body = whole(response.into_body(), LIMIT).await?;
    let Ok(VersionInfo { minor }) = serde_json::from_slice(&body) else { return Ok(None) };
    // Some distributions write `20+`.
    Ok(minor.trim_end_matches(|last: char| !last.is_ascii_digit()).parse().ok())
}
