//! Attempts are found by the names of their pods, whether the index of names has them already or not.

use std::path::Path;
use std::time::Duration;

use plimsoll_journal::{Reader, Retention, WhenFull};

use crate::made::{Entry, begin, decision, entry, key, scheduled, unschedulable};

/// So many attempts are added to the index together.
const TOGETHER: i64 = 16 * 1024;

/// The attempts of pods that are named by numbers, a second after one another.
fn attempts(from: i64, to: i64) -> impl Iterator<Item = Entry> {
    (from..to).map(|number| attempt(number * 1000, &format!("web-{number}"), 1))
}

fn attempt(now: i64, name: &str, number: u32) -> Entry {
    entry(now, &decision(name, number, now, scheduled("n1")))
}

fn write(path: &Path, entries: impl IntoIterator<Item = Entry>) {
    let (journal, mut scheduler) = begin(path, Retention::default(), WhenFull::Wait);
    entries.into_iter().for_each(|entry| scheduler.does(entry));
    drop(scheduler);
    assert_eq!(journal.finish().error, None);
}

/// When the attempts of a pod were made.
fn history(path: &Path, name: &str) -> Vec<i64> {
    let reader = Reader::open(path).expect("it is a journal");
    let history = reader.history(&key(name), 10).expect("it can be read");
    history.iter().map(|attempt| attempt.at).collect()
}

/// How many segments there are, how many attempts they have, and how many different ones.
fn indexed(path: &Path) -> (i64, i64, i64) {
    let file = rusqlite::Connection::open(path).expect("it is there");
    let sql = "SELECT count(DISTINCT segment), count(*), count(DISTINCT one.value) FROM names, json_each(names.attempts) AS one";
    file.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .expect("it is a journal")
}

#[test]
fn each_attempt_is_found_in_whichever_segment_it_is_and_in_none() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("journal.db");
    write(&path, attempts(0, 9_000));
    assert_eq!(indexed(&path), (0, 0, 0));
    // It goes on with what it finds in the file.
    write(&path, attempts(9_000, TOGETHER));
    assert_eq!(indexed(&path), (1, TOGETHER, TOGETHER));
    write(&path, attempts(TOGETHER, 40_000));
    write(&path, [attempt(50_000_000, "web-7", 2), attempt(50_000_001, "web-39999", 2)]);
    let (segments, all, different) = indexed(&path);
    assert!(segments == 2 && all == different && 2 * TOGETHER <= all, "{segments} {all}");
    assert_eq!(history(&path, "web-7"), [7_000, 50_000_000]);
    assert_eq!(history(&path, "web-39999"), [39_999_000, 50_000_001]);
    for number in (0..40_000).step_by(997) {
        assert_eq!(history(&path, &format!("web-{number}")), [number * 1000]);
    }
    assert_eq!(history(&path, "web-40000"), [0; 0]);
    let reader = Reader::open(&path).expect("it is a journal");
    for name in ["web-8", "web-39998"] {
        let namesakes = reader.namesakes(name, 10).expect("it can be read");
        assert_eq!(namesakes, [format!("shop/{name}")]);
    }
}

#[test]
fn a_pod_that_is_evicted_long_after_its_attempt_has_its_history_in_short() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("journal.db");
    let evicts = |number: i64, victim: &str| {
        let now = number * 1000;
        let outcome = unschedulable("no room", &[victim]);
        entry(now, &decision(&format!("high-{number}"), 1, now, outcome))
    };
    write(&path, attempts(0, 20_000));
    write(&path, attempts(20_000, 21_000));
    write(&path, [evicts(30_000, "web-5"), evicts(30_001, "web-20500"), evicts(30_002, "other")]);
    let reader = Reader::open(&path).expect("it is a journal");
    let evicted_at = |name: &str| {
        let pod = reader.pod(&key(name), &format!("uid-{name}")).expect("it can be read");
        pod.and_then(|pod| pod.evicted_at)
    };
    assert_eq!(evicted_at("web-5"), Some(30_000_000));
    assert_eq!(evicted_at("web-20500"), Some(30_001_000));
    assert_eq!(evicted_at("web-6"), None);
    let of_victim = reader.preemptions(Some(&key("web-5")), 10).expect("it can be read");
    let of_preemptor = reader.preemptions(Some(&key("high-30000")), 10).expect("it can be read");
    assert_eq!((of_victim.len(), &of_victim), (1, &of_preemptor));
}

#[test]
fn the_index_of_names_is_deleted_with_its_attempts() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("journal.db");
    write(&path, attempts(0, 17_000));
    write(&path, attempts(17_000, 40_000));
    let segments = indexed(&path).0;
    let keep = |seconds| {
        let age = Duration::from_secs(seconds);
        let retention = Retention { age, ..Retention::default() };
        plimsoll_journal::tidy(&path, retention).expect("it can be written");
    };
    keep(39_000);
    assert_eq!(indexed(&path).0, segments);
    assert_eq!((history(&path, "web-900"), history(&path, "web-1100")), (vec![], vec![1_100_000]));
    keep(10_000);
    assert_eq!(indexed(&path).0, segments - 1);
    assert_eq!(history(&path, "web-31000"), [31_000_000]);
    keep(0);
    write(&path, attempts(40_000, 40_001));
    assert_eq!(history(&path, "web-40000"), [40_000_000]);
}

#[test]
fn attempts_are_found_although_another_program_has_deleted_all_earlier_ones() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("journal.db");
    write(&path, attempts(0, 17_000));
    let file = rusqlite::Connection::open(&path).expect("it is there");
    file.execute_batch("DELETE FROM attempts").expect("nobody else writes");
    drop(file);
    write(&path, attempts(20_000, 20_100));
    assert_eq!(history(&path, "web-20007"), [20_007_000]);
    assert_eq!(history(&path, "web-7"), [0; 0]);
    assert_eq!(indexed(&path), (0, 0, 0));
}
