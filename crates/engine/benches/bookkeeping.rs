//! What a pod costs beside its decision: into the queue, through an attempt, bound, and seen on its node;
//! and what an event costs while many pods wait.
//!
//! `cargo bench -p plimsoll-engine`. The decision is as small as it can be: one node with room for all,
//! and no filter. A time divided by the number of pods is what one pod costs.

use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use plimsoll_api::{Node, Pod, PodKey, PodTemplate, Resources, Toleration};
use plimsoll_engine::{
    Effect, EffectId, Event, Observation, Options, Profile, ProfileSpec, Scheduler, Write,
};
use plimsoll_framework::prelude::{
    Allocatable, Bind, Binding, Entry, FeatureGates, Filter, Handle, NoArgs, Placement, Plugin,
    Point, QueueSort, QueuedPod, Registry, Rejection, Requests, Time, Verdict,
};

fn main() {
    divan::main();
}

/// Clusters of these sizes: what a pod costs must not grow with them.
const PODS: [usize; 2] = [50_000, 1_000_000];
/// Pods that wait for a change.
const PARKED: usize = 20_000;

/// A pod comes.
#[divan::bench(args = PODS, sample_count = 3, sample_size = 1)]
fn observe(bencher: Bencher<'_, '_>, n: usize) {
    bencher
        .counter(ItemsCount::new(n))
        .with_inputs(|| (scheduler(&[]), arrivals(n)))
        .bench_local_values(|(scheduler, events)| seen(scheduler, events));
}

/// An attempt, the binding, and its answer.
#[divan::bench(args = PODS, sample_count = 3, sample_size = 1)]
fn step_and_answer(bencher: Bencher<'_, '_>, n: usize) {
    bencher
        .counter(ItemsCount::new(n))
        .with_inputs(|| seen(scheduler(&[]), arrivals(n)))
        .bench_local_values(bound);
}

/// A pod is seen on its node.
#[divan::bench(args = PODS, sample_count = 3, sample_size = 1)]
fn confirm(bencher: Bencher<'_, '_>, n: usize) {
    bencher
        .counter(ItemsCount::new(n))
        .with_inputs(|| (bound(seen(scheduler(&[]), arrivals(n))), confirmations(n)))
        .bench_local_values(|(scheduler, events)| seen(scheduler, events));
}

/// A node comes that is too small for any of [`PARKED`] pods of one signature.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn node_helps_none(bencher: Bencher<'_, '_>) {
    bencher
        .with_inputs(|| (parked(), node("b", 1)))
        .bench_local_values(|(scheduler, event)| seen(scheduler, vec![event]));
}

/// A node comes that is large enough for each of [`PARKED`] pods of one signature, whose backoff is over.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn node_helps_all(bencher: Bencher<'_, '_>) {
    bencher
        .counter(ItemsCount::new(PARKED))
        .with_inputs(|| (parked(), node("b", 1_000_000)))
        .bench_local_values(|(scheduler, event)| seen(scheduler, vec![event]));
}

const NOW: Time = Time::from_millis(1_000_000);

fn seen(mut scheduler: Scheduler, events: Vec<Event>) -> Scheduler {
    for event in events {
        scheduler.observe(NOW, event);
    }
    scheduler
}

fn bound(mut scheduler: Scheduler) -> Scheduler {
    let mut effects = Vec::new();
    loop {
        scheduler.step(NOW, &mut effects);
        if effects.is_empty() {
            return scheduler;
        }
        let binding = |effect: Effect| matches!(effect.write, Write::Bind(_)).then_some(effect.id);
        let answered: Option<EffectId> = effects.drain(..).filter_map(binding).next_back();
        if let Some(id) = answered {
            scheduler.observe(NOW, Event::Done(id, Ok(())));
        }
    }
}

fn parked() -> Scheduler {
    let mut scheduler = scheduler(&["Fits"]);
    let mut effects = Vec::new();
    let long_ago = Time::from_millis(0);
    let large = Arc::new(PodTemplate { asks: cpu(10), ..template() });
    for i in 0..PARKED {
        scheduler.observe(long_ago, Event::pod(pod(&large, i)));
        scheduler.step(long_ago, &mut effects);
        effects.clear();
    }
    scheduler
}

