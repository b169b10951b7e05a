//! Pods that could not be evicted. They are not chosen as victims again for a while. Otherwise, if the
//! scheduler may not delete a pod, it would try many times a second, forever.

use std::collections::BTreeMap;

use plimsoll_api::PodKey;
use plimsoll_framework::Time;

use crate::pauses::Pauses;

/// The pods that could not be evicted, until they are deleted.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pauses: Pauses,
    /// The last preemptor of each.
    preemptors: BTreeMap<PodKey, PodKey>,
}

impl Refusals {
    /// Records that the eviction of `victim` for `preemptor` has failed. Returns another pod if it had
    /// to be dropped.
    pub(crate) fn add(&mut self, now: Time, victim: PodKey, preemptor: PodKey) -> Option<PodKey> {
        let forgotten = self.pauses.begin(now, victim.clone());
        if let Some(other) = &forgotten {
            self.preemptors.remove(other);
        }
        self.preemptors.insert(victim, preemptor);
        forgotten
    }

    /// Removes a pod that was deleted or evicted. Returns how often its eviction had failed, if it had.
    pub(crate) fn remove(&mut self, victim: &PodKey) -> Option<u32> {
        self.preemptors.remove(victim);
        self.pauses.forget(victim)
    }

    /// The pods that may be chosen again from now on, with their preemptors.
    pub(crate) fn over(&mut self, now: Time) -> Vec<(PodKey, PodKey)> {
        if self.next_end().is_none_or(|end| now < end) {
            return Vec::new();
        }
        let over = self.pauses.over(now).into_iter();
        over.filter_map(|victim| Some((victim.clone(), self.preemptors.get(&victim)?.clone())))
            .collect()
    }

    /// When the next pod may be chosen again.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.pauses.next_end()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_pod_that_was_not_evicted_may_be_chosen_again_after_a_pause_for_the_last_preemptor() {
        let pod = |name| PodKey::new("default", name);
        let mut refusals = Refusals::default();
        refusals.add(Time::ZERO, pod("victim"), pod("high"));
        refusals.add(Time::ZERO, pod("victim"), pod("higher"));
        let end = refusals.next_end().expect("it was just refused");
        assert!(refusals.over(end - Duration::from_millis(1)).is_empty());
        assert_eq!(refusals.over(end), [(pod("victim"), pod("higher"))]);
        assert_eq!((refusals.next_end(), refusals.remove(&pod("victim"))), (None, Some(2)));
    }
}
