//! The server with a whole API server, real connections, and an engine on its own thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use plimsoll_api::wire::{Object, object};
use plimsoll_api::{KindRef, ObjectKey, Pod, PodKey};
use plimsoll_engine::metrics::Family;
use plimsoll_engine::{
    ClusterSnapshot, Event, Observation, Options as EngineOptions, PendingPod, Profile,
    ProfileSpec, Scheduler,
};
use plimsoll_framework::{FeatureGates, PodInfo, Point, Time};
use plimsoll_plugins::in_tree;
use plimsoll_testserver::{Options as ClusterOptions, Right, TestServer, User};
use plimsoll_ui::{ClusterAndQueue, CountedCluster, Counts, Picture, Question, Views};
use serde_json::{Value, json};

use super::fixture::{FakeAdvisor, ServerFixture, Signed};
use crate::serve::{
    Advisor, Clients, EngineHandle, Explained, ManifestError, SchedulerView, SnapshotQueries, Soon,
    Unresponsive, VerbosityError,
};

fn user(name: &str, rights: Vec<Right>) -> User {
    User { token: format!("token-of-{name}"), name: name.to_owned(), groups: Vec::new(), rights }
}

async fn client(cluster: &TestServer) -> Client {
    let config = Kubeconfig::from_yaml(&cluster.kubeconfig()).expect("it is right");
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("it is right")).expect("it is right")
}

#[tokio::test]
async fn the_api_server_says_who_is_who_and_who_may_what() {
    let prometheus = user("prometheus", vec![Right::on_paths(&["/metrics"], &["get"])]);
    let cluster = TestServer::start(ClusterOptions {
        users: vec![prometheus, user("jane", Vec::new())],
        ..ClusterOptions::default()
    });
    let client = client(&cluster).await;
    let mut setup = ServerFixture::new(None);
    setup.clients = Clients { authentication: Some(client.clone()), authorization: Some(client) };
    setup.options.authentication.skip_lookup = false;
    let server = setup.start().await;
    for (name, code) in [("prometheus", 200), ("jane", 403), ("nobody", 401)] {
        let header = format!("Bearer token-of-{name}");
        let answer = server.get("/metrics", &[("Authorization", &header)]).await;
        assert_eq!(answer.code, code, "{name}");
    }
    // The authority of the cluster was looked up, so its certificates are accepted.
    let made = cluster.client_certificate("prometheus", &[]).expect("the cluster has an authority");
    let own = Signed { cert: made.certificate, key: made.key };
    assert_eq!(server.ask(Some(&own), "GET", "/metrics", &[], "").await.code, 200);
    assert_eq!(server.ask(Some(&own), "GET", "/configz", &[], "").await.code, 403);
}

/// Asks a handle, as `plimsoll run` does.
struct HandleView(EngineHandle);

impl SchedulerView for HandleView {
    fn metrics(&self) -> Soon<'_, Vec<Family>> {
        self.0.metrics().boxed()
    }
    fn reset_metrics(&self) -> Soon<'_, ()> {
        self.0.reset_metrics().boxed()
    }
    fn explain(&self, pod: PodKey) -> Soon<'_, Explained> {
        self.0.explain(pod).boxed()
    }
    fn pods(&self) -> Soon<'_, Vec<PodInfo>> {
        self.0.pods().boxed()
    }
    fn dump(&self) -> Soon<'_, String> {
        self.0.dump().boxed()
    }
    fn snapshot(&self, pod: Option<PodKey>) -> Soon<'_, (ClusterSnapshot, Option<PendingPod>)> {
        self.0.snapshot(pod).boxed()
    }
    fn snapshot_of_group(&self, group: ObjectKey) -> Soon<'_, (ClusterSnapshot, Vec<PendingPod>)> {
        self.0.snapshot_of_group(group).boxed()
    }
    fn picture(&self) -> Soon<'_, ClusterAndQueue> {
        self.0.picture().boxed()
    }
    fn counts(&self) -> Soon<'_, CountedCluster> {
        self.0.counts().boxed()
    }
    fn manifest(
        &self,
        _: KindRef,
        _: ObjectKey,
    ) -> BoxFuture<'_, Result<Option<Value>, ManifestError>> {
        futures::future::ready(Ok(Some(json!({})))).boxed()
    }
    fn advisor(&self) -> Arc<dyn Advisor> {
        Arc::new(FakeAdvisor(Ok(json!({}))))
    }
    fn configuration(&self) -> Arc<str> {
        "{}".into()
    }
    fn default_configuration(&self) -> Arc<str> {
        "{}".into()
    }
    fn is_leader(&self) -> bool {
        true
    }
    fn set_verbosity(&self, _: &str) -> Result<(), VerbosityError> {
        Ok(())
    }
}

