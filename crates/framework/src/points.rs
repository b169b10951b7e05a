//! The extension points of a plugin as the engine sees them: objects without type parameters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::binding::{
    Bind, Binding, Handle, Patch, Permission, Permit, Placement, PostBind, PreBind, Readiness,
    Reserve, TIMED_OUT,
};
use crate::clearable::Clearable;
use crate::columns::{PodSet, Row};
use crate::cycle_state::NOTHING_SHARED;
use crate::enqueue::{Gate, PreEnqueue, QueueSort, QueuedPod, Requeue};
use crate::events::{Change, ClusterEvent, Hint};
pub use crate::judging_points::{FilterPoint, ScorePoint};
use crate::parts::{ClusterPart, PodPart, Reads, StoreReads};
use crate::pod_info::PodInfo;
use crate::post_filter::{
    Clearing, Clearings, NodeRejection, NodeWhatIf, PostFilter, PostFilterAnswer, PostFilterByNode,
    WhatIf,
};
use crate::sort_key::SortKey;
use crate::status::{Code, Rejection};
use crate::stores::Stores;
use crate::view::View;

/// The extension points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// May the pod enter the queue?
    PreEnqueue,
    /// The order of the queue.
    QueueSort,
    /// A look at pod and cluster before nodes are judged.
    PreFilter,
    /// May the pod run on this node?
    Filter,
    /// No node was found: can room be made?
    PostFilter,
    /// A look at the feasible nodes before they are scored.
    PreScore,
    /// How good is this node?
    Score,
    /// A node was chosen: hold what the pod needs.
    Reserve,
    /// May the pod be bound now?
    Permit,
    /// What must be done before binding.
    PreBind,
    /// Binds the pod.
    Bind,
    /// The pod is bound.
    PostBind,
}

impl Point {
    /// All points in the order in which a pod meets them.
    pub const ALL: [Point; 12] = [
        Point::PreEnqueue,
        Point::QueueSort,
        Point::PreFilter,
        Point::Filter,
        Point::PostFilter,
        Point::PreScore,
        Point::Score,
        Point::Reserve,
        Point::Permit,
        Point::PreBind,
        Point::Bind,
        Point::PostBind,
    ];

    /// Its place in [`Point::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name Kubernetes uses for it, such as `PreFilter`.
    pub fn as_str(self) -> &'static str {
        match self {
            Point::PreEnqueue => "PreEnqueue",
            Point::QueueSort => "QueueSort",
            Point::PreFilter => "PreFilter",
            Point::Filter => "Filter",
            Point::PostFilter => "PostFilter",
            Point::PreScore => "PreScore",
            Point::Score => "Score",
            Point::Reserve => "Reserve",
            Point::Permit => "Permit",
            Point::PreBind => "PreBind",
            Point::Bind => "Bind",
            Point::PostBind => "PostBind",
        }
    }
}

type PreEnqueueFn = dyn Fn(&PodInfo, &View<'_>) -> Gate + Send + Sync;

/// A PreEnqueue plugin of a profile.
pub struct PreEnqueuePoint {
    pre_enqueue: Box<PreEnqueueFn>,
    reads: Reads,
}

impl PreEnqueuePoint {
    pub(crate) fn new<P: PreEnqueue>(plugin: Arc<P>, reads: Reads) -> Self {
        let pre_enqueue = Box::new(move |pod: &PodInfo, view: &View<'_>| {
            plugin.pre_enqueue(P::Pod::of(pod, &NOTHING_SHARED), P::Cluster::of(view))
        });
        PreEnqueuePoint { pre_enqueue, reads }
    }

    /// What it reads.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// Judges one pod.
    pub fn pre_enqueue(&self, pod: &PodInfo, view: &View<'_>) -> Gate {
        (self.pre_enqueue)(pod, view)
    }
}

