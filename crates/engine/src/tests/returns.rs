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
