//! One candidate. As in client-go's leaderelection.go.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use kube::Client;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::lock::Lock;
use super::record::LeaseRecord;
use super::settings::JITTER_FACTOR;
use super::{Ended, Leadership, Settings, State};
use crate::call::ApiError;
use crate::events::{EventRecorder, Occurrence};

/// The shortest time for a request. As in resourcelock's interface.go, NewFromKubeconfig.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// One candidate.
pub(super) struct Elector {
    lock: Lock,
    leadership: Leadership,
    events: Arc<dyn EventRecorder>,
    /// The Lease as last observed, and when its change was observed.
    observed: LeaseRecord,
    observed_at: Duration,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Try {
    /// This instance leads.
    Held,
    /// Another one does.
    Taken,
    /// The attempt failed, so the leader is unknown.
    Failed,
}

impl Elector {
    pub(super) fn new(
        client: Client,
        leadership: Leadership,
        events: Arc<dyn EventRecorder>,
    ) -> Self {
        let Settings { namespace, name, renew_deadline, .. } = leadership.settings();
        let timeout = (*renew_deadline / 2).max(TIMEOUT_MIN);
        Elector {
            lock: Lock::new(client, namespace, name, timeout),
            leadership,
            events,
            observed: LeaseRecord::default(),
            observed_at: Duration::ZERO,
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) -> Ended {
        tracing::info!(lease = %self.lock, "attempting to acquire leader lease...");
        // An aborted request may have taken effect; the lease then expires by itself.
        if stop.run_until_cancelled(self.acquire()).await.is_none() {
            self.leadership.resign();
            self.give_back().await;
            return Ended::Stopped;
        }
        self.record("became leader");
        tracing::info!(lease = %self.lock, "successfully acquired lease");
        self.leadership.enter(State::Leading);
        let ended = match stop.run_until_cancelled(self.renew()).await {
            Some(()) => Ended::Lost,
            None => Ended::Stopped,
        };
        self.leadership.resign();
        match ended {
            // Unlike client-go: writes may still be in flight, and have until the lease expires.
            Ended::Lost => self.leadership.enter(State::Lost),
            Ended::Stopped => {
                self.leadership.enter(State::Standby);
                self.give_back().await;
            }
        }
        self.record("stopped leading");
        ended
    }

    /// Tries until this instance leads.
    async fn acquire(&mut self) {
        let period = self.settings().retry_period;
        while self.try_to_lead().await != Try::Held {
            sleep(period.mul_f64(1.0 + rand::random_range(0.0..JITTER_FACTOR))).await;
        }
    }

    /// Renews the lease until renewal fails for too long, or another instance holds it.
    async fn renew(&mut self) {
        let Settings { retry_period, renew_deadline, .. } = *self.settings();
        loop {
            sleep(retry_period).await;
            let deadline = Instant::now() + renew_deadline;
            loop {
                let next = Instant::now() + retry_period;
                match timeout_at(deadline, self.try_to_lead()).await {
                    Ok(Try::Held) => break,
                    // Unlike client-go, which continues until the deadline while both instances write.
                    Ok(Try::Taken) => {
                        let leader = self.observed.holder();
                        tracing::error!(lease = %self.lock, leader, "another instance holds the lease");
                        return;
                    }
                    Ok(Try::Failed) if next < deadline => sleep_until(next).await,
                    Ok(Try::Failed) | Err(_) => {
                        tracing::error!(lease = %self.lock, "failed to renew lease");
                        return;
                    }
                }
            }
        }
    }

    /// Tries to acquire or renew the lease. As in leaderelection.go, tryAcquireOrRenew.
    async fn try_to_lead(&mut self) -> Try {
        let begun = self.uptime();
        let (identity, duration, now) = {
            let settings = self.settings();
            (settings.identity.clone(), settings.lease_duration, settings.clock.wall())
        };
        let mut record = LeaseRecord::new(&identity, duration, now);
        let is_ours = |observed: &LeaseRecord| observed.holder() == identity;

        // The last observed state is probably still valid.
        if is_ours(&self.observed) && self.is_valid(begun) {
            continue_term(&mut record, &self.observed);
            match self.lock.update(&record).await {
                Ok(()) => return self.leads(record, begun),
                Err(error) => {
                    tracing::warn!(lease = %self.lock, %error, "failed to update lock optimistically, falling back to slow path");
                }
            }
        }
        let begun = self.uptime();
        let found = match self.lock.get().await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => {
                let record = LeaseRecord::new(&identity, duration, now);
                return match self.lock.create(&record).await {
                    Ok(()) => self.leads(record, begun),
                    Err(error) => {
                        tracing::warn!(lease = %self.lock, %error, "error initially creating lease lock");
                        Try::Failed
                    }
                };
            }
            Err(error) => {
                tracing::warn!(lease = %self.lock, %error, "error retrieving lease lock");
                return Try::Failed;
            }
        };
        if found != self.observed {
            self.observe(found.clone());
        }
        if !found.holder().is_empty() && !is_ours(&found) && self.is_valid(begun) {
            tracing::debug!(lease = %self.lock, leader = found.holder(), "lock is held and has not yet expired");
            return Try::Taken;
        }
        if is_ours(&found) {
            continue_term(&mut record, &found);
            self.leadership.count_slow_path();
        } else {
            record.lease_transitions = Some(found.transitions().saturating_add(1));
        }
        match self.lock.update(&record).await {
            Ok(()) => self.leads(record, begun),
            Err(error) => {
                tracing::warn!(lease = %self.lock, %error, "failed to update lock");
                Try::Failed
            }
        }
    }

