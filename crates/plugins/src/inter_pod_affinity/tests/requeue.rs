use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;
use plimsoll_testkit::{Cluster, Scenario};

use super::{entry, parsed};

fn points() -> Points {
    entry().make(None, &FeatureGates::default()).expect("the defaults are right")
}

fn hint(scenario: &Scenario, pod: &PodInfo, object: Object<'_>) -> Hint {
    let cluster = Cluster::of(scenario);
    let event = ClusterEvent::of::<Pod>(Action::all());
    let change = Change { event, object, view: cluster.view() };
    points().requeue.expect("the plugin has hints").hint(pod, &change)
}

/// The hint for a pod, written without its name, after another pod changed from `before` to `after`; an
/// empty text means that it does not exist.
fn after_pod(pod: &str, before: &str, after: &str) -> Hint {
    let other = |name: &str, words: &str| match words {
        "" => String::new(),
        words => format!("pod {name} {words} on a\n"),
    };
    let (before, after) = (other("before", before), other("after", after));
    let scenario = parsed(&format!("namespace ns n=1\nnode a\npod p {pod}\n{before}{after}"));
    let named = |name: &str| scenario.placed.iter().find(|pod| pod.key.name == name);
    let object = Object::Assigned { before: named("before"), after: named("after"), row: None };
    hint(&scenario, &scenario.pending[0], object)
}

/// The same after the labels of a node changed from `before` to `after`.
fn after_node(pod: &str, before: Option<&str>, after: &str) -> Hint {
    let scenario = |labels: &str| parsed(&format!("node a {labels}\npod p {pod}"));
    let now = scenario(after);
    let before = before.map(scenario);
    let before = before.as_ref().map(|scenario| &scenario.nodes[0]);
    hint(&now, &now.pending[0], Object::Node { before, after: Some(Row::from_index(0)) })
}

#[test]
fn a_pod_helps_if_it_comes_to_be_wanted() {
    let pod = "wants:zone:app=db wants:zone:tier=back";
    for (before, after, expected) in [
        ("", "app=db tier=back", Hint::Queue),
        ("", "app=db", Hint::Skip),
        ("app=db", "app=db tier=back", Hint::Queue),
        ("app=db tier=back", "app=db tier=back gen=2", Hint::Skip),
        ("app=db tier=back", "app=db", Hint::Skip),
        ("app=db tier=back", "", Hint::Skip),
    ] {
        assert_eq!(after_pod(pod, before, after), expected, "from {before:?} to {after:?}");
    }
}

#[test]
fn a_pod_helps_if_it_ceases_to_be_shunned() {
    let pod = "shuns:zone:app=db";
    for (before, after, expected) in [
        ("", "app=db", Hint::Skip),
        ("app=web", "app=db", Hint::Skip),
        ("app=db", "app=web", Hint::Queue),
        ("app=db", "app=db gen=2", Hint::Skip),
        ("app=db", "", Hint::Queue),
        ("app=web", "", Hint::Skip),
    ] {
        assert_eq!(after_pod(pod, before, after), expected, "from {before:?} to {after:?}");
    }
}

#[test]
fn a_pod_that_shunned_the_other_helps_when_it_goes() {
    assert_eq!(after_pod("app=p", "app=db shuns:zone:app=p", ""), Hint::Queue);
    assert_eq!(after_pod("app=p", "app=db shuns:zone:app=q", ""), Hint::Skip);
    assert_eq!(after_pod("app=p", "shuns:zone:app=p", "gen=2 shuns:zone:app=p"), Hint::Skip);
}

#[test]
fn of_several_anti_affinity_terms_one_that_no_longer_matters_is_enough() {
    let pod = "app=p shuns:zone:app=db shuns:zone:tier=back";
    assert_eq!(after_pod(pod, "app=db tier=back", ""), Hint::Queue);
    assert_eq!(after_pod(pod, "app=db", ""), Hint::Queue);
    assert_eq!(after_pod(pod, "app=db tier=back", "tier=back"), Hint::Queue);
    assert_eq!(after_pod(pod, "app=web", ""), Hint::Skip);
}

