//! The extension points of a plugin as the engine sees them: objects without type parameters.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{KindRef, Str};

use crate::binding::{
    Bind, Binding, Handle, Permission, Permit, Placement, PostBind, PreBind, Readiness, Reserve,
};
use crate::candidate_nodes::CandidateNode;
use crate::columns::Row;
use crate::cycle_state::NOTHING_SHARED;
use crate::describe::{AttemptEnd, Describe, Description, Scope};
use crate::enqueue::{Gate, PreEnqueue, QueueSort, QueuedPod, Requeue};
use crate::events::{Change, ClusterEvent, Hint};
pub use crate::judging_points::{FilterPoint, ScorePoint};
use crate::metrics::Descriptor;
use crate::parts::{ClusterPart, PodPart, Reads, StoreReads};
use crate::pod_groups::{
    GroupDryRun, GroupInCycle, GroupPlacement, GroupPostFilter, GroupPostFilterAnswer, GroupRemedy,
    PlacementFeasibility, PlacementFeasible, PlacementGenerate, PlacementProgress, PlacementScore,
    ProposedPlacement,
};
use crate::pod_info::PodInfo;
use crate::pod_set::PodSet;
pub use crate::point::Point;
use crate::post_filter::{
    AfterPostFilter, DryRun, NodeDryRun, NodeRejection, Nomination, PostFilter, PostFilterAnswer,
    PostFilterByNode, PreemptionCandidate, PreemptionCandidates,
};
use crate::provide::ProvidesResources;
use crate::sort_key::SortKey;
use crate::status::{Code, Reason, Rejection};
use crate::stores::Stores;
use crate::view::View;
use crate::writes::{Answered, ObjectWrite, WriteError};

type AppliesFn = dyn Fn(&PodInfo) -> bool + Send + Sync;
type PreEnqueueFn = dyn Fn(&PodInfo, &View<'_>) -> Gate + Send + Sync;

/// A PreEnqueue plugin of a profile.
pub struct PreEnqueuePoint {
    applies: Box<AppliesFn>,
    pre_enqueue: Box<PreEnqueueFn>,
    reads: Reads,
}

impl PreEnqueuePoint {
    pub(crate) fn new<P: PreEnqueue>(plugin: Arc<P>, reads: Reads) -> Self {
        let asked = plugin.clone();
        let applies =
            Box::new(move |pod: &PodInfo| asked.applies(P::Pod::of(pod, &NOTHING_SHARED)));
        let pre_enqueue = Box::new(move |pod: &PodInfo, view: &View<'_>| {
            plugin.pre_enqueue(P::Pod::of(pod, &NOTHING_SHARED), P::Cluster::of(view))
        });
        PreEnqueuePoint { applies, pre_enqueue, reads }
    }

    /// What it reads.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// Whether it may hold the pod back at all.
    pub fn applies(&self, pod: &PodInfo) -> bool {
        (self.applies)(pod)
    }

    /// Judges one pod. One to which it does not apply may enter.
    pub fn pre_enqueue(&self, pod: &PodInfo, view: &View<'_>) -> Gate {
        match self.applies(pod) {
            true => (self.pre_enqueue)(pod, view),
            false => Gate::Open,
        }
    }
}

type QueueSortFn = dyn Fn(&QueuedPod<'_>, &View<'_>) -> SortKey + Send + Sync;

/// The QueueSort plugin of a profile.
pub struct QueueSortPoint {
    key: Box<QueueSortFn>,
    reads: StoreReads,
}

impl QueueSortPoint {
    pub(crate) fn new<P: QueueSort>(plugin: Arc<P>) -> Self {
        QueueSortPoint::reading(plugin, StoreReads::empty())
    }

    pub(crate) fn reading<P: QueueSort>(plugin: Arc<P>, reads: StoreReads) -> Self {
        let key =
            move |pod: &QueuedPod<'_>, view: &View<'_>| SortKey::new(plugin.key_in(pod, view));
        QueueSortPoint { key: Box::new(key), reads }
    }

    /// The stores on which keys depend.
    pub fn reads(&self) -> StoreReads {
        self.reads
    }

