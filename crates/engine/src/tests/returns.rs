//! Pods that come back otherwise than expected: without their node, or with a part that cannot be read.

use expect_test::expect;

use super::check;

#[test]
fn a_pod_that_loses_its_node_again_is_treated_as_gone_and_new() {
    check(
        "0 node a cpu=1
         0 pod p cpu=1 uid=u version=1
         0 pod q cpu=1
         9 pod p cpu=1 uid=u version=2",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
            0s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            9s q #2 -> a
            9s bind q to a
            9s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_pod_that_somebody_else_bound_may_lose_its_node_too() {
    check(
        "0 node a cpu=1
         0 pod p cpu=1 uid=u version=1 on=a for=somebody
         0 pod q cpu=1
         9 pod p cpu=1 uid=u version=2 for=somebody",
        expect![[r#"
            0s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            9s q #2 -> a
            9s bind q to a
        "#]],
    );
}

#[test]
fn a_pod_that_is_only_assumed_on_its_node_is_not_scheduled_again() {
    check(
        "0 binds hang
         0 node a cpu=1
         0 pod p cpu=1 uid=u version=1
         1 pod p cpu=1 uid=u version=2
         2 pod q cpu=1",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
            2s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_pod_that_cannot_be_read_waits_until_it_can() {
    check(
        "0 pod p cpu=1 version=1 unreadable=spec.priority
         1 node a cpu=4
         2 node b cpu=4
         9 pod p cpu=1 version=2",
        expect![[r#"
            0s p #1 !! the pod cannot be read: spec.priority; correct the field, or delete the pod
            9s p #2 -> a
            9s bind p to a
        "#]],
    );
}

#[test]
fn a_pod_on_a_node_that_cannot_be_read_holds_its_room() {
    check(
        "0 node a cpu=1
         0 pod p cpu=1 on=a unreadable=spec.priority
         0 pod q cpu=1
         9 delete pod p",
        expect![[r#"
            0s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            9s q #2 -> a
            9s bind q to a
        "#]],
    );
}

#[test]
fn pods_that_can_be_read_are_not_told_what_one_that_cannot_was_told() {
    check(
        "0 node a cpu=1
         0 pod p cpu=2 unreadable=spec.priority
         0 pod q cpu=2
         0 pod r cpu=2 unreadable=spec.priority
         9 node b cpu=9",
        expect![[r#"
            0s p #1 !! the pod cannot be read: spec.priority; correct the field, or delete the pod
            0s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            0s r #1 !! the pod cannot be read: spec.priority; correct the field, or delete the pod
            9s q #2 -> b
            9s bind q to b
        "#]],
    );
}
