//! The extension points of a plugin as the engine sees them: objects without type parameters.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use plimsoll_api::{KindRef, Str};

pub use crate::binding_points::{
    AnsweredPoint, BindPoint, Held, PermitPoint, PostBindPoint, PreBindPoint, ReservePoint,
};
use crate::cycle_state::NOTHING_SHARED;
use crate::describe::{AttemptEnd, Describe, Description, Scope};
use crate::enqueue::{Gate, PreEnqueue, QueueSort, QueuedPod, Requeue};
use crate::events::{Change, ClusterEvent, Hint};
pub use crate::group_points::{
    GroupPostFilterPoint, GroupRemedyPoint, PlacementFeasiblePoint, PlacementGeneratePoint,
    PlacementScorePoint,
};
pub use crate::judging_points::{FilterPoint, ScorePoint};
use crate::metrics::Descriptor;
use crate::parts::{ClusterPart, PodPart, Reads, StoreReads};
use crate::pod_info::PodInfo;
pub use crate::point::Point;
pub use crate::post_filter_points::{ErasedByNode, PostFilterPoint};
use crate::provide::ProvidesResources;
use crate::sort_key::SortKey;
use crate::view::View;

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
