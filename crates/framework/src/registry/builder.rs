//! How the entry of a plugin is made, point by point.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::{Kind, KindRef};
use serde::Serialize;
use serde_json::Value;

use super::{ArgsError, Entry, Speed};
use crate::accelerate::{
    FilterByAmounts, FilterByCounts, FilterByKey, ScoreByAmounts, ScoreByCounts, ScoreByNode,
    ScoreOnDemand,
};
use crate::args::{ArgsFault, ArgsForm, ArgsWriter, valid};
use crate::binding::{Bind, Permit, PostBind, PreBind, Reserve};
use crate::describe::Describe;
use crate::enqueue::{PreEnqueue, QueueSort, Requeue};
use crate::erased::{Local, LocalScore, Stateful, StatefulScore};
use crate::filter::{Filter, PreFilter, ShareFilterState};
use crate::metrics::Descriptor;
use crate::parts::{ClusterPart, ClusterReads, NodePart, PodPart, Reads};
use crate::plugin::{FeatureGates, Plugin};
use crate::pod_groups::{
    GroupPostFilter, GroupRemedy, PlacementFeasible, PlacementGenerate, PlacementScore,
};
use crate::points::{
    AnsweredPoint, BindPoint, DescribePoint, FilterPoint, GroupPostFilterPoint, GroupRemedyPoint,
    PermitPoint, PlacementFeasiblePoint, PlacementGeneratePoint, PlacementScorePoint, Point,
    Points, PostBindPoint, PostFilterPoint, PreBindPoint, PreEnqueuePoint, ProvidePoint,
    QueueSortPoint, RequeuePoint, ReservePoint, ScorePoint,
};
use crate::post_filter::{AfterPostFilter, PostFilter, PostFilterByNode};
use crate::provide::ProvidesResources;
use crate::score::{PreScore, Score, ShareScoreState};
use crate::writes::{Answered, WriteVerbs};

type Add<P> = Box<dyn Fn(&Arc<P>, &mut Points) + Send + Sync>;

/// Builds an [`Entry`].
pub struct Builder<P> {
    add: Vec<Add<P>>,
    accelerate: Vec<Add<P>>,
    points: BTreeSet<Point>,
    reads: Reads,
    kinds: BTreeSet<KindRef>,
    writes: BTreeMap<KindRef, WriteVerbs>,
    metrics: Vec<&'static Descriptor>,
    shown: Option<ArgsWriter>,
}

impl<P: Plugin> Builder<P> {
    pub(super) fn new() -> Self {
        Builder {
            add: Vec::new(),
            accelerate: Vec::new(),
            points: BTreeSet::new(),
            reads: Reads::default(),
            kinds: BTreeSet::new(),
            writes: BTreeMap::new(),
            metrics: Vec::new(),
            shown: None,
        }
    }

    /// Adds PreEnqueue.
    pub fn pre_enqueue(self) -> Self
    where
        P: PreEnqueue,
    {
        let reads = reads_of::<P::Pod, (), P::Cluster>();
        self.reads_kinds::<P::Cluster>().point(
            &[Point::PreEnqueue],
            reads,
            move |plugin, points| {
                points.pre_enqueue = Some(PreEnqueuePoint::new(plugin.clone(), reads));
                points.waits_for.extend(P::Cluster::kinds());
            },
        )
    }

    /// Adds QueueSort.
    pub fn queue_sort(self) -> Self
    where
        P: QueueSort,
    {
        self.point(&[Point::QueueSort], Reads::default(), |plugin, points| {
            points.queue_sort = Some(QueueSortPoint::new(plugin.clone()));
        })
    }

    /// Adds QueueSort, for an order that depends on the objects in `C`.
    pub fn queue_sort_reading<C: ClusterPart>(self) -> Self
    where
        P: QueueSort,
    {
        let builder = self.reads_kinds::<C>();
        builder.point(&[Point::QueueSort], Reads::default(), |plugin, points| {
            points.queue_sort = Some(QueueSortPoint::reading(plugin.clone(), C::READS.stores));
        })
    }

    /// It groups pods by `label`: [`LabelledPods`](crate::LabelledPods) then has these groups.
    pub fn groups_pods_by(self, label: &'static str) -> Self {
        self.point(&[], Reads::default(), move |_, points| points.labels.push(label))
    }

