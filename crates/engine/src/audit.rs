//! Audits: decisions that are made twice, from remembered results and from scratch.

use std::fmt;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::{PodInfo, View};

use crate::cycle::{self, Cycle, CycleResult};
use crate::decide::DeciderKind;
use crate::pick;

/// At most this many differences are kept: enough to find the first cause.
const MOST_KEPT: usize = 16;

/// What audits have found so far.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    every: u32,
    since_last: u32,
    /// How many decisions were compared.
    pub audited: u64,
    /// How many of them were made from node rankings and diagnoses.
    pub remembered: u64,
    /// How many of them were made by a scan.
    pub scanned: u64,
    /// How many of them differed. After each one the derived state is dropped, and the decision from
    /// scratch is used.
    pub differing: u64,
    /// The first differences.
    pub differences: Vec<AuditDifference>,
}

/// A decision from memory that differs from the one from scratch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditDifference {
    /// The pod.
    pub pod: PodKey,
    /// The decision from remembered results.
    pub remembered: String,
    /// The decision from scratch, which is used.
    pub from_scratch: String,
}

impl fmt::Display for AuditDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AuditDifference { pod, remembered, from_scratch } = self;
        write!(f, "pod {pod}: {remembered}, and not {from_scratch}")
    }
}

impl Audit {
    pub(crate) fn new(every: u32) -> Self {
        Audit { every, ..Audit::default() }
    }

    /// Whether to audit the decision that was just made.
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

    /// Compares a decision with the one from scratch, and returns whether they are equal.
    pub(crate) fn compare(
        &mut self,
        pod: &PodInfo,
        decider: DeciderKind,
        remembered: &Cycle,
        from_scratch: &Cycle,
        view: &View<'_>,
    ) -> bool {
        self.audited += 1;
        match decider {
            DeciderKind::FromScratch => {}
            DeciderKind::Remembered => self.remembered += 1,
            DeciderKind::Scanned => self.scanned += 1,
        }
        let are_equal = are_equal(&remembered.result, &from_scratch.result);
        let (known, others) = (Others::known(remembered), Others::of(from_scratch));
        if are_equal && known.agree(others) && end_alike(remembered, from_scratch, view) {
            return true;
        }
        let describe = |cycle: &Cycle, others: Others| {
            let result = describe(&cycle.result, view);
            match are_equal {
                true => format!("{result} after {} nodes, {others}", cycle.n_judged),
                false => result,
            }
        };
        self.differ(&pod.key, describe(remembered, known), describe(from_scratch, others));
        false
    }

    /// Compares for how many members of a group, of which this pod is the first, there is room on a placement with how many
    /// got a node there. Returns whether it is the same.
    pub(crate) fn compare_room(
        &mut self,
        first: &PodKey,
        on: &Str,
        room: usize,
        got: usize,
    ) -> bool {
        self.audited += 1;
        self.remembered += 1;
        if room != got {
            let room = format!("room for {room} members of its group on {on}");
            self.differ(first, room, format!("for {got}"));
        }
        room == got
    }

    fn differ(&mut self, pod: &PodKey, remembered: String, from_scratch: String) {
        self.differing += 1;
        if self.differences.len() < MOST_KEPT {
            self.differences.push(AuditDifference { pod: pod.clone(), remembered, from_scratch });
        }
    }
}

/// What a decision knows of the nodes that it did not choose.
#[derive(Clone, Copy)]
struct Others {
    n_feasible: Option<usize>,
    margin: Option<i64>,
}

impl Others {
    /// What a decision from memory knows.
    fn known(&Cycle { n_feasible, margin, .. }: &Cycle) -> Self {
        Others { n_feasible, margin }
    }

    /// What is so in a decision from scratch.
    fn of(Cycle { feasible, scores, .. }: &Cycle) -> Self {
        let totals = scores.iter().flat_map(|scores| scores.totals.iter().copied());
        Others { n_feasible: Some(feasible.len()), margin: pick::margin(totals) }
    }

    /// Whether what is known is so.
    fn agree(self, others: Others) -> bool {
        self.n_feasible.is_none_or(|known| Some(known) == others.n_feasible)
            && self.margin.is_none_or(|known| Some(known) == others.margin)
    }
}

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Others { n_feasible, margin } = self;
        write!(f, "feasible: {n_feasible:?}, margin: {margin:?}")
    }
}

/// A decision from memory may name only one of the best nodes instead of all.
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

/// Whether the next search begins at the same node after both decisions, if only a share of the nodes is judged.
fn end_alike(remembered: &Cycle, from_scratch: &Cycle, view: &View<'_>) -> bool {
    let n_nodes = view.nodes.len().max(1);
    remembered.n_judged % n_nodes == from_scratch.n_judged % n_nodes
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_decision_does_not_know_is_not_wrong_and_what_it_knows_must_be_so() {
        let so = Others { n_feasible: Some(3), margin: Some(7) };
        let agrees = |n_feasible, margin| Others { n_feasible, margin }.agree(so);
        assert!(agrees(None, None) && agrees(Some(3), None) && agrees(Some(3), Some(7)));
        assert!(!agrees(Some(2), Some(7)) && !agrees(None, Some(0)));
        let only = Others { n_feasible: Some(1), margin: None };
        assert!(!Others { margin: Some(0), ..only }.agree(only));
    }
}
