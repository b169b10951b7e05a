//! Which pods wait for extenders, and for how long.

use expect_test::expect;

use super::check;

#[test]
fn a_slow_extender_delays_only_the_pods_that_need_it() {
    check(
        "0 extender slow filter manages=gpu
         0 node a cpu=9
         0 pod p cpu=1 gpu=yes
         0 pod q cpu=1
         0 pod r cpu=1 gpu=yes
         5 pod s cpu=1
         30 reply slow p pass=a
         40 reply slow r pass=a",
        expect![[r#"
            0s ask slow for p: filter a
            0s q #1 -> a
            0s bind q to a
            5s s #1 -> a
            5s bind s to a
            30s p #1 -> a
            30s bind p to a
            30s ask slow for r: filter a
            40s r #1 -> a
            40s bind r to a
        "#]],
    );
}

#[test]
fn pods_wait_for_their_turn_in_the_order_of_the_queue() {
    check(
        "0 extender e filter
         0 node a cpu=9
         0 pod first cpu=1
         1 pod late cpu=1
         2 pod early cpu=1 prio=5
         3 reply e first pass=a
         4 reply e early pass=a
         5 reply e late pass=a",
        expect![[r#"
            0s ask e for first: filter a
            3s first #1 -> a
            3s bind first to a
            3s ask e for early: filter a
            4s early #1 -> a
            4s bind early to a
            4s ask e for late: filter a
            5s late #1 -> a
            5s bind late to a
        "#]],
    );
}

#[test]
fn pods_in_backoff_do_not_overtake_those_that_wait_for_their_turn() {
    check(
        "0 extender e filter
         0 node a cpu=2
         0 pod p cpu=1 prio=5
         1 reply e p pass= no=a:busy
         1 pod q cpu=1
         1 pod r cpu=1
         1 namespace k=v
         1 reply e q pass= no=a:busy
         1 reply e r pass= no=a:busy
         9 wait",
        expect![[r#"
            0s ask e for p: filter a
            1s p #1 !! 0/1 nodes are available: 1 busy.
            1s ask e for q: filter a
            1s q #1 !! 0/1 nodes are available: 1 busy.
            1s ask e for r: filter a
            1s r #1 !! 0/1 nodes are available: 1 busy.
            1s ask e for p: filter a
        "#]],
    );
}

#[test]
fn a_pod_is_decided_as_things_are_when_its_turn_comes() {
    check(
        "0 extender e filter
         0 node a cpu=2 zone=x
         0 pod first cpu=1 zone=x
         0 pod second cpu=2
         1 node b cpu=2
         2 pod second cpu=1
         3 reply e first pass=a
         4 reply e second pass=b",
        expect![[r#"
            0s ask e for first: filter a
            3s first #1 -> a
            3s bind first to a
            3s ask e for second: filter a b
            4s second #1 -> b
            4s bind second to b
        "#]],
    );
}

#[test]
fn the_turn_of_a_pod_that_is_gone_passes_to_the_next() {
    check(
        "0 extender e filter
         0 node a cpu=9
         0 pod p cpu=1
         0 pod q cpu=1
         0 pod r cpu=1
         0 pod s cpu=1 uid=1
         1 delete pod q
         2 delete pod p
         3 pod r cpu=1 on=a
         4 pod s cpu=1 uid=1 leaves=yes
         5 reply e p pass=a
         6 reply e s pass=a
         7 pod t cpu=1",
        expect![[r#"
            0s ask e for p: filter a
            2s ask e for r: filter a
            3s ask e for s: filter a
            7s ask e for t: filter a
        "#]],
    );
}

#[test]
fn a_pod_hears_of_what_happens_while_it_is_decided() {
    check(
        "0 extender e filter
         0 node a cpu=2
         0 pod p cpu=2
         1 node b cpu=1
         2 reply e p pass= no=a:busy
         9 reply e p pass=a",
        expect![[r#"
            0s ask e for p: filter a
            2s p #1 !! 0/2 nodes are available: 1 Insufficient cpu, 1 busy.
            2s ask e for p: filter a
            9s p #2 -> a
            9s bind p to a
        "#]],
    );
}

#[test]
fn a_pod_that_cannot_be_placed_gives_its_turn_away_at_once() {
    check(
        "0 extender e filter
         0 node a cpu=2
         0 pod p cpu=1
         0 pod q cpu=9
         0 pod r cpu=1
         1 reply e p pass=a
         2 reply e r pass=a",
        expect![[r#"
            0s ask e for p: filter a
            1s p #1 -> a
            1s bind p to a
            1s q #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s ask e for r: filter a
            2s r #1 -> a
            2s bind r to a
        "#]],
    );
}
