//! The scheduling queue.

use expect_test::expect;

use super::check;

#[test]
fn pods_go_by_priority_and_then_by_arrival() {
    check(
        "0 pod low
         0 pod first prio=1
         0 pod second prio=1
         1 node a cpu=9",
        expect![[r#"
            0s low #1 !! no nodes available to schedule pods
            0s first #1 !! no nodes available to schedule pods
            0s second #1 !! no nodes available to schedule pods
            1s first #2 -> a
            1s bind first to a
            1s second #2 -> a
            1s bind second to a
            1s low #2 -> a
            1s bind low to a
        "#]],
    );
}

#[test]
fn a_gated_pod_is_not_tried_until_its_last_gate_is_gone() {
    check(
        "0 node a cpu=9
         0 pod p gate=x
         5 node b cpu=9
         9 pod p",
        expect![[r#"
            9s p #1 -> a
            9s bind p to a
        "#]],
    );
}

#[test]
fn a_gated_pod_is_asked_again_when_something_changes_that_its_gate_reads() {
    check(
        "0 node a cpu=9
         0 pod p until=open
         5 node b cpu=9
         9 namespace open=yes",
        expect![[r#"
            9s p #1 -> a
            9s bind p to a
        "#]],
    );
}

#[test]
fn a_pod_that_failed_sleeps_through_changes_that_cannot_help() {
    check(
        "0 node a cpu=1
         0 pod p cpu=2
         20 node b cpu=1
         40 node c cpu=1 zone=x
         60 node a cpu=1 zone=y",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_change_of_taints_wakes_whoever_waits_for_nodes() {
    check(
        "0 node a cpu=1
         0 pod p cpu=2
         20 node a cpu=1 taint=yes",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            20s p #2 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_node_that_fits_wakes_a_pod() {
    check(
        "0 node a cpu=1
         0 pod p cpu=2
         20 node b cpu=2",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            20s p #2 -> b
            20s bind p to b
        "#]],
    );
}

#[test]
fn a_pod_that_goes_makes_room_for_another() {
    check(
        "0 node a cpu=2
         0 pod p cpu=2
         0 pod q cpu=2
         20 delete pod p",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
            0s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            20s q #2 -> a
            20s bind q to a
        "#]],
    );
}

#[test]
fn lower_priority_pods_on_a_node_do_not_keep_a_pod_asleep() {
    // Preemption could clear the node, so the change is worth an attempt although the pod does not fit.
    check(
        "0 node a cpu=2
         0 pod small cpu=2
         1 pod large cpu=4 prio=5
         20 node a cpu=4
         40 pod other cpu=2 on=a prio=9
         60 delete pod other",
        expect![[r#"
            0s small #1 -> a
            0s bind small to a
            1s large #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            20s large #2 !! 0/1 nodes are available: 1 Insufficient cpu.
            60s large #3 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn without_a_node_the_first_one_wakes_every_pod() {
    check(
        "0 pod p cpu=1
         0 pod q cpu=9
         7 node a cpu=1",
        expect![[r#"
            0s p #1 !! no nodes available to schedule pods
            0s q #1 !! no nodes available to schedule pods
            7s p #2 -> a
            7s bind p to a
            7s q #2 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn an_error_is_tried_again_when_the_window_of_a_backoff_that_doubles_is_over() {
    check(
        "0 node a cpu=9
         0 pod p broken=yes
         40 wait",
        expect![[r#"
            0s p #1 error: running "Broken" filter plugin: cannot judge
            2s p #2 error: running "Broken" filter plugin: cannot judge
            5s p #3 error: running "Broken" filter plugin: cannot judge
            10s p #4 error: running "Broken" filter plugin: cannot judge
            19s p #5 error: running "Broken" filter plugin: cannot judge
            30s p #6 error: running "Broken" filter plugin: cannot judge
        "#]],
    );
}

#[test]
fn a_pod_is_tried_again_after_five_minutes_whatever_happens() {
    check(
        "0 node a cpu=1
         0 pod p cpu=2
         400 wait",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            330s p #2 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_pod_in_backoff_is_tried_early_when_nothing_else_is_ready() {
    check(
        "0 node a cpu=1
         0 pod p cpu=2
         0 node b cpu=2",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            0s p #2 -> b
            0s bind p to b
        "#]],
    );
}

#[test]
fn a_pod_that_is_changed_so_that_it_may_fit_is_tried_again() {
    check(
        "0 node a cpu=1 zone=x
         0 pod p cpu=1 zone=y
         20 pod p cpu=1 zone=x",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 wrong zone.
            20s p #2 -> a
            20s bind p to a
        "#]],
    );
}

#[test]
fn a_pod_that_is_deleted_is_never_tried_again() {
    check(
        "0 node a cpu=1
         0 pod p cpu=2
         5 delete pod p
         9 node b cpu=9",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_pod_of_another_scheduler_is_left_alone_but_takes_its_room() {
    check(
        "0 node a cpu=2
         0 pod theirs cpu=1 for=other
         1 pod theirs cpu=1 for=other on=a
         2 pod p cpu=2",
        expect![[r#"
            2s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn without_a_node_nothing_but_a_node_is_worth_another_attempt() {
    check(
        "0 pod p cpu=1
         20 namespace team=x
         40 pod theirs on=nowhere
         60 delete pod theirs
         80 node a cpu=1",
        expect![[r#"
            0s p #1 !! no nodes available to schedule pods
            80s p #2 -> a
            80s bind p to a
        "#]],
    );
}

#[test]
fn a_pod_that_leaves_a_node_that_is_gone_wakes_nobody() {
    check(
        "0 node a cpu=1
         0 node gone cpu=1
         0 pod theirs on=gone cpu=1
         0 pod p cpu=2
         20 delete node gone
         40 delete pod theirs",
        expect![[r#"
            0s p #1 !! 0/2 nodes are available: 2 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_node_that_is_cordoned_wakes_nobody() {
    check(
        "0 node a cpu=1
         0 pod p cpu=2
         20 node a cpu=1 cordoned=yes
         40 node a cpu=1",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            40s p #2 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_change_of_labels_and_taints_together_wakes_as_both_would() {
    check(
        "0 node a cpu=1 zone=x
         0 pod p cpu=1 zone=y
         20 node a cpu=1 zone=z taint=yes",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 wrong zone.
            20s p #2 !! 0/1 nodes are available: 1 wrong zone.
        "#]],
    );
}

#[test]
fn a_node_that_is_removed_and_comes_back_has_its_pods_again() {
    check(
        "0 node a cpu=2
         0 pod theirs cpu=1 on=a
         1 delete node a
         1 delete pod theirs
         2 pod other cpu=1 on=a
         2 pod p cpu=2
         3 node a cpu=2
         9 delete pod other",
        expect![[r#"
            2s p #1 !! no nodes available to schedule pods
            3s p #2 !! 0/1 nodes are available: 1 Insufficient cpu.
            9s p #3 -> a
            9s bind p to a
        "#]],
    );
}

#[test]
fn a_pod_that_is_being_deleted_is_not_tried() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 leaves=yes
         9 wait",
        expect![[r#""#]],
    );
}

#[test]
fn pods_in_one_backoff_window_go_by_priority() {
    check(
        "0 node a cpu=9
         0 pod low broken=yes
         0 pod high broken=yes prio=5
         3 wait",
        expect![[r#"
            0s low #1 error: running "Broken" filter plugin: cannot judge
            0s high #1 error: running "Broken" filter plugin: cannot judge
            2s high #2 error: running "Broken" filter plugin: cannot judge
            2s low #2 error: running "Broken" filter plugin: cannot judge
        "#]],
    );
}

#[test]
fn of_two_kinds_of_pods_only_those_are_tried_again_that_a_node_may_help() {
    check(
        "0 node a cpu=1
         0 pod small-1 cpu=2
         0 pod large-1 cpu=9
         0 pod small-2 cpu=2
         0 pod large-2 cpu=9
         20 node b cpu=4",
        expect![[r#"
            0s small-1 #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            0s large-1 #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            0s small-2 #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            0s large-2 #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            20s small-1 #2 -> b
            20s bind small-1 to b
            20s small-2 #2 -> b
            20s bind small-2 to b
        "#]],
    );
}

#[test]
fn of_pods_that_are_alike_those_go_first_that_came_first_whoever_left_meanwhile() {
    check(
        "0 node a cpu=1
         0 pod p cpu=2
         1 pod q cpu=2
         2 pod r cpu=2
         3 pod s cpu=2
         5 delete pod p
         20 node b cpu=4",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            2s r #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            3s s #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            20s q #2 -> b
            20s bind q to b
            20s r #2 -> b
            20s bind r to b
            20s s #2 !! 0/2 nodes are available: 2 Insufficient cpu.
        "#]],
    );
}

#[test]
fn pods_that_are_alike_are_asked_apart_by_a_plugin_that_reads_their_names() {
    check(
        "0 node a cpu=1
         0 pod p cpu=1 invited=yes
         0 pod q cpu=1 invited=yes
         20 node b cpu=1 guest=q
         40 node c cpu=1 guest=p",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 not invited.
            0s q #1 !! 0/1 nodes are available: 1 not invited.
            20s q #2 -> b
            20s bind q to b
            40s p #2 -> c
            40s bind p to c
        "#]],
    );
}

#[test]
fn of_pods_that_are_alike_one_is_tried_early_until_something_changes() {
    check(
        "0 node a cpu=1
         1 pod p cpu=2
         1 pod q cpu=2
         1 pod r cpu=2
         1 pod other cpu=3
         2 node b cpu=2
         3 node c cpu=1
         9 wait",
        expect![[r#"
            1s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s r #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s other #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            2s p #2 -> b
            2s bind p to b
            2s q #2 !! 0/2 nodes are available: 2 Insufficient cpu.
            3s r #2 !! 0/2 nodes are available: 2 Insufficient cpu.
        "#]],
    );
}
