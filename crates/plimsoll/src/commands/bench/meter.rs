//! Reads time and memory from the operating system.

use std::time::{Duration, Instant};

use plimsoll_sim::perf::MeasurementClock;

/// The clocks of this machine.
#[derive(Debug)]
pub(super) struct Clocks(Instant);

impl Clocks {
    pub(super) fn new() -> Self {
        Clocks(Instant::now())
    }
}

impl MeasurementClock for Clocks {
    fn wall(&self) -> Duration {
        self.0.elapsed()
    }

    fn cpu(&self) -> Option<Duration> {
        cpu()
    }
}

#[cfg(unix)]
fn cpu() -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok()
}

#[cfg(not(unix))]
fn cpu() -> Option<Duration> {
    None
}

/// The peak memory of this process, in bytes; on Linux only.
pub(super) fn peak_memory() -> Option<u64> {
    high_water_mark(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn high_water_mark(status: &str) -> Option<u64> {
    let text = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = text.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_read_in_bytes() {
        let status = "Name:\tplimsoll\nVmPeak:\t    9999 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(high_water_mark(status), Some(1234 * 1024));
        assert_eq!(high_water_mark("Name:\tplimsoll\n"), None);
        assert_eq!(high_water_mark("VmHWM:\tmuch\n"), None);
    }

    #[test]
    fn the_clocks_run() {
        let clocks = Clocks::new();
        let (wall, cpu) = (clocks.wall(), clocks.cpu());
        while clocks.wall() == wall || (cpu.is_some() && clocks.cpu() == cpu) {
            std::hint::spin_loop();
        }
        assert!(wall < clocks.wall());
    }
}
