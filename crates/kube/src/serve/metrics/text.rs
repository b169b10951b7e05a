//! The text format 0.0.4 of Prometheus, byte for byte as client_golang prints it.

use std::fmt::Write as _;

use plimsoll_engine::metrics::{self, Family, MetricSeries, Stability, Value};
use prometheus::proto::{MetricFamily, MetricType};

use super::go_float::go_float;

/// The `Content-SampleType` of the text.
pub(super) const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampleType {
    Counter,
    Gauge,
    Histogram,
    Summary,
    Untyped,
}

impl SampleType {
    fn as_str(self) -> &'static str {
        match self {
            SampleType::Counter => "counter",
            SampleType::Gauge => "gauge",
            SampleType::Histogram => "histogram",
            SampleType::Summary => "summary",
            SampleType::Untyped => "untyped",
        }
    }
}

/// One metric for printing, from any source.
#[derive(Clone, Debug)]
pub(super) struct Printed {
    pub(super) name: String,
    help: String,
    kind: SampleType,
    /// Each with its labels, sorted by name.
    rows: Vec<(Vec<(String, String)>, SampleValue)>,
}

/// The value of one row.
#[derive(Clone, Debug)]
enum SampleValue {
    One(f64),
    /// Upper bounds or quantiles with their values, sum and count.
    Many(Vec<(f64, f64)>, f64, u64),
}

impl Printed {
    /// A metric with a stability level, with which its help text begins, as component-base prints it.
    pub(super) fn new(name: &str, stability: Stability, help: &str, kind: SampleType) -> Self {
        let help = format!("[{}] {help}", stability.as_str());
        Printed { name: name.to_owned(), help, kind, rows: Vec::new() }
    }

    /// A metric without a stability level.
    pub(super) fn plain(name: &str, help: &str, kind: SampleType) -> Self {
        Printed { name: name.to_owned(), help: help.to_owned(), kind, rows: Vec::new() }
    }

    /// Adds a number.
    pub(super) fn with(mut self, labels: &[(&str, &str)], value: f64) -> Self {
        self.push(labels, value);
        self
    }

    /// Adds a number.
    pub(super) fn push(&mut self, labels: &[(&str, &str)], value: f64) {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        self.row(labels.iter().map(owned).collect(), SampleValue::One(value));
    }

    fn row(&mut self, mut labels: Vec<(String, String)>, number: SampleValue) {
        labels.sort();
        self.rows.push((labels, number));
    }
}

impl From<&Family> for Printed {
    fn from(family: &Family) -> Self {
        let descriptor = family.descriptor;
        let sample_type = match descriptor.metric_type {
            metrics::MetricType::Counter => SampleType::Counter,
            metrics::MetricType::Gauge => SampleType::Gauge,
            metrics::MetricType::Histogram(_) => SampleType::Histogram,
        };
        let mut printed =
            Printed::new(descriptor.name, descriptor.stability, descriptor.help, sample_type);
        for MetricSeries { labels, value } in &family.series {
            let names = descriptor.labels.iter().map(|&name| name.to_owned());
            let labels = names.zip(labels.iter().map(ToString::to_string)).collect();
            let number = match value {
                Value::Number(number) => SampleValue::One(as_f64(*number)),
                Value::Float(number) => SampleValue::One(*number),
                Value::Histogram(all) => {
                    let buckets = all.cumulative().map(|(bound, count)| (bound, as_f64(count)));
                    SampleValue::Many(buckets.collect(), all.sum(), all.count())
                }
            };
            printed.row(labels, number);
        }
        printed
    }
}

impl From<&MetricFamily> for Printed {
    fn from(family: &MetricFamily) -> Self {
        let kind = match family.get_field_type() {
            MetricType::COUNTER => SampleType::Counter,
            MetricType::GAUGE => SampleType::Gauge,
            MetricType::HISTOGRAM => SampleType::Histogram,
            MetricType::SUMMARY => SampleType::Summary,
            MetricType::UNTYPED => SampleType::Untyped,
        };
        let mut printed = Printed::plain(family.name(), family.help(), kind);
        for metric in family.get_metric() {
            let pairs = metric.get_label().iter();
            let labels = pairs.map(|pair| (pair.name().to_owned(), pair.value().to_owned()));
            let number = match kind {
                SampleType::Counter => SampleValue::One(metric.get_counter().get_value()),
                SampleType::Gauge | SampleType::Untyped => {
                    SampleValue::One(metric.get_gauge().get_value())
                }
                SampleType::Histogram => {
                    let all = metric.get_histogram();
                    let finite =
                        all.get_bucket().iter().filter(|one| one.upper_bound().is_finite());
                    let bucket =
                        finite.map(|one| (one.upper_bound(), as_f64(one.cumulative_count())));
                    let (sum, count) = (all.get_sample_sum(), all.get_sample_count());
                    SampleValue::Many(bucket.collect(), sum, count)
                }
                SampleType::Summary => {
                    let all = metric.get_summary();
                    let quantiles = all.get_quantile().iter();
                    let quantiles = quantiles.map(|one| (one.quantile(), one.value())).collect();
                    SampleValue::Many(quantiles, all.sample_sum(), all.sample_count())
                }
            };
            printed.row(labels.collect(), number);
        }
        printed
    }
}

