//! Watches of a whole cluster on a faulty API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{KindRef, Kinds, Pod};
use plimsoll_engine::{Event, Observation};
use plimsoll_kube::api_resource::ServedVersions;
use plimsoll_kube::client::{Access, connect};
use plimsoll_kube::limit::Rate;
use plimsoll_kube::watch::{Options as WatchOptions, Pace, Unsynced, WatchMetrics, Watches, start};
use plimsoll_testserver::{Break, FaultKind, InjectedFault, Options, TestServer};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::fake::PATIENCE;

async fn watch(server: &TestServer, kinds: Vec<KindRef>) -> (Watches, mpsc::Receiver<Vec<Event>>) {
    let kubeconfig = server.kubeconfig_file().expect("it can be written");
    let access = Access { kubeconfig: Some(kubeconfig), ..Access::default() };
    let connection = connect(access, Arc::default()).await.expect("the kubeconfig is right");
    let (sender, events) = mpsc::channel(8);
    let pace = Pace {
        shortest: Duration::from_millis(1),
        longest: Duration::from_millis(50),
        ..Pace::default()
    };
    let metrics = WatchMetrics::default();
    let options = WatchOptions {
        kinds,
        events: sender,
        originals: None,
        manifests: None,
        pace,
        served: ServedVersions::default(),
        metrics,
    };
    (start(connection.client("scheduler", Rate::UNLIMITED), options), events)
}

fn object(api_version: &str, kind: &str, mut rest: Value) -> Value {
    rest["apiVersion"] = api_version.into();
    rest["kind"] = kind.into();
    rest["metadata"] = json!({"name": "one"});
    rest
}

