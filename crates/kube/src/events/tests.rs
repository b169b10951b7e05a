//! What users see of events, and what happens to those that cannot be written.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{Edition, Pod, PodKey};
use serde_json::{Value, json};

use super::{Broadcaster, Dialect, EventObject, EventRecorder, Lost, Occurrence, Options};
use crate::fake::{FakeApiServer, FakeResponse, ReceivedRequest};

const EVENTS: &str = "POST /apis/events.k8s.io/v1/namespaces/ns/events";
const GROUP: &str = "GET /apis/events.k8s.io/v1";
const LONG: Duration = Duration::from_hours(1);

pub(super) fn pod(name: &str, resource_version: &str) -> EventObject {
    let resource_version = resource_version.into();
    EventObject::Pod(Arc::new(Pod {
        key: PodKey::new("ns", name),
        uid: format!("uid-{name}").into(),
        edition: Edition { resource_version, ..Edition::default() },
        ..Pod::default()
    }))
}

pub(super) fn failed(name: &str, resource_version: &str) -> Occurrence {
    Occurrence {
        controller: "lab".into(),
        regarding: pod(name, resource_version),
        related: None,
        kind: "Warning",
        reason: "FailedScheduling",
        action: "Scheduling",
        note: "no room".to_owned(),
    }
}

fn broadcaster(fake: &FakeApiServer, change: impl FnOnce(&mut Options)) -> Broadcaster {
    let mut options = Options::new("host".to_owned());
    change(&mut options);
    Broadcaster::new(fake.client(), options)
}

/// Records all of them, and waits until they are written.
async fn write(fake: &FakeApiServer, occurrences: Vec<Occurrence>) -> Lost {
    let broadcaster = broadcaster(fake, |_| {});
    for occurrence in occurrences {
        broadcaster.record(occurrence);
    }
    broadcaster.finish(LONG).await;
    broadcaster.lost()
}

/// What was written, without the request that asks for the API.
fn written(fake: &FakeApiServer) -> Vec<ReceivedRequest> {
    fake.requests().into_iter().filter(|seen| seen.line != GROUP).collect()
}

/// Removes a text that cannot be known in advance.
fn take(value: &mut Value) -> String {
    value.take().as_str().expect("it is a text").to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_event_is_written_as_kube_scheduler_writes_it() {
    let fake = FakeApiServer::scripted(&[]);
    let related = Some(pod("q", ""));
    let lost = write(&fake, vec![Occurrence { related, ..failed("p", "41") }]).await;
    assert_eq!(lost, Lost::default());
    let [seen] = &written(&fake)[..] else { panic!("one event: {:?}", fake.lines()) };
    assert_eq!((seen.line.as_str(), seen.content_type.as_str()), (EVENTS, "application/json"));
    let mut body = seen.body.clone();
    let name = take(&mut body["metadata"]["name"]);
    let stamp = name.strip_prefix("p.").expect("the pod, then the time");
    assert!(i64::from_str_radix(stamp, 16).is_ok(), "{name}");
    let time = take(&mut body["eventTime"]);
    assert_eq!(time.len(), "2026-01-02T03:04:05.000000Z".len(), "{time}");
    let expected = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": { "name": null, "namespace": "ns" },
        "eventTime": null,
        "reportingController": "lab", "reportingInstance": "lab-host",
        "action": "Scheduling", "reason": "FailedScheduling",
        "regarding": {
            "kind": "Pod", "namespace": "ns", "name": "p", "uid": "uid-p", "apiVersion": "v1",
            "resourceVersion": "41",
        },
        "related": {
            "kind": "Pod", "namespace": "ns", "name": "q", "uid": "uid-q", "apiVersion": "v1",
        },
        "note": "no room", "type": "Warning",
    });
    assert_eq!(body, expected);
}

#[tokio::test(start_paused = true)]
async fn the_same_event_again_becomes_a_series() {
    let fake = FakeApiServer::scripted(&[]);
    let other_words = Occurrence { note: "still no room".to_owned(), ..failed("p", "1") };
    let broadcaster = broadcaster(&fake, |_| {});
    for occurrence in [failed("p", "1"), other_words, failed("p", "1"), failed("p", "1")] {
        broadcaster.record(occurrence);
    }
    // Long enough for the series to end.
    tokio::time::sleep(Duration::from_mins(20)).await;
    broadcaster.finish(LONG).await;
    let seen = written(&fake);
    let name = seen[0].body["metadata"]["name"].as_str().expect("it has a name").to_owned();
    let patch = format!("PATCH /apis/events.k8s.io/v1/namespaces/ns/events/{name}");
    let lines: Vec<&str> = seen.iter().map(|seen| seen.line.as_str()).collect();
    assert_eq!(lines, [EVENTS, &patch, &patch]);
    assert_eq!(seen[1].content_type, "application/strategic-merge-patch+json");
    assert_eq!(seen[1].body["series"]["count"], 2);
    assert!(seen[1].body["series"]["lastObservedTime"].is_string());
    assert_eq!(seen[2].body["series"]["count"], 4);
}

