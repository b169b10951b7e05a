//! The metrics of plugins.

use std::collections::BTreeMap;

use plimsoll_api::Str;
use plimsoll_framework::metrics::{Descriptor, Measurement, MetricChange, MetricType};

use super::family::{Family, MetricSeries, Value};
use super::histogram::Histogram;

/// The most combinations of label values of one metric. Further ones are counted together, under [`OVERFLOW`]: a label
/// with a value for each pod would take more and more memory here and in Prometheus. The limit is that of
/// OpenTelemetry.
const MOST_SERIES: usize = 2000;

/// The value of all labels beyond [`MOST_SERIES`].
const OVERFLOW: Str = Str::const_new("overflow");

/// The metrics of plugins, with their values.
#[derive(Debug, Default)]
pub(crate) struct PluginMetrics(
    BTreeMap<&'static str, (&'static Descriptor, BTreeMap<Vec<Str>, Value>)>,
);

impl PluginMetrics {
    /// No values yet, but those that a metric without labels begins with.
    pub(crate) fn new(metrics: impl IntoIterator<Item = &'static Descriptor>) -> Self {
        let mut all = PluginMetrics::default();
        all.0.extend(metrics.into_iter().map(|metric| (metric.name, (metric, BTreeMap::new()))));
        all.reset();
        all
    }

    /// Adds metrics of further plugins. Those that are there already keep their values.
    pub(crate) fn add(&mut self, metrics: impl IntoIterator<Item = &'static Descriptor>) {
        for metric in metrics {
            self.0.entry(metric.name).or_insert_with(|| {
                let mut series = BTreeMap::new();
                if metric.labels.is_empty() {
                    series.insert(Vec::new(), nothing(metric));
                }
                (metric, series)
            });
        }
    }

    /// Back to the values of the beginning.
    pub(crate) fn reset(&mut self) {
        for (metric, series) in self.0.values_mut() {
            series.clear();
            if metric.labels.is_empty() {
                series.insert(Vec::new(), nothing(metric));
            }
        }
    }

    /// Records measurements.
    ///
    /// # Panics
    /// Debug builds: if the plugin does not list the metric in its entry. It is not counted then.
    pub(crate) fn record(&mut self, measured: Vec<Measurement>) {
        for Measurement { metric, mut labels, change } in measured {
            let known = self.0.get_mut(metric.name).filter(|(known, _)| *known == metric);
            debug_assert!(
                known.is_some(),
                "{}: list it in the entry (`Builder::metric`)",
                metric.name
            );
            let Some((_, series)) = known else { continue };
            if MOST_SERIES <= series.len() && !series.contains_key(&labels) {
                labels.fill(OVERFLOW);
            }
            let value = series.entry(labels).or_insert_with(|| nothing(metric));
            match (value, change) {
                (Value::Number(number), MetricChange::Add(by)) => {
                    *number = number.saturating_add(by);
                }
                (Value::Float(number), MetricChange::Set(to)) => *number = to,
                (Value::Histogram(all), MetricChange::Observe(value)) => all.observe(value),
                _ => debug_assert!(false, "the types of metrics match their changes"),
            }
        }
    }

    /// All of them that have values.
    pub(crate) fn families(&self) -> impl Iterator<Item = Family> {
        self.0.values().filter(|(_, series)| !series.is_empty()).map(|(descriptor, series)| {
            let series = series.iter();
            let series = series.map(|(labels, value)| MetricSeries {
                labels: labels.clone(),
                value: value.clone(),
            });
            Family { descriptor, series: series.collect() }
        })
    }
}

/// The value that a metric begins with.
fn nothing(metric: &Descriptor) -> Value {
    match metric.metric_type {
        MetricType::Counter => Value::Number(0),
        MetricType::Gauge => Value::Float(0.0),
        MetricType::Histogram(buckets) => Value::Histogram(Histogram::new(buckets)),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::metrics::{Counter, Metrics};

    use super::*;

    static BY_POD: Counter<1> = Counter::new("pods_seen_total", &["pod"], "Pods.");

    #[test]
    fn a_label_with_too_many_values_ends_in_one_for_the_rest() {
        let mut all = PluginMetrics::new([BY_POD.as_ref()]);
        assert_eq!(all.families().count(), 0);
        let mut measured = Vec::new();
        for pod in 0..MOST_SERIES + 7 {
            Metrics::new(&mut measured).add(&BY_POD, [&format!("p{pod}")], 1);
        }
        Metrics::new(&mut measured).add(&BY_POD, ["p0"], 1);
        all.record(measured);
        let family = all.families().next().expect("it has values");
        let value = |label: &str| {
            let one = family.series.iter().find(|one| one.labels == [Str::from(label)]);
            one.map(|one| one.value.clone())
        };
        assert_eq!(family.series.len(), MOST_SERIES + 1);
        assert_eq!(
            (value("overflow"), value("p0")),
            (Some(Value::Number(7)), Some(Value::Number(2)))
        );
        all.reset();
        assert_eq!(all.families().count(), 0);
    }
}
