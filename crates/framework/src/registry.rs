//! From plugins to a registry. Each builder method demands its trait, so a wrong claim does not
//! compile.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use plimsoll_api::{Kind, KindRef, Kinds};
use serde::Serialize;
use serde_json::Value;

use crate::accelerate::{
    FilterByAmounts, FilterByCounts, ScoreByAmounts, ScoreByCounts, ScoreByNode,
};
use crate::args::{ArgsFault, ArgsForm, ArgsWriter, valid};
use crate::binding::{Bind, Permit, PostBind, PreBind, Reserve};
use crate::enqueue::{PreEnqueue, QueueSort, Requeue};
use crate::erased::{Local, LocalScore, Stateful, StatefulScore};
use crate::filter::{Filter, PreFilter};
use crate::parts::{ClusterPart, ClusterReads, NodePart, PodPart, Reads};
use crate::plugin::{FeatureGates, Plugin};
use crate::points::{
    AnsweredPoint, BindPoint, FilterPoint, PermitPoint, Point, Points, PostBindPoint,
    PostFilterPoint, PreBindPoint, PreEnqueuePoint, QueueSortPoint, RequeuePoint, ReservePoint,
    ScorePoint,
};
use crate::post_filter::{PostFilter, PostFilterByNode};
use crate::score::{PreScore, Score};
use crate::writes::Answered;

/// A plugin could not be made from its args.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgsError {
    /// The plugin.
    pub plugin: &'static str,
    /// The path of the field within the args; empty for the args as a whole.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for ArgsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.field.is_empty() { "" } else { "." };
        write!(f, "args{dot}{} of plugin {}: {}", self.field, self.plugin, self.message)
    }
}

impl std::error::Error for ArgsError {}

type Make = dyn Fn(Option<&Value>, &FeatureGates, Speed) -> Result<Points, ArgsError> + Send + Sync;

/// Whether a plugin is made with what makes it fast.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speed {
    Accelerated,
    Plain,
}

/// A plugin in a registry: its name, where it stands, and how to make it.
pub struct Entry {
    name: &'static str,
    points: BTreeSet<Point>,
    reads: Reads,
    kinds: BTreeSet<KindRef>,
    args: ArgsForm,
    make: Box<Make>,
    speed: Speed,
}

impl Entry {
    /// Begins the entry of plugin `P`.
    pub fn of<P: Plugin>() -> Builder<P> {
        Builder {
            add: Vec::new(),
            accelerate: Vec::new(),
            points: BTreeSet::new(),
            reads: Reads::default(),
            kinds: BTreeSet::new(),
            shown: None,
        }
    }

    /// The name of the plugin.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The extension points at which it stands.
    pub fn points(&self) -> &BTreeSet<Point> {
        &self.points
    }

    /// What it reads as a filter and as a score.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// The kinds of objects that it reads, and those that it says it [uses](Builder::kind).
    pub fn kinds(&self) -> &BTreeSet<KindRef> {
        &self.kinds
    }

    /// What it reads, in words, for people: `pod: tolerations · node: taints`.
    pub fn describe_reads(&self) -> String {
        let kinds: Vec<KindRef> = self.kinds.iter().copied().collect();
        self.reads.describe(&kinds)
    }

    /// Its args, without their type.
    pub fn args(&self) -> ArgsForm {
        self.args
    }

    /// Makes the plugin of one profile from its args.
    pub fn make(&self, args: Option<&Value>, gates: &FeatureGates) -> Result<Points, ArgsError> {
        (self.make)(args, gates, self.speed)
    }

    /// The same plugin without what makes it [fast](crate::accelerate). It decides alike, which tests can tell by it.
    #[must_use]
    pub fn plain(self) -> Self {
        Entry { speed: Speed::Plain, ..self }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("points", &self.points)
            .finish_non_exhaustive()
    }
}

type Add<P> = Box<dyn Fn(&Arc<P>, &mut Points) + Send + Sync>;

/// An entry in the making.
pub struct Builder<P> {
    add: Vec<Add<P>>,
    accelerate: Vec<Add<P>>,
    points: BTreeSet<Point>,
    reads: Reads,
    kinds: BTreeSet<KindRef>,
    shown: Option<ArgsWriter>,
}

impl<P: Plugin> Builder<P> {
    /// It stands at PreEnqueue.
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

    /// It stands at QueueSort.
    pub fn queue_sort(self) -> Self
    where
        P: QueueSort,
    {
        self.point(&[Point::QueueSort], Reads::default(), |plugin, points| {
            points.queue_sort = Some(QueueSortPoint::new(plugin.clone()));
        })
    }

    /// It stands at Filter.
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

