//! PostFilter as the engine sees it: as a whole, and node by node.

use std::sync::Arc;

use crate::binding::Handle;
use crate::candidate_nodes::CandidateNode;
use crate::columns::Row;
use crate::parts::{ClusterPart, StoreReads};
use crate::pod_info::PodInfo;
use crate::pod_set::PodSet;
use crate::post_filter::{
    AfterPostFilter, DryRun, NodeDryRun, NodeRejection, Nomination, PostFilter, PostFilterAnswer,
    PostFilterByNode, PreemptionCandidate, PreemptionCandidates,
};
use crate::status::{Code, Rejection};
use crate::stores::Stores;
use crate::view::View;

type PostFilterFn =
    dyn Fn(&PodInfo, &[NodeRejection], &DryRun<'_>) -> PostFilterAnswer + Send + Sync;

type CandidateNodesFn = dyn Fn(&PodInfo, &[NodeRejection], &DryRun<'_>) -> Result<Vec<CandidateNode>, PostFilterAnswer>
    + Send
    + Sync;

type ChooseFn = dyn Fn(&PodInfo, Result<&[CandidateNode], &str>) -> PostFilterAnswer + Send + Sync;

type WithoutNodesFn = dyn Fn(&PodInfo, bool) -> Option<PostFilterAnswer> + Send + Sync;

type WithoutRejectionsFn = dyn Fn(&PodInfo, &View<'_>) -> Option<PostFilterAnswer> + Send + Sync;

type AfterFn = dyn Fn(&PodInfo, Option<&Nomination>, &[NodeRejection], &View<'_>, &mut Handle<'_>)
    + Send
    + Sync;

/// A PostFilter plugin of a profile.
pub struct PostFilterPoint {
    whole: Box<PostFilterFn>,
    candidate_nodes: Box<CandidateNodesFn>,
    choose: Box<ChooseFn>,
    without_nodes: Box<WithoutNodesFn>,
    without_rejections: Box<WithoutRejectionsFn>,
    by_node: Option<Box<dyn ErasedByNode>>,
    after: Option<Box<AfterFn>>,
    is_told_only_if_asked: bool,
    reads: StoreReads,
}

impl PostFilterPoint {
    pub(crate) fn new<P: PostFilter>(plugin: Arc<P>) -> Self {
        let (asked, knowing) = (plugin.clone(), plugin.clone());
        let (searching, choosing) = (plugin.clone(), plugin.clone());
        PostFilterPoint {
            candidate_nodes: Box::new(move |pod, rejected, dry_run| {
                searching.candidate_nodes(pod, rejected, dry_run)
            }),
            choose: Box::new(move |pod, left| choosing.choose_candidate_node(pod, left)),
            whole: Box::new(move |pod, rejected, dry_run| {
                plugin.post_filter(pod, rejected, dry_run)
            }),
            without_nodes: Box::new(move |pod, looked| asked.without_nodes(pod, looked)),
            without_rejections: Box::new(move |pod, view| knowing.without_rejections(pod, view)),
            by_node: None,
            after: None,
            is_told_only_if_asked: false,
            reads: StoreReads::all(),
        }
    }

    pub(crate) fn reading<P: PostFilter>(plugin: Arc<P>, reads: StoreReads) -> Self {
        PostFilterPoint { reads, ..PostFilterPoint::new(plugin) }
    }

    pub(crate) fn by_nodes<P: PostFilterByNode>(plugin: Arc<P>) -> Self {
        let by_node: Box<dyn ErasedByNode> = Box::new(ByNode(plugin.clone()));
        let reads = by_node.reads();
        PostFilterPoint { by_node: Some(by_node), ..PostFilterPoint::reading(plugin, reads) }
    }

    /// The stores that it may read.
    pub fn reads(&self) -> StoreReads {
        self.reads
    }

    /// Looks for a way to make room.
    pub fn post_filter(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> PostFilterAnswer {
        (self.whole)(pod, rejected, dry_run)
    }

    /// The nodes that can be cleared, or the answer if extenders have no say in it.
    pub fn candidate_nodes(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> Result<Vec<CandidateNode>, PostFilterAnswer> {
        (self.candidate_nodes)(pod, rejected, dry_run)
    }

    /// Chooses among the nodes that extenders have left, or reports that an extender failed.
    pub fn choose_candidate_node(
        &self,
        pod: &PodInfo,
        left: Result<&[CandidateNode], &str>,
    ) -> PostFilterAnswer {
        (self.choose)(pod, left)
    }

    /// The answer, if it depends on no node.
    pub fn without_nodes(&self, pod: &PodInfo, has_looked: bool) -> Option<PostFilterAnswer> {
        (self.without_nodes)(pod, has_looked)
    }

    /// The answer, if it does not depend on why nodes were rejected.
    pub fn without_rejections(&self, pod: &PodInfo, view: &View<'_>) -> Option<PostFilterAnswer> {
        (self.without_rejections)(pod, view)
    }

    pub(crate) fn tell_after<P: AfterPostFilter>(&mut self, plugin: Arc<P>) {
        self.is_told_only_if_asked = plugin.only_if_asked();
        self.after = Some(Box::new(move |pod, nomination, rejected, view, handle| {
            plugin.after_post_filter(pod, nomination, rejected, view, handle);
        }));
    }

    /// Whether the plugin is told how an attempt without a node ended.
    pub fn is_told(&self) -> bool {
        self.after.is_some()
    }

    /// Whether it is told only if the PostFilter plugins before it did not end the run.
    pub fn is_told_only_if_asked(&self) -> bool {
        self.is_told_only_if_asked
    }

    /// Tells the plugin how an attempt without a node ended.
    pub fn after_post_filter(
        &self,
        pod: &PodInfo,
        nomination: Option<&Nomination>,
        rejected: &[NodeRejection],
        view: &View<'_>,
        handle: &mut Handle<'_>,
    ) {
        if let Some(after) = &self.after {
            after(pod, nomination, rejected, view, handle);
        }
    }

    /// The plugin as one that looks at nodes one by one, if it does.
    pub fn by_node(&self) -> Option<&dyn ErasedByNode> {
        self.by_node.as_deref()
    }

    /// The same, if it looks at nodes one by one in this cluster.
    pub fn by_node_on(&self, view: &View<'_>) -> Option<&dyn ErasedByNode> {
        self.by_node().filter(|by_node| by_node.looks_at_one_node(view))
    }
}

/// Any [`PostFilterByNode`].
pub trait ErasedByNode: Send + Sync {
    /// Whether what it takes to clear a node depends on the pods of no other node.
    fn looks_at_one_node(&self, view: &View<'_>) -> bool;
    /// What [`ErasedByNode::select_victims`] reads besides pod and node.
    fn reads(&self) -> StoreReads;
    /// The answer, if it can be given without a dry run on any node.
    fn without_dry_run(
        &self,
        pod: &PodInfo,
        nominated: Option<(Row, Code)>,
        view: &View<'_>,
    ) -> Option<PostFilterAnswer>;
    /// Why a node cannot be cleared, if the pods on it suffice to tell.
    fn early_rejection(&self, pod: &PodInfo, on_node: &PodSet) -> Option<Rejection>;
    /// What it takes to clear a node.
    fn select_victims(
        &self,
        pod: &PodInfo,
        node: &mut NodeDryRun<'_>,
        stores: &Stores,
    ) -> Result<PreemptionCandidate, Rejection>;
    /// Chooses a node, or says why there is none.
    fn choose(
        &self,
        pod: &PodInfo,
        nodes: &mut dyn PreemptionCandidates,
    ) -> Option<PostFilterAnswer>;
}

struct ByNode<P>(Arc<P>);

impl<P: PostFilterByNode> ErasedByNode for ByNode<P> {
    fn looks_at_one_node(&self, view: &View<'_>) -> bool {
        self.0.looks_at_one_node(view)
    }

    fn reads(&self) -> StoreReads {
        P::Cluster::READS.stores
    }
    fn without_dry_run(
        &self,
        pod: &PodInfo,
        nominated: Option<(Row, Code)>,
        view: &View<'_>,
    ) -> Option<PostFilterAnswer> {
        self.0.without_dry_run(pod, nominated, view)
    }
    fn early_rejection(&self, pod: &PodInfo, on_node: &PodSet) -> Option<Rejection> {
        self.0.early_rejection(pod, on_node)
    }
    fn select_victims(
        &self,
        pod: &PodInfo,
        node: &mut NodeDryRun<'_>,
        stores: &Stores,
    ) -> Result<PreemptionCandidate, Rejection> {
        self.0.select_victims(pod, node, stores)
    }
    fn choose(
        &self,
        pod: &PodInfo,
        nodes: &mut dyn PreemptionCandidates,
    ) -> Option<PostFilterAnswer> {
        self.0.choose(pod, nodes)
    }
}