#[tokio::test(start_paused = true)]
async fn a_series_that_goes_on_is_kept_alive() {
    let fake = FakeApiServer::scripted(&[]);
    let broadcaster = broadcaster(&fake, |_| {});
    for _ in 0..12 {
        broadcaster.record(failed("p", "1"));
        tokio::time::sleep(Duration::from_mins(5)).await;
    }
    broadcaster.finish(LONG).await;
    let seen = written(&fake);
    let counts: Vec<_> = seen.iter().map(|seen| seen.body["series"]["count"].clone()).collect();
    // Created, turned into a series, and refreshed every half hour.
    assert_eq!(counts[..2], [Value::Null, json!(2)]);
    assert!((3..=4).contains(&counts.len()), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_about_another_edition_is_another_event() {
    let fake = FakeApiServer::scripted(&[]);
    write(&fake, vec![failed("p", "1"), failed("p", "2"), failed("q", "1")]).await;
    assert!(written(&fake).iter().all(|seen| seen.line == EVENTS));
    assert_eq!(written(&fake).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_api_server_has_forgotten_is_made_again() {
    let fake = FakeApiServer::scripted(&[("PATCH", &[FakeResponse::not_found()])]);
    let lost = write(&fake, vec![failed("p", "1"), failed("p", "1")]).await;
    assert_eq!(lost, Lost::default());
    let seen = written(&fake);
    assert_eq!(seen.len(), 3);
    assert_eq!((seen[2].line.as_str(), &seen[2].body["series"]["count"]), (EVENTS, &json!(2)));
    assert_eq!(seen[2].body["metadata"]["name"], seen[0].body["metadata"]["name"]);
}

/// How long it takes until an event was tried this often, by an instance that keeps running. It is not
/// tried again after that.
async fn check(replies: &[FakeResponse], expected: Lost, tries: usize) -> Duration {
    let fake = FakeApiServer::scripted(&[(EVENTS, replies)]);
    let broadcaster = broadcaster(&fake, |_| {});
    let begun = tokio::time::Instant::now();
    broadcaster.record(failed("p", "1"));
    while written(&fake).len() < tries {
        assert!(begun.elapsed() < LONG, "{:?}", fake.lines());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = begun.elapsed();
    tokio::time::sleep(LONG).await;
    assert_eq!((broadcaster.lost(), written(&fake).len()), (expected, tries));
    took
}

#[tokio::test(start_paused = true)]
async fn an_event_is_tried_again_where_that_may_help() {
    let none = Lost::default();
    let took =
        check(&[FakeResponse::Broken, FakeResponse::Unreachable, FakeResponse::ok()], none, 3)
            .await;
    assert!(Duration::from_secs(20) <= took && took <= Duration::from_secs(25), "{took:?}");
    let took = check(&[FakeResponse::RetryAfter(429, 3), FakeResponse::ok()], none, 2).await;
    assert!(Duration::from_secs(3) <= took && took < Duration::from_secs(9), "{took:?}");
    // Created by a request whose answer was lost.
    check(&[FakeResponse::Broken, FakeResponse::error(409, "AlreadyExists", "exists")], none, 2)
        .await;
    let rejected = Lost { rejected: 1, dropped: 0 };
    check(&[FakeResponse::error(403, "Forbidden", "it is being terminated")], rejected, 1).await;
    check(&[FakeResponse::Broken], rejected, 12).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_too_much_is_dropped_and_counted() {
    let fake = FakeApiServer::new(|_, _| FakeResponse::Silence);
    let broadcaster = broadcaster(&fake, |options| {
        options.queue = 50;
        options.in_flight = 4;
        options.dialect = Some(Dialect::Events);
    });
    for i in 0..1000 {
        broadcaster.record(failed(&format!("p{i}"), "1"));
        tokio::task::yield_now().await;
    }
    let lost = broadcaster.lost();
    assert!((850..=950).contains(&lost.dropped), "{lost:?}");
    assert_eq!(fake.requests().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_old_api_server_gets_events_of_the_core() {
    let fake =
        FakeApiServer::scripted(&[(GROUP, &[FakeResponse::Broken, FakeResponse::not_found()])]);
    let lost = write(&fake, vec![failed("p", "1"), failed("p", "1"), failed("p", "1")]).await;
    assert_eq!(lost, Lost::default());
    let seen = written(&fake);
    assert_eq!(seen[0].line, "POST /api/v1/namespaces/ns/events");
    let mut body = seen[0].body.clone();
    for time in ["firstTimestamp", "lastTimestamp"] {
        assert_eq!(take(&mut body[time]).len(), "2026-01-02T03:04:05Z".len());
    }
    let name = take(&mut body["metadata"]["name"]);
    let expected = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": null, "namespace": "ns" },
        "involvedObject": {
            "kind": "Pod", "namespace": "ns", "name": "p", "uid": "uid-p", "apiVersion": "v1",
            "resourceVersion": "1",
        },
        "reason": "FailedScheduling", "message": "no room", "source": { "component": "lab" },
        "firstTimestamp": null, "lastTimestamp": null, "count": 1, "type": "Warning",
        "reportingComponent": "lab", "reportingInstance": "",
    });
    assert_eq!(body, expected);
    let patches: Vec<_> = seen[1..].iter().map(|seen| (&*seen.line, &seen.body["count"])).collect();
    let patch = format!("PATCH /api/v1/namespaces/ns/events/{name}");
    assert_eq!(patches, [(&*patch, &json!(2)), (&*patch, &json!(3))]);
}

#[tokio::test(start_paused = true)]
async fn events_about_a_lease_are_those_of_the_core() {
    let fake = FakeApiServer::scripted(&[]);
    let regarding = EventObject::Lease {
        namespace: "kube-system".into(),
        name: "kube-scheduler".into(),
        uid: "u".into(),
        resource_version: "5".into(),
    };
    write(&fake, vec![Occurrence { regarding, ..failed("p", "1") }]).await;
    let seen = written(&fake);
    assert_eq!(seen[0].line, "POST /api/v1/namespaces/kube-system/events");
    let about = &seen[0].body["involvedObject"];
    assert_eq!(about["apiVersion"], "coordination.k8s.io/v1");
    assert_eq!((&about["kind"], &about["resourceVersion"]), (&json!("Lease"), &json!("5")));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_nobody_waits_for_an_api_server_that_cannot_be_reached() {
    // The API server answered which API it has, and then became unreachable.
    let fake = FakeApiServer::scripted(&[(EVENTS, &[FakeResponse::Unreachable])]);
    let broadcaster = broadcaster(&fake, |_| {});
    broadcaster.record(failed("p", "1"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = tokio::time::Instant::now();
    broadcaster.finish(LONG).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(broadcaster.lost(), Lost { dropped: 0, rejected: 1 });
}

#[tokio::test(start_paused = true)]
async fn at_the_end_many_events_are_given_up_with_the_first_that_cannot_be_sent() {
    let gone = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_gone = gone.clone();
    let fake =
        FakeApiServer::new(move |_, _| match is_gone.load(std::sync::atomic::Ordering::SeqCst) {
            // Waiting for a connection that is never established takes a while.
            true => FakeResponse::Unreachable,
            false => FakeResponse::Silence,
        });
    let broadcaster = broadcaster(&fake, |options| {
        options.dialect = Some(Dialect::Events);
        options.in_flight = 2;
        options.request_timeout = Duration::from_secs(5);
    });
    for i in 0..1000 {
        broadcaster.record(failed(&format!("p{i}"), "1"));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    gone.store(true, std::sync::atomic::Ordering::SeqCst);
    broadcaster.finish(LONG).await;
    assert_eq!(broadcaster.lost(), Lost { dropped: 0, rejected: 1000 });
    assert!(written(&fake).len() < 10, "{}", written(&fake).len());
}

#[tokio::test(start_paused = true)]
async fn at_the_end_nobody_waits_for_an_api_server_that_was_never_there() {
    for events in [0, 3] {
        let fake = FakeApiServer::scripted(&[(GROUP, &[FakeResponse::Unreachable])]);
        let broadcaster = broadcaster(&fake, |_| {});
        for _ in 0..events {
            broadcaster.record(failed("p", "1"));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let begun = tokio::time::Instant::now();
        broadcaster.finish(LONG).await;
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_end_an_api_server_that_never_says_what_it_has_is_not_asked_for_ever() {
    let refusal = FakeResponse::error(403, "Forbidden", "no");
    for (reply, most) in
        [(FakeResponse::Broken, Duration::from_mins(1)), (refusal, Duration::from_secs(2))]
    {
        let fake = FakeApiServer::scripted(&[(GROUP, &[reply])]);
        let broadcaster = broadcaster(&fake, |_| {});
        broadcaster.record(failed("p", "1"));
        let begun = tokio::time::Instant::now();
        broadcaster.finish(LONG).await;
        assert!(begun.elapsed() < most, "{:?}", begun.elapsed());
        assert!(written(&fake).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_may_still_be_written_is_waited_for() {
    let busy = FakeResponse::RetryAfter(429, 5);
    let fake =
        FakeApiServer::scripted(&[(EVENTS, &[FakeResponse::Broken, busy, FakeResponse::ok()])]);
    let broadcaster = broadcaster(&fake, |_| {});
    broadcaster.record(failed("p", "1"));
    broadcaster.finish(LONG).await;
    assert_eq!(broadcaster.lost(), Lost::default());
    assert_eq!(written(&fake).len(), 3);
}
