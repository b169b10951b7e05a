//! What plugins from outside share, write and measure, whether decisions are remembered or not.

use plimsoll_framework::prelude::*;
use serde_json::json;

use super::{lab, plugins};
use crate::metrics::Value;
use crate::{Engine, Event, Next, Observation, Options, Profile, ProfileSpec, Scheduler, Write};

/// Shares at PreFilter which number a pod says. A pod without a node asks for one, by a write.
struct Ask;

/// What is shared.
#[derive(Clone)]
struct Told(usize);

static ASKED: Counter<1> = Counter::new("ask_nodes_asked_total", &["result"], "Nodes asked for.");
static TOLD: Gauge<0> = Gauge::new("ask_told", &[], "The number that the last pod said.");

impl Plugin for Ask {
    const NAME: &'static str = "Ask";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Ask
    }
}

impl PreFilter for Ask {
    type Pod = Labels;
    type Node = Name;
    type Cluster = ();
    type State = usize;
    fn pre_filter(&self, labels: &Labels, (): ()) -> Result<Option<usize>, Rejection> {
        Ok(labels.get("says").and_then(|number| number.parse().ok()))
    }
    fn filter(&self, _: &usize, _: &Str) -> Verdict {
        Verdict::Pass
    }
}

impl ShareFilterState for Ask {
    fn share(&self, seen: &usize, with: &mut CycleState) {
        with.write(Told(*seen));
    }
}

