//! Groups of pods that are scheduled, broken in a way that is known: some proposal helps, and all of them work.

use plimsoll_advisor::{GroupRemedy, WhyGroup};
use plimsoll_framework::Release;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use crate::broken::container;
use crate::world::World;

const GROUP: &str = "train";

/// A way to break a group, or its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupBreak {
    Requests,
    NoRoom,
    Topology,
    Gates,
    MissingGroup,
    TooFewPods,
}

const BREAKS: [GroupBreak; 6] = [
    GroupBreak::Requests,
    GroupBreak::NoRoom,
    GroupBreak::Topology,
    GroupBreak::Gates,
    GroupBreak::MissingGroup,
    GroupBreak::TooFewPods,
];

fn member(number: usize) -> String {
    format!("{GROUP}-{number}")
}

/// A cluster in which the group has room, and the number of its pods.
fn cluster(rng: &mut impl Rng) -> (World, usize) {
    let mut world = World::default();
    let n_nodes = rng.random_range(4..8_usize);
    for node in 0..n_nodes {
        let labels = json!({
            "zone": (node % 2).to_string(), "rack": (node / 2).to_string(), "region": "r",
        });
        let allocatable = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
        world.node(&format!("node-{node}"), &labels, &allocatable);
    }
    let n_pods = rng.random_range(2..6_usize);
    let spec = json!({"schedulingPolicy": {"gang": {"minCount": n_pods}}, "priority": 10});
    world.add(json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": GROUP, "namespace": "default", "uid": GROUP}, "spec": spec,
    }));
    for number in 0..n_pods {
        let mut spec = container(1500, 512);
        spec["priority"] = json!(10);
        spec["schedulingGroup"] = json!({"podGroupName": GROUP});
        world.pod(&member(number), &json!({}), &spec);
        world.get_mut("Pod", &member(number))["metadata"]["uid"] = json!(member(number));
    }
    (world, n_pods)
}

fn break_it(world: &mut World, n_pods: usize, how: GroupBreak, rng: &mut impl Rng) {
    match how {
        GroupBreak::Requests => {
            for number in 0..n_pods {
                let spec = &mut world.get_mut("Pod", &member(number))["spec"];
                spec["containers"][0]["resources"]["requests"]["cpu"] = json!("6");
            }
        }
        GroupBreak::NoRoom => {
            for node in 0..8 {
                let name = format!("node-{node}");
                if !world.has("Node", &name) {
                    continue;
                }
                for number in 0..2 {
                    let mut spec = container(1800, 128);
                    spec["nodeName"] = json!(name);
                    spec["priority"] = json!(10 * rng.random_range(1..3));
                    world.pod(&format!("old-{node}-{number}"), &json!({}), &spec);
                }
            }
        }
        GroupBreak::Topology => {
            for number in 0..n_pods {
                let spec = &mut world.get_mut("Pod", &member(number))["spec"];
                spec["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
            }
            let group = &mut world.get_mut("PodGroup", GROUP)["spec"];
            group["schedulingConstraints"] =
                json!({"topology": [{"key": "kubernetes.io/hostname"}]});
        }
        GroupBreak::Gates => {
            let spec = &mut world.get_mut("Pod", &member(0))["spec"];
            spec["schedulingGates"] = json!([{"name": "a.example/b"}]);
            // A gang that waits for this pod.
        }
        GroupBreak::MissingGroup => world.remove("PodGroup", GROUP),
        GroupBreak::TooFewPods => {
            let group = &mut world.get_mut("PodGroup", GROUP)["spec"];
            group["schedulingPolicy"]["gang"]["minCount"] = json!(n_pods + 1);
        }
    }
}

fn texts(why: &WhyGroup) -> Vec<&str> {
    why.remedies.iter().map(|remedy| remedy.text.as_str()).collect()
}

fn check_all(world: &World, why: &WhyGroup, of: &str) {
    for remedy in &why.remedies {
        let placed = world.changed(&remedy.changes).group_placed(GROUP);
        assert_eq!(placed, Some(remedy.placed), "{of}: {remedy:#?}");
    }
}

#[test]
fn what_is_proposed_for_a_group_lets_it_be_scheduled() {
    let mut n_checked = 0;
    for seed in 0..120 {
        let rng = &mut Pcg64::seed_from_u64(seed);
        let (mut world, n_pods) = cluster(rng);
        if world.group_placed(GROUP) != Some(n_pods) {
            continue;
        }
        n_checked += 1;
        let how = BREAKS[rng.random_range(0..BREAKS.len())];
        break_it(&mut world, n_pods, how, rng);
        assert_eq!(world.group_placed(GROUP), None, "seed {seed}: {how:?} breaks it");
        let why = world.ask_group(GROUP);
        assert!(!why.remedies.is_empty(), "seed {seed}: {how:?} has a remedy: {why:#?}");
        check_all(&world, &why, &format!("seed {seed}: {how:?}"));
    }
    assert!(60 < n_checked, "most clusters have room: {n_checked}");
}

/// Two racks of two nodes, and a gang of four pods that needs both.
fn racks() -> World {
    let mut world = World::default();
    for (node, rack) in [("n1", "r1"), ("n2", "r1"), ("n3", "r2"), ("n4", "r2")] {
        let labels = json!({"rack": rack, "hall": "h"});
        let allocatable = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
        world.node(node, &labels, &allocatable);
    }
    world.add(json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": GROUP, "namespace": "default", "uid": GROUP},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 4}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
        },
    }));
    for number in 0..4 {
        let mut spec = container(3000, 128);
        spec["schedulingGroup"] = json!({"podGroupName": GROUP});
        world.pod(&member(number), &json!({}), &spec);
        world.get_mut("Pod", &member(number))["metadata"]["uid"] = json!(member(number));
    }
    world
}

