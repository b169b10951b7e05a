//! The scheduling cycle: from a pod to a node, or to the reason why there is none.
//!
//! [`SchedulingCycle::go_on`] makes its steps in order: PreFilter, the nominated node, Filter, the filters of
//! extenders, and then PostFilter, or Score with the scores of extenders. The cycle is a value. It stops
//! where an extender has not answered yet, and goes on there with the answer. That is exact only as long as
//! the cluster is the same; otherwise [`crate::extenders`] begins a new cycle. Without extenders a cycle
//! never stops: see [`schedule`].
//!
//! A cycle changes nothing but itself. What is done with its result is decided by whoever runs it. It knows
//! one [member](crate::unit) of a unit.

mod extender_steps;
mod failure;
mod post_filter;
mod score;

use std::fmt;
use std::ops::ControlFlow::{self, Break, Continue};

use plimsoll_api::Str;
use plimsoll_framework::points::PostFilterPoint;
use plimsoll_framework::{
    CandidateNode, Code, Columns, CycleState, DryRun, NodeRejection, PostFilterAnswer, Row,
};
use rand::Rng;

pub(crate) use self::extender_steps::{ExtenderSteps, FilterScope, NoExtenders, Stop};
pub(crate) use self::failure::{
    AttemptFailure, FailureReason, NO_NODE_REJECTOR, UNREADABLE_REJECTOR, rejected_on_its_node,
};
use self::failure::{no_node_fits, no_nodes, unreadable};
pub(crate) use self::post_filter::PostFilterRun;
pub(crate) use self::score::score_error;
use self::score::scored;
use crate::diagnosis::{self, FitErrorCause};
use crate::filters::{ByFilters, Filters, PreFilterStop};
use crate::metrics::{CycleMeter, Lap, MeteredPoint, Status};
use crate::nominated_node::{NominatedNode, try_nominated_node};
use crate::pick::{self, Scores, TieBreaker};
use crate::sample::Sample;
use crate::unit::{Member, Snapshot};

/// The result and the details of a cycle.
#[derive(Clone)]
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
    /// How many of the judged nodes were feasible, if that is known although they are not listed.
    pub(crate) n_feasible: Option<usize>,
    /// By how much the chosen node is better than the best other feasible one that was judged, if that is known, too.
    pub(crate) margin: Option<i64>,
    /// The state that plugins share.
    pub(crate) shared: CycleState,
    /// Its measurements.
    pub(crate) meter: CycleMeter,
}

/// The result of a cycle.
#[derive(Clone)]
pub(crate) enum CycleResult {
    /// A node was found among the best.
    Found { row: Row, best: Vec<Row> },
    /// No node was found.
    Unschedulable(Box<AttemptFailure>),
    /// It could not be judged.
    Error(String),
}

/// What a cycle decides from.
pub(crate) struct CycleInputs<'a, E> {
    pub(crate) member: Member<'a>,
    pub(crate) on: Snapshot<'a>,
    pub(crate) sample: &'a Sample,
    pub(crate) extenders: &'a E,
}

/// A cycle that is not over.
pub(crate) struct SchedulingCycle {
    /// What PreFilter has prepared, and the step that follows; `None` at the beginning.
    prepared: Option<(Filters, Step)>,
    /// The details so far.
    cycle: Cycle,
}

impl fmt::Debug for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cycle").finish_non_exhaustive()
    }
}

impl fmt::Debug for SchedulingCycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulingCycle").finish_non_exhaustive()
    }
}

/// The steps after PreFilter.
enum Step {
    /// Filter, with the nominated node first.
    Filter,
    /// The filters of extenders on the nominated node, which passes all plugins.
    NominatedNode(Row),
    /// The filters of extenders on all feasible nodes.
    FilterByExtenders,
    /// PostFilter. The candidates are those of the plugin that is being asked, before extenders have
    /// removed some.
    PostFilter(Box<PostFilterRun>, Option<Vec<CandidateNode>>),
    /// Score.
    Score,
}

/// A cycle that has stopped because of questions to extenders.
pub(crate) struct StoppedCycle<Q> {
    pub(crate) cycle: Box<SchedulingCycle>,
    pub(crate) questions: Q,
}

