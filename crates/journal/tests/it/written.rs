//! What is written can be read.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use plimsoll_journal::{Journal, JournalError, Reader, Retention, WhenFull};

use plimsoll_engine::{GroupResult, RejectionCount};
use plimsoll_framework::Reason;

use crate::made::{
    Entry, Scheduler, begin, bound, decision, entry, group, group_entry, key, nodes, pod,
    scheduled, unschedulable,
};

const HOUR: i64 = 3_600_000;

fn write(path: &Path, retention: Retention, entries: impl IntoIterator<Item = Entry>) {
    let (journal, mut scheduler) = begin(path, retention, WhenFull::Wait);
    entries.into_iter().for_each(|entry| scheduler.does(entry));
    drop(scheduler);
    let written = journal.finish();
    assert_eq!((written.error, written.lost), (None, 0));
}

/// Sends entries, and waits until they are written.
fn write_now(
    journal: &Journal,
    scheduler: &mut Scheduler,
    entries: impl IntoIterator<Item = Entry>,
) {
    let before = journal.counts().read().written;
    let mut n = 0;
    for entry in entries {
        scheduler.does(entry);
        n += 1;
    }
    scheduler.flush();
    while journal.counts().read().written < before + n {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("there is room")
}

#[test]
fn the_history_of_a_pod_says_what_woke_it_what_rejected_it_and_how_it_was_bound() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let failed = decision("web", 1, 10_000, unschedulable("0/3 nodes are available", &[]));
    let mut placed = decision("web", 2, 20_000, scheduled("n2"));
    placed.nodes = nodes();
    let entries = [entry(10_000, &failed), entry(20_000, &placed), bound(20_500, "web", None)];
    write(&path, Retention::default(), entries);
    let reader = Reader::open(&path).expect("it is a journal");
    let history = reader.history(&key("web"), 10).expect("it can be read");
    let [first, second] = history.as_slice() else { panic!("{history:?}") };
    assert_eq!((first.result.as_str(), first.number, first.queued_at), ("unschedulable", 1, 9_000));
    assert_eq!(first.message.as_deref(), Some("0/3 nodes are available"));
    let [why] = first.rejections.as_slice() else { panic!("{first:?}") };
    assert_eq!((why.plugin.as_str(), why.nodes), ("NodeResourcesFit", Some(3)));
    assert_eq!(why.reason.as_deref(), Some("Insufficient cpu"));
    assert_eq!(first.woken_by.as_deref(), Some("PodAdd"));
    assert_eq!((second.node.as_deref(), second.answered_at), (Some("n2"), Some(20_500)));
    assert_eq!((second.feasible, second.margin), (Some(2), Some(15)));
    let rejection = &second.rejections[0];
    assert_eq!((rejection.plugin.as_str(), rejection.nodes), ("TaintToleration", Some(1)));
    assert_eq!(reader.history(&key("web"), 1).expect("it can be read"), history[1..]);
    assert_eq!(reader.history(&key("other"), 10).expect("it can be read"), []);
}

#[test]
fn long_reasons_are_shortened_as_messages_are() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let long = "x".repeat(5_000);
    let mut failed = decision("web", 1, 10_000, unschedulable(&long, &[]));
    let context = failed.context.as_mut().expect("it was an attempt");
    context.rejections = [RejectionCount {
        plugin: "NodeResourcesFit",
        reason: Reason::Insufficient(long.as_str().into()),
        nodes: 3,
    }]
    .into();
    write(&path, Retention::default(), [entry(10_000, &failed)]);
    let reader = Reader::open(&path).expect("it is a journal");
    let history = reader.history(&key("web"), 10).expect("it can be read");
    let reason = history[0].rejections[0].reason.as_deref().map(str::len);
    assert!(reason.is_some_and(|len| len < 5_000));
    assert_eq!(reason, history[0].message.as_deref().map(str::len));
}