fn scheduler() -> Scheduler {
    let points = [
        (Point::QueueSort, "PrioritySort"),
        (Point::PreFilter, "NodeResourcesFit"),
        (Point::Filter, "NodeResourcesFit"),
        (Point::Bind, "DefaultBinder"),
    ];
    let points: BTreeMap<_, _> =
        points.into_iter().map(|(point, name)| (point, vec![(name.to_owned(), 1)])).collect();
    let scheduler_name = "default-scheduler".to_owned();
    let spec = ProfileSpec { scheduler_name, points, ..ProfileSpec::default() };
    let profile = Profile::new(&spec, &in_tree(), &FeatureGates::default());
    let profiles = vec![profile.expect("the plugins make a profile")];
    Scheduler::new(profiles, EngineOptions::default(), 0).expect("there is one")
}

fn seen(value: &Value) -> Event {
    match object(value).expect("it is right") {
        Object::Pod(pod) => Event::pod(*pod),
        Object::Node(node) => Event::Node(Box::new(Observation::Is(*node))),
        other => panic!("{other:?} is no pod and no node"),
    }
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "team", "uid": name },
        "spec": {
            "schedulerName": "default-scheduler", "priority": 0,
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu }, "limits": { "cpu": "9" } } }],
        },
    })
}

#[tokio::test]
async fn an_engine_on_its_own_thread_answers_through_its_handle() {
    let (handle, mut questions) = EngineHandle::new();
    let engine = thread::spawn(move || {
        let mut scheduler = scheduler();
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a" },
            "status": { "allocatable": { "cpu": "2", "pods": "10" } },
        });
        for event in [seen(&node), seen(&pod("small", "1")), seen(&pod("large", "4"))] {
            scheduler.observe(Time::ZERO, event);
        }
        for _ in 0..2 {
            scheduler.step(Time::ZERO, &mut Vec::new());
        }
        while let Some(question) = questions.blocking_recv() {
            question.answer(Time::ZERO, &mut scheduler);
        }
    });
    let scheduler = HandleView(handle.clone());
    let key = |name| PodKey::new("team", name);
    let Ok(Explained::Decision(decision)) = scheduler.explain(key("large")).await else {
        panic!("it is pending");
    };
    assert_eq!(decision.nodes.len(), 1);
    assert_eq!(scheduler.explain(key("small")).await, Ok(Explained::Placed));
    assert_eq!(scheduler.explain(key("none")).await, Ok(Explained::Unknown));
    let mut names: Vec<_> = scheduler
        .pods()
        .await
        .expect("it answers")
        .iter()
        .map(|pod| pod.key.name.clone())
        .collect();
    names.sort();
    assert_eq!(names, ["large", "small"]);
    let dump = scheduler.dump().await.expect("it answers");
    assert!(dump.starts_with("1 nodes, 1 pods on nodes, 1 of them assumed\n"), "{dump}");
    let attempts = |families: &[Family]| {
        families.iter().any(|one| one.descriptor.name == "scheduler_schedule_attempts_total")
    };
    assert!(attempts(&scheduler.metrics().await.expect("it answers")));
    scheduler.reset_metrics().await.expect("it answers");
    assert!(!attempts(&scheduler.metrics().await.expect("it answers")));
    // When the handle is dropped, the thread ends, and later questions get an error.
    drop((scheduler, handle));
    engine.join().expect("it does not panic");
    let (handle, questions) = EngineHandle::new();
    drop(questions);
    assert_eq!(handle.dump().await, Err(Unresponsive));
}

/// The number of pods on the node of [`crowded`].
const PODS: usize = 20_000;

/// One of these pods.
fn key(number: usize) -> PodKey {
    PodKey::new("team", format!("placed-{number}"))
}

