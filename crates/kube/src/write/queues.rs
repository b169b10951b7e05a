//! Waiting writes, in one queue for each pod.
//!
//! Writes to one pod are done in order, one after the other. Queues in which the engine awaits an answer
//! take precedence over queues with status updates only, but these get some of the slots.

use std::collections::{HashMap, VecDeque};

use plimsoll_api::PodKey;

use super::job::WriteJob;

/// One of this many writes is taken from a queue without awaited answers, however many others wait.
const LAZY_INTERVAL: u32 = 8;

/// The queues of all pods with writes to do.
#[derive(Debug)]
pub(super) struct PodWriteQueues {
    by_pod: HashMap<PodKey, PodWriteQueue>,
    /// Pods whose queue contains an awaited write. One whose state has changed since is skipped.
    urgent: VecDeque<PodKey>,
    /// The other pods.
    lazy: VecDeque<PodKey>,
    slots: WriteSlots,
    n_queued: usize,
    /// The number of writes taken since the last lazy one.
    since_lazy: u32,
}

/// The slots for writes in flight, and their use.
#[derive(Clone, Copy, Debug)]
struct WriteSlots {
    max: usize,
    urgent: usize,
    lazy: usize,
}

/// The waiting writes to one pod.
#[derive(Debug)]
struct PodWriteQueue {
    jobs: VecDeque<WriteJob>,
    state: QueueState,
}

/// The state of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueState {
    /// One of its writes is in flight; whether it was taken as urgent.
    Runs { urgent: bool },
    /// It waits in the urgent queue.
    Urgent,
    /// It waits in the lazy queue.
    Lazy,
}

impl PodWriteQueues {
    /// At most `max` writes are in flight at once.
    pub(super) fn new(max: usize) -> Self {
        PodWriteQueues {
            by_pod: HashMap::new(),
            urgent: VecDeque::new(),
            lazy: VecDeque::new(),
            slots: WriteSlots { max: max.max(1), urgent: 0, lazy: 0 },
            n_queued: 0,
            since_lazy: 0,
        }
    }

    /// Adds a write.
    pub(super) fn push(&mut self, job: WriteJob) {
        let key = job.about().clone();
        let is_urgent = job.awaited().is_some();
        let Some(queue) = self.by_pod.get_mut(&key) else {
            self.n_queued += 1;
            let queue = PodWriteQueue { jobs: VecDeque::from([job]), state: QueueState::Lazy };
            self.by_pod.insert(key.clone(), queue);
            self.enqueue(key, is_urgent);
            return;
        };
        let rest = match queue.jobs.back_mut() {
            Some(last) => last.absorb(job),
            None => Some(job),
        };
        if let Some(job) = rest {
            queue.jobs.push_back(job);
            self.n_queued += 1;
        }
        if is_urgent && queue.state == QueueState::Lazy {
            self.enqueue(key, true);
        }
    }

    /// The next write, if there is a free slot. [`PodWriteQueues::done`] frees the slot.
    pub(super) fn pop(&mut self) -> Option<WriteJob> {
        let WriteSlots { max, urgent, lazy } = self.slots;
        if max <= urgent + lazy {
            return None;
        }
        let lazy_first = LAZY_INTERVAL <= self.since_lazy;
        let order = if lazy_first { [false, true] } else { [true, false] };
        order.into_iter().find_map(|urgent| self.pop_from(urgent))
    }

    /// The write in flight for this pod is done.
    pub(super) fn done(&mut self, key: &PodKey) {
        let Some(queue) = self.by_pod.get(key) else { return };
        let QueueState::Runs { urgent } = queue.state else { return };
        match urgent {
            true => self.slots.urgent -= 1,
            false => self.slots.lazy -= 1,
        }
        if queue.jobs.is_empty() {
            self.by_pod.remove(key);
            return;
        }
        let is_urgent = queue.jobs.iter().any(|job| job.awaited().is_some());
        self.enqueue(key.clone(), is_urgent);
    }

    /// Removes all waiting writes, in no particular order.
    pub(super) fn clear(&mut self) -> Vec<WriteJob> {
        self.urgent.clear();
        self.lazy.clear();
        self.n_queued = 0;
        let jobs = self.by_pod.values_mut().flat_map(|queue| queue.jobs.drain(..)).collect();
        self.by_pod.retain(|_, queue| matches!(queue.state, QueueState::Runs { .. }));
        jobs
    }

    /// How many wait.
    pub(super) fn n_queued(&self) -> usize {
        self.n_queued
    }

    /// How many are in flight.
    pub(super) fn n_running(&self) -> usize {
        self.slots.urgent + self.slots.lazy
    }

    fn enqueue(&mut self, key: PodKey, is_urgent: bool) {
        let Some(queue) = self.by_pod.get_mut(&key) else { return };
        let (state, waiting) = match is_urgent {
            true => (QueueState::Urgent, &mut self.urgent),
            false => (QueueState::Lazy, &mut self.lazy),
        };
        queue.state = state;
        waiting.push_back(key);
    }

    fn pop_from(&mut self, urgent: bool) -> Option<WriteJob> {
        let (waiting, state) = match urgent {
            true => (&mut self.urgent, QueueState::Urgent),
            // Half of the slots are reserved for awaited writes.
            false if self.slots.max.div_ceil(2) <= self.slots.lazy => return None,
            false => (&mut self.lazy, QueueState::Lazy),
        };
        loop {
            let key = waiting.pop_front()?;
            let Some(queue) = self.by_pod.get_mut(&key).filter(|queue| queue.state == state) else {
                continue;
            };
            let Some(job) = queue.jobs.pop_front() else { continue };
            queue.state = QueueState::Runs { urgent };
            self.n_queued -= 1;
            if urgent {
                self.slots.urgent += 1;
                self.since_lazy = self.since_lazy.saturating_add(1);
            } else {
                self.slots.lazy += 1;
                self.since_lazy = 0;
            }
            return Some(job);
        }
    }
}
