//! The settings of an election.

use std::time::Duration;

use plimsoll_config::LeaderElection;

use super::LeaseClock;
use crate::identity;

/// How much longer pauses between attempts may be at random. As in leaderelection.go, JitterFactor.
pub(super) const JITTER_FACTOR: f64 = 1.2;

/// The settings of an election.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The identity of this instance, which must be unique.
    pub identity: String,
    /// How long others wait after they observed a change of the Lease.
    pub lease_duration: Duration,
    /// How long the leader tries to renew it.
    pub renew_deadline: Duration,
    /// The pause between attempts.
    pub retry_period: Duration,
    /// The reporting controller of events: the scheduler name of the first profile.
    pub controller: String,
    /// The clocks.
    pub clock: LeaseClock,
}

/// Invalid settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Others would take over while the leader still tries to renew.
    #[error("leaseDuration must be greater than renewDeadline")]
    LeaseTooShort,
    /// The leader would give up before it tried again.
    #[error("renewDeadline must be greater than retryPeriod*JitterFactor")]
    DeadlineTooShort,
    /// There would be no pause between attempts.
    #[error("retryPeriod must be greater than zero")]
    NoPause,
    /// Instances could not be distinguished.
    #[error("Lock identity is empty")]
    NoIdentity,
    /// A duration is negative.
    #[error("durations of leaderElection must not be negative")]
    Negative,
}

impl Settings {
    /// The settings from the configuration, for a new instance on this machine; `None` if there is no
    /// election. `controller` is the scheduler name of the first profile.
    pub fn from_config(
        election: &LeaderElection,
        controller: &str,
    ) -> Result<Option<Self>, SettingsError> {
        if election.leader_elect == Some(false) {
            return Ok(None);
        }
        let span = |duration: plimsoll_config::GoDuration| {
            duration.to_std().ok_or(SettingsError::Negative)
        };
        let settings = Settings {
            namespace: election.resource_namespace.clone(),
            name: election.resource_name.clone(),
            // Two processes on one machine must have different identities.
            identity: format!("{}_{}", identity::hostname(), identity::uuid()),
            lease_duration: span(election.lease_duration)?,
            renew_deadline: span(election.renew_deadline)?,
            retry_period: span(election.retry_period)?,
            controller: controller.to_owned(),
            clock: LeaseClock::default(),
        };
        settings.check()?;
        Ok(Some(settings))
    }

    /// As in leaderelection.go, NewLeaderElector.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        if self.lease_duration <= self.renew_deadline {
            return Err(SettingsError::LeaseTooShort);
        }
        if self.renew_deadline <= self.retry_period.mul_f64(JITTER_FACTOR) {
            return Err(SettingsError::DeadlineTooShort);
        }
        if self.retry_period.is_zero() {
            return Err(SettingsError::NoPause);
        }
        if self.identity.is_empty() {
            return Err(SettingsError::NoIdentity);
        }
        Ok(())
    }
}
