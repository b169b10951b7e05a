//! Groups of pods that are scheduled, broken in a way that is known: some proposal helps, and all of them work.

use plimsoll_advisor::{GroupRemedy, WhyGroup, size};
use plimsoll_framework::Release;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use crate::broken::{container, nodes};
use crate::world::World;

pub(crate) const GROUP: &str = "train";

/// A way to break a group, or its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupBreak {
    Requests,
    NoRoom,
    Topology,
    Gates,
    MissingGroup,
    TooFewPods,
    Cordon,
    Taint,
    Selector,
    Value,
    Expression,
    AntiAffinity,
    Spread,
    Port,
}

const BREAKS: [GroupBreak; 14] = [
    GroupBreak::Requests,
    GroupBreak::NoRoom,
    GroupBreak::Topology,
    GroupBreak::Gates,
    GroupBreak::MissingGroup,
    GroupBreak::TooFewPods,
    GroupBreak::Cordon,
    GroupBreak::Taint,
    GroupBreak::Selector,
    GroupBreak::Value,
    GroupBreak::Expression,
    GroupBreak::AntiAffinity,
    GroupBreak::Spread,
    GroupBreak::Port,
];

/// What can be undone together with anything else, so that two of them are a pair.
const PAIRED: [GroupBreak; 8] = [
    GroupBreak::Topology,
    GroupBreak::Cordon,
    GroupBreak::Taint,
    GroupBreak::Selector,
    GroupBreak::Expression,
    GroupBreak::AntiAffinity,
    GroupBreak::Spread,
    GroupBreak::Port,
];

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

pub(crate) fn member(number: usize) -> String {
    format!("{GROUP}-{number}")
}

/// A cluster in which the group has room, and the number of its pods.
pub(crate) fn cluster(rng: &mut impl Rng) -> (World, usize) {
    let mut world = World::default();
    let n_nodes = rng.random_range(5..8_usize);
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

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("it is small")
}

/// What breaks the pods of the group themselves: how their specs change, and the size of undoing that at most.
fn of_pods(how: GroupBreak) -> Option<(Value, u32)> {
    let port = json!([{"containerPort": 80, "hostPort": 8080}]);
    Some(match how {
        // From 6 to 1.5 again.
        GroupBreak::Requests => (container(6000, 512), size::REQUEST + size::WHOLE_REQUEST * 3 / 4),
        GroupBreak::Topology => (container(3000, 512), size::NO_TOPOLOGY),
        GroupBreak::Selector => (json!({"nodeSelector": {"color": "red"}}), size::SELECTOR),
        // All nodes have another region.
        GroupBreak::Value => (json!({"nodeSelector": {"region": "elsewhere"}}), size::WIDER),
        GroupBreak::Expression => {
            let required = json!({"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "zone", "operator": "Exists"},
                {"key": "generation", "operator": "In", "values": ["9", "10"]},
            ]}]});
            (json!({"affinity": {"nodeAffinity": {REQUIRED: required}}}), size::SELECTOR)
        }
        GroupBreak::AntiAffinity => {
            let term = json!({
                "topologyKey": "region", "labelSelector": {"matchLabels": {"app": "rival"}},
            });
            (json!({"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}), size::POD_AFFINITY)
        }
        GroupBreak::Spread => {
            // No node has this label.
            let constraint = json!({
                "maxSkew": 1, "topologyKey": "row", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            });
            (json!({"topologySpreadConstraints": [constraint]}), size::NO_SPREAD)
        }
        GroupBreak::Port => {
            let mut spec = container(1500, 512);
            spec["containers"][0]["ports"] = port;
            (spec, size::PORT)
        }
        _ => return None,
    })
}

/// Puts a pod that does not make way on each node.
fn occupy(world: &mut World, name: &str, labels: &Value, spec: &Value) {
    for node in nodes(world) {
        let mut spec = spec.clone();
        spec["nodeName"] = json!(node);
        spec["priority"] = json!(20);
        world.pod(&format!("{name}-{node}"), labels, &spec);
    }
}

