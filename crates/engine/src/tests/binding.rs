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
            0s p #1 error: running Bind plugin "Binder": refused
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
            60s p #1 error: running Bind plugin "Binder": timed out waiting for the binding
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
         0 pod p cpu=1 hold=HoldB",
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
            0s nominate p to a
            1s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            20s p #1 !! 0/1 nodes are available: 1 rejected due to timeout after waiting 20s at plugin Group.
            20s q #2 -> a
            20s nominate p to nothing
            20s bind q to a
            20s p #2 !! 0/1 nodes are available: 1 Insufficient cpu.
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
            0s nominate p to a
            7s q #1 -> a
            7s bind q to a
            7s bind p to a
        "#]],
    );
}

/// In kube-scheduler any plugin finds waiting pods by its handle, wherever it stands, and names any plugin.
#[test]
fn a_pod_that_waits_at_permit_is_released_in_the_name_of_another_plugin() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 permit=wait
         7 pod q cpu=1 note=release",
        expect![[r#"
            0s p #1 -> a
            0s nominate p to a
            7s q #1 -> a
            7s bind q to a
            7s bind p to a
        "#]],
    );
}

#[test]
fn a_pod_that_waits_at_permit_is_rejected_where_another_was_bound() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 permit=wait
         7 pod q cpu=1 note=reject",
        expect![[r#"
            0s p #1 -> a
            0s nominate p to a
            7s q #1 -> a
            7s bind q to a
            7s p #1 !! 0/1 nodes are available: 1 somebody else was faster.
            7s nominate p to nothing
            7s p #2 -> a
            7s nominate p to a
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
            0s nominate p to a
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
            0s nominate p to a
            0s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            0s p #1 error: running PreBind plugin "Prepare": refused
            0s nominate p to nothing
            2s p #2 -> a
            2s nominate p to a
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
            0s nominate p to a
            0s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            60s p #1 error: running PreBind plugin "Prepare": timed out waiting for a write
            60s nominate p to nothing
            62s p #2 -> a
            62s nominate p to a
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
            0s nominate p to a
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
            0s nominate p to a
            0s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            30s p #1 error: running PreBind plugin "Prepare": timed out waiting for the condition
            30s nominate p to nothing
            32s p #2 -> a
            32s nominate p to a
            32s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
        "#]],
    );
}

#[test]
fn a_plugin_says_in_its_own_words_that_it_has_waited_in_vain() {
    check(
        "0 node a cpu=2
         0 disk d
         0 pod p cpu=1 disk=d stuck=yes
         31 wait",
        expect![[r#"
            0s p #1 -> a
            0s nominate p to a
            30s p #1 error: running PreBind plugin "Disk": d was stuck
            30s nominate p to nothing
        "#]],
    );
}

#[test]
fn a_world_that_cannot_get_ready_no_longer_makes_the_pod_unschedulable() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 prepare=later
         5 namespace later=never
         8 wait",
        expect![[r#"
            0s p #1 -> a
            0s nominate p to a
            0s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            5s p #1 !! will never be ready
            5s nominate p to nothing
            7s p #2 -> a
            7s nominate p to a
            7s patch p {"metadata":{"annotations":{"prepared":"yes"}}}
            7s p #2 !! will never be ready
            7s nominate p to nothing
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
            0s nominate p to a
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
            0s nominate p to a
            20s p #1 !! 0/1 nodes are available: 1 rejected due to timeout after waiting 20s at plugin Group.
            20s p #2 -> a
            20s nominate p to nothing
            40s p #2 !! 0/1 nodes are available: 1 rejected due to timeout after waiting 20s at plugin Group.
            40s nominate p to nothing
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
            2s p #1 error: running Bind plugin "Binder": refused
            4s p #2 !! no nodes available to schedule pods
            5s p #3 -> b
            5s bind p to b
        "#]],
    );
}

#[test]
fn pods_that_permit_denies_do_not_wake_each_other() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 permit=deny
         0 pod q cpu=1 permit=deny
         9 wait",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 permit denied.
            0s q #1 !! 0/1 nodes are available: 1 permit denied.
        "#]],
    );
}

