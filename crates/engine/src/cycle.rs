//! The scheduling cycle: from a pod to a node, or to the reason why there is none.

use std::collections::BTreeSet;

use plimsoll_api::Str;
use plimsoll_framework::{
    Candidates, Code, Columns, CycleState, NodeRejection, NominatedPods, Nomination, PodChange,
    PodInfo, Point, PostFilterAnswer, Prepared, Rejection, Row, Verdict, View, WhatIf,
};
use rand::Rng;

use crate::diagnosis::{self, Cause};
use crate::pick::{self, Scores, TieBreak};
use crate::profile::{PluginIndex, Profile};
use crate::sample::{Sample, Turn};

/// What a cycle came to.
pub(crate) struct Cycle {
    pub(crate) result: CycleResult,
    /// The feasible nodes, ascending.
    pub(crate) feasible: Vec<Row>,
    /// Their scores; `None` where nothing was scored.
    pub(crate) scores: Option<Scores>,
    /// All nodes that were rejected.
    pub(crate) rejected: Vec<NodeRejection>,
    /// How many nodes were judged.
    pub(crate) n_judged: usize,
    /// What plugins shared.
    pub(crate) shared: CycleState,
}

/// The result of a cycle.
pub(crate) enum CycleResult {
    /// A node was found among the best.
    Found { row: Row, best: Vec<Row> },
    /// No node was found.
    Unschedulable(Box<Failure>),
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
#[derive(Debug, Default)]
pub(crate) struct Failure {
    pub(crate) reason: FailureReason,
    pub(crate) message: String,
    /// What decision records say instead of the message; see [`post_filter`].
    pub(crate) record: Option<String>,
    pub(crate) pre_filter: Option<(&'static str, Rejection)>,
    pub(crate) nomination: Option<Nomination>,
    /// Which PostFilter plugin made it.
    pub(crate) nominated_by: &'static str,
    /// Whether an earlier nomination is of no use any more.
    pub(crate) hopeless: bool,
    /// The plugins that rejected some node, or all.
    pub(crate) rejectors: BTreeSet<&'static str>,
    /// Those of them that wait for something outside.
    pub(crate) pending: BTreeSet<&'static str>,
}

/// Takes one pod through PreFilter, Filter, PostFilter and Score, top to bottom.
pub(crate) fn schedule(
    profile: &Profile,
    view: View<'_>,
    nominated: &NominatedPods,
    sample: &Sample,
    pod: &PodInfo,
    tie_break: TieBreak,
    rng: &mut impl Rng,
) -> Cycle {
    let mut cycle = Cycle::new();
    if view.nodes.is_empty() {
        cycle.result = CycleResult::Unschedulable(Box::new(no_nodes()));
        return cycle;
    }
    let filters = match Filters::prepare(profile, pod, &mut cycle.shared, &view) {
        Ok(filters) => filters,
        Err(stopped) => {
            cycle.result = match stopped {
                Stopped::Error(error) => CycleResult::Error(error),
                Stopped::Rejected(stopped) => {
                    let (failure, filters) = *stopped;
                    let (prepared, looked) = (filters.in_order(), filters.looked(profile));
                    let what_if = WhatIf::new(pod, &prepared, &looked, nominated, view);
                    post_filter(profile, failure, &mut cycle, what_if)
                }
            };
            return cycle;
        }
    };
    filters.judge(pod, view.nodes, nominated, sample, &mut cycle);
    if let Some(error) = error_of(&cycle.rejected) {
        cycle.result = CycleResult::Error(error);
        return cycle;
    }
    cycle.result = match cycle.feasible.len() {
        0 => {
            let failure = no_node_fits(view.nodes.len(), &filters, &cycle.rejected);
            let (prepared, looked) = (filters.in_order(), filters.looked(profile));
            let what_if = WhatIf::new(pod, &prepared, &looked, nominated, view);
            post_filter(profile, failure, &mut cycle, what_if)
        }
        1 => CycleResult::Found { row: cycle.feasible[0], best: cycle.feasible.clone() },
        _ => match score(profile, pod, &mut cycle, &view) {
            Err(error) => CycleResult::Error(error),
            Ok(scores) => {
                let best = pick::best(view.nodes, &cycle.feasible, &scores.totals);
                cycle.scores = Some(scores);
                CycleResult::Found { row: pick::pick(&best, tie_break, rng), best }
            }
        },
    };
    cycle
}

impl Cycle {
    fn new() -> Self {
        Cycle {
            result: CycleResult::Error(String::new()),
            feasible: Vec::new(),
            scores: None,
            rejected: Vec::new(),
            n_judged: 0,
            shared: CycleState::new(),
        }
    }
}

/// Why no node has to be judged.
enum Stopped {
    /// A plugin rejected the pod for all nodes; with the filters that looked at it, for what-ifs.
    Rejected(Box<(Failure, Filters)>),
    /// A plugin could not judge.
    Error(String),
}

/// The filters of a profile after they looked at one pod.
struct Filters {
    /// In the order in which they looked.
    prepared: Vec<(PluginIndex, Prepared)>,
    /// In the order in which they judge: name and place in `prepared`.
    order: Vec<(&'static str, usize)>,
    /// The only nodes worth judging, and the plugins that say so.
    candidates: Candidates,
    narrowed_by: BTreeSet<&'static str>,
}

impl Filters {
    /// Lets every filter look at the pod. As in runtime/framework.go, RunPreFilterPlugins: a rejection
    /// that preemption cannot resolve ends it; after another one the rest still look.
    fn prepare(
        profile: &Profile,
        pod: &PodInfo,
        shared: &mut CycleState,
        view: &View<'_>,
    ) -> Result<Self, Stopped> {
        let mut filters = Filters {
            prepared: Vec::new(),
            order: Vec::new(),
            candidates: Candidates::All,
            narrowed_by: BTreeSet::new(),
        };
        let mut rejected = None;
        for (index, _) in profile.indices(Point::PreFilter) {
            let plugin = profile.get(index);
            let Some(filter) = &plugin.points.filter else { continue };
            let prepared = filter.prepare(pod, shared, view);
            let why = prepared.rejection().cloned();
            filters.narrow(plugin.name, prepared.candidates());
            filters.prepared.push((index, prepared));
            if let Some(why) = why {
                match why.code {
                    Code::Error => {
                        let text = format!("running PreFilter plugin {:?}: {why}", plugin.name);
                        return Err(Stopped::Error(text));
                    }
                    Code::UnschedulableAndUnresolvable | Code::Pending => {
                        let blamed = BTreeSet::from([plugin.name]);
                        return Err(filters.stopped(profile, view, plugin.name, why, blamed));
                    }
                    Code::Unschedulable => rejected = Some((plugin.name, why)),
                }
            }
            if let Some(why) = filters.nowhere() {
                let blamed = filters.narrowed_by.clone();
                return Err(filters.stopped(profile, view, plugin.name, why, blamed));
            }
        }
        for (index, _) in profile.indices(Point::Filter) {
            filters.add_judge(profile, index, pod, shared, view);
        }
        if let Some((plugin, why)) = rejected {
            let mut blamed = filters.narrowed_by.clone();
            blamed.insert(plugin);
            return Err(filters.stopped(profile, view, plugin, why, blamed));
        }
        Ok(filters)
    }

