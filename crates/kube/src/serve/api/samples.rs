//! What the metrics were over the last hour, for charts.

use std::collections::VecDeque;
use std::time::Duration;

use plimsoll_engine::metrics::{Family, Histogram, Value};
use plimsoll_ui::{Chart, Line, Timeline};

/// How often a sample is taken. It costs the engine as much as a scrape of its metrics.
pub(in crate::serve) const INTERVAL: Duration = Duration::from_secs(5);

/// How many samples are kept: those of an hour.
const KEPT: usize = 720;

/// The queues in `scheduler_pending_pods`.
const QUEUES: [&str; 4] = ["active", "backoff", "unschedulable", "gated"];

/// The results in `scheduler_schedule_attempts_total`.
const RESULTS: [&str; 3] = ["scheduled", "unschedulable", "error"];

/// The last samples.
#[derive(Debug, Default)]
pub(in crate::serve) struct Samples {
    samples: VecDeque<Sample>,
    version: u64,
}

/// Some metrics at one moment.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    /// In milliseconds since 1970.
    at: i64,
    values: Values,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Values {
    pending: [u64; 4],
    attempts: [u64; 3],
    /// How long pods waited until they were scheduled: bounds in seconds, with the number of values up to them.
    waited: Vec<(f64, u64)>,
    /// How long attempts took.
    took: Vec<(f64, u64)>,
}

impl Samples {
    /// Adds the present metrics.
    pub(in crate::serve) fn add(&mut self, at: i64, families: &[Family]) {
        let values = Values::of(families);
        if self.samples.back().is_none_or(|last| last.values != values) {
            self.version += 1;
        }
        if KEPT <= self.samples.len() {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { at, values });
    }

    /// A number that changes when the metrics do.
    pub(in crate::serve) fn version(&self) -> u64 {
        self.version
    }

    /// The samples as charts. A rate needs two samples.
    pub(in crate::serve) fn timeline(&self) -> Timeline {
        let pairs = || self.samples.iter().zip(self.samples.iter().skip(1));
        let pending = QUEUES.iter().enumerate().map(|(at, queue)| Line {
            name: (*queue).to_owned(),
            values: pairs().map(|(_, now)| number(now.values.pending[at])).collect(),
        });
        let attempts = RESULTS.iter().enumerate().map(|(at, result)| Line {
            name: (*result).to_owned(),
            values: pairs().map(|(before, now)| rate(before, now, at)).collect(),
        });
        Timeline {
            at: pairs().map(|(_, now)| now.at).collect(),
            charts: vec![
                Chart { title: "Pending pods", unit: "", lines: pending.collect() },
                Chart { title: "Attempts", unit: "a second", lines: attempts.collect() },
                self.latencies("Time until a pod is scheduled", |values| &values.waited),
                self.latencies("Time of an attempt", |values| &values.took),
            ],
        }
    }

    fn latencies(&self, title: &'static str, of: fn(&Values) -> &Vec<(f64, u64)>) -> Chart {
        let pairs = || self.samples.iter().zip(self.samples.iter().skip(1));
        let line = |name: &str, share| Line {
            name: name.to_owned(),
            values: pairs()
                .map(|(before, now)| {
                    let seconds = quantile(of(&before.values), of(&now.values), share)?;
                    // More digits would say nothing.
                    Some((seconds * 100_000.0).round() / 100.0)
                })
                .collect(),
        };
        Chart { title, unit: "ms", lines: vec![line("half", 0.5), line("99%", 0.99)] }
    }
}

impl Values {
    fn of(families: &[Family]) -> Self {
        let mut values = Values::default();
        for Family { descriptor, series } in families {
            for one in series {
                let label = |name: &str| {
                    let at = descriptor.labels.iter().position(|label| *label == name)?;
                    one.labels.get(at).map(plimsoll_api::Str::as_str)
                };
                let count = match &one.value {
                    Value::Number(n) => *n,
                    Value::Float(_) | Value::Histogram(_) => 0,
                };
                match (descriptor.name, &one.value) {
                    ("scheduler_pending_pods", _) => {
                        // Pods whose group does not exist are held back, too.
                        let name = label("queue").map(|name| match name {
                            "incomplete" => "gated",
                            name => name,
                        });
                        let queue = QUEUES.iter().position(|queue| name == Some(queue));
                        if let Some(at) = queue {
                            values.pending[at] += count;
                        }
                    }
                    ("scheduler_schedule_attempts_total", _) => {
                        let result =
                            RESULTS.iter().position(|result| label("result") == Some(result));
                        if let Some(at) = result {
                            values.attempts[at] += count;
                        }
                    }
                    (
                        "scheduler_pod_scheduling_sli_duration_seconds",
                        Value::Histogram(histogram),
                    ) => add(&mut values.waited, histogram),
                    (
                        "scheduler_scheduling_attempt_duration_seconds",
                        Value::Histogram(histogram),
                    ) => add(&mut values.took, histogram),
                    _ => {}
                }
            }
        }
        values
    }
}

