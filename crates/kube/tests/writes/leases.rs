//! Two instances and one Lease, over HTTP and in real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_kube::events::{Broadcaster, Options as EventOptions};
use plimsoll_kube::lease::{Election, Ended, Leadership, LeaseClock, Settings, State};
use plimsoll_testserver::{Options, TestServer};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::kit::{PATIENCE, client, until};

struct LeaseHolder {
    leadership: Leadership,
    stop: CancellationToken,
    running: JoinHandle<Ended>,
    events: Broadcaster,
}

impl LeaseHolder {
    /// An instance whose lease is over after so many seconds without a sign of life.
    fn new(server: &TestServer, identity: &str, seconds: u64) -> Self {
        let settings = Settings {
            namespace: "kube-system".to_owned(),
            name: "kube-scheduler".to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(seconds),
            renew_deadline: Duration::from_secs(seconds - 1),
            retry_period: Duration::from_millis(200),
            controller: "default-scheduler".to_owned(),
            clock: LeaseClock::default(),
        };
        let events = Broadcaster::new(client(server), EventOptions::new("host".to_owned()));
        let election = Election::new(client(server), settings, Arc::new(events.clone()));
        let election = election.expect("the settings are valid");
        let (leadership, stop) = (election.leadership(), CancellationToken::new());
        let running = tokio::spawn(election.run(stop.clone()));
        LeaseHolder { leadership, stop, running, events }
    }

    async fn leads(&self) {
        let leads = || self.leadership.is_leading_for_sure().then_some(());
        until("the instance leads", leads).await;
    }
}

fn holder(server: &TestServer) -> Value {
    let lease = server.store().get("leases", "kube-system", "kube-scheduler").unwrap_or_default();
    lease["spec"]["holderIdentity"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_take_turns_and_never_lead_together() {
    let server = TestServer::start(Options::default().plain());
    let (one, two) = (LeaseHolder::new(&server, "one", 3), LeaseHolder::new(&server, "two", 3));
    let (first, second) = {
        let first = || {
            let leads = |it: &LeaseHolder| it.leadership.is_leading_for_sure();
            (leads(&one) || leads(&two)).then(|| leads(&one))
        };
        match until("one of them leads", first).await {
            true => (one, two),
            false => (two, one),
        }
    };
    let (n_both, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let watcher = {
        let both = [first.leadership.clone(), second.leadership.clone()];
        let (n_both, over) = (n_both.clone(), over.clone());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if both.iter().all(Leadership::is_leading_for_sure) {
                    n_both.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    // The process of the leader dies, and the other one follows.
    first.running.abort();
    second.leads().await;
    assert_eq!(holder(&server), second.leadership.leader());
    // The API server is away for longer than the deadline.
    let mut state = second.leadership.state();
    server.stop();
    let lost = tokio::time::timeout(PATIENCE, state.wait_for(|state| *state == State::Lost)).await;
    lost.expect("it takes seconds").expect("the instance is there");
    assert_eq!(second.running.await.expect("it ends well"), Ended::Lost);
    assert!(!second.leadership.is_leading_for_sure());
    server.restart().expect("the port is still free");
    over.store(true, Ordering::Relaxed);
    watcher.join().expect("it only looks");
    assert_eq!(n_both.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_given_back_is_free_at_once() {
    let server = TestServer::start(Options::default().plain());
    let one = LeaseHolder::new(&server, "one", 60);
    one.leads().await;
    one.stop.cancel();
    assert_eq!(one.running.await.expect("it ends well"), Ended::Stopped);
    assert_eq!(holder(&server), "");
    let two = LeaseHolder::new(&server, "two", 60);
    two.leads().await;
    assert_eq!(holder(&server), "two");
    one.events.finish(PATIENCE).await;
    let events = server.store().list("events");
    let became = events.iter().find(|event| event["message"] == "one became leader");
    let became = became.expect("it was recorded");
    assert_eq!((&became["reason"], &became["type"]), (&"LeaderElection".into(), &"Normal".into()));
    assert_eq!(became["source"]["component"], "default-scheduler");
    assert_eq!(became["involvedObject"]["kind"], "Lease");
}
