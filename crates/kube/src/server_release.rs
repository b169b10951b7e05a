//! The release of the API server.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_framework::Release;
use serde::Deserialize;

use crate::client::{Access, AccessError, RestMetrics, connect};
use crate::limit::Rate;
use crate::request::{Failure, get, whole};
use crate::watch::{Backoff, Pace};

/// How long the server may take to say it.
const WITHIN: Duration = Duration::from_secs(30);
/// How much it may say of it.
const LIMIT: usize = 1 << 20;

/// The release as which to decide in the cluster of this API server: its own, or the nearest that is known.
/// The newest where it does not say.
///
/// While the server cannot be reached, or has troubles of its own, it is asked again and again. The error is
/// that it can never be reached that way.
pub async fn server_release(access: Access, pace: Pace) -> Result<Release, AccessError> {
    let connection = connect(access, Arc::new(RestMetrics::default())).await?;
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
                tracing::warn!(%error, again_in_seconds, "could not read the release of the API server; trying again");
                tokio::time::sleep(wait).await;
            }
        }
    }
}

/// The minor release of the server: 36 of 1.36. `None` where it does not say; an error where it may say it
/// later.
pub(crate) async fn minor_release(client: &kube::Client) -> Result<Option<u32>, Failure> {
    #[derive(Deserialize)]
    struct Version {
        minor: String,
    }
    let answer = match get(client, "/version", WITHIN).await {
        Ok(answer) => answer,
        Err(failure) => {
            return match failure.code() {
                Some(code) if (400..500).contains(&code) && code != 429 => Ok(None),
                _ => Err(failure),
            };
        }
    };
    let body = whole(answer.into_body(), LIMIT).await?;
    let Ok(Version { minor }) = serde_json::from_slice(&body) else { return Ok(None) };
    // Some distributions write `20+`.
    Ok(minor.trim_end_matches(|last: char| !last.is_ascii_digit()).parse().ok())
}