/// Adds the counts of a histogram to those of others with the same bounds.
fn add(sums: &mut Vec<(f64, u64)>, histogram: &Histogram) {
    for (at, (bound, count)) in histogram.cumulative().enumerate() {
        match sums.get_mut(at) {
            Some((_, sum)) => *sum += count,
            None => sums.push((bound, count)),
        }
    }
}

/// How many attempts with this result there were in a second. After a reset of the metrics there is no value.
fn rate(before: &Sample, now: &Sample, result: usize) -> Option<f64> {
    let attempts = now.values.attempts[result].checked_sub(before.values.attempts[result])?;
    let millis = number(u64::try_from(now.at - before.at).ok().filter(|millis| 0 < *millis)?)?;
    Some((number(attempts)? * 1000.0 / millis * 100.0).round() / 100.0)
}

/// A quantile of the values between two samples, as Prometheus computes it; `None` if there are no values.
fn quantile(before: &[(f64, u64)], now: &[(f64, u64)], share: f64) -> Option<f64> {
    let earlier = |at: usize| before.get(at).map_or(0, |(_, count)| *count);
    let counts = now
        .iter()
        .enumerate()
        .map(|(at, (bound, count))| Some((*bound, number(count.checked_sub(earlier(at))?)?)));
    let counts: Vec<(f64, f64)> = counts.collect::<Option<_>>()?;
    // Values above all bounds are left out: for them there is no estimate.
    let wanted = counts.last()?.1 * share;
    let at = counts.iter().position(|(_, count)| 0.0 < *count && wanted <= *count)?;
    let (low, below) = if at == 0 { (0.0, 0.0) } else { counts[at - 1] };
    let (high, count) = counts[at];
    Some(low + (high - low) * (wanted - below) / (count - below))
}

#[expect(
    clippy::cast_precision_loss,
    clippy::unnecessary_wraps,
    reason = "a chart shows three digits"
)]
fn number(n: u64) -> Option<f64> {
    Some(n as f64)
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::metrics::{MetricSeries, MetricType, inventory};
    use plimsoll_framework::Release;

    use super::*;

    fn families(pending: u64, scheduled: u64, waited: &[f64]) -> Vec<Family> {
        let family = |name: &str, labels: &[&str], value: &dyn Fn(MetricType) -> Value| {
            let found = inventory(Release::NEWEST).find(|known| known.name == name);
            let descriptor = found.expect("it is a metric");
            let labels = labels.iter().map(|label| (*label).into()).collect();
            let value = value(descriptor.metric_type);
            Family { descriptor, series: vec![MetricSeries { labels, value }] }
        };
        let histogram = |kind| match kind {
            MetricType::Histogram(buckets) => {
                let mut histogram = Histogram::new(buckets);
                for value in waited {
                    histogram.observe(*value);
                }
                Value::Histogram(histogram)
            }
            MetricType::Counter | MetricType::Gauge => Value::Number(0),
        };
        vec![
            family("scheduler_pending_pods", &["gated"], &|_| Value::Number(pending)),
            family("scheduler_schedule_attempts_total", &["scheduled", "p"], &|_| {
                Value::Number(scheduled)
            }),
            family("scheduler_pod_scheduling_sli_duration_seconds", &["1"], &histogram),
        ]
    }

    #[test]
    fn charts_show_what_happened_between_samples() {
        let mut samples = Samples::default();
        samples.add(1_000, &families(1, 10, &[0.015]));
        assert_eq!(samples.timeline().at, Vec::<i64>::new(), "a rate needs two samples");
        samples.add(6_000, &families(3, 60, &[0.015, 0.03, 0.03]));
        samples.add(11_000, &families(3, 60, &[0.015, 0.03, 0.03]));
        let timeline = samples.timeline();
        assert_eq!(timeline.at, [6_000, 11_000]);
        let line = |chart: usize, name: &str| {
            let mut lines = timeline.charts[chart].lines.iter();
            lines.find(|line| line.name == name).expect("it is drawn").values.clone()
        };
        assert_eq!(line(0, "gated"), [Some(3.0), Some(3.0)]);
        assert_eq!(line(1, "scheduled"), [Some(10.0), Some(0.0)]);
        // Both values are between 20 and 40 ms.
        assert_eq!(line(2, "half"), [Some(30.0), None]);
        assert_eq!(samples.version(), 2, "the last sample brought nothing new");
    }

    #[test]
    fn after_a_reset_there_is_no_rate() {
        let mut samples = Samples::default();
        samples.add(1_000, &families(1, 10, &[0.015]));
        samples.add(6_000, &families(1, 2, &[]));
        let timeline = samples.timeline();
        assert_eq!(timeline.charts[1].lines[0].values, [None]);
        assert_eq!(timeline.charts[2].lines[0].values, [None]);
    }

    #[test]
    fn an_hour_is_kept() {
        let mut samples = Samples::default();
        for at in 0..1000 {
            samples.add(at, &families(1, 1, &[]));
        }
        assert_eq!(samples.timeline().at.len(), KEPT - 1);
    }
}
