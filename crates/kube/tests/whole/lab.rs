//! A cluster to test with: an API server in memory, and instances of the scheduler on it.

use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_config::{Catalogue, Configuration};
use plimsoll_engine::{Options, Profile, TieBreak};
use plimsoll_framework::FeatureGates;
use plimsoll_kube::client::Access;
use plimsoll_kube::lease::{Clock, Settings};
use plimsoll_kube::limit::Rate;
use plimsoll_kube::run::{self, Exit, Setup};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_testserver::TestServer;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Far more than anything takes, on a machine that does many other things.
pub(crate) const PATIENCE: Duration = Duration::from_mins(4);

/// Waits until something holds.
#[track_caller]
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A node with 4 CPUs, 16 GiB and place for 20 pods, in one of three zones.
pub(crate) fn node(number: usize) -> Value {
    let zone = format!("zone-{}", number % 3);
    let name = format!("node-{number:05}");
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone,
        }},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "20"}},
    })
}

/// A pod that asks for so much.
pub(crate) fn pod(name: &str, milli_cpu: u32) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{
            "name": "c", "image": "i",
            "resources": {"requests": {"cpu": format!("{milli_cpu}m"), "memory": "128Mi"}},
        }]},
    })
}

/// Pods `NAME-0` and so on, alike but for what they ask for.
pub(crate) fn pods(name: &str, n: usize) -> impl Iterator<Item = Value> {
    let asks = [100, 150, 200, 250];
    (0..n).map(move |number| pod(&format!("{name}-{number}"), asks[number % asks.len()]))
}

pub(crate) fn fill(server: &TestServer, objects: impl IntoIterator<Item = Value>) {
    server.store().apply_all(objects).expect("the objects are valid");
}

/// The node of each pod that has one.
pub(crate) fn placed(server: &TestServer) -> BTreeMap<String, String> {
    let pods = server.store().list("pods").into_iter();
    pods.filter_map(|pod| {
        let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())?;
        Some((pod["metadata"]["name"].as_str()?.to_owned(), node.to_owned()))
    })
    .collect()
}

/// Waits until so many pods have nodes.
#[track_caller]
pub(crate) fn until_placed(server: &TestServer, n: usize) {
    let begun = Instant::now();
    loop {
        let found = placed(server).len();
        if found == n {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{found} of {n} pods have a node");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// No pod was bound twice, and no node has more pods than it has room for.
#[track_caller]
pub(crate) fn check(server: &TestServer) {
    for (pod, nodes) in server.counts().bindings() {
        assert_eq!(nodes.len(), 1, "{pod} was bound to {nodes:?}");
    }
    let mut used: BTreeMap<String, (i64, usize)> = BTreeMap::new();
    for pod in server.store().list("pods") {
        let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
        let cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str();
        let cpu = cpu.and_then(|cpu| cpu.strip_suffix('m')).and_then(|cpu| cpu.parse::<i64>().ok());
        let (sum, n) = used.entry(node.to_owned()).or_default();
        *sum += cpu.unwrap_or(0);
        *n += 1;
    }
    for (node, (cpu, n)) in used {
        assert!(cpu <= 4000 && n <= 20, "{node}: {cpu}m CPU, {n} pods");
    }
}

/// An instance of the scheduler.
pub(crate) struct Instance {
    stop: CancellationToken,
    thread: Option<JoinHandle<Exit>>,
}

impl Instance {
    /// Without an election.
    pub(crate) fn alone(server: &TestServer) -> Self {
        Instance::with(server, |_| ())
    }

    /// With an election of short terms. `clock` is what it takes for the time.
    pub(crate) fn elected(server: &TestServer, identity: &str, clock: Clock) -> Self {
        let seconds = Duration::from_secs;
        let settings = Settings {
            namespace: "kube-system".to_owned(),
            name: "kube-scheduler".to_owned(),
            identity: identity.to_owned(),
            lease_duration: seconds(6),
            renew_deadline: seconds(4),
            retry_period: seconds(1),
            controller: "default-scheduler".to_owned(),
            clock,
        };
        Instance::with(server, |setup| setup.election = Some(settings))
    }

    /// Set up in its own way.
    pub(crate) fn with(server: &TestServer, change: impl FnOnce(&mut Setup)) -> Self {
        let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
        let options = Options { tie_break: TieBreak::First, audit_every: 50, ..Options::default() };
        let mut setup = Setup {
            profiles: profiles(),
            engine: options,
            seed: 1,
            extenders: Vec::new(),
            access: Access { kubeconfig: Some(kubeconfig), ..Access::default() },
            rate: Rate::UNLIMITED,
            election: None,
            delay_cache_until_active: false,
            grace: Duration::from_secs(20),
            serving: None,
        };
        change(&mut setup);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime =
                runtime.worker_threads(2).enable_all().build().expect("there are threads");
            runtime.block_on(run::run(setup, stopped)).unwrap_or_else(|error| panic!("{error}"))
        });
        Instance { stop, thread: Some(thread) }
    }

    /// Tells it to stop, and waits.
    pub(crate) fn stop(mut self) -> Exit {
        self.stop.cancel();
        self.join()
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(mut self) -> Exit {
        self.join()
    }

    fn join(&mut self) -> Exit {
        let thread = self.thread.take().expect("it is joined once");
        thread.join().expect("it does not panic")
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take().filter(|_| !std::thread::panicking()) {
            let _ = thread.join();
        }
    }
}

/// Those of kube-scheduler.
pub(crate) fn profiles() -> Vec<Profile> {
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile());
    let configuration = Configuration::default_for(&catalogue);
    configuration.profiles(&registry, &FeatureGates::default()).expect("the defaults are valid")
}
