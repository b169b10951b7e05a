//! Runs the filters of a profile for one pod: which nodes are feasible, and why the others are not.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use plimsoll_api::Str;
use plimsoll_framework::{
    Candidates, Code, Columns, CycleState, NodeRejection, NominatedPods, PodChange, PodInfo, Point,
    Prepared, Rejection, Row, Verdict, View,
};

use crate::cycle::{AttemptFailure, Cycle};
use crate::diagnosis::{self, FitErrorCause};
use crate::extenders::REJECTOR;
use crate::metrics::{CycleMeter, MeteredPoint, Status};
use crate::nominated_node::{NominatedNode, NominatedNodeJudge};
use crate::profile::{PluginIndex, Profile};
use crate::sample::{Sample, SampleOrder};
use crate::unit::Snapshot;

/// The filters of a profile after PreFilter for one pod.
pub(crate) struct Filters {
    /// In the order of PreFilter.
    prepared: Vec<(PluginIndex, Prepared)>,
    /// In the order of Filter: name and index in `prepared`.
    order: Vec<(&'static str, usize)>,
    /// The only nodes to judge, and the plugins that limit them.
    candidates: Candidates,
    narrowed_by: BTreeSet<&'static str>,
    /// Whether all filters run on a node even if one rejects it.
    run_all: bool,
}

/// Why no node is judged.
pub(crate) enum PreFilterStop {
    /// A plugin rejected the pod for all nodes; with the prepared filters, for preemption's dry runs.
    Rejected(Box<(AttemptFailure, Filters)>),
    /// A plugin could not judge.
    Error(String),
}

impl PreFilterStop {
    /// How PreFilter ended, for metrics.
    pub(crate) fn status(&self) -> Status {
        match self {
            PreFilterStop::Error(_) => Status::Error,
            PreFilterStop::Rejected(stopped) => match &stopped.0.pre_filter {
                Some((_, why)) => why.code.into(),
                None => Status::Unresolvable,
            },
        }
    }
}

impl Filters {
    /// Runs PreFilter of every filter. As in runtime/framework.go, RunPreFilterPlugins: a rejection
    /// that preemption cannot resolve ends it; after any other rejection the remaining plugins still
    /// run.
    pub(crate) fn prepare(
        profile: &Profile,
        pod: &PodInfo,
        shared: &mut CycleState,
        view: &View<'_>,
        meter: &mut CycleMeter,
    ) -> Result<Self, PreFilterStop> {
        let mut filters = Filters {
            prepared: Vec::new(),
            order: Vec::new(),
            candidates: Candidates::All,
            narrowed_by: BTreeSet::new(),
            run_all: profile.run_all_filters,
        };
        let mut rejected = None;
        for (index, _) in profile.indices(Point::PreFilter) {
            let plugin = profile.get(index);
            let Some(filter) = &plugin.points.filter else { continue };
            let lap = meter.start_plugin();
            let prepared = filter.prepare(pod, shared, view);
            let why = prepared.rejection().cloned();
            if !prepared.skips() {
                let status = why.as_ref().map_or(Status::Success, |why| why.code.into());
                meter.plugin(plugin.name, MeteredPoint::PreFilter, status, lap, 1);
                meter.evaluated(plugin.name, MeteredPoint::PreFilter, 1);
            }
            filters.narrow(plugin.name, prepared.candidates());
            filters.prepared.push((index, prepared));
            if let Some(why) = why {
                match why.code {
                    Code::Error => {
                        let text = format!("running PreFilter plugin {:?}: {why}", plugin.name);
                        return Err(PreFilterStop::Error(text));
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

    /// The names of the plugins that ran at PreFilter.
    pub(crate) fn looked(&self, profile: &Profile) -> BTreeSet<&'static str> {
        self.prepared.iter().map(|&(index, _)| profile.get(index).name).collect()
    }

    /// The filters in the order of Filter.
    pub(crate) fn in_order(&self) -> Vec<Prepared> {
        self.order.iter().map(|&(_, at)| self.prepared[at].1.clone()).collect()
    }

    /// The plugins that limit the nodes to judge.
    pub(crate) fn narrowed_by(&self) -> &BTreeSet<&'static str> {
        &self.narrowed_by
    }

    /// Judges all nodes, or nodes until the sample is full. If the pod has a nominated node that rejects
    /// it, `own` is that rejection.
    pub(crate) fn judge_all_nodes(
        &self,
        pod: &PodInfo,
        on: Snapshot<'_>,
        own: Option<NodeRejection>,
        sample: &Sample,
        cycle: &mut Cycle,
    ) {
        let Snapshot { view: View { nodes, .. }, nominated, .. } = on;
        let candidates = self.candidate_rows(on);
        match sample.order(candidates.len()) {
            None => self.judge_all(pod, nodes, nominated, candidates, cycle),
            Some(order) => {
                let rows = order.rows.iter().filter(|row| candidates.binary_search(row).is_ok());
                let rows: Vec<Row> = rows.copied().collect();
                self.judge_in_turn(pod, nodes, nominated, &rows, &order, cycle);
            }
        }
        cycle.feasible.sort_unstable();
        cycle.n_judged = cycle.feasible.len() + cycle.rejected.len();
        self.count_evaluations(cycle);
        let mut narrowed_by = self.narrowed_by.clone();
        if let Some(own) = own {
            if own.plugin != REJECTOR {
                narrowed_by.insert(own.plugin);
            }
            if cycle.rejected.iter().all(|node| node.row != own.row) {
                cycle.n_judged += 1;
                if cycle.feasible.binary_search(&own.row).is_err() {
                    cycle.rejected.push(own);
                }
            }
        }
        self.reject_others(on, &narrowed_by, cycle);
        cycle.rejected.sort_by_key(|node| node.row);
    }

    /// Counts on how many nodes each filter ran: those that it or a later filter rejects, and the
    /// feasible ones. A second run because of nominated pods is not counted.
    fn count_evaluations(&self, cycle: &mut Cycle) {
        if !cycle.meter.measures() {
            return;
        }
        let mut left = cycle.n_judged;
        let mut rejections = BTreeMap::<&str, usize>::new();
        for node in &cycle.rejected {
            *rejections.entry(node.plugin).or_default() += 1;
        }
        for &(plugin, at) in &self.order {
            if !self.prepared[at].1.skips() {
                cycle.meter.evaluated(plugin, MeteredPoint::Filter, left);
            }
            if !self.run_all {
                left = left.saturating_sub(rejections.get(plugin).copied().unwrap_or(0));
            }
        }
    }

    /// Rejects the pod for all nodes. As in schedule_one.go, findNodesThatFitPod, plugins that have
    /// limited the candidates may be `blamed`, too.
    fn stopped(
        mut self,
        profile: &Profile,
        view: &View<'_>,
        plugin: &'static str,
        why: Rejection,
        blamed: BTreeSet<&'static str>,
    ) -> PreFilterStop {
        if self.order.is_empty() {
            let looked = self.prepared.iter().enumerate();
            self.order = looked.map(|(at, (index, _))| (profile.get(*index).name, at)).collect();
        }
        let mut failure = AttemptFailure {
            message: diagnosis::fit_error(view.nodes.len(), &FitErrorCause::PreFilter(&why)),
            rejectors: blamed,
            ..AttemptFailure::default()
        };
        if why.code == Code::Pending {
            failure.pending.insert(plugin);
        }
        failure.pre_filter = Some((plugin, why));
        PreFilterStop::Rejected(Box::new((failure, self)))
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

    /// The rejection if no candidate is left.
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

    fn candidate_rows(&self, on: Snapshot<'_>) -> Vec<Row> {
        let mut rows = on.rows();
        if let Candidates::Only(names) = &self.candidates {
            rows.retain(|&row| names.contains(on.view.nodes.name_of(row)));
        }
        rows
    }

    /// Plugin by plugin, each over the remaining rows.
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
        if self.run_all {
            for row in left {
                match self.judge_row(pod, nodes, row) {
                    None => cycle.feasible.push(row),
                    Some(rejection) => cycle.rejected.push(rejection),
                }
            }
            return;
        }
        for &(plugin, at) in &self.order {
            let filter = &self.prepared[at].1;
            if filter.skips() {
                continue;
            }
            let mut passed = Vec::with_capacity(left.len());
            let (lap, n_before) = (cycle.meter.start_plugin(), cycle.rejected.len());
            filter.judge(pod, nodes, &left, &mut |row, verdict| match verdict {
                Verdict::Pass => passed.push(row),
                Verdict::Fail(rejection) => {
                    cycle.rejected.push(NodeRejection { row, plugin, rejection });
                }
            });
            // kube-scheduler measures node by node; here many are judged in one call.
            let status = match cycle.rejected.get(n_before) {
                Some(node) if passed.is_empty() => node.rejection.code.into(),
                _ => Status::Success,
            };
            cycle.meter.plugin(plugin, MeteredPoint::Filter, status, lap, left.len());
            left = passed;
        }
        cycle.feasible = left;
    }

    /// Node by node from the start of the order, until enough nodes are feasible and one more is found.
    fn judge_in_turn(
        &self,
        pod: &PodInfo,
        nodes: &Columns,
        nominated: &NominatedPods,
        rows: &[Row],
        order: &SampleOrder<'_>,
        cycle: &mut Cycle,
    ) {
        for i in 0..rows.len() {
            let row = rows[(order.start + i) % rows.len()];
            let rejection = self.judge_with_nominated(pod, nodes, nominated, row);
            match rejection.or_else(|| self.judge_row(pod, nodes, row)) {
                Some(rejection) => cycle.rejected.push(rejection),
                None if cycle.feasible.len() == order.limit => return,
                None => cycle.feasible.push(row),
            }
        }
    }

    /// Whether a pod passes on one node, with the nominated pods ahead of it and without them.
    pub(crate) fn pass(&self, pod: &PodInfo, on: Snapshot<'_>, row: Row) -> bool {
        let Snapshot { view: View { nodes, .. }, nominated, .. } = on;
        let is_candidate = match &self.candidates {
            Candidates::All => true,
            Candidates::Only(names) => names.contains(nodes.name_of(row)),
        };
        let rejection = || {
            let rejection = self.judge_with_nominated(pod, nodes, nominated, row);
            rejection.or_else(|| self.judge_row(pod, nodes, row))
        };
        is_candidate && rejection().is_none()
    }

    fn judge_row(&self, pod: &PodInfo, nodes: &Columns, row: Row) -> Option<NodeRejection> {
        let filters = self.order.iter().map(|&(plugin, at)| (plugin, &self.prepared[at].1));
        let (plugin, rejection) = self.rejection_by(filters, pod, nodes, row)?;
        Some(NodeRejection { row, plugin, rejection })
    }

    /// Why a node is rejected with its nominated pods of equal or higher priority; `None` if it is not
    /// rejected, or has no such pods.
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
        let filters = self.order.iter().map(|&(plugin, _)| plugin).zip(&filters);
        let (plugin, rejection) = self.rejection_by(filters, pod, &scratch, only)?;
        Some(NodeRejection { row, plugin, rejection })
    }

    /// Which of `filters` rejects the node in `row`, and why: the first rejection, or all of them
    /// merged.
    fn rejection_by<'f>(
        &self,
        filters: impl Iterator<Item = (&'static str, &'f Prepared)>,
        pod: &PodInfo,
        nodes: &Columns,
        row: Row,
    ) -> Option<(&'static str, Rejection)> {
        let mut rejections =
            filters.filter_map(|(plugin, filter)| match filter.judge_one(pod, nodes, row) {
                Verdict::Pass => None,
                Verdict::Fail(rejection) => Some((plugin, rejection)),
            });
        let first = rejections.next()?;
        Some(if self.run_all { rejections.fold(first, merge) } else { first })
    }

    /// Rejects the nodes that are not candidates, on behalf of the plugins `by`.
    fn reject_others(&self, on: Snapshot<'_>, by: &BTreeSet<&'static str>, cycle: &mut Cycle) {
        let Candidates::Only(names) = &self.candidates else { return };
        let nodes = on.view.nodes;
        let plugins: Vec<&str> = by.iter().copied().collect();
        let Some(&plugin) = self.narrowed_by.first() else { return };
        let text = format!("node(s) didn't satisfy plugin(s) [{}]", plugins.join(" "));
        let why = Rejection::unresolvable(text);
        let judged: BTreeSet<Row> = cycle.rejected.iter().map(|node| node.row).collect();
        let others = nodes
            .rows()
            .filter(|row| on.has(*row))
            .filter(|row| !names.contains(nodes.name_of(*row)) && !judged.contains(row));
        cycle.rejected.extend(others.map(|row| NodeRejection {
            row,
            plugin,
            rejection: why.clone(),
        }));
    }
}

/// Judges the nominated node of a pod by filters that were prepared for it.
pub(crate) struct ByFilters<'a> {
    pub(crate) filters: &'a Filters,
    pub(crate) pod: &'a PodInfo,
    pub(crate) on: Snapshot<'a>,
}

impl NominatedNodeJudge for ByFilters<'_> {
    type Node = Row;
    type Rejection = NodeRejection;
    type Error = Infallible;

