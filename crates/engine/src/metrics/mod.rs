//! Metrics as plain values. Names, labels and buckets are those of kube-scheduler.
//!
//! Counting increments a number at a fixed index. Durations are measured only if there is a
//! [`Stopwatch`] ([`Options::stopwatch`](crate::Options::stopwatch)): the engine itself reads no clock,
//! and measurements do not influence decisions. Gauges are computed only when
//! [`Scheduler::metrics`](crate::Scheduler::metrics) is called.
//!
//! Each attempt observes the extension points that it went through. In a decision from memory
//! ([`Engine::Fast`](crate::Engine::Fast)) each remembered part counts as the extension point that it
//! replaces, see `Phases`. Plugins are measured in one decision of ten, see `Sampled`.
//! `plimsoll_decisions_total` counts the decisions of each kind.

mod counts;
mod event_label;
mod family;
mod groups;
mod histogram;
mod inventory;
mod meter;
mod of_plugins;
mod phases;
mod queue_counts;
mod sampled;
mod snapshot;

use std::time::Duration;

pub(crate) use counts::{AttemptResult, BoundPod, GroupAttemptResult, SchedulerCounters};
pub(crate) use event_label::EventLabel;
pub use family::{Family, MetricSeries, Value};
pub(crate) use groups::{GroupPreemptionResult, Preemptor, ReservationEnd};
pub use histogram::Histogram;
pub use inventory::inventory;
pub(crate) use meter::{CycleMeter, Lap, MeteredPoint, Status};
pub(crate) use of_plugins::PluginMetrics;
pub(crate) use phases::{Phases, Went, went};
pub use plimsoll_framework::metrics::{Buckets, Descriptor, MetricType, Stability};
pub(crate) use queue_counts::{Hints, QueueCounts, QueueName};
pub(crate) use sampled::Sampled;

/// Reads a monotonic clock: the time since some fixed moment. It is only for measurements.
pub type Stopwatch = fn() -> Duration;
