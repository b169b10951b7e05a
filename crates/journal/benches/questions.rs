//! Measures the questions about a journal of a million attempts, and how long it takes to write a thousand entries. It also says how
//! large the journal is.

#[path = "../tests/it/made.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod made;

use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use plimsoll_journal::{Reader, Retention, WhenFull};

use plimsoll_engine::GroupResult;

use crate::made::{
    Entry, begin, bound, decision, entry, group, group_entry, key, scheduled, unschedulable,
};

const ATTEMPTS: i64 = 1_000_000;
/// Every tenth attempt fails; every hundredth of these evicts a pod.
const FAILS: i64 = 10;
const EVICTS: i64 = 1_000;
/// Every tenth attempt that failed is made again.
const RETRIES: i64 = 100;
/// Every hundredth attempt of a pod comes with one of a group.
const GROUPS: i64 = 100;
/// A hundred attempts a second, so that there are several hours.
const PER_MILLI: i64 = 1;

fn everything() -> Retention {
    Retention { size: u64::MAX, age: Duration::MAX }
}

fn entries(from: i64, n: i64) -> impl Iterator<Item = Entry> {
    (from..from + n).flat_map(|number| {
        let (now, name) = (number * PER_MILLI * 10, format!("pod-{number}"));
        if number % FAILS == 0 {
            let victim = format!("pod-{}", number - 1);
            let victims = if number % EVICTS == 0 { vec![victim.as_str()] } else { Vec::new() };
            let outcome = unschedulable("0/3 nodes are available: 3 Insufficient cpu.", &victims);
            let mut all = vec![entry(now, &decision(&name, 1, now, outcome.clone()))];
            if number % RETRIES == 0 {
                all.push(entry(now + 9, &decision(&name, 2, now, outcome)));
            }
            if number % GROUPS == 0 {
                let attempt = u32::try_from(number / GROUPS).expect("there are few") + 1;
                all.push(group_entry(now, &group(attempt, GroupResult::Unschedulable, &[])));
            }
            all
        } else {
            let node = format!("n{}", number % 5_000);
            let placed = entry(now, &decision(&name, 1, now, scheduled(&node)));
            vec![placed, bound(now + number % 977, &name, None)]
        }
    })
}

fn write(path: &Path, entries: impl Iterator<Item = Entry>) {
    let (journal, mut scheduler) = begin(path, everything(), WhenFull::Wait);
    entries.for_each(|entry| scheduler.does(entry));
    drop(scheduler);
    assert_eq!(journal.finish().error, None);
}

#[expect(clippy::print_stdout, reason = "it is for whoever runs the benchmark")]
fn questions(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("journal.db");
    write(&path, entries(0, ATTEMPTS));
    let reader = Reader::open(&path).expect("it is a journal");
    let bytes = std::fs::metadata(&path).expect("it is there").len();
    println!("a journal of {ATTEMPTS} attempts has {} KiB for 1,000", (bytes >> 10) / 1000);
    let mut group = c.benchmark_group("questions about a million attempts");
    group.sample_size(10);
    let pod = key("pod-500000");
    group.bench_function("pod", |b| b.iter(|| reader.history(&pod, 50).expect("it is there")));
    group.bench_function("preemptions", |b| {
        b.iter(|| reader.preemptions(None, 50).expect("it is there"));
    });
    group.bench_function("preemptions of a pod", |b| {
        b.iter(|| reader.preemptions(Some(&pod), 50).expect("it is there"));
    });
    group.bench_function("slowest", |b| b.iter(|| reader.slowest(50).expect("it is there")));
    group.bench_function("most retried", |b| {
        b.iter(|| reader.most_retried(50).expect("it is there"));
    });
    group.bench_function("hours", |b| b.iter(|| reader.hours(50).expect("it is there")));
    group.bench_function("why", |b| {
        b.iter(|| {
            let last = reader.history(&pod, 1).expect("it is there");
            (
                reader.pod(&pod, &last[0].uid).expect("it is there"),
                reader.lost().expect("it is there"),
            )
        });
    });
    group.bench_function("pods of a name", |b| {
        b.iter(|| reader.namesakes("pod-500000", 50).expect("it is there"));
    });
    let train = key("train");
    group.bench_function("group", |b| {
        b.iter(|| reader.group_history(&train, 50).expect("it is there"));
    });
    group.bench_function("losses", |b| b.iter(|| reader.losses(50).expect("it is there")));
    group.finish();
    let mut group = c.benchmark_group("journal");
    group.sample_size(10);
    let mut from = ATTEMPTS;
    group.bench_function("writing 1,000 attempts with their bindings", |b| {
        b.iter(|| {
            write(&path, entries(from, 1000));
            from += 1000;
        });
    });
    group.finish();
}

criterion_group!(benches, questions);
criterion_main!(benches);
