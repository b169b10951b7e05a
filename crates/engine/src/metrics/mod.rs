//! What is counted and measured, as plain values: names, labels and buckets are kube-scheduler's.
//!
//! Counting is an addition to a number in a fixed place. Durations are measured only where a
//! [`Stopwatch`] was given ([`Options::stopwatch`](crate::Options::stopwatch)): the engine reads no clock
//! by itself, and nothing that is measured changes a decision. Gauges cost nothing until somebody asks:
//! they are counted when [`Scheduler::metrics`](crate::Scheduler::metrics) is called.
//!
//! Each attempt observes the extension points that it went through. Where a decision is made from memory
//! ([`Engine::Fast`](crate::Engine::Fast)) what is remembered counts as the point that it stands for, see
//! `Phases`, and plugins are measured in one decision of ten, see `Sampled`: `plimsoll_decisions_total`
//! says how many decisions of each kind there were.

mod counts;
mod event_label;
mod family;
mod histogram;
mod inventory;
mod meter;
mod phases;
mod queue_counts;
mod sampled;
mod snapshot;

use std::time::Duration;

pub(crate) use counts::{Bound, Counts, Outcome};
pub(crate) use event_label::EventLabel;
pub use family::{Descriptor, Family, Kind, Series, Stability, Value};
pub use histogram::{Buckets, Histogram};
pub use inventory::inventory;
pub(crate) use meter::{Lap, Meter, MeteredPoint, Status};
pub(crate) use phases::{Phases, Went, went};
pub(crate) use queue_counts::{Hints, QueueCounts, QueueName};
pub(crate) use sampled::Sampled;

/// Reads a clock that never goes back: the span since some fixed moment. It measures, and decides
/// nothing.
pub type Stopwatch = fn() -> Duration;