impl PostFilter for Ask {
    fn post_filter(
        &self,
        _: &PodInfo,
        _: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> PostFilterAnswer {
        let seen = dry_run.shared().read::<Told>().map_or(0, |seen| seen.0);
        PostFilterAnswer::Unschedulable(format!("{seen} was said").into())
    }
}

impl AfterPostFilter for Ask {
    fn after_post_filter(
        &self,
        pod: &PodInfo,
        nomination: Option<&Nomination>,
        _: &[NodeRejection],
        view: &View<'_>,
        handle: &mut Handle<'_>,
    ) {
        assert!(nomination.is_none() && !view.nodes.is_empty());
        let seen = handle.shared.read::<Told>().map_or(0, |seen| seen.0);
        let key = ObjectKey::new("", pod.key.name.clone());
        handle.writes.create::<Namespace>(key, json!({"seen": seen}));
        handle.metrics.add(&ASKED, ["sent"], 1);
        let note = format!("asked for {seen}");
        handle.events.record(PodEventKind::Warning, "Asked", "Scheduling", note);
    }
}

impl Answered for Ask {
    fn answered(
        &self,
        _: &ObjectWrite,
        _: &Result<(), WriteError>,
        _: &Placement<'_>,
        _: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        panic!("only pods without a node write");
    }
    fn answered_without_node(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        pod: &PodInfo,
        _: &View<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        let result =
            answer.as_ref().map_or_else(|error| format!("{:?}", error.cause), |()| "done".into());
        handle.metrics.add(&ASKED, [&result], 1);
        match answer {
            Err(error) if error.cause == WriteCause::Conflict => {
                handle.writes.again(write);
                Ok(())
            }
            answer => answer.clone().map_err(|error| {
                Rejection::error(format!("no node for {}: {error}", pod.key.name))
            }),
        }
    }
}

impl Reserve for Ask {
    type Reservation = ();
    fn reserve(&self, _: &Placement<'_>, handle: &mut Handle<'_>) -> Result<(), Rejection> {
        let seen = handle.shared.read::<Told>().map_or(0, |seen| seen.0);
        handle.metrics.set(&TOLD, [], f64::from(u32::try_from(seen).expect("a few")));
        handle.events.record(PodEventKind::Normal, "Told", "Binding", "x".repeat(2000));
        Ok(())
    }
}

fn scheduler(engine: Engine) -> Scheduler {
    let ask = Entry::of::<Ask>()
        .pre_filter()
        .share_filter_state()
        .post_filter()
        .after_post_filter()
        .answered()
        .reserve()
        .metric(&ASKED)
        .metric(&TOLD);
    let others = ["Sort", "Zone", "Binder"];
    let others = plugins::entries().into_iter().filter(|one| others.contains(&one.name()));
    let registry = Registry::new(others.chain([ask.done()]));
    let mut spec = ProfileSpec { scheduler_name: "lab".into(), ..ProfileSpec::default() };
    for entry in registry.iter() {
        for &point in entry.points() {
            spec.points.entry(point).or_default().push((entry.name().to_owned(), 1));
        }
    }
    let profile = Profile::new(&spec, &registry, &FeatureGates::default());
    let options = Options { engine, audit_every: 1, ..Options::default() };
    let profiles = vec![profile.expect("the plugins make one")];
    let mut scheduler = Scheduler::new(profiles, options, 0).expect("one profile orders the queue");
    for node in ["a", "b", "c"] {
        let node = Observation::Is(lab::node(node, &["zone=z"]));
        scheduler.observe(Time::ZERO, Event::Node(Box::new(node)));
    }
    scheduler
}

/// What is written until nothing is left to be done.
fn written(scheduler: &mut Scheduler) -> Vec<crate::Effect> {
    let mut effects = Vec::new();
    while matches!(scheduler.step(Time::ZERO, &mut effects), Next::Again) {}
    effects
}

/// The values of a metric, by labels.
fn values(scheduler: &Scheduler, name: &str) -> Vec<(String, Value)> {
    let families = scheduler.metrics();
    let family = families.iter().find(|family| family.descriptor.name == name);
    let series = family.into_iter().flat_map(|family| &family.series);
    series.map(|one| (one.labels.concat(), one.value.clone())).collect()
}

const BOTH: [Engine; 2] = [Engine::Fast, Engine::Reference];

#[test]
fn what_is_shared_at_pre_filter_is_there_at_reserve() {
    for engine in BOTH {
        let mut scheduler = scheduler(engine);
        assert_eq!(values(&scheduler, "ask_told"), [(String::new(), Value::Float(0.0))]);
        for name in ["p", "q"] {
            scheduler.observe(Time::ZERO, Event::pod(lab::pod(name, &["zone=z", "says=3"])));
            written(&mut scheduler);
            assert_eq!(values(&scheduler, "ask_told"), [(String::new(), Value::Float(3.0))]);
            let decided = values(&scheduler, "plimsoll_decisions_total");
            let source = if engine == Engine::Fast { "memory" } else { "scratch" };
            assert!(decided.contains(&(source.to_owned(), Value::Number(1))), "{decided:?}");
            scheduler.reset_metrics();
        }
    }
}

#[test]
fn a_plugin_writes_for_each_pod_that_finds_no_node() {
    for engine in BOTH {
        let mut scheduler = scheduler(engine);
        for name in ["p", "q"] {
            scheduler.observe(Time::ZERO, Event::pod(lab::pod(name, &["zone=nowhere", "says=3"])));
            let effects = written(&mut scheduler);
            let objects: Vec<_> = effects
                .iter()
                .filter_map(|effect| match &effect.write {
                    Write::Object(write) => Some((write.key.name.as_str(), write.verb.clone())),
                    _ => None,
                })
                .collect();
            assert_eq!(
                objects,
                [(name, WriteVerb::Create(json!({"seen": 3}).into()))],
                "{engine:?}"
            );
            let conditions = effects.iter().filter(|effect| match &effect.write {
                Write::Condition(condition) => condition.message.contains("3 was said"),
                _ => false,
            });
            assert_eq!(conditions.count(), 1, "{engine:?}: {effects:?}");
        }
    }
}

#[test]
fn the_events_of_plugins_are_about_the_pod() {
    for engine in BOTH {
        for (labels, expected) in [
            (["zone=nowhere", "says=3"], ("Warning", "Asked", "Scheduling", "asked for 3")),
            (["zone=z", "says=3"], ("Normal", "Told", "Binding", "xxx")),
        ] {
            let mut scheduler = scheduler(engine);
            scheduler.observe(Time::ZERO, Event::pod(lab::pod("p", &labels)));
            let effects = written(&mut scheduler);
            let events: Vec<_> = effects
                .iter()
                .filter_map(|effect| match &effect.write {
                    Write::Record(event) if event.reason == expected.1 => Some((effect, event)),
                    _ => None,
                })
                .collect();
            let [(effect, event)] = events[..] else { panic!("{engine:?}: {effects:?}") };
            assert_eq!(effect.pod.key.name, "p");
            assert_eq!((event.kind, event.action), (expected.0, expected.2));
            assert!(event.note.starts_with(expected.3), "{}", event.note);
            assert!(event.note.len() <= crate::effect::NOTE_LENGTH_LIMIT);
        }
    }
}

#[test]
fn the_answer_to_a_write_after_post_filter_comes_to_the_plugin() {
    for engine in BOTH {
        let mut scheduler = scheduler(engine);
        scheduler.observe(Time::ZERO, Event::pod(lab::pod("p", &["zone=nowhere", "says=3"])));
        let is_object = |effect: &&crate::Effect| matches!(effect.write, Write::Object(_));
        let effects = written(&mut scheduler);
        let first = effects.iter().find(is_object).expect("a node is asked for").id;
        let conflict = Err(WriteError::new(WriteCause::Conflict, "was changed"));
        scheduler.observe(Time::ZERO, Event::Done(first, conflict));
        let effects = written(&mut scheduler);
        let second = effects.iter().find(is_object).expect("it is asked for again").id;
        let refused = Err(WriteError::new(WriteCause::Refused, "not yours"));
        scheduler.observe(Time::ZERO, Event::Done(second, refused));
        let effects = written(&mut scheduler);
        let recorded = effects.iter().find_map(|effect| match &effect.write {
            Write::Record(record) => Some((record.reason.to_string(), record.note.clone())),
            _ => None,
        });
        let (reason, note) = recorded.expect("an event says that it failed");
        assert_eq!(reason, "FailedWrite");
        assert!(note.contains("no node for p: not yours"), "{note}");
        let counted = values(&scheduler, "ask_nodes_asked_total");
        let expected =
            ["Conflict", "Refused", "sent"].map(|one| (one.to_owned(), Value::Number(1)));
        assert_eq!(counted, expected);
    }
}

#[test]
fn a_pod_tries_again_after_a_pause_if_a_write_of_post_filter_has_failed_unless_it_was_refused() {
    let is_object = |effect: &&crate::Effect| matches!(effect.write, Write::Object(_));
    // All that is written until nothing is left to do at a time.
    let all_at = |scheduler: &mut Scheduler, seconds: i64| {
        let (mut effects, now) = (Vec::new(), Time::from_millis(seconds * 1000));
        while matches!(scheduler.step(now, &mut effects), Next::Again) {}
        effects.iter().filter(is_object).map(|effect| effect.id).collect::<Vec<_>>()
    };
    for engine in BOTH {
        for (cause, is_tried_again) in [
            (WriteCause::TimedOut, true),
            (WriteCause::NotFound, true),
            (WriteCause::Refused, false),
        ] {
            let mut scheduler = scheduler(engine);
            let fails = |scheduler: &mut Scheduler, id, seconds: i64| {
                let now = Time::from_millis(seconds * 1000);
                scheduler.observe(now, Event::Done(id, Err(WriteError::new(cause, "no"))));
            };
            scheduler.observe(Time::ZERO, Event::pod(lab::pod("p", &["zone=nowhere", "says=3"])));
            let [id] = all_at(&mut scheduler, 0)[..] else { panic!("a node is asked for") };
            fails(&mut scheduler, id, 0);
            assert_eq!(all_at(&mut scheduler, 9), []);
            assert_eq!(scheduler.is_settled(), !is_tried_again, "{cause:?}");
            let again = all_at(&mut scheduler, 20);
            assert_eq!(again.len(), usize::from(is_tried_again), "{cause:?}");
            // The next pause is longer.
            let [id] = again[..] else { continue };
            fails(&mut scheduler, id, 20);
            assert_eq!(all_at(&mut scheduler, 39), []);
            let [id] = all_at(&mut scheduler, 60)[..] else { panic!("it is asked for again") };
            scheduler.observe(Time::from_millis(60_000), Event::Done(id, Ok(())));
            assert_eq!(all_at(&mut scheduler, 200), []);
            assert!(scheduler.is_settled());
        }
    }
}
