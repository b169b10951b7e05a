//! Objects of kinds that plugins bring, extenders, and pods that wait.

use plimsoll_api::wire::{Manifest, WireError};
use plimsoll_api::{Kind, KindRef, Node, ObjectKey, ObjectMeta, Pod, PodTemplate, Resources, Str};
use plimsoll_engine::extenders::{ExtenderVerb, Filtered};
use plimsoll_engine::{
    Effect, EffectId, Engine, Event, Extender, ExtenderError, ExtenderReply, Next, Observation,
    Scheduler, Write, WriteCause, WriteError,
};
use plimsoll_framework::parts::{Name, Objects};
use plimsoll_framework::{
    Entry, FeatureGates, NoArgs, Plugin, Point, PreFilter, Registry, Rejection, Time, Verdict,
};
use plimsoll_plugins::in_tree;
use plimsoll_recording::{
    Destination, Header, Limits, ReadError, Reader, RecordError, Recording, WhenFull,
};

use crate::lab::{header, options, profiles, recorded, replay, replay_file};

/// A kind that only a plugin reads.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Permit {
    metadata: ObjectMeta,
    spec: PermitSpec,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct PermitSpec {
    node: String,
}

impl Kind for Permit {
    const NAME: &'static str = "Permit";
    const PLURAL: &'static str = "permits";
    const VERSIONS: &'static [&'static str] = &["example.com/v1"];
    fn read(manifest: Manifest<'_>) -> Result<Self, WireError> {
        manifest.parse()
    }
    fn key(&self) -> ObjectKey {
        self.metadata.key()
    }
}

/// Allows the nodes that some permit names.
struct Permits;

impl Plugin for Permits {
    const NAME: &'static str = "Permits";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Permits
    }
}

impl PreFilter for Permits {
    type Pod = ();
    type Node = Name;
    type Cluster = Objects<Permit>;
    type State = Vec<String>;
    fn pre_filter(
        &self,
        (): (),
        permits: &plimsoll_api::Store<Permit>,
    ) -> Result<Option<Vec<String>>, Rejection> {
        Ok(Some(permits.iter().map(|permit| permit.spec.node.clone()).collect()))
    }
    fn filter(&self, allowed: &Vec<String>, name: &Str) -> Verdict {
        match allowed.iter().any(|node| *node == **name) {
            true => Verdict::Pass,
            false => Verdict::unschedulable("no permit"),
        }
    }
}

const NOW: Time = Time::from_millis(1_000);

fn permit(name: &str, node: &str) -> String {
    let json =
        serde_json::json!({"metadata": {"name": name}, "spec": {"node": node}, "other": [1, null]});
    json.to_string()
}

/// The in-tree plugins and `Permits`, and a header whose profile has it.
fn with_permits() -> (Registry, Header) {
    let mut registry = in_tree();
    registry.add(Entry::of::<Permits>().pre_filter().done());
    let mut specs = profiles(&in_tree());
    for point in [Point::PreFilter, Point::Filter] {
        specs[0].points.entry(point).or_default().push(("Permits".to_owned(), 1));
    }
    (registry, header(&specs, &options(Engine::Fast), 0))
}

fn node(name: &str) -> Event {
    let allocatable =
        Resources { milli_cpu: 4_000, memory: 1 << 30, pods: 10, ..Resources::default() };
    let node = Node { name: name.into(), allocatable, ..Node::default() };
    Event::Node(Box::new(Observation::Is(node)))
}

fn pod(name: &str) -> Event {
    let template =
        PodTemplate { scheduler_name: "default-scheduler".into(), ..PodTemplate::default() };
    let key = ObjectKey::new("default", name);
    Event::pod(Pod { uid: format!("uid-{name}").into(), ..Pod::new(key, template) })
}

/// Steps until nothing is left to do, and returns the effects.
fn steps(scheduler: &mut Scheduler, now: Time) -> Vec<Effect> {
    let mut effects = Vec::new();
    while scheduler.step(now, &mut effects) == Next::Again {}
    effects
}

/// The nodes to which pods are bound.
fn bound(effects: &[Effect]) -> Vec<String> {
    let node = |effect: &Effect| match &effect.write {
        Write::Bind(binding) => Some(binding.node.to_string()),
        _ => None,
    };
    effects.iter().filter_map(node).collect()
}