/// Breaks the group, and returns the size of undoing that at most.
fn break_it(world: &mut World, n_pods: usize, how: GroupBreak, rng: &mut impl Rng) -> u32 {
    let of_pods = of_pods(how);
    for number in 0..n_pods {
        if let Some((patch, _)) = &of_pods {
            let spec = &mut world.get_mut("Pod", &member(number))["spec"];
            json_patch::merge(spec, patch);
        }
    }
    let nodes = nodes(world);
    let of_others = match how {
        GroupBreak::NoRoom => {
            let mut undone = size::EVICTION;
            for name in nodes {
                for number in 0..2 {
                    let mut spec = container(1800, 128);
                    spec["nodeName"] = json!(name);
                    spec["priority"] = json!(10 * rng.random_range(1..3));
                    world.pod(&format!("old-{name}-{number}"), &json!({}), &spec);
                    undone += size::ONE_EVICTION + size::IMPORTANT_EVICTION;
                }
            }
            undone
        }
        GroupBreak::Topology => {
            let group = &mut world.get_mut("PodGroup", GROUP)["spec"];
            let key = json!([{"key": "kubernetes.io/hostname"}]);
            group["schedulingConstraints"] = json!({"topology": key});
            0
        }
        GroupBreak::Gates => {
            // A gang that waits for this pod.
            let spec = &mut world.get_mut("Pod", &member(0))["spec"];
            spec["schedulingGates"] = json!([{"name": "a.example/b"}]);
            size::GATE
        }
        GroupBreak::MissingGroup => {
            world.remove("PodGroup", GROUP);
            size::NEW_CLAIM
        }
        GroupBreak::TooFewPods => {
            let group = &mut world.get_mut("PodGroup", GROUP)["spec"];
            group["schedulingPolicy"]["gang"]["minCount"] = json!(n_pods + 1);
            let lower = size::REQUEST + size::WHOLE_REQUEST / count(n_pods + 1);
            lower.min(size::NEW_CLAIM + size::ONE_EVICTION)
        }
        GroupBreak::Cordon => {
            for node in &nodes {
                world.get_mut("Node", node)["spec"]["unschedulable"] = json!(true);
            }
            size::UNCORDON * count(nodes.len().min(n_pods))
        }
        GroupBreak::Taint => {
            for node in &nodes {
                let spec = &mut world.get_mut("Node", node)["spec"];
                spec["taints"] = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
            }
            size::TOLERATION
        }
        GroupBreak::AntiAffinity => {
            occupy(world, "rival", &json!({"app": "rival"}), &container(1, 1));
            0
        }
        GroupBreak::Port => {
            let mut spec = container(1, 1);
            spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
            occupy(world, "port", &json!({}), &spec);
            0
        }
        _ => 0,
    };
    of_others + of_pods.map_or(0, |(_, undone)| undone)
}

pub(crate) fn texts(why: &WhyGroup) -> Vec<(u32, &str)> {
    why.remedies.iter().map(|remedy| (remedy.size, remedy.text.as_str())).collect()
}

/// Applied to the objects, each remedy lets a simulation place as many pods of the group.
pub(crate) fn check_all(world: &World, (release, name): (Release, &str), why: &WhyGroup, of: &str) {
    for remedy in &why.remedies {
        let placed = world.changed(&remedy.changes).group_placed_under(release, name);
        assert_eq!(placed, Some(remedy.placed), "{of}: {remedy:#?}");
    }
}

/// The [group](GROUP) has lost its room. The first remedy is no larger than `undone`, which undoes that, and all of them work.
pub(crate) fn check_undone(world: &World, release: Release, undone: u32, of: &str) {
    assert_eq!(world.group_placed_under(release, GROUP), None, "{of} breaks it");
    let why = world.ask_group_under(release, GROUP);
    let first = why.remedies.first();
    assert!(
        first.is_some_and(|first| first.size <= undone),
        "{of} can be undone by {undone}: {:#?}",
        texts(&why)
    );
    check_all(world, (release, GROUP), &why, of);
}

/// Breaks a group in some ways. Some remedy must be as small as undoing that, and all of them work. Returns how it was broken;
/// `None` if the group had no room before.
fn check(release: Release, seed: u64, all: &[GroupBreak], n: usize) -> Option<Vec<GroupBreak>> {
    let rng = &mut Pcg64::seed_from_u64(seed);
    let (mut world, n_pods) = cluster(rng);
    if world.group_placed_under(release, GROUP) != Some(n_pods) {
        return None;
    }
    let (mut breaks, mut undone) = (Vec::new(), 0);
    while breaks.len() < n {
        let how = all[rng.random_range(0..all.len())];
        if !breaks.contains(&how) {
            undone += break_it(&mut world, n_pods, how, rng);
            breaks.push(how);
        }
    }
    let of = format!("{release}, seed {seed}: {breaks:?}");
    check_undone(&world, release, undone, &of);
    Some(breaks)
}

