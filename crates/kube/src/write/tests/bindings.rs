//! A binding is sent once, and its answer is the truth as far as it can be learnt.

use serde_json::{Value, json};

use super::lab::{Lab, bind};
use crate::fake::{Fake, Reply};

const BINDING: &str = "POST /api/v1/namespaces/ns/pods/p/binding";
const POD: &str = "GET /api/v1/namespaces/ns/pods/p";

/// The pod as the API server has it.
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn is(uid: &str, node: Value) -> Reply {
    Reply::Answer(200, json!({ "metadata": { "uid": uid }, "spec": { "nodeName": node } }))
}

async fn answer(script: &[(&str, &[Reply])]) -> (Result<(), String>, Vec<String>) {
    let mut lab = Lab::new(Fake::scripted(script));
    let answer = lab.answer_to(bind(7, "p", "n1")).await;
    lab.rest().await;
    (answer, lab.fake.lines())
}

/// The answer, and how often it was sent and looked at.
async fn check(
    replies: &[Reply],
    looks: &[Reply],
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
    let mut lab = Lab::new(Fake::scripted(&[(BINDING, &[Reply::Answer(201, json!({}))])]));
    assert_eq!(lab.answer_to(bind(7, "p", "n1")).await, Ok(()));
    let seen = lab.fake.seen();
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
    for lost in [Reply::Broken, Reply::Silence, Reply::error(500, "InternalError", "oh")] {
        check(&[lost], &[is("uid-p", json!("n1"))], Ok(()), 1, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_was_lost_on_its_way_is_an_error_and_not_sent_again() {
    let late = "Post \"/api/v1/namespaces/ns/pods/p/binding\": context deadline exceeded";
    check(&[Reply::Silence], &[is("uid-p", Value::Null)], Err(late), 1, 2).await;
    check(&[Reply::Silence], &[is("uid-p", json!("n2"))], Err(late), 1, 1).await;
    check(&[Reply::Silence], &[is("other", json!("n1"))], Err(late), 1, 1).await;
    check(&[Reply::Silence], &[Reply::not_found()], Err(late), 1, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_done_a_moment_later_is_found() {
    let looks = [is("uid-p", Value::Null), is("uid-p", json!("n1"))];
    check(&[Reply::Broken], &looks, Ok(()), 1, 2).await;
}

#[tokio::test(start_paused = true)]
async fn looking_goes_on_while_the_api_server_is_away_but_not_for_ever() {
    let looks = [Reply::Unreachable, Reply::Broken, is("uid-p", json!("n1"))];
    check(&[Reply::Broken], &looks, Ok(()), 1, 3).await;
    let (answer, lines) = answer(&[(BINDING, &[Reply::Broken]), (POD, &[Reply::Silence])]).await;
    assert!(answer.is_err());
    assert_eq!(lines.len(), 5, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_was_not_taken_is_sent_again() {
    let away = [Reply::Unreachable, Reply::Unreachable, Reply::ok()];
    check(&away, &[Reply::not_found()], Ok(()), 3, 0).await;
    let busy = [Reply::RetryAfter(429, 2), Reply::ok()];
    let before = tokio::time::Instant::now();
    check(&busy, &[Reply::not_found()], Ok(()), 2, 0).await;
    assert!(2 <= before.elapsed().as_secs(), "it was asked to wait");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_no_error_where_it_is_our_own_binding() {
    let text = "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\"";
    let conflict = [Reply::error(409, "Conflict", text)];
    check(&conflict, &[is("uid-p", json!("n1"))], Ok(()), 1, 1).await;
    check(&conflict, &[is("uid-p", json!("n2"))], Err(text), 1, 1).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_refuses_is_told_in_its_words() {
    let gone = [Reply::not_found()];
    check(&gone, &[Reply::ok()], Err("pods \"p\" not found"), 1, 0).await;
    let forbidden = [Reply::error(403, "Forbidden", "pods \"p\" is forbidden")];
    check(&forbidden, &[Reply::ok()], Err("pods \"p\" is forbidden"), 1, 0).await;
}
