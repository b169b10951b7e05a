//! The cluster changes while extenders think.

use expect_test::expect;

use super::check;

#[test]
fn a_change_that_leaves_the_question_as_it_was_does_not_matter() {
    check(
        "0 extender e filter
         0 node a cpu=4
         0 node b cpu=2
         0 pod p cpu=2
         1 node a cpu=5
         1 node c cpu=1
         2 reply e p pass=a",
        expect![[r#"
            0s ask e for p: filter a b
            2s p #1 -> a
            2s bind p to a
        "#]],
    );
}

#[test]
fn extenders_are_asked_again_about_other_nodes() {
    check(
        "0 extender e filter
         0 extender f filter
         0 node a cpu=2
         0 node b cpu=2
         0 pod p cpu=2
         1 delete node b
         2 reply e p pass=b+a
         3 reply e p pass=a
         4 node c cpu=2
         5 reply f p pass=a
         6 reply e p pass=c+a
         7 reply f p pass=c",
        expect![[r#"
            0s ask e for p: filter a b
            2s ask e for p: filter a
            3s ask f for p: filter a
            5s ask e for p: filter a c
            6s ask f for p: filter a c
            7s p #1 -> c
            7s bind p to c
        "#]],
    );
}

#[test]
fn ranks_are_asked_for_again_only_if_other_nodes_are_left() {
    check(
        "0 extender e filter prioritize
         0 node a cpu=2
         0 node b cpu=2
         0 pod p cpu=2
         1 reply e p pass=a+b
         2 node c cpu=2
         3 reply e p rank=a:0+b:1
         4 reply e p pass=a+b",
        expect![[r#"
            0s ask e for p: filter a b
            1s ask e for p: rank a b
            3s ask e for p: filter a b c
            4s p #1 -> b
            4s bind p to b
        "#]],
    );
}

#[test]
fn when_the_nodes_keep_changing_those_count_that_were_asked_about_and_still_fit() {
    check(
        "0 extender e filter
         0 node a cpu=2
         0 node b cpu=2
         0 pod p cpu=2
         1 node c cpu=2
         1 reply e p pass=a+b
         2 node d cpu=2
         2 reply e p pass=a+b
         3 delete node a
         3 reply e p pass=a+b+d no=c:busy",
        expect![[r#"
            0s ask e for p: filter a b
            1s ask e for p: filter a b c
            2s ask e for p: filter a b c d
            3s p #1 -> b
            3s bind p to b
        "#]],
    );
}

#[test]
fn a_pod_is_not_unschedulable_because_nobody_was_asked_about_a_node() {
    check(
        "0 extender e filter
         0 node a cpu=2
         0 pod p cpu=2 oust=yes prio=5
         1 node b cpu=2
         1 reply e p pass=a
         2 node c cpu=2
         2 reply e p pass=a
         3 delete node a
         3 node d cpu=2
         3 reply e p pass=a no=b:busy+c:busy
         9 reply e p pass=d",
        expect![[r#"
            0s ask e for p: filter a
            1s ask e for p: filter a b
            2s ask e for p: filter a b c
            3s p #1 error: feasible nodes changed faster than extender "e" answered
            5s ask e for p: filter d b c
            9s p #2 -> d
            9s bind p to d
        "#]],
    );
}

#[test]
fn nodes_that_were_asked_about_and_rejected_are_told_even_late() {
    check(
        "0 extender e filter
         0 node a cpu=2
         0 node b cpu=2
         0 pod p cpu=2
         1 node c cpu=2
         1 reply e p pass=a
         2 node d cpu=2
         2 reply e p pass=a
         3 delete node a
         3 reply e p pass=a no=b:busy+c:busy never=d:banned
         9 wait",
        expect![[r#"
            0s ask e for p: filter a b
            1s ask e for p: filter a b c
            2s ask e for p: filter a b c d
            3s p #1 !! 0/3 nodes are available: 1 banned, 2 busy.
            3s ask e for p: filter b c d
        "#]],
    );
}

#[test]
fn a_node_that_is_gone_when_the_answer_comes_is_not_chosen() {
    check(
        "0 extender e filter
         0 node a cpu=2
         0 pod p cpu=2
         1 delete node a
         2 reply e p pass=a
         3 node b cpu=2
         4 reply e p pass=b",
        expect![[r#"
            0s ask e for p: filter a
            2s p #1 !! no nodes available to schedule pods
            3s ask e for p: filter b
            4s p #2 -> b
            4s bind p to b
        "#]],
    );
}
