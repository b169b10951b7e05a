//! Recordings of several parts.

use std::path::PathBuf;

use plimsoll_engine::Engine;
use plimsoll_plugins::in_tree;
use plimsoll_recording::{Ending, Limits, part_path};

use crate::lab::{record, replay};

/// So small that every frame is a part of its own, except that a part is larger than its picture.
const SMALL: u64 = 1;

fn parts(directory: &tempfile::TempDir, parts: u32) -> Vec<PathBuf> {
    let path = directory.path().join("recording");
    let limits = Limits { part_size: SMALL, parts };
    // The largest of the first seeds has several frames.
    let summary = record(&path, 0, Engine::Fast, limits);
    (1..=summary.parts).map(|part| part_path(&path, part)).collect()
}

#[test]
fn all_parts_together_replay_exactly() {
    let directory = tempfile::tempdir().expect("there is room");
    let paths = parts(&directory, u32::MAX);
    let outcome = replay(&paths, &in_tree(), Engine::Fast).expect("they can be read");
    assert_eq!((outcome.difference, outcome.ending), (None, Ending::End));
}