#[test]
fn slow_and_often_retried_pods_are_found() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let mut entries = Vec::new();
    let pods = [
        ("at once", 1, 100),
        ("late", 1, 3_000),
        ("again", 2, 200),
        ("slow", 3, 90_000),
        ("refused", 2, 0),
    ];
    for (name, attempts, waits) in pods {
        for number in 1..=attempts {
            let failed = unschedulable("no room", &[]);
            let now = i64::from(number) * 1000;
            let last = number == attempts && waits != 0;
            let outcome = if last { scheduled("n1") } else { failed };
            entries.push(entry(now, &decision(name, number, 1000, outcome)));
        }
        let error = (waits == 0).then_some("refused");
        entries.push(bound(waits, name, error));
    }
    write(&path, Retention::default(), entries);
    let reader = Reader::open(&path).expect("it is a journal");
    let slowest = reader.slowest(5).expect("it can be read");
    let names: Vec<_> = slowest.iter().map(|one| (one.pod.as_str(), one.waited)).collect();
    let expected = [("shop/slow", 90_000), ("shop/late", 3_000), ("shop/again", 200)];
    assert_eq!(names, expected.map(|(name, waited)| (name, Some(waited))), "who waited at all");
    let retried = reader.most_retried(5).expect("it can be read");
    let names: Vec<_> = retried.iter().map(|one| (one.pod.as_str(), one.attempts)).collect();
    assert_eq!(names, [("shop/slow", 3), ("shop/refused", 2), ("shop/again", 2)]);
}

#[test]
fn where_all_pods_wait_long_only_the_slowest_have_a_history_in_short() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let name = |waits: i64| format!("web-{waits}");
    let waits: Vec<i64> = (2000..4000).collect();
    let tried = |waits: i64| entry(1000, &decision(&name(waits), 1, 1000, scheduled("n1")));
    let (at_once, later) = waits.split_at(1000);
    // Those that are answered later wait longer.
    let mut entries: Vec<Entry> = waits.iter().map(|waits| tried(*waits)).collect();
    entries.extend(at_once.iter().map(|waits| bound(*waits, &name(*waits), None)));
    let (journal, mut scheduler) = begin(&path, Retention::default(), WhenFull::Wait);
    write_now(&journal, &mut scheduler, entries);
    for waits in later {
        scheduler.does(bound(*waits, &name(*waits), None));
    }
    drop(scheduler);
    assert_eq!(journal.finish().error, None);
    let reader = Reader::open(&path).expect("it is a journal");
    let slowest = reader.slowest(200).expect("it can be read");
    let waited: Vec<_> = slowest.into_iter().filter_map(|pod| pod.waited).collect();
    assert_eq!(waited, (3800..4000).rev().collect::<Vec<_>>());
    let all = reader.slowest(waits.len()).expect("it can be read");
    assert!(all.len() < waits.len() / 2, "{} of {}", all.len(), waits.len());
}

#[test]
fn a_pod_that_was_bound_at_once_has_a_history_in_short_once_it_is_evicted() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let placed = |name| entry(1000, &decision(name, 1, 1000, scheduled("n1")));
    let evicts = decision("db", 1, 5000, unschedulable("no room", &["web"]));
    let bound = ["web", "other"].map(|name| bound(900, name, None));
    let entries = [placed("web"), placed("other")].into_iter().chain(bound);
    write(&path, Retention::default(), entries.chain([entry(5000, &evicts)]));
    let reader = Reader::open(&path).expect("it is a journal");
    let web = reader.pod(&key("web"), "uid-web").expect("it can be read");
    let web = web.map(|pod| (pod.attempts, pod.ready_at, pod.bound_at, pod.evicted_at));
    assert_eq!(web, Some((1, Some(0), Some(900), Some(5000))));
    assert_eq!(reader.pod(&key("other"), "uid-other").expect("it can be read"), None);
    assert_eq!(reader.most_retried(5).expect("it can be read"), []);
}

