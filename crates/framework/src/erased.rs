//! Typed plugins behind trait objects. Each wrapper owns its plugin and its state with their types, so there
//! is no downcast. A call judges a batch of rows, so the inner loop stays monomorphic.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use plimsoll_api::Str;

use crate::accelerate::{FilterByKey, ScoreByNode, ScoreOnDemand};
use crate::columns::{Columns, Row};
use crate::cycle_state::CycleState;
use crate::filter::{
    Candidates, Filter, LabelledNodes, PodChange, PreFilter, ShareFilterState, Update, Verdict,
};
use crate::parts::{ClusterPart, Feasible, NodePart, PodPart};
use crate::pod_info::PodInfo;
use crate::score::{Normalize, PreScore, Score, Scored, ShareScoreState};
use crate::status::{Code, Rejection};
use crate::verdict_key::{ByKey, VerdictKey};
use crate::view::View;

/// Any filter.
pub(crate) trait ErasedFilter: Send + Sync {
    fn prepare(&self, pod: &PodInfo, shared: &mut CycleState, view: &View<'_>) -> Prepared;
    fn applies(&self, pod: &PodInfo) -> bool;
}

/// A filter that has looked at one pod and the cluster.
pub(crate) trait Judge: Send + Sync {
    fn judge(
        &self,
        pod: &PodInfo,
        nodes: &Columns,
        rows: &[Row],
        out: &mut dyn FnMut(Row, Verdict),
    );
    fn update(&mut self, change: PodChange<'_>, nodes: &Columns, row: Row) -> Update;
    /// Whether [`Judge::update`] does anything.
    fn follows(&self) -> bool {
        true
    }
    fn candidates(&self) -> Candidates;
    /// See [`PreFilter::passes_only_on`].
    fn passes_only_on(&self) -> Option<Vec<Str>> {
        None
    }
    /// See [`PreFilter::passes_only_with`].
    fn passes_only_with(&self) -> Vec<LabelledNodes> {
        Vec::new()
    }
    /// See [`PreFilter::may_err`].
    fn may_err(&self) -> bool {
        true
    }
    /// See [`FilterByKey::key`].
    fn key(&self, _: &View<'_>) -> Option<VerdictKey> {
        None
    }
    /// See [`FilterByKey::exceptions`].
    fn exceptions(&self, _: &View<'_>) -> Vec<Row> {
        Vec::new()
    }
    /// See [`FilterByKey::may_keep`].
    fn may_keep(&self, _: &Columns, _: Row) -> bool {
        false
    }
    fn clone_box(&self) -> Box<dyn Judge>;
}

/// A filter that has looked at one pod and the cluster, and can judge nodes.
pub struct Prepared(PreparedFilter);

enum PreparedFilter {
    /// Every node passes.
    Pass,
    /// No node passes.
    Reject(Rejection),
    /// Nodes have to be judged.
    Judge(Box<dyn Judge>),
}

impl Prepared {
    /// A filter that skips the pod.
    pub fn skipped() -> Self {
        Prepared(PreparedFilter::Pass)
    }

    pub(crate) fn judging_by(judge: Box<dyn Judge>) -> Self {
        Prepared(PreparedFilter::Judge(judge))
    }

    /// Why the pod is rejected for all nodes, if it is.
    pub fn rejection(&self) -> Option<&Rejection> {
        match &self.0 {
            PreparedFilter::Reject(rejection) => Some(rejection),
            PreparedFilter::Pass | PreparedFilter::Judge(_) => None,
        }
    }

    /// Whether every node passes (Skip).
    pub fn skips(&self) -> bool {
        matches!(self.0, PreparedFilter::Pass)
    }

    /// The only nodes worth judging.
    pub fn candidates(&self) -> Candidates {
        match &self.0 {
            PreparedFilter::Judge(judge) => judge.candidates(),
            PreparedFilter::Pass | PreparedFilter::Reject(_) => Candidates::All,
        }
    }

    /// The names of the nodes outside of which all are rejected; `None` if any may pass.
    pub fn passes_only_on(&self) -> Option<Vec<Str>> {
        match &self.0 {
            PreparedFilter::Judge(judge) => judge.passes_only_on(),
            PreparedFilter::Pass | PreparedFilter::Reject(_) => None,
        }
    }

    /// Labels that a node must have so that it may pass, each with one of its values.
    pub fn passes_only_with(&self) -> Vec<LabelledNodes> {
        self.judging().map(Judge::passes_only_with).unwrap_or_default()
    }

