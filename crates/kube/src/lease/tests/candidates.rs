//! Several instances: one leads at a time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use super::super::{Ended, State};
use super::fixture::{LeaseFault, LeaseServer, TestCandidate, pass};

#[tokio::test(start_paused = true)]
async fn a_second_instance_waits_until_the_lease_is_given_back() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    let mut two = TestCandidate::new(&server, "two");
    pass(60).await;
    assert_eq!((one.now(), two.now()), (State::Leading, State::Standby));
    assert!(!two.leadership.is_leading_for_sure());
    assert_eq!(two.leadership.leader(), "one");
    assert_eq!(one.stop().await, Ended::Stopped);
    let took = two.becomes(State::Leading).await;
    assert!(took <= Duration::from_secs(5), "{took:?}");
    assert_eq!(server.spec("holderIdentity"), "two");
    assert_eq!(server.spec("leaseTransitions"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_followed_when_its_lease_is_over() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    let mut two = TestCandidate::new(&server, "two");
    pass(20).await;
    one.kill();
    let took = two.becomes(State::Leading).await;
    let (least, most) = (Duration::from_secs(12), Duration::from_secs(21));
    assert!((least..=most).contains(&took), "{took:?}");
    assert!(!one.leadership.is_leading_for_sure());
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_the_past_is_respected_until_it_was_seen_for_its_whole_length() {
    let server = LeaseServer::new();
    server.change(|lease| {
        lease["spec"] = json!({
            "holderIdentity": "ghost", "leaseDurationSeconds": 15, "leaseTransitions": 4,
            "acquireTime": "1969-01-01T00:00:00.000000Z",
            "renewTime": "1969-01-01T00:00:00.000000Z",
        });
    });
    let mut one = TestCandidate::new(&server, "one");
    // The times in the Lease do not matter, since clocks differ.
    let took = one.becomes(State::Leading).await;
    assert!(Duration::from_secs(15) <= took, "{took:?}");
    assert_eq!(server.spec("leaseTransitions"), 5);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_taken_away_is_lost_at_once() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    server.change(|lease| {
        lease["spec"]["holderIdentity"] = json!("thief");
    });
    let took = one.becomes(State::Lost).await;
    assert!(took <= Duration::from_secs(3), "{took:?}");
    assert!(!one.leadership.is_leading_for_sure());
    let events = ["LeaderElection one became leader", "LeaderElection one stopped leading"];
    pass(1).await;
    assert_eq!(one.events(), events);
    assert_eq!(one.end().await, Ended::Lost);
    // The lease is not released, since another instance holds it.
    assert_eq!(server.spec("holderIdentity"), "thief");
}

#[tokio::test(start_paused = true)]
async fn never_do_two_lead_whatever_happens_to_the_api_server() {
    let server = LeaseServer::new();
    let mut candidates = vec![TestCandidate::new(&server, "c0"), TestCandidate::new(&server, "c1")];
    let mut n_made = 2;
    let mut n_leaders = 0;
    for step in 0..400_u32 {
        match step % 80 {
            10 => server.fault(LeaseFault::Deaf),
            16 => server.fault(LeaseFault::Away),
            45 => server.fault(LeaseFault::None),
            70 => {
                let sleeper = &candidates[0].clocks.slept;
                sleeper.fetch_add(60, Ordering::Relaxed);
            }
            _ => {}
        }
        for _ in 0..10 {
            let leaders = candidates.iter().filter(|one| one.leadership.is_leading_for_sure());
            let leaders = leaders.count();
            assert!(leaders <= 1, "{leaders} lead at step {step}");
            n_leaders += leaders;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // The process of an instance that lost the lease ends, and another one is started.
        for one in &mut candidates {
            if one.now() == State::Lost {
                *one = TestCandidate::new(&server, &format!("c{n_made}"));
                n_made += 1;
            }
        }
    }
    assert!(1500 < n_leaders, "somebody led in {n_leaders} of 4000 moments");
    assert!(3 < n_made, "leaders were lost");
}
