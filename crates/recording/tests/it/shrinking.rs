//! Audit differences, and the smallest recordings that show them.

use std::time::Duration;

use plimsoll_api::{Asks, Node, ObjectKey, Pod, PodTemplate, Resources};
use plimsoll_engine::{Detail, Engine, Options, Scans};
use plimsoll_framework::parts::Requests;
use plimsoll_framework::{
    Allocatable, Entry, FeatureGates, Filter, FilterByAmounts, Needs, NoArgs, Plugin, Point,
    Registry, Requested, Verdict,
};
use plimsoll_plugins::in_tree;
use plimsoll_recording::{Effort, Limits, Reader, shrink};
use plimsoll_sim::{InitialCluster, Simulation};

use crate::lab::{header, options, profiles, recorded, replay};

const ENOUGH: Effort = Effort { entries: 1_000_000, time: Duration::MAX };

/// Deliberately wrong: its rule wants the CPU of the pod once, and what it says it needs is twice as much.
struct Hesitant;

impl Plugin for Hesitant {
    const NAME: &'static str = "Hesitant";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Hesitant
    }
}

impl Filter for Hesitant {
    type Pod = Requests;
    type Node = (Allocatable, Requested);
    fn filter(&self, pod: &Resources, (all, taken): (&Allocatable, &Requested)) -> Verdict {
        let free = all.0.milli_cpu.saturating_sub(taken.0.milli_cpu);
        match pod.milli_cpu <= free {
            true => Verdict::Pass,
            false => Verdict::unschedulable("hesitates"),
        }
    }
}

impl FilterByAmounts for Hesitant {
    fn needs(&self, pod: &Resources) -> Option<Needs> {
        Some(Needs([("cpu".into(), pod.milli_cpu.saturating_mul(2))].into_iter().collect()))
    }
}

fn registry() -> Registry {
    let mut registry = in_tree();
    registry.add(Entry::of::<Hesitant>().filter().filter_by_amounts().done());
    registry
}

/// Nodes of one core, and pods that request 600 thousandths or less.
fn cluster() -> InitialCluster {
    let allocatable =
        Resources { milli_cpu: 1_000, memory: 1 << 30, pods: 10, ..Resources::default() };
    let node = |number| Node {
        name: format!("n{number}").into(),
        allocatable: allocatable.clone(),
        ..Node::default()
    };
    let pod = |number: i64| {
        let requests = Resources { milli_cpu: 100 + 50 * (number % 11), ..Resources::default() };
        let template = PodTemplate {
            scheduler_name: "default-scheduler".into(),
            asks: Asks { fit: requests.clone(), ..Asks::default() },
            requests,
            ..PodTemplate::default()
        };
        Pod::new(ObjectKey::new("default", format!("p{number}")), template)
    };
    InitialCluster {
        nodes: (0..20).map(node).collect(),
        pods: (0..60).map(pod).collect(),
        ..InitialCluster::default()
    }
}

#[test]
fn what_a_difference_does_not_need_is_left_out() {
    let directory = tempfile::tempdir().expect("there is room");
    let (registry, path) = (registry(), directory.path().join("recording"));
    let mut specs = profiles(&in_tree());
    specs[0].points.entry(Point::Filter).or_default().push(("Hesitant".to_owned(), 1));
    let audited = Options {
        audit_every: 1,
        scans: Scans::Always,
        detail: Detail::None,
        ..options(Engine::Fast)
    };
    let seed = 5;
    let header = header(&specs, &audited, seed);
    let make = || header.scheduler(&registry, audited).expect("the profile is right");
    recorded(&path, header.clone(), Limits::NONE, make(), |scheduler| {
        let mut simulation = Simulation::new(scheduler, cluster());
        assert!(simulation.advance().is_none(), "no details of decisions are kept");
        assert_ne!(simulation.decisions_audit().differing, 0, "the audits find the plugin out");
    });
    let mut reader = Reader::open(&path, registry.kinds()).expect("it is a recording");
    let mut entries = Vec::new();
    while let Some(entry) = reader.next().expect("it is whole") {
        entries.push(entry);
    }
    let before = entries.len();
    let shrunk = shrink(entries.clone(), &make, ENOUGH).expect("the replay differs, too");
    // Two nodes, the pods that decide which of them is full, and their steps.
    let left = shrunk.entries.len();
    assert!(left <= 12 && 200 < before, "{left} of {before}: {:#?}", shrunk.entries);
    let again = shrink(shrunk.entries.clone(), &make, ENOUGH).expect("it still differs");
    assert_eq!(again.entries.len(), left, "nothing more can be left out");
    // Without time there is no result, and with too little work a larger one.
    let no_time = Effort { time: Duration::ZERO, ..ENOUGH };
    assert!(shrink(entries.clone(), &make, no_time).is_none());
    let little = shrink(entries, &make, Effort { entries: 0, ..ENOUGH });
    let little = little.expect("the first replay is not limited");
    assert!(left < little.entries.len() && little.replays == 1);

    let small = directory.path().join("small");
    let destination = plimsoll_recording::Destination { path: small.clone(), limits: Limits::NONE };
    let recording = plimsoll_recording::Recording::start(
        destination,
        header.clone(),
        plimsoll_recording::WhenFull::Wait,
        |_| {},
    );
    let recording = recording.expect("the file can be written");
    shrunk.record(make(), recording.recorder());
    recording.finish().expect("all was written");
    let outcome =
        replay(std::slice::from_ref(&small), &registry, Engine::Fast).expect("it can be read");
    assert_eq!(outcome.difference, None);
    let [large, small] =
        [&path, &small].map(|path| std::fs::metadata(path).expect("it is there").len());
    assert!(small < large, "{small} bytes of {large}");
}