/// A scheduler that knows many pods, in more than two parts of a snapshot.
fn crowded() -> Scheduler {
    let mut scheduler = scheduler();
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a" },
        "status": { "allocatable": { "cpu": "2", "pods": "30000" } },
    });
    scheduler.observe(Time::ZERO, seen(&node));
    let Ok(Object::Pod(model)) = object(&pod("small", "0")) else { panic!("it is a pod") };
    for number in 0..PODS {
        let node_name = Some("a".into());
        let placed = Pod { key: key(number), node_name, ..Pod::clone(&model) };
        scheduler.observe(Time::ZERO, Event::pod(placed));
    }
    scheduler
}

#[tokio::test]
async fn the_engine_goes_on_between_the_parts_of_a_snapshot() {
    let (handle, mut queries) = EngineHandle::new();
    let mut scheduler = crowded();
    scheduler.observe(Time::ZERO, seen(&pod("large", "4")));
    let large = PodKey::new("team", "large");
    let ask = |pod: &PodKey| {
        let (handle, pod) = (handle.clone(), Some(pod.clone()));
        tokio::spawn(async move { handle.snapshot(pod).await })
    };
    let (asked, given_up) = (ask(&large), ask(&large));
    let mut snapshots = SnapshotQueries::default();
    for _ in 0..2 {
        let query = queries.recv().await.expect("the handle is there");
        query.answer_in_parts(Time::ZERO, &mut scheduler, &mut snapshots);
    }
    given_up.abort();
    let _ = given_up.await;
    let mut n_parts = 0;
    while snapshots.are_waiting() {
        let now = Time::from_millis(n_parts);
        snapshots.go_on(now, &mut scheduler);
        n_parts += 1;
        // What is read last is gone before, and the pod that was asked about is tried.
        scheduler.observe(now, Event::pod_gone(key(PODS - 1)));
        scheduler.step(now, &mut Vec::new());
    }
    let answer = asked.await.expect("it does not panic").expect("it is answered");
    let (snapshot, Some(pending)) = answer else { panic!("the pod is pending") };
    assert_eq!((snapshot.taken, snapshot.pods.len()), (Time::ZERO, PODS + 1));
    assert!(snapshot.pods.iter().any(|pod| pod.key == key(PODS - 1)));
    assert_eq!((&pending.info.pod.key, pending.info.attempts), (&large, 0));
    // Nobody waits for the second one any more: it is not taken.
    assert!((3..6).contains(&n_parts), "{n_parts} parts of at most 8,192");
}

#[tokio::test]
async fn the_engine_goes_on_while_a_picture_and_all_pods_are_read() {
    let (handle, mut queries) = EngineHandle::new();
    let (mut scheduler, mut snapshots) = (crowded(), SnapshotQueries::default());
    scheduler.observe(Time::ZERO, seen(&pod("assumed", "1")));
    scheduler.step(Time::ZERO, &mut Vec::new());
    scheduler.observe(Time::ZERO, seen(&pod("large", "4")));
    let picture = tokio::spawn({
        let handle = handle.clone();
        async move { handle.picture().await }
    });
    let query = queries.recv().await.expect("the handle is there");
    query.answer_in_parts(Time::ZERO, &mut scheduler, &mut snapshots);
    let pods = tokio::spawn(async move { handle.pods().await });
    let query = queries.recv().await.expect("the handle is there");
    query.answer_in_parts(Time::ZERO, &mut scheduler, &mut snapshots);
    let mut n_parts = 0;
    while snapshots.are_waiting() {
        let now = Time::from_millis(n_parts);
        snapshots.go_on(now, &mut scheduler);
        n_parts += 1;
        scheduler.observe(now, Event::pod_gone(key(PODS - 1)));
        scheduler.step(now, &mut Vec::new());
    }
    assert!((6..12).contains(&n_parts), "{n_parts} parts of at most 8,192");
    // What has happened since is not in the picture, and no pod is in it twice.
    let seen = picture.await.expect("it does not panic").expect("it is answered");
    let picture = Picture::new(seen, BTreeMap::new(), Views::default());
    let told = picture.answer(&Question::Overview, &|_| true).expect("it can be asked");
    let told: Value = serde_json::from_str(&told.expect("it is told")).expect("it is JSON");
    let states = json!({
        "unschedulable": 0, "gated": 0, "backoff": 0, "active": 1, "inFlight": 1, "placed": PODS,
    });
    assert_eq!(told["pods"], states);
    let pods = pods.await.expect("it does not panic").expect("it is answered");
    assert_eq!(pods.len(), PODS + 1, "one pod is gone");
    let n_assumed = pods.iter().filter(|pod| *pod.key.name == *"assumed").count();
    assert_eq!(n_assumed, 1);
}

