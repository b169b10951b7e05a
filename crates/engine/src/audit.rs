//! Decisions that are made twice: from what is remembered, and from scratch.

use std::fmt;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::{PodInfo, View};

use crate::cycle::{self, Cycle, CycleResult};

/// The differences that are kept: enough to find the first cause.
const MOST_KEPT: usize = 16;

/// What audits have found so far.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    every: u32,
    since_last: u32,
    /// How many decisions were compared.
    pub audited: u64,
    /// How many of them differed. After each the derived state is dropped, and the decision that was
    /// made from scratch holds.
    pub differing: u64,
    /// The first differences.
    pub differences: Vec<Difference>,
}

/// A decision that came out otherwise from scratch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The pod.
    pub pod: PodKey,
    /// What was decided from what is remembered.
    pub remembered: String,
    /// What holds.
    pub from_scratch: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { pod, remembered, from_scratch } = self;
        write!(f, "pod {pod}: {remembered}, and not {from_scratch}")
    }
}

impl Audit {
    pub(crate) fn new(every: u32) -> Self {
        Audit { every, ..Audit::default() }
    }

    /// Whether the decision that was just made is to be audited.
    pub(crate) fn is_due(&mut self) -> bool {
        if self.every == 0 {
            return false;
        }
        self.since_last += 1;
        let due = self.since_last == self.every;
        if due {
            self.since_last = 0;
        }
        due
    }

    /// Compares a decision with the one from scratch; whether they are equal.
    pub(crate) fn compare(
        &mut self,
        pod: &PodInfo,
        remembered: &Cycle,
        from_scratch: &Cycle,
        view: &View<'_>,
    ) -> bool {
        self.audited += 1;
        if are_equal(&remembered.result, &from_scratch.result) {
            return true;
        }
        self.differing += 1;
        if self.differences.len() < MOST_KEPT {
            self.differences.push(Difference {
                pod: pod.key.clone(),
                remembered: describe(&remembered.result, view),
                from_scratch: describe(&from_scratch.result, view),
            });
        }
        false
    }
}

/// What is remembered may know one of the best nodes without having listed them all.
fn are_equal(remembered: &CycleResult, from_scratch: &CycleResult) -> bool {
    match (remembered, from_scratch) {
        (CycleResult::Found { row, best }, CycleResult::Found { row: other, best: others }) => {
            row == other && (best.is_empty() || best == others)
        }
        (CycleResult::Unschedulable(one), CycleResult::Unschedulable(other)) => {
            one.message == other.message
                && one.record == other.record
                && one.nomination == other.nomination
                && one.rejectors == other.rejectors
                && one.pending == other.pending
                && one.hopeless == other.hopeless
                && one.nominated_by == other.nominated_by
                && one.pre_filter == other.pre_filter
                && one.reason == other.reason
        }
        _ => false,
    }
}

fn describe(result: &CycleResult, view: &View<'_>) -> String {
    match result {
        CycleResult::Found { row, best } => {
            let best: Vec<Str> = cycle::names(view.nodes, best);
            format!("{} of [{}]", view.nodes.name_of(*row), best.join(" "))
        }
        CycleResult::Unschedulable(failure) => failure.message.clone(),
        CycleResult::Error(message) => format!("error: {message}"),
    }
}