#[test]
fn a_group_that_is_broken_in_one_way_has_a_remedy_that_is_as_small() {
    for release in Release::ALL {
        let broken: Vec<_> = (0..120).filter_map(|seed| check(release, seed, &BREAKS, 1)).collect();
        let is_there = |how: &GroupBreak| broken.iter().any(|breaks| breaks.contains(how));
        assert!(BREAKS.iter().all(is_there), "{release}: each way is tried: {broken:?}");
    }
}

#[test]
fn a_group_that_is_broken_in_two_ways_has_a_remedy_that_is_as_small() {
    for release in Release::ALL {
        let n_checked =
            (1000..1040).filter(|seed| check(release, *seed, &PAIRED, 2).is_some()).count();
        assert!(30 < n_checked, "most clusters have room: {n_checked}");
    }
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

pub(crate) fn find<'w>(why: &'w WhyGroup, text: &str) -> &'w GroupRemedy {
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
    check_all(&world, (Release::V1_36, GROUP), &why, "two racks");
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

/// A job of two gangs, of two pods each, in the same rack.
fn tree() -> World {
    let mut world = World::default();
    for (node, rack) in [("n1", "r1"), ("n2", "r1"), ("n3", "r2"), ("n4", "r2")] {
        let labels = json!({"rack": rack, "hall": "h"});
        let allocatable = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
        world.node(node, &labels, &allocatable);
    }
    world.add(json!({
        "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": {"name": "job", "namespace": "default", "uid": "job"},
        "spec": {
            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
        },
    }));
    for group in ["a", "b"] {
        world.add(json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": group, "namespace": "default", "uid": group},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 2}}, "parentCompositePodGroupName": "job",
            },
        }));
        for number in 0..2 {
            let name = format!("{group}-{number}");
            let mut spec = container(2000, 128);
            spec["schedulingGroup"] = json!({"podGroupName": group});
            world.pod(&name, &json!({}), &spec);
            world.get_mut("Pod", &name)["metadata"]["uid"] = json!(name);
        }
    }
    world
}

#[test]
fn a_group_of_groups_that_is_scheduled_has_no_remedies() {
    let why = tree().ask_group_under(Release::V1_37, "job");
    assert_eq!((why.state, why.kind), ("scheduled", Some("CompositePodGroup")));
    assert_eq!((why.pending, why.placed, why.min_group_count), (4, 4, Some(2)));
    assert_eq!(why.remedies, []);
}

