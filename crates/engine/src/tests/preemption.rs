//! Nominations: victims are evicted, and the room they leave is kept.

use expect_test::expect;

use super::check;

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
            61s high #2 !! 0/1 nodes are available: 1 Insufficient cpu.
            61s evict low for high
            61s high #3 -> a
            61s bind high to a
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
            2s high #2 !! 0/1 nodes are available: 1 Insufficient cpu.
            2s evict low for high
            2s high #3 -> a
            2s bind high to a
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
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s nominate high to a
            1s low #1 !! 0/1 nodes are available: 1 preempted.
            1s high #2 -> a
            1s bind high to a
        "#]],
    );
}
