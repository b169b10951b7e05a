//! A cluster to test with: an API server in memory, and instances of the scheduler on it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_config::{Catalogue, Configuration};
use plimsoll_engine::{ClusterSnapshot, Decision, Options, Profile, TieBreak};
use plimsoll_framework::FeatureGates;
use plimsoll_kube::client::Access;
use plimsoll_kube::lease::{LeaseClock, Settings};
use plimsoll_kube::limit::Rate;
use plimsoll_kube::run::{self, Exit, RunConfig, RunError, SelfAudit, Serving};
use plimsoll_kube::serve::{
    AdviceError, Advisor, Build, CapacityQuestion, Options as ServeOptions, WhyGroupQuestion,
    WhyQuestion,
};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_testserver::{HttpsClient, TestServer};
use serde_json::{Value, json};
use tempfile::TempDir;
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
    thread: Option<JoinHandle<Result<Exit, RunError>>>,
    /// What it serves, if it does.
    socket: Option<ServingSocket>,
}

impl Instance {
    /// Without an election.
    pub(crate) fn alone(server: &TestServer) -> Self {
        Instance::with(server, |_| ())
    }

    /// With an election of short terms. `clock` is what it takes for the time.
    pub(crate) fn elected(server: &TestServer, identity: &str, clock: LeaseClock) -> Self {
        Instance::with(server, |config| config.election = Some(election(identity, clock)))
    }

    /// Set up in its own way.
    pub(crate) fn with(server: &TestServer, change: impl FnOnce(&mut RunConfig)) -> Self {
        let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
        let options = Options { tie_break: TieBreak::First, audit_every: 50, ..Options::default() };
        let mut config = RunConfig {
            profiles: profiles(),
            rankings: Vec::new(),
            engine: options,
            seed: 1,
            extenders: Vec::new(),
            access: Access { kubeconfig: Some(kubeconfig), ..Access::default() },
            rate: Rate::UNLIMITED,
            election: None,
            delay_cache_until_active: false,
            grace: Duration::from_secs(20),
            stall_timeout: PATIENCE,
            serving: None,
            recorders: Vec::new(),
            remedies: None,
            self_audit: SelfAudit::OFF,
            assign: None,
            configuration_hash: "0".to_owned(),
            reload: None,
        };
        change(&mut config);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime =
                runtime.worker_threads(2).enable_all().build().expect("there are threads");
            let ended = runtime.block_on(run::run(config, stopped));
            // An engine that is stuck on purpose does not end.
            runtime.shutdown_background();
            ended
        });
        Instance { stop, thread: Some(thread), socket: None }
    }

    /// The same, and it serves: with somebody unknown who asks it.
    pub(crate) fn serving(
        server: &TestServer,
        change: impl FnOnce(&mut RunConfig),
    ) -> (Self, HttpsClient) {
        let mut socket = None;
        let mut instance = Instance::with(server, |config| {
            socket = Some(ServingSocket::of(config));
            change(config);
        });
        let socket = instance.socket.insert(socket.expect("it was just set"));
        let client = socket.client();
        (instance, client)
    }

    /// Tells it to stop, and waits.
    pub(crate) fn stop(mut self) -> Exit {
        self.stop.cancel();
        self.join()
    }

    /// Tells it to stop, and waits, however it ends.
    pub(crate) fn stop_anyhow(mut self) {
        self.stop.cancel();
        let thread = self.thread.take().expect("it is joined once");
        let _ = thread.join().expect("it does not panic");
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(mut self) -> Exit {
        self.join()
    }

    /// Waits until it ends with an error, and says which.
    pub(crate) fn failed(mut self) -> String {
        let thread = self.thread.take().expect("it is joined once");
        let ended = thread.join().expect("it does not panic");
        ended.expect_err("it fails").to_string()
    }

    fn join(&mut self) -> Exit {
        let thread = self.thread.take().expect("it is joined once");
        let ended = thread.join().expect("it does not panic");
        ended.unwrap_or_else(|error| panic!("{error}"))
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

/// An election of short terms.
pub(crate) fn election(identity: &str, clock: LeaseClock) -> Settings {
    let seconds = Duration::from_secs;
    Settings {
        namespace: "kube-system".to_owned(),
        name: "kube-scheduler".to_owned(),
        identity: identity.to_owned(),
        lease_duration: seconds(6),
        renew_deadline: seconds(4),
        retry_period: seconds(1),
        controller: "default-scheduler".to_owned(),
        clock,
    }
}

/// The tests of the program ask the real one.
struct NoAdvisor;

impl Advisor for NoAdvisor {
    fn why(&self, _: WhyQuestion) -> Result<Value, AdviceError> {
        Err(AdviceError::Failed("nobody answers here".to_owned()))
    }

    fn why_group(&self, _: WhyGroupQuestion) -> Result<Value, AdviceError> {
        Err(AdviceError::Failed("nobody answers here".to_owned()))
    }

    fn decision_text(&self, _: &Decision) -> String {
        "nobody answers here".to_owned()
    }

    fn what_if(&self, _: ClusterSnapshot, _: &Value) -> Result<Value, AdviceError> {
        Err(AdviceError::Failed("nobody answers here".to_owned()))
    }

    fn capacity(&self, _: CapacityQuestion) -> Result<Value, AdviceError> {
        Err(AdviceError::Failed("nobody answers here".to_owned()))
    }

    fn rebalance(&self, _: ClusterSnapshot, _: &Value) -> Result<Value, AdviceError> {
        Err(AdviceError::Failed("nobody answers here".to_owned()))
    }
}

/// The port and certificate of a serving instance.
#[derive(Debug)]
struct ServingSocket {
    address: SocketAddr,
    /// Where its certificate is.
    files: TempDir,
}

impl ServingSocket {
    /// Makes an instance serve on its own port.
    fn of(config: &mut RunConfig) -> Self {
        config.engine.stopwatch = Some(run::stopwatch);
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let files = TempDir::new().expect("there is room");
        let mut options = ServeOptions::default();
        options.serving.cert_dir = Some(files.path().to_owned());
        config.serving = Some(Serving {
            options,
            listener: Some(listener),
            authentication: None,
            authorization: None,
            configuration: r#"{"apiVersion":"kubescheduler.config.k8s.io/v1"}"#.into(),
            default_configuration: r#"{"apiVersion":"kubescheduler.config.k8s.io/v1"}"#.into(),
            build: Build::default(),
            features: Vec::new(),
            flags: Vec::new(),
            profiling: true,
            set_verbosity: Arc::new(|_| Ok(())),
            advisor: Arc::new(NoAdvisor),
            registries: Vec::new(),
        });
        ServingSocket { address, files }
    }

    /// A client, once the certificate exists.
    fn client(&self) -> HttpsClient {
        let file = self.files.path().join("kube-scheduler.crt");
        let read = || std::fs::read_to_string(&file).ok().filter(|pem| pem.ends_with("-----\n"));
        eventually("there is a certificate", || read().is_some());
        let pem = read().expect("it was just there");
        HttpsClient::new(self.address, &pem).expect("the certificate is right")
    }
}

/// Those of kube-scheduler.
pub(crate) fn profiles() -> Vec<Profile> {
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile());
    let configuration = Configuration::default_for(&catalogue);
    Profile::all_of(&configuration.profile_specs(), &registry, &FeatureGates::default())
        .expect("the defaults are valid")
}
