//! Worked examples of constraints.

use plimsoll_testkit::{Expect, check_among, expect};

use super::entry;
use crate::taint_toleration;

/// The verdicts of the plugin, after TaintToleration, for a pod with `constraints`, each `maxSkew`, the
/// topology key and `whenUnsatisfiable`.
fn check_pod(cluster: &str, constraints: &[(i32, &str, &str)], expected: &Expect) {
    let constraint = |(skew, key, when): &(i32, &str, &str)| {
        format!(
            r#"{{"maxSkew": {skew}, "topologyKey": "{key}", "whenUnsatisfiable": "{when}",
                "labelSelector": {{"matchLabels": {{"app": "web"}}}}}}"#
        )
    };
    let constraints: Vec<String> = constraints.iter().map(constraint).collect();
    let constraints = constraints.join(", ");
    let pod = format!(r#"pod p app=web {{"topologySpreadConstraints": [{constraints}]}}"#);
    check_among(&[taint_toleration::entry()], entry(), &format!("{cluster}\n{pod}"), expected);
}

/// Two zones with two nodes each, of which three hold a pod.
const THREE_OF_FOUR: &str = "
    node node1 zone=A node=node1
    node node2 zone=A node=node2
    node node3 zone=B node=node3
    node node4 zone=B node=node4
    pod one app=web on node1
    pod two app=web on node2
    pod three app=web on node3
";

#[test]
fn a_skew_of_one_over_zones_leaves_the_zone_with_fewer_pods() {
    check_pod(
        THREE_OF_FOUR,
        &[(1, "zone", "DoNotSchedule")],
        &expect![[r"
        p node1 Unschedulable: node(s) didn't match pod topology spread constraints
        p node2 Unschedulable: node(s) didn't match pod topology spread constraints
        p node3 Success
        p node4 Success
        p skips score
    "]],
    );
}

#[test]
fn a_skew_of_two_over_zones_leaves_both() {
    check_pod(
        THREE_OF_FOUR,
        &[(2, "zone", "DoNotSchedule")],
        &expect![[r"
        p node1 Success
        p node2 Success
        p node3 Success
        p node4 Success
        p skips score
    "]],
    );
}

#[test]
fn a_skew_of_one_over_nodes_leaves_the_empty_node() {
    check_pod(
        THREE_OF_FOUR,
        &[(1, "node", "DoNotSchedule")],
        &expect![[r"
        p node1 Unschedulable: node(s) didn't match pod topology spread constraints
        p node2 Unschedulable: node(s) didn't match pod topology spread constraints
        p node3 Unschedulable: node(s) didn't match pod topology spread constraints
        p node4 Success
        p skips score
    "]],
    );
}

#[test]
fn a_node_must_suit_the_constraints_over_zones_and_over_nodes() {
    check_pod(
        "
        node a zone=A node=a
        node b zone=A node=b
        node x zone=B node=x
        node y zone=B node=y
        pod b1 app=web on b
        pod b2 app=web on b
        pod b3 app=web on b
        pod x1 app=web on x
        pod x2 app=web on x
        ",
        &[(1, "zone", "DoNotSchedule"), (1, "node", "DoNotSchedule")],
        &expect![[r"
            p a Unschedulable: node(s) didn't match pod topology spread constraints
            p b Unschedulable: node(s) didn't match pod topology spread constraints
            p x Unschedulable: node(s) didn't match pod topology spread constraints
            p y Success
            p skips score
        "]],
    );
}

/// Three pods in each of two zones, and none in a third one that is tainted.
const THIRD_ZONE_TAINTED: &str = r#"
    node a zone=A
    node b zone=B
    node c zone=C {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}
    pod a1 app=web on a
    pod a2 app=web on a
    pod a3 app=web on a
    pod b1 app=web on b
    pod b2 app=web on b
    pod b3 app=web on b
"#;

#[test]
fn a_zone_that_cannot_be_used_keeps_a_pod_with_a_hard_constraint_off_the_others() {
    check_pod(
        THIRD_ZONE_TAINTED,
        &[(1, "zone", "DoNotSchedule")],
        &expect![[r"
        p a Unschedulable: node(s) didn't match pod topology spread constraints
        p b Unschedulable: node(s) didn't match pod topology spread constraints
        p c Success
    "]],
    );
}

#[test]
fn a_zone_that_cannot_be_used_makes_no_difference_between_the_others() {
    check_pod(
        THIRD_ZONE_TAINTED,
        &[(1, "zone", "ScheduleAnyway")],
        &expect![[r"
        p a Success
        p b Success
        p c Success
        p a score 100
        p b score 100
    "]],
    );
}
