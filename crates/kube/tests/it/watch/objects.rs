//! Objects that are large, many, or invalid.

use std::sync::Arc;

use bytes::Bytes;
use plimsoll_api::PodKey;
use plimsoll_api::{KindRef, Pod};
use plimsoll_kube::originals::{OriginalStore, Originals};
use plimsoll_kube::watch::{Options, WatchMetrics, start};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Watcher, quick, show};
use crate::fake::{Fake, WatchStream, frame, pod};

async fn watched(items: &[Value]) -> (Fake, Watcher, WatchStream) {
    let mut fake = Fake::start().await;
    let watcher = Watcher::pods(&fake).await;
    fake.next().await.no_streaming();
    fake.next().await.list("10", "", items);
    let stream = fake.next().await.stream();
    (fake, watcher, stream)
}

/// A pod with annotations of `size` bytes.
fn large(name: &str, version: &str, size: usize) -> Value {
    let mut large = pod(name, version);
    large["metadata"]["annotations"] = json!({"note": "x".repeat(size)});
    large
}

#[tokio::test]
async fn a_pod_of_a_megabyte_is_read_from_a_list_and_from_a_watch() {
    let (_fake, mut watcher, stream) = watched(&[large("a", "1", 1 << 20), pod("b", "2")]).await;
    stream.say("ADDED", &large("c", "11", 1 << 20)).await;
    stream.say("ADDED", &pod("d", "12")).await;
    assert_eq!(watcher.next_events(4).await, "a, b, c, d");
}

#[tokio::test]
async fn an_object_over_the_limit_keeps_its_last_version() {
    let (mut fake, mut watcher, stream) =
        watched(&[pod("a", "1"), large("big", "2", 17 << 20)]).await;
    stream.say("MODIFIED", &large("a", "11", 17 << 20)).await;
    stream.say("ADDED", &pod("b", "12")).await;
    assert_eq!(watcher.next_events(2).await, "a, b");
    assert_eq!(watcher.watches.counts()[&KindRef::of::<Pod>()].unreadable, 2);
    drop(stream);
    assert_eq!(fake.next().await.get("resourceVersion"), "12");
}

#[tokio::test]
async fn the_readable_fields_of_an_object_are_used_and_the_watch_goes_on() {
    let wrong = |name, version| {
        let mut wrong = pod(name, version);
        wrong["spec"]["tolerations"] = json!([{"key": "k", "effect": "Perhaps"}]);
        wrong
    };
    let (mut fake, mut watcher, stream) = watched(&[pod("a", "1"), wrong("new", "2")]).await;
    stream.say("MODIFIED", &wrong("a", "11")).await;
    stream.say("MODIFIED", &wrong("a", "12")).await;
    stream.say("ADDED", &json!({"metadata": {"resourceVersion": "13"}})).await;
    stream.say("ADDED", &pod("b", "14")).await;
    assert_eq!(watcher.next_events(5).await, "a, new, a, a, b", "their readable fields are used");
    assert_eq!(watcher.watches.counts()[&KindRef::of::<Pod>()].unreadable, 4);
    drop(stream);
    let stream = fake.next().await.stream();
    stream.say("MODIFIED", &pod("a", "15")).await;
    stream.say("DELETED", &pod("new", "16")).await;
    assert_eq!(watcher.next_events(2).await, "a, -new");
}

#[tokio::test]
async fn ten_thousand_changes_arrive_in_order_however_slow_the_receiver_is() {
    const CHANGES: usize = 10_000;
    let (_fake, mut watcher, stream) = watched(&[]).await;
    let sender = tokio::spawn(async move {
        let mut text = String::new();
        for version in 0..CHANGES {
            let name = format!("p{}", version % 100);
            text.push_str(&frame("MODIFIED", &pod(&name, &(version + 11).to_string())));
            if text.len() > 100_000 {
                stream.send(Bytes::from(std::mem::take(&mut text))).await;
            }
        }
        stream.send(Bytes::from(text)).await;
        stream
    });
    for version in 0..CHANGES {
        assert_eq!(watcher.next().await, format!("p{}", version % 100));
        // The channel holds at most 8 batches of 256.
        assert!(watcher.events.len() <= 8);
    }
    sender.await.expect("all was sent");
    let counts = watcher.watches.counts()[&KindRef::of::<Pod>()];
    assert_eq!((counts.changed, counts.objects, counts.failures), (CHANGES as u64, 100, 0));
}

#[tokio::test]
async fn originals_are_stored_as_they_were_written() {
    let mut fake = Fake::start().await;
    let store = Arc::new(OriginalStore::default());
    let (sender, mut events) = mpsc::channel(8);
    let originals = Some(store.clone());
    let options = Options {
        kinds: vec![KindRef::of::<Pod>()],
        events: sender,
        originals,
        manifests: None,
        pace: quick(),
        served: plimsoll_kube::api_resource::ServedVersions::default(),
        metrics: WatchMetrics::default(),
    };
    let _watches = start(fake.client().await, options);
    fake.next().await.no_streaming();
    let mut written = pod("a", "1");
    written["spec"]["hostname"] = json!("not read by scheduling");
    fake.next().await.list("10", "", std::slice::from_ref(&written));
    let stream = fake.next().await.stream();
    let batch = events.recv().await.expect("an event");
    assert_eq!(show(&batch[0]), "a");
    let key = PodKey::new("n", "a");
    let original = store.pod(&key).expect("it is stored before its event is sent");
    let original: Value = serde_json::from_str(original.get()).expect("it is JSON");
    assert_eq!(original, written);
    stream.say("DELETED", &pod("a", "11")).await;
    let batch = events.recv().await.expect("an event");
    assert_eq!(show(&batch[0]), "-a");
    assert!(store.pod(&key).is_none());
}