#[test]
fn a_binding_may_be_answered_after_its_attempt_was_written() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let (journal, mut scheduler) = begin(&path, Retention::default(), WhenFull::Wait);
    let names = ["late", "at once"];
    let tried = |name| entry(1000, &decision(name, 1, 1000, scheduled("n1")));
    write_now(&journal, &mut scheduler, names.map(tried));
    scheduler.does(bound(3000, "late", None));
    scheduler.does(bound(500, "at once", None));
    drop(scheduler);
    assert_eq!(journal.finish().error, None);
    let reader = Reader::open(&path).expect("it is a journal");
    let slowest = reader.slowest(5).expect("it can be read");
    let waited: Vec<_> = slowest.into_iter().map(|pod| (pod.pod, pod.waited)).collect();
    assert_eq!(waited, [("shop/late".to_owned(), Some(3000))]);
    let answered = names.map(|name| {
        let history = reader.history(&key(name), 1).expect("it can be read");
        history[0].answered_at
    });
    assert_eq!(answered, [Some(3000), Some(500)]);
}

#[test]
fn a_pod_that_is_evicted_before_its_binding_was_answered_is_bound_in_its_history_in_short() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let (journal, mut scheduler) = begin(&path, Retention::default(), WhenFull::Wait);
    let placed = entry(1000, &decision("web", 1, 1000, scheduled("n1")));
    let evicts = entry(1100, &decision("db", 1, 1000, unschedulable("no room", &["web"])));
    write_now(&journal, &mut scheduler, [placed, evicts]);
    write_now(&journal, &mut scheduler, [bound(1200, "web", None)]);
    drop(scheduler);
    assert_eq!(journal.finish().error, None);
    let reader = Reader::open(&path).expect("it is a journal");
    let web = reader.pod(&key("web"), "uid-web").expect("it can be read");
    let web = web.map(|pod| (pod.attempts, pod.bound_at, pod.waited, pod.evicted_at));
    assert_eq!(web, Some((1, Some(1200), Some(1200), Some(1100))));
}

#[test]
fn answers_are_told_of_their_attempts_although_others_were_lost() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let (journal, mut scheduler) = begin(&path, Retention::default(), WhenFull::Lose);
    let placed = |name: &str| entry(1000, &decision(name, 1, 1000, scheduled("n1")));
    write_now(&journal, &mut scheduler, [placed("before")]);
    let other = rusqlite::Connection::open(&path).expect("it is there");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    let mut sent = 0_u64;
    while scheduler.lost() == 0 {
        scheduler.does(placed(&format!("web-{sent}")));
        sent += 1;
    }
    drop(other);
    // Until all are written that were not lost: then there is room for more.
    while journal.counts().read().written < 1 + sent - scheduler.lost() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let lost = format!("web-{}", sent - 1);
    let names = ["before", "web-0", "web-7", &lost, "after"];
    scheduler.does(placed("after"));
    for (name, now) in names.iter().zip(2000..) {
        scheduler.does(bound(now, name, None));
    }
    drop(scheduler);
    assert_eq!(journal.finish().error, None);
    let reader = Reader::open(&path).expect("it is a journal");
    let answers = names.map(|name| {
        let history = reader.history(&key(name), 2).expect("it can be read");
        history.iter().map(|attempt| attempt.answered_at).collect::<Vec<_>>()
    });
    let [before, first, some, after] = [2000, 2001, 2002, 2004].map(|at| vec![Some(at)]);
    assert_eq!(answers, [before, first, some, vec![], after]);
}

