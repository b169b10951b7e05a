//! One instance: how it becomes leader, keeps the lease, and ends.

use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus::{Registry, TextEncoder};
use serde_json::json;

use super::super::{Ended, Leadership, Settings, SettingsError, State};
use super::fixture::{LEASES, LeaseFault, LeaseServer, TestCandidate, pass, settings};

#[tokio::test(start_paused = true)]
async fn the_first_instance_makes_the_lease_and_leads() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    let expected = json!({
        "holderIdentity": "one", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "1970-01-01T00:00:00.000000Z", "renewTime": "1970-01-01T00:00:00.000000Z",
    });
    assert_eq!(server.lease()["spec"], expected);
    let lease = format!("{LEASES}/kube-scheduler");
    assert_eq!(server.fake.lines(), [format!("GET {lease}"), format!("POST {LEASES}")]);
    assert!(one.leadership.is_leading_for_sure());
    assert_eq!(one.leadership.leader(), "one");
    assert_eq!(one.events(), ["LeaderElection one became leader"]);
}

#[tokio::test(start_paused = true)]
async fn the_leader_renews_without_a_look_and_keeps_what_others_wrote() {
    let server = LeaseServer::new();
    server.change(|lease| lease["metadata"]["labels"] = json!({ "a": "b" }));
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    assert_eq!(server.spec("leaseTransitions"), 1);
    let acquired = server.spec("acquireTime");
    pass(11).await;
    let lines = server.fake.lines();
    assert!((6..=8).contains(&lines.len()), "{lines:?}");
    assert!(lines[1..].iter().all(|line| line.starts_with("PUT ")), "{lines:?}");
    assert_eq!(server.spec("acquireTime"), acquired);
    assert_eq!(server.spec("renewTime"), "1970-01-01T00:00:10.000000Z");
    assert_eq!(server.spec("leaseTransitions"), 1);
    assert_eq!(server.lease()["metadata"]["labels"], json!({ "a": "b" }));
}

