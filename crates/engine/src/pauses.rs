//! Pods for which something is not tried again for a while, since a write has failed: longer after each failure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_api::PodKey;
use plimsoll_framework::Time;

use crate::queue::Backoff;

/// How long a pause is: 10 s after the first failure, which outlasts a short disturbance of the API server, and twice as long
/// after each further one. At most 5 min, which is also how long a pod waits in the queue before the flush.
const SPAN: Backoff = Backoff { initial: Duration::from_secs(10), max: Duration::from_mins(5) };

/// At most this many pods are remembered; beyond that, the one whose pause ends first is dropped.
/// Each takes a few hundred bytes, and there are never this many failures in five minutes.
const MOST: usize = 1 << 12;

/// The pauses of pods.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    by_pod: BTreeMap<PodKey, Pause>,
    /// The pauses that are not over, by their ends.
    ends: BTreeSet<(Time, PodKey)>,
}

#[derive(Debug)]
struct Pause {
    /// How often it has failed.
    times: u32,
    until: Time,
}

impl Pauses {
    /// Begins a pause, because something has failed for `pod`. Returns another pod if it had to be dropped.
    pub(crate) fn begin(&mut self, now: Time, pod: PodKey) -> Option<PodKey> {
        let times = self.forget(&pod).unwrap_or(0).saturating_add(1);
        let dropped = (MOST <= self.by_pod.len()).then(|| self.first()).flatten();
        if let Some(other) = &dropped {
            self.forget(other);
        }
        let until = now + SPAN.span(times);
        self.ends.insert((until, pod.clone()));
        self.by_pod.insert(pod, Pause { times, until });
        dropped
    }

    /// Forgets a pod: it is gone, or has succeeded. Returns how often it had failed, if it had.
    pub(crate) fn forget(&mut self, pod: &PodKey) -> Option<u32> {
        let Pause { times, until } = self.by_pod.remove(pod)?;
        self.ends.remove(&(until, pod.clone()));
        Some(times)
    }

    /// The pods whose pauses have ended since the last call. How often they have failed is still known.
    pub(crate) fn over(&mut self, now: Time) -> Vec<PodKey> {
        let mut over = Vec::new();
        while self.next_end().is_some_and(|until| until <= now) {
            let Some((_, pod)) = self.ends.pop_first() else { break };
            over.push(pod);
        }
        over
    }

    /// When the next pause ends.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// The pod whose pause ends, or has ended, first.
    fn first(&self) -> Option<PodKey> {
        let first = self.by_pod.iter().min_by_key(|(_, pause)| pause.until);
        first.map(|(pod, _)| pod.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> PodKey {
        PodKey::new("default", name)
    }

    #[test]
    fn a_pod_that_fails_again_and_again_is_left_alone_for_longer_up_to_a_limit() {
        let mut pauses = Pauses::default();
        let mut now = Time::ZERO;
        let mut spans = Vec::new();
        for _ in 0..7 {
            pauses.begin(now, pod("p"));
            let end = pauses.next_end().expect("it has just failed");
            assert!(pauses.over(end - Duration::from_millis(1)).is_empty());
            assert_eq!(pauses.over(end), [pod("p")]);
            spans.push(end.since(now).as_secs());
            now = end;
        }
        assert_eq!(spans, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(pauses.next_end(), None);
        assert_eq!(pauses.forget(&pod("p")), Some(7));
    }

    #[test]
    fn so_many_are_remembered_and_the_one_whose_pause_ends_first_is_dropped() {
        let mut pauses = Pauses::default();
        for i in 0..MOST {
            let now = Time::from_millis(i64::try_from(i).expect("there are few"));
            assert_eq!(pauses.begin(now, pod(&i.to_string())), None);
        }
        let dropped = pauses.begin(Time::from_millis(99_999), pod("more"));
        assert_eq!(dropped, Some(pod("0")));
        assert_eq!((pauses.by_pod.len(), pauses.ends.len()), (MOST, MOST));
    }
}