    /// The pod is rejected for all nodes. As in schedule_one.go, findNodesThatFitPod, plugins that have
    /// narrowed the candidates may be `blamed`, too.
    fn stopped(
        mut self,
        profile: &Profile,
        view: &View<'_>,
        plugin: &'static str,
        why: Rejection,
        blamed: BTreeSet<&'static str>,
    ) -> Stopped {
        if self.order.is_empty() {
            let looked = self.prepared.iter().enumerate();
            self.order = looked.map(|(at, (index, _))| (profile.get(*index).name, at)).collect();
        }
        let mut failure = Failure {
            message: diagnosis::fit_error(view.nodes.len(), &Cause::PreFilter(&why)),
            rejectors: blamed,
            ..Failure::default()
        };
        if why.code == Code::Pending {
            failure.pending.insert(plugin);
        }
        failure.pre_filter = Some((plugin, why));
        Stopped::Rejected(Box::new((failure, self)))
    }

    fn add_judge(
        &mut self,
        profile: &Profile,
        index: PluginIndex,
        pod: &PodInfo,
        shared: &mut CycleState,
        view: &View<'_>,
    ) {
        let plugin = profile.get(index);
        let Some(filter) = &plugin.points.filter else { return };
        let known = self.prepared.iter().position(|(known, _)| *known == index);
        let at = known.unwrap_or_else(|| {
            self.prepared.push((index, filter.prepare(pod, shared, view)));
            self.prepared.len() - 1
        });
        self.order.push((plugin.name, at));
    }

