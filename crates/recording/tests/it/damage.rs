//! Files that are not whole, or not recordings.

use std::fs;

use expect_test::expect;
use plimsoll_engine::Engine;
use plimsoll_plugins::in_tree;
use plimsoll_recording::{Ending, Limits, ReadError, Reader};

use crate::lab::{Outcome, record, replay_file};

/// The bytes of a small recording.
fn small() -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>) {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("recording");
    record(&path, 2, Engine::Fast, Limits::NONE);
    let bytes = fs::read(&path).expect("it was written");
    (directory, path, bytes)
}

fn message(result: Result<Outcome, ReadError>, path: &std::path::Path) -> String {
    let error = result.expect_err("it cannot be replayed");
    error.to_string().replace(&path.display().to_string(), "FILE")
}

#[test]
fn a_file_cut_at_any_byte_replays_up_to_its_last_whole_frame() {
    let (_directory, path, bytes) = small();
    let whole = replay_file(&path, Engine::Fast).expect("it is whole");
    let mut n_replayed = 0;
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).expect("there is room");
        match replay_file(&path, Engine::Fast) {
            Ok(outcome) => {
                n_replayed += 1;
                assert_eq!(outcome.difference, None, "{length} bytes");
                let Ending::Cut(at) = outcome.ending else { panic!("{:?}", outcome.ending) };
                assert!(at <= length as u64, "{length} bytes");
                assert!(outcome.tally.events <= whole.tally.events, "{length} bytes");
            }
            Err(ReadError::NoHeader { offset, .. }) => assert!(offset <= length as u64),
            Err(ReadError::NotARecording { .. }) => assert!(length < 12),
            Err(other) => panic!("{length} bytes: {other}"),
        }
    }
    assert!(0 < n_replayed, "some cut leaves the header");
}

#[test]
fn a_changed_byte_is_found() {
    let (_directory, path, bytes) = small();
    // Every byte of the preamble and the head of the first frame, and then some.
    for at in (0..64).chain((64..bytes.len()).step_by(61)) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x40;
        fs::write(&path, changed).expect("there is room");
        // A length that grew looks like a file that was cut.
        if let Ok(outcome) = replay_file(&path, Engine::Fast) {
            assert!(matches!(outcome.ending, Ending::Cut(_)), "byte {at}");
        }
    }
}

#[test]
fn errors_name_the_file_the_byte_and_the_remedy() {
    let (_directory, path, mut bytes) = small();
    let replayed = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("there is room");
        message(replay_file(&path, Engine::Fast), &path)
    };
    expect![
        "FILE: byte 0: is not a recording: give a file that `--record` of run or simulate wrote"
    ]
    .assert_eq(&replayed(b"apiVersion: v1\nkind: Pod\n"));
    expect!["FILE: byte 0: ends before its header is complete: nothing can be replayed"]
        .assert_eq(&replayed(b""));
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let damaged = replayed(&bytes);
    assert!(damaged.contains("the checksum of a frame differs: the file is damaged"), "{damaged}");
    bytes[8] = 99;
    expect!["FILE: byte 8: has version 99 of the format, and this program reads version 6: replay it with the program that wrote it"]
        .assert_eq(&replayed(&bytes));
    fs::remove_file(&path).expect("it is there");
    let missing = message(replay_file(&path, Engine::Fast), &path);
    assert!(missing.starts_with("FILE: cannot be read: "), "{missing}");
}

#[test]
fn a_recording_without_an_end_says_where_it_ends() {
    let (_directory, path, bytes) = small();
    fs::write(&path, &bytes[..bytes.len() - 1]).expect("there is room");
    let mut reader = Reader::open(&path, in_tree().kinds()).expect("the header is whole");
    while reader.next().expect("whole frames are right").is_some() {}
    assert_eq!(reader.ending(), Some(Ending::Cut(reader.offset())));
}
