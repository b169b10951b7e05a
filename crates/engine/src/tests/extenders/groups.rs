//! Groups of pods: extenders are asked about one member after the other, and nothing comes of it until the whole group is
//! decided.

use expect_test::{Expect, expect};
use plimsoll_framework::Release;

use super::super::lab::Lab;
use super::super::{flush_left, play};

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(script: &str, expected: Expect) {
    let mut lab = Lab::with_groups(Release::V1_37);
    play(&mut lab, script);
    expected.assert_eq(&flush_left(&lab.trace()));
}

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check_as_1_36(script: &str, expected: Expect) {
    let mut lab = Lab::with_groups(Release::V1_36);
    play(&mut lab, script);
    expected.assert_eq(&flush_left(&lab.trace()));
}

#[test]
fn members_go_one_after_the_other_where_extenders_let_them_and_are_bound_together() {
    check(
        "0 extender e filter prioritize weight=2
         0 node a cpu=2
         0 node b cpu=2
         0 node c cpu=2
         0 group g min=2
         0 pod p cpu=2 of=g gate=x
         0 pod q cpu=2 of=g
         0 pod p cpu=2 of=g
         1 reply e p pass=a+b
         2 reply e p rank=a:1+b:5
         3 reply e q pass=a+c no=b:busy
         4 reply e q rank=c:3",
        expect![[r#"
            0s ask e for p: filter a b c
            1s ask e for p: rank a b
            2s ask e for q: filter a c
            3s ask e for q: rank a c
            4s g #1 scheduled: p -> b; q -> c
            4s bind p to b
            4s bind q to c
        "#]],
    );
}

#[test]
fn a_gang_of_which_an_extender_lets_too_few_in_leaves_nothing_behind() {
    check(
        "0 extender e filter manages=gpu
         0 node a cpu=2
         0 node b cpu=2
         0 group g min=2
         0 pod p cpu=1 gpu=yes of=g gate=x
         0 pod q cpu=1 gpu=yes of=g
         0 pod p cpu=1 gpu=yes of=g
         1 reply e p pass=a
         2 pod other cpu=2
         3 reply e q pass= no=a:busy+b:busy
         4 reply e p pass=b
         5 reply e q pass= no=b:busy",
        expect![[r#"
            0s ask e for p: filter a b
            1s ask e for q: filter a b
            2s other #1 -> a
            2s bind other to a
            3s ask e for p: filter b
            4s ask e for q: filter b
            5s g #1 unschedulable: p !! 0/1 placements are available, first placement status: too few fit, nobody to clear; q !! 0/2 nodes are available: 1 Insufficient cpu, 1 busy.
        "#]],
    );
}

#[test]
fn an_extender_that_fails_is_an_error_for_the_whole_group_unless_it_may_be_ignored() {
    let script = "0 extender e filter
         0 node a cpu=2
         0 group g min=2
         0 pod p cpu=1 of=g gate=x
         0 pod q cpu=1 of=g
         0 pod p cpu=1 of=g
         1 reply e p pass=a
         2 reply e q fail";
    check(
        script,
        expect![[r#"
        0s ask e for p: filter a
        1s ask e for q: filter a
        2s g #1 error: p error: failed to schedule other pod from a pod group: e is broken; q error: e is broken
    "#]],
    );
    check(
        &script.replace("filter", "filter ignorable=yes"),
        expect![[r#"
        0s ask e for p: filter a
        1s ask e for q: filter a
        2s g #1 scheduled: p -> a; q -> a
        2s bind p to a
        2s bind q to a
    "#]],
    );
}

#[test]
fn while_an_extender_thinks_about_a_group_others_are_decided_and_the_group_begins_again() {
    check(
        "0 extender e filter manages=gpu
         0 node a cpu=2
         0 node b cpu=2
         0 group g min=2
         0 pod p cpu=1 gpu=yes of=g gate=x
         0 pod q cpu=1 gpu=yes of=g
         0 pod p cpu=1 gpu=yes of=g
         1 reply e p pass=a
         2 pod plain cpu=2
         3 reply e q pass=a+b
         4 reply e p pass=b
         5 reply e q pass=b",
        expect![[r#"
            0s ask e for p: filter a b
            1s ask e for q: filter a b
            2s plain #1 -> a
            2s bind plain to a
            3s ask e for p: filter b
            4s ask e for q: filter b
            5s g #1 scheduled: p -> b; q -> b
            5s bind p to b
            5s bind q to b
        "#]],
    );
}

#[test]
fn pods_and_groups_that_need_the_same_extender_wait_for_their_turn() {
    check(
        "0 extender e filter
         0 node a cpu=9
         0 pod first cpu=1
         0 group g
         0 pod p cpu=1 of=g
         1 pod urgent cpu=1 prio=9
         2 reply e first pass=a
         3 reply e urgent pass=a
         4 reply e p pass=a",
        expect![[r#"
            0s ask e for first: filter a
            2s first #1 -> a
            2s bind first to a
            2s ask e for urgent: filter a
            3s urgent #1 -> a
            3s bind urgent to a
            3s ask e for p: filter a
            4s g #1 scheduled: p -> a
            4s bind p to a
        "#]],
    );
}

#[test]
fn a_question_about_a_member_that_is_never_answered_counts_as_failed() {
    check(
        "0 extender e filter
         0 node a cpu=2
         0 group g
         0 pod p cpu=1 of=g
         0 pod plain cpu=1
         100 wait",
        expect![[r#"
            0s ask e for p: filter a
            65s g #1 error: p error: timed out waiting for the answer of extender "e"
            65s ask e for plain: filter a
        "#]],
    );
}

#[test]
fn a_member_that_is_deleted_meanwhile_is_left_out_and_one_that_comes_joins() {
    check(
        "0 extender e filter
         0 node a cpu=9
         0 group g min=2
         0 pod p cpu=1 of=g gate=x
         0 pod q cpu=1 of=g
         0 pod p cpu=1 of=g
         1 reply e p pass=a
         2 delete pod p
         3 pod r cpu=1 of=g
         4 reply e q pass=a
         5 reply e r pass=a",
        expect![[r#"
            0s ask e for p: filter a
            1s ask e for q: filter a
            4s ask e for r: filter a
            5s g #1 scheduled: q -> a; r -> a
            5s bind q to a
            5s bind r to a
        "#]],
    );
}

#[test]
fn a_group_whose_members_are_all_deleted_frees_its_extender() {
    check(
        "0 extender e filter
         0 node a cpu=9
         0 group g
         0 pod p cpu=1 of=g
         1 pod plain cpu=1
         2 delete pod p
         3 reply e plain pass=a",
        expect![[r#"
            0s ask e for p: filter a
            2s ask e for plain: filter a
            3s plain #1 -> a
            3s bind plain to a
        "#]],
    );
}

#[test]
fn on_each_placement_members_are_asked_about_its_nodes_only() {
    check(
        "0 extender e filter
         0 node a cpu=2 zone=x
         0 node b cpu=2 zone=x
         0 node c cpu=2 zone=y
         0 node d cpu=2 zone=y
         0 group g min=2 topo=zone
         0 pod p cpu=2 of=g gate=x
         0 pod q cpu=2 of=g
         0 pod p cpu=2 of=g
         1 reply e p pass=a+b
         2 reply e q pass=
         3 reply e p pass=c
         4 reply e q pass=d",
        expect![[r#"
            0s ask e for p: filter a b
            1s ask e for q: filter b
            2s ask e for p: filter c d
            3s ask e for q: filter d
            4s g #1 scheduled: p -> c; q -> d
            4s bind p to c
            4s bind q to d
        "#]],
    );
}

#[test]
fn extenders_are_asked_where_members_would_go_if_others_were_evicted() {
    check(
        "0 extender e filter manages=gpu
         0 node a cpu=2
         0 pod low cpu=2
         0 group g min=1 prio=5
         0 pod p cpu=2 gpu=yes prio=5 of=g
         1 reply e p pass=a
         9 reply e p pass=a",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            0s ask e for p: filter a
            1s g #1 preempting: p !! 0/1 nodes are available: 1 Insufficient cpu. (to a)
            1s evict low for p
            1s nominate p to a
            3s ask e for p: filter a
            9s g #2 scheduled: p -> a
            9s bind p to a
        "#]],
    );
}

#[test]
fn a_member_evicts_once_however_often_its_cycle_runs() {
    check_as_1_36(
        "0 extender e filter preempt manages=gpu
         0 node a cpu=2
         0 node b cpu=2
         0 pod low cpu=2 uid=u
         0 group g
         0 pod p cpu=2 gpu=yes prio=5 of=g oust=yes
         0 pod q cpu=2 gpu=yes prio=5 of=g oust=yes
         1 reply e p pass=b
         2 reply e q keep=a:u",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            0s ask e for p: filter b
            1s ask e for q: preempt on a without u
            2s g #1 preempting: p !! pod group is unschedulable, pod group is waiting for preemption to complete (to b); q !! 0/2 nodes are available: 2 Insufficient cpu. (to a)
            2s evict low for q
            2s nominate p to b
            2s nominate q to a
        "#]],
    );
}
