//! The bytes of the format do not change unnoticed.

use std::hash::Hasher;

use expect_test::expect;
use plimsoll_engine::{Event, Options};
use plimsoll_framework::{FeatureGates, Time};
use plimsoll_recording::{Destination, Header, Limits, Recording, WhenFull};
use plimsoll_sim::RandomWorkload;
use twox_hash::XxHash64;

/// The bytes of a recording of these events, without decisions.
fn bytes(events: Vec<Event>) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("recording");
    let options = Options::default();
    let header = Header::new(("test", "test"), &[], &FeatureGates::default(), &options, 0);
    let destination = Destination { path: path.clone(), limits: Limits::NONE };
    let recording = Recording::start(destination, header, WhenFull::Wait, |_| {});
    let recording = recording.expect("the file can be written");
    let mut recorder = recording.recorder();
    for event in events {
        recorder.observed(Time::ZERO, &event);
    }
    recording.finish().expect("all was written");
    std::fs::read(&path).expect("it was written")
}

/// The random clusters have pods, nodes and other objects with most of their fields. If this fails because the form of
/// an entry has changed, which a new field of a pod or of another object does, raise `FORMAT` in `form.rs`, and run the
/// test with `UPDATE_EXPECT=1`. That is enough if only the random clusters or the compression have changed.
#[test]
fn a_change_of_the_format_is_noticed() {
    let hashes = [1, 4, 9].map(|seed| {
        let bytes = bytes(RandomWorkload::of(seed).cluster.into_events());
        let mut hash = XxHash64::default();
        hash.write(&bytes);
        format!("{} bytes, {:016x}", bytes.len(), hash.finish())
    });
    expect![[r#"
        2902 bytes, 65c70eed8e25cd19
        1887 bytes, f53d896e41da65f7
        1869 bytes, b088749d2fb61395"#]]
    .assert_eq(&hashes.join("\n"));
}