    /// The sort key of a pod.
    pub fn key(&self, pod: &QueuedPod<'_>, view: &View<'_>) -> SortKey {
        (self.key)(pod, view)
    }
}

type HintFn = dyn Fn(&PodInfo, &Change<'_>) -> Hint + Send + Sync;

/// A plugin's own events and hints.
pub struct RequeuePoint {
    events: Vec<ClusterEvent>,
    hint: Box<HintFn>,
}

impl RequeuePoint {
    pub(crate) fn new<P: Requeue>(plugin: Arc<P>) -> Self {
        let events = plugin.events();
        RequeuePoint { events, hint: Box::new(move |pod, change| plugin.hint(pod, change)) }
    }

    /// The events that may help.
    pub fn events(&self) -> &[ClusterEvent] {
        &self.events
    }

    /// Whether this change may help this pod.
    pub fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        (self.hint)(pod, change)
    }
}

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

type DescribeFn = dyn Fn(&AttemptEnd<'_>, Scope, &mut Description) + Send + Sync;

type ProvideFn = dyn Fn(&View<'_>) -> BTreeSet<Str> + Send + Sync;

/// A plugin that says for which resources something else than the node stands.
#[derive(Clone)]
pub struct ProvidePoint {
    kinds: Vec<KindRef>,
    provide: Arc<ProvideFn>,
}

impl fmt::Debug for ProvidePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProvidePoint").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

impl ProvidePoint {
    pub(crate) fn new<P: ProvidesResources>(plugin: Arc<P>) -> Self {
        const { assert!(P::Objects::READS.nodes.is_empty(), "`Objects` must not read nodes") };
        let provide = Arc::new(move |view: &View<'_>| plugin.resources(P::Objects::of(view)));
        ProvidePoint { kinds: P::Objects::kinds(), provide }
    }

    /// The kinds of objects that it reads.
    pub fn kinds(&self) -> &[KindRef] {
        &self.kinds
    }

    /// The names of the resources.
    pub fn resources(&self, view: &View<'_>) -> BTreeSet<Str> {
        (self.provide)(view)
    }
}

/// A plugin that adds to the decision record.
pub struct DescribePoint(Box<DescribeFn>);

impl DescribePoint {
    pub(crate) fn new<P: Describe>(plugin: Arc<P>) -> Self {
        DescribePoint(Box::new(move |end, scope, to| plugin.describe(end, scope, to)))
    }

    /// Adds keys.
    pub fn describe(&self, end: &AttemptEnd<'_>, scope: Scope, to: &mut Description) {
        (self.0)(end, scope, to);
    }
}

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

/// The reservation of a plugin for a pod, with the plugin itself.
pub(crate) trait Hold: Send {
    fn unreserve(self: Box<Self>, at: &Placement<'_>, handle: &mut Handle<'_>);
    fn value(&self) -> &dyn Any;
}

/// The reservation of a plugin for one pod, held from Reserve to PostBind.
pub struct Held(Box<dyn Hold>);

impl Held {
    /// Gives it back.
    pub fn unreserve(self, at: &Placement<'_>, handle: &mut Handle<'_>) {
        self.0.unreserve(at, handle);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

/// A reservation of a plugin.
struct Reserved<P: Reserve>(Arc<P>, P::Reservation);

impl<P: Reserve> Hold for Reserved<P> {
    fn unreserve(self: Box<Self>, at: &Placement<'_>, handle: &mut Handle<'_>) {
        self.0.unreserve(self.1, at, handle);
    }
    fn value(&self) -> &dyn Any {
        &self.1
    }
}

type ReserveFn = dyn Fn(&Placement<'_>, &mut Handle<'_>) -> Result<Held, Rejection> + Send + Sync;

/// A Reserve plugin of a profile.
pub struct ReservePoint {
    applies: Box<AppliesFn>,
    reserve: Box<ReserveFn>,
}

impl ReservePoint {
    pub(crate) fn new<P: Reserve>(plugin: Arc<P>) -> Self {
        let asked = plugin.clone();
        let applies = Box::new(move |pod: &PodInfo| asked.applies(pod));
        let reserve = Box::new(move |at: &Placement<'_>, handle: &mut Handle<'_>| {
            let held = plugin.reserve(at, handle)?;
            Ok(Held(Box::new(Reserved(plugin.clone(), held))))
        });
        ReservePoint { applies, reserve }
    }

    /// Whether there is anything to reserve for the pod.
    pub fn applies(&self, pod: &PodInfo) -> bool {
        (self.applies)(pod)
    }

    /// Reserves what the pod needs.
    pub fn reserve(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Result<Held, Rejection> {
        (self.reserve)(at, handle)
    }
}

/// A PreBind plugin of a profile. If it also has Reserve, it is given its reservation.
pub struct PreBindPoint {
    plugin: Box<dyn ErasedPreBind>,
    /// Whether the plugin has Reserve. If so, it has nothing to do for a pod without a reservation.
    pub(crate) stands_at_reserve: bool,
    /// Whether it uses its reservation.
    needs_held: bool,
}

trait ErasedPreBind: Send + Sync {
    fn pre_bind(&self, held: &dyn Any, at: &Placement<'_>, handle: &mut Handle<'_>);
    fn ready(&self, held: &dyn Any, at: &Placement<'_>, handle: &mut Handle<'_>) -> Readiness;
    fn timeout(&self) -> Duration;
    fn timed_out(&self, held: &dyn Any) -> Rejection;
}

struct ByPreBind<P>(Arc<P>);

impl<P: PreBind> ByPreBind<P> {
    fn held(held: &dyn Any) -> &P::Held {
        held.downcast_ref().expect("the builder requires one type at Reserve and PreBind")
    }
}

impl<P: PreBind> ErasedPreBind for ByPreBind<P> {
    fn pre_bind(&self, held: &dyn Any, at: &Placement<'_>, handle: &mut Handle<'_>) {
        self.0.pre_bind(Self::held(held), at, handle);
    }
    fn ready(&self, held: &dyn Any, at: &Placement<'_>, handle: &mut Handle<'_>) -> Readiness {
        self.0.ready(Self::held(held), at, handle)
    }
    fn timeout(&self) -> Duration {
        self.0.timeout()
    }
    fn timed_out(&self, held: &dyn Any) -> Rejection {
        self.0.timed_out(Self::held(held))
    }
}

impl PreBindPoint {
    pub(crate) fn new<P: PreBind<Held = ()>>(plugin: Arc<P>) -> Self {
        PreBindPoint {
            plugin: Box::new(ByPreBind(plugin)),
            stands_at_reserve: false,
            needs_held: false,
        }
    }

    pub(crate) fn holding<P: PreBind<Held = P::Reservation> + Reserve>(plugin: Arc<P>) -> Self {
        PreBindPoint {
            plugin: Box::new(ByPreBind(plugin)),
            stands_at_reserve: true,
            needs_held: true,
        }
    }

    /// Whether there is anything to do for a pod with this reservation.
    pub fn applies(&self, held: Option<&Held>) -> bool {
        held.is_some() || !self.stands_at_reserve
    }

    /// Requests the writes before the pod is bound.
    pub fn pre_bind(&self, held: Option<&Held>, at: &Placement<'_>, handle: &mut Handle<'_>) {
        self.plugin.pre_bind(self.value(held), at, handle);
    }

    /// Whether the cluster is ready for the pod to be bound.
    pub fn ready(
        &self,
        held: Option<&Held>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Readiness {
        self.plugin.ready(self.value(held), at, handle)
    }

    /// How long to wait for that.
    pub fn timeout(&self) -> Duration {
        self.plugin.timeout()
    }

    /// Why the pod is not bound once that time is over.
    pub fn timed_out(&self, held: Option<&Held>) -> Rejection {
        self.plugin.timed_out(self.value(held))
    }

    fn value<'a>(&self, held: Option<&'a Held>) -> &'a dyn Any {
        held.filter(|_| self.needs_held).map_or(&(), |held| held.0.value())
    }
}

/// Handles the answers to the writes of a plugin.
pub struct AnsweredPoint(Box<dyn ErasedAnswered>);

trait ErasedAnswered: Send + Sync {
    fn placed(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection>;
    fn unplaced(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        pod: &PodInfo,
        view: &View<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection>;
}

struct ByAnswered<P>(Arc<P>);

impl<P: Answered> ErasedAnswered for ByAnswered<P> {
    fn placed(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        self.0.answered(write, answer, at, handle)
    }
    fn unplaced(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        pod: &PodInfo,
        view: &View<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        self.0.answered_without_node(write, answer, pod, view, handle)
    }
}

impl AnsweredPoint {
    pub(crate) fn new<P: Answered>(plugin: Arc<P>) -> Self {
        AnsweredPoint(Box::new(ByAnswered(plugin)))
    }

    /// Handles one answer.
    pub fn answered(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        self.0.placed(write, answer, at, handle)
    }

    /// A write of [`AfterPostFilter`] was answered.
    pub fn answered_without_node(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        pod: &PodInfo,
        view: &View<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        self.0.unplaced(write, answer, pod, view, handle)
    }
}

type PermitFn = dyn Fn(&Placement<'_>, &mut Handle<'_>) -> Permission + Send + Sync;

/// A Permit plugin of a profile.
pub struct PermitPoint {
    permit: Box<PermitFn>,
    waits_for: &'static str,
    looks_at_pods: bool,
    looks_at_node: bool,
}

impl PermitPoint {
    pub(crate) fn new<P: Permit>(plugin: Arc<P>) -> Self {
        PermitPoint {
            waits_for: plugin.waits_for(),
            looks_at_pods: plugin.looks_at_pods(),
            looks_at_node: plugin.looks_at_node(),
            permit: Box::new(move |at, handle| plugin.permit(at, handle)),
        }
    }

    /// Judges a pod.
    pub fn permit(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Permission {
        (self.permit)(at, handle)
    }

    /// What a pod waits for, if it waits.
    pub fn waits_for(&self) -> &'static str {
        self.waits_for
    }

    /// Whether the answer depends on which pods are on nodes, apart from those of groups.
    pub fn looks_at_pods(&self) -> bool {
        self.looks_at_pods
    }

    /// Whether the answer depends on the node of the pod.
    pub fn looks_at_node(&self) -> bool {
        self.looks_at_node
    }
}

type PlacementsFn = dyn Fn(&GroupInCycle<'_>, &[Row], &View<'_>) -> Result<Option<Vec<GroupPlacement>>, Reason>
    + Send
    + Sync;

/// A PlacementGenerate plugin of a profile.
pub struct PlacementGeneratePoint(Box<PlacementsFn>);

impl PlacementGeneratePoint {
    pub(crate) fn new<P: PlacementGenerate>(plugin: Arc<P>) -> Self {
        PlacementGeneratePoint(Box::new(move |group, all, view| {
            plugin.placements(group, all, view)
        }))
    }

    /// The placements of a group; `None` for that of all nodes.
    pub fn placements(
        &self,
        group: &GroupInCycle<'_>,
        all: &[Row],
        view: &View<'_>,
    ) -> Result<Option<Vec<GroupPlacement>>, Reason> {
        (self.0)(group, all, view)
    }
}

type ScorePlacementFn = dyn Fn(&GroupInCycle<'_>, &ProposedPlacement<'_>, &View<'_>) -> Result<i64, Reason>
    + Send
    + Sync;

type DescribePlacementFn =
    dyn Fn(&GroupInCycle<'_>, &ProposedPlacement<'_>, &View<'_>) -> Option<String> + Send + Sync;
type NormalizePlacementsFn = dyn Fn(&mut [i64]) -> Result<(), Reason> + Send + Sync;

/// A PlacementScore plugin of a profile.
pub struct PlacementScorePoint {
    score: Box<ScorePlacementFn>,
    describe: Box<DescribePlacementFn>,
    normalize: Box<NormalizePlacementsFn>,
    looks_at_nodes: bool,
}

impl PlacementScorePoint {
    pub(crate) fn new<P: PlacementScore>(plugin: Arc<P>) -> Self {
        let (scoring, describing) = (plugin.clone(), plugin.clone());
        PlacementScorePoint {
            looks_at_nodes: plugin.looks_at_nodes(),
            score: Box::new(move |group, proposed, view| {
                scoring.score_placement(group, proposed, view)
            }),
            describe: Box::new(move |group, proposed, view| {
                describing.describe_placement(group, proposed, view)
            }),
            normalize: Box::new(move |scores| plugin.normalize_placement_scores(scores)),
        }
    }

    /// The score of one placement.
    pub fn score(
        &self,
        group: &GroupInCycle<'_>,
        proposed: &ProposedPlacement<'_>,
        view: &View<'_>,
    ) -> Result<i64, Reason> {
        (self.score)(group, proposed, view)
    }

    /// Whether the score depends on which nodes of the placement the members are on.
    pub fn looks_at_nodes(&self) -> bool {
        self.looks_at_nodes
    }

    /// What people are told about a placement.
    pub fn describe(
        &self,
        group: &GroupInCycle<'_>,
        proposed: &ProposedPlacement<'_>,
        view: &View<'_>,
    ) -> Option<String> {
        (self.describe)(group, proposed, view)
    }

    /// Normalizes the scores of all placements.
    pub fn normalize(&self, scores: &mut [i64]) -> Result<(), Reason> {
        (self.normalize)(scores)
    }
}

type PlacementFeasibleFn =
    dyn Fn(&GroupInCycle<'_>, PlacementProgress) -> PlacementFeasibility + Send + Sync;

type MayStillFitFn = dyn Fn(&GroupInCycle<'_>, PlacementProgress) -> bool + Send + Sync;

/// A PlacementFeasible plugin of a profile.
pub struct PlacementFeasiblePoint {
    placement_feasible: Box<PlacementFeasibleFn>,
    may_still_fit: Box<MayStillFitFn>,
}

impl PlacementFeasiblePoint {
    pub(crate) fn new<P: PlacementFeasible>(plugin: Arc<P>) -> Self {
        let same = plugin.clone();
        PlacementFeasiblePoint {
            placement_feasible: Box::new(move |group, progress| {
                plugin.placement_feasible(group, progress)
            }),
            may_still_fit: Box::new(move |group, progress| same.may_still_fit(group, progress)),
        }
    }

    /// Whether the group fits or may fit with what remains.
    pub fn may_still_fit(&self, group: &GroupInCycle<'_>, progress: PlacementProgress) -> bool {
        (self.may_still_fit)(group, progress)
    }

    /// Whether the group fits with what is scheduled so far.
    pub fn placement_feasible(
        &self,
        group: &GroupInCycle<'_>,
        progress: PlacementProgress,
    ) -> PlacementFeasibility {
        (self.placement_feasible)(group, progress)
    }
}

type GroupPostFilterFn =
    dyn Fn(&GroupInCycle<'_>, &mut dyn GroupDryRun) -> GroupPostFilterAnswer + Send + Sync;

/// A plugin of a profile that makes room for groups.
#[derive(Clone)]
pub struct GroupPostFilterPoint(Arc<GroupPostFilterFn>);

impl GroupPostFilterPoint {
    pub(crate) fn new<P: GroupPostFilter>(plugin: Arc<P>) -> Self {
        GroupPostFilterPoint(Arc::new(move |group, dry_run| {
            plugin.group_post_filter(group, dry_run)
        }))
    }

    /// Chooses the pods to evict.
    pub fn group_post_filter(
        &self,
        group: &GroupInCycle<'_>,
        dry_run: &mut dyn GroupDryRun,
    ) -> GroupPostFilterAnswer {
        (self.0)(group, dry_run)
    }
}

type GroupRemedyFn =
    dyn Fn(&PodInfo, &View<'_>, Option<&mut Handle<'_>>) -> Option<Reason> + Send + Sync;

/// A plugin of a profile that does something for groups that do not fit.
#[derive(Clone)]
pub struct GroupRemedyPoint(Arc<GroupRemedyFn>);

impl GroupRemedyPoint {
    pub(crate) fn new<P: GroupRemedy>(plugin: Arc<P>) -> Self {
        GroupRemedyPoint(Arc::new(move |member, view, handle| {
            plugin.group_remedy(member, view, handle)
        }))
    }

    /// Does something for a member, and says what.
    pub fn group_remedy(
        &self,
        member: &PodInfo,
        view: &View<'_>,
        handle: Option<&mut Handle<'_>>,
    ) -> Option<Reason> {
        (self.0)(member, view, handle)
    }
}

type BindFn = dyn Fn(&Placement<'_>, &mut Handle<'_>) -> Option<Binding> + Send + Sync;

/// A Bind plugin of a profile.
pub struct BindPoint(Box<BindFn>);

impl BindPoint {
    pub(crate) fn new<P: Bind>(plugin: Arc<P>) -> Self {
        BindPoint(Box::new(move |at, handle| plugin.bind(at, handle)))
    }

    /// The binding to write; `None` leaves the pod to the next plugin.
    pub fn bind(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Option<Binding> {
        (self.0)(at, handle)
    }
}

type PostBindFn = dyn Fn(&Placement<'_>, &mut Handle<'_>) + Send + Sync;

/// A PostBind plugin of a profile.
pub struct PostBindPoint(Box<PostBindFn>);

impl PostBindPoint {
    pub(crate) fn new<P: PostBind>(plugin: Arc<P>) -> Self {
        PostBindPoint(Box::new(move |at, handle| plugin.post_bind(at, handle)))
    }

    /// Requests the writes after the pod is bound.
    pub fn post_bind(&self, at: &Placement<'_>, handle: &mut Handle<'_>) {
        (self.0)(at, handle);
    }
}

/// One plugin of one profile at all its points.
#[derive(Default)]
pub struct Points {
    /// What it reads as a filter.
    pub reads: Reads,
    /// The kinds of objects that it reads at PreEnqueue, PreFilter and Filter, where it may reject pods.
    pub waits_for: BTreeSet<KindRef>,
    /// The kinds of objects that it does not read although plugins of its type may
    /// ([`Builder::reads_if`](crate::Builder::reads_if)).
    pub unread: BTreeSet<KindRef>,
    /// At PreEnqueue.
    pub pre_enqueue: Option<PreEnqueuePoint>,
    /// The labels by which it groups pods.
    pub labels: Vec<&'static str>,
    /// At QueueSort.
    pub queue_sort: Option<QueueSortPoint>,
    /// At PreFilter and Filter.
    pub filter: Option<FilterPoint>,
    /// Whether the filter judges from pod and node alone. A hint can then be derived by calling it.
    pub filter_is_local: bool,
    /// At PostFilter.
    pub post_filter: Option<PostFilterPoint>,
    /// At PreScore and Score.
    pub score: Option<ScorePoint>,
    /// At Reserve.
    pub reserve: Option<ReservePoint>,
    /// At PreBind.
    pub pre_bind: Option<PreBindPoint>,
    /// At Permit.
    pub permit: Option<PermitPoint>,
    /// At Bind.
    pub bind: Option<BindPoint>,
    /// At PostBind.
    pub post_bind: Option<PostBindPoint>,
    /// Says whether a group fits.
    pub placement_feasible: Option<PlacementFeasiblePoint>,
    /// Makes room for groups.
    pub group_post_filter: Option<GroupPostFilterPoint>,
    /// Does something for groups that do not fit.
    pub group_remedy: Option<GroupRemedyPoint>,
    /// At PlacementGenerate.
    pub placement_generate: Option<PlacementGeneratePoint>,
    /// At PlacementScore.
    pub placement_score: Option<PlacementScorePoint>,
    /// Its own events and hints.
    pub requeue: Option<RequeuePoint>,
    /// Handles the answers to its writes.
    pub answered: Option<AnsweredPoint>,
    /// Adds to the decision record.
    pub describe: Option<DescribePoint>,
    /// Says for which resources something else than the node stands.
    pub provide: Option<ProvidePoint>,
    /// The metrics of its own.
    pub metrics: Vec<&'static Descriptor>,
}