    /// Adds Filter, for a [`Filter`].
    pub fn filter(self) -> Self
    where
        P: Filter,
    {
        let reads = reads_of::<P::Pod, P::Node, ()>();
        self.point(&[Point::Filter], reads, move |plugin, points| {
            set_filter(points, FilterPoint::new(Box::new(Local(plugin.clone()))), reads);
            points.filter_is_local = true;
        })
    }

    /// Adds PreFilter and Filter, for a [`PreFilter`].
    pub fn pre_filter(self) -> Self
    where
        P: PreFilter,
    {
        let reads = reads_of::<P::Pod, P::Node, P::Cluster>();
        self.reads_kinds::<P::Cluster>().point(
            &[Point::PreFilter, Point::Filter],
            reads,
            move |plugin, points| {
                set_filter(
                    points,
                    FilterPoint::new(Box::new(Stateful::new(plugin.clone()))),
                    reads,
                );
                points.waits_for.extend(P::Cluster::kinds());
            },
        )
    }

    /// It shares what it learnt at PreFilter. After [`pre_filter`](Self::pre_filter).
    pub fn share_filter_state(self) -> Self
    where
        P: ShareFilterState,
    {
        self.point(&[], Reads::default(), |plugin, points| {
            filter_of(points).share_state(Box::new(Stateful::sharing(plugin.clone())));
        })
    }

    /// Adds PostFilter.
    pub fn post_filter(self) -> Self
    where
        P: PostFilter,
    {
        self.point(&[Point::PostFilter], Reads::default(), |plugin, points| {
            points.post_filter = Some(PostFilterPoint::new(plugin.clone()));
        })
    }

    /// Adds PostFilter, for a plugin that reads `C`, pods and nodes there, and nothing else. Of other plugins it is assumed
    /// that they read all kinds of objects, so that all are watched.
    pub fn post_filter_reading<C: ClusterPart>(self) -> Self
    where
        P: PostFilter,
    {
        let builder = self.reads_kinds::<C>();
        builder.point(&[Point::PostFilter], Reads::default(), |plugin, points| {
            points.post_filter = Some(PostFilterPoint::reading(plugin.clone(), C::READS.stores));
        })
    }

    /// Adds PostFilter, for a plugin that looks at nodes one by one.
    pub fn post_filter_by_node(self) -> Self
    where
        P: PostFilterByNode,
    {
        let builder = self.reads_kinds::<P::Cluster>();
        builder.point(&[Point::PostFilter], Reads::default(), |plugin, points| {
            points.post_filter = Some(PostFilterPoint::by_nodes(plugin.clone()));
        })
    }

    /// Adds PodGroupPostFilter: it makes room for groups of pods as a whole. After [`post_filter`](Self::post_filter) or
    /// [`post_filter_by_node`](Self::post_filter_by_node).
    pub fn group_post_filter(self) -> Self
    where
        P: GroupPostFilter + PostFilter,
    {
        self.point(&[Point::PodGroupPostFilter], Reads::default(), |plugin, points| {
            points.group_post_filter = Some(GroupPostFilterPoint::new(plugin.clone()));
        })
    }

    /// It does something for groups of pods that do not fit.
    pub fn group_remedy(self) -> Self
    where
        P: GroupRemedy,
    {
        self.point(&[], Reads::default(), |plugin, points| {
            points.group_remedy = Some(GroupRemedyPoint::new(plugin.clone()));
        })
    }

    /// Adds Score, for a [`Score`].
    pub fn score(self) -> Self
    where
        P: Score,
    {
        let reads = reads_of::<P::Pod, P::Node, ()>();
        self.point(&[Point::Score], reads, move |plugin, points| {
            let rule = Box::new(LocalScore(plugin.clone()));
            set_score(points, ScorePoint::new(rule, reads));
        })
    }

    /// Adds PreScore and Score, for a [`PreScore`].
    pub fn pre_score(self) -> Self
    where
        P: PreScore,
    {
        let reads = reads_of::<P::Pod, P::Node, P::Cluster>();
        self.reads_kinds::<P::Cluster>().point(
            &[Point::PreScore, Point::Score],
            reads,
            move |plugin, points| {
                let rule = Box::new(StatefulScore::new(plugin.clone()));
                set_score(points, ScorePoint::new(rule, reads));
            },
        )
    }

    /// Adds Score alone, for a [`PreScore`] whose plugin does not stand at PreScore in kube-scheduler: configurations
    /// cannot enable it there.
    pub fn score_with_state(self) -> Self
    where
        P: PreScore,
    {
        let reads = reads_of::<P::Pod, P::Node, P::Cluster>();
        self.reads_kinds::<P::Cluster>().point(&[Point::Score], reads, move |plugin, points| {
            let rule = Box::new(StatefulScore::new(plugin.clone()));
            set_score(points, ScorePoint::new(rule, reads));
        })
    }

