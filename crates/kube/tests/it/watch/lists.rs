//! How all objects are listed, at the start and again.

use std::time::Duration;

use plimsoll_api::{KindRef, Pod};
use plimsoll_kube::watch::Pace;
use serde_json::json;

use super::{Watcher, quick};
use crate::fake::{Fake, pod};

#[tokio::test]
async fn a_list_is_followed_by_a_watch_from_its_version() {
    let mut fake = Fake::start().await;
    let mut watcher = Watcher::pods(&fake).await;
    fake.next().await.no_streaming();
    let list = fake.next().await;
    assert_eq!(list.summary(), "/api/v1/pods?limit=500&resourceVersion=0");
    assert_eq!(list.get("fieldSelector"), "status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed");
    assert!(!watcher.watches.unsynced().borrow().is_empty());
    list.list("10", "", &[pod("a", "3"), pod("b", "4")]);
    let watch = fake.next().await;
    assert_eq!(watch.summary(), "/api/v1/pods?watch=true&resourceVersion=10");
    assert_eq!(watch.get("allowWatchBookmarks"), "true");
    assert_eq!(watch.headers["accept-encoding"], "identity");
    let seconds: u64 = watch.get("timeoutSeconds").parse().expect("a number");
    assert!((300..=600).contains(&seconds), "{seconds}");
    watcher.synced().await;
    let stream = watch.stream();
    stream.say("MODIFIED", &pod("a", "11")).await;
    stream.say("ADDED", &pod("c", "12")).await;
    stream.say("DELETED", &pod("b", "13")).await;
    assert_eq!(watcher.next_events(5).await, "a, b, a, c, -b");
}

#[tokio::test]
async fn a_streaming_list_continues_as_a_watch() {
    let mut fake = Fake::start().await;
    let mut watcher = Watcher::pods(&fake).await;
    let asked = fake.next().await;
    assert_eq!(asked.summary(), "/api/v1/pods?watch=true&sendInitialEvents=true");
    assert_eq!(asked.get("resourceVersionMatch"), "NotOlderThan");
    let stream = asked.stream();
    stream.say("ADDED", &pod("b", "9")).await;
    stream.say("ADDED", &pod("a", "3")).await;
    assert_eq!(watcher.next_events(2).await, "b, a");
    assert!(!watcher.watches.unsynced().borrow().is_empty());
    stream.end_list("10").await;
    watcher.synced().await;
    stream.say("ADDED", &pod("c", "11")).await;
    assert_eq!(watcher.next().await, "c");
    drop(stream);
    let resumed = fake.next().await;
    assert_eq!(resumed.summary(), "/api/v1/pods?watch=true&resourceVersion=11");
}

#[tokio::test]
async fn plain_lists_are_used_if_the_server_treats_a_streaming_list_as_a_watch() {
    let mut fake = Fake::start().await;
    let pace = Pace { list_silence: Duration::from_millis(50), ..quick() };
    let mut watcher = Watcher::on(&fake, &[KindRef::of::<Pod>()], pace).await;
    let stream = fake.next().await.stream();
    stream.say("ADDED", &pod("a", "3")).await;
    let list = fake.next().await;
    assert_eq!(list.summary(), "/api/v1/pods?limit=500&resourceVersion=0");
    list.list("10", "", &[pod("a", "3"), pod("b", "4")]);
    let watch = fake.next().await.stream();
    watch.say("ADDED", &pod("c", "11")).await;
    assert_eq!(watcher.next_events(3).await, "a, b, c", "no event is sent twice");
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let mut fake = Fake::start().await;
    let mut watcher = Watcher::pods(&fake).await;
    fake.next().await.no_streaming();
    fake.next().await.list("10", "to+b/", &[pod("a", "3")]);
    let second = fake.next().await;
    assert_eq!(second.summary(), "/api/v1/pods?limit=500&continue=to%2Bb%2F");
    assert_eq!(watcher.next().await, "a", "a page is processed before the next one arrives");
    second.list("10", "", &[pod("b", "4")]);
    let watch = fake.next().await;
    assert_eq!(watch.summary(), "/api/v1/pods?watch=true&resourceVersion=10");
    assert_eq!(watcher.next().await, "b");
}