fn scheduler(filters: &[&str]) -> Scheduler {
    let registry = Registry::new([
        Entry::of::<Sort>().queue_sort().done(),
        Entry::of::<Binder>().bind().done(),
        Entry::of::<Fits>().filter().done(),
    ]);
    let mut spec = ProfileSpec { scheduler_name: "bench".into(), ..ProfileSpec::default() };
    spec.points.insert(Point::QueueSort, vec![("Sort".into(), 0)]);
    spec.points.insert(Point::Bind, vec![("Binder".into(), 0)]);
    let filters = filters.iter().map(|&name| (name.to_owned(), 0)).collect();
    spec.points.insert(Point::Filter, filters);
    let profile = Profile::new(&spec, &registry, &FeatureGates::default());
    let profile = profile.expect("the plugins make a profile");
    let scheduler = Scheduler::new(vec![profile], Options::default(), 0);
    seen(scheduler.expect("there is one profile"), vec![node("a", 1)])
}

fn arrivals(n: usize) -> Vec<Event> {
    let template = Arc::new(template());
    (0..n).map(|i| Event::pod(pod(&template, i))).collect()
}

fn confirmations(n: usize) -> Vec<Event> {
    let template = Arc::new(template());
    let placed = |i| Pod { node_name: Some("a".into()), ..pod(&template, i) };
    (0..n).map(|i| Event::pod(placed(i))).collect()
}

/// The template of a Deployment with the labels and tolerations that nearly every pod has.
fn template() -> PodTemplate {
    let tolerates = |key: &str| Toleration {
        key: Some(key.into()),
        effect: Some(plimsoll_api::Effect::NoExecute),
        ..Toleration::default()
    };
    PodTemplate {
        scheduler_name: "bench".into(),
        labels: [("app", "web"), ("pod-template-hash", "7c9d8b6f5d")].into_iter().collect(),
        tolerations: ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
            .map(tolerates)
            .to_vec(),
        asks: cpu(0),
        ..PodTemplate::default()
    }
}

/// One pod of it.
fn pod(template: &Arc<PodTemplate>, i: usize) -> Pod {
    let key = PodKey::new("team", format!("web-7c9d8b6f5d-{i:07}"));
    let uid = format!("00000000-0000-0000-0000-{i:012}").into();
    Pod { uid, ..Pod::new(key, Arc::clone(template)) }
}

fn cpu(cores: i64) -> plimsoll_api::Asks {
    let fit = Resources { milli_cpu: 1000 * cores, ..Resources::default() };
    plimsoll_api::Asks { fit, ..plimsoll_api::Asks::default() }
}

fn node(name: &str, cores: i64) -> Event {
    let allocatable = Resources { milli_cpu: 1000 * cores, ..Resources::default() };
    let node = Node { name: name.into(), allocatable, ..Node::default() };
    Event::Node(Box::new(Observation::Is(node)))
}

macro_rules! plugin {
    ($name:ident) => {
        struct $name;
        impl Plugin for $name {
            const NAME: &'static str = stringify!($name);
            type Args = NoArgs;
            fn new(_: NoArgs, _: &FeatureGates) -> Self {
                $name
            }
        }
    };
}

plugin!(Sort);
impl QueueSort for Sort {
    type Key = (i64, i64);
    fn key(&self, queued: &QueuedPod<'_>) -> (i64, i64) {
        (-i64::from(queued.pod.priority), queued.queued.millis())
    }
}

plugin!(Binder);
impl Bind for Binder {
    fn bind(&self, at: &Placement<'_>, _: &mut Handle<'_>) -> Option<Binding> {
        Some(Binding { node: at.node.clone() })
    }
}

plugin!(Fits);
impl Filter for Fits {
    type Pod = Requests;
    type Node = Allocatable;
    fn filter(&self, asked: &Resources, there: &Allocatable) -> Verdict {
        match asked.milli_cpu <= there.0.milli_cpu {
            true => Verdict::Pass,
            false => Verdict::Fail(Rejection::unschedulable("Insufficient cpu")),
        }
    }
}
