//! A binding is sent once, and its answer is correct as far as that can be found out.

use std::io::Write;
use std::sync::{Arc, Mutex};

use plimsoll_framework::Release;
use serde_json::{Value, json};

use super::super::binding_retries;
use super::fixture::{WriterFixture, bind};
use crate::fake::{FakeApiServer, FakeResponse};

const BINDING: &str = "POST /api/v1/namespaces/ns/pods/p/binding";
const POD: &str = "GET /api/v1/namespaces/ns/pods/p";

/// The pod at the API server.
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn is(uid: &str, node: Value) -> FakeResponse {
    FakeResponse::Response(200, json!({ "metadata": { "uid": uid }, "spec": { "nodeName": node } }))
}

async fn answer(script: &[(&str, &[FakeResponse])]) -> (Result<(), String>, Vec<String>) {
    let mut fixture = WriterFixture::new(FakeApiServer::scripted(script));
    let answer = fixture.answer_to(bind(7, "p", "n1")).await;
    fixture.rest().await;
    (answer, fixture.fake.lines())
}

/// The answer, how often the binding was sent, and how often the pod was read.
async fn check(
    replies: &[FakeResponse],
    looks: &[FakeResponse],
    expected: Result<(), &str>,
    sent: usize,
    looked: usize,
) {
    let (answer, lines) = answer(&[(BINDING, replies), (POD, looks)]).await;
    assert_eq!(answer, expected.map_err(str::to_owned));
    let count = |line| lines.iter().filter(|other| *other == line).count();
    assert_eq!((count(BINDING), count(POD)), (sent, looked), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_binding_is_written_as_kube_scheduler_writes_it() {
    let mut fixture = WriterFixture::new(FakeApiServer::scripted(&[(
        BINDING,
        &[FakeResponse::Response(201, json!({}))],
    )]));
    assert_eq!(fixture.answer_to(bind(7, "p", "n1")).await, Ok(()));
    let seen = fixture.fake.requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(
        (seen[0].line.as_str(), seen[0].content_type.as_str()),
        (BINDING, "application/json")
    );
    let expected = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": { "namespace": "ns", "name": "p", "uid": "uid-p" },
        "target": { "kind": "Node", "name": "n1" },
    });
    assert_eq!(seen[0].body, expected);
}

