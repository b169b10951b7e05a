//! Nominations: victims are evicted, and the room they leave is kept.

use expect_test::expect;
use plimsoll_framework::Release;

use super::lab::Lab;
use super::{check, flush_left, play};
use crate::Options;

#[test]
fn victims_are_evicted_and_the_pod_takes_their_place() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         1 pod high cpu=2 prio=5 oust=yes",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            1s high #2 -> a
            1s bind high to a
        "#]],
    );
}

#[test]
fn the_pod_is_kept_out_until_its_victims_have_been_told_to_go() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         0 evictions hang
         1 pod high cpu=2 prio=5 oust=yes
         20 node b cpu=2
         40 answer high ok",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            40s high #2 -> b
            40s bind high to b
        "#]],
    );
}

#[test]
fn a_pod_whose_victims_are_gone_waits_for_its_backoff_like_any_other() {
    check(
        "0 pod low cpu=2 on=a
         0 pod high cpu=2 prio=5 oust=yes
         0 pod other cpu=1
         1 node a cpu=2",
        expect![[r#"
            0s high #1 !! no nodes available to schedule pods
            0s other #1 !! no nodes available to schedule pods
            1s high #2 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            1s other #2 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s high #3 -> a
            1s bind high to a
        "#]],
    );
}

#[test]
fn an_eviction_that_is_never_answered_counts_as_failed() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         0 evictions hang
         1 pod high cpu=2 prio=5 oust=yes
         2 evictions work
         90 wait",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            61s high #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            61s nominate high to nothing
            61s high #3 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            71s high #4 !! 0/1 nodes are available: 1 Insufficient cpu.
            71s evict low for high
            71s nominate high to a
            71s high #5 -> a
            71s bind high to a
        "#]],
    );
}

#[test]
fn an_eviction_that_fails_puts_the_pod_back() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         0 evictions hang
         1 pod high cpu=2 prio=5 oust=yes
         2 evictions work
         2 answer high fail",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
        "#]],
    );
}

#[test]
fn room_that_was_cleared_is_kept_from_lower_pods_but_not_from_higher_ones() {
    check(
        "0 node a cpu=3
         0 pod low cpu=2
         0 evictions linger
         1 pod high cpu=3 prio=5 oust=yes
         9 pod other cpu=1 prio=4
         9 pod highest cpu=1 prio=9",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            9s other #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            9s highest #1 -> a
            9s bind highest to a
        "#]],
    );
}

#[test]
fn a_higher_pod_takes_over_what_was_cleared_for_a_lower_one() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         0 evictions linger
         1 pod high cpu=2 prio=5 oust=yes
         2 pod highest cpu=2 prio=9 oust=yes
         20 delete pod low",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            2s highest #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            2s nominate high to nothing
            2s evict low for highest
            2s nominate highest to a
            2s high #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            20s highest #2 -> a
            20s bind highest to a
            20s high #3 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
        "#]],
    );
}

#[test]
fn a_nomination_that_is_of_no_use_any_more_is_taken_back() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         0 evictions linger
         1 pod high cpu=2 prio=5 oust=yes
         20 delete node a
         20 node b cpu=1
         21 node b cpu=1 taint=yes",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            21s high #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            21s nominate high to nothing
        "#]],
    );
}

#[test]
fn a_victim_that_waits_at_permit_is_rejected_instead() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2 permit=wait
         1 pod high cpu=2 prio=5 oust=yes",
        expect![[r#"
            0s low #1 -> a
            0s nominate low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s low #1 !! 0/1 nodes are available: 1 preempted.
            1s nominate high to a
            1s nominate low to nothing
            1s high #2 -> a
            1s bind high to a
            1s low #2 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_victim_whose_binding_is_being_prepared_goes_back_into_the_queue() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2 prepare=later
         1 pod high cpu=2 prio=5 oust=yes
         9 namespace later=done",
        expect![[r#"
            0s low #1 -> a
            0s nominate low to a
            0s patch low {"metadata":{"annotations":{"prepared":"yes"}}}
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s nominate high to a
            1s low #1 error: running PreBind plugin "Prepare": preempted by Oust
            1s high #2 -> a
            1s nominate low to nothing
            1s bind high to a
            3s low #2 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_nomination_is_taken_back_when_no_node_is_left() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         0 evictions linger
         1 pod high cpu=2 prio=5 oust=yes
         20 delete node a
         21 pod high cpu=1 prio=5 oust=yes nominated=a",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            21s high #2 !! no nodes available to schedule pods
            21s nominate high to nothing
        "#]],
    );
}

#[test]
fn a_nomination_is_taken_back_when_a_node_cannot_be_judged() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         0 evictions linger
         1 pod high cpu=2 prio=5 oust=yes
         20 pod high cpu=2 prio=5 oust=yes nominated=a broken=yes
         21 delete pod low",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            21s high #2 error: running "Broken" filter plugin: cannot judge
            21s nominate high to nothing
        "#]],
    );
}

