//! Pods that could not be evicted. They are not chosen as victims again for a while. Otherwise, if the
//! scheduler may not delete a pod, it would try many times a second, forever.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_api::PodKey;
use plimsoll_framework::Time;

use crate::queue::Backoff;

/// How long such a pod is not chosen: 10 s after the first failure, which outlasts a short disturbance
/// of the API server, and twice as long after each further one. At most 5 min, which is also how long a
/// pod waits in the queue before the flush.
const SPAN: Backoff = Backoff { initial: Duration::from_secs(10), max: Duration::from_mins(5) };

/// At most this many pods are remembered; beyond that, the one that may be chosen first is dropped.
/// Each takes a few hundred bytes, and there are never this many failed evictions in five minutes.
const MOST: usize = 1 << 12;

/// A pod that could not be evicted.
#[derive(Debug)]
struct FailedEviction {
    /// How often its eviction has failed.
    times: u32,
    until: Time,
    /// The preemptor.
    preemptor: PodKey,
}

/// The pods that could not be evicted, until they are deleted.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    by_victim: BTreeMap<PodKey, FailedEviction>,
    /// Those that must not be chosen yet, by the time when they may be.
    ends: BTreeSet<(Time, PodKey)>,
}

impl Refusals {
    /// Records that the eviction of `victim` for `preemptor` has failed. Returns another pod if it had
    /// to be dropped.
    pub(crate) fn add(&mut self, now: Time, victim: PodKey, preemptor: PodKey) -> Option<PodKey> {
        let times = self.remove(&victim).unwrap_or(0).saturating_add(1);
        let forgotten = (MOST <= self.by_victim.len()).then(|| self.first()).flatten();
        if let Some(other) = &forgotten {
            self.remove(other);
        }
        let until = now + SPAN.span(times);
        self.ends.insert((until, victim.clone()));
        self.by_victim.insert(victim, FailedEviction { times, until, preemptor });
        forgotten
    }

    /// Removes a pod that was deleted or evicted. Returns how often its eviction had failed, if it had.
    pub(crate) fn remove(&mut self, victim: &PodKey) -> Option<u32> {
        let FailedEviction { times, until, .. } = self.by_victim.remove(victim)?;
        self.ends.remove(&(until, victim.clone()));
        Some(times)
    }

    /// Removes the pods that may be chosen again, and returns them with their preemptors.
    pub(crate) fn over(&mut self, now: Time) -> Vec<(PodKey, PodKey)> {
        let mut over = Vec::new();
        while self.next_end().is_some_and(|until| until <= now) {
            let Some((_, victim)) = self.ends.pop_first() else { break };
            let preemptor = self.by_victim[&victim].preemptor.clone();
            over.push((victim, preemptor));
        }
        over
    }

    /// When the next pod may be chosen again.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// The pod that may be chosen first.
    fn first(&self) -> Option<PodKey> {
        let may_be = self.by_victim.iter().min_by_key(|(_, refusal)| refusal.until);
        may_be.map(|(victim, _)| victim.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> PodKey {
        PodKey::new("default", name)
    }

    #[test]
    fn a_pod_that_is_refused_again_and_again_is_left_alone_for_longer_up_to_a_limit() {
        let mut refusals = Refusals::default();
        let mut now = Time::ZERO;
        let mut spans = Vec::new();
        for _ in 0..7 {
            refusals.add(now, pod("victim"), pod("high"));
            let end = refusals.next_end().expect("it was just refused");
            assert!(refusals.over(end - Duration::from_millis(1)).is_empty());
            assert_eq!(refusals.over(end), [(pod("victim"), pod("high"))]);
            spans.push(end.since(now).as_secs());
            now = end;
        }
        assert_eq!(spans, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(refusals.next_end(), None);
        assert_eq!(refusals.remove(&pod("victim")), Some(7));
    }

    #[test]
    fn so_many_are_remembered_and_the_one_that_may_be_chosen_first_is_forgotten() {
        let mut refusals = Refusals::default();
        for i in 0..MOST {
            let now = Time::from_millis(i64::try_from(i).expect("there are few"));
            assert_eq!(refusals.add(now, pod(&i.to_string()), pod("high")), None);
        }
        let forgotten = refusals.add(Time::from_millis(99_999), pod("more"), pod("high"));
        assert_eq!(forgotten, Some(pod("0")));
        assert_eq!((refusals.by_victim.len(), refusals.ends.len()), (MOST, MOST));
    }
}
