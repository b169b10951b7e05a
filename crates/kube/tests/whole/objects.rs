//! Objects that are not as they should be, on a cluster.

use plimsoll_kube::run::Exit;
use plimsoll_testserver::TestServer;
use serde_json::{Value, json};

use crate::lab::{Instance, eventually, fill, node, placed, pod, until_placed};
use crate::serving::{cluster, rows, until};

/// What the condition `PodScheduled` of a pod says: reason and message.
pub(crate) fn told(server: &TestServer, name: &str) -> Option<(String, String)> {
    let pod = server.store().get("pods", "default", name)?;
    let conditions = pod["status"]["conditions"].as_array()?;
    let one = conditions.iter().find(|one| one["type"] == "PodScheduled")?;
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    (one["status"] == "False").then(|| (text("reason"), text("message")))
}

/// A pod whose tolerations have another form.
fn misshapen(name: &str, milli_cpu: u32) -> Value {
    let mut pod = pod(name, milli_cpu);
    pod["spec"]["tolerations"] = json!([{ "key": 5, "operator": "Exists" }]);
    pod
}

/// A pod with a toleration that the feature gate `TaintTolerationComparisonOperators` is about.
fn tolerating_more(name: &str, milli_cpu: u32) -> Value {
    let mut pod = pod(name, milli_cpu);
    pod["spec"]["tolerations"] =
        json!([{ "key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule" }]);
    pod
}

/// A pod whose only term compares with what is no integer, as an API server lets it pass.
fn comparing(name: &str, milli_cpu: u32) -> Value {
    let mut pod = pod(name, milli_cpu);
    let term =
        json!({ "matchExpressions": [{ "key": "gen", "operator": "Gt", "values": ["four"] }] });
    pod["spec"]["affinity"] = json!({ "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } } });
    pod
}

/// Whether an event says that a pod could not be scheduled.
fn is_told_by_an_event(server: &TestServer, name: &str) -> bool {
    let events = server.store().list("events").into_iter();
    let mut about = events.filter(|event| {
        ["involvedObject", "regarding"].iter().any(|field| event[field]["name"] == name)
    });
    about.any(|event| event["reason"] == "FailedScheduling")
}

fn on_node(mut pod: Value) -> Value {
    pod["spec"]["nodeName"] = "node-00000".into();
    pod
}

#[test]
fn no_pod_is_invisible() {
    let server = cluster();
    fill(&server, [node(0), on_node(misshapen("taken", 1500)), on_node(comparing("kept", 1500))]);
    // Of 4 CPUs one is left.
    fill(&server, [pod("small", 900), pod("large", 1100)]);
    fill(&server, [misshapen("odd", 50), comparing("nowhere", 50)]);
    let (instance, anonymous) = Instance::serving(&server, |_| ());
    eventually("all are told why they wait", || {
        ["large", "odd", "nowhere"].iter().all(|name| told(&server, name).is_some())
    });
    until_placed(&server, 3);
    assert!(placed(&server).contains_key("small"));
    let (reason, message) = told(&server, "large").expect("it was told");
    assert_eq!(reason, "Unschedulable");
    assert!(message.contains("1 Insufficient cpu"), "{message}");
    let (reason, message) = told(&server, "nowhere").expect("it was told");
    assert_eq!(reason, "Unschedulable");
    assert!(message.contains("1 node(s) didn't match Pod's node affinity/selector"), "{message}");
    let (reason, message) = told(&server, "odd").expect("it was told");
    assert_eq!(reason, "SchedulerError");
    assert_eq!(
        message,
        "the pod cannot be read: spec.tolerations[0].key: invalid type: integer `5`, expected a string; \
         correct the field, or delete the pod"
    );
    eventually("an event says so, too", || is_told_by_an_event(&server, "odd"));
    let prometheus = anonymous.with_token("token-of-prometheus");
    let unreadable = || {
        let rows = rows(&until(&prometheus, "/metrics", 200).body);
        rows.get("plimsoll_unreadable_objects{kind=\"Pod\"}").copied()
    };
    assert_eq!(unreadable(), Some(2.0));
    // Once it can be read it is scheduled, without waiting for anything else.
    fill(&server, [pod("odd", 50)]);
    until_placed(&server, 4);
    server.store().delete("pods", "default", "taken");
    until_placed(&server, 4);
    eventually("all can be read", || unreadable() == Some(0.0));
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn pods_with_tolerations_of_a_gate_that_is_off_hold_their_room_and_are_told_what_is_wrong() {
    let server = cluster();
    let mut tainted = node(0);
    tainted["spec"] = json!({"taints": [{"key": "sla", "value": "950", "effect": "NoSchedule"}]});
    // Of the 4 CPUs of the other node one is left.
    let mut bound = tolerating_more("bound", 3000);
    bound["spec"]["nodeName"] = "node-00001".into();
    fill(&server, [tainted, node(1), bound]);
    // One fits beside the pod on the node, one would only fit without it, and one only where its toleration counts.
    fill(&server, [pod("small", 900), pod("large", 1100), tolerating_more("pending", 1500)]);
    let (instance, _) = Instance::serving(&server, |_| ());
    eventually("those that wait are told why", || {
        ["large", "pending"].iter().all(|name| told(&server, name).is_some())
    });
    until_placed(&server, 2);
    assert_eq!(placed(&server)["small"], "node-00001");
    for name in ["large", "pending"] {
        let (reason, message) = told(&server, name).expect("it was told");
        assert_eq!(reason, "Unschedulable", "{name}");
        for part in ["1 Insufficient cpu", "1 node(s) had untolerated taint(s)"] {
            assert!(message.contains(part), "{name}: {message}");
        }
        eventually("an event says so, too", || is_told_by_an_event(&server, name));
    }
    assert_eq!(instance.stop(), Exit::Stopped);
}

#[test]
fn a_pod_that_loses_its_node_is_scheduled_again() {
    let server = cluster();
    fill(&server, [node(0), pod("web", 3000)]);
    let (instance, _) = Instance::serving(&server, |_| ());
    until_placed(&server, 1);
    // What an API server shows whose state was restored from before the binding.
    let mut before = server.store().get("pods", "default", "web").expect("it is there");
    before["spec"].as_object_mut().expect("it has a spec").remove("nodeName");
    before["status"] = json!({ "phase": "Pending" });
    fill(&server, [before]);
    eventually("it is bound again", || {
        let bindings = server.counts().bindings();
        bindings.values().any(|nodes| nodes.len() == 2)
    });
    assert_eq!(instance.stop(), Exit::Stopped);
}
