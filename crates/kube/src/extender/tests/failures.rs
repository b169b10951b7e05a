//! Extenders that do not answer as they should.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_config::{Extender, GoDuration};
use plimsoll_engine::{Call, Effect, EffectId, ExtenderId, ExtenderQuestion, Write};

use super::fake::{FakeExtender, Reaction};
use super::{ExtenderFixture, LONG, ask, extender, filter, pod, rank};

#[tokio::test]
async fn what_an_extender_says_is_wrong_is_the_error() {
    let fake = FakeExtender::says(r#"{"Error":"no licence"}"#).await;
    assert_eq!(ask(&extender(&fake.url()), filter()).await, Err("no licence".to_owned()));
}

#[tokio::test]
async fn an_answer_with_another_status_is_an_error() {
    for status in [201, 302, 404, 500] {
        let fake = FakeExtender::new(Reaction::Says(status, "{}".to_owned()), None).await;
        let url = fake.url();
        let expected = format!("failed filter with extender at URL {url}/filter, code {status}");
        assert_eq!(ask(&extender(&(url + "//")), filter()).await, Err(expected));
    }
}

#[tokio::test]
async fn garbage_is_an_error() {
    for (text, expected) in [
        ("", "EOF"),
        (" \n", "EOF"),
        ("<html>", "expected value at line 1 column 1"),
        (r#"{"NodeNames":["a""#, "EOF while parsing a list at line 1 column 17"),
        (r#"{"NodeNames":"a"}"#, "invalid type: string"),
    ] {
        let fake = FakeExtender::says(text).await;
        let error = ask(&extender(&fake.url()), filter()).await.expect_err(text);
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let fake = FakeExtender::says(r#"[{"Host":"a","Score":1.5}]"#).await;
    assert!(ask(&extender(&fake.url()), rank()).await.is_err());
}

#[tokio::test]
async fn an_extender_has_only_so_long_to_answer() {
    let http_timeout = GoDuration { nanoseconds: 100_000_000 };
    let fake = FakeExtender::new(Reaction::Hangs, None).await;
    let config = Extender { http_timeout, ..extender(&fake.url()) };
    let expected = format!(
        "Post \"{}/filter\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
        fake.url()
    );
    assert_eq!(ask(&config, filter()).await, Err(expected));

    // On a busy machine it may take long until it starts to answer.
    let fake = FakeExtender::new(Reaction::Stops, None).await;
    for seconds in [1, 4, 16, 60] {
        let http_timeout = GoDuration::from_seconds(seconds);
        let config = Extender { http_timeout, ..extender(&fake.url()) };
        let error = ask(&config, filter()).await.expect_err("it never ends");
        if !error.ends_with("awaiting headers)") {
            let expected = "context deadline exceeded (Client.Timeout or context cancellation while \
                            reading body)";
            return assert_eq!(error, expected);
        }
    }
    panic!("it never began to answer");
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_an_error() {
    let fake = FakeExtender::new(Reaction::Floods(65), None).await;
    let expected = format!("the answer from {}/filter has more than 67108864 bytes", fake.url());
    assert_eq!(ask(&extender(&fake.url()), filter()).await, Err(expected));
}

#[tokio::test]
async fn an_extender_that_is_not_there_is_an_error() {
    // The port is reserved, but nothing listens.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket can be made");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a port is free");
    let address = socket.local_addr().expect("it has an address");
    let expected = format!(
        "Post \"http://{address}/filter\": dial tcp {address}: connect: connection refused"
    );
    assert_eq!(ask(&extender(&format!("http://{address}")), filter()).await, Err(expected));
}

#[tokio::test]
async fn nothing_is_asked_about_a_pod_that_is_gone() {
    let fake = FakeExtender::says("{}").await;
    let mut fixture = ExtenderFixture::to(&extender(&fake.url()));
    fixture.send(1, pod("gone"), filter());
    assert_eq!(fixture.next().await, (1, Err("pod team/gone is gone".to_owned())));
    assert!(fake.got().is_empty());
}

#[tokio::test]
async fn only_so_many_calls_are_under_way_at_once() {
    let fake = FakeExtender::new(Reaction::Hangs, None).await;
    let fixture = ExtenderFixture::to(&extender(&fake.url()));
    for id in 0..100 {
        fixture.send(id, pod("p"), ExtenderQuestion::Bind("a".into()));
    }
    // While these calls hang, another client can call the extender, but further calls of this one
    // cannot.
    let other = ExtenderFixture::to(&extender(&fake.url()));
    fake.has_open(32).await;
    other.send(100, pod("p"), filter());
    fake.has_open(33).await;
    assert_eq!(fake.got().last().map(|got| got.path.as_str()), Some("/filter"));
    assert_eq!(fake.n_open(), 33);
}

#[tokio::test]
async fn calls_can_be_given_up_at_once_or_waited_for() {
    let fake = FakeExtender::new(Reaction::Hangs, None).await;
    let mut fixture = ExtenderFixture::to(&extender(&fake.url()));
    fixture.send(1, pod("p"), filter());
    fake.has_open(1).await;
    assert!(!fixture.extenders.is_binding());
    assert!(fixture.extenders.finish(LONG).await, "only bindings are waited for");
    fixture.send(2, pod("p"), filter());
    let stopped = || Err("the scheduler has stopped asking extenders".to_owned());
    assert_eq!([fixture.next().await, fixture.next().await], [(1, stopped()), (2, stopped())]);
    assert_eq!(fake.got().len(), 1, "nothing is asked any more");

    let mut fixture = ExtenderFixture::to(&extender(&fake.url()));
    fixture.send(3, pod("p"), ExtenderQuestion::Bind("a".into()));
    assert!(fixture.extenders.is_binding());
    assert!(!fixture.extenders.finish(Duration::from_millis(10)).await, "it hangs");
    assert_eq!(fixture.next().await, (3, stopped()));
}

#[tokio::test]
async fn nothing_is_bound_without_the_lease() {
    let fake = FakeExtender::says("{}").await;
    let mut fixture = ExtenderFixture::led_by(&extender(&fake.url()), Arc::new(|| None));
    fixture.send(1, pod("p"), ExtenderQuestion::Bind("a".into()));
    let refused = Err("this scheduler does not hold the lease".to_owned());
    assert_eq!(fixture.next().await, (1, refused));
    assert!(fake.got().is_empty());
    // A question about a decision is not a write.
    fixture.send(2, pod("p"), filter());
    assert!(fixture.next().await.1.is_ok());

    let fake = FakeExtender::new(Reaction::Hangs, None).await;
    let soon = Some(Duration::from_millis(50));
    let mut fixture = ExtenderFixture::led_by(&extender(&fake.url()), Arc::new(move || soon));
    fixture.send(3, pod("p"), ExtenderQuestion::Bind("a".into()));
    assert!(fixture.next().await.1.is_err(), "the lease ends before the extender has to answer");
}

#[tokio::test]
async fn effects_for_others_are_given_back() {
    let fake = FakeExtender::says("{}").await;
    let mut fixture = ExtenderFixture::to(&extender(&fake.url()));
    let effect = |id, write| Effect { id: EffectId(id), pod: pod("p"), write };
    let call = |extender| Call { extender: ExtenderId(extender), question: filter() };
    let effects = vec![
        effect(1, Write::Nominate(None)),
        effect(2, Write::Extender(call(7))),
        effect(3, Write::Nominate(Some("a".into()))),
    ];
    let rest = vec![effects[0].clone(), effects[2].clone()];
    assert_eq!(fixture.extenders.perform(effects), rest);
    assert_eq!(fixture.next().await, (2, Err("the extender is not configured".to_owned())));
}