    /// It shares what it learnt at PreScore. After [`pre_score`](Self::pre_score).
    pub fn share_score_state(self) -> Self
    where
        P: ShareScoreState,
    {
        self.point(&[], Reads::default(), |plugin, points| {
            score_of(points).share_state(Box::new(StatefulScore::sharing(plugin.clone())));
        })
    }

    /// It is told how each attempt ended that found no node, and may write then. After
    /// [`post_filter`](Self::post_filter) or [`post_filter_by_node`](Self::post_filter_by_node).
    pub fn after_post_filter(self) -> Self
    where
        P: AfterPostFilter,
    {
        self.point(&[], Reads::default(), |plugin, points| {
            let point = points.post_filter.as_mut();
            point.expect("it stands at PostFilter, too").tell_after(plugin.clone());
        })
    }

    /// It adds to the decision record.
    pub fn describe(self) -> Self
    where
        P: Describe,
    {
        self.point(&[], Reads::default(), |plugin, points| {
            points.describe = Some(DescribePoint::new(plugin.clone()));
        })
    }

    /// It says for which resources something else than the node stands.
    pub fn provides_resources(self) -> Self
    where
        P: ProvidesResources,
    {
        self.reads_kinds::<P::Objects>().point(&[], Reads::default(), |plugin, points| {
            points.provide = Some(ProvidePoint::new(plugin.clone()));
        })
    }

    /// Scores as a [`PreScore`] instead of a [`Score`], if its args make that necessary. After [`score`](Self::score).
    pub fn pre_score_if(self, is_needed: fn(&P) -> bool) -> Self
    where
        P: PreScore,
    {
        let reads = reads_of::<<P as PreScore>::Pod, <P as PreScore>::Node, P::Cluster>();
        self.reads_kinds::<P::Cluster>().point(&[], Reads::default(), move |plugin, points| {
            if is_needed(plugin) {
                let rule = Box::new(StatefulScore::new(plugin.clone()));
                points.score = Some(ScorePoint::new(rule, reads));
            }
        })
    }

    /// Adds Reserve.
    pub fn reserve(self) -> Self
    where
        P: Reserve,
    {
        self.point(&[Point::Reserve], Reads::default(), |plugin, points| {
            points.reserve = Some(ReservePoint::new(plugin.clone()));
        })
    }

    /// Adds PreBind, for a plugin that does not use its reservation there. If it also has Reserve, PreBind is left out
    /// for a pod to which Reserve does not [apply](Reserve::applies).
    pub fn pre_bind(self) -> Self
    where
        P: PreBind<Held = ()>,
    {
        self.point(&[Point::PreBind], Reads::default(), |plugin, points| {
            points.pre_bind = Some(PreBindPoint::new(plugin.clone()));
        })
    }

    /// Adds Reserve and PreBind, for a plugin that uses its reservation at PreBind. PreBind is left out for a pod
    /// without a reservation.
    pub fn reserve_and_pre_bind(self) -> Self
    where
        P: Reserve + PreBind<Held = <P as Reserve>::Reservation>,
    {
        self.reserve().point(&[Point::PreBind], Reads::default(), |plugin, points| {
            points.pre_bind = Some(PreBindPoint::holding(plugin.clone()));
        })
    }

    /// Gives the plugin the answers to its writes.
    pub fn answered(self) -> Self
    where
        P: Answered,
    {
        self.point(&[], Reads::default(), |plugin, points| {
            points.answered = Some(AnsweredPoint::new(plugin.clone()));
        })
    }

    /// Adds Permit.
    pub fn permit(self) -> Self
    where
        P: Permit,
    {
        self.point(&[Point::Permit], Reads::default(), |plugin, points| {
            points.permit = Some(PermitPoint::new(plugin.clone()));
        })
    }

    /// It says whether a group of pods fits on a placement. As in kube-scheduler, configurations do not name this point: a
    /// plugin has it in every profile that enables it.
    pub fn placement_feasible(self) -> Self
    where
        P: PlacementFeasible,
    {
        self.point(&[], Reads::default(), |plugin, points| {
            points.placement_feasible = Some(PlacementFeasiblePoint::new(plugin.clone()));
        })
    }