#[test]
fn a_pod_that_wants_its_own_kind_may_be_the_first_when_the_last_of_them_goes() {
    let pod = "app=db wants:zone:app=db";
    assert_eq!(after_pod(pod, "app=db", ""), Hint::Queue);
    assert_eq!(after_pod(pod, "app=db", "app=web"), Hint::Queue);
    assert_eq!(after_pod("app=web wants:zone:app=db", "app=db", ""), Hint::Skip);
    assert_eq!(after_node(pod, Some("zone=z1"), "rack=r1"), Hint::Queue);
}

#[test]
fn terms_that_select_namespaces_by_labels_are_asked_with_those() {
    assert_eq!(after_pod("wants:zone:app=db@*", "", "app=db"), Hint::Queue);
    let selected = "wants:zone:app=db@kubernetes.io/metadata.name=default";
    assert_eq!(after_pod(selected, "", "app=db"), Hint::Queue);
    let other = "wants:zone:app=db@kubernetes.io/metadata.name=ns";
    assert_eq!(after_pod(other, "", "app=db"), Hint::Skip);
}

#[test]
fn a_node_helps_affinity_if_it_comes_to_a_domain() {
    let pod = "wants:zone:app=db";
    for (before, after, expected) in [
        (None, "zone=z1", Hint::Queue),
        (None, "rack=r1", Hint::Skip),
        (Some("rack=r1"), "rack=r2", Hint::Skip),
        (Some("zone=z1"), "zone=z1 rack=r1", Hint::Skip),
        (Some("zone=z1"), "zone=z2", Hint::Queue),
        (Some("rack=r1"), "zone=z1", Hint::Queue),
        (Some("zone=z1"), "rack=r1", Hint::Skip),
    ] {
        assert_eq!(after_node(pod, before, after), expected, "from {before:?} to {after:?}");
    }
}

#[test]
fn a_node_helps_anti_affinity_if_it_is_new_or_leaves_a_domain() {
    let pod = "shuns:zone:app=db";
    for (before, after, expected) in [
        (None, "zone=z1", Hint::Queue),
        (None, "", Hint::Queue),
        (Some("zone=z1"), "zone=z1 rack=r1", Hint::Skip),
        (Some("zone=z1"), "zone=z2", Hint::Queue),
        (Some("rack=r1"), "zone=z1", Hint::Skip),
        (Some("zone=z1"), "rack=r1", Hint::Queue),
    ] {
        assert_eq!(after_node(pod, before, after), expected, "from {before:?} to {after:?}");
    }
}

#[test]
fn a_node_helps_against_the_terms_of_others_if_it_is_new_or_leaves_their_domain() {
    assert_eq!(after_node("app=p", None, "zone=z1"), Hint::Queue);
    let after = |labels: &str, other: &str| {
        let scenario =
            |labels: &str| parsed(&format!("node a {labels}\npod p app=p\npod other {other} on a"));
        let (before, now) = (scenario("zone=z1"), scenario(labels));
        let before = Some(&before.nodes[0]);
        hint(&now, &now.pending[0], Object::Node { before, after: Some(Row::from_index(0)) })
    };
    assert_eq!(after("zone=z2", "shuns:zone:app=p"), Hint::Queue);
    assert_eq!(after("zone=z1 rack=r1", "shuns:zone:app=p"), Hint::Skip);
    assert_eq!(after("zone=z2", "shuns:zone:app=q"), Hint::Skip);
}

#[test]
fn a_node_that_goes_may_have_held_what_kept_the_pod_out_of_its_domain() {
    let scenario = parsed("node a zone=z1\npod p app=p");
    let object = Object::Node { before: Some(&scenario.nodes[0]), after: None };
    assert_eq!(hint(&scenario, &scenario.pending[0], object), Hint::Queue);
}

#[test]
fn a_pod_whose_own_labels_changed_is_tried_again() {
    let scenario = parsed("node a\npod before app=p\npod p app=q");
    let [before, pod] = &scenario.pending[..] else { panic!("there are two") };
    assert_eq!(hint(&scenario, pod, Object::Itself { before }), Hint::Queue);
}

#[test]
fn the_plugin_hears_of_more_events_than_in_kube_scheduler() {
    let events = points().requeue.expect("the plugin has hints").events().to_vec();
    assert_eq!(
        events,
        [
            ClusterEvent::of::<Pod>(Action::ADD | Action::DELETE | Action::UPDATE_POD_LABEL),
            ClusterEvent::of::<Node>(Action::ADD | Action::DELETE | Action::UPDATE_NODE_LABEL),
            ClusterEvent::of::<Namespace>(Action::all()),
        ]
    );
}