#[tokio::test(start_paused = true)]
async fn a_change_by_others_costs_a_look() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    server.change(|lease| lease["metadata"]["annotations"] = json!({ "a": "b" }));
    pass(5).await;
    assert_eq!(one.now(), State::Leading);
    let registry = Registry::new();
    one.leadership.register(&registry).expect("nothing else has these names");
    let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("it can be written");
    let help =
        "'name' is the string used to identify the lease. Please make sure to group by name.";
    let expected = format!(
        "# HELP leader_election_master_status [ALPHA] Gauge of if the reporting system is master \
         of the relevant lease, 0 indicates backup, 1 indicates master. {help}\n\
         # TYPE leader_election_master_status gauge\n\
         leader_election_master_status{{name=\"kube-scheduler\"}} 1\n\
         # HELP leader_election_slowpath_total [ALPHA] Total number of slow path exercised in \
         renewing leader leases. {help}\n\
         # TYPE leader_election_slowpath_total counter\n\
         leader_election_slowpath_total{{name=\"kube-scheduler\"}} 1\n"
    );
    assert_eq!(text, expected);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_told_to_stop_gives_the_lease_back() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    let leadership = one.leadership.clone();
    assert_eq!(one.stop().await, Ended::Stopped);
    assert!(!leadership.is_leading_for_sure());
    assert_eq!(*leadership.state().borrow(), State::Standby);
    assert_eq!(server.spec("holderIdentity"), "");
    assert_eq!(server.spec("leaseDurationSeconds"), 1);
    assert_eq!(server.spec("leaseTransitions"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_was_broken_off_does_not_keep_the_lease_from_being_given_back() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    // The lease is renewed, but the answer does not arrive before the deadline.
    server.fault(LeaseFault::Deaf);
    pass(3).await;
    server.fault(LeaseFault::None);
    assert_eq!(one.stop().await, Ended::Stopped);
    assert_eq!(server.spec("holderIdentity"), "");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_has_is_not_given_back() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    server.change(|lease| lease["spec"]["holderIdentity"] = json!("two"));
    assert_eq!(one.stop().await, Ended::Stopped);
    assert_eq!(server.spec("holderIdentity"), "two");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_to_write_at_its_deadline() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    pass(7).await;
    server.fault(LeaseFault::Away);
    // Renewed at most two seconds ago.
    pass(7).await;
    assert!(one.leadership.is_leading_for_sure());
    pass(4).await;
    assert!(!one.leadership.is_leading_for_sure(), "ten seconds after it was renewed");
    let more = one.becomes(State::Lost).await;
    assert!(more <= Duration::from_secs(4), "{more:?}");
    assert_eq!(one.end().await, Ended::Lost);
    assert_eq!(server.spec("holderIdentity"), "one");
}

#[tokio::test(start_paused = true)]
async fn a_short_absence_of_the_api_server_is_nothing() {
    for fault in [LeaseFault::Away, LeaseFault::Deaf] {
        let server = LeaseServer::new();
        let mut one = TestCandidate::new(&server, "one");
        one.becomes(State::Leading).await;
        server.fault(fault);
        pass(6).await;
        server.fault(LeaseFault::None);
        pass(30).await;
        assert_eq!(one.now(), State::Leading, "{fault:?}");
        assert!(one.leadership.is_leading_for_sure());
        assert_eq!(server.spec("leaseTransitions"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_begun_ends_before_another_may_lead() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    server.fault(LeaseFault::Away);
    let begun = tokio::time::Instant::now();
    while let Some(left) = one.leadership.time_to_write() {
        let over = begun.elapsed() + left;
        assert!(over <= Duration::from_secs(15), "{over:?}");
        pass(1).await;
    }
    assert!(Duration::from_secs(9) <= begun.elapsed(), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_time_of_day_may_jump() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    for offset in [-100_000, 500_000, 0] {
        one.clocks.wall_offset.store(offset, Ordering::Relaxed);
        pass(5).await;
        assert!(one.leadership.is_leading_for_sure());
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_does_not_lead_for_sure() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    one.becomes(State::Leading).await;
    one.clocks.slept.store(60, Ordering::Relaxed);
    assert!(!one.leadership.is_leading_for_sure());
    // No other instance has taken the lease meanwhile.
    pass(3).await;
    assert!(one.leadership.is_leading_for_sure());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_hangs_is_not_healthy() {
    let server = LeaseServer::new();
    let mut one = TestCandidate::new(&server, "one");
    assert_eq!(one.leadership.check(), Ok(()));
    one.becomes(State::Leading).await;
    one.kill();
    pass(35).await;
    assert_eq!(one.leadership.check(), Ok(()));
    pass(2).await;
    let check = one.leadership.check().map_err(|error| error.to_string());
    let error = "failed election to renew leadership on lease kube-scheduler";
    assert_eq!(check, Err(error.to_owned()));
}

#[test]
fn settings_with_which_two_could_lead_are_refused() {
    let seconds = Duration::from_secs;
    let check = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings("one");
        change(&mut settings);
        settings.check()
    };
    assert_eq!(check(&|_| {}), Ok(()));
    assert_eq!(check(&|s| s.lease_duration = seconds(10)), Err(SettingsError::LeaseTooShort));
    assert_eq!(check(&|s| s.retry_period = seconds(9)), Err(SettingsError::DeadlineTooShort));
    assert_eq!(check(&|s| s.retry_period = seconds(0)), Err(SettingsError::NoPause));
    assert_eq!(check(&|s| s.identity.clear()), Err(SettingsError::NoIdentity));
}

#[test]
fn the_configuration_says_how_and_whether() {
    let spans = |text: &str| text.parse().expect("it is a duration");
    let mut election = plimsoll_config::LeaderElection {
        leader_elect: Some(true),
        lease_duration: spans("15s"),
        renew_deadline: spans("10s"),
        retry_period: spans("2s"),
        resource_lock: "leases".to_owned(),
        resource_name: "mine".to_owned(),
        resource_namespace: "ns".to_owned(),
    };
    let settings = Settings::from_config(&election, "lab").expect("it is valid").expect("it is on");
    assert_eq!((settings.namespace.as_str(), settings.name.as_str()), ("ns", "mine"));
    let other = Settings::from_config(&election, "lab").expect("it is valid").expect("it is on");
    assert_ne!(settings.identity, other.identity);
    let (host, uuid) = settings.identity.rsplit_once('_').expect("host and uuid");
    assert_eq!((host, uuid.len()), (crate::identity::hostname().as_str(), 36));
    let leadership = Leadership::new(settings);
    assert!(!leadership.is_leading_for_sure());
    election.leader_elect = Some(false);
    assert!(Settings::from_config(&election, "lab").expect("it is valid").is_none());
}
