//! Broken streams, errors of the API server, and repeated frames.

use plimsoll_api::{KindRef, Pod};
use serde_json::json;

use super::Watcher;
use crate::fake::{Fake, PendingRequest, WatchStream, frame, pod};

/// Watches pods from version 10. `a` exists at version 1.
async fn watched() -> (Fake, Watcher, WatchStream) {
    let mut fake = Fake::start().await;
    let mut watcher = Watcher::pods(&fake).await;
    fake.next().await.no_streaming();
    fake.next().await.list("10", "", &[pod("a", "1")]);
    let stream = fake.next().await.stream();
    assert_eq!(watcher.next().await, "a");
    (fake, watcher, stream)
}

fn resumes_at(request: &PendingRequest, version: &str) {
    let expected = format!("/api/v1/pods?watch=true&resourceVersion={version}");
    assert_eq!(request.summary(), expected);
}

#[tokio::test]
async fn a_stream_that_breaks_inside_a_frame_is_resumed_at_the_last_version() {
    let (mut fake, mut watcher, stream) = watched().await;
    stream.say("ADDED", &pod("b", "11")).await;
    assert_eq!(watcher.next().await, "b");
    let half = frame("ADDED", &pod("c", "12"));
    stream.send(half[..half.len() / 2].to_owned()).await;
    stream.break_off().await;
    let again = fake.next().await;
    resumes_at(&again, "11");
    let stream = again.stream();
    stream.send(half).await;
    stream.say("ADDED", &pod("d", "13")).await;
    assert_eq!(watcher.next_events(2).await, "c, d");
}

#[tokio::test]
async fn a_watch_is_resumed_at_the_last_bookmark() {
    let (mut fake, mut watcher, stream) = watched().await;
    stream.bookmark("500").await;
    drop(stream);
    let again = fake.next().await;
    resumes_at(&again, "500");
    again.stream().say("ADDED", &pod("b", "501")).await;
    assert_eq!(watcher.next().await, "b");
    assert_eq!(watcher.watches.counts()[&KindRef::of::<Pod>()].bookmarks, 1);
}

#[tokio::test]
async fn repeated_and_late_frames_yield_one_event() {
    let (_fake, mut watcher, stream) = watched().await;
    let (b, c) = (frame("ADDED", &pod("b", "11")), frame("MODIFIED", &pod("b", "12")));
    let (deleted, recreated) = (frame("DELETED", &pod("b", "13")), frame("ADDED", &pod("b", "14")));
    let all = [&b, &b, &c, &b, &c, &deleted, &deleted, &c, &recreated, &deleted, &recreated];
    for one in all {
        stream.send(one.clone()).await;
    }
    stream.say("ADDED", &pod("end", "15")).await;
    assert_eq!(watcher.next_events(5).await, "b, b, -b, b, end");
}

#[tokio::test]
async fn a_deletion_with_the_last_version_of_the_object_is_reported() {
    let (_fake, mut watcher, stream) = watched().await;
    stream.say("ADDED", &pod("b", "11")).await;
    stream.say("DELETED", &pod("a", "1")).await;
    assert_eq!(watcher.next_events(2).await, "b, -a");
}

#[tokio::test]
async fn versions_that_are_not_numbers_are_only_compared_for_equality() {
    let (_fake, mut watcher, stream) = watched().await;
    for version in ["z", "z", "b", "0"] {
        stream.say("MODIFIED", &pod("a", version)).await;
    }
    stream.say("DELETED", &pod("a", "q")).await;
    assert_eq!(watcher.next_events(4).await, "a, a, a, -a");
}

#[tokio::test]
async fn after_errors_a_watch_is_resumed_at_the_last_version() {
    let (mut fake, mut watcher, stream) = watched().await;
    drop(stream);
    for code in [500, 503, 429, 401] {
        let asked = fake.next().await;
        resumes_at(&asked, "10");
        asked.refuse(code, "");
    }
    let stream = fake.next().await.stream();
    stream.say("ERROR", &json!({"code": 500, "reason": "InternalError"})).await;
    let again = fake.next().await;
    resumes_at(&again, "10");
    again.stream().say("ADDED", &pod("b", "11")).await;
    assert_eq!(watcher.next().await, "b");
    assert_eq!(watcher.watches.counts()[&KindRef::of::<Pod>()].failures, 5);
}

#[tokio::test]
async fn an_invalid_frame_leads_to_a_new_list() {
    let (mut fake, mut watcher, stream) = watched().await;
    stream.send("{\"type\":\"ADDED\",\"object\":\n").await;
    fake.next().await.list("20", "", &[pod("a", "1"), pod("b", "15")]);
    assert_eq!(watcher.next().await, "b");
}

#[tokio::test]
async fn discovery_is_retried_until_the_server_is_ready() {
    let mut fake = Fake::with(&[]).await;
    let mut watcher = Watcher::pods(&fake).await;
    for _ in 0..3 {
        let asked = fake.next().await;
        assert_eq!(asked.path, "/api/v1");
        asked.refuse(503, "");
    }
    let resources = json!([{"name": "pods", "verbs": ["list", "watch"]}]);
    fake.next().await.json(&json!({"resources": resources}));
    fake.next().await.no_streaming();
    fake.next().await.list("10", "", &[pod("a", "1")]);
    assert_eq!(watcher.next().await, "a");
}

#[tokio::test]
async fn watches_end_when_the_receiver_is_closed() {
    let (_fake, mut watcher, _stream) = watched().await;
    watcher.events.close();
    let ended = tokio::time::timeout(crate::fake::PATIENCE, watcher.watches.ended());
    ended.await.expect("all tasks end");
}
