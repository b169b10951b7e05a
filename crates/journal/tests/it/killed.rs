//! A process that is killed while it writes.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_journal::{Reader, Retention, WhenFull};

use crate::made::{begin, decision, entry, key, scheduled};

/// Set in the process that is killed: the file that it writes.
const VARIABLE: &str = "PLIMSOLL_KILLED_JOURNAL";

/// Not a test by itself: the process that is killed. It writes without an end, and says how far it is.
#[test]
fn writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let path = std::path::PathBuf::from(path);
    let (_journal, mut scheduler) = begin(&path, Retention::default(), WhenFull::Wait);
    let begun = Instant::now();
    for number in 1_u32.. {
        let decision = decision("a", number, i64::from(number), scheduled("n1"));
        scheduler.does(entry(i64::from(number), &decision));
        scheduler.flush();
        if number % 100 == 0 {
            println!("sent {number} {}", begun.elapsed().as_millis());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn after_a_kill_nothing_older_than_a_second_is_lost() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("journal.db");
    let mut child = Command::new(std::env::current_exe().expect("it runs"))
        .args(["killed::writes_until_it_is_killed", "--exact", "--nocapture"])
        .env(VARIABLE, &path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be run");
    let out = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut sent: Vec<(i64, i64)> = Vec::new();
    for line in out.lines() {
        let line = line.expect("it is text");
        let numbers: Vec<i64> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if let (true, [number, millis]) = (line.starts_with("sent "), numbers.as_slice()) {
            sent.push((*number, *millis));
            if 3000 < *millis {
                break;
            }
        }
    }
    // SIGKILL: it cannot finish anything.
    child.kill().expect("it still runs");
    child.wait().expect("it ends");
    let (_, end) = *sent.last().expect("it has said something");
    let before =
        sent.iter().rfind(|(_, millis)| *millis <= end - 1000).expect("it wrote for longer").0;
    let reader = Reader::open(&path).expect("the journal is whole");
    let last = reader.history(&key("a"), 1).expect("it can be read");
    let written = last.last().expect("something is written").number;
    assert!(before <= written, "{before} was sent a second before, and only {written} are there");
    let all = reader.history(&key("a"), usize::MAX).expect("it can be read");
    assert_eq!(i64::try_from(all.len()), Ok(written), "none is missing between");
}
