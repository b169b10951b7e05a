//! Takes new configurations to the engine, and reports what becomes of them: in the log, in metrics and as events.

use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_api::Str;
use tokio::sync::{mpsc, oneshot};

use super::{NewConfiguration, Reload, ReloadMetrics, ReloadMode, ReloadOutcome, ReloadRequest};
use crate::events::{EventObject, EventRecorder, Occurrence};

/// The longest note of an event, in bytes. The API server accepts 1,024.
const NOTE: usize = 1000;

/// At most this many differences are logged one by one.
const DIFFERENCES: usize = 100;

/// Reports reloads.
pub(crate) struct Announcer {
    pub(crate) metrics: ReloadMetrics,
    pub(crate) recorder: Arc<dyn EventRecorder>,
    /// Who reports it: the first scheduler name.
    pub(crate) controller: Str,
    /// The lease of the leader election, which the events are about: namespace and name. Without one there are no events.
    pub(crate) lease: Option<(Str, Str)>,
}

impl Announcer {
    fn refused(&self, reason: &str) {
        tracing::error!(
            %reason,
            "the new configuration is refused; the one before stays in effect until a valid one is there"
        );
        self.metrics.refused();
        self.record("Warning", "ConfigurationRefused", reason.to_owned());
    }

    fn log_differences(new: &NewConfiguration) {
        tracing::info!(
            hash = new.hash,
            differences = new.differences.len(),
            "there is a new configuration; it is tried with recent and pending pods"
        );
        for difference in new.differences.iter().take(DIFFERENCES) {
            tracing::info!(%difference, "the new configuration differs");
        }
    }

    fn tried(&self, mode: ReloadMode, hash: &str, outcome: &ReloadOutcome) {
        let ReloadOutcome { tried, different, examples, without_profile } = outcome;
        for example in examples {
            tracing::info!(%example, "a pod is decided differently under the new configuration");
        }
        let counts = format!("{different} of {tried} pods are decided differently");
        match mode {
            ReloadMode::Check => {
                self.metrics.checked(outcome);
                tracing::info!(
                    hash,
                    tried,
                    different,
                    "the new configuration is valid; it takes effect with --reload=apply, or after a restart"
                );
                let note = format!("configuration {hash} is valid and was only checked: {counts}");
                self.record("Normal", "ConfigurationChecked", note);
            }
            ReloadMode::Apply => {
                self.metrics.applied(outcome, hash, Timestamp::now().as_duration().as_secs_f64());
                tracing::info!(hash, tried, different, "the new configuration is in effect");
                if 0 < *without_profile {
                    tracing::warn!(
                        pods = without_profile,
                        "pending pods have a schedulerName that no profile has any more; they wait until a profile or another \
                         scheduler has it"
                    );
                }
                let note = format!("configuration {hash} is in effect: {counts}");
                self.record("Normal", "ConfigurationReloaded", note);
            }
        }
    }

    fn record(&self, kind: &'static str, reason: &'static str, mut note: String) {
        let Some((namespace, name)) = self.lease.clone() else { return };
        if NOTE < note.len() {
            let end = (0..=NOTE).rev().find(|&end| note.is_char_boundary(end)).unwrap_or(0);
            note.truncate(end);
        }
        let (uid, resource_version) = (Str::default(), Str::default());
        self.recorder.record(Occurrence {
            controller: self.controller.clone(),
            regarding: EventObject::Lease { namespace, name, uid, resource_version },
            related: None,
            kind,
            reason,
            action: "Reloading",
            note,
        });
    }
}

/// Follows the source of configurations. Ends with the engine.
pub(crate) async fn follow(
    reload: Reload,
    engine: mpsc::Sender<ReloadRequest>,
    announcer: Announcer,
) {
    let Reload { mode, mut source } = reload;
    loop {
        let new = match source.next().await {
            Ok(new) => new,
            Err(reason) => {
                announcer.refused(&reason);
                continue;
            }
        };
        Announcer::log_differences(&new);
        let (hash, (done, answer)) = (new.hash.clone(), oneshot::channel());
        if engine.send(ReloadRequest { new, mode, done }).await.is_err() {
            return;
        }
        match answer.await {
            Ok(Ok(outcome)) => {
                if mode == ReloadMode::Apply {
                    source.is_in_effect();
                }
                announcer.tried(mode, &hash, &outcome);
            }
            Ok(Err(reason)) => announcer.refused(&reason),
            Err(_) => return,
        }
    }
}
