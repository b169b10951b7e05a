//! Recordings of several parts.

use std::path::{Path, PathBuf};

use plimsoll_engine::{Engine, Options};
use plimsoll_plugins::in_tree;
use plimsoll_recording::{Ending, Judge, Limits, Reader, Verdicts, part_path};

use crate::lab::{record, replay};

/// Parts of a few kilobytes, so that a short simulation has several.
const SMALL: u64 = 2_000;

fn parts(directory: &tempfile::TempDir, seed: u64, kept: u32) -> (Vec<PathBuf>, u32) {
    let path = directory.path().join("recording");
    let limits = Limits { part_size: SMALL, parts: kept };
    let summary = record(&path, seed, Engine::Fast, limits);
    let all = (1..=summary.parts).map(|part| part_path(&path, part));
    (all.filter(|path| path.exists()).collect(), summary.parts)
}

#[test]
fn all_parts_together_replay_exactly() {
    let directory = tempfile::tempdir().expect("there is room");
    let (paths, n_parts) = parts(&directory, 0, u32::MAX);
    assert!(2 < n_parts, "there are only {n_parts} parts");
    let outcome = replay(&paths, &in_tree(), Engine::Fast).expect("they can be read");
    assert_eq!((outcome.difference, outcome.ending), (None, Ending::End));
}

#[test]
fn only_the_newest_parts_are_kept() {
    let directory = tempfile::tempdir().expect("there is room");
    let (paths, n_parts) = parts(&directory, 0, 2);
    assert!(2 < n_parts, "there are only {n_parts} parts");
    let newest =
        (n_parts - 1..=n_parts).map(|part| part_path(&directory.path().join("recording"), part));
    assert!(paths.iter().eq(newest.collect::<Vec<_>>().iter()), "{paths:?} of {n_parts}");
}

/// Judges the decisions of one part by itself.
fn judged(path: &Path) -> Verdicts {
    let registry = in_tree();
    let mut reader = Reader::open(path, registry.kinds()).expect("it is a recording");
    let options = Options { engine: Engine::Reference, ..reader.header().options() };
    let scheduler = reader.header().scheduler(&registry, options).expect("the profile is right");
    let mut judge = Judge::new(scheduler);
    while let Some(entry) = reader.next().expect("it is whole") {
        judge.take(entry);
    }
    judge.verdicts().clone()
}

#[test]
fn the_decisions_of_a_part_are_judged_without_those_before() {
    let (mut judged_all, mut differing) = (0, 0);
    for seed in 0..10 {
        let directory = tempfile::tempdir().expect("there is room");
        let (paths, _) = parts(&directory, seed, u32::MAX);
        for path in &paths[1..] {
            let verdicts = judged(path);
            judged_all += verdicts.judged;
            differing += verdicts.differing;
            if let Some((now, pod, text)) = verdicts.first {
                println!("seed {seed}, {}: at {now}: {pod}: {text}", path.display());
            }
        }
    }
    // What was reserved for a pod and not written yet is not in the picture.
    assert!(50 < judged_all && differing * 20 < judged_all, "{differing} of {judged_all} differ");
}
