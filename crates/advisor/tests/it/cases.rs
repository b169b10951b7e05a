//! Single questions with the answers that a user needs.

use plimsoll_advisor::{RemedyKind, Why};
use serde_json::{Value, json};

use crate::world::{POD, World, alternative};

const LARGE: &str = "4";

fn world(nodes: &[(&str, &str)]) -> World {
    let mut world = World::default();
    for (name, zone) in nodes {
        let labels = json!({"zone": zone, "disk": "hdd"});
        world.node(name, &labels, &json!({"cpu": LARGE, "memory": "8Gi", "pods": "10"}));
    }
    world
}

fn requests(cpu: &str) -> Value {
    json!({"containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}]})
}

fn texts(why: &Why) -> Vec<&str> {
    why.remedies.iter().map(|remedy| remedy.text.as_str()).collect()
}

#[test]
fn a_request_is_lowered_to_the_largest_amount_that_fits() {
    let mut world = world(&[("a", "1"), ("b", "2")]);
    world.pod("other", &json!({}), &{
        let mut spec = requests("2500m");
        spec["nodeName"] = json!("a");
        spec
    });
    world.pod(POD, &json!({}), &requests("6"));
    let why = world.ask(&[]);
    assert_eq!(why.state, "unschedulable");
    let first = &why.remedies[0];
    assert_eq!((first.text.as_str(), first.node.as_str()), ("request 4 cpu instead of 6", "b"));
    assert_eq!(first.also_fits, 0);
    assert_eq!(world.changed(&first.changes).placed(None), Some(("b".to_owned(), 1)));
}

#[test]
fn a_cordoned_node_is_uncordoned_and_a_taint_removed_or_tolerated() {
    let mut world = world(&[("a", "1"), ("b", "2")]);
    world.get_mut("Node", "a")["spec"] = json!({
        "unschedulable": true,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
    });
    world.get_mut("Node", "b")["spec"] =
        json!({"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]});
    world.pod(POD, &json!({}), &requests("1"));
    let why = world.ask(&[]);
    let expected = [
        "uncordon a",
        "remove the taint team=b:NoSchedule from b",
        "tolerate team=b:NoSchedule",
        "add a node like a",
    ];
    assert_eq!(texts(&why), expected);
    assert_eq!(why.remedies[0].kind, RemedyKind::Cluster);
    for remedy in &why.remedies {
        let placed = world.changed(&remedy.changes).placed(None);
        assert_eq!(placed, Some((remedy.node.clone(), remedy.also_fits + 1)), "{}", remedy.text);
    }
}

#[test]
fn a_skew_is_raised_by_no_more_than_necessary() {
    let mut world = world(&[("a", "1"), ("b", "2")]);
    for number in 0..4 {
        let mut spec = requests("100m");
        spec["nodeName"] = json!("a");
        world.pod(&format!("web-{number}"), &json!({"app": "web"}), &spec);
    }
    world.get_mut("Node", "b")["metadata"]["labels"]["full"] = json!("yes");
    let mut spec = requests("1");
    spec["nodeSelector"] = json!({"kubernetes.io/hostname": "a"});
    spec["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}, "nodeAffinityPolicy": "Ignore",
    }]);
    world.pod(POD, &json!({"app": "web"}), &spec);
    let why = world.ask(&[alternative("PodTopologySpread")]);
    let texts = texts(&why);
    assert!(texts.contains(&"allow a skew of 5 instead of 1 over zone"), "{texts:?}");
    assert!(texts.contains(&"drop kubernetes.io/hostname=a from the node selector"), "{texts:?}");
    let off = why.remedies.iter().find(|one| one.kind == RemedyKind::Configuration);
    let off = off.expect("without the filter it fits");
    assert_eq!(off.text, "switch off PodTopologySpread");
    let placed = world.placed(Some("PodTopologySpread"));
    assert_eq!(placed, Some((off.node.clone(), off.also_fits + 1)));
}

#[test]
fn where_no_single_change_helps_a_pair_does() {
    let mut world = world(&[("a", "1"), ("b", "2")]);
    let mut spec = requests("6");
    spec["nodeSelector"] = json!({"disk": "ssd", "color": "red"});
    world.pod(POD, &json!({}), &spec);
    // Three things are wrong, so no pair helps either.
    assert_eq!(texts(&world.ask(&[])), [""; 0]);
    world.get_mut("Node", "b")["metadata"]["labels"]["color"] = json!("red");
    let why = world.ask(&[]);
    let first = &why.remedies[0];
    assert_eq!(first.text, "drop disk=ssd from the node selector, and request 4 cpu instead of 6");
    assert_eq!(first.node, "b");
    assert!(world.changed(&first.changes).placed(None).is_some());
}

#[test]
fn two_labels_of_one_selector_can_both_be_wrong() {
    let mut world = world(&[("a", "1")]);
    let mut spec = requests("1");
    spec["nodeSelector"] = json!({"disk": "ssd", "color": "red"});
    world.pod(POD, &json!({}), &spec);
    let expected =
        "drop color=red from the node selector, and drop disk=ssd from the node selector";
    assert_eq!(texts(&world.ask(&[])), [expected]);
}

#[test]
fn pods_in_the_way_are_named_and_those_that_go_already_come_first() {
    let mut world = world(&[("a", "1"), ("b", "2")]);
    let mut spec = requests("3");
    spec["nodeName"] = json!("a");
    world.pod("leaving", &json!({}), &spec);
    let leaving = world.get_mut("Pod", "leaving");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut spec = requests("3");
    spec["nodeName"] = json!("b");
    world.pod("running", &json!({}), &spec);
    let mut spec = requests("2");
    spec["preemptionPolicy"] = json!("Never");
    world.pod(POD, &json!({}), &spec);
    let why = world.ask(&[]);
    let texts = texts(&why);
    assert_eq!(texts[0], "wait until default/leaving, which is terminating, is gone from a");
    assert!(texts.contains(&"evict default/running from b"), "{texts:?}");
    // Their priority is the same.
    let position = |text: &str| texts.iter().position(|one| *one == text);
    assert!(position("request 1 cpu instead of 2") < position("evict default/running from b"));
}

#[test]
fn a_new_node_has_the_pods_of_daemon_sets() {
    let mut world = world(&[("a", "1")]);
    let mut spec = requests("1");
    spec["nodeName"] = json!("a");
    world.pod("agent-x", &json!({}), &spec);
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": true}]);
    world.get_mut("Pod", "agent-x")["metadata"]["ownerReferences"] = owner;
    let mut spec = requests("2");
    spec["nodeName"] = json!("a");
    spec["priority"] = json!(1000);
    world.pod("important", &json!({}), &spec);
    world.pod(POD, &json!({}), &requests("3"));
    let why = world.ask(&[]);
    let added = why.remedies.iter().find(|one| one.text == "add a node like a");
    let added = added.expect("3 of 4 are free beside the agent");
    assert_eq!(added.changes.len(), 2);
    assert_eq!(world.changed(&added.changes).placed(None), Some((added.node.clone(), 1)));
    // With 4 there is no room beside the agent.
    world.pod(POD, &json!({}), &requests("3500m"));
    assert!(!texts(&world.ask(&[])).contains(&"add a node like a"));
}

#[test]
fn a_gated_pod_says_so_and_what_else_is_missing() {
    let mut world = world(&[("a", "1")]);
    let mut spec = requests("6");
    spec["schedulingGates"] = json!([{"name": "example.com/later"}]);
    world.pod(POD, &json!({}), &spec);
    let why = world.ask(&[]);
    assert_eq!(why.state, "gated");
    let waiting = why.waiting.as_ref().expect("it waits");
    assert_eq!(waiting.held_by.as_ref().map(|held| held.plugin.as_str()), Some("SchedulingGates"));
    let expected = "remove the scheduling gate example.com/later, and request 4 cpu instead of 6";
    assert_eq!(texts(&why)[0], expected);
    assert!(world.changed(&why.remedies[0].changes).placed(None).is_some());
}

#[test]
fn the_nearest_nodes_have_the_verdicts_of_all_filters() {
    let mut world = world(&[("a", "1"), ("b", "2"), ("c", "3")]);
    world.get_mut("Node", "a")["spec"] = json!({"unschedulable": true});
    let mut spec = requests("6");
    spec["nodeSelector"] = json!({"zone": "2"});
    world.pod(POD, &json!({}), &spec);
    let why = world.ask(&[]);
    let names: Vec<_> = why.nearest.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["b", "c", "a"]);
    let plugins = |at: usize| -> Vec<&str> {
        why.nearest[at].failures.iter().map(|failure| failure.plugin.as_str()).collect()
    };
    assert_eq!(plugins(0), ["NodeResourcesFit"]);
    assert_eq!(plugins(2), ["NodeUnschedulable", "NodeAffinity", "NodeResourcesFit"]);
}

#[test]
fn a_pod_on_a_node_is_told_the_runner_up_and_what_decided() {
    let mut world = world(&[("a", "1"), ("b", "2")]);
    let mut spec = requests("1");
    spec["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["2"]}]}},
    ]}});
    spec["nodeName"] = json!("b");
    world.pod(POD, &json!({}), &spec);
    let why = world.ask(&[]);
    assert_eq!((why.state, why.node.as_deref()), ("scheduled", Some("b")));
    let second = why.runner_up.expect("the other node is feasible");
    assert_eq!(second.node, "a");
    assert!(0 < second.margin);
    assert_eq!(second.decided_by, ["NodeAffinity"]);
    // On the other node it would be in the wrong place today.
    world.get_mut("Pod", POD)["spec"]["nodeName"] = json!("a");
    let second = world.ask(&[]).runner_up.expect("the other node is feasible");
    assert_eq!((second.node.as_str(), second.margin < 0), ("b", true));
}

#[test]
fn asking_changes_nothing() {
    let mut world = world(&[("a", "1"), ("b", "2")]);
    world.pod(POD, &json!({}), &requests("6"));
    assert_eq!(world.ask(&[]), world.ask(&[]));
    assert_eq!(world.placed(None), None);
}
