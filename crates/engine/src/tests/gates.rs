//! Gates that change what the engine does, on and off.

use expect_test::expect;
use plimsoll_framework::FeatureGates;

use super::lab::Lab;
use super::{flush_left, play};
use crate::{Gates, Options};

/// Runs a script with all gates on, and with all off.
fn check(script: &str, on: expect_test::Expect, off: expect_test::Expect) {
    let none = Gates {
        pops_from_backoff: false,
        preempts_async: false,
        says_expected_node: false,
        ..Gates::default()
    };
    for (gates, expected) in [(Gates::default(), on), (none, off)] {
        let mut lab = Lab::new(Options { gates, ..Options::default() });
        play(&mut lab, script);
        expected.assert_eq(&flush_left(&lab.trace()));
    }
}

#[test]
fn pods_are_tried_before_their_backoff_is_over_only_by_a_gate() {
    check(
        "0 node a cpu=1
         1 pod p cpu=2
         2 node b cpu=2
         9 wait",
        expect![[r#"
            1s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            2s p #2 -> b
            2s bind p to b
        "#]],
        expect![[r#"
            1s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            3s p #2 -> b
            3s bind p to b
        "#]],
    );
}

#[test]
fn a_pod_is_kept_out_until_its_victims_have_been_told_to_go_only_by_a_gate() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         0 evictions hang
         1 pod high cpu=2 prio=5 oust=yes
         4 node b cpu=2
         20 answer high ok",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            20s high #2 -> b
            20s bind high to b
        "#]],
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            4s high #2 -> b
            4s bind high to b
        "#]],
    );
}

#[test]
fn a_pod_whose_victims_cannot_be_evicted_keeps_its_nomination_until_it_is_tried_again_only_by_a_gate()
 {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         0 evictions fail
         1 pod high cpu=2 prio=5 oust=yes
         9 wait",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            3s high #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            3s nominate high to nothing
            3s high #3 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
        "#]],
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            1s nominate high to nothing
            3s high #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
        "#]],
    );
}

#[test]
fn a_pod_whose_victims_are_never_answered_for_loses_its_nomination_at_once_only_without_a_gate() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         0 evictions hang
         1 pod high cpu=2 prio=5 oust=yes
         65 wait",
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            61s high #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            61s nominate high to nothing
            61s high #3 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
        "#]],
        expect![[r#"
            0s low #1 -> a
            0s bind low to a
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            61s nominate high to nothing
            61s high #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
        "#]],
    );
}

#[test]
fn every_gate_is_asked_by_its_name() {
    let without = |name: &str| Gates::of(&FeatureGates::default().with(name, false));
    let usual = Gates::default();
    for (name, expected) in [
        ("SchedulerPopFromBackoffQ", Gates { pops_from_backoff: false, ..usual }),
        ("SchedulerAsyncPreemption", Gates { preempts_async: false, ..usual }),
        ("NominatedNodeNameForExpectation", Gates { says_expected_node: false, ..usual }),
        ("PodLevelResources", Gates { pod_level_resources: false, ..usual }),
        ("InPlacePodLevelResourcesVerticalScaling", Gates { pod_level_resize: false, ..usual }),
        ("StorageCapacityScoring", usual),
    ] {
        assert_eq!(without(name), expected, "{name}");
    }
}

#[test]
fn a_pod_says_where_it_will_be_while_it_waits_at_permit_only_by_a_gate() {
    check(
        "0 node a cpu=2
         1 pod p cpu=2 permit=wait
         2 pod other cpu=1 prio=-1
         5 allow p Group
         9 wait",
        expect![[r#"
            1s p #1 -> a
            1s nominate p to a
            2s other #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            5s bind p to a
        "#]],
        expect![[r#"
            1s p #1 -> a
            2s other #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            5s bind p to a
        "#]],
    );
}
