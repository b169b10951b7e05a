//! Which node is chosen, and which victims.

use plimsoll_api::{PodTemplate, Timestamp};
use plimsoll_testkit::{Expect, check_among, expect};

use super::*;
use crate::node_resources_fit;

/// What the plugin answers after NodeResourcesFit has rejected the nodes.
fn check(scenario: &str, expected: &Expect) {
    check_among(&[node_resources_fit::entry()], entry(), scenario, expected);
}

#[test]
fn only_as_many_pods_go_as_have_to_and_the_least_important_first() {
    check(
        r#"
        node n {"allocatable": {"cpu": "3"}}
        pod one on n {"priority": 1, "requests": {"cpu": "1"}}
        pod two on n {"priority": 0, "requests": {"cpu": "2"}}
        pod p {"priority": 5, "requests": {"cpu": "2"}}
        "#,
        &expect![[r#"
            p nominates n without two
        "#]],
    );
}

#[test]
fn pods_of_the_same_or_a_higher_priority_stay() {
    check(
        r#"
        node n {"allocatable": {"cpu": "2"}}
        node m {"allocatable": {"cpu": "2"}}
        pod same on n {"priority": 5, "requests": {"cpu": "2"}}
        pod higher on m {"priority": 6, "requests": {"cpu": "2"}}
        pod p {"priority": 5, "requests": {"cpu": "2"}}
        "#,
        &expect![[r#"
            p is hopeless: preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.
        "#]],
    );
}

#[test]
fn where_even_an_empty_node_is_too_small_nothing_helps() {
    check(
        r#"
        node n {"allocatable": {"cpu": "2"}}
        node m {"allocatable": {"cpu": "4"}}
        pod low on m {"requests": {"cpu": "1"}}
        pod high on m {"priority": 9, "requests": {"cpu": "2"}}
        pod p {"priority": 5, "requests": {"cpu": "3"}}
        "#,
        &expect![[r#"
            p is hopeless: preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 Preemption is not helpful for scheduling.
        "#]],
    );
}

#[test]
fn a_pod_that_must_not_evict_does_not() {
    check(
        r#"
        node n {"allocatable": {"cpu": "2"}}
        pod low on n {"requests": {"cpu": "2"}}
        pod p {"priority": 5, "preemptionPolicy": "Never", "requests": {"cpu": "2"}}
        "#,
        &expect![[r#"
            p is unschedulable: preemption: not eligible due to preemptionPolicy=Never.
        "#]],
    );
}

#[test]
fn a_node_whose_victims_break_no_budget_is_preferred() {
    check(
        r#"
        node a {"allocatable": {"cpu": "2"}}
        node b {"allocatable": {"cpu": "2"}}
        pdb guard app=db {"allowed": 0}
        pod guarded app=db on a {"requests": {"cpu": "2"}}
        pod free on b {"priority": 3, "requests": {"cpu": "2"}}
        pod p {"priority": 5, "requests": {"cpu": "2"}}
        "#,
        &expect![[r#"
            p nominates b without free
        "#]],
    );
}

#[test]
fn among_equal_budgets_the_lowest_priority_goes_and_then_the_fewest_pods() {
    check(
        r#"
        node a {"allocatable": {"cpu": "2"}}
        node b {"allocatable": {"cpu": "2"}}
        node c {"allocatable": {"cpu": "2"}}
        pod a1 on a {"priority": 2, "requests": {"cpu": "2"}}
        pod b1 on b {"priority": 1, "requests": {"cpu": "1"}}
        pod b2 on b {"priority": 1, "requests": {"cpu": "1"}}
        pod c1 on c {"priority": 1, "requests": {"cpu": "2"}}
        pod p {"priority": 5, "requests": {"cpu": "2"}}
        "#,
        &expect![[r#"
            p nominates c without c1
        "#]],
    );
}

#[test]
fn among_equal_victims_the_one_that_started_last_goes() {
    check(
        r#"
        node a {"allocatable": {"cpu": "2"}}
        node b {"allocatable": {"cpu": "2"}}
        pod old on a {"requests": {"cpu": "2"}, "status": {"startTime": "2026-01-01T00:00:00Z"}}
        pod young on b {"requests": {"cpu": "2"}, "status": {"startTime": "2026-02-01T00:00:00Z"}}
        pod p {"priority": 5, "requests": {"cpu": "2"}}
        "#,
        &expect![[r#"
            p nominates b without young
        "#]],
    );
}

#[test]
fn of_the_nodes_that_extenders_leave_the_one_with_the_least_harm_is_taken() {
    let victim = |name: &str, priority| {
        let template = PodTemplate { priority, ..PodTemplate::default() };
        PodInfo::new(Pod::new(PodKey::new("default", name), template))
    };
    let candidate_nodes = |node: &str, broken_budgets, victims: &[&PodInfo]| CandidateNode {
        node: node.into(),
        victims: victims.iter().copied().cloned().collect(),
        broken_budgets,
    };
    let (low, high) = (victim("low", 1), victim("high", 3));
    let going = Pod { deletion: Some(Timestamp::default()), ..Pod::clone(&low) };
    let left = [
        candidate_nodes("a", 1, &[&low]),
        candidate_nodes("b", 0, &[&low, &high]),
        candidate_nodes("d", 0, &[&low, &PodInfo::new(going)]),
        candidate_nodes("c", 0, &[&low, &low]),
    ];
    let gates = FeatureGates::of(Release::V1_36);
    let plugin = DefaultPreemption::new(DefaultPreemptionArgs::default(), &gates);
    let answer = |left: &[CandidateNode]| plugin.choose_candidate_node(&victim("p", 5), Ok(left));
    // Extenders return victims in any order: the most important one on `b` is the second.
    let nominated = |node: &str, victims: &[&str]| {
        let victims = victims.iter().map(|name| PodKey::new("default", *name)).collect();
        PostFilterAnswer::Nominated(Nomination {
            node: node.into(),
            victims,
            broken_budgets: 0,
            says: "".into(),
        })
    };
    assert_eq!(answer(&left), nominated("c", &["low", "low"]));
    assert_eq!(answer(&left[..3]), nominated("d", &["low"]));
    assert_eq!(answer(&left[..2]), nominated("b", &["low", "high"]));
    let none = NO_CANDIDATE;
    assert_eq!(answer(&[]), PostFilterAnswer::Unschedulable(none.into()));
    let failed = plugin.choose_candidate_node(&victim("p", 5), Err("no answer"));
    assert_eq!(failed, PostFilterAnswer::Error("preemption: no answer".to_owned().into()));
}

#[test]
fn nobody_else_is_evicted_while_victims_are_going() {
    check(
        r#"
        node n {"allocatable": {"cpu": "2"}}
        pod low on n {"requests": {"cpu": "2"}, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"conditions": [{"type": "DisruptionTarget", "status": "True",
            "reason": "PreemptionByScheduler"}]}}
        pod p {"priority": 5, "requests": {"cpu": "2"}, "status": {"nominatedNodeName": "n"}}
        "#,
        &expect![[r#"
            p is unschedulable: preemption: not eligible due to a terminating pod on the nominated node.
        "#]],
    );
}

#[test]
fn enough_nodes_are_a_share_of_them_and_at_least_a_number() {
    let args = DefaultPreemptionArgs::default();
    let plugin = DefaultPreemption::new(args, &FeatureGates::default());
    let enough: Vec<_> = [50, 100, 1000, 5000].map(|n| plugin.enough(n)).into();
    assert_eq!(enough, [50, 100, 100, 500]);
}

#[test]
fn a_pod_is_told_of_the_node_that_is_cleared_for_it_since_1_37() {
    let says = |release, n_victims| Success::of(release).says("m02", n_victims).to_string();
    assert_eq!(says(Release::V1_36, 1), "");
    assert_eq!(
        says(Release::V1_37, 1),
        "preemption: found a potential placement for pod on node m02, preempting 1 victims"
    );
    let victims =
        [0, 1].map(|priority| PodInfo::new(PodTemplate { priority, ..PodTemplate::default() }));
    assert_eq!(cost(0, &victims).0[N_VICTIMS], 2);
}