type QueueSortFn = dyn Fn(&QueuedPod<'_>) -> SortKey + Send + Sync;

/// The QueueSort plugin of a profile.
pub struct QueueSortPoint(Box<QueueSortFn>);

impl QueueSortPoint {
    pub(crate) fn new<P: QueueSort>(plugin: Arc<P>) -> Self {
        QueueSortPoint(Box::new(move |pod| SortKey::new(plugin.key(pod))))
    }

    /// Where a pod stands.
    pub fn key(&self, pod: &QueuedPod<'_>) -> SortKey {
        (self.0)(pod)
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

    /// Whether this change helps this pod.
    pub fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        (self.hint)(pod, change)
    }
}

type PostFilterFn =
    dyn Fn(&PodInfo, &[NodeRejection], &WhatIf<'_>) -> PostFilterAnswer + Send + Sync;

type ClearableFn = dyn Fn(&PodInfo, &[NodeRejection], &WhatIf<'_>) -> Result<Vec<Clearable>, PostFilterAnswer>
    + Send
    + Sync;

type ChooseFn = dyn Fn(&PodInfo, Result<&[Clearable], &str>) -> PostFilterAnswer + Send + Sync;

type WithoutNodesFn = dyn Fn(&PodInfo, bool) -> Option<PostFilterAnswer> + Send + Sync;

/// A PostFilter plugin of a profile.
pub struct PostFilterPoint {
    whole: Box<PostFilterFn>,
    clearable: Box<ClearableFn>,
    choose: Box<ChooseFn>,
    without_nodes: Box<WithoutNodesFn>,
    by_node: Option<Box<dyn ErasedByNode>>,
}

impl PostFilterPoint {
    pub(crate) fn new<P: PostFilter>(plugin: Arc<P>) -> Self {
        let asked = plugin.clone();
        let (searching, choosing) = (plugin.clone(), plugin.clone());
        PostFilterPoint {
            clearable: Box::new(move |pod, rejected, what_if| {
                searching.clearable(pod, rejected, what_if)
            }),
            choose: Box::new(move |pod, left| choosing.choose_clearable(pod, left)),
            whole: Box::new(move |pod, rejected, what_if| {
                plugin.post_filter(pod, rejected, what_if)
            }),
            without_nodes: Box::new(move |pod, looked| asked.without_nodes(pod, looked)),
            by_node: None,
        }
    }

    pub(crate) fn by_nodes<P: PostFilterByNode>(plugin: Arc<P>) -> Self {
        let by_node: Box<dyn ErasedByNode> = Box::new(ByNode(plugin.clone()));
        PostFilterPoint { by_node: Some(by_node), ..PostFilterPoint::new(plugin) }
    }

    /// Looks for a way to make room.
    pub fn post_filter(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        what_if: &WhatIf<'_>,
    ) -> PostFilterAnswer {
        (self.whole)(pod, rejected, what_if)
    }

    /// The nodes that can be cleared, or the answer in which extenders have no say.
    pub fn clearable(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        what_if: &WhatIf<'_>,
    ) -> Result<Vec<Clearable>, PostFilterAnswer> {
        (self.clearable)(pod, rejected, what_if)
    }

    /// Chooses among the nodes that extenders have left, or says that one failed.
    pub fn choose_clearable(
        &self,
        pod: &PodInfo,
        left: Result<&[Clearable], &str>,
    ) -> PostFilterAnswer {
        (self.choose)(pod, left)
    }

    /// The answer where it depends on no node.
    pub fn without_nodes(&self, pod: &PodInfo, has_looked: bool) -> Option<PostFilterAnswer> {
        (self.without_nodes)(pod, has_looked)
    }

    /// The plugin node by node, where it looks at nodes one by one.
    pub fn by_node(&self) -> Option<&dyn ErasedByNode> {
        self.by_node.as_deref()
    }
}

/// Any [`PostFilterByNode`].
pub trait ErasedByNode: Send + Sync {
    /// What [`ErasedByNode::clear`] reads beside pod and node.
    fn reads(&self) -> StoreReads;
    /// The answer where no node has to be cleared in thought.
    fn at_once(
        &self,
        pod: &PodInfo,
        nominated: Option<(Row, Code)>,
        view: &View<'_>,
    ) -> Option<PostFilterAnswer>;
    /// Why a node cannot be cleared, as far as the pods on it tell that.
    fn in_vain(&self, pod: &PodInfo, on_node: &PodSet) -> Option<Rejection>;
    /// What it takes to clear a node.
    fn clear(
        &self,
        pod: &PodInfo,
        node: &mut NodeWhatIf<'_>,
        stores: &Stores,
    ) -> Result<Clearing, Rejection>;
    /// Chooses a node, or says why there is none.
    fn choose(&self, pod: &PodInfo, nodes: &mut dyn Clearings) -> Option<PostFilterAnswer>;
}

struct ByNode<P>(Arc<P>);

impl<P: PostFilterByNode> ErasedByNode for ByNode<P> {
    fn reads(&self) -> StoreReads {
        P::READS
    }
    fn at_once(
        &self,
        pod: &PodInfo,
        nominated: Option<(Row, Code)>,
        view: &View<'_>,
    ) -> Option<PostFilterAnswer> {
        self.0.at_once(pod, nominated, view)
    }
    fn in_vain(&self, pod: &PodInfo, on_node: &PodSet) -> Option<Rejection> {
        self.0.in_vain(pod, on_node)
    }
    fn clear(
        &self,
        pod: &PodInfo,
        node: &mut NodeWhatIf<'_>,
        stores: &Stores,
    ) -> Result<Clearing, Rejection> {
        self.0.clear(pod, node, stores)
    }
    fn choose(&self, pod: &PodInfo, nodes: &mut dyn Clearings) -> Option<PostFilterAnswer> {
        self.0.choose(pod, nodes)
    }
}

/// What a plugin holds for a pod, with the plugin itself.
pub(crate) trait Hold: Send {
    fn unreserve(self: Box<Self>, at: &Placement<'_>, handle: &mut Handle<'_>);
    fn writes(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Vec<Patch>;
    fn ready(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Readiness;
    fn timeout(&self) -> Duration;
    fn timed_out(&self) -> Rejection;
}

/// What a plugin holds for one pod between Reserve and PostBind.
pub struct Held(Box<dyn Hold>);

impl Held {
    /// Gives it back.
    pub fn unreserve(self, at: &Placement<'_>, handle: &mut Handle<'_>) {
        self.0.unreserve(at, handle);
    }

    /// What to write before the pod is bound.
    pub fn writes(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Vec<Patch> {
        self.0.writes(at, handle)
    }

    /// Whether the world has caught up.
    pub fn ready(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Readiness {
        self.0.ready(at, handle)
    }

    /// How long to wait for that.
    pub fn timeout(&self) -> Duration {
        self.0.timeout()
    }

    /// Why the pod is not bound once that is over.
    pub fn timed_out(&self) -> Rejection {
        self.0.timed_out()
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

/// A reservation of a plugin that does nothing before binding.
struct Reserved<P: Reserve>(Arc<P>, P::Reservation);

impl<P: Reserve> Hold for Reserved<P> {
    fn unreserve(self: Box<Self>, at: &Placement<'_>, handle: &mut Handle<'_>) {
        self.0.unreserve(self.1, at, handle);
    }
    fn writes(&self, _: &Placement<'_>, _: &mut Handle<'_>) -> Vec<Patch> {
        Vec::new()
    }
    fn ready(&self, _: &Placement<'_>, _: &mut Handle<'_>) -> Readiness {
        Readiness::Ready
    }
    fn timeout(&self) -> Duration {
        Duration::ZERO
    }
    fn timed_out(&self) -> Rejection {
        Rejection::error(TIMED_OUT)
    }
}

/// A reservation of a plugin that has something to do before binding.
struct PreBound<P: PreBind>(Arc<P>, P::Reservation);

impl<P: PreBind> Hold for PreBound<P> {
    fn unreserve(self: Box<Self>, at: &Placement<'_>, handle: &mut Handle<'_>) {
        self.0.unreserve(self.1, at, handle);
    }
    fn writes(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Vec<Patch> {
        self.0.writes(&self.1, at, handle)
    }
    fn ready(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Readiness {
        self.0.ready(&self.1, at, handle)
    }
    fn timeout(&self) -> Duration {
        self.0.timeout()
    }
    fn timed_out(&self) -> Rejection {
        self.0.timed_out(&self.1)
    }
}

type ReserveFn = dyn Fn(&Placement<'_>, &mut Handle<'_>) -> Result<Held, Rejection> + Send + Sync;

/// A Reserve plugin of a profile, with its PreBind if it has one.
pub struct ReservePoint {
    applies: Box<dyn Fn(&PodInfo) -> bool + Send + Sync>,
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

    pub(crate) fn with_pre_bind<P: PreBind>(plugin: Arc<P>) -> Self {
        let asked = plugin.clone();
        let applies = Box::new(move |pod: &PodInfo| asked.applies(pod));
        let reserve = Box::new(move |at: &Placement<'_>, handle: &mut Handle<'_>| {
            let held = plugin.reserve(at, handle)?;
            Ok(Held(Box::new(PreBound(plugin.clone(), held))))
        });
        ReservePoint { applies, reserve }
    }

    /// Whether anything is to be held for the pod.
    pub fn applies(&self, pod: &PodInfo) -> bool {
        (self.applies)(pod)
    }

    /// Holds what the pod needs.
    pub fn reserve(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Result<Held, Rejection> {
        (self.reserve)(at, handle)
    }
}

type PermitFn = dyn Fn(&Placement<'_>, &mut Handle<'_>) -> Permission + Send + Sync;

/// A Permit plugin of a profile.
pub struct PermitPoint(Box<PermitFn>);

impl PermitPoint {
    pub(crate) fn new<P: Permit>(plugin: Arc<P>) -> Self {
        PermitPoint(Box::new(move |at, handle| plugin.permit(at, handle)))
    }

    /// Judges a pod.
    pub fn permit(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Permission {
        (self.0)(at, handle)
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

type PostBindFn = dyn Fn(&Placement<'_>, &mut Handle<'_>) -> Vec<Patch> + Send + Sync;

/// A PostBind plugin of a profile.
pub struct PostBindPoint(Box<PostBindFn>);

impl PostBindPoint {
    pub(crate) fn new<P: PostBind>(plugin: Arc<P>) -> Self {
        PostBindPoint(Box::new(move |at, handle| plugin.post_bind(at, handle)))
    }

    /// What to write now that the pod is bound.
    pub fn post_bind(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Vec<Patch> {
        (self.0)(at, handle)
    }
}

/// One plugin of one profile at all its points.
#[derive(Default)]
pub struct Points {
    /// What it reads as a filter.
    pub reads: Reads,
    /// At PreEnqueue.
    pub pre_enqueue: Option<PreEnqueuePoint>,
    /// At QueueSort.
    pub queue_sort: Option<QueueSortPoint>,
    /// At PreFilter and Filter.
    pub filter: Option<FilterPoint>,
    /// Whether the filter judges from pod and node alone, so that a hint can be had by asking it.
    pub filter_is_local: bool,
    /// At PostFilter.
    pub post_filter: Option<PostFilterPoint>,
    /// At PreScore and Score.
    pub score: Option<ScorePoint>,
    /// At Reserve and PreBind.
    pub reserve: Option<ReservePoint>,
    /// At Permit.
    pub permit: Option<PermitPoint>,
    /// At Bind.
    pub bind: Option<BindPoint>,
    /// At PostBind.
    pub post_bind: Option<PostBindPoint>,
    /// Its own events and hints.
    pub requeue: Option<RequeuePoint>,
}