#[test]
fn a_binding_that_failed_is_told_of_its_attempt_although_the_next_one_is_written_with_it() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let (journal, mut scheduler) = begin(&path, Retention::default(), WhenFull::Wait);
    let tried = |number| {
        let now = i64::from(number) * 1000;
        entry(now, &decision("web", number, 1000, scheduled("n1")))
    };
    write_now(&journal, &mut scheduler, [tried(1)]);
    write_now(&journal, &mut scheduler, [bound(1500, "web", Some("refused")), tried(2)]);
    let answers = || {
        let reader = Reader::open(&path).expect("it is a journal");
        let history = reader.history(&key("web"), 5).expect("it can be read");
        history.into_iter().map(|one| (one.answered_at, one.error)).collect::<Vec<_>>()
    };
    let refused = (Some(1500), Some("refused".to_owned()));
    assert_eq!(answers(), [refused.clone(), (None, None)]);
    scheduler.does(bound(2500, "web", None));
    drop(scheduler);
    assert_eq!(journal.finish().error, None);
    assert_eq!(answers(), [refused, (Some(2500), None)]);
    let slowest = Reader::open(&path).and_then(|reader| reader.slowest(5)).expect("it is there");
    let waited: Vec<_> = slowest.into_iter().map(|pod| (pod.attempts, pod.waited)).collect();
    assert_eq!(waited, [(2, Some(2500))]);
}

#[test]
fn each_of_many_attempts_that_are_written_together_has_what_belongs_to_it() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let names: Vec<String> = (0..1000).map(|number| format!("p{number}")).collect();
    let is_placed = |number: usize| !number.is_multiple_of(3);
    let entries = names.iter().enumerate().map(|(number, name)| {
        let outcome = match is_placed(number) {
            true => scheduled(&format!("n{}", number % 50)),
            false => unschedulable(&format!("no room for {name}"), &[&format!("v{number}")]),
        };
        entry(1000, &decision(name, 1, 1000, outcome))
    });
    let (journal, mut scheduler) = begin(&path, Retention::default(), WhenFull::Wait);
    write_now(&journal, &mut scheduler, entries);
    // The answers come in another order.
    for number in (0..names.len()).rev().filter(|number| is_placed(*number)) {
        let at = 2000 + i64::try_from(number).expect("small");
        let error = number.is_multiple_of(7).then(|| format!("refused {number}"));
        scheduler.does(bound(at, &names[number], error.as_deref()));
    }
    drop(scheduler);
    assert_eq!(journal.finish().error, None);
    let reader = Reader::open(&path).expect("it is a journal");
    for (number, name) in names.iter().enumerate() {
        let history = reader.history(&key(name), 5).expect("it can be read");
        let [attempt] = history.as_slice() else { panic!("{history:?}") };
        let (answered, node) = (attempt.answered_at, attempt.node.clone());
        if is_placed(number) {
            assert_eq!(answered, Some(2000 + i64::try_from(number).expect("small")));
            assert_eq!(node, Some(format!("n{}", number % 50)));
            let error = number.is_multiple_of(7).then(|| format!("refused {number}"));
            assert_eq!(attempt.error, error, "{attempt:?}");
            assert_eq!((attempt.rejections.len(), attempt.victims.len()), (0, 0), "{attempt:?}");
        } else {
            assert_eq!((answered, node), (None, None), "{attempt:?}");
            assert_eq!(attempt.message, Some(format!("no room for {name}")));
            assert_eq!(attempt.rejections.len(), 1, "{attempt:?}");
            assert_eq!(attempt.victims, [format!("shop/v{number}")]);
        }
    }
}

#[test]
fn an_eviction_is_told_of_the_pod_that_was_there_and_not_of_the_next_one_of_its_name() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let placed = entry(1000, &decision("web", 1, 1000, scheduled("n1")));
    let evicts = entry(2000, &decision("db", 1, 2000, unschedulable("no room", &["web"])));
    let mut again = decision("web", 1, 3000, scheduled("n2"));
    again.context.as_mut().expect("it was an attempt").pod = pod("web", "uid-again");
    write(&path, Retention::default(), [placed, evicts, entry(3000, &again)]);
    let reader = Reader::open(&path).expect("it is a journal");
    let evicted = |uid| {
        let pod = reader.pod(&key("web"), uid).expect("it can be read");
        pod.and_then(|pod| pod.evicted_at)
    };
    assert_eq!((evicted("uid-web"), evicted("uid-again")), (Some(2000), None));
}