    /// Adds PlacementGenerate.
    pub fn placement_generate(self) -> Self
    where
        P: PlacementGenerate,
    {
        self.point(&[Point::PlacementGenerate], Reads::default(), |plugin, points| {
            points.placement_generate = Some(PlacementGeneratePoint::new(plugin.clone()));
        })
    }

    /// Adds PlacementScore.
    pub fn placement_score(self) -> Self
    where
        P: PlacementScore,
    {
        self.point(&[Point::PlacementScore], Reads::default(), |plugin, points| {
            points.placement_score = Some(PlacementScorePoint::new(plugin.clone()));
        })
    }

    /// Adds Bind.
    pub fn bind(self) -> Self
    where
        P: Bind,
    {
        self.point(&[Point::Bind], Reads::default(), |plugin, points| {
            points.bind = Some(BindPoint::new(plugin.clone()));
        })
    }

    /// Adds PostBind.
    pub fn post_bind(self) -> Self
    where
        P: PostBind,
    {
        self.point(&[Point::PostBind], Reads::default(), |plugin, points| {
            points.post_bind = Some(PostBindPoint::new(plugin.clone()));
        })
    }

    /// Declares that the plugin uses objects of kind `K`: it reads them from Reserve on, or waits for them with events
    /// of its own. Kinds in its parts need not be declared.
    pub fn kind<K: Kind>(mut self) -> Self {
        self.kinds.insert(KindRef::of::<K>());
        self
    }

    /// It reads the objects in `C` only if `reads` says so of the plugin as it was made, such as by a feature gate.
    /// Otherwise the scheduler does not watch their kinds for it.
    pub fn reads_if<C: ClusterPart>(
        mut self,
        reads: impl Fn(&P) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.add.push(Box::new(move |plugin, points| {
            if !reads(plugin) {
                points.unread.extend(C::kinds());
            }
        }));
        self.reads_kinds::<C>()
    }

    /// It uses objects of kind `K`, as [`kind`](Self::kind) says, and writes them in these ways. `plimsoll plugins --rbac`
    /// prints the permissions that follow.
    pub fn writes<K: Kind>(mut self, verbs: WriteVerbs) -> Self {
        *self.writes.entry(KindRef::of::<K>()).or_default() |= verbs;
        self.kind::<K>()
    }

    /// It counts in a metric of its own.
    ///
    /// # Panics
    /// If it has one of that name already.
    pub fn metric(mut self, metric: &'static impl AsRef<Descriptor>) -> Self {
        let metric = metric.as_ref();
        let is_new = self.metrics.iter().all(|other| other.name != metric.name);
        assert!(is_new, "plugin {} has two metrics named {}", P::NAME, metric.name);
        self.metrics.push(metric);
        self
    }

    /// Adds events and hints of its own.
    pub fn requeue(self) -> Self
    where
        P: Requeue,
    {
        self.point(&[], Reads::default(), |plugin, points| {
            points.requeue = Some(RequeuePoint::new(plugin.clone()));
        })
    }

    /// Lets the engine use its rule as amounts. Needs [`filter`](Self::filter).
    pub fn filter_by_amounts(self) -> Self
    where
        P: FilterByAmounts,
    {
        self.accelerate(|plugin, points| filter_of(points).by_amounts(plugin.clone()))
    }

    /// Lets the engine judge by counts. Needs [`pre_filter`](Self::pre_filter).
    pub fn filter_by_counts(self) -> Self
    where
        P: FilterByCounts,
    {
        self.accelerate(|plugin, points| filter_of(points).by_counts(plugin.clone()))
    }

    /// Lets the engine remember verdicts by what they depend on. Needs [`pre_filter`](Self::pre_filter).
    pub fn filter_by_key(self) -> Self
    where
        P: FilterByKey,
    {
        self.accelerate(|plugin, points| filter_of(points).by_key(plugin.clone()))
    }

    /// Lets the engine bound the scores of all nodes. Needs [`score`](Self::score).
    pub fn score_by_amounts(self) -> Self
    where
        P: ScoreByAmounts,
    {
        self.accelerate(|plugin, points| {
            let score = score_of(points);
            if score.is_by_row() {
                score.by_amounts(plugin.clone());
            }
        })
    }

    /// Lets the engine score by counts. Needs [`pre_score`](Self::pre_score).
    pub fn score_by_counts(self) -> Self
    where
        P: ScoreByCounts,
    {
        self.accelerate(|plugin, points| score_of(points).by_counts(plugin.clone()))
    }

