//! Streams that break, servers that refuse, and frames that come twice.

use plimsoll_api::{KindRef, Pod};
use serde_json::json;

use super::Ear;
use crate::fake::{Asked, Fake, Stream, frame, pod};

/// Pods are watched from version 10 on; `a` of version 1 is there.
async fn watched() -> (Fake, Ear, Stream) {
    let mut fake = Fake::start().await;
    let mut ear = Ear::pods(&fake).await;
    fake.next().await.no_streaming();
    fake.next().await.list("10", "", &[pod("a", "1")]);
    let stream = fake.next().await.stream();
    assert_eq!(ear.next().await, "a");
    (fake, ear, stream)
}

fn resumes_at(asked: &Asked, version: &str) {
    let expected = format!("/api/v1/pods?watch=true&resourceVersion={version}");
    assert_eq!(asked.summary(), expected);
}

#[tokio::test]
async fn a_stream_that_breaks_within_a_frame_is_resumed_where_it_was() {
    let (mut fake, mut ear, stream) = watched().await;
    stream.say("ADDED", &pod("b", "11")).await;
    assert_eq!(ear.next().await, "b");
    let half = frame("ADDED", &pod("c", "12"));
    stream.send(half[..half.len() / 2].to_owned()).await;
    stream.break_off().await;
    let again = fake.next().await;
    resumes_at(&again, "11");
    let stream = again.stream();
    stream.send(half).await;
    stream.say("ADDED", &pod("d", "13")).await;
    assert_eq!(ear.hear(2).await, "c, d");
}

#[tokio::test]
async fn a_bookmark_is_where_the_watch_is_resumed() {
    let (mut fake, mut ear, stream) = watched().await;
    stream.bookmark("500").await;
    drop(stream);
    let again = fake.next().await;
    resumes_at(&again, "500");
    again.stream().say("ADDED", &pod("b", "501")).await;
    assert_eq!(ear.next().await, "b");
    assert_eq!(ear.watches.counts()[&KindRef::of::<Pod>()].bookmarks, 1);
}

#[tokio::test]
async fn frames_that_come_twice_or_late_are_told_once() {
    let (_fake, mut ear, stream) = watched().await;
    let (b, c) = (frame("ADDED", &pod("b", "11")), frame("MODIFIED", &pod("b", "12")));
    let (gone, anew) = (frame("DELETED", &pod("b", "13")), frame("ADDED", &pod("b", "14")));
    let all = [&b, &b, &c, &b, &c, &gone, &gone, &c, &anew, &gone, &anew];
    for one in all {
        stream.send(one.clone()).await;
    }
    stream.say("ADDED", &pod("end", "15")).await;
    assert_eq!(ear.hear(5).await, "b, b, -b, b, end");
}

#[tokio::test]
async fn an_end_that_bears_the_last_version_of_the_object_is_told() {
    let (_fake, mut ear, stream) = watched().await;
    stream.say("ADDED", &pod("b", "11")).await;
    stream.say("DELETED", &pod("a", "1")).await;
    assert_eq!(ear.hear(2).await, "b, -a");
}

#[tokio::test]
async fn versions_that_are_no_numbers_are_only_compared() {
    let (_fake, mut ear, stream) = watched().await;
    for version in ["z", "z", "b", "0"] {
        stream.say("MODIFIED", &pod("a", version)).await;
    }
    stream.say("DELETED", &pod("a", "q")).await;
    assert_eq!(ear.hear(4).await, "a, a, a, -a");
}

#[tokio::test]
async fn a_server_that_refuses_for_a_while_is_asked_again_from_where_it_was() {
    let (mut fake, mut ear, stream) = watched().await;
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
    assert_eq!(ear.next().await, "b");
    assert_eq!(ear.watches.counts()[&KindRef::of::<Pod>()].failures, 5);
}

#[tokio::test]
async fn what_is_no_frame_has_all_told_anew() {
    let (mut fake, mut ear, stream) = watched().await;
    stream.send("{\"type\":\"ADDED\",\"object\":\n").await;
    fake.next().await.list("20", "", &[pod("a", "1"), pod("b", "15")]);
    assert_eq!(ear.next().await, "b");
}

#[tokio::test]
async fn a_server_that_is_not_ready_yet_is_waited_for() {
    let mut fake = Fake::with(&[]).await;
    let mut ear = Ear::pods(&fake).await;
    for _ in 0..3 {
        let asked = fake.next().await;
        assert_eq!(asked.path, "/api/v1");
        asked.refuse(503, "");
    }
    let resources = json!([{"name": "pods", "verbs": ["list", "watch"]}]);
    fake.next().await.json(&json!({"resources": resources}));
    fake.next().await.no_streaming();
    fake.next().await.list("10", "", &[pod("a", "1")]);
    assert_eq!(ear.next().await, "a");
}

#[tokio::test]
async fn whoever_stops_listening_ends_the_watches() {
    let (_fake, mut ear, _stream) = watched().await;
    ear.events.close();
    let ended = tokio::time::timeout(crate::fake::PATIENCE, ear.watches.ended());
    ended.await.expect("nothing goes on without a listener");
}
