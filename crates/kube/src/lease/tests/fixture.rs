//! A Lease, and candidates for it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::{Election, Ended, Leadership, LeaseClock, Settings, State};
use crate::events::{EventRecorder, Occurrence};
use crate::fake::{FakeApiServer, FakeResponse};

pub(super) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// Faults of the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LeaseFault {
    #[default]
    None,
    /// Requests are neither carried out nor answered.
    Away,
    /// Writes are carried out but not answered.
    Deaf,
}

/// An API server with one Lease.
#[derive(Clone)]
pub(super) struct LeaseServer {
    pub(super) fake: FakeApiServer,
    lease: Arc<Mutex<Option<Value>>>,
    fault: Arc<Mutex<LeaseFault>>,
}

impl LeaseServer {
    pub(super) fn new() -> Self {
        let lease = Arc::new(Mutex::new(None::<Value>));
        let fault = Arc::new(Mutex::new(LeaseFault::None));
        let (object, wrong) = (lease.clone(), fault.clone());
        let fake = FakeApiServer::new(move |seen, _| {
            let mut lease = object.lock().expect("no test panics in it");
            let fault = *wrong.lock().expect("no test panics in it");
            if fault == LeaseFault::Away {
                return FakeResponse::Broken;
            }
            let verb = seen.line.split(' ').next().expect("a line has words");
            let present = lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
            let reply = match (verb, present) {
                ("GET", Some(_)) => {
                    return FakeResponse::Response(200, lease.clone().unwrap_or_default());
                }
                ("GET" | "PUT", None) => return FakeResponse::not_found(),
                ("POST", Some(_)) => return FakeResponse::error(409, "AlreadyExists", "it exists"),
                ("POST", None) => {
                    let mut made = seen.body.clone();
                    made["metadata"]["uid"] = json!("u");
                    made["metadata"]["resourceVersion"] = json!("1");
                    *lease = Some(made.clone());
                    FakeResponse::Response(201, made)
                }
                ("PUT", Some(version)) if version != seen.body["metadata"]["resourceVersion"] => {
                    return FakeResponse::error(409, "Conflict", "the object has been modified");
                }
                ("PUT", Some(_)) => {
                    let mut made = seen.body.clone();
                    raise_version(&mut made);
                    *lease = Some(made.clone());
                    FakeResponse::Response(200, made)
                }
                _ => panic!("nobody asks {:?}", seen.line),
            };
            match fault {
                LeaseFault::Deaf => FakeResponse::Silence,
                LeaseFault::None | LeaseFault::Away => reply,
            }
        });
        LeaseServer { fake, lease, fault }
    }

    pub(super) fn lease(&self) -> Value {
        self.lease.lock().expect("no test panics in it").clone().expect("there is a Lease")
    }

    pub(super) fn spec(&self, field: &str) -> Value {
        self.lease()["spec"][field].clone()
    }

    /// Somebody else changes the Lease.
    pub(super) fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut lease = self.lease.lock().expect("no test panics in it");
        let lease = lease.get_or_insert_with(|| {
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {
                    "namespace": "kube-system", "name": "kube-scheduler", "uid": "u",
                    "resourceVersion": "1",
                },
                "spec": {},
            })
        });
        change(lease);
        raise_version(lease);
    }

    pub(super) fn fault(&self, fault: LeaseFault) {
        *self.fault.lock().expect("no test panics in it") = fault;
    }
}

fn raise_version(lease: &mut Value) {
    let version = lease["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let version: u64 = version.parse().expect("it is a number");
    lease["metadata"]["resourceVersion"] = json!((version + 1).to_string());
}

/// TestClocks that can be made to jump.
#[derive(Clone, Debug, Default)]
pub(super) struct TestClocks {
    pub(super) slept: Arc<AtomicU64>,
    pub(super) wall_offset: Arc<AtomicI64>,
}

impl TestClocks {
    fn clock(&self) -> LeaseClock {
        let (start, clocks) = (Instant::now(), self.clone());
        let uptime = move || {
            let slept = Duration::from_secs(clocks.slept.load(Ordering::Relaxed));
            Duration::from_secs(1000) + start.elapsed() + slept
        };
        let clocks = self.clone();
        let wall = move || {
            let offset = SignedDuration::from_secs(clocks.wall_offset.load(Ordering::Relaxed));
            Timestamp::UNIX_EPOCH + offset + start.elapsed()
        };
        LeaseClock::new(uptime, wall)
    }
}

#[derive(Debug, Default)]
struct RecordedEvents(Mutex<Vec<String>>);

impl EventRecorder for RecordedEvents {
    fn record(&self, occurrence: Occurrence) {
        let text = format!("{} {}", occurrence.reason, occurrence.note);
        self.0.lock().expect("no test panics in it").push(text);
    }
}

/// One candidate.
pub(super) struct TestCandidate {
    pub(super) leadership: Leadership,
    pub(super) clocks: TestClocks,
    state: watch::Receiver<State>,
    stop: CancellationToken,
    running: JoinHandle<Ended>,
    events: Arc<RecordedEvents>,
}

pub(super) fn settings(identity: &str) -> Settings {
    Settings {
        namespace: "kube-system".to_owned(),
        name: "kube-scheduler".to_owned(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        controller: "lab".to_owned(),
        clock: LeaseClock::default(),
    }
}

impl TestCandidate {
    pub(super) fn new(server: &LeaseServer, identity: &str) -> Self {
        let (clocks, events) = (TestClocks::default(), Arc::new(RecordedEvents::default()));
        let settings = Settings { clock: clocks.clock(), ..settings(identity) };
        let election = Election::new(server.fake.client(), settings, events.clone());
        let election = election.expect("the settings are those of kube-scheduler");
        let (leadership, stop) = (election.leadership(), CancellationToken::new());
        let running = tokio::spawn(election.run(stop.clone()));
        let state = leadership.state();
        TestCandidate { leadership, clocks, state, stop, running, events }
    }

    pub(super) fn now(&self) -> State {
        *self.state.borrow()
    }

    /// Waits for this state, and returns how long that took.
    pub(super) async fn becomes(&mut self, state: State) -> Duration {
        let begun = Instant::now();
        let seen = self.state.wait_for(|now| *now == state);
        let seen = tokio::time::timeout(Duration::from_mins(5), seen).await;
        seen.expect("it takes less than minutes").expect("the candidate is there");
        begun.elapsed()
    }

    pub(super) async fn stop(self) -> Ended {
        self.stop.cancel();
        self.running.await.expect("it ends well")
    }

    pub(super) async fn end(self) -> Ended {
        self.running.await.expect("it ends well")
    }

    pub(super) fn kill(&self) {
        self.running.abort();
    }

    pub(super) fn events(&self) -> Vec<String> {
        self.events.0.lock().expect("no test panics in it").clone()
    }
}

pub(super) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
