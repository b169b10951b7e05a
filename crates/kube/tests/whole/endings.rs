//! How an instance ends: in time, whatever is under way, and never halfway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use plimsoll_kube::lease::{LeaseClock, Settings};
use plimsoll_kube::limit::Rate;
use plimsoll_kube::run::Exit;
use plimsoll_testserver::{FaultKind, InjectedFault, Options as ServerOptions, TestServer};

use crate::lab::{Instance, election, eventually, fill, node, pod, pods, until_placed};

#[test]
fn an_api_server_that_does_not_answer_delays_the_end_by_one_grace_period_and_no_more() {
    let server = TestServer::start(ServerOptions::default());
    fill(&server, (0..4).map(node));
    // Neither bindings nor events are answered.
    let silent = InjectedFault::every(1, FaultKind::Slow(Duration::from_hours(1)));
    server.faults().add(silent.resources(&["pods/binding", "events"]));
    let grace = Duration::from_secs(12);
    let instance = Instance::with(&server, |config| {
        config.grace = grace;
        // Long terms, so that nothing is given up earlier for their sake.
        let [lease_duration, renew_deadline] = [60, 50].map(Duration::from_secs);
        let settings = election("first", LeaseClock::default());
        config.election = Some(Settings { lease_duration, renew_deadline, ..settings });
    });
    fill(&server, pods("web", 40));
    eventually("some are being bound", || 0 < server.counts().requests("create", "pods/binding"));
    eventually("an event is written", || 0 < server.counts().requests("create", "events"));
    let begun = Instant::now();
    assert_eq!(instance.stop(), Exit::Stopped);
    // What comes after it, such as the lease, is quick: it would take as long again for each of the parts that
    // wait if they did so one after the other.
    assert!(begun.elapsed() < grace * 2, "{:?}", begun.elapsed());
    let lease = server.store().get("leases", "kube-system", "kube-scheduler").expect("it is there");
    assert_eq!(lease["spec"]["holderIdentity"], "", "the lease was given back");
}

#[test]
fn an_election_that_breaks_down_ends_the_process() {
    let server = TestServer::start(ServerOptions::default());
    fill(&server, (0..2).map(node));
    let (broken, looked) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let breaks = broken.clone();
    let clock = LeaseClock::new(
        move || looked.elapsed(),
        move || {
            assert!(!breaks.load(Ordering::SeqCst), "the clock on the wall is broken, on purpose");
            Timestamp::now()
        },
    );
    let instance = Instance::elected(&server, "first", clock);
    fill(&server, pods("web", 5));
    until_placed(&server, 5);
    broken.store(true, Ordering::SeqCst);
    let told = instance.failed();
    assert!(told.contains("the election has ended"), "{told}");
}

/// Nothing that was begun can succeed: what is left are a few pauses between attempts that fail at once.
const GONE: Duration = Duration::from_secs(5);

#[test]
fn an_api_server_that_is_gone_does_not_delay_the_end() {
    let server = TestServer::start(ServerOptions::default());
    fill(&server, (0..4).map(node));
    let instance = Instance::with(&server, |config| {
        config.grace = Duration::from_mins(3);
        // Not too few for what is under way at once, but for what waits.
        config.rate = Rate { qps: 5.0, burst: 10 };
        config.election = Some(election("first", LeaseClock::default()));
    });
    fill(&server, pods("web", 5));
    until_placed(&server, 5);
    // Bindings, conditions and events are under way, and will never be answered.
    let silent = InjectedFault::every(1, FaultKind::Slow(Duration::from_hours(1)));
    server.faults().add(silent.resources(&["pods/binding", "pods/status", "events"]));
    let before = server.counts().requests("create", "pods/binding");
    fill(&server, pods("late", 50));
    fill(&server, [pod("large", 9000)]);
    eventually("some are being bound", || {
        before < server.counts().requests("create", "pods/binding")
    });
    drop(server);
    let begun = Instant::now();
    instance.stop_anyhow();
    assert!(begun.elapsed() < GONE, "{:?}", begun.elapsed());
}
