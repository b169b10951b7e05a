//! Audit differences, and the smallest recordings that show them.

use plimsoll_api::Resources;
use plimsoll_engine::{Engine, Options};
use plimsoll_framework::parts::Requests;
use plimsoll_framework::{
    Allocatable, Entry, FeatureGates, Filter, FilterByAmounts, Needs, NoArgs, Plugin, Point,
    Registry, Requested, Verdict,
};
use plimsoll_plugins::in_tree;
use plimsoll_recording::{Limits, Reader, shrink};
use plimsoll_sim::{Extent, swarm};

use crate::lab::{header, options, profiles, recorded, replay};

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

#[test]
fn what_a_difference_does_not_need_is_left_out() {
    let directory = tempfile::tempdir().expect("there is room");
    let (registry, path) = (registry(), directory.path().join("recording"));
    let mut specs = profiles(&in_tree());
    specs[0].points.entry(Point::Filter).or_default().push(("Hesitant".to_owned(), 1));
    let audited = Options { audit_every: 1, ..options(Engine::Fast) };
    // A seed whose pods request CPU.
    let seed = 5;
    let header = header(&specs, &audited, seed);
    let make = || header.scheduler(&registry, audited).expect("the profile is right");
    recorded(&path, header.clone(), Limits::NONE, make(), |scheduler| {
        let mut simulation = swarm::begin(seed, scheduler, Extent::Placements);
        for _ in 0..200 {
            if simulation.advance().is_none() {
                break;
            }
        }
        assert_ne!(simulation.decisions_audit().differing, 0, "the audits find the plugin out");
    });
    let mut reader = Reader::open(&path, registry.kinds()).expect("it is a recording");
    let mut entries = Vec::new();
    while let Some(entry) = reader.next().expect("it is whole") {
        entries.push(entry);
    }
    let before = entries.len();
    let shrunk = shrink(entries, &make, 1_000_000).expect("the replay differs, too");
    // One node, one pod that fits it once and not twice, and the step that decides the pod. More of them only if
    // something has to be remembered first.
    assert!(
        shrunk.entries.len() <= 6,
        "{} of {before}: {:#?}",
        shrunk.entries.len(),
        shrunk.entries
    );

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
    let outcome = replay(&[small.clone()], &registry, Engine::Fast).expect("it can be read");
    assert_eq!(outcome.difference, None);
    let [large, small] =
        [&path, &small].map(|path| std::fs::metadata(path).expect("it is there").len());
    assert!(small < large, "{small} bytes of {large}");
}
