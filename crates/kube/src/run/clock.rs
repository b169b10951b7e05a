//! The time that the engine is told.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use plimsoll_framework::Time;

use super::pulse;

/// A clock that was set once and then only counts: when the time of day jumps, backoffs and timeouts stay
/// what they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    set_to: i64,
    at: Instant,
}

impl Clock {
    /// Set to the time of day.
    pub(crate) fn start() -> Self {
        Clock { set_to: Timestamp::now().as_millisecond(), at: Instant::now() }
    }

    /// What it shows now.
    pub(crate) fn now(&self) -> Time {
        Time::from_millis(self.set_to) + self.at.elapsed()
    }
}

/// For [`Options::stopwatch`](plimsoll_engine::Options::stopwatch): how long since it was first asked. An engine
/// that looks at it goes on with its decision, and does not count as stuck.
pub fn stopwatch() -> Duration {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    pulse::beat();
    BEGUN.elapsed()
}
