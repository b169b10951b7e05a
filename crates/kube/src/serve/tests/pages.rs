//! The pages of the server.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use plimsoll_api::{Pod, PodKey, PodTemplate};
use plimsoll_engine::{Decision, NodeDecision, NodeVerdict, Outcome};
use plimsoll_framework::PodInfo;
use prometheus::{IntCounter, Registry};
use serde_json::json;

use super::fixture::{FakeScheduler, RunningServer, ServerFixture, TOKEN, api_server};
use crate::serve::{Build, Explained, Feature, HealthCheck};

/// A server whose pages `jane` may see.
async fn serving(
    scheduler: FakeScheduler,
    change: impl FnOnce(&mut ServerFixture),
) -> RunningServer {
    let fake = api_server(|_| true);
    let mut setup = ServerFixture::new(Some(&fake));
    setup.scheduler = Arc::new(scheduler);
    change(&mut setup);
    setup.start().await
}

async fn put(server: &RunningServer, body: &str) -> (u16, String) {
    let token = format!("Bearer {TOKEN}");
    let headers = [("Authorization", token.as_str())];
    let answer = server.ask(None, "PUT", "/debug/flags/v", &headers, body).await;
    (answer.code, answer.body)
}

#[tokio::test]
async fn a_pending_pod_is_explained_with_its_record() {
    let verdict = NodeVerdict::Scored { scores: vec![("Fit".into(), 9)], total: 9 };
    let outcome = Outcome::Scheduled { node: "a".into(), best: vec!["a".into()] };
    let decision = Decision {
        nodes: vec![NodeDecision { name: "a".into(), verdict }],
        ..Decision::of_pod(PodKey::new("team", "web-0"), 2, outcome)
    };
    let explained = Explained::Decision(Box::new(decision));
    let server = serving(FakeScheduler { explained, ..FakeScheduler::default() }, |_| {}).await;
    let answer = server.get_as_jane("/explain?pod=team%2Fweb-0").await;
    assert_eq!(answer.code, 200);
    let expected = json!({
        "pod": "team/web-0", "result": "scheduled", "node": "a", "best": ["a"], "attempt": 2,
        "nodes": [{ "name": "a", "scores": { "Fit": 9 }, "total": 9 }],
    });
    assert_eq!(answer.json(), expected);
    assert_eq!(
        server.scheduler.asked.lock().expect("nobody panicked")[..],
        [PodKey::new("team", "web-0")]
    );
    for wrong in ["/explain", "/explain?pod=web-0", "/explain?node=a", "/explain?pod=a/b&pod=c/d"] {
        let answer = server.get_as_jane(wrong).await;
        assert_eq!(answer.code, 400, "{wrong}");
        assert!(answer.body.contains("/explain?pod=NAMESPACE/NAME"), "{}", answer.body);
    }
}

#[tokio::test]
async fn the_picture_of_the_page_is_dropped_once_it_is_not_fresh_any_more() {
    let pod = PodInfo::new(Pod { key: PodKey::new("team", "web-0"), ..Pod::default() });
    let seen = pod.seen().clone();
    let server = serving(FakeScheduler { pods: vec![pod], ..FakeScheduler::default() }, |_| {});
    let server = server.await;
    let before = Arc::strong_count(&seen);
    let answer = server.get_as_jane("/api/v1/overview").await;
    assert_eq!((answer.code, Arc::strong_count(&seen)), (200, before), "it needs no pods");
    let answer = server.get_as_jane("/api/v1/pods").await;
    assert_eq!((answer.code, &answer.json()["total"]), (200, &json!(1)));
    assert!(before < Arc::strong_count(&seen), "the next question may be answered from it");
    let dropped = async {
        while before < Arc::strong_count(&seen) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), dropped).await.expect("it is dropped");
}

