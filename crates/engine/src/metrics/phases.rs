//! Measurements of a decision from memory.
//!
//! It has the same phases as a scheduling cycle from scratch, but most of the work was done before:
//! updating counts and signatures is its PreFilter, updating nodes its Filter, choosing among groups of
//! nodes its Score, and the diagnosis with its preemption candidates its PostFilter. A completely
//! remembered result counts as the phases that it replaces, which then took almost no time.

use std::time::Duration;

use plimsoll_framework::Point;
use smallvec::{SmallVec, smallvec};

use super::meter::{Lap, MeteredPoint, Status, Watch};
use crate::cycle::{Cycle, CycleResult};
use crate::profile::Profile;

/// The phases of a decision, in order, with their status.
pub(crate) type Went = SmallVec<[(MeteredPoint, Status); 4]>;

/// The durations of the phases of one decision, each from the end of the previous one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Phases {
    watch: Watch,
    /// The end of the last phase.
    last: Lap,
    /// Up to Score; later points are measured separately.
    spans: [Duration; Phases::COUNT],
    /// Whether several nodes were feasible, so that scores decided.
    pub(crate) is_scored: bool,
}

impl Phases {
    /// Up to Score, by their numbers; PreEnqueue never occurs.
    pub(super) const COUNT: usize = MeteredPoint::Score as usize + 1;

    /// The first phase begins at `lap`.
    pub(super) fn new(watch: Watch, lap: Lap) -> Self {
        Phases { watch, last: lap, ..Phases::default() }
    }

    /// Ends a phase or a part of it.
    pub(crate) fn over(&mut self, phase: MeteredPoint) {
        let now = self.watch.start();
        if let Some(span) = now.after(self.last) {
            self.spans[phase as usize] += span;
            self.last = now;
        }
    }

    /// Whether there is a stopwatch.
    pub(crate) fn are_measured(&self) -> bool {
        self.last.is_measured()
    }

    /// The duration of a phase.
    pub(super) fn span(&self, phase: MeteredPoint) -> Duration {
        self.spans[phase as usize]
    }
}

/// The phases of a decision from memory. `is_scored` says whether several nodes were feasible.
///
/// As in schedule_one.go: a single feasible node is not scored, and PostFilter runs if there is none.
pub(crate) fn went(profile: &Profile, cycle: &Cycle, is_scored: bool) -> Went {
    const FILTERED: [(MeteredPoint, Status); 4] = [
        (MeteredPoint::PreFilter, Status::Success),
        (MeteredPoint::Filter, Status::Success),
        (MeteredPoint::PreScore, Status::Success),
        (MeteredPoint::Score, Status::Success),
    ];
    match &cycle.result {
        CycleResult::Found { .. } => {
            let n_phases = if is_scored && profile.scores() { 4 } else { 2 };
            Went::from_buf_and_len(FILTERED, n_phases)
        }
        CycleResult::Unschedulable(failure) => {
            let mut went = match &failure.pre_filter {
                Some((_, why)) => smallvec![(MeteredPoint::PreFilter, why.code.into())],
                None => Went::from_buf_and_len(FILTERED, 2),
            };
            if profile.at(Point::PostFilter).next().is_some() {
                let is_nominated = failure.nomination.is_some();
                let status = if is_nominated { Status::Success } else { Status::Unschedulable };
                went.push((MeteredPoint::PostFilter, status));
            }
            went
        }
        CycleResult::Error(_) => Went::new(),
    }
}