    fn narrow(&mut self, plugin: &'static str, to: Candidates) {
        let Candidates::Only(names) = to else { return };
        self.narrowed_by.insert(plugin);
        self.candidates = Candidates::Only(match &self.candidates {
            Candidates::All => names,
            Candidates::Only(before) => before.intersection(&names).cloned().collect(),
        });
    }

    /// The rejection when no candidate is left.
    fn nowhere(&self) -> Option<Rejection> {
        match &self.candidates {
            Candidates::Only(names) if names.is_empty() => {
                let plugins: Vec<_> = self.narrowed_by.iter().copied().collect();
                Some(Rejection::unresolvable(match plugins.as_slice() {
                    [one] => format!("node(s) didn't satisfy plugin {one}"),
                    all => {
                        format!(
                            "node(s) didn't satisfy plugin(s) [{}] simultaneously",
                            all.join(" ")
                        )
                    }
                }))
            }
            _ => None,
        }
    }

    /// The names of those that looked.
    fn looked(&self, profile: &Profile) -> BTreeSet<&'static str> {
        self.prepared.iter().map(|&(index, _)| profile.get(index).name).collect()
    }

    fn in_order(&self) -> Vec<Prepared> {
        self.order.iter().map(|&(_, at)| self.prepared[at].1.clone()).collect()
    }

    /// Judges the nodes, all of them or until the sample is full.
    fn judge(
        &self,
        pod: &PodInfo,
        nodes: &Columns,
        nominated: &NominatedPods,
        sample: &Sample,
        cycle: &mut Cycle,
    ) {
        if let Some(row) = self.nominated_node(pod, nodes, nominated) {
            cycle.feasible = vec![row];
            cycle.n_judged = 1;
            return;
        }
        let candidates = self.candidate_rows(nodes);
        match sample.order(candidates.len()) {
            None => self.judge_all(pod, nodes, nominated, candidates, cycle),
            Some(turn) => {
                let rows = turn.rows.iter().filter(|row| candidates.binary_search(row).is_ok());
                let rows: Vec<Row> = rows.copied().collect();
                self.judge_in_turn(pod, nodes, nominated, &rows, &turn, cycle);
            }
        }
        cycle.feasible.sort_unstable();
        cycle.n_judged = cycle.feasible.len() + cycle.rejected.len();
        self.reject_others(nodes, cycle);
        cycle.rejected.sort_by_key(|node| node.row);
    }

    fn candidate_rows(&self, nodes: &Columns) -> Vec<Row> {
        match &self.candidates {
            Candidates::All => nodes.rows().collect(),
            Candidates::Only(names) => {
                nodes.rows().filter(|&row| names.contains(nodes.name_of(row))).collect()
            }
        }
    }

    /// Plugin by plugin, each over the rows that are left.
    fn judge_all(
        &self,
        pod: &PodInfo,
        nodes: &Columns,
        nominated: &NominatedPods,
        rows: Vec<Row>,
        cycle: &mut Cycle,
    ) {
        let mut left = rows;
        if !nominated.is_empty() {
            left.retain(|&row| match self.judge_with_nominated(pod, nodes, nominated, row) {
                None => true,
                Some(rejection) => {
                    cycle.rejected.push(rejection);
                    false
                }
            });
        }
        for &(plugin, at) in &self.order {
            let filter = &self.prepared[at].1;
            if filter.skips() {
                continue;
            }
            let mut passed = Vec::with_capacity(left.len());
            filter.judge(pod, nodes, &left, &mut |row, verdict| match verdict {
                Verdict::Pass => passed.push(row),
                Verdict::Fail(rejection) => {
                    cycle.rejected.push(NodeRejection { row, plugin, rejection });
                }
            });
            left = passed;
        }
        cycle.feasible = left;
    }