#[test]
fn a_group_of_groups_that_no_rack_has_room_for_is_told_all_ways_out() {
    let mut world = tree();
    for pod in ["a-0", "a-1", "b-0", "b-1"] {
        let spec = &mut world.get_mut("Pod", pod)["spec"];
        spec["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
    }
    let of = (Release::V1_37, "job");
    let why = world.ask_group_under(of.0, of.1);
    assert_eq!((why.state, why.pending, why.placed), ("unschedulable", 4, 0));
    let fewer = find(&why, "set minGroupCount of job to 1 instead of 2");
    assert_eq!((fewer.placed, fewer.placement.as_deref()), (2, Some("r1")));
    assert_eq!(find(&why, "keep all groups of job in one hall instead of one rack").placed, 4);
    let dropped = "drop the constraint that all groups of job are in one rack";
    assert_eq!(find(&why, dropped).placed, 4);
    assert_eq!(find(&why, "request 1950m cpu instead of 3 in 4 pods").placed, 4);
    check_all(&world, of, &why, "a tree");
    // One of its groups is told the same ways out, since it is not scheduled without the other.
    let why = world.ask_group_under(of.0, "b");
    assert_eq!((why.kind, why.pending), (None, 2));
    assert_eq!(find(&why, dropped).placed, 2);
    check_all(&world, (of.0, "b"), &why, "a part of a tree");
}

#[test]
fn what_keeps_one_group_of_a_tree_from_nodes_is_given_up_by_its_pods_alone() {
    let mut world = tree();
    for pod in ["b-0", "b-1"] {
        world.get_mut("Pod", pod)["spec"]["nodeSelector"] = json!({"color": "red"});
    }
    for name in ["job", "b"] {
        let why = world.ask_group_under(Release::V1_37, name);
        let dropped = find(&why, "drop color=red from the node selector in 2 pods of b");
        assert_eq!(dropped.changes.len(), 2, "{dropped:#?}");
        check_all(&world, (Release::V1_37, name), &why, name);
    }
}

#[test]
fn a_domain_that_is_required_can_be_preferred_where_the_group_says_that_it_prefers_some() {
    let mut world = racks();
    let preferred = "prefer one rack for the group instead of requiring it";
    assert!(world.ask_group(GROUP).remedies.iter().all(|remedy| remedy.text != preferred));
    let annotations = json!({"plimsoll.io/preferred-topology": "hall"});
    world.get_mut("PodGroup", GROUP)["metadata"]["annotations"] = annotations;
    let why = world.ask_group(GROUP);
    let remedy = find(&why, preferred);
    assert_eq!(remedy.placed, 4);
    let changed = world.changed(&remedy.changes);
    let metadata = &changed.get("PodGroup", GROUP)["metadata"];
    assert_eq!(metadata["annotations"]["plimsoll.io/preferred-topology"], "rack,hall");
    check_all(&world, (Release::V1_36, GROUP), &why, "racks with a preference");
}

#[test]
fn only_labels_whose_domains_are_wider_are_proposed_as_topology() {
    let mut world = racks();
    for (at, node) in ["n1", "n2", "n3", "n4"].into_iter().enumerate() {
        // A pair of nodes, one of each rack.
        world.get_mut("Node", node)["metadata"]["labels"]["disk"] = json!((at % 2).to_string());
    }
    let why = world.ask_group(GROUP);
    find(&why, "keep the group in one hall instead of one rack");
    assert!(texts(&why).iter().all(|(_, text)| !text.contains("disk")), "{:#?}", texts(&why));
}

#[test]
fn as_few_nodes_are_opened_as_the_gang_needs_in_the_domain_where_it_needs_fewest() {
    let mut world = racks();
    for number in 0..4 {
        let spec = &mut world.get_mut("Pod", &member(number))["spec"];
        spec["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    }
    for node in ["n1", "n2", "n3"] {
        world.get_mut("Node", node)["spec"]["unschedulable"] = json!(true);
    }
    let why = world.ask_group(GROUP);
    let first = &why.remedies[0];
    assert_eq!((first.text.as_str(), first.placement.as_deref()), ("uncordon n3", Some("r2")));
    find(&why, "uncordon n1 and n2");
    check_all(&world, (Release::V1_36, GROUP), &why, "cordons");
}

#[test]
fn nodes_with_cordons_and_nodes_with_taints_are_opened_together() {
    let mut world = racks();
    world.get_mut("PodGroup", GROUP)["spec"]["schedulingConstraints"] = Value::Null;
    world.get_mut("Node", "n1")["spec"]["unschedulable"] = json!(true);
    let taint = json!({"key": "team", "value": "a", "effect": "NoSchedule"});
    world.get_mut("Node", "n2")["spec"]["taints"] = json!([taint]);
    let why = world.ask_group(GROUP);
    find(&why, "uncordon n1 and remove the taint team=a:NoSchedule from n2");
    check_all(&world, (Release::V1_36, GROUP), &why, "a cordon and a taint");
}

#[test]
fn composite_groups_that_are_part_of_each_other_have_an_answer() {
    let mut world = tree();
    world.get_mut("CompositePodGroup", "job")["spec"]["parentCompositePodGroupName"] =
        json!("other");
    world.add(json!({
        "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": {"name": "other", "namespace": "default", "uid": "other"},
        "spec": {
            "schedulingPolicy": {"gang": {"minGroupCount": 1}}, "parentCompositePodGroupName": "job",
        },
    }));
    for group in ["job", "other", "a"] {
        let why = world.ask_group_under(Release::V1_37, group);
        let pending = if group == "a" { 2 } else { 4 };
        assert_eq!((why.pending, why.running, why.placed), (pending, 0, 0), "{group}");
        assert_ne!(why.state, "scheduled", "{group}");
    }
}

#[test]
fn no_pods_are_created_for_a_gang_of_too_many() {
    let mut world = racks();
    world.get_mut("PodGroup", GROUP)["spec"]["schedulingConstraints"] = Value::Null;
    world.get_mut("PodGroup", GROUP)["spec"]["schedulingPolicy"]["gang"]["minCount"] =
        json!(i32::MAX);
    let why = world.ask_group(GROUP);
    find(&why, "set minCount to 4 instead of 2147483647");
    assert!(!why.remedies.iter().any(|remedy| remedy.text.contains("create")), "{why:#?}");
}
