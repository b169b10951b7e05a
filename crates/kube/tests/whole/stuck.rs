//! An engine that does not move any more is noticed; one that takes its time is not taken for it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_config::Catalogue;
use plimsoll_engine::{Engine, Options as EngineOptions, Profile, TieBreak};
use plimsoll_framework::prelude::*;
use plimsoll_kube::lease::LeaseClock;
use plimsoll_kube::run::{self, Exit, RunConfig};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_testserver::{Options as ServerOptions, TestServer};

use crate::lab::{Instance, election, eventually, fill, node, pod, pods, until_placed};

/// After so long without a sign of life an engine is stuck here.
const STALL: Duration = Duration::from_millis(1500);

/// Whether the plugin that never returns may return.
static IS_OPEN: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// A filter that never returns, as long as it is not let.
struct NeverReturns;

impl Plugin for NeverReturns {
    const NAME: &'static str = "NeverReturns";
    type Args = ();
    fn new((): (), _: &FeatureGates) -> Self {
        NeverReturns
    }
}

impl Filter for NeverReturns {
    type Pod = ();
    type Node = ();
    fn filter(&self, (): (), (): ()) -> Verdict {
        let (is_open, opens) = &IS_OPEN;
        let mut open = is_open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = opens.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
        Verdict::Pass
    }
}

/// A filter that takes a third of the time after which an engine is stuck.
struct Slow<const N: usize>;

const SLOW: [&str; 8] = ["Slow0", "Slow1", "Slow2", "Slow3", "Slow4", "Slow5", "Slow6", "Slow7"];

impl<const N: usize> Plugin for Slow<N> {
    const NAME: &'static str = SLOW[N];
    type Args = ();
    fn new((): (), _: &FeatureGates) -> Self {
        Slow
    }
}

impl<const N: usize> Filter for Slow<N> {
    type Pod = ();
    type Node = ();
    fn filter(&self, (): (), (): ()) -> Verdict {
        std::thread::sleep(STALL / 3);
        Verdict::Pass
    }
}

/// Adds filters to the default profile.
pub(crate) fn add(config: &mut RunConfig, filters: Vec<Entry>) {
    let mut registry = in_tree();
    let profile = default_profile();
    let mut text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                    profiles:\n- plugins:\n    filter:\n      enabled:\n"
        .to_owned();
    for filter in filters {
        text.extend(["      - name: ", filter.name(), "\n"]);
        registry.add(filter);
    }
    let catalogue = Catalogue::of(&registry, &profile);
    let configuration = plimsoll_config::load("s.yaml", &text, &catalogue).expect("it is valid");
    let profiles =
        Profile::all_of(&configuration.profile_specs(), &registry, &FeatureGates::default());
    config.profiles = profiles.expect("they can be made");
}

fn holder(server: &TestServer) -> String {
    let lease = server.store().get("leases", "kube-system", "kube-scheduler");
    let holder = lease.map(|lease| lease["spec"]["holderIdentity"].clone());
    holder.and_then(|holder| holder.as_str().map(str::to_owned)).unwrap_or_default()
}

#[test]
fn a_stuck_engine_fails_livez_and_gives_the_lease_back() {
    let server = TestServer::start(ServerOptions::default());
    fill(&server, [node(0)]);
    let (stuck, client) = Instance::serving(&server, |config| {
        config.election = Some(election("stuck", LeaseClock::default()));
        config.stall_timeout = STALL;
        add(config, vec![Entry::of::<NeverReturns>().filter().done()]);
    });
    eventually("it leads", || holder(&server) == "stuck");
    assert_eq!(client.get("/livez").expect("it answers").code, 200);
    fill(&server, pods("web", 3));
    eventually("/livez fails", || client.get("/livez").is_ok_and(|answer| answer.code == 500));
    let told = client.get("/livez?verbose").expect("it answers").body;
    assert!(told.contains("[-]engine failed: reason withheld\n"), "{told}");
    // Nobody waits for the lease to run out.
    eventually("the lease is given back", || holder(&server).is_empty());
    let other = Instance::elected(&server, "other", LeaseClock::default());
    until_placed(&server, 3);
    assert_eq!(holder(&server), "other");
    let told = stuck.failed();
    assert!(told.contains("the engine has not moved for 1.5s"), "{told}");
    assert_eq!(other.stop(), Exit::Stopped);
    for nodes in server.counts().bindings().values() {
        assert_eq!(nodes.len(), 1, "nothing was bound twice");
    }
    *IS_OPEN.0.lock().expect("no test panics in it") = true;
    IS_OPEN.1.notify_all();
}

#[test]
fn a_long_decision_is_not_taken_for_a_stuck_engine() {
    let server = TestServer::start(ServerOptions::default());
    fill(&server, [node(0), pod("web", 100)]);
    let (instance, client) = Instance::serving(&server, |config| {
        config.stall_timeout = STALL;
        config.engine = EngineOptions {
            engine: Engine::Reference,
            tie_break: TieBreak::First,
            stopwatch: Some(run::stopwatch),
            ..EngineOptions::default()
        };
        let filters = vec![
            Entry::of::<Slow<0>>().filter().done(),
            Entry::of::<Slow<1>>().filter().done(),
            Entry::of::<Slow<2>>().filter().done(),
            Entry::of::<Slow<3>>().filter().done(),
            Entry::of::<Slow<4>>().filter().done(),
            Entry::of::<Slow<5>>().filter().done(),
            Entry::of::<Slow<6>>().filter().done(),
            Entry::of::<Slow<7>>().filter().done(),
        ];
        add(config, filters);
    });
    until_placed(&server, 1);
    assert_eq!(client.get("/livez").expect("it answers").code, 200);
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn an_engine_that_may_not_decide_is_not_taken_for_a_stuck_one() {
    let server = TestServer::start(ServerOptions::default());
    fill(&server, [node(0)]);
    let leader = Instance::elected(&server, "leader", LeaseClock::default());
    eventually("the first leads", || holder(&server) == "leader");
    let (standby, client) = Instance::serving(&server, |config| {
        config.election = Some(election("standby", LeaseClock::default()));
        config.stall_timeout = STALL;
    });
    // The leader renews its lease once a second: the other one has nothing to do for several times as long as
    // an engine may be stuck.
    let renewed = || {
        let lease = server.store().get("leases", "kube-system", "kube-scheduler");
        lease.map(|lease| lease["spec"]["renewTime"].clone())
    };
    for _ in 0..6 {
        let before = renewed();
        eventually("the lease is renewed", || renewed() != before);
    }
    assert_eq!(client.get("/livez").expect("it answers").code, 200);
    assert_eq!(leader.stop(), Exit::Stopped);
    fill(&server, pods("web", 3));
    until_placed(&server, 3);
    assert_eq!(standby.stop(), Exit::Stopped);
}