#[test]
fn where_nobody_is_asked_after_the_filters_a_nomination_does_not_outlast_a_failure() {
    check(
        "0 node a cpu=2
         0 pod full cpu=2 on=a
         1 pod p cpu=1 for=filters-lab nominated=a
         2 pod like cpu=1 for=filters-lab",
        expect![[r#"
            1s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s nominate p to nothing
            2s like #1 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn the_node_that_was_cleared_is_told_of_by_its_own_filter_when_others_are_named() {
    check(
        "0 node a cpu=2
         0 node b cpu=2
         0 node c cpu=2
         0 pod on-a cpu=2 on=a prio=9
         0 pod on-b cpu=2 on=b prio=9
         1 pod inside cpu=1 only=a nominated=a
         2 pod outside cpu=1 only=a nominated=b
         3 pod nowhere cpu=1 only=a nominated=gone
         4 pod without cpu=1 only=a
         5 pod broken cpu=1 only=a nominated=b broken=yes",
        expect![[r#"
            1s inside #1 !! 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [Cpu Only].
            2s outside #1 !! 0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [Cpu Only], 2 Insufficient cpu.
            3s nowhere #1 !! 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [Only].
            4s without #1 !! 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [Only].
            5s broken #1 !! 0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [Cpu Only], 2 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_gated_pod_that_came_nominated_keeps_room_from_1_37_on_and_before_once_it_changes() {
    let script = "0 node a cpu=2
         0 pod high cpu=2 prio=5 gate=g nominated=a
         1 pod low cpu=1
         2 pod high cpu=2 prio=5 gate=g nominated=a changed=yes
         3 pod later cpu=1
         4 delete pod high";
    let in_1_36 = expect![[r#"
            1s low #1 -> a
            1s bind low to a
            3s later #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            4s later #2 -> a
            4s bind later to a
        "#]];
    let in_1_37 = expect![[r#"
        1s low #1 !! 0/1 nodes are available: 1 Insufficient cpu.
        3s later #1 !! 0/1 nodes are available: 1 Insufficient cpu.
        4s low #2 -> a
        4s bind low to a
        4s later #2 -> a
        4s bind later to a
    "#]];
    for (release, expected) in [(Release::V1_36, in_1_36), (Release::V1_37, in_1_37)] {
        let mut lab = Lab::new(Options { release, ..Options::default() });
        play(&mut lab, script);
        expected.assert_eq(&flush_left(&lab.trace()));
    }
}

#[test]
fn a_pod_that_cannot_be_evicted_is_left_alone_for_longer_and_longer() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         0 evictions fail
         1 pod high cpu=2 prio=5 oust=yes
         100 evictions work
         200 wait",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            3s high #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            3s nominate high to nothing
            3s high #3 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            11s high #4 !! 0/1 nodes are available: 1 Insufficient cpu.
            11s evict low for high
            11s nominate high to a
            20s high #5 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            20s nominate high to nothing
            20s high #6 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            31s high #7 !! 0/1 nodes are available: 1 Insufficient cpu.
            31s evict low for high
            31s nominate high to a
            42s high #8 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            42s nominate high to nothing
            42s high #9 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            71s high #10 !! 0/1 nodes are available: 1 Insufficient cpu.
            71s evict low for high
            71s nominate high to a
            82s high #11 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            82s nominate high to nothing
            82s high #12 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            151s high #13 !! 0/1 nodes are available: 1 Insufficient cpu.
            151s evict low for high
            151s nominate high to a
            151s high #14 -> a
            151s bind high to a
        "#]],
    );
}

#[test]
fn where_one_pod_cannot_be_evicted_another_one_goes() {
    check(
        "0 node a cpu=2
         0 node b cpu=2
         0 pod left cpu=2
         0 pod right cpu=2
         0 evictions fail
         1 pod high cpu=2 prio=5 oust=yes
         2 evictions work
         9 wait",
        expect![[r#"
            0s left #1 -> a
            0s bind left to a
            0s right #1 -> b
            0s bind right to b
            1s high #1 !! 0/2 nodes are available: 2 Insufficient cpu.
            1s evict left for high
            1s nominate high to a
            3s high #2 !! 0/2 nodes are available: 2 Insufficient cpu.
            3s evict right for high
            3s nominate high to b
            3s high #3 -> b
            3s bind high to b
        "#]],
    );
}

#[test]
fn all_victims_that_cannot_be_evicted_are_left_alone() {
    check(
        "0 node a cpu=2
         0 pod one cpu=1
         0 pod two cpu=1
         0 evictions fail
         1 pod high cpu=2 prio=5 oust=yes
         9 wait
         10 delete pod two
         15 wait",
        expect![[r#"
            0s one #1 -> a
            0s bind one to a
            0s two #1 -> a
            0s bind two to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict one for high
            1s evict two for high
            1s nominate high to a
            3s high #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            3s nominate high to nothing
            3s high #3 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            10s high #4 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            11s high #5 !! 0/1 nodes are available: 1 Insufficient cpu.
            11s evict one for high
            11s nominate high to a
        "#]],
    );
}