#[tokio::test(start_paused = true)]
async fn a_binding_whose_answer_is_lost_is_looked_after() {
    for lost in [
        FakeResponse::Broken,
        FakeResponse::Silence,
        FakeResponse::error(500, "InternalError", "oh"),
    ] {
        check(&[lost], &[is("uid-p", json!("n1"))], Ok(()), 1, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_was_lost_on_its_way_is_an_error_and_not_sent_again() {
    let late = "Post \"/api/v1/namespaces/ns/pods/p/binding\": context deadline exceeded";
    check(&[FakeResponse::Silence], &[is("uid-p", Value::Null)], Err(late), 1, 2).await;
    check(&[FakeResponse::Silence], &[is("uid-p", json!("n2"))], Err(late), 1, 1).await;
    check(&[FakeResponse::Silence], &[is("other", json!("n1"))], Err(late), 1, 1).await;
    check(&[FakeResponse::Silence], &[FakeResponse::not_found()], Err(late), 1, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_done_a_moment_later_is_found() {
    let looks = [is("uid-p", Value::Null), is("uid-p", json!("n1"))];
    check(&[FakeResponse::Broken], &looks, Ok(()), 1, 2).await;
}

#[tokio::test(start_paused = true)]
async fn looking_goes_on_while_the_api_server_is_away_but_not_for_ever() {
    let looks = [FakeResponse::Unreachable, FakeResponse::Broken, is("uid-p", json!("n1"))];
    check(&[FakeResponse::Broken], &looks, Ok(()), 1, 3).await;
    let (answer, lines) =
        answer(&[(BINDING, &[FakeResponse::Broken]), (POD, &[FakeResponse::Silence])]).await;
    assert!(answer.is_err());
    assert_eq!(lines.len(), 5, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_was_not_taken_is_sent_again() {
    let away = [FakeResponse::Unreachable, FakeResponse::Unreachable, FakeResponse::ok()];
    check(&away, &[FakeResponse::not_found()], Ok(()), 3, 0).await;
    let busy = [FakeResponse::RetryAfter(429, 2), FakeResponse::ok()];
    let before = tokio::time::Instant::now();
    check(&busy, &[FakeResponse::not_found()], Ok(()), 2, 0).await;
    assert!(2 <= before.elapsed().as_secs(), "it was asked to wait");
}

/// The answer to a binding in a release, and how often it was sent.
async fn sent(release: Release, replies: &[FakeResponse]) -> (Result<(), String>, usize) {
    let looks = [is("uid-p", Value::Null)];
    let fake = FakeApiServer::scripted(&[(BINDING, replies), (POD, &looks)]);
    let mut fixture =
        WriterFixture::with(fake, |options| options.binding_retries = binding_retries(release));
    let answer = fixture.answer_to(bind(7, "p", "n1")).await;
    fixture.rest().await;
    let lines = fixture.fake.lines();
    (answer, lines.iter().filter(|line| *line == BINDING).count())
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_failed_by_an_error_that_passes_is_sent_again_since_1_37() {
    for (code, reason) in [(500, "InternalError"), (503, "ServiceUnavailable"), (409, "Conflict")] {
        let failure = || FakeResponse::error(code, reason, "oh");
        let once = [failure(), FakeResponse::ok()];
        assert_eq!(sent(Release::V1_36, &once).await, (Err("oh".to_owned()), 1), "{code}");
        assert_eq!(sent(Release::V1_37, &once).await, (Ok(()), 2), "{code}");
        let always = [failure()];
        assert_eq!(sent(Release::V1_37, &always).await, (Err("oh".to_owned()), 4), "{code}");
    }
    let lost = [FakeResponse::Silence, FakeResponse::ok()];
    let (answer, n_sent) = sent(Release::V1_37, &lost).await;
    assert!(answer.is_err() && n_sent == 1, "nobody knows whether it is done");
    let refused = [FakeResponse::error(422, "Invalid", "no"), FakeResponse::ok()];
    assert_eq!(sent(Release::V1_37, &refused).await, (Err("no".to_owned()), 1));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_no_error_where_it_is_our_own_binding() {
    let text = "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\"";
    let conflict = [FakeResponse::error(409, "Conflict", text)];
    check(&conflict, &[is("uid-p", json!("n1"))], Ok(()), 1, 1).await;
    check(&conflict, &[is("uid-p", json!("n2"))], Err(text), 1, 1).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_refuses_is_told_in_its_words() {
    let gone = [FakeResponse::not_found()];
    check(&gone, &[FakeResponse::ok()], Err("pods \"p\" not found"), 1, 0).await;
    let forbidden = [FakeResponse::error(403, "Forbidden", "pods \"p\" is forbidden")];
    check(&forbidden, &[FakeResponse::ok()], Err("pods \"p\" is forbidden"), 1, 0).await;
}

/// What is logged.
#[derive(Clone, Default)]
struct LogLines(Arc<Mutex<Vec<u8>>>);

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no test panics in it").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_while_it_is_bound_is_no_trouble() {
    let log = LogLines::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .without_time()
        .with_max_level(tracing::Level::INFO)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // If this were the only subscriber, a log statement that another test's thread reaches first would
    // be disabled for all.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let going = "Operation cannot be fulfilled on pods/binding \"p\": pod p is being deleted, cannot be \
                 assigned to a host";
    let another = "Operation cannot be fulfilled on pods/binding \"p\": Precondition failed: UID in \
                   precondition: uid-p, UID in object meta: other";
    for deleted in [
        FakeResponse::not_found(),
        FakeResponse::error(409, "Conflict", going),
        FakeResponse::error(409, "Conflict", another),
    ] {
        let (answer, lines) = answer(&[(BINDING, &[deleted])]).await;
        assert!(answer.is_err());
        assert_eq!(lines, [BINDING], "nobody looks for a pod that is gone");
    }
    let told = |log: &LogLines| {
        String::from_utf8(log.0.lock().expect("no test panics in it").clone()).expect("it is text")
    };
    let lines = told(&log);
    assert!(!lines.contains("WARN") && !lines.contains("ERROR"), "{lines}");
    assert_eq!(lines.matches("the pod was deleted meanwhile").count(), 3, "{lines}");
    // Other errors are logged as warnings.
    let forbidden = [FakeResponse::error(403, "Forbidden", "pods \"p\" is forbidden")];
    assert!(answer(&[(BINDING, &forbidden)]).await.0.is_err());
    assert!(told(&log).contains("WARN"), "{}", told(&log));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_an_api_server_that_cannot_be_reached_is_soon_given_up() {
    let mut fixture =
        WriterFixture::new(FakeApiServer::scripted(&[(BINDING, &[FakeResponse::Unreachable])]));
    fixture.writer.perform(vec![bind(7, "p", "n1")]);
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    let begun = tokio::time::Instant::now();
    fixture.writer.end_soon();
    assert!(fixture.answer().await.1.is_err());
    assert!(begun.elapsed().as_secs() < 2, "{:?}", begun.elapsed());
    fixture.rest().await;
}
