//! PrioritySort: the order of the queue.

use plimsoll_framework::prelude::*;

/// Sorts pods by descending priority, and pods of equal priority by their waiting time.
///
/// Important pods must not wait behind less important ones: if there is room for one pod, a pod of
/// priority 1000 gets it before one of priority 0 that was created an hour earlier.
#[derive(Clone, Copy, Debug)]
pub struct PrioritySort;

impl Plugin for PrioritySort {
    const NAME: &'static str = "PrioritySort";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        PrioritySort
    }
}

impl QueueSort for PrioritySort {
    type Key = (i64, i64);
    fn key(&self, queued: &QueuedPod<'_>) -> (i64, i64) {
        (-i64::from(queued.pod.priority), queued.queued.millis())
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<PrioritySort>().queue_sort().done()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(priority: i32, queued: i64) -> (i64, i64) {
        let pod = PodInfo::new(PodTemplate { priority, ..PodTemplate::default() });
        let queued = Time::from_millis(queued);
        PrioritySort.key(&QueuedPod { pod: &pod, queued, first_ready: queued })
    }

    #[test]
    fn a_higher_priority_goes_before_an_earlier_arrival() {
        assert!(key(10, 500) < key(9, 0));
        assert!(key(0, 500) < key(i32::MIN, 0));
    }

    #[test]
    fn of_equal_priorities_the_earlier_arrival_goes_first() {
        assert!(key(7, 1) < key(7, 2));
        assert_eq!(key(7, 1), key(7, 1));
    }
}