#[tokio::test]
async fn a_pod_that_is_not_pending_is_not_explained() {
    for (explained, message) in [
        (Explained::Placed, "pod team/web-0 is not pending"),
        (Explained::Unknown, "pod team/web-0 is not known"),
    ] {
        let server = serving(FakeScheduler { explained, ..FakeScheduler::default() }, |_| {}).await;
        let answer = server.get_as_jane("/explain?pod=team/web-0").await;
        assert_eq!(answer.code, 404);
        assert!(answer.body.starts_with(message), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_scheduler_that_does_not_answer_is_told_as_such() {
    let server = serving(FakeScheduler { silent: true, ..FakeScheduler::default() }, |_| {}).await;
    for path in ["/metrics", "/metrics/resources", "/explain?pod=a/b", "/debug/cache"] {
        let answer = server.get_as_jane(path).await;
        assert_eq!(answer.code, 503, "{path}");
        assert!(answer.body.contains("does not answer"), "{}", answer.body);
    }
    assert_eq!(server.get_as_jane("/healthz").await.code, 200);
}

#[tokio::test]
async fn the_configuration_is_told_as_configz_has_it() {
    let server = serving(FakeScheduler::default(), |_| {}).await;
    let answer = server.get_as_jane("/configz").await;
    let expected = json!({ "componentconfig": { "apiVersion": "kubescheduler.config.k8s.io/v1" } });
    assert_eq!(answer.json(), expected);
    assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
    assert_eq!(server.get_as_jane("/debug/cache").await.body, "0 nodes\n");
}

#[tokio::test]
async fn what_is_not_served_is_not_found_by_those_who_may_look() {
    let server = serving(FakeScheduler::default(), |_| {}).await;
    for path in ["/", "/nothing", "/debug/pprof/heap", "/livez/nothing", "/healthz/"] {
        let answer = server.get_as_jane(path).await;
        assert_eq!((answer.code, answer.body.as_str()), (404, "404 page not found\n"), "{path}");
    }
}

#[tokio::test]
async fn how_much_is_logged_can_be_set_where_profiling_is_on() {
    let server = serving(FakeScheduler::default(), |_| {}).await;
    let done = "successfully set klog.logging.verbosity to 4".to_owned();
    assert_eq!(put(&server, "4\n").await, (200, done));
    let (code, why) = put(&server, "loud").await;
    assert_eq!(code, 400);
    assert!(why.starts_with("failed set klog.logging.verbosity loud: "), "{why}");
    let answer = server.get_as_jane("/debug/flags/v").await;
    assert_eq!((answer.code, answer.body.as_str()), (406, "unsupported http method"));
    let server = serving(FakeScheduler::default(), |setup| setup.process.profiling = false).await;
    assert_eq!(put(&server, "4").await.0, 404);
}

#[tokio::test]
async fn only_the_leader_tells_of_pods() {
    let template = PodTemplate { scheduler_name: "s".into(), ..PodTemplate::default() };
    let mut pod = Pod::new(PodKey::new("team", "web-0"), template);
    pod.asks.fit.milli_cpu = 250;
    let pods = vec![PodInfo::new(pod)];
    let server =
        serving(FakeScheduler { pods: pods.clone(), ..FakeScheduler::default() }, |_| {}).await;
    let answer = server.get_as_jane("/metrics/resources").await;
    let line = "kube_pod_resource_request{namespace=\"team\",node=\"\",pod=\"web-0\",priority=\"0\",\
                resource=\"cpu\",scheduler=\"s\",unit=\"cores\"} 0.25\n";
    assert!(answer.body.contains(line), "{}", answer.body);
    let server =
        serving(FakeScheduler { pods, leads: false, ..FakeScheduler::default() }, |_| {}).await;
    let answer = server.get_as_jane("/metrics/resources").await;
    assert_eq!((answer.code, answer.body.as_str()), (200, ""));
}

#[tokio::test]
async fn health_checks_are_counted() {
    let server = serving(FakeScheduler::default(), |setup| {
        let lease =
            HealthCheck::new("leaderElection", || Err("failed election to renew".to_owned()));
        setup.process.checks.healthz.push(lease);
    })
    .await;
    assert_eq!(server.get("/healthz", &[]).await.code, 500);
    assert_eq!(server.get("/livez", &[]).await.code, 200);
    let answer = server.get_as_jane("/healthz/leaderElection").await;
    let told = "internal server error: failed election to renew\n";
    assert_eq!((answer.code, answer.body.as_str()), (500, told));
    expect![[r#"
        # HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.
        # TYPE kubernetes_healthcheck gauge
        kubernetes_healthcheck{name="leaderElection",type="healthz"} 0
        kubernetes_healthcheck{name="ping",type="livez"} 1
        # HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.
        # TYPE kubernetes_healthchecks_total counter
        kubernetes_healthchecks_total{name="leaderElection",status="error",type="healthz"} 1
        kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1
    "#]]
    .assert_eq(&server.get_as_jane("/metrics/slis").await.body);
}

#[tokio::test]
async fn pages_say_what_runs_and_how() {
    let server = serving(FakeScheduler::default(), |setup| {
        let flag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        setup.process.flags = vec![flag("v", "2"), flag("config", "/etc/config.yaml")];
        setup.process.build.git_version = "v1.36.2".to_owned();
    })
    .await;
    let flags = server.get_as_jane("/flagz").await.body;
    assert!(flags.starts_with("\nkube-scheduler flagz\nWarning: "), "{flags}");
    assert!(flags.ends_with("\nconfig=/etc/config.yaml\nv=2\n"), "{flags}");
    let status = server.get_as_jane("/statusz").await.body;
    assert!(status.starts_with("\nkube-scheduler statusz\nWarning: "), "{status}");
    assert!(status.contains("\nUp: ") && status.contains("Binary version: 1.36.2\n"), "{status}");
}

/// Asks for a page as a client that accepts this.
async fn accepting(server: &RunningServer, path: &str, accept: &str) -> super::fixture::HttpAnswer {
    let token = format!("Bearer {TOKEN}");
    server.get(path, &[("Authorization", &token), ("Accept", accept)]).await
}

#[tokio::test]
async fn pages_are_objects_for_programs() {
    let server = serving(FakeScheduler::default(), |setup| {
        setup.process.flags = vec![("v".to_owned(), "2".to_owned())];
        setup.process.build.git_version = "v1.36.2".to_owned();
        setup.process.build.emulation_version = "1.36".to_owned();
    })
    .await;
    for (version, is_deprecated) in [("v1beta1", false), ("v1alpha1", true)] {
        for (path, kind) in [("/flagz", "Flagz"), ("/statusz", "Statusz")] {
            let terms = format!("g=config.k8s.io;v={version};as={kind}");
            let answer = accepting(&server, path, &format!("application/json;{terms}")).await;
            assert_eq!(answer.code, 200);
            let expected = format!("content-type: application/json;{terms}").to_ascii_lowercase();
            assert!(answer.head.contains(&expected), "{}", answer.head);
            let warning = format!(
                "warning: 299 - \"this version of the {} endpoint is deprecated. please use a newer version.\"",
                &path[1..]
            );
            assert_eq!(answer.head.contains(&warning), is_deprecated, "{}", answer.head);
            let object = answer.json();
            assert_eq!(object["kind"], kind);
            assert_eq!(object["apiVersion"], format!("config.k8s.io/{version}"));
            assert_eq!(object["metadata"], json!({"name": "kube-scheduler"}));
            if kind == "Flagz" {
                assert_eq!(object["flags"], json!({"v": "2"}));
            } else {
                assert_eq!(object["binaryVersion"], "1.36.2");
                assert_eq!(object["emulationVersion"], "1.36");
                assert!(object["uptimeSeconds"].is_u64() && object["startTime"].is_string());
                let paths = ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"];
                assert_eq!(object["paths"], json!(paths));
            }
            let yaml = accepting(&server, path, &format!("application/yaml;{terms}")).await;
            assert_eq!(yaml.code, 200);
            let read = plimsoll_document::Document::parse_all("page", &yaml.body);
            let read = &read.expect("it is YAML")[0].value;
            assert_eq!((&read["kind"], &read["metadata"]), (&object["kind"], &object["metadata"]));
        }
    }
}

#[tokio::test]
async fn who_accepts_no_form_of_a_page_is_told_which_there_are() {
    let server = serving(FakeScheduler::default(), |_| {}).await;
    for (accept, content_type) in [
        ("application/xml", "application/json"),
        ("application/json", "application/json"),
        ("application/yaml", "application/yaml"),
        ("application/json;v=v1beta1;g=config.k8s.io", "application/json"),
    ] {
        for path in ["/statusz", "/flagz"] {
            let answer = accepting(&server, path, accept).await;
            assert_eq!(answer.code, 406, "{accept}");
            assert!(answer.head.contains(&format!("content-type: {content_type}")), "{accept}");
            let read = plimsoll_document::Document::parse_all("status", &answer.body);
            let expected = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "only the following media types are accepted: application/json, \
                            application/yaml, text/plain",
                "reason": "NotAcceptable", "code": 406,
            });
            assert_eq!(read.expect("it can be read")[0].value, expected, "{accept}");
        }
    }
    assert_eq!(accepting(&server, "/statusz", "").await.code, 200, "nothing is text");
}

#[tokio::test]
async fn metrics_of_others_are_told_among_our_own() {
    let registry = Registry::new();
    let calls = IntCounter::new("rest_client_requests_total", "[STABLE] Calls.").expect("a name");
    registry.register(Box::new(calls.clone())).expect("it is the first");
    calls.inc();
    let server = serving(FakeScheduler::default(), |setup| {
        setup.process.registries.push(registry);
        setup.process.build = Build { major: "1".to_owned(), ..Build::default() };
        let feature = |name: &str, stage: &str, enabled| Feature {
            name: name.to_owned(),
            stage: stage.to_owned(),
            enabled,
        };
        setup.process.features = vec![feature("B", "ALPHA", false), feature("A", "", true)];
    })
    .await;
    let answer = server.get_as_jane("/metrics").await;
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "# HELP rest_client_requests_total [STABLE] Calls.\n# TYPE rest_client_requests_total counter\n\
         rest_client_requests_total 1\n",
        "kubernetes_feature_enabled{name=\"A\",stage=\"\"} 1\n\
         kubernetes_feature_enabled{name=\"B\",stage=\"ALPHA\"} 0\n",
        "kubernetes_build_info{build_date=\"\",compiler=\"\",git_commit=\"\",git_tree_state=\"\",\
         git_version=\"\",go_version=\"\",major=\"1\",minor=\"\",platform=\"\"} 1\n",
        "# TYPE process_cpu_seconds_total counter\n",
    ] {
        assert!(answer.body.contains(line), "{line}\n{}", answer.body);
    }
}
