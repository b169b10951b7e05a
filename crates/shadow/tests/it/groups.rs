//! Groups of pods, which are decided as groups by the rules of each release.

use plimsoll_framework::Release;
use plimsoll_shadow::DisagreementKind;
use serde_json::{Value, json};

use crate::lab::{Lab, node, pod};

/// The releases whose rules for groups differ.
const RULES: [Release; 2] = [Release::V1_36, Release::V1_37];

fn in_zone(name: &str, cpu: &str, zone: &str) -> Value {
    let mut node = node(name, cpu);
    node["metadata"]["labels"] = json!({"zone": zone});
    node
}

fn group(policy: &Value) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "g"},
        "spec": {"schedulingPolicy": policy},
    })
}

/// A group whose pods all have to be in the same zone.
fn zonal_group(policy: &Value) -> Value {
    let mut group = group(policy);
    group["spec"]["schedulingConstraints"] = json!({"topology": [{"key": "zone"}]});
    group
}

fn gang(min_count: u32) -> Value {
    json!({"gang": {"minCount": min_count}})
}

fn members(n: usize, cpu: &str) -> Vec<Value> {
    let member = |number: usize| {
        let mut pod = pod(&format!("g-{number}"), cpu);
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
        pod
    };
    (0..n).map(member).collect()
}

/// The same after the other scheduler has said that they fit nowhere.
fn left_pending(pods: Vec<Value>) -> Vec<Value> {
    let said = |mut pod: Value| {
        pod["metadata"]["resourceVersion"] = json!("7");
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no",
        }]);
        pod
    };
    pods.into_iter().map(said).collect()
}

/// A lab with a cluster, a group and its pending pods.
fn lab(release: Release, nodes: &[Value], group: Value, pods: &[Value]) -> Lab {
    let mut lab = Lab::with_groups(release);
    lab.see(nodes);
    lab.begin();
    lab.see(&[group]);
    lab.see(pods);
    lab
}

#[test]
fn a_gang_agrees_along_the_way_of_the_other_scheduler_in_whatever_order_its_bindings_come() {
    let nodes = [node("n1", "4"), node("n2", "4"), node("n3", "4")];
    for release in RULES {
        for theirs in [["n1", "n2", "n3"], ["n3", "n1", "n2"], ["n2", "n3", "n1"]] {
            let mut lab = lab(release, &nodes, group(&gang(3)), &members(3, "2"));
            // The bindings overtake each other; the decisions are in the order of the pods.
            for number in [2, 0, 1] {
                lab.bind(&format!("g-{number}"), theirs[number]);
            }
            let report = lab.report();
            let pods = &report.configurations[0].pods;
            assert_eq!((pods.compared, pods.tie, pods.same), (3, 2, 1), "{release} {theirs:?}");
            assert_eq!((pods.reordered, report.disagreements.len()), (0, 0), "{release}");
            assert_eq!(report.still_pending.gangs_in_part, 0);
        }
    }
}

#[test]
fn a_member_on_a_worse_node_is_told_apart_from_the_others() {
    let nodes = [node("n1", "8"), node("n2", "8")];
    for release in RULES {
        let mut lab = lab(release, &nodes, group(&gang(2)), &members(2, "2"));
        lab.bind("g-0", "n1");
        lab.bind("g-1", "n1");
        let report = lab.report();
        let pods = &report.configurations[0].pods;
        assert_eq!((pods.compared, pods.tie, pods.worse), (2, 1, 1), "{release}: {report:#?}");
        let found = &report.disagreements[0];
        assert_eq!((&*found.pod, found.group.as_deref()), ("default/g-1", Some("default/g")));
        assert_eq!(found.ours, ["n2"]);
        assert!(found.why.starts_with("n1 has "), "{}", found.why);
    }
}

#[test]
fn a_part_of_a_gang_that_does_not_fit_breaks_the_rules_of_its_group() {
    for release in RULES {
        // Each of the pods would fit by itself.
        let mut lab = lab(release, &[node("n1", "4")], group(&gang(3)), &members(3, "2"));
        lab.bind("g-0", "n1");
        lab.bind("g-1", "n1");
        let report = lab.report();
        let configuration = &report.configurations[0];
        assert_eq!(configuration.pods.unschedulable, 2, "{release}: {report:#?}");
        let rule = &configuration.infeasible_by[0];
        assert_eq!((&*rule.plugin, rule.pods), ("PodGroup", 2), "{release}");
        let found = &report.disagreements[0];
        assert_eq!(found.kind, DisagreementKind::Unschedulable);
        assert!(found.why.starts_with("its group would stay pending: "), "{}", found.why);
        assert_eq!(report.still_pending.gangs_in_part, 1);
        // None of them is placed in our cluster.
        let ours = report.our_cluster.expect("it is kept");
        assert_eq!((ours.placed, ours.still_pending), (0, 3), "{release}");
    }
}