    /// It stands at PreFilter and Filter.
    pub fn pre_filter(self) -> Self
    where
        P: PreFilter,
    {
        let reads = reads_of::<P::Pod, P::Node, P::Cluster>();
        self.reads_kinds::<P::Cluster>().point(
            &[Point::PreFilter, Point::Filter],
            reads,
            move |plugin, points| {
                set_filter(points, FilterPoint::new(Box::new(Stateful(plugin.clone()))), reads);
                points.waits_for.extend(P::Cluster::kinds());
            },
        )
    }

    /// It stands at PostFilter.
    pub fn post_filter(self) -> Self
    where
        P: PostFilter,
    {
        self.point(&[Point::PostFilter], Reads::default(), |plugin, points| {
            points.post_filter = Some(PostFilterPoint::new(plugin.clone()));
        })
    }

    /// It stands at PostFilter, and looks at nodes one by one there.
    pub fn post_filter_by_node(self) -> Self
    where
        P: PostFilterByNode,
    {
        let builder = self.reads_kinds::<P::Cluster>();
        builder.point(&[Point::PostFilter], Reads::default(), |plugin, points| {
            points.post_filter = Some(PostFilterPoint::by_nodes(plugin.clone()));
        })
    }

    /// It stands at Score.
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

    /// It stands at PreScore and Score.
    pub fn pre_score(self) -> Self
    where
        P: PreScore,
    {
        let reads = reads_of::<P::Pod, P::Node, P::Cluster>();
        self.reads_kinds::<P::Cluster>().point(
            &[Point::PreScore, Point::Score],
            reads,
            move |plugin, points| {
                let rule = Box::new(StatefulScore(plugin.clone()));
                set_score(points, ScorePoint::new(rule, reads));
            },
        )
    }

    /// It stands at Reserve.
    pub fn reserve(self) -> Self
    where
        P: Reserve,
    {
        self.point(&[Point::Reserve], Reads::default(), |plugin, points| {
            points.reserve = Some(ReservePoint::new(plugin.clone()));
        })
    }

    /// It stands at PreBind, and needs nothing there that it would hold since Reserve. If it also stands there, it has
    /// nothing to do for a pod to which [`Reserve::applies`] says no.
    pub fn pre_bind(self) -> Self
    where
        P: PreBind<Held = ()>,
    {
        self.point(&[Point::PreBind], Reads::default(), |plugin, points| {
            points.pre_bind = Some(PreBindPoint::new(plugin.clone()));
        })
    }

    /// It stands at Reserve and PreBind, and needs there what it holds since Reserve: it has nothing to do for a pod for
    /// which it holds nothing.
    pub fn reserve_and_pre_bind(self) -> Self
    where
        P: Reserve + PreBind<Held = <P as Reserve>::Reservation>,
    {
        self.reserve().point(&[Point::PreBind], Reads::default(), |plugin, points| {
            points.pre_bind = Some(PreBindPoint::holding(plugin.clone()));
        })
    }

    /// It looks at the answers to its writes.
    pub fn answered(self) -> Self
    where
        P: Answered,
    {
        self.point(&[], Reads::default(), |plugin, points| {
            points.answered = Some(AnsweredPoint::new(plugin.clone()));
        })
    }

    /// It stands at Permit.
    pub fn permit(self) -> Self
    where
        P: Permit,
    {
        self.point(&[Point::Permit], Reads::default(), |plugin, points| {
            points.permit = Some(PermitPoint::new(plugin.clone()));
        })
    }

    /// It stands at Bind.
    pub fn bind(self) -> Self
    where
        P: Bind,
    {
        self.point(&[Point::Bind], Reads::default(), |plugin, points| {
            points.bind = Some(BindPoint::new(plugin.clone()));
        })
    }

    /// It stands at PostBind.
    pub fn post_bind(self) -> Self
    where
        P: PostBind,
    {
        self.point(&[Point::PostBind], Reads::default(), |plugin, points| {
            points.post_bind = Some(PostBindPoint::new(plugin.clone()));
        })
    }

    /// It uses objects of kind `K`: it looks at them from Reserve on, or waits for them with events of its own. Kinds
    /// that it names in its parts need not be said.
    pub fn kind<K: Kind>(mut self) -> Self {
        self.kinds.insert(KindRef::of::<K>());
        self
    }

    /// It has events and hints of its own.
    pub fn requeue(self) -> Self
    where
        P: Requeue,
    {
        self.point(&[], Reads::default(), |plugin, points| {
            points.requeue = Some(RequeuePoint::new(plugin.clone()));
        })
    }

    /// As a filter, it can state its rule as amounts. Beside [`filter`](Self::filter).
    pub fn filter_by_amounts(self) -> Self
    where
        P: FilterByAmounts,
    {
        self.accelerate(|plugin, points| filter_of(points).by_amounts(plugin.clone()))
    }

    /// As a filter, it can judge by counts. Beside [`pre_filter`](Self::pre_filter).
    pub fn filter_by_counts(self) -> Self
    where
        P: FilterByCounts,
    {
        self.accelerate(|plugin, points| filter_of(points).by_counts(plugin.clone()))
    }

