//! What is measured of a decision from memory.
//!
//! It goes through the phases of a scheduling cycle as one from scratch does, only that most of each
//! was done before: bringing counts and kinds up is its PreFilter, bringing nodes up its Filter, choosing
//! among cells its Score, and the survey with its clearings its PostFilter. What is remembered as a whole
//! counts as the phases that it stands for, which then took next to no time.

use std::time::Duration;

use plimsoll_framework::Point;
use smallvec::{SmallVec, smallvec};

use super::meter::{Lap, MeteredPoint, Status, Watch};
use crate::cycle::{Cycle, CycleResult};
use crate::profile::Profile;

/// The phases that a decision went through, in their order, with how each ended.
pub(crate) type Went = SmallVec<[(MeteredPoint, Status); 4]>;

/// How long the phases of one decision took, each from the end of the one before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Phases {
    watch: Watch,
    /// When the last phase was over.
    last: Lap,
    /// Up to Score: what comes behind it is measured as it happens.
    spans: [Duration; Phases::COUNT],
    /// Whether several nodes were feasible, so that scores decided.
    pub(crate) is_scored: bool,
}

impl Phases {
    /// Up to Score, by their numbers; PreEnqueue is never one of them.
    pub(super) const COUNT: usize = MeteredPoint::Score as usize + 1;

    /// The first phase begins at `lap`.
    pub(super) fn new(watch: Watch, lap: Lap) -> Self {
        Phases { watch, last: lap, ..Phases::default() }
    }

    /// A phase, or a part of it, is over.
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

    /// How long a phase took.
    pub(super) fn span(&self, phase: MeteredPoint) -> Duration {
        self.spans[phase as usize]
    }
}

/// Through which phases a decision from memory went. `is_scored` says whether several nodes were feasible.
///
/// As in schedule_one.go: one feasible node is not scored, and PostFilter is asked where there is none.
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
