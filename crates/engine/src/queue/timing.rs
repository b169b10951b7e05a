//! What time does to pods: backoffs end, and pods that have waited too long are tried anyway.

use std::time::Duration;

use plimsoll_framework::Time;

use super::pod::QueuePlace;
use super::worth::{QueueingStrategy, Surroundings};
use super::{Queue, Ready};
use crate::metrics::EventLabel;
use crate::names::PodId;

/// How often the queue is checked for pods that have waited too long.
pub(super) const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

impl Queue {
    /// Moves pods by time: from backoff to ready, and from waiting too long to either.
    pub(crate) fn tick(&mut self, now: Time, with: Surroundings<'_>) {
        while let Some(id) = self.shelves.backoff_over(now) {
            self.take(id);
            // Its gates were checked when its backoff began.
            self.pods[id].info.place = QueuePlace::Active;
            let entry = self.entry_of(id, with);
            self.came(now, id, EventLabel::BACKOFF_COMPLETE, entry);
            self.put(id, with);
        }
        self.flush(now, with);
    }

    fn flush(&mut self, now: Time, with: Surroundings<'_>) {
        let due = *self.next_flush.get_or_insert(now + FLUSH_INTERVAL);
        if now < due {
            return;
        }
        self.next_flush = Some(now + FLUSH_INTERVAL);
        let stale = |id: &PodId| self.pods[*id].info.queued < now - self.max_wait;
        let stale: Vec<PodId> = self.groups.for_change().filter(stale).collect();
        for id in stale {
            self.take(id);
            self.requeue(
                now,
                id,
                QueueingStrategy::AfterBackoff,
                EventLabel::UNSCHEDULABLE_TIMEOUT,
                with,
            );
            // As in scheduling_queue.go: a gated pod does not count as flushed.
            let info = &mut self.pods[id].info;
            info.flushed = !matches!(info.place, QueuePlace::Gated { .. });
        }
    }

    /// Whether a pod can be tried now.
    pub(crate) fn has_ready(&self, ready: Ready) -> bool {
        self.shelves.has_ready(ready)
    }

    /// Whether some pod is in backoff after a rejection, and may fit then.
    pub(crate) fn has_backoff(&self) -> bool {
        self.shelves.after_rejections().any(|id| !self.pods[id].info.fails_again(self.changed))
    }

    /// Whether some pod will be tried again after an error that may be transient.
    pub(crate) fn mends(&self) -> bool {
        self.shelves.after_errors().any(|id| {
            let info = &self.pods[id].info;
            !info.errs_in_vain(self.heard) && !info.fails_again(self.changed)
        })
    }

    /// When the next pod becomes ready by itself; pods that wait for a change do not count.
    pub(crate) fn next_ready(&self) -> Option<Time> {
        self.shelves.next_backoff_over()
    }

    /// When the next flush is.
    pub(crate) fn next_flush(&self) -> Option<Time> {
        self.next_flush.filter(|_| self.groups.has_for_change())
    }
}
