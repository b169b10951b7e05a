//! Extenders that bind.

use expect_test::expect;

use super::check;

#[test]
fn an_extender_binds_the_pods_it_is_interested_in() {
    check(
        "0 extender e bind manages=gpu
         0 node a cpu=2
         0 pod p cpu=1 gpu=yes
         0 pod q cpu=1
         1 pod r cpu=1
         2 reply e p ok
         90 wait",
        expect![[r#"
            0s p #1 -> a
            0s ask e for p: bind to a
            0s q #1 -> a
            0s bind q to a
            1s r #1 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_pod_that_an_extender_fails_to_bind_is_taken_off_its_node_and_tried_again() {
    check(
        "0 extender e bind
         0 node a cpu=2
         0 pod p cpu=2
         1 reply e p fail
         3 reply e p ok
         90 wait",
        expect![[r#"
            0s p #1 -> a
            0s ask e for p: bind to a
            1s p #1 error: e is broken
            3s p #2 -> a
            3s ask e for p: bind to a
        "#]],
    );
}

#[test]
fn plugins_bind_where_an_extender_that_may_be_ignored_fails() {
    check(
        "0 extender e bind ignorable=yes
         0 node a cpu=2
         0 pod p cpu=2
         1 reply e p fail
         2 delete pod p
         3 pod q cpu=2
         90 wait",
        expect![[r#"
            0s p #1 -> a
            0s ask e for p: bind to a
            1s bind p to a
            3s q #1 -> a
            3s ask e for q: bind to a
            68s bind q to a
        "#]],
    );
}

#[test]
fn a_binding_by_an_extender_that_is_never_answered_times_out() {
    check(
        "0 extender e bind
         0 node a cpu=2
         0 pod p cpu=2
         70 reply e p ok",
        expect![[r#"
            0s p #1 -> a
            0s ask e for p: bind to a
            65s p #1 error: timed out waiting for the answer of extender "e"
            67s p #2 -> a
            67s ask e for p: bind to a
        "#]],
    );
}

#[test]
fn a_pod_that_was_bound_although_the_extender_says_it_failed_is_left_alone() {
    check(
        "0 extender e bind
         0 node a cpu=2
         0 pod p cpu=2
         1 pod p cpu=2 on=a
         2 reply e p fail
         90 wait",
        expect![[r#"
            0s p #1 -> a
            0s ask e for p: bind to a
            2s p #1 error: e is broken
        "#]],
    );
}

#[test]
fn many_pods_are_bound_at_once() {
    check(
        "0 extender e filter bind
         0 node a cpu=9
         0 pod p cpu=1
         0 pod q cpu=1
         1 reply e p pass=a
         2 reply e q pass=a
         3 reply e q ok
         4 reply e p ok
         90 wait",
        expect![[r#"
            0s ask e for p: filter a
            1s p #1 -> a
            1s ask e for p: bind to a
            1s ask e for q: filter a
            2s q #1 -> a
            2s ask e for q: bind to a
        "#]],
    );
}
