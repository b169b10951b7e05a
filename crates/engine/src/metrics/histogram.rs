//! Histograms as values.

use std::time::Duration;

use plimsoll_framework::metrics::Buckets;

/// A histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: Box<[f64]>,
    /// One more than bounds: the last one counts values above all bounds.
    counts: Box<[u64]>,
    sum: f64,
}

impl Histogram {
    /// An empty histogram.
    pub fn new(buckets: Buckets) -> Self {
        let bounds: Box<[f64]> = buckets.bounds().collect();
        Histogram { counts: vec![0; bounds.len() + 1].into(), bounds, sum: 0.0 }
    }

    /// Adds a value.
    pub fn observe(&mut self, value: f64) {
        self.observe_times(value, 1);
    }

    /// Adds a duration, in seconds.
    pub fn observe_span(&mut self, span: Duration) {
        self.observe(span.as_secs_f64());
    }

    /// Adds a value several times.
    pub fn observe_times(&mut self, value: f64, times: u32) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += u64::from(times);
        self.sum += value * f64::from(times);
    }

    /// Adds durations that do not exceed the first bound, by their number and sum.
    pub(super) fn add_to_first(&mut self, count: u64, sum: Duration) {
        self.counts[0] += count;
        self.sum += sum.as_secs_f64();
    }

    /// The bounds, ascending, each with the number of values that do not exceed it.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let sums = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        self.bounds.iter().copied().zip(sums)
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_for_every_bound_that_it_does_not_exceed() {
        let mut histogram = Histogram::new(Buckets { start: 1.0, factor: 2.0, count: 3 });
        for value in [0.5, 1.0, 3.0, 4.0, 5.0] {
            histogram.observe(value);
        }
        let cumulative: Vec<_> = histogram.cumulative().collect();
        assert_eq!(cumulative, [(1.0, 2), (2.0, 2), (4.0, 4)]);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum() - 13.5).abs() < 1e-9);
    }

    #[test]
    fn bounds_are_those_of_client_golang_to_the_last_digit() {
        let buckets = Buckets { start: 0.00001, factor: 1.5, count: 4 };
        let bounds: Vec<_> = buckets.bounds().collect();
        // The values of `le` in kube-scheduler.
        let printed =
            ["1e-5", "1.5000000000000002e-5", "2.2500000000000005e-5", "3.375000000000001e-5"];
        assert_eq!(bounds.iter().map(|bound| format!("{bound:e}")).collect::<Vec<_>>(), printed);
    }
}
