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
fn where_all_filters_run_the_reasons_of_all_are_told() {
    check(
        "0 node a cpu=1
         0 node b cpu=9
         0 node c cpu=1 zone=y
         0 pod p cpu=2 zone=y
         0 pod q cpu=2 zone=y for=thorough-lab
         0 pod r cpu=2 zone=y broken=yes for=thorough-lab
         0 node d cpu=2 zone=y",
        expect![[r#"
            0s p #1 !! 0/3 nodes are available: 1 wrong zone, 2 Insufficient cpu.
            0s q #1 !! 0/3 nodes are available: 2 Insufficient cpu, 2 wrong zone.
            0s r #1 error: running "Broken" filter plugin: cannot judge
            0s p #2 -> d
            0s bind p to d
            0s q #2 !! 0/4 nodes are available: 2 wrong zone, 3 Insufficient cpu.
        "#]],
    );
}

#[test]
fn nominated_pods_count_where_all_filters_run() {
    check(
        "0 node a cpu=4
         0 evictions linger
         0 pod small cpu=4 on=a
         0 pod big cpu=4 prio=9 oust=yes
         0 pod p cpu=4 zone=y for=thorough-lab",
        expect![[r#"
            0s big #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            0s evict small for big
            0s nominate big to a
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu, 1 wrong zone.
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

#[test]
fn nodes_that_a_plugin_does_not_name_are_not_judged() {
    check(
        "0 node a cpu=1
         0 node b cpu=1
         0 node c cpu=1
         0 pod p cpu=2 only=b+unknown
         0 pod q cpu=1 only=b+c also=c",
        expect![[r#"
            0s p #1 !! 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [Only].
            0s q #1 -> c
            0s bind q to c
        "#]],
    );
}

#[test]
fn plugins_that_together_leave_no_node_reject_the_pod_at_once() {
    check(
        "0 node a cpu=1
         0 node b cpu=1
         0 pod p cpu=1 only=a also=b
         0 pod q cpu=1 only=",
        expect![[r#"
            0s p #1 !! 0/2 nodes are available: node(s) didn't satisfy plugin(s) [Also Only] simultaneously.
            0s q #1 !! 0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [Only].
        "#]],
    );
}

#[test]
fn all_plugins_that_left_no_node_are_to_blame() {
    // The last to narrow is Also, which reads annotations; Only hears of labels.
    check(
        "0 node a cpu=1
         0 node b cpu=1
         0 pod p cpu=1 only=a also=b
         20 pod p cpu=1 only=b also=b",
        expect![[r#"
            0s p #1 !! 0/2 nodes are available: node(s) didn't satisfy plugin(s) [Also Only] simultaneously.
            20s p #2 -> b
            20s bind p to b
        "#]],
    );
}

#[test]
fn a_rejection_for_all_nodes_is_told_once() {
    check(
        "0 node a cpu=1
         0 node b cpu=1
         0 pod now refuse=now
         0 pod always refuse=always
         0 pod error refuse=error",
        expect![[r#"
            0s now #1 !! 0/2 nodes are available: refused for now.
            0s always #1 !! 0/2 nodes are available: refused for good.
            0s error #1 error: running PreFilter plugin "Refuse": cannot look
        "#]],
    );
}

#[test]
fn what_post_filter_plugins_say_is_joined_until_one_stops() {
    check(
        "0 node a cpu=1
         0 pod two cpu=2 help-a=yes help-b=yes
         0 pod second cpu=2 help-b=yes
         0 pod stopped cpu=2 help-a=stop help-b=yes
         0 pod late cpu=2 help-a=yes help-b=stop",
        expect![[r#"
            0s two #1 !! 0/1 nodes are available: 1 Insufficient cpu. help-a is no help, help-b is no help
            0s second #1 !! 0/1 nodes are available: 1 Insufficient cpu. help-b is no help
            0s stopped #1 !! 0/1 nodes are available: 1 Insufficient cpu. nobody can help
            0s late #1 !! 0/1 nodes are available: 1 Insufficient cpu. nobody can help
        "#]],
    );
}

#[test]
fn an_error_at_post_filter_leaves_the_pod_unschedulable() {
    check(
        "0 node a cpu=1
         0 pod p cpu=2 help-a=yes help-b=error
         9 wait",
        expect![[r#"
            0s p #1 !! postfilter error: cannot help
        "#]],
    );
}

#[test]
fn a_what_if_after_a_rejection_for_all_nodes_judges_with_the_filters() {
    check(
        "0 node a cpu=1
         0 node b cpu=1
         0 pod p cpu=1 refuse=now help-a=judge",
        expect![[r#"
            0s p #1 !! 0/2 nodes are available: refused for now. 0 of 2 pass
        "#]],
    );
}

#[test]
fn a_score_out_of_range_is_an_error() {
    check(
        "0 node a cpu=1
         0 node b cpu=1 zone=x
         0 pod p cpu=1 likes=x
         0 pod q likes=too-much",
        expect![[r#"
            0s p #1 -> b
            0s bind p to b
            0s q #1 error: applying score defaultWeights on Score plugins: plugin "Like" returns an invalid score 101, it should in the range of [0, 100] after normalizing
        "#]],
    );
}

#[test]
fn a_pod_that_cannot_be_scored_is_placed_only_where_nothing_has_to_be_scored() {
    check(
        "0 node a cpu=1
         0 node b cpu=2
         0 pod p likes=nonsense
         0 pod q cpu=2 likes=nonsense
         1 pod r cpu=1 likes=nonsense",
        expect![[r#"
            0s p #1 error: running Score plugins: plugin "Like" failed with: cannot be read
            0s q #1 -> b
            0s bind q to b
            1s r #1 -> a
            1s bind r to a
        "#]],
    );
}

#[test]
fn each_pod_is_placed_by_the_profile_that_its_scheduler_name_says() {
    // The other profile does not count CPUs.
    check(
        "0 node a cpu=1
         0 pod p cpu=2
         0 pod q cpu=2 for=other-lab
         0 pod r cpu=2 for=nobody",
        expect![[r#"
            0s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            0s q #1 -> a
            0s bind q to a
        "#]],
    );
}
