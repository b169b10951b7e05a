//! How pods end: they terminate when they are deleted, and complete when their work is done.

use std::time::Duration;

use plimsoll_api::{Pod, PodPhase, Timestamp};
use plimsoll_engine::Event;
use plimsoll_framework::Time;

/// How pods end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// How long a preempted pod takes to terminate.
    pub grace: Duration,
    /// How long a pod runs on its node until it completes; `None` if it never does.
    pub completion_after: Option<Duration>,
    /// Whether controllers make the pods again that are deleted on their nodes.
    pub recreates: bool,
}

/// How long after the deletion of a node its pods are deleted. As in gc_controller.go, quarantineTime.
pub(crate) const ORPHANS_AFTER: Duration = Duration::from_secs(40);

/// A time in the form of objects; `None` if it is out of their range.
pub(crate) fn timestamp(at: Time) -> Option<Timestamp> {
    Timestamp::from_millisecond(at.millis()).ok()
}

/// A start time for a pod: later than those of all others, of which `last` is the latest, and not before `now`. Preemption
/// evicts of equally important pods those that were started last, so that no two are equal.
pub(crate) fn started_after(last: Option<Timestamp>, now: Time) -> Option<Timestamp> {
    let latest = last.max(timestamp(now))?;
    Timestamp::from_nanosecond(latest.as_nanosecond() + 1).ok()
}

/// The event for a completed pod.
pub(crate) fn completed(pod: &Pod) -> Event {
    Event::pod(Pod { phase: PodPhase::Ended, ..pod.clone() })
}