    /// Lets the engine score each node without the others. Needs [`pre_score`](Self::pre_score).
    pub fn score_by_node(self) -> Self
    where
        P: ScoreByNode,
    {
        self.accelerate(|plugin, points| score_of(points).by_node(plugin.clone()))
    }

    /// Lets the engine score only nodes that may be the best. Needs [`pre_score`](Self::pre_score).
    pub fn score_on_demand(self) -> Self
    where
        P: ScoreOnDemand,
    {
        self.accelerate(|plugin, points| score_of(points).on_demand(plugin.clone()))
    }

    /// Adds `point` in configurations, because kube-scheduler's plugin of this name has it. A [`Filter`] at PreFilter
    /// may name [`candidates`](Filter::candidates).
    pub fn at(mut self, point: Point) -> Self {
        self.points.insert(point);
        self
    }

    /// Removes `point` in configurations, because kube-scheduler's plugin of this name does not have it.
    pub fn not_at(mut self, point: Point) -> Self {
        self.points.remove(&point);
        self
    }

    /// Configurations show its args with all defaults, even if none are given. Without this they show the args as
    /// given.
    pub fn shows_args(mut self) -> Self
    where
        P::Args: Serialize,
    {
        self.shown = Some(ArgsWriter::of::<P>());
        self
    }

    /// The entry.
    pub fn done(self) -> Entry {
        let Builder { add, accelerate, points, reads, kinds, writes, metrics, shown } = self;
        let measured = metrics.clone();
        let make = move |args: Option<&Value>, gates: &FeatureGates, speed: Speed| {
            let plugin = Arc::new(P::new(valid_args::<P>(args, gates)?, gates));
            let mut made = Points { metrics: measured.clone(), ..Points::default() };
            for add in &add {
                add(&plugin, &mut made);
            }
            if let Some(pre_bind) = &mut made.pre_bind {
                pre_bind.stands_at_reserve = made.reserve.is_some();
            }
            for accelerate in accelerate.iter().filter(|_| speed == Speed::Accelerated) {
                accelerate(&plugin, &mut made);
            }
            Ok(made)
        };
        let args = ArgsForm::of::<P>(shown);
        let make = Box::new(make);
        Entry {
            name: P::NAME,
            points,
            reads,
            kinds,
            writes,
            metrics,
            args,
            make,
            speed: Speed::Accelerated,
        }
    }

    fn accelerate(mut self, add: impl Fn(&Arc<P>, &mut Points) + Send + Sync + 'static) -> Self {
        self.accelerate.push(Box::new(add));
        self
    }

    fn reads_kinds<C: ClusterPart>(mut self) -> Self {
        self.kinds.extend(C::kinds());
        self
    }

    fn point(
        mut self,
        points: &[Point],
        reads: Reads,
        add: impl Fn(&Arc<P>, &mut Points) + Send + Sync + 'static,
    ) -> Self {
        self.points.extend(points);
        self.reads = self.reads.union(reads);
        self.add.push(Box::new(add));
        self
    }
}

/// # Panics
/// If the plugin already has a filter of another level: one of them would never be called.
fn set_filter(points: &mut Points, filter: FilterPoint, reads: Reads) {
    assert!(points.filter.is_none(), "a plugin has either filter or pre_filter, not both");
    points.filter = Some(filter);
    points.reads = reads;
}

/// # Panics
/// If the plugin already has a score of another level.
fn set_score(points: &mut Points, score: ScorePoint) {
    assert!(points.score.is_none(), "a plugin has either score or pre_score, not both");
    points.score = Some(score);
}

/// # Panics
/// If the plugin is no filter: there is no rule to accelerate.
fn filter_of(points: &mut Points) -> &mut FilterPoint {
    points.filter.as_mut().expect("a plugin with an accelerated filter has a filter")
}

/// # Panics
/// If the plugin is no score.
fn score_of(points: &mut Points) -> &mut ScorePoint {
    points.score.as_mut().expect("a plugin with an accelerated score has a score")
}

const fn reads_of<A: PodPart, B: NodePart, C: ClusterPart>() -> Reads {
    let ClusterReads { nodes, stores } = C::READS;
    Reads { pod: A::READS, node: B::READS, cluster: ClusterReads { nodes, stores } }
}

fn valid_args<P: Plugin>(args: Option<&Value>, gates: &FeatureGates) -> Result<P::Args, ArgsError> {
    let error = |ArgsFault { field, message }| ArgsError { plugin: P::NAME, field, message };
    valid::<P>(args, gates).map_err(error)
}
