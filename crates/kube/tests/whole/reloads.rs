//! The configuration changes while pods are decided and bound: each decision is by one whole configuration, and no pod is
//! lost or bound twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use plimsoll_api::{Pod, Str};
use plimsoll_config::Catalogue;
use plimsoll_engine::{
    Audit, Backoff, Decision, Detail, Effect, Event, Outcome, Profile, Recorder,
};
use plimsoll_framework::{FeatureGates, Time, WaitingDecision};
use plimsoll_kube::run::{
    AssignProfile, ConfigurationSource, Exit, NewConfiguration, Reload, ReloadMode, RunConfig,
};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_testserver::{
    FaultKind, HttpsClient, InjectedFault, Options, Right, TestServer, User,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::lab::{Instance, check, eventually, fill, node, placed, pod, until_placed};

/// The scheduler names of the two profiles of a configuration.
const NAMES: [&str; 2] = ["default-scheduler", "second"];

/// The profiles of a configuration that places all pods on the nodes of `pool`.
fn profiles(pool: &str, names: &[&str]) -> Vec<Profile> {
    let registry = in_tree();
    let mut text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                    profiles:\n"
        .to_owned();
    for name in names {
        text.extend([format!(
            "- schedulerName: {name}\n  pluginConfig:\n  - name: NodeAffinity\n    args:\n      addedAffinity:\n        \
             requiredDuringSchedulingIgnoredDuringExecution:\n          nodeSelectorTerms:\n          - matchExpressions:\n            \
             - {{key: pool, operator: In, values: [{pool}]}}\n"
        )]);
    }
    let catalogue = Catalogue::of(&registry, &default_profile());
    let configuration = plimsoll_config::load("s.yaml", &text, &catalogue).expect("it is valid");
    let profiles =
        Profile::all_of(&configuration.profile_specs(), &registry, &FeatureGates::default());
    profiles.expect("they can be made")
}

fn new(profiles: Vec<Profile>) -> NewConfiguration {
    NewConfiguration {
        profiles,
        backoff: Backoff::default(),
        assign: None,
        hash: "new".to_owned(),
        differences: Vec::new(),
    }
}

/// A source that gives what the test says.
struct Script {
    all: mpsc::UnboundedReceiver<Result<NewConfiguration, String>>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// How often the next one was asked for.
    asked: AtomicUsize,
    applied: AtomicUsize,
}

impl ConfigurationSource for Script {
    fn next(&mut self) -> BoxFuture<'_, Result<NewConfiguration, String>> {
        self.counts.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match self.all.recv().await {
                Some(next) => next,
                None => std::future::pending().await,
            }
        })
    }

    fn is_in_effect(&mut self) {
        self.counts.applied.fetch_add(1, Ordering::SeqCst);
    }
}

/// Gives configurations to an instance.
struct Giver {
    give: mpsc::UnboundedSender<Result<NewConfiguration, String>>,
    counts: Arc<Counts>,
}

impl Giver {
    /// Gives one, and waits until it is in effect or refused. Whether it is in effect.
    fn give(&self, next: Result<NewConfiguration, String>) -> bool {
        let load = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        let (asked, applied) = (load(&self.counts.asked), load(&self.counts.applied));
        self.give.send(next).expect("the instance runs");
        eventually("it is handled", || asked < load(&self.counts.asked));
        applied < load(&self.counts.applied)
    }
}

/// A decision: the profile with its fingerprint, and the node, if there is one.
type Decided = (Str, u64, Option<Str>);

/// Remembers decisions.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<Decided>>>);

impl Recorder for Memory {
    fn observed(&mut self, _: Time, _: &Event) {}
    fn decided(&mut self, _: Time, decision: &Decision) {
        let Some(context) = &decision.context else { return };
        let node = match &decision.outcome {
            Outcome::Scheduled { node, .. } => Some(node.clone()),
            Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((context.pod.scheduler_name.clone(), context.fingerprint, node));
    }
    fn stepped(&mut self, _: Time, _: &[Effect], _: &Audit) {}
    fn wound_up(&mut self, _: Time, _: &[Effect]) {}
    fn waiting_pod(&mut self, _: &WaitingDecision) {}
}

fn cluster() -> TestServer {
    let rights = vec![Right::on_paths(&["/metrics"], &["get"])];
    let (token, name) = ("token".to_owned(), "prometheus".to_owned());
    let users = vec![User { token, name, groups: Vec::new(), rights }];
    TestServer::start(Options { users, ..Options::default() })
}

/// Nodes of two pools, in turn.
fn pooled(number: usize) -> Value {
    let mut node = node(number);
    node["metadata"]["labels"]["pool"] = json!(pool_of(number));
    node
}

fn pool_of(number: usize) -> &'static str {
    ["a", "b"][number % 2]
}

