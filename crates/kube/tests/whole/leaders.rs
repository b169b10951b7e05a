//! Who leads, and that nobody else writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_kube::lease::LeaseClock;
use plimsoll_kube::run::Exit;
use plimsoll_testserver::{Options, TestServer};
use serde_json::json;

use crate::lab::{Instance, check, eventually, fill, node, pods, until_placed};

fn holder(server: &TestServer) -> String {
    let lease = server.store().get("leases", "kube-system", "kube-scheduler");
    let holder = lease.map(|lease| lease["spec"]["holderIdentity"].clone());
    holder.and_then(|holder| holder.as_str().map(str::to_owned)).unwrap_or_default()
}

#[test]
fn the_standby_takes_over_from_one_that_stops() {
    let server = TestServer::start(Options::default());
    fill(&server, (0..30).map(node));
    let first = Instance::elected(&server, "first", LeaseClock::default());
    eventually("the first leads", || holder(&server) == "first");
    let second = Instance::elected(&server, "second", LeaseClock::default());
    fill(&server, pods("one", 100));
    until_placed(&server, 100);
    assert_eq!(holder(&server), "first");
    assert_eq!(first.stop(), Exit::Stopped);
    fill(&server, pods("two", 100));
    until_placed(&server, 200);
    assert_eq!(holder(&server), "second");
    assert_eq!(second.stop(), Exit::Stopped);
    assert_eq!(holder(&server), "", "the lease is given back");
    check(&server);
}

#[test]
fn one_whose_lease_is_taken_ends_and_writes_no_more() {
    let server = TestServer::start(Options::default());
    fill(&server, (0..30).map(node));
    let instance = Instance::elected(&server, "ours", LeaseClock::default());
    fill(&server, pods("one", 50));
    until_placed(&server, 50);
    let mut lease =
        server.store().get("leases", "kube-system", "kube-scheduler").expect("it leads");
    lease["spec"]["holderIdentity"] = json!("another");
    lease["spec"]["leaseDurationSeconds"] = json!(3600);
    fill(&server, [lease]);
    assert_eq!(instance.ended(), Exit::LostLease);
    let bound = server.counts().bindings().len();
    fill(&server, pods("two", 50));
    assert_eq!(server.counts().bindings().len(), bound);
    check(&server);
}

#[test]
fn one_whose_clock_jumps_ahead_writes_nothing_it_has_no_lease_for() {
    let server = TestServer::start(Options::default());
    fill(&server, (0..30).map(node));
    let (begun, ahead) = (Instant::now(), Arc::new(AtomicU64::new(1)));
    let jumped = ahead.clone();
    let uptime = move || begun.elapsed() + Duration::from_secs(jumped.load(Ordering::Relaxed));
    let instance =
        Instance::elected(&server, "ours", LeaseClock::new(uptime, jiff::Timestamp::now));
    fill(&server, pods("one", 50));
    until_placed(&server, 50);
    // As after a machine slept: the lease may be another's by now.
    ahead.store(3600, Ordering::Relaxed);
    fill(&server, pods("two", 50));
    // It finds that the lease is still its own, or ends: either way nobody is bound twice.
    let another = Instance::elected(&server, "another", LeaseClock::default());
    until_placed(&server, 100);
    drop(instance);
    assert_eq!(another.stop(), Exit::Stopped);
    check(&server);
}