#[test]
fn a_pod_that_was_tried_before_the_scheduler_started_again_goes_on_with_its_history() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let failed = |number| entry(0, &decision("web", number, 1000, unschedulable("no room", &[])));
    write(&path, Retention::default(), [failed(1), failed(2)]);
    // The new process counts its attempts from 1 again.
    let placed = entry(9000, &decision("web", 1, 9000, scheduled("n1")));
    write(&path, Retention::default(), [placed, bound(9100, "web", None)]);
    let reader = Reader::open(&path).expect("it is a journal");
    let slowest = reader.slowest(5).expect("it can be read");
    let pods: Vec<_> = slowest.iter().map(|pod| (pod.attempts, pod.bound_at, pod.waited)).collect();
    assert_eq!(pods, [(3, Some(9100), Some(9100))]);
}

#[test]
fn preemptions_are_found_by_victim_and_by_preemptor() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let one = decision("db", 1, 5000, unschedulable("no room", &["web-0", "web-1"]));
    let two = decision("other", 1, 6000, unschedulable("no room", &["web-2"]));
    write(&path, Retention::default(), [entry(5000, &one), entry(6000, &two)]);
    let reader = Reader::open(&path).expect("it is a journal");
    let of = |pod: Option<&str>| {
        let found = reader.preemptions(pod.map(key).as_ref(), 10).expect("it can be read");
        found.into_iter().map(|one| (one.victim, one.preemptor, one.node)).collect::<Vec<_>>()
    };
    let pair = |victim: &str, preemptor: &str| {
        (format!("shop/{victim}"), format!("shop/{preemptor}"), Some("n1".to_owned()))
    };
    assert_eq!(of(Some("web-1")), [pair("web-1", "db")]);
    assert_eq!(of(Some("other")), [pair("web-2", "other")]);
    assert_eq!(of(None).len(), 3);
}

#[test]
fn the_history_of_a_group_says_how_many_members_have_nodes_and_who_was_evicted() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let preempting = group(1, GroupResult::Preempting, &["web-0", "web-1"]);
    let placed = group(2, GroupResult::Scheduled, &[]);
    let entries = [group_entry(5000, &preempting), group_entry(6000, &placed)];
    write(&path, Retention::default(), entries);
    let reader = Reader::open(&path).expect("it is a journal");
    let history = reader.group_history(&key("train"), 10).expect("it can be read");
    let [first, second] = history.as_slice() else { panic!("{history:?}") };
    assert_eq!((first.result.as_str(), first.number, first.at), ("preempting", 1, 5000));
    assert_eq!(first.message.as_deref(), Some("minCount (2) cannot be met"));
    assert_eq!(first.victims, ["shop/web-0", "shop/web-1"]);
    assert_eq!((second.result.as_str(), second.message.as_deref()), ("scheduled", None));
    assert_eq!((second.pods, second.scheduled), (2, 1));
    assert_eq!(second.placement.as_deref(), Some("rack-1"));
    assert_eq!(reader.group_history(&key("train"), 1).expect("it can be read"), history[1..]);
    assert_eq!(reader.group_history(&key("other"), 10).expect("it can be read"), []);
}

#[test]
fn evictions_for_a_group_are_told_once_although_its_member_evicts_too() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let member = decision("train-0", 1, 5000, unschedulable("no room", &["web-0"]));
    let whole = group(1, GroupResult::Preempting, &["web-0", "web-1"]);
    write(&path, Retention::default(), [entry(5000, &member), group_entry(5000, &whole)]);
    let reader = Reader::open(&path).expect("it is a journal");
    let of = |pod: Option<&str>| {
        let found = reader.preemptions(pod.map(key).as_ref(), 10).expect("it can be read");
        let mut pairs: Vec<_> = found.into_iter().map(|one| (one.victim, one.preemptor)).collect();
        pairs.sort();
        pairs
    };
    let pair =
        |victim: &str, preemptor: &str| (format!("shop/{victim}"), format!("shop/{preemptor}"));
    assert_eq!(of(None), [pair("web-0", "train-0"), pair("web-1", "train")]);
    assert_eq!(of(Some("web-1")), [pair("web-1", "train")]);
    assert_eq!(of(Some("train")), [pair("web-0", "train"), pair("web-1", "train")]);
}

