//! Metrics as values: descriptors and series.

use plimsoll_api::Str;

use super::histogram::{Buckets, Histogram};

/// The description of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descriptor {
    /// Its name, with prefix and unit.
    pub name: &'static str,
    /// The help text of kube-scheduler.
    pub help: &'static str,
    /// Its stability level.
    pub stability: Stability,
    /// Its type.
    pub kind: FamilyType,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FamilyType {
    /// A value that only grows.
    Counter,
    /// A current value.
    Gauge,
    /// A distribution of values.
    Histogram(Buckets),
}

/// The stability levels of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// It may change or be removed at any time.
    Alpha,
    /// Labels may be added.
    Beta,
    /// It does not change.
    Stable,
}

impl Stability {
    /// The word before the help text, such as `STABLE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Stability::Alpha => "ALPHA",
            Stability::Beta => "BETA",
            Stability::Stable => "STABLE",
        }
    }
}

/// A metric with all its series.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its description.
    pub descriptor: &'static Descriptor,
    /// One series for each combination of label values, in no particular order.
    pub series: Vec<MetricSeries>,
}

/// The value of a metric for one combination of label values.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSeries {
    /// The values of the labels, in the order of [`Descriptor::labels`].
    pub labels: Vec<Str>,
    /// Its value.
    pub value: Value,
}

/// A value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or gauge.
    Number(u64),
    /// Of a histogram.
    Histogram(Histogram),
}
