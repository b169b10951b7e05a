//! Resource usage of the process, as client_golang reports it on Linux.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::text::{Printed, SampleType, as_f64};

/// The kernel reports the start time of processes in hundredths of a second, whatever its own tick is.
const TICKS_PER_SECOND: u64 = 100;

/// The usage of the process; values that cannot be read are left out.
pub(super) fn metrics() -> Vec<Printed> {
    let files = ProcFiles {
        status: read("/proc/self/status"),
        limits: read("/proc/self/limits"),
        stat: read("/proc/self/stat"),
        system: read("/proc/stat"),
    };
    let gauges = [
        (
            "process_open_fds",
            "Number of open file descriptors.",
            // The open directory itself is not counted, as in client_golang.
            open_files().map(as_f64),
        ),
        (
            "process_max_fds",
            "Maximum number of open file descriptors.",
            files.limit("Max open files").map(as_f64),
        ),
        (
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            files.kilobytes("VmRSS:").map(as_f64),
        ),
        (
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            files.kilobytes("VmSize:").map(as_f64),
        ),
        (
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            files.limit("Max address space").map(as_f64),
        ),
        (
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            files.started().map(|time| time.as_secs_f64()),
        ),
    ];
    let gauge = |(name, help, value): (&str, &str, Option<f64>)| {
        Some(Printed::plain(name, help, SampleType::Gauge).with(&[], value?))
    };
    let cpu = Printed::plain(
        "process_cpu_seconds_total",
        "Total user and system CPU time spent in seconds.",
        SampleType::Counter,
    );
    let mut all: Vec<_> = gauges.into_iter().filter_map(gauge).collect();
    all.push(cpu.with(&[], cpu_time().as_secs_f64()));
    all
}

/// When the process started.
pub(in crate::serve) fn started() -> Option<SystemTime> {
    let (stat, system) = (read("/proc/self/stat"), read("/proc/stat"));
    let files = ProcFiles { stat, system, ..ProcFiles::default() };
    Some(UNIX_EPOCH + files.started()?)
}

/// Files of `/proc`.
#[derive(Default)]
struct ProcFiles {
    status: String,
    limits: String,
    stat: String,
    system: String,
}

impl ProcFiles {
    /// `VmRSS:     1234 kB`, in bytes.
    fn kilobytes(&self, name: &str) -> Option<u64> {
        let line = self.status.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kilobytes.checked_mul(1024)
    }

    /// `Max open files 1024 524288 files`: the first number. Without a limit it is the largest number,
    /// as in Go.
    fn limit(&self, name: &str) -> Option<u64> {
        let line = self.limits.lines().find_map(|line| line.strip_prefix(name))?;
        match line.split_whitespace().next()? {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        }
    }

    /// When the process started, since 1970.
    fn started(&self) -> Option<Duration> {
        // The name in parentheses may contain anything, so fields are counted after it.
        let (_, fields) = self.stat.rsplit_once(')')?;
        let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
        let booted = self.system.lines().find_map(|line| line.strip_prefix("btime "))?;
        let booted = Duration::from_secs(booted.trim().parse().ok()?);
        Some(booted + Duration::from_millis(ticks.checked_mul(1000)? / TICKS_PER_SECOND))
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn open_files() -> Option<u64> {
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(count.saturating_sub(1)).ok()
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_is_understood() {
        let mut stat = "7 (a (b) c) S".to_owned();
        stat.push_str(&" 0".repeat(18));
        stat.push_str(" 250 0\n");
        let files = ProcFiles {
            status: "Name:\tx\nVmSize:\t    2000 kB\nVmRSS:\t    1000 kB\n".to_owned(),
            limits: "Max address space         unlimited            unlimited            bytes\n\
                     Max open files            1024                 524288               files\n"
                .to_owned(),
            stat,
            system: "cpu 1 2 3\nbtime 1700000000\n".to_owned(),
        };
        assert_eq!(files.kilobytes("VmRSS:"), Some(1_024_000));
        assert_eq!(files.limit("Max open files"), Some(1024));
        assert_eq!(files.limit("Max address space"), Some(u64::MAX));
        assert_eq!(files.started(), Some(Duration::from_millis(1_700_000_002_500)));
        assert_eq!(ProcFiles::default().started(), None);
    }

    #[test]
    fn this_process_takes_something() {
        let names: Vec<_> = metrics().into_iter().map(|one| one.name).collect();
        assert!(names.iter().any(|name| name == "process_cpu_seconds_total"), "{names:?}");
        #[cfg(target_os = "linux")]
        assert_eq!(names.len(), 7, "{names:?}");
    }
}
