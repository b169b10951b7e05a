//! Requests to extenders, and the interpretation of their answers.

use plimsoll_engine::extenders::{Filtered, KeptCandidate};
use plimsoll_engine::{ExtenderQuestion, ExtenderReply};
use plimsoll_framework::Rejection;
use serde_json::json;

use super::fake::{FakeExtender, Got};
use super::{ask, extender, filter, preempt, rank};

#[tokio::test]
async fn nodes_are_sent_as_the_api_server_wrote_them() {
    let fake = FakeExtender::says(
        r#"{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"b","labels":{}},"spec":{}}]},
            "NodeNames":null,"FailedNodes":{"a":"no GPU left"},"Error":""}"#,
    )
    .await;
    let reply = ask(&extender(&(fake.url() + "/scheduler/")), filter()).await;
    let rejected = vec![("a".into(), Rejection::unschedulable("no GPU left".to_owned()))];
    let filtered = Filtered { passed: vec!["b".into()], rejected };
    assert_eq!(reply, Ok(ExtenderReply::Filtered(filtered)));
    let body = concat!(
        r#"{"Pod":{"metadata":{"name":"p"},"spec":{"odd":  1.50}},"#,
        r#""Nodes":{"metadata":{},"items":["#,
        r#"{"metadata":{"name":"a"},"status":{"x":"ü"}},{"metadata":{"name":"b"}}"#,
        r#"]},"NodeNames":null}"#,
    );
    let path = "/scheduler/filter".to_owned();
    assert_eq!(fake.got(), [Got { path, body: body.to_owned() }]);
}

#[tokio::test]
async fn an_extender_that_keeps_nodes_gets_their_names() {
    // Field names are not case-sensitive, as in Go.
    let fake = FakeExtender::says(
        r#"{"nodenames":["b","a"],"failedNodes":{"x":"busy","y":"busy"},
            "failedAndUnresolvableNodes":{"y":"banned"}}"#,
    )
    .await;
    let config = plimsoll_config::Extender { node_cache_capable: true, ..extender(&fake.url()) };
    let reply = ask(&config, filter()).await;
    let rejected = vec![
        ("x".into(), Rejection::unschedulable("busy".to_owned())),
        ("y".into(), Rejection::unresolvable("banned".to_owned())),
    ];
    let filtered = Filtered { passed: vec!["b".into(), "a".into()], rejected };
    assert_eq!(reply, Ok(ExtenderReply::Filtered(filtered)));
    let (_, sent) = fake.json();
    assert_eq!((&sent["Nodes"], &sent["NodeNames"]), (&json!(null), &json!(["a", "b"])));
}

#[tokio::test]
async fn an_answer_without_nodes_passes_none_and_nodes_may_stand_for_names() {
    for (node_cache_capable, text, expected) in [
        (true, "{}", &[][..]),
        (true, r#"{"Nodes":{"items":[{"metadata":{"name":"a"}}]}}"#, &["a"]),
        // An extender without a node cache must send nodes, not names.
        (false, r#"{"NodeNames":["a"]}"#, &[]),
        (false, "null", &[]),
    ] {
        let fake = FakeExtender::says(text).await;
        let config = plimsoll_config::Extender { node_cache_capable, ..extender(&fake.url()) };
        let passed = expected.iter().map(|name| (*name).into()).collect();
        let expected = Filtered { passed, rejected: Vec::new() };
        assert_eq!(ask(&config, filter()).await, Ok(ExtenderReply::Filtered(expected)), "{text}");
    }
}

#[tokio::test]
async fn a_node_that_was_not_asked_about_is_an_error() {
    for (node_cache_capable, text) in [
        (true, r#"{"NodeNames":["a","z"]}"#),
        (false, r#"{"Nodes":{"items":[{"metadata":{"name":"z"}}]}}"#),
    ] {
        let fake = FakeExtender::says(text).await;
        let config = plimsoll_config::Extender { node_cache_capable, ..extender(&fake.url()) };
        let expected = format!(
            "extender {:?} claims a filtered node \"z\" which is not found in the input node list",
            fake.url()
        );
        assert_eq!(ask(&config, filter()).await, Err(expected), "{text}");
    }
}

#[tokio::test]
async fn ranks_are_read() {
    let fake = FakeExtender::says(r#"[{"Host":"a","Score":10},{"host":"b","score":-1}]"#).await;
    let reply = ask(&extender(&fake.url()), rank()).await;
    assert_eq!(reply, Ok(ExtenderReply::Prioritized(vec![("a".into(), 10), ("b".into(), -1)])));
    let (path, sent) = fake.json();
    assert_eq!(
        (path.as_str(), sent["Nodes"]["items"].as_array().map(Vec::len)),
        ("/rank", Some(2))
    );
}

#[tokio::test]
async fn victims_are_sent_as_pods_or_as_identities() {
    let answer = r#"{"NodeNameToMetaVictims":{
        "a":{"Pods":[{"UID":"uid-v"},null],"NumPDBViolations":2},"b":null}}"#;
    let kept = |node: &str, victims: &[&str], broken_budgets| KeptCandidate {
        node: node.into(),
        victims: victims.iter().map(|uid| (*uid).into()).collect(),
        broken_budgets,
    };
    let expected = ExtenderReply::Preempting(vec![kept("a", &["uid-v"], 2), kept("b", &[], 0)]);
    for (node_cache_capable, meta, full) in [
        // A deleted victim has no original from the API server.
        (
            false,
            json!(null),
            json!({"a": {"Pods": [{"metadata": {"name": "v"}}], "NumPDBViolations": 1}}),
        ),
        (
            true,
            json!({"a": {"Pods": [{"UID": "uid-v"}, {"UID": "uid-g"}], "NumPDBViolations": 1}}),
            json!(null),
        ),
    ] {
        let fake = FakeExtender::says(answer).await;
        let config = plimsoll_config::Extender { node_cache_capable, ..extender(&fake.url()) };
        assert_eq!(ask(&config, preempt()).await, Ok(expected.clone()));
        let (path, sent) = fake.json();
        assert_eq!(path, "/preempt");
        assert_eq!(sent["Pod"]["metadata"]["name"], "p");
        assert_eq!(sent["NodeNameToMetaVictims"], meta);
        assert_eq!(sent["NodeNameToVictims"], full);
    }
}

#[tokio::test]
async fn a_binding_names_pod_and_node() {
    let fake = FakeExtender::says(r#"{"Error":""}"#).await;
    let bind = || ExtenderQuestion::Bind("a".into());
    assert_eq!(ask(&extender(&fake.url()), bind()).await, Ok(ExtenderReply::Bound));
    let args = json!({"PodName": "p", "PodNamespace": "team", "PodUID": "uid-1", "Node": "a"});
    assert_eq!(fake.json(), ("/bind".to_owned(), args));

    let fake = FakeExtender::says(r#"{"Error":"node is full"}"#).await;
    assert_eq!(ask(&extender(&fake.url()), bind()).await, Err("node is full".to_owned()));
}