fn pod_of(name: &str, scheduler: &str) -> Value {
    let mut pod = pod(name, 10);
    pod["spec"]["schedulerName"] = json!(scheduler);
    pod
}

/// An instance that begins with pool `a`, and what gives it other configurations.
fn changing(
    server: &TestServer,
    mode: ReloadMode,
    change: impl FnOnce(&mut RunConfig),
) -> (Instance, HttpsClient, Giver) {
    let (give, all) = mpsc::unbounded_channel();
    let counts = Arc::<Counts>::default();
    let source = Box::new(Script { all, counts: counts.clone() });
    let (instance, client) = Instance::serving(server, |config| {
        config.profiles = profiles("a", &NAMES);
        config.reload = Some(Reload { mode, source });
        change(config);
    });
    let giver = Giver { give, counts };
    eventually("it follows", || giver.counts.asked.load(Ordering::SeqCst) == 1);
    (instance, client.with_token("token"), giver)
}

/// The value of a row of the metrics.
fn metric(client: &HttpsClient, row: &str) -> Option<u64> {
    let page = client.get("/metrics").ok()?.body;
    let value = page.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok())
}

#[test]
fn a_hundred_changes_under_load_lose_no_pod_and_bind_none_twice() {
    const NODES: usize = 80;
    const CHANGES: usize = 100;
    const PODS: usize = 4;
    let server = cluster();
    fill(&server, (0..NODES).map(pooled));
    let memory = Memory::default();
    let (instance, client, giver) = changing(&server, ReloadMode::Apply, |config| {
        config.engine.detail = Detail::Choice;
        config.recorders.push(Box::new(memory.clone()));
    });
    // Bindings take a while, so that some are under way whenever the configuration changes; some fail.
    let binding = |fault: InjectedFault| fault.resources(&["pods/binding"]);
    let slow = FaultKind::Slow(Duration::from_millis(20));
    server.faults().add(binding(InjectedFault::every(1, slow)));
    server.faults().add(binding(InjectedFault::every(17, FaultKind::Status(500))));
    let (mut applied, mut refused, mut made) = (0, 0, 0);
    for change in 0..CHANGES {
        let names = NAMES.iter().cycle().take(PODS);
        fill(
            &server,
            names.map(|name| {
                made += 1;
                pod_of(&format!("web-{made}"), name)
            }),
        );
        let good = match change % 5 {
            1 => Err("s.yaml:3: profiles: it is not valid".to_owned()),
            3 => Ok(new(profiles("a", &["second", "default-scheduler"])
                .into_iter()
                .chain(profiles("b", &["second"]))
                .collect())),
            other => Ok(new(profiles(pool_of(other / 2 + change / 5), &NAMES))),
        };
        let is_valid = change % 5 != 1 && change % 5 != 3;
        assert_eq!(giver.give(good), is_valid, "change {change}");
        if is_valid { applied += 1 } else { refused += 1 }
    }
    until_placed(&server, made);
    for (result, count) in [("applied", applied), ("refused", refused), ("checked", 0)] {
        let row = format!("plimsoll_config_reloads_total{{result=\"{result}\"}}");
        assert_eq!(metric(&client, &row), Some(count), "{result}");
    }
    assert_eq!(metric(&client, "plimsoll_audit_differences_total"), Some(0));
    assert_eq!(instance.stop(), Exit::Stopped);
    check(&server);
    let bound = server.counts().bindings();
    assert_eq!(bound.len(), made, "each pod was bound");

    // Each decision is by one of the two whole configurations, and its node is one of the pool of that.
    let print = |pool: &str| -> BTreeMap<(String, u64), String> {
        let of = |profile: &Profile| {
            ((profile.scheduler_name().to_owned(), profile.fingerprint()), pool.to_owned())
        };
        profiles(pool, &NAMES).iter().map(of).collect()
    };
    let mut whole = print("a");
    whole.extend(print("b"));
    assert_eq!(whole.len(), 4);
    let decided = memory.0.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(made <= decided.len());
    let (mut used, mut switches, mut last) = (BTreeSet::new(), 0, "a");
    for (profile, fingerprint, node) in decided.iter() {
        let pool = whole.get(&(profile.to_string(), *fingerprint));
        let pool = pool.unwrap_or_else(|| panic!("{profile} {fingerprint} is of no configuration"));
        if let Some(node) = node {
            let number: usize = node["node-".len()..].parse().expect("nodes are numbered");
            assert_eq!(pool_of(number), pool, "{profile} decided for {node}");
        }
        used.insert((profile.clone(), pool.clone()));
        if last != pool {
            switches += 1;
            last = pool;
        }
    }
    assert_eq!(used.len(), 4, "both profiles of both configurations have decided");
    assert!(switches <= applied, "{switches} switches by {applied} changes");
}