#[test]
fn a_gang_that_waits_for_a_pod_is_not_placed_without_it() {
    for release in RULES {
        let mut lab = lab(release, &[node("n1", "8")], group(&gang(3)), &members(2, "2"));
        lab.bind("g-0", "n1");
        let report = lab.report();
        assert_eq!(report.configurations[0].pods.unschedulable, 1, "{release}: {report:#?}");
        assert_eq!(report.configurations[0].infeasible_by[0].plugin, "PodGroup");
        // With the last pod it is placed as a whole in our cluster, where the other scheduler has placed one of them.
        lab.see(&members(3, "2")[2..]);
        lab.wait(10);
        let ours = lab.report().our_cluster.expect("it is kept");
        assert_eq!((ours.placed, ours.still_pending), (3, 0), "{release}");
    }
}

#[test]
fn a_group_stays_in_one_zone() {
    let nodes = [in_zone("a1", "8", "a"), in_zone("b1", "8", "b")];
    for release in RULES {
        // Both zones are equally good.
        for zone in ["a1", "b1"] {
            let mut lab = lab(release, &nodes, zonal_group(&gang(2)), &members(2, "2"));
            lab.bind("g-0", zone);
            lab.bind("g-1", zone);
            let report = lab.report();
            let pods = &report.configurations[0].pods;
            assert_eq!((pods.compared, pods.agreed()), (2, 2), "{release} {zone}: {report:#?}");
        }
        let mut lab = lab(release, &nodes, zonal_group(&gang(2)), &members(2, "2"));
        lab.bind("g-0", "a1");
        lab.bind("g-1", "b1");
        let report = lab.report();
        let configuration = &report.configurations[0];
        // One of them is where it would be.
        let pods = &configuration.pods;
        assert_eq!((pods.agreed(), pods.infeasible), (1, 1), "{release}: {report:#?}");
        let rule = &configuration.infeasible_by[0];
        let reason = "no placement of the group has the nodes of all its pods";
        assert_eq!((&*rule.plugin, &*rule.reason), ("PodGroup", reason));
    }
}

#[test]
fn a_zone_with_less_room_is_worse_or_infeasible() {
    let nodes = [in_zone("a1", "8", "a"), in_zone("b1", "4", "b")];
    for release in RULES {
        let basic = json!({"basic": {}});
        let mut lab1 = lab(release, &nodes, zonal_group(&basic), &members(3, "2"));
        lab1.bind("g-0", "b1");
        lab1.bind("g-1", "b1");
        let report = lab1.report();
        let configuration = &report.configurations[0];
        assert_eq!(configuration.pods.worse, 2, "{release}: {report:#?}");
        assert_eq!(configuration.worse_by[0].plugin, "PodGroupPodsCount");
        let mut lab2 = lab(release, &nodes, zonal_group(&gang(3)), &members(3, "2"));
        lab2.bind("g-0", "b1");
        let report = lab2.report();
        let configuration = &report.configurations[0];
        assert_eq!(configuration.pods.infeasible, 1, "{release}: {report:#?}");
        let rule = &configuration.infeasible_by[0];
        assert_eq!((&*rule.plugin, &*rule.reason), ("PodGroup", "the group does not fit in b"));
        assert_eq!(report.disagreements[0].ours, ["a1"]);
    }
}

#[test]
fn a_gang_that_the_other_one_leaves_pending_is_one_question() {
    for release in RULES {
        // Each of the pods would fit by itself.
        let mut small = lab(release, &[node("n1", "4")], group(&gang(3)), &members(3, "2"));
        small.see(&left_pending(members(3, "2")));
        let pods = small.report().configurations[0].pods.clone();
        assert_eq!((pods.both_pending, pods.pending_although_fits), (3, 0), "{release}");
        let mut large = lab(release, &[node("n1", "8")], group(&gang(3)), &members(3, "2"));
        large.see(&left_pending(members(3, "2")));
        let report = large.report();
        let pods = &report.configurations[0].pods;
        assert_eq!((pods.both_pending, pods.pending_although_fits), (0, 3), "{release}");
        assert_eq!(report.disagreements[0].group.as_deref(), Some("default/g"));
        assert_eq!(report.our_cluster.expect("it is kept").placed, 3);
    }
}
