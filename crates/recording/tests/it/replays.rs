//! A recording replays to the same decisions.

use plimsoll_engine::{Engine, Options};
use plimsoll_plugins::in_tree;
use plimsoll_recording::{Ending, Limits, Reader, Replay, Replayed};

use crate::lab::{record, replay_file};

/// Enough seeds for volumes, preemption, nominations, faults and deleted nodes.
const SEEDS: std::ops::Range<u64> = 0..40;

#[test]
fn random_simulations_replay_to_the_same_effects_in_both_engines() {
    let directory = tempfile::tempdir().expect("there is room");
    let mut decisions = 0;
    for seed in SEEDS {
        let path = directory.path().join(format!("{seed}"));
        let summary = record(&path, seed, Engine::Fast, Limits::NONE);
        let outcomes = [Engine::Fast, Engine::Reference].map(|engine| {
            let outcome = replay_file(&path, engine).expect("it can be read");
            assert_eq!(outcome.difference, None, "seed {seed}");
            assert_eq!(outcome.ending, Ending::End, "seed {seed}");
            assert_eq!(outcome.tally.events, summary.events, "seed {seed}");
            outcome
        });
        assert_eq!(outcomes[0].digest, outcomes[1].digest, "seed {seed}");
        decisions += outcomes[0].tally.decisions;
    }
    assert!(1_000 < decisions, "the seeds lead to only {decisions} decisions");
}

#[test]
fn a_recording_of_decisions_from_scratch_replays_from_memory() {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("recording");
    record(&path, 7, Engine::Reference, Limits::NONE);
    let outcome = replay_file(&path, Engine::Fast).expect("it can be read");
    assert_eq!(outcome.difference, None);
}

#[test]
fn the_first_decision_that_differs_is_named() {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("recording");
    let named = SEEDS.into_iter().any(|seed| {
        record(&path, seed, Engine::Fast, Limits::NONE);
        let registry = in_tree();
        let mut reader = Reader::open(&path, registry.kinds()).expect("it is a recording");
        // With another seed, ties are broken in another way.
        let mut header = reader.header().clone();
        header.seed += 1;
        let options = Options { engine: Engine::Fast, ..header.options() };
        let scheduler = header.scheduler(&registry, options).expect("the profile is right");
        let mut replay = Replay::new(scheduler);
        while let Some(entry) = reader.next().expect("it is whole") {
            if let Replayed::Differs(difference) = replay.play(entry) {
                let text = difference.to_string();
                return difference.pod().is_some_and(|pod| text.contains(&pod.to_string()))
                    && text.contains("recorded: pod")
                    && text.contains("in the replay: pod");
            }
        }
        false
    });
    assert!(named, "some seed has a tie");
}

#[test]
fn a_recording_is_the_same_bytes_each_time() {
    let directory = tempfile::tempdir().expect("there is room");
    let [one, other] = ["one", "other"].map(|name| {
        let path = directory.path().join(name);
        record(&path, 3, Engine::Fast, Limits::NONE);
        std::fs::read(&path).expect("it was written")
    });
    assert!(one == other);
}
