//! Metrics as values.

use plimsoll_api::Str;

use plimsoll_framework::metrics::Descriptor;

use super::histogram::Histogram;

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
    /// Of a gauge that need not be a whole number.
    Float(f64),
    /// Of a histogram.
    Histogram(Histogram),
}