#[test]
fn a_journal_of_before_groups_were_written_is_read_and_continued() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    write(&path, Retention::default(), [entry(1000, &decision("web", 1, 1000, scheduled("n1")))]);
    let old = rusqlite::Connection::open(&path).expect("it is a journal");
    old.execute_batch("DROP TABLE group_victims; DROP TABLE group_attempts;")
        .expect("they are there");
    drop(old);
    let reader = Reader::open(&path).expect("it is a journal");
    assert_eq!(reader.group_history(&key("train"), 10).expect("it can be read"), []);
    assert_eq!(reader.preemptions(None, 10).expect("it can be read"), []);
    write(&path, Retention::default(), [group_entry(2000, &group(1, GroupResult::Scheduled, &[]))]);
    assert_eq!(reader.group_history(&key("train"), 10).expect("it can be read").len(), 1);
    assert_eq!(reader.history(&key("web"), 10).expect("it can be read").len(), 1);
}

#[test]
fn attempts_are_counted_by_hour_and_plugin() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let ok = |now| entry(now, &decision("a", 1, now, scheduled("n1")));
    let failed = |now| entry(now, &decision("b", 1, now, unschedulable("no", &[])));
    write(
        &path,
        Retention::default(),
        [ok(HOUR), failed(HOUR + 5), ok(HOUR + 9), failed(3 * HOUR)],
    );
    let hours = Reader::open(&path).and_then(|reader| reader.hours(10)).expect("it can be read");
    let by_plugin = |n| BTreeMap::from([("NodeResourcesFit".to_owned(), n)]);
    let hours: Vec<_> =
        hours.into_iter().map(|one| (one.hour, one.scheduled, one.rejected)).collect();
    assert_eq!(hours, [(HOUR, 2, by_plugin(1)), (3 * HOUR, 0, by_plugin(1))]);
}

#[test]
fn a_journal_that_is_written_again_goes_on() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    for now in [1000, 2000] {
        let number = u32::try_from(now / 1000).expect("small");
        write(
            &path,
            Retention::default(),
            [entry(now, &decision("a", number, now, scheduled("n1")))],
        );
    }
    let reader = Reader::open(&path).expect("it is a journal");
    assert_eq!(reader.history(&key("a"), 10).expect("it can be read").len(), 2);
}

#[test]
fn what_is_too_old_or_too_much_is_deleted() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let names: Vec<String> = (0..1000).map(|number| format!("p{number}")).collect();
    let entries = names.iter().enumerate().flat_map(|(number, name)| {
        let now = i64::try_from(number).expect("small") * 1000;
        [entry(now, &decision(name, 1, now, scheduled("n1"))), bound(now, name, None)]
    });
    write(&path, Retention::default(), entries);
    let kept = |retention: Retention| {
        plimsoll_journal::tidy(&path, retention).expect("it can be written");
        let reader = Reader::open(&path).expect("it is a journal");
        let is_kept =
            |name: &&String| !reader.history(&key(name), 1).expect("it can be read").is_empty();
        let kept = names.iter().filter(is_kept).count();
        let file = rusqlite::Connection::open(&path).expect("it is there");
        let sql = "SELECT count(*), count(history.id) FROM bindings LEFT JOIN history ON history.id = attempt";
        let counts: (u32, u32) =
            file.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("it is a journal");
        let n = u32::try_from(kept).expect("small");
        assert_eq!(counts, (n, n), "answers are kept as long as their attempts");
        kept
    };
    assert_eq!(kept(Retention::default()), 1000);
    assert_eq!(kept(Retention { age: Duration::from_secs(599), ..Retention::default() }), 600);
    assert_eq!(kept(Retention { size: 1, ..Retention::default() }), 540);
}

