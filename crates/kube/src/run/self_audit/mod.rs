//! The self-audit: all the time, and cheaply, an instance checks its own work.
//!
//! [`Watchdog`] runs on the engine's thread between two decisions. It looks for pods that sleep although they would fit,
//! bindings that hang, and nodes that others have overcommitted, and makes decisions about pending pods a second time.
//! [`ViewAudit`] is a task that reads a node with its pods from the API server, and has the engine compare them with
//! what it knows. Each takes at most a hundredth of the time of one core.

mod metrics;
mod view_audit;
mod watchdog;

use std::time::Duration;

pub(crate) use self::metrics::SelfAuditMetrics;
pub(crate) use self::view_audit::ViewAudit;
pub(crate) use self::watchdog::Watchdog;

/// How an instance audits itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfAudit {
    /// The pause between two looks; zero for no audit.
    pub period: Duration,
    /// How long a pod must have slept before it is asked whether it would fit.
    pub asleep: Duration,
    /// After this time a binding counts as hanging.
    pub overdue: Duration,
    /// The pause between two looks at an object that differs from the API server: events may be under way.
    pub settle: Duration,
    /// Whether a recording is written. Nothing may then be woken or decided that the recording does not have, so that it can
    /// be replayed: such pods are only counted and logged.
    pub is_recorded: bool,
}

impl Default for SelfAudit {
    /// A look every 10 seconds, at pods that have slept for 30 seconds. A binding hangs after two minutes: by then the
    /// answer to a write is given up, so something else is awaited, such as a volume.
    fn default() -> Self {
        SelfAudit {
            period: Duration::from_secs(10),
            asleep: Duration::from_secs(30),
            overdue: Duration::from_mins(2),
            settle: Duration::from_secs(5),
            is_recorded: false,
        }
    }
}

impl SelfAudit {
    /// No audit.
    pub const OFF: SelfAudit = SelfAudit {
        period: Duration::ZERO,
        asleep: Duration::ZERO,
        overdue: Duration::ZERO,
        settle: Duration::ZERO,
        is_recorded: false,
    };

    /// Whether there is an audit.
    pub(crate) fn is_on(&self) -> bool {
        !self.period.is_zero()
    }
}