#[tokio::test]
async fn the_whole_list_is_requested_if_a_page_has_expired() {
    let mut fake = Fake::start().await;
    let mut watcher = Watcher::pods(&fake).await;
    fake.next().await.no_streaming();
    fake.next().await.list("10", "more", &[pod("a", "3"), pod("b", "4")]);
    fake.next().await.refuse(410, "Expired");
    let whole = fake.next().await;
    assert_eq!(whole.summary(), "/api/v1/pods?resourceVersion=0");
    whole.list("20", "", &[pod("b", "4"), pod("c", "15")]);
    assert_eq!(watcher.next_events(4).await, "a, b, c, -a");
    assert_eq!(fake.next().await.get("resourceVersion"), "20");
}

#[tokio::test]
async fn a_list_after_410_yields_only_changes_and_deletions() {
    for as_event in [false, true] {
        let mut fake = Fake::start().await;
        let mut watcher = Watcher::pods(&fake).await;
        fake.next().await.no_streaming();
        let all = [pod("a", "1"), pod("b", "2"), pod("c", "3"), pod("d", "4")];
        fake.next().await.list("10", "", &all);
        let watch = fake.next().await;
        if as_event {
            let status = json!({"kind": "Status", "code": 410, "reason": "Expired"});
            watch.stream().say("ERROR", &status).await;
        } else {
            watch.refuse(410, "Expired");
        }
        let list = fake.next().await;
        assert_eq!(list.summary(), "/api/v1/pods?resourceVersion=10", "from the server's cache");
        list.list("30", "", &[pod("a", "1"), pod("c", "21"), pod("e", "22")]);
        assert_eq!(
            watcher.next_events(8).await,
            "a, b, c, d, c, e, -b, -d",
            "as an event: {as_event}"
        );
        let watch = fake.next().await;
        assert_eq!(watch.get("resourceVersion"), "30");
        watch.stream().say("ADDED", &pod("f", "31")).await;
        assert_eq!(watcher.next().await, "f");
        assert_eq!(watcher.watches.counts()[&KindRef::of::<Pod>()].lists, 2);
    }
}

#[tokio::test]
async fn a_version_that_is_unavailable_is_not_requested_again() {
    for too_large in [false, true] {
        let mut fake = Fake::start().await;
        let mut watcher = Watcher::pods(&fake).await;
        fake.next().await.no_streaming();
        fake.next().await.list("10", "", &[pod("a", "1")]);
        fake.next().await.refuse(410, "Expired");
        let list = fake.next().await;
        assert_eq!(list.get("resourceVersion"), "10");
        if too_large {
            let causes = json!([{"reason": "ResourceVersionTooLarge", "message": "x"}]);
            let status = json!({"code": 504, "reason": "Timeout", "details": {"causes": causes}});
            list.text(504, status.to_string());
        } else {
            list.refuse(410, "Expired");
        }
        let latest = fake.next().await;
        assert_eq!(latest.summary(), "/api/v1/pods?limit=500", "the very latest");
        latest.list("5", "", &[pod("b", "2")]);
        assert_eq!(watcher.next_events(3).await, "a, b, -a");
        assert_eq!(fake.next().await.get("resourceVersion"), "5");
    }
}

#[tokio::test]
async fn a_list_that_breaks_off_is_requested_again_without_repeated_events() {
    let mut fake = Fake::start().await;
    let mut watcher = Watcher::pods(&fake).await;
    fake.next().await.no_streaming();
    let beginning =
        format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{},"#, pod("a", "1"));
    fake.next().await.text(200, beginning);
    let again = fake.next().await;
    assert_eq!(again.summary(), "/api/v1/pods?limit=500&resourceVersion=0");
    again.list("10", "", &[pod("a", "1"), pod("b", "2")]);
    assert_eq!(watcher.next_events(2).await, "a, b");
}