#[test]
fn another_file_is_refused_and_left_as_it_is() {
    let folder = folder();
    let begin = |name: &str| {
        let path = folder.path().join(name);
        let refused = Journal::begin(&path, Retention::default(), WhenFull::Lose, |_| ());
        (refused.map(|_| ()).expect_err("it is no journal"), path)
    };
    std::fs::write(
        folder.path().join("notes.txt"),
        "not a database, but long enough to be one".repeat(99),
    )
    .expect("there is room");
    let (error, path) = begin("notes.txt");
    assert!(matches!(error, JournalError::NotAJournal(_)), "{error}");
    assert!(std::fs::read_to_string(&path).expect("it is there").starts_with("not a database"));
    let database =
        rusqlite::Connection::open(folder.path().join("other.db")).expect("there is room");
    database.execute_batch("CREATE TABLE t (x)").expect("there is room");
    drop(database);
    assert!(matches!(begin("other.db").0, JournalError::NotAJournal(_)));
    write(&folder.path().join("old.db"), Retention::default(), []);
    let database = rusqlite::Connection::open(folder.path().join("old.db")).expect("it is there");
    // An earlier version, and a later one.
    for version in [2, 99] {
        database.pragma_update(None, "user_version", version).expect("there is room");
        let (error, path) = begin("old.db");
        let told = format!("has version {version} of the schema");
        assert!(error.to_string().contains(&told), "{error}");
        let error = Reader::open(&path).expect_err("it has another schema");
        assert!(error.to_string().contains(&told), "{error}");
    }
    drop(database);
    let missing = Reader::open(&folder.path().join("none.db")).expect_err("it is not there");
    assert!(
        missing.to_string().contains("does not exist: `plimsoll run --journal FILE`"),
        "{missing}"
    );
}

#[test]
fn what_comes_too_fast_is_lost_and_counted() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let (journal, mut scheduler) = begin(&path, Retention::default(), WhenFull::Lose);
    // Another writer holds the file, so that nothing can be written.
    let other = rusqlite::Connection::open(&path).expect("it is there");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    let one = entry(1000, &decision("a", 1, 1000, scheduled("n1")));
    let mut sent = 0_u64;
    while scheduler.lost() == 0 {
        scheduler.does(one.clone());
        sent += 1;
        assert!(sent < 50_000_000, "the queue is bounded");
    }
    drop(other);
    drop(scheduler);
    let written = journal.finish();
    assert!(0 < written.lost);
    assert!(written.entries + written.lost <= sent, "{written:?}");
}

#[test]
fn losses_are_told_by_the_minute_and_deleted_with_what_is_old() {
    let folder = folder();
    let path = folder.path().join("journal.db");
    let (journal, mut scheduler) = begin(&path, Retention::default(), WhenFull::Lose);
    let counts = journal.counts();
    let other = rusqlite::Connection::open(&path).expect("it is there");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    let one = entry(1000, &decision("a", 1, 1000, scheduled("n1")));
    while counts.read().lost == 0 {
        scheduler.does(one.clone());
    }
    drop(other);
    drop(scheduler);
    let written = journal.finish();
    let tallied = counts.read();
    assert_eq!((tallied.written, tallied.lost), (written.entries, written.lost));
    assert!(0 < tallied.size, "{tallied:?}");
    let reader = Reader::open(&path).expect("it is a journal");
    let losses = reader.losses(10).expect("it can be read");
    let told: i64 = losses.iter().map(|loss| loss.entries).sum();
    assert_eq!((losses.len(), u64::try_from(told)), (1, Ok(written.lost)), "{losses:?}");
    assert_eq!(reader.lost().expect("it can be read"), told);
    let later = entry(9_000_000, &decision("b", 1, 9_000_000, scheduled("n1")));
    write(&path, Retention { age: Duration::from_mins(1), ..Retention::default() }, [later]);
    plimsoll_journal::tidy(
        &path,
        Retention { age: Duration::from_mins(1), ..Retention::default() },
    )
    .expect("it can be written");
    assert_eq!(reader.losses(10).expect("it can be read"), []);
}