    /// What the verdicts depend on beside the node; `None` if they cannot be remembered.
    pub fn key(&self, view: &View<'_>) -> Option<VerdictKey> {
        self.judging()?.key(view)
    }

    /// The nodes on which the verdict may differ from those for the same key.
    pub fn exceptions(&self, view: &View<'_>) -> Vec<Row> {
        self.judging().map(|judge| judge.exceptions(view)).unwrap_or_default()
    }

    /// Whether the verdict on a node may be remembered for the key.
    pub fn may_keep(&self, nodes: &Columns, row: Row) -> bool {
        self.judging().is_some_and(|judge| judge.may_keep(nodes, row))
    }

    /// Whether some node may get an [error](crate::Code::Error) in place of a verdict.
    pub fn may_err(&self) -> bool {
        match &self.0 {
            PreparedFilter::Judge(judge) => judge.may_err(),
            PreparedFilter::Reject(why) => why.code == Code::Error,
            PreparedFilter::Pass => false,
        }
    }

    /// Judges `rows`, real or scratch, and passes each verdict to `out`.
    pub fn judge(
        &self,
        pod: &PodInfo,
        nodes: &Columns,
        rows: &[Row],
        out: &mut dyn FnMut(Row, Verdict),
    ) {
        match &self.0 {
            PreparedFilter::Pass => {
                for &row in rows {
                    out(row, Verdict::Pass);
                }
            }
            PreparedFilter::Reject(why) => {
                for &row in rows {
                    out(row, Verdict::Fail(why.clone()));
                }
            }
            PreparedFilter::Judge(judge) => judge.judge(pod, nodes, rows, out),
        }
    }

    /// Judges one row.
    pub fn judge_one(&self, pod: &PodInfo, nodes: &Columns, row: Row) -> Verdict {
        let mut verdict = Verdict::Pass;
        self.judge(pod, nodes, &[row], &mut |_, found| verdict = found);
        verdict
    }

    /// Updates the state after a pod came to `row` or left it. [`Update::Rebuild`] means that the filter does not
    /// follow such changes. A dry run then uses the state as it is, as kube-scheduler does.
    pub fn update(&mut self, change: PodChange<'_>, nodes: &Columns, row: Row) -> Update {
        match &mut self.0 {
            PreparedFilter::Pass => Update::Exact,
            PreparedFilter::Reject(_) => Update::Rebuild,
            PreparedFilter::Judge(judge) => judge.update(change, nodes, row),
        }
    }

    /// Whether there is anything to [update](Self::update) when pods come and go.
    pub fn follows(&self) -> bool {
        self.judging().is_some_and(Judge::follows)
    }

    fn judging(&self) -> Option<&dyn Judge> {
        match &self.0 {
            PreparedFilter::Judge(judge) => Some(judge.as_ref()),
            PreparedFilter::Pass | PreparedFilter::Reject(_) => None,
        }
    }
}

impl Clone for Prepared {
    fn clone(&self) -> Self {
        Prepared(match &self.0 {
            PreparedFilter::Pass => PreparedFilter::Pass,
            PreparedFilter::Reject(rejection) => PreparedFilter::Reject(rejection.clone()),
            PreparedFilter::Judge(judge) => PreparedFilter::Judge(judge.clone_box()),
        })
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            PreparedFilter::Pass => "Prepared(every node passes)",
            PreparedFilter::Reject(_) => "Prepared(no node passes)",
            PreparedFilter::Judge(_) => "Prepared(judges nodes)",
        })
    }
}

/// A [`Filter`]: judges a pod and a node.
pub(crate) struct Local<P>(pub(crate) Arc<P>);

struct LocalJudge<P> {
    plugin: Arc<P>,
    shared: Arc<CycleState>,
    candidates: Candidates,
}

impl<P: Filter> ErasedFilter for Local<P> {
    fn applies(&self, pod: &PodInfo) -> bool {
        self.0.applies(pod.part::<P::Pod>())
    }
    fn prepare(&self, pod: &PodInfo, shared: &mut CycleState, _: &View<'_>) -> Prepared {
        let part = P::Pod::of(pod, shared);
        if !self.0.applies(part) {
            return Prepared(PreparedFilter::Pass);
        }
        Prepared(match self.0.candidates(part) {
            Err(rejection) => PreparedFilter::Reject(rejection),
            Ok(candidates) => PreparedFilter::Judge(Box::new(LocalJudge {
                plugin: self.0.clone(),
                shared: Arc::new(shared.clone()),
                candidates,
            })),
        })
    }
}

