//! The binding cycle, step by step, with failures and timeouts.

use expect_test::expect;

use super::check;

#[test]
fn a_pod_is_bound_and_its_room_is_taken_before_the_binding_is_answered() {
    check(
        "0 node a cpu=2
         0 binds hang
         0 pod p cpu=2
         0 pod q cpu=2
         5 answer p ok",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
            0s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_binding_that_fails_gives_the_room_back_and_is_tried_again() {
    check(
        "0 node a cpu=2
         0 binds fail
         0 pod p cpu=2
         0 binds work
         0 pod q cpu=1
         9 wait",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
            0s p #1 error: binding rejected: refused
            0s q #1 -> a
            0s bind q to a
            2s p #2 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_binding_that_is_never_answered_times_out() {
    check(
        "0 node a cpu=2
         0 binds hang
         0 pod p cpu=2
         1 binds work
         90 wait",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
            60s p #1 error: timed out waiting for the binding
            62s p #2 -> a
            62s bind p to a
        "#]],
    );
}

#[test]
fn the_first_bind_plugin_that_does_not_skip_binds() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 bind=b",
        expect![[r#"
            0s p #1 -> a
            0s bind p to b
        "#]],
    );
}

#[test]
fn a_refused_reservation_is_a_rejection_and_undoes_the_earlier_ones() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 refuse=HoldB",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 reservation refused.
        "#]],
    );
}

#[test]
fn permit_denies() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 permit=deny",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 permit denied.
        "#]],
    );
}

