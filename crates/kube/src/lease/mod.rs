//! Leader election: one of several instances writes, and the others are standbys.
//!
//! The protocol is that of client-go's tools/leaderelection on a Lease, so that kube-scheduler and
//! Plimsoll can share a lease. Times in the Lease are for people: decisions depend only on when this
//! process observed a change of the Lease. Beyond client-go, [`Leadership`] says at any moment whether
//! this instance is certain to lead, by a clock that advances while the machine sleeps. No write is
//! started after the renew deadline, and writes that were started before end before another instance
//! may lead.

mod clock;
mod elector;
mod lock;
mod record;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use clock::LeaseClock;
use elector::Elector;
pub use settings::{Settings, SettingsError};

use crate::events::EventRecorder;
use crate::write::MayWrite;

/// The name of the lock in metrics and health checks.
const NAME: &str = "kube-scheduler";

/// How long after the end of its lease a leader that has neither renewed it nor ended still counts as
/// healthy. As in kube-scheduler's options.go.
pub const WATCHDOG: Duration = Duration::from_secs(20);

/// The state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for the lease, or has released it.
    Standby,
    /// It leads.
    Leading,
    /// It led, and must not write any more. It never leads again: the process must end.
    Lost,
}

/// How an election ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was stopped. If it led, it released the lease, if possible.
    Stopped,
    /// The lease was lost.
    Lost,
}

/// The election of a leader.
pub struct Election {
    elector: Elector,
    leadership: Leadership,
}

/// The observed leader. Cheap to clone.
#[derive(Clone)]
pub struct Leadership {
    inner: Arc<LeadershipInner>,
}

struct LeadershipInner {
    settings: Settings,
    state: watch::Sender<State>,
    /// Until when this instance is certain to lead, in milliseconds of [`LeaseClock::uptime`].
    sure_until: AtomicU64,
    observed: Mutex<Observed>,
    is_leader: IntGaugeVec,
    slow_path: IntCounterVec,
}

/// The observed leader, and when its change was observed.
#[derive(Clone, Debug, Default)]
struct Observed {
    leader: String,
    at: Duration,
}

impl Election {
    /// An election with these settings. `events` records who became leader.
    pub fn new(
        client: Client,
        settings: Settings,
        events: Arc<dyn EventRecorder>,
    ) -> Result<Self, SettingsError> {
        settings.check()?;
        let leadership = Leadership::new(settings);
        let elector = Elector::new(client, leadership.clone(), events);
        Ok(Election { elector, leadership })
    }

    /// The observed leader.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Takes part in the election until the lease is lost or `stop` is cancelled. Once it is cancelled,
    /// nothing that needs the lease may be in flight, since the lease is released at once.
    pub async fn run(self, stop: CancellationToken) -> Ended {
        self.elector.run(stop).await
    }
}

impl Leadership {
    fn new(settings: Settings) -> Self {
        let opts = |name, help: &str| {
            let help = format!(
                "[ALPHA] {help} 'name' is the string used to identify the lease. Please make sure \
                 to group by name."
            );
            Opts::new(name, help)
        };
        let status = opts(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates \
             backup, 1 indicates master.",
        );
        let slow_path = opts(
            "leader_election_slowpath_total",
            "Total number of slow path exercised in renewing leader leases.",
        );
        let is_leader = IntGaugeVec::new(status, &["name"]).expect("name and labels are valid");
        let slow_path = IntCounterVec::new(slow_path, &["name"]).expect("so are these");
        is_leader.with_label_values(&[NAME]).set(0);
        let (state, _) = watch::channel(State::Standby);
        let inner = LeadershipInner {
            settings,
            state,
            sure_until: AtomicU64::new(0),
            observed: Mutex::default(),
            is_leader,
            slow_path,
        };
        Leadership { inner: Arc::new(inner) }
    }

    /// The state of this instance, and its changes.
    pub fn state(&self) -> watch::Receiver<State> {
        self.inner.state.subscribe()
    }

    /// Whether this instance is certain to lead now, that is, before the renew deadline.
    pub fn is_leading_for_sure(&self) -> bool {
        self.time_to_write().is_some()
    }

    /// How long a write that is started now may take, so that it ends before another instance can lead;
    /// `None` if this instance is not certain to lead.
    pub fn time_to_write(&self) -> Option<Duration> {
        let Settings { clock, lease_duration, renew_deadline, .. } = &self.inner.settings;
        let sure_until = Duration::from_millis(self.inner.sure_until.load(Ordering::Acquire));
        let left = sure_until.checked_sub(clock.uptime()).filter(|left| !left.is_zero())?;
        Some(left + lease_duration.saturating_sub(*renew_deadline))
    }

    /// The same for a [`Writer`](crate::write::Writer).
    pub fn may_write(&self) -> MayWrite {
        let leadership = self.clone();
        Arc::new(move || leadership.time_to_write())
    }

    /// The identity of the last observed leader; empty if there was none.
    pub fn leader(&self) -> String {
        self.observed().leader
    }

    /// The health check `leaderElection`: an error where this instance holds a lease that is over since
    /// [`WATCHDOG`] and has not ended. As in leaderelection.go, Check.
    pub fn check(&self) -> Result<(), NotRenewed> {
        let Settings { clock, identity, lease_duration, .. } = &self.inner.settings;
        let observed = self.observed();
        let age = clock.uptime().saturating_sub(observed.at);
        if observed.leader == *identity && *lease_duration + WATCHDOG < age {
            return Err(NotRenewed);
        }
        Ok(())
    }

    /// Adds `leader_election_master_status` and `leader_election_slowpath_total` to `registry`.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        registry.register(Box::new(self.inner.is_leader.clone()))?;
        registry.register(Box::new(self.inner.slow_path.clone()))
    }

    fn observed(&self) -> Observed {
        self.inner.observed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Records that `leader` was observed, for the first time in this state of the Lease.
    fn observe(&self, leader: &str, at: Duration) {
        let observed = Observed { leader: leader.to_owned(), at };
        *self.inner.observed.lock().unwrap_or_else(PoisonError::into_inner) = observed;
    }

    /// Records that the lease was renewed by a request that was started at `begun`.
    fn confirm(&self, begun: Duration) {
        let until = begun + self.inner.settings.renew_deadline;
        let millis = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.inner.sure_until.store(millis, Ordering::Release);
    }

    /// Records that this instance does not lead any more.
    fn resign(&self) {
        self.inner.sure_until.store(0, Ordering::Release);
    }

    fn enter(&self, state: State) {
        let leads = state == State::Leading;
        self.inner.is_leader.with_label_values(&[NAME]).set(i64::from(leads));
        self.inner.state.send_replace(state);
    }

    fn count_slow_path(&self) {
        self.inner.slow_path.with_label_values(&[NAME]).inc();
    }
}

/// This instance holds a lease that is over, and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed election to renew leadership on lease {NAME}")]
pub struct NotRenewed;

impl std::fmt::Debug for Leadership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leadership")
            .field("state", &*self.inner.state.borrow())
            .field("observed", &self.observed())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Election").field("leadership", &self.leadership).finish_non_exhaustive()
    }
}