impl<P: Filter> Judge for LocalJudge<P> {
    fn judge(
        &self,
        pod: &PodInfo,
        nodes: &Columns,
        rows: &[Row],
        out: &mut dyn FnMut(Row, Verdict),
    ) {
        let pod = P::Pod::of(pod, &self.shared);
        for &row in rows {
            out(row, self.plugin.filter(pod, P::Node::at(nodes, row)));
        }
    }
    fn update(&mut self, _: PodChange<'_>, _: &Columns, _: Row) -> Update {
        Update::Exact
    }
    fn follows(&self) -> bool {
        false
    }
    fn candidates(&self) -> Candidates {
        self.candidates.clone()
    }
    fn clone_box(&self) -> Box<dyn Judge> {
        Box::new(LocalJudge {
            plugin: self.plugin.clone(),
            shared: self.shared.clone(),
            candidates: self.candidates.clone(),
        })
    }
}

/// A [`PreFilter`]: judges a state and a node.
pub(crate) struct Stateful<P: PreFilter> {
    plugin: Arc<P>,
    share: fn(&P, &P::State, &mut CycleState),
    by_key: Option<ByKey<P>>,
}

impl<P: PreFilter> Stateful<P> {
    pub(crate) fn new(plugin: Arc<P>) -> Self {
        Stateful { plugin, share: |_, _, _| {}, by_key: None }
    }

    pub(crate) fn sharing(plugin: Arc<P>) -> Self
    where
        P: ShareFilterState,
    {
        Stateful { plugin, share: P::share, by_key: None }
    }

    pub(crate) fn by_key(plugin: Arc<P>) -> Self
    where
        P: FilterByKey,
    {
        Stateful { by_key: Some(ByKey::new()), ..Stateful::new(plugin) }
    }
}

struct StatefulJudge<P: PreFilter> {
    plugin: Arc<P>,
    state: P::State,
    by_key: Option<ByKey<P>>,
}

impl<P: PreFilter> ErasedFilter for Stateful<P> {
    fn applies(&self, pod: &PodInfo) -> bool {
        self.plugin.applies(pod.part::<P::Pod>())
    }
    fn prepare(&self, pod: &PodInfo, shared: &mut CycleState, view: &View<'_>) -> Prepared {
        let part = P::Pod::of(pod, shared);
        if !self.plugin.applies(part) {
            return Prepared(PreparedFilter::Pass);
        }
        Prepared(match self.plugin.pre_filter(part, P::Cluster::of(view)) {
            Err(rejection) => PreparedFilter::Reject(rejection),
            Ok(None) => PreparedFilter::Pass,
            Ok(Some(state)) => {
                (self.share)(&self.plugin, &state, shared);
                PreparedFilter::Judge(Box::new(StatefulJudge {
                    plugin: self.plugin.clone(),
                    state,
                    by_key: self.by_key,
                }))
            }
        })
    }
}

impl<P: PreFilter> Judge for StatefulJudge<P> {
    fn judge(&self, _: &PodInfo, nodes: &Columns, rows: &[Row], out: &mut dyn FnMut(Row, Verdict)) {
        for &row in rows {
            out(row, self.plugin.filter(&self.state, P::Node::at(nodes, row)));
        }
    }
    fn update(&mut self, change: PodChange<'_>, nodes: &Columns, row: Row) -> Update {
        self.plugin.update(&mut self.state, change, P::Node::at(nodes, row))
    }
    fn candidates(&self) -> Candidates {
        self.plugin.candidates(&self.state)
    }
    fn passes_only_on(&self) -> Option<Vec<Str>> {
        self.plugin.passes_only_on(&self.state)
    }
    fn passes_only_with(&self) -> Vec<LabelledNodes> {
        self.plugin.passes_only_with(&self.state)
    }
    fn may_err(&self) -> bool {
        self.plugin.may_err(&self.state)
    }
    fn key(&self, view: &View<'_>) -> Option<VerdictKey> {
        (self.by_key?.key)(&self.plugin, &self.state, view)
    }
    fn exceptions(&self, view: &View<'_>) -> Vec<Row> {
        let exceptions = |by_key: ByKey<P>| (by_key.exceptions)(&self.plugin, &self.state, view);
        self.by_key.map(exceptions).unwrap_or_default()
    }
    fn may_keep(&self, nodes: &Columns, row: Row) -> bool {
        let may_keep = |by_key: ByKey<P>| (by_key.may_keep)(&self.plugin, &self.state, nodes, row);
        self.by_key.is_some_and(may_keep)
    }
    fn clone_box(&self) -> Box<dyn Judge> {
        let StatefulJudge { plugin, state, by_key } = self;
        let (plugin, state, by_key) = (plugin.clone(), state.clone(), *by_key);
        Box::new(StatefulJudge { plugin, state, by_key })
    }
}

