//! Extenders: who is asked what and when, and what becomes of the answers.

mod binding;
mod by_hand;
mod going_on;
mod groups;
mod preemption;
mod staleness;
mod turns;

use expect_test::expect;

use super::check;
use super::lab::Lab;

#[test]
fn a_pod_goes_where_extenders_and_plugins_together_like_it_best() {
    check(
        "0 extender e filter prioritize weight=2
         0 node a cpu=2
         0 node b cpu=2
         0 node c cpu=1
         0 pod p cpu=2
         1 reply e p pass=a+b
         2 reply e p rank=a:1+b:5",
        expect![[r#"
            0s ask e for p: filter a b
            1s ask e for p: rank a b
            2s p #1 -> b
            2s bind p to b
        "#]],
    );
}

#[test]
fn each_filter_gets_what_the_one_before_has_left_and_all_rank_at_once() {
    check(
        "0 extender e filter prioritize
         0 extender f filter prioritize
         0 node a cpu=2
         0 node b cpu=2
         0 node c cpu=2
         0 pod p cpu=2
         1 reply e p pass=a+b
         2 reply f p pass=b+a
         3 reply f p rank=a:9+b:1
         4 reply e p rank=a:0+b:7",
        expect![[r#"
            0s ask e for p: filter a b c
            1s ask f for p: filter a b
            2s ask e for p: rank a b
            2s ask f for p: rank a b
            4s p #1 -> a
            4s bind p to a
        "#]],
    );
}

#[test]
fn the_only_node_that_is_left_is_not_ranked() {
    check(
        "0 extender e filter prioritize
         0 node a cpu=2
         0 node b cpu=2
         0 pod p cpu=2
         1 reply e p pass=b",
        expect![[r#"
            0s ask e for p: filter a b
            1s p #1 -> b
            1s bind p to b
        "#]],
    );
}

#[test]
fn nobody_is_asked_about_a_pod_that_fits_nowhere() {
    check(
        "0 extender e filter prioritize
         0 node a cpu=1
         0 pod p cpu=2
         5 node a cpu=2
         6 reply e p pass=a",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            5s ask e for p: filter a
            6s p #2 -> a
            6s bind p to a
        "#]],
    );
}

#[test]
fn what_extenders_say_against_nodes_is_told_and_any_change_may_help() {
    check(
        "0 extender e filter
         0 extender f filter
         0 node a cpu=2
         0 node b cpu=2
         0 node c cpu=2
         0 node d cpu=1
         0 pod p cpu=2
         1 reply e p pass=a no=b:busy
         2 reply f p pass= never=a:banned
         9 namespace k=v
         9 reply e p fail",
        expect![[r#"
            0s ask e for p: filter a b c
            1s ask f for p: filter a
            2s p #1 !! 0/4 nodes are available: 1 Insufficient cpu, 1 banned, 1 busy.
            9s ask e for p: filter a b c
            9s p #2 error: e is broken
        "#]],
    );
}

#[test]
fn an_extender_that_fails_is_an_error_for_that_pod_only() {
    check(
        "0 extender e filter manages=gpu
         0 node a cpu=2
         0 node b cpu=2
         0 pod p cpu=1 gpu=yes
         0 pod q cpu=1
         1 reply e p fail
         3 reply e p pass=b",
        expect![[r#"
            0s ask e for p: filter a b
            0s q #1 -> a
            0s bind q to a
            1s p #1 error: e is broken
            3s ask e for p: filter a b
            3s p #2 -> b
            3s bind p to b
        "#]],
    );
}

#[test]
fn an_extender_that_may_be_ignored_counts_as_absent_when_it_fails() {
    check(
        "0 extender e filter
         0 extender f filter prioritize ignorable=yes
         0 node a cpu=2
         0 node b cpu=2
         0 pod p cpu=1
         1 reply e p pass=b+a
         2 reply f p fail
         3 reply f p fail",
        expect![[r#"
            0s ask e for p: filter a b
            1s ask f for p: filter a b
            2s ask f for p: rank a b
            3s p #1 -> a
            3s bind p to a
        "#]],
    );
}

#[test]
fn an_extender_that_cannot_rank_has_no_say_in_that() {
    check(
        "0 extender e prioritize
         0 extender f prioritize
         0 node a cpu=2 zone=x
         0 node b cpu=2 zone=y
         0 node c cpu=2 zone=x
         0 pod p cpu=1 likes=y
         1 reply f p fail
         2 reply e p rank=c:1",
        expect![[r#"
            0s ask e for p: rank a b c
            0s ask f for p: rank a b c
            2s p #1 -> c
            2s bind p to c
        "#]],
    );
}

#[test]
fn of_equally_good_nodes_those_are_preferred_that_somebody_ranked() {
    let script = "0 extender e prioritize
         0 node a cpu=2
         0 node b cpu=2
         0 node c cpu=2
         0 pod p cpu=1
         1 reply e p rank=b:0+c:0";
    check(
        script,
        expect![[r#"
        0s ask e for p: rank a b c
        1s p #1 -> b
        1s bind p to b
    "#]],
    );
    // Who does not rank at all counts as having ranked all. Nodes that are not there do not count.
    let silent = script.replace("0 node a", "0 extender f bind\n0 node a");
    check(
        &(silent + "+x:10"),
        expect![[r#"
        0s ask e for p: rank a b c
        1s p #1 -> a
        1s ask f for p: bind to a
    "#]],
    );
}

#[test]
fn an_answer_to_another_question_is_an_error() {
    check(
        "0 extender e filter
         0 node a cpu=2
         0 pod p cpu=1
         1 reply e p rank=a:10",
        expect![[r#"
            0s ask e for p: filter a
            1s p #1 error: extender "e" answered what it was not asked
        "#]],
    );
}

#[test]
fn a_question_that_is_never_answered_counts_as_failed() {
    check(
        "0 extender e filter
         0 node a cpu=2
         0 pod p cpu=1
         100 reply e p pass=a",
        expect![[r#"
            0s ask e for p: filter a
            65s p #1 error: timed out waiting for the answer of extender "e"
            67s ask e for p: filter a
            100s p #2 -> a
            100s bind p to a
        "#]],
    );
}

#[test]
fn the_node_that_was_cleared_for_a_pod_is_asked_about_alone() {
    let script = "0 extender e filter manages=gpu
         0 node a cpu=2
         0 pod low cpu=2
         0 evictions linger
         1 pod high cpu=2 prio=5 gpu=yes oust=yes
         1 pod highest cpu=1 prio=9 gpu=yes
         2 node b cpu=4
         3 delete pod low
         4 reply e highest pass=b
         4 reply e highest pass=b";
    check(
        &format!("{script}\n5 reply e high pass=a"),
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            1s highest #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            2s ask e for highest: filter b
            4s ask e for highest: filter a b
            4s highest #2 -> b
            4s bind highest to b
            4s ask e for high: filter a
            5s high #2 -> a
            5s bind high to a
        "#]],
    );
    // An error there is none for the pod.
    let refused = "5 reply e high fail\n6 reply e high pass=b no=a:broken";
    check(
        &format!("{script}\n{refused}"),
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            1s highest #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            2s ask e for highest: filter b
            4s ask e for highest: filter a b
            4s highest #2 -> b
            4s bind highest to b
            4s ask e for high: filter a
            5s ask e for high: filter a b
            6s high #2 -> b
            6s bind high to b
        "#]],
    );
}

/// How many decisions were made from memory.
fn audited(script: &str) -> u64 {
    let mut lab = Lab::default();
    script.lines().map(str::trim).for_each(|line| lab.act(line));
    lab.audited()
}

#[test]
fn pods_about_which_nobody_is_asked_are_decided_from_memory() {
    let extenders = [
        ("", 2),
        ("0 extender e filter prioritize preempt bind manages=gpu\n", 2),
        ("0 extender e filter\n", 0),
        // It has no say before there is a node.
        ("0 extender e bind\n", 2),
    ];
    for (extender, expected) in extenders {
        let pods = "0 node a cpu=2\n0 node b cpu=2\n0 pod p cpu=1\n0 pod q cpu=1";
        assert_eq!(audited(&format!("{extender}{pods}")), expected, "{extender}");
    }
}
