//! Metrics as values: what they are called, and what they say.

use plimsoll_api::Str;

use super::histogram::{Buckets, Histogram};

/// What a metric is called and means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descriptor {
    /// Its name, with prefix and unit.
    pub name: &'static str,
    /// What it says, in kube-scheduler's words.
    pub help: &'static str,
    /// How far its users may trust that it stays as it is.
    pub stability: Stability,
    /// What it counts.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Something that only grows.
    Counter,
    /// Something that is so now.
    Gauge,
    /// How often something was how large.
    Histogram(Buckets),
}

/// How far users may trust that a metric stays as it is, as Kubernetes says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// It may change or go at any time.
    Alpha,
    /// Its labels may grow.
    Beta,
    /// It stays.
    Stable,
}

impl Stability {
    /// The word that stands before the help text, such as `STABLE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Stability::Alpha => "ALPHA",
            Stability::Beta => "BETA",
            Stability::Stable => "STABLE",
        }
    }
}

/// A metric with all that it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// What it is.
    pub descriptor: &'static Descriptor,
    /// What it says, one for each combination of label values; in no particular order.
    pub series: Vec<Series>,
}

/// What a metric says for one combination of label values.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The values of the labels, in the order of [`Descriptor::labels`].
    pub labels: Vec<Str>,
    /// What it says.
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