#[test]
fn a_configuration_that_is_only_checked_changes_nothing_but_says_what_would_differ() {
    let server = cluster();
    fill(&server, (0..4).map(pooled));
    let (instance, client, giver) = changing(&server, ReloadMode::Check, |_| ());
    fill(&server, (0..3).map(|number| pod_of(&format!("web-{number}"), NAMES[0])));
    until_placed(&server, 3);
    assert!(!giver.give(Ok(new(profiles("b", &NAMES)))));
    let row = |outcome: &str| format!("plimsoll_config_trial_pods{{outcome=\"{outcome}\"}}");
    assert_eq!(metric(&client, &row("different")), Some(3));
    assert!(!giver.give(Ok(new(profiles("a", &NAMES)))));
    assert_eq!(
        (metric(&client, &row("different")), metric(&client, &row("same"))),
        (Some(0), Some(3))
    );
    assert_eq!(metric(&client, "plimsoll_config_last_reload_successful"), Some(1));
    assert!(!giver.give(Err("not valid".to_owned())));
    assert_eq!(metric(&client, "plimsoll_config_last_reload_successful"), Some(0));
    fill(&server, [pod_of("last", NAMES[0])]);
    until_placed(&server, 4);
    for node in placed(&server).values() {
        assert!(["node-00000", "node-00002"].contains(&node.as_str()), "{node} is of pool b");
    }
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn pods_of_a_profile_that_goes_wait_until_it_is_back() {
    let server = cluster();
    fill(&server, (0..2).map(pooled));
    let (instance, client, giver) = changing(&server, ReloadMode::Apply, |_| ());
    let mut large = pod_of("large", NAMES[1]);
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("9");
    fill(&server, [large]);
    let waits = r#"scheduler_pending_pods{queue="unschedulable"}"#;
    eventually("it waits", || metric(&client, waits) == Some(1));
    assert!(giver.give(Ok(new(profiles("a", &NAMES[..1])))));
    assert_eq!(metric(&client, waits), Some(0), "no profile has it");
    fill(&server, [pod_of("new", NAMES[1]), pod_of("ours", NAMES[0])]);
    until_placed(&server, 1);
    assert!(placed(&server).contains_key("ours"));
    assert!(giver.give(Ok(new(profiles("b", &NAMES)))));
    until_placed(&server, 2);
    assert_eq!(placed(&server)["new"], "node-00001");
    eventually("the large one waits again", || metric(&client, waits) == Some(1));
    assert_eq!(instance.stop(), Exit::Stopped);
}

/// Sends the pods of a namespace to the profile `second`.
struct ByNamespace(&'static str);

impl AssignProfile for ByNamespace {
    fn profile_of(&self, pod: &Pod) -> Option<Str> {
        (pod.key.namespace == self.0).then(|| NAMES[1].into())
    }
}

#[test]
fn pods_are_decided_by_the_profile_to_which_they_are_assigned() {
    let server = cluster();
    fill(&server, (0..2).map(pooled));
    let both = || {
        let mut both = profiles("a", &NAMES[..1]);
        both.extend(profiles("b", &NAMES[1..]));
        both
    };
    let (instance, client, giver) = changing(&server, ReloadMode::Apply, |config| {
        config.profiles = both();
        config.assign = Some(Arc::new(ByNamespace("canary")));
    });
    let in_namespace = |name: &str, namespace: &str, milli_cpu: u32| {
        let mut pod = pod(name, milli_cpu);
        pod["metadata"]["namespace"] = json!(namespace);
        pod
    };
    fill(&server, [in_namespace("usual", "default", 10), in_namespace("canary", "canary", 10)]);
    until_placed(&server, 2);
    let nodes = placed(&server);
    assert_eq!((&*nodes["usual"], &*nodes["canary"]), ("node-00000", "node-00001"));
    eventually("both are counted by their profiles", || {
        NAMES.iter().all(|name| {
            let row = format!(
                "scheduler_schedule_attempts_total{{profile=\"{name}\",result=\"scheduled\"}}"
            );
            metric(&client, &row) == Some(1)
        })
    });
    // A pod that waits under one rule is decided by the next one.
    fill(&server, [in_namespace("late", "canary", 3995)]);
    let waits = r#"scheduler_pending_pods{queue="unschedulable"}"#;
    eventually("it waits", || metric(&client, waits) == Some(1));
    server.store().delete("pods", "default", "usual");
    let without = NewConfiguration { assign: None, ..new(both()) };
    assert!(giver.give(Ok(without)));
    until_placed(&server, 2);
    assert_eq!(placed(&server)["late"], "node-00000");
    assert_eq!(instance.stop(), Exit::Stopped);
}