/// Prints metrics sorted by name, and their rows sorted by labels. A metric without rows is left out.
pub(super) fn print(mut all: Vec<Printed>) -> String {
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let mut text = String::new();
    for mut one in all {
        if one.rows.is_empty() {
            continue;
        }
        one.rows.sort_by(|(a, _), (b, _)| a.cmp(b));
        head(&mut text, &one.name, &one.help, one.kind);
        for (labels, number) in &one.rows {
            row(&mut text, &one, labels, number);
        }
    }
    text
}

/// The lines with help and type of a metric.
pub(super) fn head(text: &mut String, name: &str, help: &str, kind: SampleType) {
    let help = help.replace('\\', r"\\").replace('\n', r"\n");
    let help = if help.is_empty() { String::new() } else { format!("# HELP {name} {help}\n") };
    text.push_str(&help);
    writeln!(text, "# TYPE {name} {}", kind.as_str()).expect("a text takes everything");
}

fn row(text: &mut String, one: &Printed, labels: &[(String, String)], number: &SampleValue) {
    let name = &one.name;
    match number {
        SampleValue::One(value) => line(text, name, labels, None, *value),
        SampleValue::Many(parts, sum, count) => {
            let (suffix, label) = match one.kind {
                SampleType::Summary => ("", "quantile"),
                _ => ("_bucket", "le"),
            };
            let part = format!("{name}{suffix}");
            for (bound, value) in parts {
                line(text, &part, labels, Some((label, *bound)), *value);
            }
            if one.kind == SampleType::Histogram {
                line(text, &part, labels, Some((label, f64::INFINITY)), as_f64(*count));
            }
            line(text, &format!("{name}_sum"), labels, None, *sum);
            line(text, &format!("{name}_count"), labels, None, as_f64(*count));
        }
    }
}

/// One line: a name, labels and a number.
pub(super) fn line(
    text: &mut String,
    name: &str,
    labels: &[(String, String)],
    bound: Option<(&str, f64)>,
    value: f64,
) {
    text.push_str(name);
    let bound = bound.map(|(label, bound)| (label, go_float(bound)));
    let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let labels = labels.chain(bound.as_ref().map(|(label, bound)| (*label, bound.as_str())));
    let mut separator = '{';
    for (label, value) in labels {
        text.push(separator);
        text.push_str(label);
        text.push_str("=\"");
        escape(text, value);
        text.push('"');
        separator = ',';
    }
    if separator == ',' {
        text.push('}');
    }
    text.push(' ');
    text.push_str(&go_float(value));
    text.push('\n');
}

fn escape(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str(r"\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str(r"\n"),
            _ => text.push(c),
        }
    }
}

/// A count as a float, as in the format.
#[expect(clippy::cast_precision_loss, reason = "the format knows no other numbers than floats")]
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use prometheus::core::Collector;
    use prometheus::{HistogramOpts, HistogramVec, IntCounter};

    use super::*;

    #[test]
    fn metrics_are_printed_by_name_and_labels_with_what_they_mean() {
        let one =
            Printed::new("b_total", Stability::Stable, "Says \\ much.\nMore.", SampleType::Counter)
                .with(&[("z", "1"), ("a", "say \"x\"\n\\")], 3.0)
                .with(&[("z", "0"), ("a", "b")], 1_000_000.0);
        let other = Printed::plain("a_bytes", "", SampleType::Gauge).with(&[], 0.5);
        let nothing = Printed::plain("c", "nothing", SampleType::Gauge);
        expect![[r#"
            # TYPE a_bytes gauge
            a_bytes 0.5
            # HELP b_total [STABLE] Says \\ much.\nMore.
            # TYPE b_total counter
            b_total{a="b",z="0"} 1e+06
            b_total{a="say \"x\"\n\\",z="1"} 3
        "#]]
        .assert_eq(&print(vec![one, nothing, other]));
    }

    #[test]
    fn registries_of_others_are_printed_alike() {
        let options =
            HistogramOpts::new("took_seconds", "[ALPHA] How long.").buckets(vec![1e-5, 1.0]);
        let took = HistogramVec::new(options, &["verb"]).expect("the options are right");
        took.with_label_values(&["GET"]).observe(0.5);
        let calls = IntCounter::new("calls_total", "Calls").expect("the name is right");
        calls.inc_by(2);
        let families: Vec<_> = took.collect().into_iter().chain(calls.collect()).collect();
        expect![[r#"
            # HELP calls_total Calls
            # TYPE calls_total counter
            calls_total 2
            # HELP took_seconds [ALPHA] How long.
            # TYPE took_seconds histogram
            took_seconds_bucket{verb="GET",le="1e-05"} 0
            took_seconds_bucket{verb="GET",le="1"} 1
            took_seconds_bucket{verb="GET",le="+Inf"} 1
            took_seconds_sum{verb="GET"} 0.5
            took_seconds_count{verb="GET"} 1
        "#]]
        .assert_eq(&print(families.iter().map(Printed::from).collect()));
    }
}