    fn find(&self, name: &Str) -> Option<Row> {
        let nodes = self.on.view.nodes;
        nodes.rows().find(|&row| nodes.name_of(row) == name).filter(|&row| self.on.has(row))
    }

    fn judge(&mut self, row: Row) -> Result<NominatedNode, Infallible> {
        let &mut ByFilters { filters, pod, on } = self;
        let Snapshot { view: View { nodes, .. }, nominated, .. } = on;
        let rejection = filters.judge_with_nominated(pod, nodes, nominated, row);
        Ok(match rejection.or_else(|| filters.judge_row(pod, nodes, row)) {
            Some(error) if error.rejection.code == Code::Error => NominatedNode::None,
            Some(rejection) => NominatedNode::Rejected(rejection),
            None => NominatedNode::Passes(row),
        })
    }
}

/// Merges two rejections of one node: an error takes precedence; otherwise the more severe code with
/// its plugin, and all reasons. As in framework/interface.go, PluginToStatus.Merge.
pub(crate) fn merge<P>(
    (plugin, mut why): (P, Rejection),
    (other, more): (P, Rejection),
) -> (P, Rejection) {
    if why.code == Code::Error {
        return (plugin, why);
    }
    if more.code == Code::Error {
        return (other, more);
    }
    why.reasons.extend(more.reasons);
    if why.code < more.code {
        return (other, Rejection { code: more.code, reasons: why.reasons });
    }
    (plugin, why)
}
