//! The scheduling cycle: from a pod to a node, or to the reason why there is none.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use plimsoll_api::Str;
use plimsoll_framework::points::PostFilterPoint;
use plimsoll_framework::{
    Code, Columns, CycleState, DryRun, NodeRejection, NominatedPods, Nomination, PodInfo, Point,
    PostFilterAnswer, Rejection, Row, View,
};
use rand::Rng;

use crate::diagnosis::{self, FitErrorCause};
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

/// The reason in the condition of a pod that could not be scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FailureReason {
    #[default]
    Unschedulable,
    SchedulerError,
}

impl FailureReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FailureReason::Unschedulable => "Unschedulable",
            FailureReason::SchedulerError => "SchedulerError",
        }
    }
}

/// Why an attempt failed. Without rejectors it is tried again after a backoff, whatever happens.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttemptFailure {
    pub(crate) reason: FailureReason,
    pub(crate) message: String,
    /// The text of decision records, if it differs from the message; see [`post_filter`].
    pub(crate) record: Option<String>,
    pub(crate) pre_filter: Option<(&'static str, Rejection)>,
    pub(crate) nomination: Option<Nomination>,
    /// The PostFilter plugin that made the nomination.
    pub(crate) nominated_by: &'static str,
    /// Whether an earlier nomination is no longer of use. As in schedule_one.go, schedulingCycle: if
    /// there is no node at all, after an error, and if there is no PostFilter plugin that could confirm
    /// it.
    pub(crate) hopeless: bool,
    /// The plugins that rejected some node or all nodes.
    pub(crate) rejectors: BTreeSet<&'static str>,
    /// Those of them that wait for an external change.
    pub(crate) pending: BTreeSet<&'static str>,
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

/// The rejector of a pod when there is no node at all: only a new node can help. kube-scheduler retries
/// such a pod after each backoff, in vain.
pub(crate) const NO_NODE_REJECTOR: &str = "";

/// The rejector of a pod that cannot be read: only a change of the pod itself can help.
pub(crate) const UNREADABLE_REJECTOR: &str = "Unreadable";

/// If a part of a pod cannot be read, it is unknown on which node it belongs. No plugin is called, so
/// no pods are evicted and no nodes are added for it.
fn unreadable(why: &str) -> AttemptFailure {
    AttemptFailure {
        reason: FailureReason::SchedulerError,
        message: format!("the pod cannot be read: {why}; correct the field, or delete the pod"),
        hopeless: true,
        rejectors: BTreeSet::from([UNREADABLE_REJECTOR]),
        ..AttemptFailure::default()
    }
}

/// A plugin rejected the pod after its node was chosen (Reserve, Permit, PreBind). As in
/// schedule_one.go, the message names only that one node.
pub(crate) fn rejected_on_its_node(plugin: &'static str, why: &Rejection) -> AttemptFailure {
    let node = NodeRejection { row: Row::from_index(0), plugin, rejection: why.clone() };
    let mut failure = AttemptFailure {
        message: diagnosis::fit_error(1, &FitErrorCause::Nodes(&[node])),
        ..AttemptFailure::default()
    };
    failure.blame(plugin, why.code);
    failure
}

pub(crate) fn no_nodes() -> AttemptFailure {
    AttemptFailure {
        message: diagnosis::NO_NODES.to_owned(),
        rejectors: BTreeSet::from([NO_NODE_REJECTOR]),
        hopeless: true,
        ..AttemptFailure::default()
    }
}

pub(crate) fn no_node_fits(
    n_nodes: usize,
    filters: &Filters,
    rejected: &[NodeRejection],
) -> AttemptFailure {
    let mut failure = AttemptFailure {
        message: diagnosis::fit_error(n_nodes, &FitErrorCause::Nodes(rejected)),
        rejectors: filters.narrowed_by().clone(),
        ..AttemptFailure::default()
    };
    for node in rejected {
        failure.blame(node.plugin, node.rejection.code);
    }
    failure
}

impl AttemptFailure {
    /// A failure because of an error.
    pub(crate) fn error(message: String) -> Self {
        let reason = FailureReason::SchedulerError;
        AttemptFailure { reason, message, hopeless: true, ..AttemptFailure::default() }
    }

    pub(crate) fn blame(&mut self, plugin: &'static str, code: Code) {
        self.rejectors.insert(plugin);
        if code == Code::Pending {
            self.pending.insert(plugin);
        }
    }

    /// Records the answer of a PostFilter plugin, and returns whether to call the next one.
    pub(crate) fn take_in(
        &mut self,
        plugin: &'static str,
        answer: PostFilterAnswer,
        said: &mut Vec<String>,
    ) -> ControlFlow<()> {
        match answer {
            PostFilterAnswer::Nominated(nomination) => {
                *said = vec![nomination.says.to_string()];
                self.nomination = Some(nomination);
                self.nominated_by = plugin;
                return ControlFlow::Break(());
            }
            PostFilterAnswer::Unschedulable(reason) => said.push(reason.to_string()),
            PostFilterAnswer::Hopeless(reason) => {
                self.hopeless = true;
                said.push(reason.to_string());
            }
            // As in schedule_one.go, schedulingCycle: the error is reported, but the pod still counts
            // as unschedulable because no node is feasible.
            PostFilterAnswer::Error(reason) => {
                self.record = Some(format!("postfilter error: {reason}"));
                self.hopeless = false;
                *said = vec![reason.to_string()];
                return ControlFlow::Break(());
            }
            PostFilterAnswer::Stop(reason) => {
                self.hopeless = false;
                *said = vec![reason.to_string()];
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Adds the messages of the PostFilter plugins of `profile`.
    pub(crate) fn conclude(&mut self, profile: &Profile, mut said: Vec<String>) {
        self.hopeless |= profile.at(Point::PostFilter).next().is_none();
        said.retain(|text| !text.is_empty());
        let message = std::mem::take(&mut self.message);
        self.message = diagnosis::with_post_filter(message, &said.join(", "));
    }
}

pub(crate) fn error_of(rejected: &[NodeRejection]) -> Option<String> {
    let node = rejected.iter().find(|node| node.rejection.code == Code::Error)?;
    Some(format!("running {:?} filter plugin: {}", node.plugin, node.rejection))
}

/// Runs the PostFilter plugins.
fn post_filter(
    profile: &Profile,
    failure: AttemptFailure,
    cycle: &mut Cycle,
    dry_run: DryRun<'_>,
) -> CycleResult {
    let shared = std::mem::take(&mut cycle.shared);
    let dry_run = dry_run.sharing(&shared);
    let ask = |_, point: &PostFilterPoint, rejected: &[NodeRejection]| {
        Ok::<_, Infallible>(point.post_filter(dry_run.pod(), rejected, &dry_run))
    };
    let Ok(result) = post_filter_by(profile, failure, cycle, &dry_run, ask);
    cycle.shared = shared;
    result
}

/// Runs the PostFilter plugins through `ask`, which gets the name of each plugin and the rejections. As
/// in runtime/framework.go, RunPostFilterPlugins: the messages of unsuccessful plugins are joined. The
/// recorded decisions contain only the error of a plugin, while events and conditions contain it after
/// the reasons of the nodes.
pub(crate) fn post_filter_by<E>(
    profile: &Profile,
    mut failure: AttemptFailure,
    cycle: &mut Cycle,
    dry_run: &DryRun<'_>,
    ask: impl Fn(&'static str, &PostFilterPoint, &[NodeRejection]) -> Result<PostFilterAnswer, E>,
) -> Result<CycleResult, E> {
    if let Some((plugin, why)) = &failure.pre_filter {
        let all = dry_run.view().nodes.rows();
        let reject = |row| NodeRejection { row, plugin, rejection: why.clone() };
        cycle.rejected = all.map(reject).collect();
    }
    let mut said = Vec::new();
    let all = cycle.meter.start();
    for (plugin, _) in profile.at(Point::PostFilter) {
        let Some(point) = &plugin.points.post_filter else { continue };
        let lap = cycle.meter.start_plugin();
        let answer = ask(plugin.name, point, &cycle.rejected)?;
        cycle.meter.plugin(plugin.name, MeteredPoint::PostFilter, answered(&answer), lap, 1);
        if failure.take_in(plugin.name, answer, &mut said).is_break() {
            break;
        }
    }
    let status = match failure.nomination {
        Some(_) => Status::Success,
        None => Status::Unschedulable,
    };
    if profile.at(Point::PostFilter).next().is_some() {
        cycle.meter.stage(MeteredPoint::PostFilter, status, all);
    }
    failure.conclude(profile, said);
    Ok(CycleResult::Unschedulable(Box::new(failure)))
}

fn answered(answer: &PostFilterAnswer) -> Status {
    match answer {
        PostFilterAnswer::Nominated(_) => Status::Success,
        PostFilterAnswer::Unschedulable(_) => Status::Unschedulable,
        PostFilterAnswer::Hopeless(_) | PostFilterAnswer::Stop(_) => Status::Unresolvable,
        PostFilterAnswer::Error(_) => Status::Error,
    }
}

pub(crate) fn scored(
    profile: &Profile,
    pod: &PodInfo,
    cycle: &mut Cycle,
    view: &View<'_>,
) -> Result<Scores, String> {
    if !profile.scores() {
        return Ok(Scores::all_equal(cycle.feasible.len()));
    }
    let lap = cycle.meter.start();
    let scores = score(profile, pod, cycle, view);
    let status = if scores.is_ok() { Status::Success } else { Status::Error };
    cycle.meter.all_scored(status, lap);
    scores
}

fn score(
    profile: &Profile,
    pod: &PodInfo,
    cycle: &mut Cycle,
    view: &View<'_>,
) -> Result<Scores, String> {
    if let Some(error) = score_error(profile, pod) {
        return Err(error);
    }
    let mut scores = Scores::new(cycle.feasible.len());
    if let Some(ranking) = profile.ranking() {
        for one in ranking.prioritize(pod, *view, &cycle.feasible) {
            scores.add_prioritized(one, ranking.most())?;
        }
        return Ok(scores);
    }
    for (plugin, weight) in profile.at(Point::Score) {
        let Some(point) = &plugin.points.score else { continue };
        let Cycle { meter, shared, feasible, .. } = cycle;
        let (began, mut prepared) = (meter.start(), Lap::default());
        let is_prepared = &mut || prepared = meter.start();
        if let Some(scored) = point.score_in_steps(pod, shared, view, feasible, is_prepared) {
            let n_nodes = cycle.feasible.len();
            cycle.meter.scored(plugin.name, (began, prepared), n_nodes);
            cycle.meter.evaluated(plugin.name, MeteredPoint::Score, n_nodes);
            if profile.at(Point::PreScore).any(|(other, _)| other.name == plugin.name) {
                cycle.meter.evaluated(plugin.name, MeteredPoint::PreScore, 1);
            }
            scores.add(plugin.name, weight, &scored)?;
        }
    }
    Ok(scores)
}

/// The error that prevents scoring of a pod on any node. As in runtime/framework.go, RunPreScorePlugins
/// and RunScorePlugins: the first error counts.
pub(crate) fn score_error(profile: &Profile, pod: &PodInfo) -> Option<String> {
    let at = |point| {
        profile.at(point).find_map(|(plugin, _)| {
            let error = plugin.points.score.as_ref()?.error(pod)?;
            Some((plugin.name, error))
        })
    };
    match at(Point::PreScore) {
        Some((name, error)) => Some(format!("running PreScore plugin {name:?}: {error}")),
        None => at(Point::Score).map(|(name, error)| {
            format!("running Score plugins: plugin {name:?} failed with: {error}")
        }),
    }
}

/// The names of `rows`.
pub(crate) fn names(nodes: &Columns, rows: &[Row]) -> Vec<Str> {
    rows.iter().map(|&row| nodes.name_of(row).clone()).collect()
}
