//! The scheduling cycle: from a pod to a node, or to the reason why there is none.

mod failure;
mod post_filter;
mod score;

use plimsoll_api::Str;
use plimsoll_framework::{
    Code, Columns, CycleState, DryRun, NodeRejection, NominatedPods, PodInfo, Row, View,
};
use rand::Rng;

use self::failure::unreadable;
pub(crate) use self::failure::{
    AttemptFailure, FailureReason, NO_NODE_REJECTOR, UNREADABLE_REJECTOR, no_node_fits, no_nodes,
    rejected_on_its_node,
};
use self::post_filter::post_filter;
pub(crate) use self::post_filter::post_filter_by;
pub(crate) use self::score::{score_error, scored};
use crate::filters::{Filters, PreFilterStop};
use crate::metrics::{CycleMeter, Lap, MeteredPoint, Status};
use crate::pick::{self, Scores, TieBreaker};
use crate::profile::Profile;
use crate::sample::Sample;

/// The result and the details of a cycle.
pub(crate) struct Cycle {
    pub(crate) result: CycleResult,
    /// The feasible nodes, ascending.
    pub(crate) feasible: Vec<Row>,
    /// Their scores; `None` if nothing was scored.
    pub(crate) scores: Option<Scores>,
    /// All nodes that were rejected.
    pub(crate) rejected: Vec<NodeRejection>,
    /// How many nodes were judged.
    pub(crate) n_judged: usize,
    /// The state that plugins share.
    pub(crate) shared: CycleState,
    /// Its measurements.
    pub(crate) meter: CycleMeter,
}

/// The result of a cycle.
pub(crate) enum CycleResult {
    /// A node was found among the best.
    Found { row: Row, best: Vec<Row> },
    /// No node was found.
    Unschedulable(Box<AttemptFailure>),
    /// It could not be judged.
    Error(String),
}

/// Takes one pod through PreFilter, Filter, PostFilter and Score, top to bottom.
pub(crate) fn schedule(
    profile: &Profile,
    view: View<'_>,
    nominated: &NominatedPods,
    sample: &Sample,
    pod: &PodInfo,
    chance: &mut TieBreaker<'_, impl Rng>,
    meter: CycleMeter,
) -> Cycle {
    let mut cycle = Cycle { meter, ..Cycle::new() };
    if let Some(why) = &pod.unreadable {
        cycle.result = CycleResult::Unschedulable(Box::new(unreadable(why)));
        return cycle;
    }
    if view.nodes.is_empty() {
        cycle.result = CycleResult::Unschedulable(Box::new(no_nodes()));
        return cycle;
    }
    let filters = match cycle.prepare(profile, pod, &view) {
        Ok(filters) => filters,
        Err(stopped) => {
            cycle.result = match stopped {
                PreFilterStop::Error(error) => CycleResult::Error(error),
                PreFilterStop::Rejected(stopped) => {
                    let (failure, filters) = *stopped;
                    let (prepared, looked) = (filters.in_order(), filters.looked(profile));
                    let dry_run = DryRun::new(pod, &prepared, &looked, nominated, view);
                    post_filter(profile, failure, &mut cycle, dry_run)
                }
            };
            return cycle;
        }
    };
    let lap = cycle.meter.start();
    filters.judge(pod, view.nodes, nominated, sample, &mut cycle);
    cycle.filtered(lap);
    if let Some(error) = error_of(&cycle.rejected) {
        cycle.result = CycleResult::Error(error);
        return cycle;
    }
    cycle.result = match cycle.feasible.len() {
        0 => {
            let failure = no_node_fits(view.nodes.len(), &filters, &cycle.rejected);
            let (prepared, looked) = (filters.in_order(), filters.looked(profile));
            let dry_run = DryRun::new(pod, &prepared, &looked, nominated, view);
            post_filter(profile, failure, &mut cycle, dry_run)
        }
        1 => CycleResult::Found { row: cycle.feasible[0], best: cycle.feasible.clone() },
        _ => match scored(profile, pod, &mut cycle, &view) {
            Err(error) => CycleResult::Error(error),
            Ok(scores) => {
                let best = pick::best(view.nodes, &cycle.feasible, &scores.totals);
                cycle.scores = Some(scores);
                let row = pick::pick(&best, chance.tie_break, chance.rng);
                CycleResult::Found { row, best }
            }
        },
    };
    cycle
}

impl Cycle {
    /// A cycle that found a node among the `best` without judging each node.
    pub(crate) fn found(row: Row, best: Vec<Row>) -> Self {
        Cycle { result: CycleResult::Found { row, best }, ..Cycle::new() }
    }

    /// A cycle that found no node, without judging each. `n_judged` nodes were judged in the original
    /// attempt.
    pub(crate) fn failed(failure: AttemptFailure, n_judged: usize) -> Self {
        let result = CycleResult::Unschedulable(Box::new(failure));
        Cycle { result, n_judged, ..Cycle::new() }
    }

    /// Runs PreFilter.
    pub(crate) fn prepare(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        view: &View<'_>,
    ) -> Result<Filters, PreFilterStop> {
        let lap = self.meter.start();
        let prepared = Filters::prepare(profile, pod, &mut self.shared, view, &mut self.meter);
        let status = prepared.as_ref().err().map_or(Status::Success, PreFilterStop::status);
        self.meter.stage(MeteredPoint::PreFilter, status, lap);
        prepared
    }

    /// Records the end of Filter, which began at `lap`. As in schedule_one.go,
    /// findNodesThatPassFilters: finding no node is not a failure of the point.
    pub(crate) fn filtered(&mut self, lap: Lap) {
        if self.meter.measures() {
            let error = error_of(&self.rejected);
            let status = if error.is_some() { Status::Error } else { Status::Success };
            self.meter.stage(MeteredPoint::Filter, status, lap);
        }
    }

    /// An empty cycle.
    pub(crate) fn new() -> Self {
        Cycle {
            result: CycleResult::Error(String::new()),
            feasible: Vec::new(),
            scores: None,
            rejected: Vec::new(),
            n_judged: 0,
            shared: CycleState::new(),
            meter: CycleMeter::default(),
        }
    }
}

pub(crate) fn error_of(rejected: &[NodeRejection]) -> Option<String> {
    let node = rejected.iter().find(|node| node.rejection.code == Code::Error)?;
    Some(format!("running {:?} filter plugin: {}", node.plugin, node.rejection))
}

/// The names of `rows`.
pub(crate) fn names(nodes: &Columns, rows: &[Row]) -> Vec<Str> {
    rows.iter().map(|&row| nodes.name_of(row).clone()).collect()
}
