//! The scheduling cycle, with plugins whose verdicts are plain to see.

use expect_test::expect;

use super::check;

#[test]
fn without_nodes_the_text_says_so() {
    check(
        "0 pod p",
        expect![[r#"
            0s p #1 !! no nodes available to schedule pods
        "#]],
    );
}

#[test]
fn the_text_counts_every_reason() {
    check(
        "0 node a cpu=1
         0 node b cpu=1
         0 node c cpu=9 zone=x
         0 pod p cpu=2 zone=y",
        expect![[r#"
            0s p #1 !! 0/3 nodes are available: 1 wrong zone, 2 Insufficient cpu.
        "#]],
    );
}

#[test]
fn a_plugin_that_cannot_judge_makes_it_an_error() {
    check(
        "0 node a cpu=1
         0 pod p broken=yes",
        expect![[r#"
            0s p #1 error: running "Broken" filter plugin: cannot judge
        "#]],
    );
}

#[test]
fn of_equal_nodes_the_smallest_name_is_taken() {
    check(
        "0 node b cpu=1
         0 node a cpu=1
         0 pod p cpu=1",
        expect![[r#"
            0s p #1 -> a
            0s bind p to a
        "#]],
    );
}