#[test]
fn a_bound_pod_is_not_scheduled_again_because_of_an_older_update() {
    check(
        "0 node a cpu=4
         0 binds hang
         0 pod p cpu=1
         1 answer p ok
         2 pod p cpu=1 label=new
         9 wait",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
        "#]],
    );
}

#[test]
fn a_pod_that_was_seen_on_its_node_is_not_tried_again_though_its_binding_is_said_to_have_failed() {
    check(
        "0 node a cpu=4
         0 binds hang
         0 pod p cpu=3
         1 pod p cpu=3 on=a
         2 answer p fail
         20 pod q cpu=1",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
            2s p #1 error: running Bind plugin "Binder": refused
            20s q #1 -> a
            20s bind q to a
        "#]],
    );
}

#[test]
fn a_pod_that_someone_else_bound_elsewhere_leaves_the_room_that_was_kept_for_it() {
    check(
        "0 node a cpu=2 zone=x
         0 binds hang
         0 pod p cpu=2
         1 node b cpu=2 zone=y
         2 pod q cpu=2 zone=x
         5 pod p cpu=2 on=b
         9 answer p fail
         20 wait",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
            2s q #1 !! 0/2 nodes are available: 1 Insufficient cpu, 1 wrong zone.
            5s q #2 -> a
            5s bind q to a
            9s p #1 error: running Bind plugin "Binder": refused
        "#]],
    );
}

#[test]
fn a_pod_made_again_under_its_name_is_another_pod() {
    check(
        "0 node a cpu=2
         0 pod p cpu=3 uid=1
         9 pod p cpu=2 uid=2
         10 pod q cpu=1
         20 pod p cpu=1 uid=3",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            9s p #1 -> a
            9s bind p to a
            10s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            20s q #2 -> a
            20s bind q to a
            20s p #1 -> a
            20s bind p to a
        "#]],
    );
}

#[test]
fn a_pod_made_again_while_its_binding_is_awaited_is_scheduled_anew() {
    check(
        "0 node a cpu=2
         0 binds hang
         0 pod p cpu=1 uid=1
         1 binds work
         1 pod p cpu=2 uid=2
         2 answer p ok",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
            1s p #1 -> a
            1s bind p to a
        "#]],
    );
}