    /// It can say how high all nodes score. Beside [`score`](Self::score).
    pub fn score_by_amounts(self) -> Self
    where
        P: ScoreByAmounts,
    {
        self.accelerate(|plugin, points| score_of(points).by_amounts(plugin.clone()))
    }

    /// It can score by counts. Beside [`pre_score`](Self::pre_score).
    pub fn score_by_counts(self) -> Self
    where
        P: ScoreByCounts,
    {
        self.accelerate(|plugin, points| score_of(points).by_counts(plugin.clone()))
    }

    /// It can score each node without the others. Beside [`pre_score`](Self::pre_score).
    pub fn score_by_node(self) -> Self
    where
        P: ScoreByNode,
    {
        self.accelerate(|plugin, points| score_of(points).by_node(plugin.clone()))
    }

    /// It also stands at `point` in configurations, where kube-scheduler's plugin of this name does.
    /// At PreFilter, a [`Filter`]'s [`candidates`](Filter::candidates) count.
    pub fn at(mut self, point: Point) -> Self {
        self.points.insert(point);
        self
    }

    /// It does not stand at `point` in configurations, since kube-scheduler's plugin of this name does
    /// not.
    pub fn not_at(mut self, point: Point) -> Self {
        self.points.remove(&point);
        self
    }

    /// A configuration shows its args with all defaults, also where none are given. Without this, it shows
    /// them as they are given.
    pub fn shows_args(mut self) -> Self
    where
        P::Args: Serialize,
    {
        self.shown = Some(ArgsWriter::of::<P>());
        self
    }

    /// The entry.
    pub fn done(self) -> Entry {
        let Builder { add, accelerate, points, reads, kinds, shown } = self;
        let make = move |args: Option<&Value>, gates: &FeatureGates, speed: Speed| {
            let plugin = Arc::new(P::new(valid_args::<P>(args, gates)?, gates));
            let mut made = Points::default();
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
        Entry { name: P::NAME, points, reads, kinds, args, make, speed: Speed::Accelerated }
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
/// If the plugin already has a filter of another level: one of both would never be asked.
fn set_filter(points: &mut Points, filter: FilterPoint, reads: Reads) {
    assert!(points.filter.is_none(), "a plugin has one of filter and pre_filter");
    points.filter = Some(filter);
    points.reads = reads;
}

/// # Panics
/// If the plugin already has a score of another level.
fn set_score(points: &mut Points, score: ScorePoint) {
    assert!(points.score.is_none(), "a plugin has one of score and pre_score");
    points.score = Some(score);
}

/// # Panics
/// If the plugin is no filter: what makes a rule fast is nothing without the rule.
fn filter_of(points: &mut Points) -> &mut FilterPoint {
    points.filter.as_mut().expect("a filter that is accelerated stands at Filter, too")
}

/// # Panics
/// If the plugin is no score.
fn score_of(points: &mut Points) -> &mut ScorePoint {
    points.score.as_mut().expect("a score that is accelerated stands at Score, too")
}

const fn reads_of<A: PodPart, B: NodePart, C: ClusterPart>() -> Reads {
    let ClusterReads { nodes, stores } = C::READS;
    Reads { pod: A::READS, node: B::READS, cluster: ClusterReads { nodes, stores } }
}

fn valid_args<P: Plugin>(args: Option<&Value>, gates: &FeatureGates) -> Result<P::Args, ArgsError> {
    let error = |ArgsFault { field, message }| ArgsError { plugin: P::NAME, field, message };
    valid::<P>(args, gates).map_err(error)
}

/// The plugins that configurations may name, in the order of the default profile.
#[derive(Debug, Default)]
pub struct Registry(Vec<Entry>);

impl Registry {
    /// A registry of these plugins.
    ///
    /// # Panics
    /// If two have the same name.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut registry = Registry::default();
        for entry in entries {
            registry.add(entry);
        }
        registry
    }

    /// Adds a plugin.
    ///
    /// # Panics
    /// If there is one of the same name.
    pub fn add(&mut self, entry: Entry) {
        let known = self.get(entry.name()).is_some();
        assert!(!known, "a plugin named {:?} already exists", entry.name());
        self.0.push(entry);
    }

    /// The same plugins without what makes them fast: see [`Entry::plain`].
    #[must_use]
    pub fn plain(self) -> Self {
        Registry(self.0.into_iter().map(Entry::plain).collect())
    }

    /// The plugin named `name`.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.name() == name)
    }

    /// The kinds of objects that are read: those of Kubernetes, and those that the plugins bring.
    ///
    /// # Panics
    /// If two plugins bring different kinds of one name and version.
    pub fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::built_in();
        for &kind in self.0.iter().flat_map(Entry::kinds) {
            kinds.add(kind);
        }
        kinds
    }

    /// All plugins in order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }
}