fn find<'w>(why: &'w WhyGroup, text: &str) -> &'w GroupRemedy {
    let found = why.remedies.iter().find(|remedy| remedy.text == text);
    found.unwrap_or_else(|| panic!("no {text:?} in {:#?}", texts(why)))
}

#[test]
fn a_gang_that_no_rack_has_room_for_is_told_all_ways_out() {
    let world = racks();
    let why = world.ask_group(GROUP);
    assert_eq!((why.state, why.pending, why.running, why.placed), ("unschedulable", 4, 0, 0));
    assert_eq!(find(&why, "set minCount to 2 instead of 4").placed, 2);
    assert_eq!(find(&why, "keep the group in one hall instead of one rack").placed, 4);
    assert_eq!(find(&why, "drop the constraint that the group is in one rack").placed, 4);
    let more = find(&why, "add 2 nodes like n1");
    assert_eq!((more.placement.as_deref(), more.placed, more.pods), (Some("r1"), 4, 4));
    let less = find(&why, "request 1950m cpu instead of 3000m in 4 pods");
    assert!(less.changes.len() == 4, "{less:#?}");
    check_all(&world, &why, "two racks");
}

#[test]
fn a_group_that_is_scheduled_has_no_remedies() {
    let mut world = racks();
    world.get_mut("PodGroup", GROUP)["spec"]["schedulingConstraints"] = Value::Null;
    let why = world.ask_group(GROUP);
    assert_eq!((why.state, why.placed, why.remedies.len()), ("scheduled", 4, 0));
}

#[test]
fn asking_about_a_group_changes_nothing() {
    let world = racks();
    assert_eq!(world.ask_group(GROUP), world.ask_group(GROUP));
    assert_eq!(world.group_placed(GROUP), None);
}

#[test]
fn by_the_rules_of_1_37_a_group_is_decided_with_the_other_groups_of_its_tree() {
    let mut world = racks();
    world.add(json!({
        "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": {"name": "job", "namespace": "default", "uid": "job"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 2}}},
    }));
    let group = world.get_mut("PodGroup", GROUP);
    group["apiVersion"] = json!("scheduling.k8s.io/v1beta1");
    group["spec"] = json!({
        "schedulingPolicy": {"gang": {"minCount": 4}}, "parentCompositePodGroupName": "job",
    });
    world.add(json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "driver", "namespace": "default", "uid": "driver"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 1}}, "parentCompositePodGroupName": "job",
        },
    }));
    let mut spec = container(500, 128);
    spec["schedulingGroup"] = json!({"podGroupName": "driver"});
    world.pod("driver-0", &json!({}), &spec);
    let why = world.ask_group_under(Release::V1_37, GROUP);
    assert_eq!((why.state, why.pending, why.placed), ("scheduled", 4, 4), "{why:#?}");
}

#[test]
fn a_group_that_is_missing_is_created_as_the_release_serves_it_and_as_its_pods_need_it() {
    let mut world = racks();
    world.remove("PodGroup", GROUP);
    for number in 0..4 {
        world.get_mut("Pod", &member(number))["spec"]["priority"] = json!(10);
    }
    for (release, version, priority) in [
        (Release::V1_36, "scheduling.k8s.io/v1alpha2", Value::Null),
        (Release::V1_37, "scheduling.k8s.io/v1beta1", json!(10)),
    ] {
        let why = world.ask_group_under(release, GROUP);
        let remedy = find(&why, "create the PodGroup train (here with minCount 4)");
        let changes = serde_json::to_value(&remedy.changes).expect("they are JSON");
        let created = &changes[0]["create"];
        assert_eq!(created["apiVersion"], version, "{created:#}");
        assert_eq!(created["spec"]["priority"], priority, "{created:#}");
    }
}