    /// Node by node from the start of the turn on, until enough nodes are feasible and one more is met.
    fn judge_in_turn(
        &self,
        pod: &PodInfo,
        nodes: &Columns,
        nominated: &NominatedPods,
        rows: &[Row],
        turn: &Turn<'_>,
        cycle: &mut Cycle,
    ) {
        for i in 0..rows.len() {
            let row = rows[(turn.start + i) % rows.len()];
            let rejection = self.judge_with_nominated(pod, nodes, nominated, row);
            match rejection.or_else(|| self.judge_row(pod, nodes, row)) {
                Some(rejection) => cycle.rejected.push(rejection),
                None if cycle.feasible.len() == turn.limit => return,
                None => cycle.feasible.push(row),
            }
        }
    }

    fn judge_row(&self, pod: &PodInfo, nodes: &Columns, row: Row) -> Option<NodeRejection> {
        self.order.iter().find_map(|&(plugin, at)| {
            match self.prepared[at].1.judge_one(pod, nodes, row) {
                Verdict::Pass => None,
                Verdict::Fail(rejection) => Some(NodeRejection { row, plugin, rejection }),
            }
        })
    }

    /// The node that was cleared for the pod, if it passes: then no other is looked at. As in
    /// schedule_one.go, evaluateNominatedNode.
    fn nominated_node(
        &self,
        pod: &PodInfo,
        nodes: &Columns,
        nominated: &NominatedPods,
    ) -> Option<Row> {
        let name = nominated.node_of(&pod.key)?;
        let row = nodes.rows().find(|&row| nodes.name_of(row) == name)?;
        let rejection = self.judge_with_nominated(pod, nodes, nominated, row);
        rejection.or_else(|| self.judge_row(pod, nodes, row)).is_none().then_some(row)
    }

    /// Why a node is rejected with the nominated pods on it that are ahead of the pod; `None` if it is
    /// not, or there are none.
    fn judge_with_nominated(
        &self,
        pod: &PodInfo,
        nodes: &Columns,
        nominated: &NominatedPods,
        row: Row,
    ) -> Option<NodeRejection> {
        let ahead = nominated.ahead_of(pod, nodes.name_of(row));
        if ahead.is_empty() {
            return None;
        }
        let (mut scratch, only) = (nodes.scratch(row), Row::from_index(0));
        let mut filters: Vec<Prepared> = self.in_order();
        for other in &ahead {
            scratch.place(only, other);
            for filter in &mut filters {
                filter.update(PodChange::Added(other), &scratch, only);
            }
        }
        let judged = self.order.iter().zip(&filters);
        judged.into_iter().find_map(|(&(plugin, _), filter)| {
            match filter.judge_one(pod, &scratch, only) {
                Verdict::Pass => None,
                Verdict::Fail(rejection) => Some(NodeRejection { row, plugin, rejection }),
            }
        })
    }

    /// Rejects the nodes that were no candidates, as kube-scheduler does.
    fn reject_others(&self, nodes: &Columns, cycle: &mut Cycle) {
        let Candidates::Only(names) = &self.candidates else { return };
        let plugins: Vec<&str> = self.narrowed_by.iter().copied().collect();
        let Some(&plugin) = self.narrowed_by.first() else { return };
        let text = format!("node(s) didn't satisfy plugin(s) [{}]", plugins.join(" "));
        let why = Rejection::unresolvable(text);
        let others = nodes.rows().filter(|&row| !names.contains(nodes.name_of(row)));
        cycle.rejected.extend(others.map(|row| NodeRejection {
            row,
            plugin,
            rejection: why.clone(),
        }));
    }
}

/// Stands for the rejection of a pod when there is no node at all: only a new node is worth another
/// attempt. kube-scheduler tries such a pod again and again after a backoff, to no avail.
pub(crate) const NO_NODE_REJECTOR: &str = "";

/// A plugin rejected the pod after its node was chosen (Reserve, Permit, PreBind). As in
/// schedule_one.go, the text speaks of that one node.
pub(crate) fn rejected_on_its_node(plugin: &'static str, why: &Rejection) -> Failure {
    let node = NodeRejection { row: Row::from_index(0), plugin, rejection: why.clone() };
    let mut failure =
        Failure { message: diagnosis::fit_error(1, &Cause::Nodes(&[node])), ..Failure::default() };
    failure.blame(plugin, why.code);
    failure
}

fn no_nodes() -> Failure {
    Failure {
        message: diagnosis::NO_NODES.to_owned(),
        rejectors: BTreeSet::from([NO_NODE_REJECTOR]),
        ..Failure::default()
    }
}

fn no_node_fits(n_nodes: usize, filters: &Filters, rejected: &[NodeRejection]) -> Failure {
    let mut failure = Failure {
        message: diagnosis::fit_error(n_nodes, &Cause::Nodes(rejected)),
        rejectors: filters.narrowed_by.clone(),
        ..Failure::default()
    };
    for node in rejected {
        failure.blame(node.plugin, node.rejection.code);
    }
    failure
}

impl Failure {
    /// Something went wrong.
    pub(crate) fn error(message: String) -> Self {
        let reason = FailureReason::SchedulerError;
        Failure { reason, message, ..Failure::default() }
    }

