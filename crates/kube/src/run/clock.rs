//! The clock of the engine.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use plimsoll_framework::Time;

use super::heartbeat;

/// A clock that is set once and then advances monotonically: jumps of the wall clock do not change
/// backoffs and timeouts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineClock {
    set_to: i64,
    at: Instant,
}

impl EngineClock {
    /// Starts at the current time of day.
    pub(crate) fn start() -> Self {
        EngineClock { set_to: Timestamp::now().as_millisecond(), at: Instant::now() }
    }

    /// The current time.
    pub(crate) fn now(&self) -> Time {
        Time::from_millis(self.set_to) + self.at.elapsed()
    }
}

/// For [`Options::stopwatch`](plimsoll_engine::Options::stopwatch): the time since the first call. An
/// engine that calls it makes progress with its decision, and does not count as stuck.
pub fn stopwatch() -> Duration {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    heartbeat::beat();
    BEGUN.elapsed()
}
