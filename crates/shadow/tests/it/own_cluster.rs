//! The cluster as our decisions would have made it, beside the one that the other scheduler has made.

use plimsoll_api::PodKey;
use plimsoll_shadow::OurCluster;
use serde_json::{Value, json};

use crate::lab::{Lab, node, pod};

/// Our cluster after all events.
fn ours(lab: &mut Lab) -> OurCluster {
    lab.report().our_cluster.expect("it is kept")
}

fn in_zone(name: &str, zone: &str) -> Value {
    let mut node = node(name, "4");
    node["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": zone});
    node
}

#[test]
fn pods_that_the_other_one_stacks_are_spread() {
    let mut lab = Lab::with_own_cluster();
    lab.see(&[in_zone("n1", "a"), in_zone("n2", "b")]);
    lab.begin();
    for name in ["p1", "p2", "p3", "p4"] {
        lab.see(&[pod(name, "1")]);
        lab.bind(name, "n1");
    }
    let report = lab.report();
    let theirs = &report.balance;
    let zones = |of: &std::collections::BTreeMap<_, usize>| -> Vec<usize> {
        of.values().copied().collect()
    };
    assert_eq!((theirs.empty_nodes, theirs.cpu.max.to_string()), (1, "1".to_owned()));
    assert_eq!(zones(&theirs.pods_by_zone), [4, 0]);
    let ours = report.our_cluster.expect("it is kept");
    assert_eq!((ours.balance.empty_nodes, ours.balance.cpu.max.to_string()), (0, "0.5".to_owned()));
    assert_eq!(zones(&ours.balance.pods_by_zone), [2, 2]);
    assert_eq!((ours.placed, ours.elsewhere, ours.still_pending), (4, 2, 0));
    // As much is requested of the whole.
    assert_eq!(ours.utilisation, report.utilisation);
    assert_eq!(
        (ours.pending_time.count, ours.pending_time.max_seconds.to_string()),
        (4, "0".to_owned())
    );
}

#[test]
fn a_pod_that_the_other_one_leaves_pending_is_placed_at_once() {
    let mut lab = Lab::with_own_cluster();
    lab.see(&[node("n1", "4")]);
    lab.begin();
    lab.see(&[pod("p", "2")]);
    lab.wait(60);
    lab.bind("p", "n1");
    let report = lab.report();
    let ours = report.our_cluster.expect("it is kept");
    assert_eq!((ours.placed, ours.elsewhere, ours.still_pending), (1, 0, 0));
    assert!(60.0 <= report.pending_time.max_seconds, "{:?}", report.pending_time);
    assert_eq!(ours.pending_time.max_seconds.to_string(), "0");
}

#[test]
fn a_pod_that_fits_nowhere_is_placed_when_there_is_room() {
    let mut lab = Lab::with_own_cluster();
    lab.see(&[node("n1", "4")]);
    lab.begin();
    lab.see(&[pod("first", "3")]);
    lab.bind("first", "n1");
    lab.see(&[pod("second", "3")]);
    let before = ours(&mut lab);
    assert_eq!((before.placed, before.still_pending, before.pending_only_here), (1, 1, 0));
    lab.wait(30);
    lab.delete(&PodKey::new("default", "first"));
    lab.wait(30);
    lab.see(&[pod("third", "1")]);
    lab.wait(30);
    lab.see(&[pod("fourth", "9")]);
    let after = ours(&mut lab);
    assert_eq!((after.placed, after.still_pending), (3, 1));
    let waited = after.pending_time.max_seconds;
    assert!((30.0..=61.0).contains(&waited), "{waited}");
}

#[test]
fn a_pod_that_only_the_other_one_can_place_is_counted() {
    let mut lab = Lab::with_own_cluster();
    let mut tainted = node("n1", "4");
    tainted["spec"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    lab.see(&[tainted]);
    lab.begin();
    lab.see(&[pod("p", "1")]);
    lab.bind("p", "n1");
    let ours = ours(&mut lab);
    assert_eq!((ours.placed, ours.still_pending, ours.pending_only_here), (0, 1, 1));
    assert_eq!(ours.balance.empty_nodes, 1);
}

#[test]
fn pods_that_were_on_nodes_before_stay_there_in_both() {
    let mut lab = Lab::with_own_cluster();
    let mut old = pod("old", "3");
    old["spec"]["nodeName"] = json!("n1");
    lab.see(&[node("n1", "4"), node("n2", "4"), old]);
    lab.begin();
    lab.see(&[pod("new", "2")]);
    lab.bind("new", "n2");
    let report = lab.report();
    let ours = report.our_cluster.expect("it is kept");
    assert_eq!((ours.placed, ours.elsewhere), (1, 0));
    assert_eq!(ours.balance, report.balance);
}

#[test]
fn pods_leave_our_cluster_when_they_leave_the_other_one() {
    let mut lab = Lab::with_own_cluster();
    lab.see(&[node("n1", "4"), node("n2", "4")]);
    lab.begin();
    for name in ["deleted", "done", "stays"] {
        lab.see(&[pod(name, "1")]);
        lab.bind(name, "n1");
    }
    lab.wait(10);
    lab.delete(&PodKey::new("default", "deleted"));
    let mut done = pod("done", "1");
    done["spec"]["nodeName"] = json!("n1");
    done["status"] = json!({"phase": "Succeeded"});
    lab.see(&[done]);
    let report = lab.report();
    let ours = report.our_cluster.expect("it is kept");
    assert_eq!(ours.balance.pods_per_node.max.to_string(), "1");
    assert_eq!(ours.utilisation, report.utilisation);
}

#[test]
fn a_pod_that_is_made_again_under_its_name_is_another_one() {
    let mut lab = Lab::with_own_cluster();
    lab.see(&[node("n1", "2")]);
    lab.begin();
    lab.see(&[pod("web-0", "2")]);
    lab.bind("web-0", "n1");
    lab.wait(10);
    let mut again = pod("web-0", "2");
    again["metadata"]["uid"] = json!("another");
    lab.see(&[again]);
    let ours = ours(&mut lab);
    assert_eq!((ours.placed, ours.still_pending), (2, 0));
}

#[test]
fn pods_on_a_node_that_is_gone_are_placed_again() {
    let mut lab = Lab::with_own_cluster();
    lab.see(&[node("n1", "4"), node("n2", "4")]);
    lab.begin();
    for name in ["p1", "p2"] {
        lab.see(&[pod(name, "1")]);
        lab.bind(name, "n2");
    }
    lab.wait(10);
    lab.delete_node("n1");
    lab.wait(10);
    lab.see(&[pod("p3", "1")]);
    let ours = ours(&mut lab);
    assert_eq!((ours.placed, ours.still_pending), (4, 0), "one of the two was on n1");
    assert_eq!(ours.balance.pods_per_node.max.to_string(), "3");
}