    fn blame(&mut self, plugin: &'static str, code: Code) {
        self.rejectors.insert(plugin);
        if code == Code::Pending {
            self.pending.insert(plugin);
        }
    }
}

fn error_of(rejected: &[NodeRejection]) -> Option<String> {
    let node = rejected.iter().find(|node| node.rejection.code == Code::Error)?;
    Some(format!("running {:?} filter plugin: {}", node.plugin, node.rejection))
}

/// Asks the PostFilter plugins. As in runtime/framework.go, RunPostFilterPlugins: what they say
/// without success is joined. The recorded decisions show an error of a plugin alone, where events and
/// conditions show it behind the reasons of the nodes.
fn post_filter(
    profile: &Profile,
    mut failure: Failure,
    cycle: &mut Cycle,
    what_if: WhatIf<'_>,
) -> CycleResult {
    if let Some((plugin, why)) = &failure.pre_filter {
        let all = what_if.view().nodes.rows();
        let reject = |row| NodeRejection { row, plugin, rejection: why.clone() };
        cycle.rejected = all.map(reject).collect();
    }
    let mut said = Vec::new();
    for (plugin, _) in profile.at(Point::PostFilter) {
        let Some(point) = &plugin.points.post_filter else { continue };
        match point.post_filter(what_if.pod(), &cycle.rejected, &what_if) {
            PostFilterAnswer::Nominated(nomination) => {
                failure.nomination = Some(nomination);
                failure.nominated_by = plugin.name;
                said.clear();
                break;
            }
            PostFilterAnswer::Unschedulable(reason) => said.push(reason.to_string()),
            PostFilterAnswer::Hopeless(reason) => {
                failure.hopeless = true;
                said.push(reason.to_string());
            }
            // As in schedule_one.go, schedulingCycle: an error here is told, but it is still for want of
            // a node that the pod is not scheduled.
            PostFilterAnswer::Error(reason) => {
                failure.record = Some(format!("postfilter error: {reason}"));
                said = vec![reason.to_string()];
                break;
            }
            PostFilterAnswer::Stop(reason) => {
                said = vec![reason.to_string()];
                break;
            }
        }
    }
    said.retain(|text| !text.is_empty());
    failure.message = diagnosis::with_post_filter(failure.message, &said.join(", "));
    CycleResult::Unschedulable(Box::new(failure))
}

fn score(
    profile: &Profile,
    pod: &PodInfo,
    cycle: &mut Cycle,
    view: &View<'_>,
) -> Result<Scores, String> {
    if !profile.scores() {
        return Ok(Scores::all_equal(cycle.feasible.len()));
    }
    let mut scores = Scores::new(cycle.feasible.len());
    for (plugin, weight) in profile.at(Point::Score) {
        let Some(point) = &plugin.points.score else { continue };
        if let Some(scored) = point.score(pod, &mut cycle.shared, view, &cycle.feasible) {
            scores.add(plugin.name, weight, &scored)?;
        }
    }
    Ok(scores)
}

/// The names of `rows`.
pub(crate) fn names(nodes: &Columns, rows: &[Row]) -> Vec<Str> {
    rows.iter().map(|&row| nodes.name_of(row).clone()).collect()
}