#[tokio::test]
async fn a_snapshot_that_nobody_waits_for_any_more_is_given_up() {
    // Of one query alone, and of the first of two.
    for n_queries in 1..=2 {
        let (handle, mut queries) = EngineHandle::new();
        let (mut scheduler, mut snapshots) = (scheduler(), SnapshotQueries::default());
        let Ok(Object::Pod(model)) = object(&pod("small", "0")) else { panic!("it is a pod") };
        for number in 0..10_000 {
            let key = PodKey::new("team", format!("{number}"));
            scheduler.observe(Time::ZERO, Event::pod(Pod { key, ..Pod::clone(&model) }));
        }
        let mut clients = Vec::new();
        for _ in 0..n_queries {
            let handle = handle.clone();
            clients.push(tokio::spawn(async move { handle.snapshot(None).await }));
            let query = queries.recv().await.expect("the handle is there");
            query.answer_in_parts(Time::ZERO, &mut scheduler, &mut snapshots);
        }
        snapshots.go_on(Time::ZERO, &mut scheduler);
        let first = clients.remove(0);
        first.abort();
        let _ = first.await;
        let now = Time::from_millis(1);
        snapshots.go_on(now, &mut scheduler);
        assert_eq!(snapshots.are_waiting(), n_queries == 2);
        while snapshots.are_waiting() {
            snapshots.go_on(now, &mut scheduler);
        }
        if let Some(second) = clients.pop() {
            let answer = second.await.expect("it does not panic").expect("it is answered");
            assert_eq!((answer.0.taken, answer.0.pods.len()), (now, 10_000));
        }
        assert!(scheduler.go_on_with_snapshot(100_000).is_none(), "no snapshot is under way");
    }
}

#[test]
fn what_the_engine_counts_is_what_a_picture_counts() {
    let mut scheduler = scheduler();
    for name in ["b", "a", "c"] {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": name}},
            "status": {"allocatable": {"cpu": "2", "pods": "10", "example.com/gpu": "1"}},
        });
        scheduler.observe(Time::ZERO, seen(&node));
    }
    let on = |name: &str, node: &str| {
        let mut pod = pod(name, "100m");
        pod["spec"]["nodeName"] = json!(node);
        pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = json!("1");
        pod["spec"]["containers"][0]["resources"]["limits"]["example.com/gpu"] = json!("1");
        pod
    };
    for pod in [on("bound", "b"), on("lost", "gone"), pod("assumed", "1"), pod("large", "4")] {
        scheduler.observe(Time::ZERO, seen(&pod));
    }
    for _ in 0..2 {
        scheduler.step(Time::ZERO, &mut Vec::new());
    }
    scheduler.observe(Time::ZERO, seen(&pod("new", "1")));
    let counts = Counts::new(CountedCluster::of(&scheduler, Time::ZERO), Views::default());
    let picture = Picture::of(&scheduler, Time::ZERO, BTreeMap::new(), Views::default());
    for question in [Question::Overview, Question::Nodes] {
        let told = counts.answer(&question).expect("it can be asked").expect("there is an answer");
        assert_eq!(picture.answer(&question, &|_| true), Some(Ok(told)));
    }
    let told = counts.answer(&Question::Overview).expect("it can be asked").expect("it is told");
    let told: Value = serde_json::from_str(&told).expect("it is JSON");
    let states = json!({
        "unschedulable": 1, "gated": 0, "backoff": 0, "active": 1, "inFlight": 1, "placed": 2,
    });
    assert_eq!(told["pods"], states);
    assert_eq!(told["reasons"], json!([{"reason": "NodeResourcesFit", "pods": 1}]));
}
