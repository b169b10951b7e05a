//! How pods end: they terminate when they are told to go, and complete when their work is done.

use std::time::Duration;

use plimsoll_api::{Pod, PodPhase, Timestamp};
use plimsoll_engine::Event;
use plimsoll_framework::Time;

/// How pods end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// How long a pod takes to terminate that a preemption evicts.
    pub grace: Duration,
    /// How long a pod works on its node until it has completed; `None` if it never does.
    pub completion_after: Option<Duration>,
}

/// How long after a node is gone its pods are taken away. As in gc_controller.go, quarantineTime.
pub(crate) const ORPHANS_AFTER: Duration = Duration::from_secs(40);

/// A time as objects say it; `None` for one that they cannot say.
pub(crate) fn timestamp(at: Time) -> Option<Timestamp> {
    Timestamp::from_millisecond(at.millis()).ok()
}

/// What is seen of a pod that has completed.
pub(crate) fn completed(pod: &Pod) -> Event {
    Event::pod(Pod { phase: PodPhase::Ended, ..pod.clone() })
}
