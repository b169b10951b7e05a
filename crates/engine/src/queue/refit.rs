//! What becomes of the pods of the queue when the profiles of the scheduler are replaced.

use std::collections::BTreeMap;

use plimsoll_framework::{PodInfo, Time};

use super::backoff::Backoff;
use super::pod::{QueuePlace, QueuedPodInfo};
use super::worth::{QueueingStrategy, Surroundings};
use super::{Like, Queue};
use crate::metrics::EventLabel;
use crate::names::PodId;

impl Queue {
    /// The profiles were replaced. Pods for which `is_changed` holds may be gated now, or no longer, and those that wait are
    /// tried again after their backoff.
    pub(crate) fn refit(
        &mut self,
        now: Time,
        backoff: Backoff,
        is_changed: impl Fn(&PodInfo) -> bool,
        with: Surroundings<'_>,
    ) {
        self.backoff = backoff;
        self.shelves.changed();
        self.changed += 1;
        let in_flight = |info: &QueuedPodInfo| info.place == QueuePlace::InFlight;
        let all = self.iter_in_any_order().filter(|(_, info)| !in_flight(info));
        let all: Vec<PodId> = all.map(|(id, _)| id).collect();
        let mut changed_entries = BTreeMap::new();
        for id in all {
            self.take(id);
            let sort = self.sort_of(&self.pods[id], with);
            let entry = &mut self.pods[id];
            entry.like = Like::Unasked;
            entry.sort = sort;
            let is_changed = is_changed(&entry.info.pod);
            let its_entry = self.entry_of(id, with);
            if let Some(its_entry) = its_entry.filter(|_| is_changed) {
                changed_entries.entry(its_entry).or_insert(id);
            }
            if !is_changed || self.is_of_entry(id) {
                self.put(id, with);
                continue;
            }
            match self.pods[id].info.place {
                QueuePlace::Unschedulable | QueuePlace::Gated { .. } => {
                    let strategy = QueueingStrategy::AfterBackoff;
                    self.requeue(now, id, strategy, EventLabel::FORCE_ACTIVATE, with);
                }
                _ => {
                    if let Some(gate) = self.gate(id, with) {
                        self.pods[id].info.place = gate;
                    }
                    self.put(id, with);
                }
            }
        }
        // The pods of an entry move together, so it is looked at once.
        for id in changed_entries.into_values() {
            self.refit_entry(now, id, with);
        }
    }

    /// The entry of this pod may be gated now, or no longer.
    fn refit_entry(&mut self, now: Time, id: PodId, with: Surroundings<'_>) {
        match self.pods[id].info.place {
            QueuePlace::Unschedulable | QueuePlace::Gated { .. } => {
                let how = (QueueingStrategy::AfterBackoff, EventLabel::FORCE_ACTIVATE);
                self.settle(now, id, how, None, with);
            }
            _ => {
                let members = self.waiting_members(id, with);
                let Some(gate) = self.gate_of(&members, with) else { return };
                self.place_members(now, &members, None, (&gate, EventLabel::FORCE_ACTIVATE), with);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use plimsoll_framework::{GroupGates, GroupRules, Release};

    use super::*;
    use crate::cache::Cache;
    use crate::names::PodNames;
    use crate::profiles::Profiles;
    use crate::tests::lab;

    /// Some time goes by between two looks.
    fn tick() -> Duration {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        Duration::from_millis(LOOKS.fetch_add(1, Ordering::Relaxed))
    }

    /// How often pods are asked for their gates when the profiles are replaced while a group of `n_pods` pods waits.
    fn n_gates_asked(n_pods: usize) -> u64 {
        let profile = lab::profile("lab", None, |_| true);
        let profiles = Profiles::new(vec![profile], Release::NEWEST).expect("there is one profile");
        let (cache, mut names) = (Cache::default(), PodNames::default());
        let with = Surroundings { profiles: &profiles, cache: &cache };
        let gates = GroupGates {
            generic_workload: true,
            rules: GroupRules::V1_37,
            ..GroupGates::default()
        };
        let queue = Queue::new(Backoff::default(), Duration::from_mins(5), Some(tick));
        let mut queue = queue.with_groups(gates);
        for number in 0..n_pods {
            let mut pod = lab::pod(&format!("p{number}"), &[]);
            pod.scheduling_group = Some("g".into());
            let id = names.insert(pod.clone().into());
            queue.set(Time::ZERO, id, pod.into(), with);
        }
        let asked = |queue: &Queue| queue.counts.gates().map(|(_, _, took)| took.count()).sum();
        let before: u64 = asked(&queue);
        queue.refit(Time::ZERO, Backoff::default(), |_| true, with);
        assert!(queue.iter().all(|info| info.place == QueuePlace::Active));
        asked(&queue) - before
    }

    #[test]
    fn each_pod_of_a_group_is_asked_once_for_its_gate() {
        assert_eq!((n_gates_asked(10), n_gates_asked(80)), (10, 80));
    }
}
