//! What an instance finds out about its own work.

use std::time::Duration;

use plimsoll_framework::prelude::*;
use plimsoll_kube::run::{Exit, RunConfig, SelfAudit};
use plimsoll_testserver::{
    FaultKind, HttpsClient, InjectedFault, Options, Right, TestServer, User,
};
use serde_json::json;

use crate::lab::{Instance, eventually, fill, node, placed, pod, until_placed};
use crate::stuck::add;

/// A filter that forgets to say which changes help.
struct Forgetful;

impl Plugin for Forgetful {
    const NAME: &'static str = "Forgetful";
    type Args = ();
    fn new((): (), _: &FeatureGates) -> Self {
        Forgetful
    }
}

impl Filter for Forgetful {
    type Pod = ();
    type Node = Labels;
    fn filter(&self, (): (), node: &Labels) -> Verdict {
        match node.contains_key("example.com/open") {
            true => Verdict::Pass,
            false => Verdict::unschedulable("closed"),
        }
    }
}

impl Requeue for Forgetful {
    fn events(&self) -> Vec<ClusterEvent> {
        Vec::new()
    }
    fn hint(&self, _: &PodInfo, _: &Change<'_>) -> Hint {
        Hint::Skip
    }
}

fn cluster() -> TestServer {
    let rights = vec![Right::on_paths(&["/metrics"], &["get"])];
    let (token, name) = ("token".to_owned(), "prometheus".to_owned());
    let users = vec![User { token, name, groups: Vec::new(), rights }];
    TestServer::start(Options { users, ..Options::default() })
}

/// An instance that looks all the time.
fn watchful(server: &TestServer, change: impl FnOnce(&mut RunConfig)) -> (Instance, HttpsClient) {
    let millis = Duration::from_millis;
    let (instance, client) = Instance::serving(server, |config| {
        config.self_audit = SelfAudit {
            period: millis(20),
            asleep: millis(50),
            overdue: millis(200),
            settle: millis(500),
            is_recorded: false,
        };
        change(config);
    });
    (instance, client.with_token("token"))
}

/// The value of a row of the metrics.
fn metric(client: &HttpsClient, row: &str) -> Option<u64> {
    let page = client.get("/metrics").ok()?.body;
    let value = page.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok())
}

#[track_caller]
fn becomes(client: &HttpsClient, row: &str, wanted: u64) {
    eventually(&format!("{row} is {wanted}"), || metric(client, row) == Some(wanted));
}

const WRONG_NODES: &str = r#"plimsoll_self_audit_differences_total{kind="Node"}"#;
const WRONG_PODS: &str = r#"plimsoll_self_audit_differences_total{kind="Pod"}"#;
const LOOKS_AT_NODES: &str = r#"plimsoll_self_audit_checks_total{check="node_view"}"#;

