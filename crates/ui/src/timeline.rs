//! Values over time.

use serde::Serialize;

/// Values over time, for charts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// The times, in milliseconds since 1970, ascending.
    pub at: Vec<i64>,
    /// The charts. Each line has one value for each time.
    pub charts: Vec<Chart>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// What it shows.
    pub title: &'static str,
    /// The unit of its values; empty for numbers.
    pub unit: &'static str,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// A value for each time; `None` where there is none.
    pub values: Vec<Option<f64>>,
}
