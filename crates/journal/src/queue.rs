//! The entries between the thread of the scheduler and the one that writes.

use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::entry::Entries;

/// At most so many entries wait to be written.
const MOST_WAITING: usize = 256 * 1024;
/// Entries are written at the latest this long after they were handed over.
const WRITTEN_AFTER: Duration = Duration::from_millis(500);
/// Beyond this many entries they are written at once.
pub(crate) const AT_ONCE: usize = 16 * 1024;

/// What the recorder and the writer count.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) written: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// How often something could not be written at once, or at all.
    pub(crate) errors: AtomicU64,
    /// The size of the file in bytes, after the last time that something was written.
    pub(crate) size: AtomicU64,
}

/// What happens to entries that come faster than they can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// They are lost and counted: a scheduler must not wait.
    Lose,
    /// Whoever sends them waits: a simulation can.
    Wait,
}

/// The entries that wait to be written.
///
/// The writer sleeps while they gather: it is woken by the first of them, and not for each batch, since each time is a system
/// call on the thread of the scheduler.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    queue: Mutex<Queue>,
    /// There are entries, or enough of them, or no more will come.
    came: Condvar,
    /// Entries were taken, or the writer has ended.
    taken: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    entries: Entries,
    /// No more will come.
    is_complete: bool,
    /// The writer has ended.
    is_abandoned: bool,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is whole whenever the lock is released.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch, and removes it; `false` if it is lost.
    pub(crate) fn add(&self, batch: &mut Entries, when_full: WhenFull) -> bool {
        let is_full = |queue: &mut Queue| {
            !queue.is_abandoned && MOST_WAITING < queue.entries.len() + batch.len()
        };
        let mut queue = self.lock();
        if when_full == WhenFull::Wait {
            let waited = self.taken.wait_while(queue, is_full);
            queue = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if queue.is_abandoned || is_full(&mut queue) {
            batch.clear();
            return false;
        }
        let before = queue.entries.len();
        queue.entries.append(batch);
        let wakes = before == 0 || (before < AT_ONCE && AT_ONCE <= queue.entries.len());
        drop(queue);
        if wakes {
            self.came.notify_one();
        }
        true
    }

    /// No more will come.
    pub(crate) fn complete(&self) {
        self.lock().is_complete = true;
        self.came.notify_one();
    }

    /// The writer has ended: what comes from now on is lost.
    pub(crate) fn abandon(&self) {
        self.lock().is_abandoned = true;
        self.taken.notify_all();
    }

    /// Waits for the next entries to be written, and puts them into `entries`, which must be empty; none if none have come within
    /// `at_most`. Returns whether no more will come.
    pub(crate) fn take(&self, entries: &mut Entries, at_most: Duration) -> bool {
        let wait = |queue, at_most, is_early: fn(&mut Queue) -> bool| {
            let waited = self.came.wait_timeout_while(queue, at_most, is_early);
            waited.unwrap_or_else(PoisonError::into_inner).0
        };
        let is_idle = |queue: &mut Queue| queue.entries.len() == 0 && !queue.is_complete;
        let mut queue = wait(self.lock(), at_most, is_idle);
        if 0 < queue.entries.len() {
            let gathers = |queue: &mut Queue| queue.entries.len() < AT_ONCE && !queue.is_complete;
            queue = wait(queue, WRITTEN_AFTER, gathers);
        }
        std::mem::swap(&mut queue.entries, entries);
        let is_complete = queue.is_complete;
        drop(queue);
        self.taken.notify_all();
        is_complete
    }
}
