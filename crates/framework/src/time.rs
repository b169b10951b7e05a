//! Time as an argument: the framework, the plugins and the engine never read a clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// 1970-01-01T00:00:00Z.
    pub const ZERO: Time = Time(0);

    /// The time `ms` milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_millis(ms: i64) -> Self {
        Time(ms)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// The time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// Seconds with three digits.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.0.div_euclid(1000), self.0.rem_euclid(1000))
    }
}

/// A span as Go prints it: `1m30s`, `500ms`, `0s`. Fractions of a millisecond are dropped.
pub fn go_duration(span: Duration) -> String {
    let ms = span.as_millis();
    if ms < 1000 {
        return if ms == 0 { "0s".to_owned() } else { format!("{ms}ms") };
    }
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    let seconds = match (ms / 1000 % 60, ms % 1000) {
        (whole, 0) => format!("{whole}s"),
        (whole, rest) => format!("{whole}.{}s", format!("{rest:03}").trim_end_matches('0')),
    };
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes}m{seconds}"),
        _ => format!("{hours}h{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_go_prints_them() {
        for (ms, text) in [
            (0, "0s"),
            (500, "500ms"),
            (1_500, "1.5s"),
            (60_000, "1m0s"),
            (90_050, "1m30.05s"),
            (3_600_000, "1h0m0s"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(ms)), text);
        }
    }
}
