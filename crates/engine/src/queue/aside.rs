//! Pods that are ready but not tried while room is reserved for a group.

use plimsoll_framework::{PodInfo, Time};

use super::Queue;
use super::pod::Attempt;
use super::shelves::Ready;
use super::worth::Surroundings;

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
            self.put(id, with);
        }
    }

    /// Whether ready pods were set aside.
    pub(crate) fn has_aside(&self) -> bool {
        self.shelves.aside().next().is_some()
    }

    /// How many ready pods were set aside.
    pub(crate) fn n_aside(&self) -> usize {
        self.shelves.aside().count()
    }
}
