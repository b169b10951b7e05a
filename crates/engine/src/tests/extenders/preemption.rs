//! Extenders that have a say in which node is cleared.

use expect_test::{Expect, expect};

use super::check;

/// Two nodes with a pod each that a third wants to oust, and how the extender takes that.
fn check_two(extenders: &str, replies: &str, expected: Expect) {
    let script = format!(
        "{extenders}
         0 node a cpu=2
         0 node b cpu=2
         0 pod one cpu=2 uid=u-1 on=a
         0 pod two cpu=1 uid=u-2 on=b
         0 pod three cpu=1 uid=u-3 on=b
         1 pod high cpu=2 prio=5 oust=yes gpu=yes
         {replies}"
    );
    check(&script, expected);
}

/// The extender.
const E: &str = "0 extender e preempt manages=gpu";

#[test]
fn an_extender_says_which_nodes_may_be_cleared_and_of_whom() {
    check_two(
        E,
        "2 reply e high keep=b:u-3+u-2",
        expect![[r#"
        1s ask e for high: preempt on a without u-1 or b without u-2+u-3
        2s high #1 !! 0/2 nodes are available: 2 Insufficient cpu.
        2s evict three for high
        2s evict two for high
        2s nominate high to b
        2s high #2 -> b
        2s bind high to b
    "#]],
    );
}

#[test]
fn each_extender_gets_what_the_one_before_has_left() {
    let both = format!("{E}\n0 extender f preempt\n0 extender g filter");
    let replies = "2 reply e high keep=b:u-2 keep=a:u-1\n3 reply f high keep=b:u-2+u-3";
    check_two(
        &both,
        replies,
        expect![[r#"
            1s ask e for high: preempt on a without u-1 or b without u-2+u-3
            2s ask f for high: preempt on b without u-2 or a without u-1
            3s high #1 !! 0/2 nodes are available: 2 Insufficient cpu.
            3s evict two for high
            3s evict three for high
            3s nominate high to b
            3s ask g for high: filter b
        "#]],
    );
}

#[test]
fn without_a_node_that_may_be_cleared_nothing_is() {
    check_two(
        E,
        "2 reply e high keep=a:\n9 wait",
        expect![[r#"
        1s ask e for high: preempt on a without u-1 or b without u-2+u-3
        2s high #1 !! postfilter error: expected at least one victim pod on node "a"
    "#]],
    );
    let ignorable = format!("{E} ignorable=yes");
    check_two(
        &ignorable,
        "2 reply e high keep=a:\n9 wait",
        expect![[r#"
        1s ask e for high: preempt on a without u-1 or b without u-2+u-3
        2s high #1 !! 0/2 nodes are available: 2 Insufficient cpu. no candidate node for preemption
    "#]],
    );
}

#[test]
fn an_extender_that_fails_keeps_all_nodes_from_being_cleared_unless_it_may_be_ignored() {
    check_two(
        E,
        "2 reply e high fail\n9 wait",
        expect![[r#"
        1s ask e for high: preempt on a without u-1 or b without u-2+u-3
        2s high #1 !! postfilter error: e is broken
    "#]],
    );
    let ignorable = format!("{E} ignorable=yes");
    check_two(
        &ignorable,
        "2 reply e high fail",
        expect![[r#"
        1s ask e for high: preempt on a without u-1 or b without u-2+u-3
        2s high #1 !! 0/2 nodes are available: 2 Insufficient cpu.
        2s evict one for high
        2s nominate high to a
        2s high #2 -> a
        2s bind high to a
    "#]],
    );
}

#[test]
fn nodes_and_pods_that_are_not_there_are_an_error() {
    check_two(
        E,
        "2 reply e high keep=c:u-1",
        expect![[r#"
        1s ask e for high: preempt on a without u-1 or b without u-2+u-3
        2s high #1 !! postfilter error: nodeinfo not found for node name "c"
    "#]],
    );
    check_two(
        E,
        "2 reply e high keep=a:u-2",
        expect![[r#"
        1s ask e for high: preempt on a without u-1 or b without u-2+u-3
        2s high #1 !! postfilter error: extender: e claims to preempt pod (UID: &{u-2}) on node: a, but the pod is not found on that node
    "#]],
    );
}

#[test]
fn extenders_are_asked_again_when_other_nodes_could_be_cleared() {
    let replies = "2 delete pod two
         2 reply e high keep=b:u-2
         3 reply e high keep=b:u-3";
    check_two(
        E,
        replies,
        expect![[r#"
        1s ask e for high: preempt on a without u-1 or b without u-2+u-3
        2s ask e for high: preempt on a without u-1 or b without u-3
        3s high #1 !! 0/2 nodes are available: 2 Insufficient cpu.
        3s evict three for high
        3s nominate high to b
        3s high #2 -> b
        3s bind high to b
    "#]],
    );
}

#[test]
fn when_that_keeps_changing_those_count_that_are_left_of_both() {
    let replies = "2 pod two cpu=1 uid=u-4 on=b
         2 reply e high keep=b:u-3
         3 pod two cpu=1 uid=u-5 on=b
         3 reply e high keep=b:u-3
         4 pod two cpu=1 uid=u-6 on=b
         4 reply e high keep=b:u-5+u-3 keep=c:u-9 keep=a:u-1";
    check_two(
        E,
        replies,
        expect![[r#"
            1s ask e for high: preempt on a without u-1 or b without u-2+u-3
            2s ask e for high: preempt on a without u-1 or b without u-3+u-4
            3s ask e for high: preempt on a without u-1 or b without u-3+u-5
            4s high #1 !! 0/2 nodes are available: 2 Insufficient cpu.
            4s evict one for high
            4s nominate high to a
            4s high #2 -> a
            4s bind high to a
        "#]],
    );
}

#[test]
fn a_filter_may_leave_preemption_a_way() {
    let script = "0 extender e filter preempt
         0 node a cpu=2
         0 node b cpu=2
         0 pod one cpu=2 uid=u-1 on=a
         1 pod high cpu=2 prio=5 oust=yes
         2 reply e high pass= never=b:banned
         3 reply e high keep=a:u-1
         4 reply e high pass=a";
    check(
        script,
        expect![[r#"
        1s ask e for high: filter b
        2s ask e for high: preempt on a without u-1
        3s high #1 !! 0/2 nodes are available: 1 Insufficient cpu, 1 banned.
        3s evict one for high
        3s nominate high to a
        3s ask e for high: filter a
        4s high #2 -> a
        4s bind high to a
    "#]],
    );
}
