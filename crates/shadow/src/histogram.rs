//! Counts of values by size, in bounded memory.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// A value is kept to its first 6 binary digits: 1.6 % at most is lost.
const DIGITS: u32 = 6;

/// Counts of values by size. It takes the same memory however many values there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: BTreeMap<u64, u64>,
    n: u64,
    max: u64,
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        let lost = (u64::BITS - value.leading_zeros()).saturating_sub(DIGITS);
        *self.counts.entry((value >> lost) << lost).or_default() += 1;
        self.n += 1;
        self.max = self.max.max(value);
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.n
    }

    /// The value that `percent` of all do not exceed, rounded down to what is kept; 0 if there are none.
    pub fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.n * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (&value, &n) in &self.counts {
            seen += n;
            if wanted <= seen {
                return value;
            }
        }
        self.max
    }

    /// The greatest value.
    pub fn max(&self) -> u64 {
        self.max
    }
}

/// Percentiles of durations, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Durations {
    /// How many there are.
    pub count: u64,
    /// The median.
    pub p50_seconds: f64,
    /// The 90th percentile.
    pub p90_seconds: f64,
    /// The 99th percentile.
    pub p99_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
}

impl Durations {
    /// The percentiles of a histogram of milliseconds.
    pub(crate) fn of(histogram: &Histogram) -> Self {
        let seconds = |millis| Duration::from_millis(millis).as_secs_f64();
        Durations {
            count: histogram.count(),
            p50_seconds: seconds(histogram.percentile(50)),
            p90_seconds: seconds(histogram.percentile(90)),
            p99_seconds: seconds(histogram.percentile(99)),
            max_seconds: seconds(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile(50), histogram.max()), (0, 0));
        (1..=100).for_each(|value| histogram.add(value));
        assert_eq!((histogram.percentile(50), histogram.percentile(1)), (50, 1));
        // Above 64 every second value is kept.
        assert_eq!((histogram.percentile(99), histogram.max()), (98, 100));
        histogram.add(1_000_000);
        assert_eq!((histogram.count(), histogram.max()), (101, 1_000_000));
    }

    #[test]
    fn memory_is_bounded() {
        let mut histogram = Histogram::default();
        (0..1_000_000).for_each(|value| histogram.add(value * value));
        assert!(histogram.counts.len() < 64 * 32, "{}", histogram.counts.len());
    }
}