#[test]
fn an_engine_that_is_right_finds_nothing() {
    let server = cluster();
    fill(&server, (0..3).map(node));
    let (instance, client) = watchful(&server, |_| ());
    fill(&server, (0..30).map(|number| pod(&format!("web-{number}"), 100)));
    until_placed(&server, 30);
    fill(&server, [pod("large", 9000)]);
    let begun = metric(&client, LOOKS_AT_NODES).unwrap_or(0);
    eventually("every node was looked at", || Some(begun + 6) < metric(&client, LOOKS_AT_NODES));
    for row in [WRONG_NODES, WRONG_PODS, "plimsoll_self_audit_sleeping_pods_total"] {
        assert_eq!(metric(&client, row), Some(0), "{row}");
    }
    let twice = r#"plimsoll_self_audit_checks_total{check="decision"}"#;
    eventually("a decision was made twice", || Some(0) < metric(&client, twice));
    assert_eq!(metric(&client, "plimsoll_audit_differences_total"), Some(0));
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_node_of_which_events_are_lost_is_noticed() {
    let server = cluster();
    fill(&server, [node(0)]);
    let (instance, client) = watchful(&server, |_| ());
    fill(&server, [pod("web", 100)]);
    until_placed(&server, 1);
    assert!(server.faults().hold("nodes"));
    let mut changed = node(0);
    changed["metadata"]["labels"]["example.com/new"] = json!("yes");
    fill(&server, [changed]);
    eventually("the node is noticed", || Some(0) < metric(&client, WRONG_NODES));
    assert_eq!(metric(&client, WRONG_PODS), Some(0));
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_pod_of_which_events_are_lost_is_noticed() {
    let server = cluster();
    fill(&server, [node(0)]);
    let (instance, client) = watchful(&server, |_| ());
    fill(&server, [pod("web", 100)]);
    until_placed(&server, 1);
    assert!(server.faults().hold("pods"));
    let mut theirs = pod("theirs", 100);
    theirs["spec"]["nodeName"] = json!("node-00000");
    fill(&server, [theirs]);
    eventually("the pod on the node is noticed", || Some(0) < metric(&client, WRONG_PODS));
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_pending_pod_of_which_events_are_lost_is_noticed() {
    let server = cluster();
    fill(&server, [node(0)]);
    let (instance, client) = watchful(&server, |_| ());
    fill(&server, [pod("web", 100)]);
    until_placed(&server, 1);
    assert!(server.faults().hold("pods"));
    fill(&server, [pod("pending", 100)]);
    eventually("the pod is noticed", || Some(0) < metric(&client, WRONG_PODS));
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_pod_that_sleeps_although_it_would_fit_is_woken() {
    let server = cluster();
    fill(&server, [node(0)]);
    let (instance, client) = watchful(&server, |config| {
        add(config, vec![Entry::of::<Forgetful>().filter().requeue().done()]);
    });
    fill(&server, [pod("web", 100)]);
    eventually("it is asked whether it would fit", || {
        Some(0) < metric(&client, r#"plimsoll_self_audit_checks_total{check="sleeping_pod"}"#)
    });
    assert!(placed(&server).is_empty());
    let mut open = node(0);
    open["metadata"]["labels"]["example.com/open"] = json!("yes");
    fill(&server, [open]);
    until_placed(&server, 1);
    becomes(&client, "plimsoll_self_audit_sleeping_pods_total", 1);
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_pod_that_sleeps_is_left_alone_while_a_recording_is_written() {
    let server = cluster();
    fill(&server, [node(0)]);
    let (instance, client) = watchful(&server, |config| {
        config.self_audit.is_recorded = true;
        add(config, vec![Entry::of::<Forgetful>().filter().requeue().done()]);
    });
    fill(&server, [pod("web", 100)]);
    eventually("it is asked whether it would fit", || {
        Some(0) < metric(&client, r#"plimsoll_self_audit_checks_total{check="sleeping_pod"}"#)
    });
    let mut open = node(0);
    open["metadata"]["labels"]["example.com/open"] = json!("yes");
    fill(&server, [open]);
    eventually("it is noticed", || {
        Some(0) < metric(&client, "plimsoll_self_audit_sleeping_pods_total")
    });
    assert!(placed(&server).is_empty());
    assert_eq!(metric(&client, r#"plimsoll_self_audit_checks_total{check="decision"}"#), Some(0));
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_binding_that_hangs_is_counted_until_it_is_answered() {
    let server = cluster();
    fill(&server, [node(0)]);
    let (instance, client) = watchful(&server, |_| ());
    let slow = InjectedFault::every(1, FaultKind::Slow(Duration::from_secs(3)));
    server.faults().add(slow.resources(&["pods/binding"]).times(1));
    fill(&server, [pod("web", 100)]);
    let row = r#"plimsoll_self_audit_overdue_bindings{extension_point="Bind"}"#;
    becomes(&client, row, 1);
    until_placed(&server, 1);
    becomes(&client, row, 0);
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_node_that_another_scheduler_has_overcommitted_is_counted() {
    let server = cluster();
    fill(&server, (0..2).map(node));
    let (instance, client) = watchful(&server, |_| ());
    let by =
        |whom: &str| format!(r#"plimsoll_self_audit_overcommitted_nodes{{placed_by="{whom}"}}"#);
    becomes(&client, &by("another_scheduler"), 0);
    for number in 0..2 {
        let mut theirs = pod(&format!("theirs-{number}"), 3000);
        theirs["spec"]["schedulerName"] = json!("another");
        theirs["spec"]["nodeName"] = json!("node-00000");
        fill(&server, [theirs]);
    }
    becomes(&client, &by("another_scheduler"), 1);
    let mut mirror = pod("static", 5000);
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    mirror["spec"]["nodeName"] = json!("node-00001");
    fill(&server, [mirror]);
    becomes(&client, &by("kubelet"), 1);
    server.store().delete("pods", "default", "theirs-1");
    becomes(&client, &by("another_scheduler"), 0);
    assert_eq!(metric(&client, &by("profile")), Some(0));
    assert_eq!(instance.stop(), Exit::Stopped);
}