/// One object of each kind.
fn one_of_each(budgets: &str, capacities: Option<&str>, devices: Option<&str>) -> Vec<Value> {
    let storage = "storage.k8s.io/v1";
    let mut all = vec![
        object("v1", "Node", json!({})),
        object("v1", "Pod", json!({"spec": {"containers": [{"name": "c", "image": "i"}]}})),
        object("v1", "Service", json!({"spec": {"selector": {"a": "b"}}})),
        object("v1", "ReplicationController", json!({"spec": {"selector": {"a": "b"}}})),
        object(
            "v1",
            "PersistentVolume",
            json!({"spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}),
        ),
        object(
            "v1",
            "PersistentVolumeClaim",
            json!({"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        object(storage, "StorageClass", json!({"provisioner": "p"})),
        object(storage, "CSINode", json!({"spec": {"drivers": []}})),
        object(storage, "CSIDriver", json!({"spec": {}})),
        object(
            storage,
            "VolumeAttachment",
            json!({"spec": {"attacher": "a", "nodeName": "one",
            "source": {"persistentVolumeName": "one"}}}),
        ),
        object(budgets, "PodDisruptionBudget", json!({"spec": {"minAvailable": 1}})),
    ];
    let set = json!({"spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}}}});
    all.push(object("apps/v1", "ReplicaSet", set.clone()));
    all.push(object("apps/v1", "StatefulSet", set));
    all.extend(capacities.map(|version| {
        object(version, "CSIStorageCapacity", json!({"storageClassName": "one", "capacity": "1Gi"}))
    }));
    if let Some(version) = devices {
        let slice = json!({"spec": {"driver": "d", "allNodes": true,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}});
        all.push(object(version, "ResourceClaim", json!({"spec": {}})));
        all.push(object(version, "ResourceSlice", slice));
        all.push(object(version, "DeviceClass", json!({"spec": {}})));
    }
    all
}

/// The object of an event.
fn about(event: &Event) -> String {
    match event {
        Event::Pod(Observation::Is(pod)) => format!("Pod {}", pod.key),
        Event::Node(node) => match &**node {
            Observation::Is(node) => format!("Node {}", node.name),
            Observation::Gone(_) => "a deleted node".to_owned(),
        },
        Event::Object(Observation::Is(object)) => format!("{} {}", object.kind(), object.key()),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_cluster_of_any_release_is_listed_completely() {
    for (release, budgets, capacities, devices) in [
        (20, "policy/v1beta1", None, None),
        (22, "policy/v1", Some("storage.k8s.io/v1beta1"), None),
        (36, "policy/v1", Some("storage.k8s.io/v1"), Some("resource.k8s.io/v1")),
    ] {
        let server = TestServer::start(Options { release, ..Options::default() });
        let store = server.store();
        store.apply_all(one_of_each(budgets, capacities, devices)).expect("the objects are right");
        let (watches, mut events) = watch(&server, Kinds::built_in().iter().collect()).await;
        let mut listed = Vec::new();
        let mut unsynced = watches.unsynced();
        let synced = async { unsynced.wait_for(Unsynced::is_empty).await.map(|_| ()) };
        let mut synced = std::pin::pin!(tokio::time::timeout(PATIENCE, synced));
        loop {
            tokio::select! {
                biased;
                Some(batch) = events.recv() => listed.extend(batch.iter().map(about)),
                result = &mut synced => break result.expect("it syncs in time").expect("it runs"),
            }
        }
        // All other events are in the channel by now.
        while let Ok(batch) = events.try_recv() {
            listed.extend(batch.iter().map(about));
        }
        let mut expected: Vec<&str> = Kinds::built_in().iter().map(KindRef::as_str).collect();
        // No server has it unless it is told to.
        expected
            .retain(|kind| !["DeviceTaintRule", "PodGroup", "CompositePodGroup"].contains(kind));
        if capacities.is_none() {
            expected.retain(|kind| *kind != "CSIStorageCapacity");
        }
        if devices.is_none() {
            let unserved = ["ResourceClaim", "ResourceSlice", "DeviceClass"];
            expected.retain(|kind| !unserved.contains(kind));
        }
        listed.retain(|one| one.ends_with("one") || one == "Namespace default");
        listed.sort_unstable();
        expected.sort_unstable();
        let kinds: Vec<&str> = listed.iter().filter_map(|one| one.split(' ').next()).collect();
        assert_eq!(kinds, expected, "release {release}: {listed:?}");
    }
}

/// A pod whose label says how often it was changed.
fn pod(number: usize, change: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p{number}"), "namespace": "n", "labels": {"change": change.to_string()}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

/// The pods according to the events, with the number of their last change.
struct ObservedPods(BTreeMap<String, usize>);

impl ObservedPods {
    /// Applies events. None may be repeated or out of order.
    fn apply(&mut self, batch: Vec<Event>) {
        for event in batch {
            match event {
                Event::Pod(Observation::Is(pod)) => {
                    let change = pod.labels.get("change").expect("it has one");
                    let change = change.parse().expect("a number");
                    let before = self.0.insert(pod.key.name.to_string(), change);
                    assert!(before < Some(change), "{} {before:?} {change}", pod.key);
                }
                Event::Pod(Observation::Gone(key)) => {
                    assert!(self.0.remove(key.name.as_str()).is_some(), "{key} was not there");
                }
                other => panic!("only pods are watched: {other:?}"),
            }
        }
    }

    /// The pods of the API server.
    fn expected(server: &TestServer) -> BTreeMap<String, usize> {
        let pods = server.store().list("pods").into_iter().map(|pod| {
            let metadata = &pod["metadata"];
            let change = metadata["labels"]["change"].as_str().expect("it has one");
            let name = metadata["name"].as_str().expect("it has a name");
            (name.to_owned(), change.parse().expect("a number"))
        });
        pods.collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_lost_or_repeated_whatever_breaks() {
    for release in [20, 36] {
        let server = TestServer::start(Options { release, ..Options::default() });
        let faults = server.faults();
        faults.duplicate_events(3);
        faults.add(InjectedFault::every(5, FaultKind::Status(500)).verbs(&["list", "watch"]));
        faults.add(InjectedFault::every(7, FaultKind::Hangup).verbs(&["list", "watch"]));
        let (watches, mut events) = watch(&server, vec![KindRef::of::<Pod>()]).await;
        let mut pods = ObservedPods(BTreeMap::new());
        for change in 0..600 {
            server.store().apply(pod(change % 23, change)).expect("the pod is right");
            if change % 5 == 0 {
                server.store().delete("pods", "n", &format!("p{}", change * 7 % 23));
            }
            match change % 120 {
                15 => faults.break_watches(Break::Torn),
                35 => faults.break_watches(Break::Expired),
                55 => faults.break_watches(Break::Clean),
                75 => {
                    faults.compact();
                    faults.break_watches(Break::Torn);
                }
                95 => {
                    server.stop();
                    server.restart().expect("the port is still free");
                }
                _ => (),
            }
            // Sometimes wait until all events have arrived, and sometimes do not wait.
            let until =
                if change % 20 == 19 { ObservedPods::expected(&server) } else { BTreeMap::new() };
            let settled = async {
                while !until.is_empty() && pods.0 != until {
                    pods.apply(events.recv().await.expect("the watches run"));
                }
            };
            let settled = tokio::time::timeout(PATIENCE, settled).await;
            assert!(settled.is_ok(), "release {release}, {change}: {:?}", watches.counts());
        }
        let counts = watches.counts()[&KindRef::of::<Pod>()];
        assert!(5 < counts.lists && 10 < counts.watches && 5 < counts.failures, "{counts:?}");
        assert!(0 < counts.unchanged, "{counts:?}");
    }
}
