//! What becomes of the pods of the queue when the profiles of the scheduler are replaced.

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
        for id in all {
            self.take(id);
            let sort = self.sort_of(&self.pods[id], with);
            let entry = &mut self.pods[id];
            entry.like = Like::Unasked;
            entry.sort = sort;
            if !is_changed(&entry.info.pod) {
                self.put(id, with);
                continue;
            }
            match entry.info.place {
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
    }
}
