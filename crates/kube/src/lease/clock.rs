//! The clocks of an election.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// The clocks of an election: a monotonic one for decisions, and a wall clock for people.
#[derive(Clone)]
pub struct LeaseClock {
    uptime: Arc<dyn Fn() -> Duration + Send + Sync>,
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Default for LeaseClock {
    /// The clocks of the machine. The monotonic one advances while the machine sleeps and never jumps
    /// back.
    fn default() -> Self {
        LeaseClock::new(since_boot, Timestamp::now)
    }
}

impl LeaseClock {
    /// Other clocks. `uptime` must never go back.
    pub fn new(
        uptime: impl Fn() -> Duration + Send + Sync + 'static,
        wall: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        LeaseClock { uptime: Arc::new(uptime), wall: Arc::new(wall) }
    }

    /// The time since some fixed moment in the past.
    pub fn uptime(&self) -> Duration {
        (self.uptime)()
    }

    /// The wall clock time, which may jump.
    pub fn wall(&self) -> Timestamp {
        (self.wall)()
    }
}

impl std::fmt::Debug for LeaseClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_that_counts_goes_on() {
        let clock = LeaseClock::default();
        let before = clock.uptime();
        assert!(!before.is_zero() && before <= clock.uptime());
    }
}
