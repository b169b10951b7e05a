//! The order of writes, how many are in flight, and when they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::super::{Load, Options};
use super::fixture::{WriterFixture, bind, condition, nominate};
use crate::fake::{FakeApiServer, FakeResponse};

const SECOND: Duration = Duration::from_secs(1);

/// Every request takes a second.
fn slow() -> FakeApiServer {
    FakeApiServer::new(|_, _| FakeResponse::Slow(SECOND, 200, json!({})))
}

#[tokio::test(start_paused = true)]
async fn what_is_written_about_one_pod_does_not_overtake() {
    let status = "PATCH /api/v1/namespaces/ns/pods/p/status";
    let fake = FakeApiServer::scripted(&[(
        status,
        &[FakeResponse::Broken, FakeResponse::Slow(SECOND, 200, json!({}))],
    )]);
    let mut fixture = WriterFixture::new(fake);
    fixture.writer.perform(vec![
        condition(1, "p", "no room"),
        bind(2, "p", "n"),
        bind(3, "q", "n"),
    ]);
    // The other pod need not wait.
    assert_eq!(fixture.answer().await, (3, Ok(())));
    assert_eq!(fixture.answer().await, (2, Ok(())));
    let lines = fixture.fake.lines();
    let at = |what: &str| lines.iter().rposition(|line| line.contains(what)).expect("it was sent");
    assert!(at("q/binding") < at("p/status") && at("p/status") < at("p/binding"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn conditions_that_wait_become_the_newest() {
    let mut fixture = WriterFixture::new(slow());
    fixture.writer.perform(vec![condition(1, "p", "first")]);
    while fixture.fake.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    let later = [
        nominate(2, "p", Some("n1")),
        condition(3, "p", "second"),
        nominate(4, "p", None),
        condition(5, "p", "third"),
    ];
    fixture.writer.perform(later.into());
    fixture.rest().await;
    let seen = fixture.fake.requests();
    assert_eq!(seen.len(), 2);
    let status = &seen[1].body["status"];
    assert_eq!(status["conditions"][0]["message"], "third");
    assert!(status.as_object().expect("an object").contains_key("nominatedNodeName"));
    assert!(status["nominatedNodeName"].is_null());
}

#[tokio::test(start_paused = true)]
async fn no_more_is_under_way_than_there_are_places() {
    let most = Arc::new(AtomicUsize::new(0));
    let fake = slow();
    let mut fixture = WriterFixture::with(fake.clone(), |options| options.in_flight = 4);
    fixture.writer.perform((0..10).map(|i| bind(i, &format!("p{i}"), "n")).collect());
    let begun = Instant::now();
    for _ in 0..10 {
        fixture.answer().await.1.expect("it is bound");
        most.fetch_max(fixture.writer.load().in_flight, Ordering::Relaxed);
    }
    assert!(most.load(Ordering::Relaxed) <= 4);
    assert!(SECOND * 3 <= begun.elapsed(), "ten in fours take three rounds");
    fixture.rest().await;
    assert_eq!(fixture.writer.load(), Load::default());
}

#[tokio::test(start_paused = true)]
async fn bindings_go_before_conditions_which_go_all_the_same() {
    let mut fixture = WriterFixture::with(slow(), |options| options.in_flight = 2);
    let conditions = (0..20).map(|i| condition(i, &format!("c{i}"), "no room"));
    fixture.writer.perform(conditions.collect());
    fixture.writer.perform((100..130).map(|i| bind(i, &format!("b{i}"), "n")).collect());
    for _ in 0..30 {
        fixture.answer().await.1.expect("it is bound");
    }
    let n_conditions = fixture.fake.lines().iter().filter(|line| line.ends_with("/status")).count();
    assert!((3..=8).contains(&n_conditions), "{n_conditions} of 20 so far");
    fixture.rest().await;
    assert_eq!(fixture.fake.requests().len(), 50);
}

#[tokio::test(start_paused = true)]
async fn who_makes_work_can_wait_until_there_is_less() {
    let fixture = WriterFixture::with(slow(), |options| options.in_flight = 1);
    fixture.writer.perform((0..6).map(|i| bind(i, &format!("p{i}"), "n")).collect());
    assert_eq!(fixture.writer.load().queued, 6);
    let begun = Instant::now();
    fixture.writer.eased(3).await;
    assert!(fixture.writer.load().queued < 3);
    assert!(SECOND * 2 <= begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_has_waited_too_long_is_not_sent() {
    let fake = FakeApiServer::scripted(&[(
        "POST /api/v1/namespaces/ns/pods/first",
        &[FakeResponse::Slow(SECOND * 14, 200, json!({}))],
    )]);
    let mut fixture = WriterFixture::with(fake, |options| {
        options.in_flight = 1;
        options.patience = SECOND * 40;
    });
    fixture.writer.perform(vec![bind(1, "first", "n"), bind(2, "second", "n")]);
    assert_eq!(fixture.answer().await, (1, Ok(())));
    // Fourteen of forty seconds have passed, and it may take thirty-two.
    assert_eq!(fixture.answer().await, (2, Err("timed out before it was sent".to_owned())));
    assert_eq!(fixture.fake.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_turn_takes_no_time_from_the_request() {
    let fake = FakeApiServer::new(|_, _| FakeResponse::Slow(SECOND * 14, 200, json!({})));
    let wait = |span| {
        move |options: &mut Options| {
            options.patience = SECOND * 60;
            options.rate_limiter = Arc::new(move || Box::pin(tokio::time::sleep(span)));
        }
    };
    let mut fixture = WriterFixture::with(fake.clone(), wait(SECOND * 20));
    assert_eq!(fixture.answer_to(bind(1, "p", "n")).await, Ok(()));
    // A request that waited too long is not sent any more.
    let mut fixture = WriterFixture::with(fake, wait(SECOND * 40));
    let answer = fixture.answer_to(bind(2, "q", "n")).await;
    assert_eq!(answer, Err("timed out before it was sent".to_owned()));
    assert_eq!(fixture.fake.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_without_the_lease() {
    let leads = Arc::new(AtomicBool::new(true));
    let fake = FakeApiServer::scripted(&[("POST", &[FakeResponse::Unreachable])]);
    let asked = leads.clone();
    let mut fixture = WriterFixture::with(fake, |options| {
        options.may_write = Arc::new(move || asked.load(Ordering::Relaxed).then_some(SECOND * 5));
    });
    fixture.writer.perform(vec![bind(1, "p", "n")]);
    while fixture.fake.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    // The API server did not process it, so it would be retried.
    leads.store(false, Ordering::Relaxed);
    let error = "this scheduler does not hold the lease";
    assert_eq!(fixture.answer().await, (1, Err(error.to_owned())));
    assert_eq!(fixture.answer_to(bind(2, "q", "n")).await, Err(error.to_owned()));
    assert_eq!(fixture.fake.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_everything_at_once() {
    let mut fixture = WriterFixture::with(slow(), |options| options.in_flight = 2);
    fixture.writer.perform((0..5).map(|i| bind(i, &format!("p{i}"), "n")).collect());
    while fixture.fake.requests().len() < 2 {
        tokio::task::yield_now().await;
    }
    fixture.writer.stop_at_once();
    fixture.writer.perform(vec![bind(5, "late", "n")]);
    let mut answered = Vec::new();
    for _ in 0..6 {
        let (id, answer) = fixture.answer().await;
        assert_eq!(answer, Err("the scheduler has stopped writing".to_owned()));
        answered.push(id);
    }
    answered.sort_unstable();
    assert_eq!(answered, [0, 1, 2, 3, 4, 5]);
    fixture.rest().await;
    assert_eq!(fixture.fake.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_finished_within_its_time() {
    let mut fixture = WriterFixture::with(slow(), |options| options.in_flight = 1);
    fixture.writer.perform((0..3).map(|i| bind(i, &format!("p{i}"), "n")).collect());
    assert_eq!(fixture.writer.finish(SECOND * 10).await, Load::default());
    for id in 0..3 {
        assert_eq!(fixture.answer().await, (id, Ok(())));
    }
    let error = "the scheduler has stopped writing";
    assert_eq!(fixture.answer_to(bind(9, "late", "n")).await, Err(error.to_owned()));

    let mut fixture = WriterFixture::with(slow(), |options| options.in_flight = 1);
    fixture.writer.perform((0..5).map(|i| bind(i, &format!("p{i}"), "n")).collect());
    let left = fixture.writer.finish(Duration::from_millis(2500)).await;
    assert_eq!(left, Load { queued: 2, in_flight: 1 });
    let mut n_bound = 0;
    for _ in 0..5 {
        n_bound += usize::from(fixture.answer().await.1.is_ok());
    }
    assert_eq!(n_bound, 2);
}