/// Any score. [`score`](Self::score) returns the normalised scores of `rows` in their order, or `None` if the plugin
/// skips the pod. It calls `prepared` when a [`PreScore`] has its state, before it scores nodes.
pub(crate) trait ErasedScore: Send + Sync {
    fn score(
        &self,
        pod: &PodInfo,
        shared: &mut CycleState,
        view: &View<'_>,
        rows: &[Row],
        prepared: &mut dyn FnMut(),
    ) -> Option<Vec<Scored>>;
    fn applies(&self, pod: &PodInfo) -> bool;
    fn error(&self, _: &PodInfo) -> Option<String> {
        None
    }
    fn applies_in(&self, pod: &PodInfo, _: &View<'_>) -> bool {
        self.applies(pod)
    }
    fn is_constant(&self, _: &PodInfo, _: &View<'_>) -> bool {
        false
    }
    fn is_by_row(&self) -> bool {
        false
    }
    fn by_row(&self, _: &PodInfo, _: &View<'_>) -> ByRow {
        ByRow::Unsupported
    }
}

/// A score of a node that depends on no other node.
pub trait RowScore: Any + Send + Sync {
    /// The raw score of the node in `row`.
    fn raw(&self, pod: &PodInfo, nodes: &Columns, row: Row) -> i64;
    /// Whether another score of the same plugin gives every node the same raw score as long as nothing changes on the
    /// node; `None` if it is of another plugin. Both must be for the same pod.
    fn is_equal(&self, other: &dyn RowScore) -> Option<bool>;
}

/// Whether a plugin can score each node without the others.
pub enum ByRow {
    /// It cannot: the score of a node depends on others.
    Unsupported,
    /// It gives the pod no scores.
    Skips,
    /// It can, with these raw scores and this normalization.
    Scores(Box<dyn RowScore>, Normalize),
}

/// A [`Score`]: scores a pod and a node.
pub(crate) struct LocalScore<P>(pub(crate) Arc<P>);

impl<P: Score> LocalScore<P> {
    fn raw_of(&self, pod: &PodInfo, nodes: &Columns, row: Row) -> i64 {
        self.0.score(pod.part::<P::Pod>(), P::Node::at(nodes, row))
    }
}

impl<P: Score> RowScore for LocalScore<P> {
    fn raw(&self, pod: &PodInfo, nodes: &Columns, row: Row) -> i64 {
        self.raw_of(pod, nodes, row)
    }
    fn is_equal(&self, other: &dyn RowScore) -> Option<bool> {
        (other as &dyn Any).is::<Self>().then_some(true)
    }
}

impl<P: Score> ErasedScore for LocalScore<P> {
    fn score(
        &self,
        pod: &PodInfo,
        shared: &mut CycleState,
        view: &View<'_>,
        rows: &[Row],
        _prepared: &mut dyn FnMut(),
    ) -> Option<Vec<Scored>> {
        let part = P::Pod::of(pod, shared);
        if !self.0.applies(part) {
            return None;
        }
        let judge = |&row| Scored { row, score: self.0.score(part, P::Node::at(view.nodes, row)) };
        let mut scores: Vec<Scored> = rows.iter().map(judge).collect();
        P::NORMALIZE.apply(&mut scores);
        Some(scores)
    }
    fn applies(&self, pod: &PodInfo) -> bool {
        self.0.applies(pod.part::<P::Pod>())
    }
    fn error(&self, pod: &PodInfo) -> Option<String> {
        self.0.error(pod.part::<P::Pod>())
    }
    fn is_by_row(&self) -> bool {
        true
    }
    fn by_row(&self, pod: &PodInfo, _: &View<'_>) -> ByRow {
        match self.applies(pod) {
            true => ByRow::Scores(Box::new(LocalScore(self.0.clone())), P::NORMALIZE),
            false => ByRow::Skips,
        }
    }
}

