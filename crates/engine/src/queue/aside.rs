//! Pods that are ready but not tried while room is reserved for a group.

use plimsoll_framework::{PodInfo, Time};

use super::Queue;
use super::pod::{Attempt, QueuePlace};
use super::shelves::Ready;
use super::worth::Surroundings;
use crate::names::PodId;

impl Queue {
    /// Takes the next pod to try that `admits` lets pass. The ready ones before it are set aside until
    /// [`readmit`](Self::readmit), so that each is asked about once. No pod is tried before its backoff is over.
    pub(crate) fn pop_admitted(
        &mut self,
        now: Time,
        with: Surroundings<'_>,
        admits: impl Fn(&PodInfo) -> bool,
    ) -> Option<Attempt> {
        self.tick(now, with);
        self.sort_again(with);
        while let Some(id) = self.shelves.first(Ready::Due) {
            let entry = &self.pods[id];
            if admits(&entry.info.pod) {
                return Some(self.begin(id, with));
            }
            self.shelves.set_aside(entry.active_key(), id);
        }
        None
    }

    /// Lets the pods be tried that were set aside.
    pub(crate) fn readmit(&mut self, with: Surroundings<'_>) {
        for id in self.shelves.take_aside() {
            self.readmitted.insert(id, self.pods[id].info.attempts);
            self.put(id, with);
        }
    }

    /// Whether some pod that was set aside and may be tried again has not been tried since.
    pub(crate) fn has_readmitted(&mut self) -> bool {
        let pods = &self.pods;
        let waits = |id: PodId, attempts: u32| {
            let info = pods.get(id).map(|entry| &entry.info);
            info.is_some_and(|info| info.place == QueuePlace::Active && info.attempts == attempts)
        };
        self.readmitted.retain(|id, attempts| waits(*id, *attempts));
        !self.readmitted.is_empty()
    }

    /// Whether some pod was set aside that may fit once it is tried. Two groups that both wait for room may take turns: room
    /// is reserved for one of them, then for the other, and neither fits as long as nothing changes.
    pub(crate) fn has_hope_aside(&self) -> bool {
        self.shelves.aside().any(|id| !self.pods[id].info.fails_again(self.changed))
    }

    /// How many ready pods were set aside.
    pub(crate) fn n_aside(&self) -> usize {
        self.shelves.aside().count()
    }
}