#[test]
fn objects_of_a_kind_that_a_plugin_brings_are_recorded_as_their_manifests() {
    let (registry, header) = with_permits();
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("recording");
    let options = options(Engine::Fast);
    let scheduler = header.scheduler(&registry, options).expect("the profile is right");
    let reader = KindRef::of::<Permit>().reader("example.com/v1").expect("it has this version");
    recorded(&path, header, Limits::NONE, scheduler, |mut scheduler| {
        for event in [node("a"), node("b"), pod("early")] {
            scheduler.observe(NOW, event);
        }
        assert!(bound(&steps(&mut scheduler, NOW)).is_empty());
        let object = reader.read(&permit("one", "b")).expect("it is a permit");
        scheduler.observe(NOW, Event::is(object).expect("it is read"));
        scheduler.observe(NOW, pod("late"));
        let later = NOW + std::time::Duration::from_secs(20);
        assert_eq!(bound(&steps(&mut scheduler, later)), ["b", "b"]);
        let gone = (KindRef::of::<Permit>(), ObjectKey::new("default", "one"));
        scheduler.observe(later, Event::Object(Observation::Gone(gone)));
    });
    let paths = [path.clone()];
    for engine in [Engine::Fast, Engine::Reference] {
        let outcome = replay(&paths, &registry, engine).expect("it can be read");
        assert_eq!(outcome.difference, None);
        assert_eq!(outcome.tally.events, 6);
    }
    let mut plain = in_tree();
    plain.add(Entry::of::<Kindless>().done());
    let error = Reader::open(&path, plain.kinds()).and_then(|mut reader| {
        while reader.next()?.is_some() {}
        Ok(())
    });
    let Err(ReadError::UnknownKind { version, kind, .. }) = error else { panic!("{error:?}") };
    assert_eq!((version.as_str(), kind.as_str()), ("example.com/v1", "Permit"));
}

/// A plugin that reads nothing.
struct Kindless;

impl Plugin for Kindless {
    const NAME: &'static str = "Kindless";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Kindless
    }
}

#[test]
fn an_object_that_was_not_read_from_a_manifest_ends_the_recording_with_an_error() {
    let (registry, header) = with_permits();
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("recording");
    let scheduler = header.scheduler(&registry, options(Engine::Fast));
    let mut scheduler = scheduler.expect("the profile is right");
    let destination = Destination { path, limits: Limits::NONE };
    let recording = Recording::start(destination, header, WhenFull::Wait, |_| {});
    let recording = recording.expect("the file can be written");
    scheduler.record_to(recording.recorder());
    let metadata = ObjectMeta { name: "made".into(), ..ObjectMeta::default() };
    scheduler
        .observe(NOW, Event::object(Permit { metadata, spec: PermitSpec { node: "a".into() } }));
    let error = recording.finish().expect_err("it cannot be written");
    assert!(matches!(error, RecordError::Unwritable { kind: "Permit", .. }), "{error}");
}

#[test]
fn a_missing_plugin_is_named() {
    let (_, header) = with_permits();
    let error = header.scheduler(&in_tree(), header.options()).expect_err("there is no Permits");
    assert!(error.to_string().contains("plugin \"Permits\" does not exist"), "{error}");
}

#[test]
fn answers_of_extenders_and_errors_of_writes_replay() {
    let extender = Extender {
        name: "http://extender".into(),
        verbs: [ExtenderVerb::Filter, ExtenderVerb::Prioritize].into(),
        weight: 1,
        ignorable: false,
        managed_resources: [].into(),
        timeout: std::time::Duration::from_secs(5),
    };
    let options = options(Engine::Fast);
    let header = header(&profiles(&in_tree()), &options, 0).with_extenders(&[extender]);
    let scheduler = header.scheduler(&in_tree(), options).expect("the profile is right");
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("recording");
    recorded(&path, header, Limits::NONE, scheduler, |mut scheduler| {
        for event in [node("a"), node("b"), node("c"), pod("p"), pod("q")] {
            scheduler.observe(NOW, event);
        }
        let filtered = Filtered {
            passed: vec!["a".into(), "b".into()],
            rejected: vec![("c".into(), Rejection::unresolvable("not this one"))],
        };
        let mut answers = vec![
            Ok(ExtenderReply::Filtered(filtered)),
            Ok(ExtenderReply::Prioritized(vec![("a".into(), 1), ("b".into(), 9)])),
            Err(ExtenderError("connection refused".to_owned())),
        ]
        .into_iter();
        let mut effects = steps(&mut scheduler, NOW);
        let mut all = Vec::new();
        while !effects.is_empty() {
            for Effect { id, write, .. } in &effects {
                match write {
                    Write::Extender(_) => {
                        let answer = answers.next().expect("there are three questions");
                        scheduler.observe(NOW, Event::Extended(*id, answer));
                    }
                    Write::Bind(_) => {
                        let error = WriteError::new(WriteCause::Conflict, "it is elsewhere");
                        scheduler.observe(NOW, Event::Done(*id, Err(error)));
                    }
                    _ => {}
                }
            }
            all.append(&mut effects);
            effects = steps(&mut scheduler, NOW);
        }
        assert_eq!(bound(&all), ["b"]);
        assert!(answers.next().is_none());
        scheduler.observe(NOW, Event::Done(EffectId(1 << 40), Ok(())));
        scheduler.reject_waiting_pod(&ObjectKey::new("default", "p"), "Permits", "no");
        scheduler.wind_up(NOW, &mut Vec::new());
    });
    let outcome = replay_file(&path, Engine::Reference).expect("it can be read");
    assert_eq!(outcome.difference, None);
    assert_eq!(outcome.tally.events, 10);
}