#[test]
fn a_pod_that_waits_at_permit_keeps_its_room_until_it_times_out() {
    check(
        "0 node a cpu=1
         0 pod p cpu=1 permit=wait
         1 pod q cpu=1
         30 wait",
        expect![[r#"
            0s p #1 -> a
            1s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            20s p #1 !! 0/1 nodes are available: 1 rejected due to timeout after waiting 20s at plugin Group.
            20s q #2 -> a
            20s bind q to a
        "#]],
    );
}

#[test]
fn a_pod_that_waits_at_permit_is_released_by_another() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 permit=wait
         7 pod q cpu=1 permit=release",
        expect![[r#"
            0s p #1 -> a
            7s q #1 -> a
            7s bind q to a
            7s bind p to a
        "#]],
    );
}

#[test]
fn what_must_be_written_before_binding_is_written_first() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 prepare=yes note=yes",
        expect![[r#"
            0s p #1 -> a
            0s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            0s bind p to a
            0s patch p {"metadata":{"annotations":{"note":"bound"}}}
        "#]],
    );
}

#[test]
fn a_write_before_binding_that_fails_undoes_everything() {
    check(
        "0 node a cpu=2
         0 patches fail
         0 pod p cpu=1 prepare=yes
         0 patches work
         3 wait",
        expect![[r#"
            0s p #1 -> a
            0s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            0s p #1 error: running PreBind plugin "Prepare": refused
            2s p #2 -> a
            2s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            2s bind p to a
        "#]],
    );
}

#[test]
fn a_write_before_binding_that_is_never_answered_times_out() {
    check(
        "0 node a cpu=2
         0 patches hang
         0 pod p cpu=1 prepare=yes
         1 patches work
         90 wait",
        expect![[r#"
            0s p #1 -> a
            0s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            60s p #1 error: running PreBind plugin "Prepare": timed out waiting for a write
            62s p #2 -> a
            62s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            62s bind p to a
        "#]],
    );
}

#[test]
fn the_binding_waits_until_the_world_is_ready() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 prepare=later
         9 namespace later=done",
        expect![[r#"
            0s p #1 -> a
            0s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            9s bind p to a
        "#]],
    );
}

#[test]
fn a_world_that_never_gets_ready_times_out() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 prepare=later
         32 wait",
        expect![[r#"
            0s p #1 -> a
            0s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            30s p #1 error: running PreBind plugin "Prepare": timed out waiting for the condition
            32s p #2 -> a
            32s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
        "#]],
    );
}

#[test]
fn a_world_that_cannot_get_ready_is_a_rejection() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 prepare=later
         5 namespace later=never",
        expect![[r#"
            0s p #1 -> a
            0s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            5s p #1 !! 0/1 nodes are available: 1 will never be ready.
            5s p #2 -> a
            5s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            5s p #2 !! 0/1 nodes are available: 1 will never be ready.
        "#]],
    );
}

#[test]
fn a_pod_deleted_while_it_waits_leaves_its_room() {
    check(
        "0 node a cpu=1
         0 pod p cpu=1 permit=wait
         1 pod q cpu=1
         5 delete pod p",
        expect![[r#"
            0s p #1 -> a
            1s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            5s q #2 -> a
            5s bind q to a
        "#]],
    );
}

#[test]
fn what_happened_during_the_binding_cycle_is_heard_when_it_fails() {
    // The node comes while the pod waits at Permit; had it not been heard of, the pod would sleep on.
    check(
        "0 node a cpu=1
         0 pod p cpu=1 permit=wait
         5 node b cpu=1
         60 wait",
        expect![[r#"
            0s p #1 -> a
            20s p #1 !! 0/1 nodes are available: 1 rejected due to timeout after waiting 20s at plugin Group.
            20s p #2 -> a
            40s p #2 !! 0/1 nodes are available: 1 rejected due to timeout after waiting 20s at plugin Group.
        "#]],
    );
}

#[test]
fn a_node_deleted_before_the_binding_makes_the_binding_fail_and_the_pod_is_tried_again() {
    check(
        "0 node a cpu=1
         0 binds hang
         0 pod p cpu=1
         1 delete node a
         2 binds work
         2 answer p fail
         5 node b cpu=1",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
            2s p #1 error: binding rejected: refused
            4s p #2 !! no nodes available to schedule pods
            5s p #3 -> b
            5s bind p to b
        "#]],
    );
}

#[test]
fn a_volume_that_is_assumed_for_one_pod_is_not_given_to_another() {
    check(
        "0 node a cpu=2
         0 disk d
         0 binds hang
         0 pod p disk=d
         0 pod q disk=d
         9 disk d p
         9 answer p ok
         19 wait",
        expect![[r#"
              0 p #1 -> a
              0 bind p to a
              0 q #1 !! 0/1 nodes are available: 1 disk taken.
              9 q #2 !! 0/1 nodes are available: 1 disk taken.
        "#]],
    );
}

#[test]
fn a_volume_is_free_again_when_the_pod_it_was_assumed_for_is_not_bound() {
    check(
        "0 node a cpu=2
         0 disk d
         0 binds hang
         0 pod p disk=d
         0 pod q disk=d
         9 answer p fail
         9 binds work
         9 pod r disk=d
         19 wait",
        expect![[r#"
              0 p #1 -> a
              0 bind p to a
              0 q #1 !! 0/1 nodes are available: 1 disk taken.
              9 p #1 error: binding rejected: refused
              9 r #1 -> a
              9 bind r to a
             10 p #2 !! 0/1 nodes are available: 1 disk taken.
        "#]],
    );
}

#[test]
fn a_change_of_a_volume_wakes_the_pods_that_wait_for_it_and_no_others() {
    check(
        "0 node a cpu=2
         0 pod p disk=d
         0 pod q disk=e
         0 disk e r
         9 disk d
         19 wait",
        expect![[r#"
              0 p #1 !! 0/1 nodes are available: 1 disk taken.
              0 q #1 !! 0/1 nodes are available: 1 disk taken.
              0 q #2 !! 0/1 nodes are available: 1 disk taken.
              9 p #2 -> a
              9 bind p to a
        "#]],
    );
}

#[test]
fn a_volume_that_is_assumed_for_one_pod_is_not_given_to_another() {
    check(
        "0 node a cpu=2
         0 disk d
         0 binds hang
         0 pod p disk=d
         0 pod q disk=d
         9 disk d p
         9 answer p ok
         19 wait",
        expect![[r#"
              0 p #1 -> a
              0 bind p to a
              0 q #1 !! 0/1 nodes are available: 1 disk taken.
              9 q #2 !! 0/1 nodes are available: 1 disk taken.
        "#]],
    );
}

#[test]
fn a_volume_is_free_again_when_the_pod_it_was_assumed_for_is_not_bound() {
    check(
        "0 node a cpu=2
         0 disk d
         0 binds hang
         0 pod p disk=d
         0 pod q disk=d
         9 answer p fail
         9 binds work
         9 pod r disk=d
         19 wait",
        expect![[r#"
              0 p #1 -> a
              0 bind p to a
              0 q #1 !! 0/1 nodes are available: 1 disk taken.
              9 p #1 error: binding rejected: refused
              9 r #1 -> a
              9 bind r to a
             10 p #2 !! 0/1 nodes are available: 1 disk taken.
        "#]],
    );
}

#[test]
fn a_change_of_a_volume_wakes_the_pods_that_wait_for_it_and_no_others() {
    check(
        "0 node a cpu=2
         0 pod p disk=d
         0 pod q disk=e
         0 disk e r
         9 disk d
         19 wait",
        expect![[r#"
              0 p #1 !! 0/1 nodes are available: 1 disk taken.
              0 q #1 !! 0/1 nodes are available: 1 disk taken.
              0 q #2 !! 0/1 nodes are available: 1 disk taken.
              9 p #2 -> a
              9 bind p to a
        "#]],
    );
}