/// Runs a cycle without extenders.
pub(crate) fn schedule(
    member: Member<'_>,
    on: Snapshot<'_>,
    sample: &Sample,
    chance: &mut TieBreaker<'_, impl Rng>,
    meter: CycleMeter,
) -> Cycle {
    let inputs = CycleInputs { member, on, sample, extenders: &NoExtenders };
    match SchedulingCycle::new(meter).go_on(&inputs, chance) {
        Ok(cycle) => cycle,
        Err(stopped) => match stopped.questions {},
    }
}

impl SchedulingCycle {
    /// A cycle at its beginning.
    pub(crate) fn new(meter: CycleMeter) -> Self {
        SchedulingCycle { prepared: None, cycle: Cycle { meter, ..Cycle::new() } }
    }

    /// How many nodes were judged so far.
    pub(crate) fn n_judged(&self) -> usize {
        self.cycle.n_judged
    }

    /// Makes the next steps, up to the end or to questions to extenders. A cycle that has stopped must go
    /// on with an equal member on an equal snapshot.
    pub(crate) fn go_on<E: ExtenderSteps>(
        mut self,
        inputs: &CycleInputs<'_, E>,
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Result<Cycle, StoppedCycle<E::Questions>> {
        match self.make_steps(inputs, chance) {
            Ok(result) => Ok(Cycle { result, ..self.cycle }),
            Err(Stop::Error(error)) => {
                Ok(Cycle { result: CycleResult::Error(error), ..self.cycle })
            }
            Err(Stop::Ask(questions)) => Err(StoppedCycle { cycle: Box::new(self), questions }),
        }
    }

    fn make_steps<E: ExtenderSteps>(
        &mut self,
        inputs: &CycleInputs<'_, E>,
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Result<CycleResult, Stop<E::Questions>> {
        let cycle = &mut self.cycle;
        let (filters, step) = match &mut self.prepared {
            Some(prepared) => prepared,
            prepared => match inputs.pre_filter(cycle) {
                Continue(first) => prepared.insert(first),
                Break(result) => return Ok(result),
            },
        };
        loop {
            let next = match step {
                Step::Filter => inputs.filter(filters, cycle),
                Step::NominatedNode(row) => inputs.nominated_node(*row, filters, cycle)?,
                Step::FilterByExtenders => inputs.filter_by_extenders(filters, cycle)?,
                Step::PostFilter(run, candidates) => {
                    return inputs.post_filter(run, candidates, filters, cycle);
                }
                Step::Score => return inputs.score(cycle, chance),
            };
            match next {
                Continue(next) => *step = next,
                Break(result) => return Ok(result),
            }
        }
    }
}

impl<E: ExtenderSteps> CycleInputs<'_, E> {
    /// PreFilter of all plugins.
    fn pre_filter(&self, cycle: &mut Cycle) -> ControlFlow<CycleResult, (Filters, Step)> {
        let Member { profile, pod } = self.member;
        let view = self.on.view;
        if let Some(why) = &pod.unreadable {
            return Break(CycleResult::Unschedulable(Box::new(unreadable(why))));
        }
        if view.nodes.is_empty() {
            return Break(CycleResult::Unschedulable(Box::new(no_nodes())));
        }
        let lap = cycle.meter.start();
        let Cycle { shared, meter, .. } = cycle;
        let prepared = Filters::prepare(profile, pod, shared, &view, meter);
        let status = prepared.as_ref().err().map_or(Status::Success, PreFilterStop::status);
        cycle.meter.stage(MeteredPoint::PreFilter, status, lap);
        match prepared {
            Ok(filters) => Continue((filters, Step::Filter)),
            Err(PreFilterStop::Error(error)) => Break(CycleResult::Error(error)),
            Err(PreFilterStop::Rejected(stopped)) => {
                let (mut failure, filters) = *stopped;
                if let Some((plugin, why)) = &failure.pre_filter {
                    let n_nodes = self.on.n_nodes();
                    failure.message = diagnosis::fit_error(n_nodes, &FitErrorCause::PreFilter(why));
                    let reject = |row| NodeRejection { row, plugin, rejection: why.clone() };
                    cycle.rejected = self.on.rows().into_iter().map(reject).collect();
                }
                Continue((filters, Step::post_filter(failure)))
            }
        }
    }

    /// Filter on the nominated node of the pod, and on all nodes if it has none or that is rejected.
    fn filter(&self, filters: &Filters, cycle: &mut Cycle) -> ControlFlow<CycleResult, Step> {
        let lap = cycle.meter.start();
        let nominated = self.on.nominated;
        let (pod, on) = (self.member.pod, self.on);
        let judge = || ByFilters { filters, pod, on };
        let Ok(tried) = try_nominated_node(pod, nominated, judge);
        let own = match tried {
            NominatedNode::Passes(row) => {
                cycle.filtered(lap);
                return Continue(Step::NominatedNode(row));
            }
            NominatedNode::Rejected(rejection) => Some(rejection),
            NominatedNode::None => None,
        };
        self.filter_all(own, lap, filters, cycle)
    }

    /// The filters of extenders on the nominated node. If it passes, no other node is judged. An error here
    /// is not an error of the pod: see [`crate::nominated_node`].
    fn nominated_node(
        &self,
        row: Row,
        filters: &Filters,
        cycle: &mut Cycle,
    ) -> Result<ControlFlow<CycleResult, Step>, Stop<E::Questions>> {
        let (mut feasible, mut rejected) = (vec![row], Vec::new());
        let scope = FilterScope::NominatedNode;
        match self.extenders.filter(scope, self.on.view.nodes, &mut feasible, &mut rejected) {
            Ok(()) if !feasible.is_empty() => {
                (cycle.feasible, cycle.n_judged) = (vec![row], 1);
                return Ok(Break(CycleResult::Found { row, best: vec![row] }));
            }
            Ok(()) | Err(Stop::Error(_)) => {}
            Err(ask @ Stop::Ask(_)) => return Err(ask),
        }
        let lap = cycle.meter.start();
        Ok(self.filter_all(rejected.pop(), lap, filters, cycle))
    }

    /// Filter on all nodes. `own` is the rejection by the nominated node, `lap` the start.
    fn filter_all(
        &self,
        own: Option<NodeRejection>,
        lap: Lap,
        filters: &Filters,
        cycle: &mut Cycle,
    ) -> ControlFlow<CycleResult, Step> {
        filters.judge_all_nodes(self.member.pod, self.on, own, self.sample, cycle);
        cycle.filtered(lap);
        match error_of(&cycle.rejected) {
            Some(error) => Break(CycleResult::Error(error)),
            None => Continue(Step::FilterByExtenders),
        }
    }

    /// The filters of extenders on all feasible nodes. As in schedule_one.go, schedulePod: a single
    /// feasible node is not scored.
    fn filter_by_extenders(
        &self,
        filters: &Filters,
        cycle: &mut Cycle,
    ) -> Result<ControlFlow<CycleResult, Step>, Stop<E::Questions>> {
        let (nodes, Cycle { feasible, rejected, .. }) = (self.on.view.nodes, &mut *cycle);
        let passed = self.extenders.filter(FilterScope::AllNodes, nodes, feasible, rejected);
        if let Err(stop) = passed {
            if matches!(stop, Stop::Error(_)) {
                cycle.feasible.clear();
            }
            return Err(stop);
        }
        Ok(match cycle.feasible.as_slice() {
            [] => {
                let failure = no_node_fits(self.on.n_nodes(), filters, &cycle.rejected);
                Continue(Step::post_filter(failure))
            }
            &[row] => Break(CycleResult::Found { row, best: vec![row] }),
            _ => Continue(Step::Score),
        })
    }

    /// PostFilter. Extenders are asked about the candidates of a plugin before it chooses one.
    fn post_filter(
        &self,
        run: &mut PostFilterRun,
        candidates: &mut Option<Vec<CandidateNode>>,
        filters: &Filters,
        cycle: &mut Cycle,
    ) -> Result<CycleResult, Stop<E::Questions>> {
        if !self.on.asks_post_filter || !self.member.profile.asks_post_filter(self.member.pod) {
            return Ok(CycleResult::Unschedulable(Box::new(run.unasked())));
        }
        let Member { profile, pod } = self.member;
        let Snapshot { view, nominated, .. } = self.on;
        let (prepared, looked) = (filters.in_order(), filters.looked(profile));
        let dry_run = DryRun::new(pod, &prepared, &looked, nominated, view);
        let dry_run = dry_run.sharing(&cycle.shared);
        let rejected = &cycle.rejected;
        let ask = |plugin, point: &PostFilterPoint| match self.extenders.narrow_candidates() {
            true => self.narrowed(plugin, point, candidates, rejected, &dry_run),
            false => Ok(point.post_filter(pod, rejected, &dry_run)),
        };
        let failure = run.go_on(profile, &mut cycle.meter, ask)?;
        Ok(CycleResult::Unschedulable(Box::new(failure)))
    }

    /// The answer of a PostFilter plugin after extenders have removed some of its candidates.
    fn narrowed(
        &self,
        plugin: &'static str,
        point: &PostFilterPoint,
        candidates: &mut Option<Vec<CandidateNode>>,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> Result<PostFilterAnswer, Stop<E::Questions>> {
        let pod = self.member.pod;
        let all = match candidates.take() {
            Some(known) => known,
            None => match point.candidate_nodes(pod, rejected, dry_run) {
                Ok(found) => found,
                Err(answer) => return Ok(answer),
            },
        };
        match self.extenders.narrow(plugin, &all, dry_run.view()) {
            Ok(left) => Ok(point.choose_candidate_node(pod, Ok(&left))),
            Err(Stop::Error(error)) => Ok(point.choose_candidate_node(pod, Err(&error))),
            Err(ask @ Stop::Ask(_)) => {
                *candidates = Some(all);
                Err(ask)
            }
        }
    }

    /// Score, and the choice among the best.
    fn score(
        &self,
        cycle: &mut Cycle,
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Result<CycleResult, Stop<E::Questions>> {
        let nodes = self.on.view.nodes;
        let ranks = self.extenders.rank(nodes, &cycle.feasible)?;
        let mut scores = match scored(self.member, self.on.view, cycle) {
            Ok(scores) => scores,
            Err(error) => return Ok(CycleResult::Error(error)),
        };
        let most = self.member.profile.most_points();
        let best = self.extenders.best(ranks, most, nodes, &cycle.feasible, &mut scores);
        cycle.scores = Some(scores);
        let row = pick::pick(&best, chance.tie_break, chance.rng);
        Ok(CycleResult::Found { row, best })
    }
}

impl Step {
    fn post_filter(failure: AttemptFailure) -> Self {
        Step::PostFilter(Box::new(PostFilterRun::new(failure)), None)
    }
}

impl Cycle {
    /// A cycle that found a node among the `best` without judging each node.
    pub(crate) fn found(row: Row, best: Vec<Row>) -> Self {
        Cycle { result: CycleResult::Found { row, best }, ..Cycle::new() }
    }

    /// The same if no other node is feasible, or none was judged besides it.
    pub(crate) fn found_only(row: Row, n_judged: usize) -> Self {
        Cycle { n_judged, n_feasible: Some(1), ..Cycle::found(row, vec![row]) }
    }

    /// A cycle that found no node, without judging each. `n_judged` nodes were judged in the original
    /// attempt.
    pub(crate) fn failed(failure: AttemptFailure, n_judged: usize) -> Self {
        let result = CycleResult::Unschedulable(Box::new(failure));
        Cycle { result, n_judged, ..Cycle::new() }
    }

    /// Records the end of Filter, which began at `lap`. As in schedule_one.go,
    /// findNodesThatPassFilters: finding no node is not a failure of the point.
    fn filtered(&mut self, lap: Lap) {
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
            n_feasible: None,
            margin: None,
            shared: CycleState::new(),
            meter: CycleMeter::default(),
        }
    }
}

fn error_of(rejected: &[NodeRejection]) -> Option<String> {
    let node = rejected.iter().find(|node| node.rejection.code == Code::Error)?;
    Some(filter_error(node))
}

/// What is said if a filter could not judge a node.
pub(crate) fn filter_error(node: &NodeRejection) -> String {
    format!("running {:?} filter plugin: {}", node.plugin, node.rejection)
}

/// The names of `rows`.
pub(crate) fn names(nodes: &Columns, rows: &[Row]) -> Vec<Str> {
    rows.iter().map(|&row| nodes.name_of(row).clone()).collect()
}
