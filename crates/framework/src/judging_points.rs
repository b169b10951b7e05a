//! The points at which a plugin judges nodes, as the engine sees them: the rule and its acceleration.

use std::sync::Arc;

use crate::accelerate::{
    FilterByAmounts, FilterByCounts, FilterByKey, ScoreByAmounts, ScoreByCounts, ScoreByNode,
    ScoreOnDemand,
};
use crate::columns::{Columns, Row};
use crate::cycle_state::CycleState;
use crate::domains::{ByDomain, DomainFilter, DomainScore, Neighbours};
use crate::erased::{
    ByRow, ErasedFilter, ErasedScore, OnDemand, Prepared, Stateful, by_node, on_demand,
};
use crate::parts::{ClusterPart, ClusterReads, Reads};
use crate::pod_info::PodInfo;
use crate::score::{Normalize, Scored};
use crate::supply::{Needs, ScoreBound};
use crate::verdict_key::ConcernPoint;
use crate::view::View;

type NeedsFn = dyn Fn(&PodInfo) -> Option<Needs> + Send + Sync;
type BoundFn = dyn Fn(&PodInfo) -> Option<Box<dyn ScoreBound>> + Send + Sync;
type ByNodeFn = dyn Fn(&PodInfo, &View<'_>) -> ByRow + Send + Sync;
type OnDemandFn = dyn Fn(&PodInfo, &View<'_>) -> Option<OnDemand> + Send + Sync;
type ByDomainFn<T> = dyn Fn(&PodInfo, &View<'_>, Neighbours<'_>) -> ByDomain<T> + Send + Sync;

/// How a plugin judges by counts, and what it reads to do so.
struct ByCounts<T: ?Sized> {
    by_domain: Box<ByDomainFn<T>>,
    objects: ClusterReads,
}

/// A filter of a profile: its rule and its acceleration.
pub struct FilterPoint {
    rule: Box<dyn ErasedFilter>,
    shares: bool,
    by_amounts: Option<Box<NeedsFn>>,
    by_counts: Option<ByCounts<dyn DomainFilter>>,
    concerns: Option<ConcernPoint>,
}

impl FilterPoint {
    pub(crate) fn new(rule: Box<dyn ErasedFilter>) -> Self {
        FilterPoint { rule, shares: false, by_amounts: None, by_counts: None, concerns: None }
    }

    /// `rule` also shares what it learnt.
    pub(crate) fn share_state(&mut self, rule: Box<dyn ErasedFilter>) {
        (self.rule, self.shares) = (rule, true);
    }

    pub(crate) fn by_amounts<P: FilterByAmounts>(&mut self, plugin: Arc<P>) {
        self.by_amounts = Some(Box::new(move |pod| plugin.needs(pod.part::<P::Pod>())));
    }

    pub(crate) fn by_counts<P: FilterByCounts>(&mut self, plugin: Arc<P>) {
        const { assert!(P::Objects::READS.nodes.is_empty(), "`Objects` must not read nodes") };
        let by_domain = Box::new(move |pod: &PodInfo, view: &View<'_>, others: Neighbours<'_>| {
            plugin.by_domain(pod.part::<P::Pod>(), P::Objects::of(view), others)
        });
        self.by_counts = Some(ByCounts { by_domain, objects: P::Objects::READS });
    }

    /// # Panics
    /// If it shares what it learnt: it could not be asked for its key without doing so.
    pub(crate) fn by_key<P: FilterByKey>(&mut self, plugin: Arc<P>) {
        assert!(!self.shares, "a filter by key shares nothing");
        self.rule = Box::new(Stateful::by_key(plugin.clone()));
        self.concerns = Some(ConcernPoint::new(plugin));
    }

    /// Whether the plugin shares what it learns.
    pub fn shares_state(&self) -> bool {
        self.shares
    }

    /// On which nodes verdicts depend on objects, if they can be remembered by [key](Prepared::key).
    pub fn concerns(&self) -> Option<&ConcernPoint> {
        self.concerns.as_ref()
    }

    /// Whether the filter applies to the pod, judged by the pod alone.
    pub fn applies(&self, pod: &PodInfo) -> bool {
        self.rule.applies(pod)
    }

    /// The rule as amounts, if it can be stated so. The filter must [apply](Self::applies) to the pod. It cannot if the
    /// pod needs a resource for which something else than the node stands.
    pub fn needs(&self, pod: &PodInfo, nodes: &Columns) -> Option<Needs> {
        let needs = self.by_amounts.as_ref()?(pod)?;
        let provided = nodes.provided();
        let is_provided = |(name, _): &(plimsoll_api::Str, i64)| provided.contains(name);
        (provided.is_empty() || !needs.0.iter().any(is_provided)).then_some(needs)
    }

    /// What the filter reads to judge by counts, if it can.
    pub fn counts_by(&self) -> Option<ClusterReads> {
        self.by_counts.as_ref().map(|by_counts| by_counts.objects)
    }

    /// The rule as counts, if it can be stated so. The filter must [apply](Self::applies) to the pod.
    pub fn by_domain(
        &self,
        pod: &PodInfo,
        view: &View<'_>,
        neighbours: Neighbours<'_>,
    ) -> ByDomain<dyn DomainFilter> {
        match &self.by_counts {
            Some(by_counts) => (by_counts.by_domain)(pod, view, neighbours),
            None => ByDomain::Unsupported,
        }
    }

    /// Prepares the filter for a pod and the cluster.
    pub fn prepare(&self, pod: &PodInfo, shared: &mut CycleState, view: &View<'_>) -> Prepared {
        self.rule.prepare(pod, shared, view)
    }
}

/// A score of a profile: its rule and its acceleration.
pub struct ScorePoint {
    rule: Box<dyn ErasedScore>,
    shares: bool,
    reads: Reads,
    by_amounts: Option<Box<BoundFn>>,
    by_counts: Option<ByCounts<dyn DomainScore>>,
    by_node: Option<Box<ByNodeFn>>,
    on_demand: Option<Box<OnDemandFn>>,
}

impl ScorePoint {
    pub(crate) fn new(rule: Box<dyn ErasedScore>, reads: Reads) -> Self {
        ScorePoint {
            rule,
            shares: false,
            reads,
            by_amounts: None,
            by_counts: None,
            by_node: None,
            on_demand: None,
        }
    }

    /// `rule` also shares what it learnt.
    pub(crate) fn share_state(&mut self, rule: Box<dyn ErasedScore>) {
        (self.rule, self.shares) = (rule, true);
    }

    pub(crate) fn by_amounts<P: ScoreByAmounts>(&mut self, plugin: Arc<P>) {
        const { assert!(matches!(P::NORMALIZE, Normalize::None), "raw scores must be in range") };
        self.by_amounts = Some(Box::new(move |pod| plugin.bound(pod.part::<P::Pod>())));
    }

    pub(crate) fn by_counts<P: ScoreByCounts>(&mut self, plugin: Arc<P>) {
        const { assert!(P::Objects::READS.nodes.is_empty(), "`Objects` must not read nodes") };
        let by_domain = Box::new(move |pod: &PodInfo, view: &View<'_>, others: Neighbours<'_>| {
            plugin.by_domain(pod.part::<P::Pod>(), P::Objects::of(view), others)
        });
        self.by_counts = Some(ByCounts { by_domain, objects: P::Objects::READS });
    }

    pub(crate) fn by_node<P: ScoreByNode>(&mut self, plugin: Arc<P>) {
        self.by_node = Some(Box::new(move |pod, view| by_node(&plugin, pod, view)));
    }

    pub(crate) fn on_demand<P: ScoreOnDemand>(&mut self, plugin: Arc<P>) {
        const {
            let is_reversed = matches!(P::NORMALIZE, Normalize::Max { reverse: true });
            assert!(!is_reversed, "a higher raw score must not become a lower one");
        }
        self.on_demand = Some(Box::new(move |pod, view| on_demand(&plugin, pod, view)));
    }

    /// What it reads.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// Whether the plugin shares what it learns.
    pub fn shares_state(&self) -> bool {
        self.shares
    }

    /// Whether the score applies to the pod, judged by the pod alone.
    pub fn applies(&self, pod: &PodInfo) -> bool {
        self.rule.applies(pod)
    }

    /// Why the pod cannot be scored, judged by the pod alone.
    pub fn error(&self, pod: &PodInfo) -> Option<String> {
        self.rule.error(pod)
    }

    /// Whether the score applies to the pod, judged by the pod and by objects other than nodes.
    pub fn applies_in(&self, pod: &PodInfo, view: &View<'_>) -> bool {
        self.rule.applies_in(pod, view)
    }

    /// Whether the score has an influence on the choice, judged by the pod and by objects other than nodes: it applies,
    /// and nodes may get different scores.
    pub fn matters_in(&self, pod: &PodInfo, view: &View<'_>) -> bool {
        self.applies_in(pod, view) && !self.rule.is_constant(pod, view)
    }

    /// Whether the score of a node depends on no other node.
    pub fn is_by_row(&self) -> bool {
        self.by_node.is_some() || self.rule.is_by_row()
    }

    /// The scores, each without the other nodes, if the plugin can score so.
    pub fn by_row(&self, pod: &PodInfo, view: &View<'_>) -> ByRow {
        match &self.by_node {
            Some(by_node) if self.applies_in(pod, view) => by_node(pod, view),
            Some(_) => ByRow::Skips,
            None => self.rule.by_row(pod, view),
        }
    }

    /// Whether nodes can be scored one by one, as they are asked about.
    pub fn is_on_demand(&self) -> bool {
        self.on_demand.is_some()
    }

    /// The scores of single nodes; `None` if the plugin cannot score so, or gives the pod no scores.
    pub fn scores_on_demand(&self, pod: &PodInfo, view: &View<'_>) -> Option<OnDemand> {
        let on_demand = self.on_demand.as_ref().filter(|_| self.applies_in(pod, view))?;
        on_demand(pod, view)
    }

    /// An upper bound of the scores, if the plugin has one. The score must [apply](Self::applies) to the pod.
    pub fn bound(&self, pod: &PodInfo) -> Option<Box<dyn ScoreBound>> {
        self.by_amounts.as_ref()?(pod)
    }

    /// What the score reads to score by counts, if it can.
    pub fn counts_by(&self) -> Option<ClusterReads> {
        self.by_counts.as_ref().map(|by_counts| by_counts.objects)
    }

    /// The score by counts, if the plugin can score so. The score must [apply](Self::applies_in) to the pod.
    pub fn by_domain(
        &self,
        pod: &PodInfo,
        view: &View<'_>,
        neighbours: Neighbours<'_>,
    ) -> ByDomain<dyn DomainScore> {
        match &self.by_counts {
            Some(by_counts) => (by_counts.by_domain)(pod, view, neighbours),
            None => ByDomain::Unsupported,
        }
    }

    /// The normalised scores of `rows` in their order; `None` if the plugin skips the pod.
    pub fn score(
        &self,
        pod: &PodInfo,
        shared: &mut CycleState,
        view: &View<'_>,
        rows: &[Row],
    ) -> Option<Vec<Scored>> {
        self.score_in_steps(pod, shared, view, rows, &mut || {})
    }

    /// The same, and calls `prepared` after PreScore if the plugin has that point.
    pub fn score_in_steps(
        &self,
        pod: &PodInfo,
        shared: &mut CycleState,
        view: &View<'_>,
        rows: &[Row],
        prepared: &mut dyn FnMut(),
    ) -> Option<Vec<Scored>> {
        self.rule.score(pod, shared, view, rows, prepared)
    }
}