#[test]
fn a_pod_of_a_gang_is_told_what_would_let_the_whole_gang_in() {
    let world = racks();
    for release in [Release::V1_36, Release::V1_37] {
        let mut world = world.clone();
        if release == Release::V1_37 {
            world.get_mut("PodGroup", GROUP)["apiVersion"] = json!("scheduling.k8s.io/v1beta1");
        }
        let whole = world.ask_group_under(release, GROUP);
        let why = world.ask_member(release, &member(0), "");
        // By itself it would fit.
        assert_eq!((why.state, why.remedies.as_slice()), ("unschedulable", &[][..]), "{release}");
        assert!(why.waiting.is_some(), "{release}: it waits with its gang");
        let group = why.group.expect("it has one");
        assert_eq!((group.result, group.not_tried.as_deref()), (Some("unschedulable"), None));
        assert!(!group.remedies.is_empty());
        assert_eq!(group.remedies, whole.remedies, "{release}");
    }
}

#[test]
fn a_change_that_lets_only_one_pod_of_a_gang_in_is_not_proposed() {
    let mut world = racks();
    for number in 0..4 {
        let spec = &mut world.get_mut("Pod", &member(number))["spec"];
        spec["containers"][0]["resources"]["requests"]["cpu"] = json!("5");
    }
    let why = world.ask_member(Release::V1_36, &member(0), "");
    assert_eq!(why.remedies, []);
    let group = why.group.expect("it has one");
    for remedy in &group.remedies {
        let placed = world.changed(&remedy.changes).group_placed(GROUP);
        assert_eq!(placed, Some(remedy.placed), "{remedy:#?}");
    }
    assert!(group.remedies.iter().any(|remedy| remedy.placed == 4), "{:#?}", group.remedies);
}

#[test]
fn a_pod_beyond_what_its_gang_needs_is_told_what_would_let_it_in() {
    let mut world = racks();
    let group = world.get_mut("PodGroup", GROUP);
    group["spec"] = json!({"schedulingPolicy": {"gang": {"minCount": 3}}});
    let spec = &mut world.get_mut("Pod", &member(3))["spec"];
    spec["containers"][0]["resources"]["requests"]["cpu"] = json!("5");
    let why = world.ask_member(Release::V1_36, &member(3), "");
    let group = why.group.as_ref().expect("it has one");
    assert_eq!((group.result, group.remedies.as_slice()), (Some("scheduled"), &[][..]));
    assert!(!why.remedies.is_empty(), "{why:#?}");
}

#[test]
fn without_the_manifests_of_a_gang_no_change_is_proposed_and_the_command_is_named() {
    let world = racks();
    for (unknown, missing) in [
        ("Pod", "pod default/train-1: its manifest is not known, or cannot be read"),
        ("PodGroup", "PodGroup default/train: its manifest is not known"),
    ] {
        let why = world.ask_member(Release::V1_36, &member(0), unknown);
        let group = why.group.expect("it has one");
        assert_eq!((why.remedies.as_slice(), group.remedies.as_slice()), (&[][..], &[][..]));
        assert_eq!(group.result, Some("unschedulable"));
        let not_tried = format!(
            "{missing}; `plimsoll why --group default/train` tries changes where that is known"
        );
        assert_eq!(group.not_tried, Some(not_tried));
    }
}

#[test]
fn for_one_pod_of_a_gang_by_a_label_nothing_is_proposed() {
    let mut world = World::default();
    let allocatable = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
    world.node("n1", &json!({}), &allocatable);
    let labels = json!({"scheduling.x-k8s.io/pod-group": GROUP});
    for number in 0..2 {
        world.pod(&member(number), &labels, &container(6000, 128));
    }
    let why = world.ask_coscheduled(&member(0));
    assert_eq!((why.state, why.remedies.as_slice()), ("unschedulable", &[][..]));
    let group = why.group.expect("it has one");
    assert_eq!(group.label, Some("scheduling.x-k8s.io/pod-group"));
    assert_eq!((group.name.as_str(), group.result), ("default/train", None));
    let not_tried = group.not_tried.expect("nothing is proposed");
    assert!(not_tried.contains("`plimsoll what-if`"), "{not_tried}");
}
