//! Waiting writes, in one queue (*lane*) for each pod.
//!
//! Writes to one pod are done in order, one after the other. Lanes in which the engine awaits an answer
//! take precedence over lanes with status updates only, but these get some of the slots.

use std::collections::{HashMap, VecDeque};

use plimsoll_api::PodKey;

use super::job::Job;

/// One of this many turns goes to a lane without awaited answers, however many awaited ones there are.
const TURN_OF_THE_LAZY: u32 = 8;

/// The lanes of all pods with writes to do.
#[derive(Debug)]
pub(super) struct Lanes {
    by_pod: HashMap<PodKey, Lane>,
    /// Lanes in which an answer is awaited. A lane whose state has changed since is still here and is
    /// skipped.
    urgent: VecDeque<PodKey>,
    /// The others.
    lazy: VecDeque<PodKey>,
    places: Places,
    n_queued: usize,
    /// How many were taken since the last lazy one.
    since_lazy: u32,
}

/// The slots for writes in flight, and their use.
#[derive(Clone, Copy, Debug)]
struct Places {
    max: usize,
    urgent: usize,
    lazy: usize,
}

#[derive(Debug)]
struct Lane {
    jobs: VecDeque<Job>,
    stands: Stands,
}

/// The state of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// One of its writes is in flight; whether it was taken as urgent.
    Runs { urgent: bool },
    /// It waits in the urgent queue.
    Urgent,
    /// It waits in the lazy queue.
    Lazy,
}

impl Lanes {
    /// At most `max` writes are in flight at once.
    pub(super) fn new(max: usize) -> Self {
        Lanes {
            by_pod: HashMap::new(),
            urgent: VecDeque::new(),
            lazy: VecDeque::new(),
            places: Places { max: max.max(1), urgent: 0, lazy: 0 },
            n_queued: 0,
            since_lazy: 0,
        }
    }

    /// Adds a write.
    pub(super) fn push(&mut self, job: Job) {
        let key = job.about().clone();
        let is_urgent = job.awaited().is_some();
        let Some(lane) = self.by_pod.get_mut(&key) else {
            self.n_queued += 1;
            let lane = Lane { jobs: VecDeque::from([job]), stands: Stands::Lazy };
            self.by_pod.insert(key.clone(), lane);
            self.line_up(key, is_urgent);
            return;
        };
        let rest = match lane.jobs.back_mut() {
            Some(last) => last.absorb(job),
            None => Some(job),
        };
        if let Some(job) = rest {
            lane.jobs.push_back(job);
            self.n_queued += 1;
        }
        if is_urgent && lane.stands == Stands::Lazy {
            self.line_up(key, true);
        }
    }

    /// The next write, if there is a free slot. [`Lanes::done`] frees the slot.
    pub(super) fn pop(&mut self) -> Option<Job> {
        let Places { max, urgent, lazy } = self.places;
        if max <= urgent + lazy {
            return None;
        }
        let lazy_first = TURN_OF_THE_LAZY <= self.since_lazy;
        let order = if lazy_first { [false, true] } else { [true, false] };
        order.into_iter().find_map(|urgent| self.pop_from(urgent))
    }

    /// The write in flight for this pod is done.
    pub(super) fn done(&mut self, key: &PodKey) {
        let Some(lane) = self.by_pod.get(key) else { return };
        let Stands::Runs { urgent } = lane.stands else { return };
        match urgent {
            true => self.places.urgent -= 1,
            false => self.places.lazy -= 1,
        }
        if lane.jobs.is_empty() {
            self.by_pod.remove(key);
            return;
        }
        let is_urgent = lane.jobs.iter().any(|job| job.awaited().is_some());
        self.line_up(key.clone(), is_urgent);
    }

    /// Removes all waiting writes, in no particular order.
    pub(super) fn clear(&mut self) -> Vec<Job> {
        self.urgent.clear();
        self.lazy.clear();
        self.n_queued = 0;
        let jobs = self.by_pod.values_mut().flat_map(|lane| lane.jobs.drain(..)).collect();
        self.by_pod.retain(|_, lane| matches!(lane.stands, Stands::Runs { .. }));
        jobs
    }

    /// How many wait.
    pub(super) fn n_queued(&self) -> usize {
        self.n_queued
    }

    /// How many are in flight.
    pub(super) fn n_running(&self) -> usize {
        self.places.urgent + self.places.lazy
    }

    fn line_up(&mut self, key: PodKey, is_urgent: bool) {
        let Some(lane) = self.by_pod.get_mut(&key) else { return };
        let (stands, waiting) = match is_urgent {
            true => (Stands::Urgent, &mut self.urgent),
            false => (Stands::Lazy, &mut self.lazy),
        };
        lane.stands = stands;
        waiting.push_back(key);
    }

    fn pop_from(&mut self, urgent: bool) -> Option<Job> {
        let (waiting, stands) = match urgent {
            true => (&mut self.urgent, Stands::Urgent),
            // Half of the slots are reserved for awaited writes.
            false if self.places.max.div_ceil(2) <= self.places.lazy => return None,
            false => (&mut self.lazy, Stands::Lazy),
        };
        loop {
            let key = waiting.pop_front()?;
            let Some(lane) = self.by_pod.get_mut(&key).filter(|lane| lane.stands == stands) else {
                continue;
            };
            let Some(job) = lane.jobs.pop_front() else { continue };
            lane.stands = Stands::Runs { urgent };
            self.n_queued -= 1;
            if urgent {
                self.places.urgent += 1;
                self.since_lazy = self.since_lazy.saturating_add(1);
            } else {
                self.places.lazy += 1;
                self.since_lazy = 0;
            }
            return Some(job);
        }
    }
}