    /// This instance leads, because of a request that was started at `begun`.
    fn leads(&mut self, record: LeaseRecord, begun: Duration) -> Try {
        self.observe(record);
        self.leadership.confirm(begun);
        Try::Held
    }

    fn observe(&mut self, record: LeaseRecord) {
        let (leader, before) = (record.holder(), self.observed.holder());
        if leader != before {
            tracing::info!(lease = %self.lock, leader, "new leader elected");
        }
        self.observed_at = self.uptime();
        self.leadership.observe(leader, self.observed_at);
        self.observed = record;
    }

    /// Releases the lease at the end, if it is held.
    async fn give_back(&mut self) {
        if self.observed.holder() != self.settings().identity {
            return;
        }
        let deadline = Instant::now() + self.settings().renew_deadline;
        match timeout_at(deadline, self.release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(lease = %self.lock, %error, "failed to release lock"),
            Err(_) => tracing::warn!(lease = %self.lock, "failed to release lock in time"),
        }
    }

    /// As in client-go, release, which reads the lease first. Here it is read only if it has changed
    /// since it was last observed: an aborted renewal of this instance may have taken effect.
    async fn release(&mut self) -> Result<(), ApiError> {
        match self.lock.update(&self.nobody()).await {
            Err(failed) if failed.code() == Some(StatusCode::CONFLICT) => {}
            Err(failed) => return Err(failed),
            Ok(()) => {
                self.observe(self.nobody());
                return Ok(());
            }
        }
        let found = self.lock.get().await?;
        self.observe(found);
        if self.observed.holder() == self.settings().identity {
            self.lock.update(&self.nobody()).await?;
            self.observe(self.nobody());
        }
        Ok(())
    }

    /// The lease without a holder, after the current term.
    fn nobody(&self) -> LeaseRecord {
        let now = self.settings().clock.wall();
        let mut record = LeaseRecord::new("", Duration::from_secs(1), now);
        record.lease_transitions = Some(self.observed.transitions());
        record
    }

    fn record(&self, what: &str) {
        let Some(regarding) = self.lock.subject() else { return };
        let settings = self.settings();
        self.events.record(Occurrence {
            controller: settings.controller.as_str().into(),
            regarding,
            related: None,
            kind: "Normal",
            reason: "LeaderElection",
            action: "",
            note: format!("{} {what}", settings.identity),
        });
    }

    /// Whether the observed lease has not expired.
    fn is_valid(&self, now: Duration) -> bool {
        now < self.observed_at + self.observed.duration()
    }

    fn uptime(&self) -> Duration {
        self.settings().clock.uptime()
    }

    fn settings(&self) -> &Settings {
        self.leadership.settings()
    }
}

/// Keeps the acquire time and transitions, since the leader stays the same.
fn continue_term(record: &mut LeaseRecord, before: &LeaseRecord) {
    record.acquire_time.clone_from(&before.acquire_time);
    record.lease_transitions.clone_from(&before.lease_transitions);
}