#[test]
fn a_pod_that_is_being_deleted_waits_at_permit_no_longer() {
    check(
        "0 node a cpu=1
         0 pod p cpu=1 permit=wait
         1 pod q cpu=1
         5 pod p cpu=1 permit=wait leaves=yes",
        expect![[r#"
            0s p #1 -> a
            0s nominate p to a
            1s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            5s p #1 !! 0/1 nodes are available: 1 removed.
            5s q #2 -> a
            5s nominate p to nothing
            5s bind q to a
        "#]],
    );
}

#[test]
fn a_pod_that_waits_for_two_plugins_is_bound_when_both_allow_it() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 permit=wait second=wait
         2 allow p Group
         5 allow p Second",
        expect![[r#"
            0s p #1 -> a
            0s nominate p to a
            5s bind p to a
        "#]],
    );
}

#[test]
fn one_of_two_plugins_is_enough_to_reject_a_pod_that_waits() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 permit=wait second=wait
         2 allow p Group
         5 reject p Second
         9 allow p Second",
        expect![[r#"
            0s p #1 -> a
            0s nominate p to a
            5s p #1 !! 0/1 nodes are available: 1 not today.
            5s nominate p to nothing
            5s p #2 -> a
            5s nominate p to a
        "#]],
    );
}

#[test]
fn a_pod_that_nobody_we_know_rejects_is_tried_again_after_any_event() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 permit=wait
         2 allow p Nobody
         3 reject p Nobody
         9 namespace team=x",
        expect![[r#"
            0s p #1 -> a
            0s nominate p to a
            3s p #1 !! 0/1 nodes are available: 1 not today.
            3s nominate p to nothing
            3s p #2 -> a
            3s nominate p to a
        "#]],
    );
}

#[test]
fn of_two_plugins_the_first_whose_patience_ends_rejects_a_pod() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 permit=wait second=wait
         15 allow p Group",
        expect![[r#"
            0s p #1 -> a
            0s nominate p to a
            10s p #1 !! 0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Second.
            10s nominate p to nothing
            10s p #2 -> a
            10s nominate p to a
        "#]],
    );
}

#[test]
fn the_decision_that_settles_the_fate_of_a_waiting_pod_stands() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 permit=wait
         7 pod q cpu=1 permit=waver",
        expect![[r#"
            0s p #1 -> a
            0s nominate p to a
            7s q #1 -> a
            7s bind q to a
            7s bind p to a
        "#]],
    );
}

#[test]
fn what_a_plugin_writes_at_reserve_is_answered_before_the_pod_is_bound() {
    check(
        "0 node a cpu=2
         0 patches hang
         0 pod p cpu=1 attach=yes
         5 answer p ok",
        expect![[r#"
            0s p #1 -> a
            0s create p {"at":"a"}
            5s bind p to a
        "#]],
    );
}

#[test]
fn a_write_at_reserve_that_fails_undoes_everything() {
    check(
        "0 node a cpu=2
         0 patches fail
         0 pod p cpu=1 attach=yes
         0 patches work
         3 wait",
        expect![[r#"
            0s p #1 -> a
            0s create p {"at":"a"}
            0s p #1 !! Refused: refused
            0s delete p
            0s p at Unreserve: plugin Attach: could not delete Namespace default/p: Refused: refused
            2s p #2 -> a
            2s create p {"at":"a"}
            2s bind p to a
        "#]],
    );
}

#[test]
fn a_pod_that_waits_at_permit_is_given_up_where_a_write_fails() {
    check(
        "0 node a cpu=2
         0 patches hang
         0 pod p cpu=1 attach=yes permit=wait
         0 patches work
         4 answer p fail
         5 wait",
        expect![[r#"
            0s p #1 -> a
            0s create p {"at":"a"}
            0s nominate p to a
            4s p #1 !! 0/1 nodes are available: 1 Refused: refused.
            4s delete p
            4s nominate p to nothing
            4s p #2 -> a
            4s create p {"at":"a"}
            4s nominate p to a
        "#]],
    );
}

#[test]
fn a_plugin_may_pass_over_a_write_that_failed() {
    check(
        "0 node a cpu=2
         0 patches fail
         0 pod p cpu=1 attach=anyway",
        expect![[r#"
            0s p #1 -> a
            0s create p {"at":"a"}
            0s bind p to a
        "#]],
    );
}

#[test]
fn a_plugin_that_writes_the_same_again_and_again_is_stopped() {
    check(
        "0 node a cpu=2
         0 patches fail
         0 pod p cpu=1 attach=stubborn
         0 patches work
         1 wait",
        expect![[r#"
            0s p #1 -> a
            0s create p {"at":"a"}
            0s create p {"at":"a"}
            0s create p {"at":"a"}
            0s create p {"at":"a"}
            0s create p {"at":"a"}
            0s create p {"at":"a"}
            0s create p {"at":"a"}
            0s create p {"at":"a"}
            0s p #1 error: running Reserve plugin "Attach": refused
            0s delete p
            0s delete p
            0s delete p
            0s delete p
            0s delete p
            0s delete p
            0s delete p
            0s delete p
            0s p at Unreserve: plugin Attach: could not delete Namespace default/p: refused
        "#]],
    );
}

#[test]
fn a_write_that_is_never_answered_is_told_to_the_plugin() {
    check(
        "0 node a cpu=2
         0 patches hang
         0 pod p cpu=1 attach=yes
         1 patches work
         61 wait",
        expect![[r#"
            0s p #1 -> a
            0s create p {"at":"a"}
            60s p #1 !! TimedOut: timed out waiting for a write
            60s delete p
        "#]],
    );
}