/// A [`PreScore`]: scores a state and a node.
pub(crate) struct StatefulScore<P: PreScore> {
    plugin: Arc<P>,
    share: fn(&P, &P::State, &mut CycleState),
}

impl<P: PreScore> StatefulScore<P> {
    pub(crate) fn new(plugin: Arc<P>) -> Self {
        StatefulScore { plugin, share: |_, _, _| {} }
    }

    pub(crate) fn sharing(plugin: Arc<P>) -> Self
    where
        P: ShareScoreState,
    {
        StatefulScore { plugin, share: P::share }
    }
}

struct StateScore<P: PreScore> {
    plugin: Arc<P>,
    state: P::State,
}

impl<P: ScoreByNode> RowScore for StateScore<P> {
    fn raw(&self, _: &PodInfo, nodes: &Columns, row: Row) -> i64 {
        self.plugin.score(&self.state, row, P::Node::at(nodes, row))
    }
    fn is_equal(&self, other: &dyn RowScore) -> Option<bool> {
        let other: &Self = (other as &dyn Any).downcast_ref()?;
        Some(self.state == other.state)
    }
}

impl<P: PreScore> ErasedScore for StatefulScore<P> {
    fn score(
        &self,
        pod: &PodInfo,
        shared: &mut CycleState,
        view: &View<'_>,
        rows: &[Row],
        prepared: &mut dyn FnMut(),
    ) -> Option<Vec<Scored>> {
        let part = P::Pod::of(pod, shared);
        if !self.plugin.applies(part) || !self.plugin.applies_in(part, P::Cluster::of(view)) {
            return None;
        }
        let feasible = Feasible::new(view.nodes, rows);
        let state = self.plugin.pre_score(part, feasible, P::Cluster::of(view))?;
        prepared();
        let judge = |&row| Scored {
            row,
            score: self.plugin.score(&state, row, P::Node::at(view.nodes, row)),
        };
        let mut scores: Vec<Scored> = rows.iter().map(judge).collect();
        self.plugin.normalize(&state, &mut scores);
        (self.share)(&self.plugin, &state, shared);
        Some(scores)
    }
    fn applies(&self, pod: &PodInfo) -> bool {
        self.plugin.applies(pod.part::<P::Pod>())
    }
    fn applies_in(&self, pod: &PodInfo, view: &View<'_>) -> bool {
        let part = pod.part::<P::Pod>();
        self.plugin.applies(part) && self.plugin.applies_in(part, P::Cluster::of(view))
    }
    fn is_constant(&self, pod: &PodInfo, view: &View<'_>) -> bool {
        let part = pod.part::<P::Pod>();
        self.plugin.applies(part) && self.plugin.is_constant(part, P::Cluster::of(view))
    }
}

/// The scores of a [`ScoreByNode`], each without the other nodes. The plugin must apply to the pod.
pub(crate) fn by_node<P: ScoreByNode>(plugin: &Arc<P>, pod: &PodInfo, view: &View<'_>) -> ByRow {
    match plugin.state(pod.part::<P::Pod>(), P::Cluster::of(view)) {
        Some(state) => {
            let plugin = plugin.clone();
            ByRow::Scores(Box::new(StateScore { plugin, state }), Normalize::None)
        }
        None => ByRow::Skips,
    }
}

type RawFn = dyn Fn(&Columns, Row) -> i64 + Send + Sync;

/// The scores of a [`ScoreOnDemand`] for one pod.
pub struct OnDemand {
    raw: Box<RawFn>,
    /// How raw scores become 0 to 100.
    pub normalize: Normalize,
    /// An upper bound of the raw scores.
    pub highest: i64,
}

impl OnDemand {
    /// The raw score of the node in `row`.
    pub fn raw(&self, nodes: &Columns, row: Row) -> i64 {
        (self.raw)(nodes, row)
    }
}

/// The scores of a [`ScoreOnDemand`], which must apply to the pod; `None` if it gives none.
pub(crate) fn on_demand<P: ScoreOnDemand>(
    plugin: &Arc<P>,
    pod: &PodInfo,
    view: &View<'_>,
) -> Option<OnDemand> {
    let state = plugin.state(pod.part::<P::Pod>(), P::Cluster::of(view))?;
    let highest = plugin.highest(&state);
    let plugin = plugin.clone();
    let raw = move |nodes: &Columns, row| plugin.score(&state, row, P::Node::at(nodes, row));
    Some(OnDemand { raw: Box::new(raw), normalize: P::NORMALIZE, highest })
}
