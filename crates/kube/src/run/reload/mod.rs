//! Reloads the configuration while it runs.
//!
//! A [`ConfigurationSource`] waits for a new configuration and validates it. [`follow`] takes it to the engine's thread,
//! where a [`Trial`](trial::Trial) decides recent and pending pods under the present and under the new configuration, in
//! short slices. Then the profiles are replaced as a whole between two decisions, or the new configuration is refused.

mod metrics;
mod report;
mod route;
mod trial;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use plimsoll_engine::{Backoff, Profile};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::metrics::ReloadMetrics;
pub(crate) use self::report::{Announcer, follow};
pub use self::route::AssignProfile;
pub(crate) use self::route::Router;
pub(crate) use self::trial::{Recent, Trial};

/// What happens with a new configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadMode {
    /// It is validated and tried, and the result reported.
    Check,
    /// Then it replaces the present one.
    Apply,
}

/// A valid configuration that may replace the present one.
pub struct NewConfiguration {
    /// The profiles, with the rankings that replace their scores, if there are any.
    pub profiles: Vec<Profile>,
    /// How long pods wait after failures.
    pub backoff: Backoff,
    /// Which pods other profiles decide than those of their scheduler names.
    pub assign: Option<Arc<dyn AssignProfile>>,
    /// Identifies it in metrics and in the log.
    pub hash: String,
    /// What differs from the present one, a line each.
    pub differences: Vec<String>,
}

impl fmt::Debug for NewConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewConfiguration").field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// Where new configurations come from.
pub trait ConfigurationSource: Send {
    /// Waits for a new configuration. The error says why it is refused; the present one stays in effect.
    ///
    /// It may be cancelled at any time.
    fn next(&mut self) -> BoxFuture<'_, Result<NewConfiguration, String>>;

    /// The last configuration has replaced the one before.
    fn is_in_effect(&mut self);
}

/// How the configuration is reloaded.
pub struct Reload {
    /// What happens with a new configuration.
    pub mode: ReloadMode,
    /// Where it comes from.
    pub source: Box<dyn ConfigurationSource>,
}

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reload").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// What the engine's thread is asked.
pub(crate) struct ReloadRequest {
    pub(crate) new: NewConfiguration,
    pub(crate) mode: ReloadMode,
    /// The answer; the error says why the new configuration is refused.
    pub(crate) done: oneshot::Sender<Result<ReloadOutcome, String>>,
}

/// What came of a new configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReloadOutcome {
    /// How many pods were decided under both configurations.
    pub(crate) tried: usize,
    /// How many of them came out otherwise.
    pub(crate) different: usize,
    /// Some of these, a line each.
    pub(crate) examples: Vec<String>,
    /// Pending pods that no profile places any more.
    pub(crate) without_profile: usize,
}

/// At most this many requests wait for the engine. There is only one at a time.
pub(crate) const REQUESTS: usize = 1;

/// Where the engine's thread takes requests from.
pub(crate) type ReloadRequests = mpsc::Receiver<ReloadRequest>;
