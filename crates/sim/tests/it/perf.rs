//! Small sizes of the benchmark workloads: each places its pods as its rules say.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use expect_test::{Expect, expect};
use plimsoll_api::{Labels, Node, Pod, ResourceClaim};
use plimsoll_engine::{Gates, Options, Scheduler};
use plimsoll_framework::NodePart as _;
use plimsoll_sim::perf::{Measurement, MeasurementClock, Sizes, Workload, WorkloadGroups};

use crate::profiles::{gates_for, profiles_for};

/// A clock that advances by a millisecond at each reading.
#[derive(Default)]
struct Looks(Cell<u32>);

impl MeasurementClock for Looks {
    fn wall(&self) -> Duration {
        self.0.set(self.0.get() + 1);
        Duration::from_millis(1) * self.0.get()
    }

    fn cpu(&self) -> Option<Duration> {
        None
    }
}

fn run(name: &str, sizes: Sizes) -> (Measurement, Scheduler) {
    let workload = Workload::named(name).expect("there is one of this name");
    let gates = Gates::of(&gates_for(&workload));
    let options = Options { gates, ..Options::default() };
    let mut scheduler =
        Scheduler::new(profiles_for(&workload), options, 1).expect("the profile is right");
    let measurement = workload.measure(sizes, 1, &mut scheduler, &Looks::default());
    (measurement, scheduler)
}

/// Runs a workload with 20 nodes and compares the outcomes of its pods, and how many of those that
/// satisfy `counts` are on how many nodes.
#[track_caller]
fn check(
    name: &str,
    [init_pods, pods, groups]: [u32; 3],
    counts: impl Fn(&Pod) -> bool,
    per: impl Fn(&Node) -> String,
    expected: &Expect,
) {
    let (measurement, scheduler) = run(name, Sizes { nodes: 20, init_pods, pods, groups });
    let total = measurement.total();
    let mut text = format!(
        "{} pods, {} scheduled, {} unschedulable\n",
        total.pods, total.scheduled, measurement.unschedulable
    );
    if 0 < total.evicted {
        writeln!(text, "{} evicted", total.evicted).expect("a string takes all");
    }
    let nodes = scheduler.view().nodes;
    let mut domains: BTreeMap<String, usize> = BTreeMap::new();
    for row in nodes.rows() {
        let n = nodes.pods_on(row).iter().filter(|pod| counts(pod)).count();
        *domains.entry(per(nodes.node(row))).or_default() += n;
    }
    let mut histogram: BTreeMap<usize, usize> = BTreeMap::new();
    for n in domains.into_values() {
        *histogram.entry(n).or_default() += 1;
    }
    for (n, domains) in histogram {
        writeln!(text, "{n} on each of {domains}").expect("a string takes all");
    }
    expected.assert_eq(&text);
}

fn by_node(node: &Node) -> String {
    node.name.to_string()
}

fn by_zone(node: &Node) -> String {
    node.labels.get("topology.kubernetes.io/zone").expect("it is in a zone").to_string()
}

fn all(_: &Pod) -> bool {
    true
}

fn measured(pod: &Pod) -> bool {
    pod.key.name.starts_with("pod-")
}

#[test]
fn plain_pods_fill_all_nodes_alike() {
    check(
        "SchedulingBasic",
        [20, 40, 0],
        all,
        by_node,
        &expect![[r#"
        40 pods, 40 scheduled, 0 unschedulable
        3 on each of 20
    "#]],
    );
    check(
        "SchedulingNodeAffinity",
        [20, 40, 0],
        all,
        by_node,
        &expect![[r#"
        40 pods, 40 scheduled, 0 unschedulable
        3 on each of 20
    "#]],
    );
    check(
        "Scale",
        [0, 60, 0],
        all,
        by_node,
        &expect![[r#"
        60 pods, 60 scheduled, 0 unschedulable
        3 on each of 20
    "#]],
    );
}

#[test]
fn a_node_of_basic_pods_is_full_at_40() {
    check(
        "SchedulingBasic",
        [0, 810, 0],
        all,
        by_node,
        &expect![[r#"
        810 pods, 800 scheduled, 10 unschedulable
        40 on each of 20
    "#]],
    );
}

#[test]
fn all_pods_of_the_daemon_set_are_on_the_one_node_that_they_name() {
    check(
        "SchedulingDaemonset",
        [0, 200, 0],
        all,
        by_node,
        &expect![[r#"
        200 pods, 200 scheduled, 0 unschedulable
        0 on each of 20
        200 on each of 1
    "#]],
    );
}

#[test]
fn deployments_with_services_are_spread_over_nodes() {
    let of_one = |pod: &Pod| pod.labels.get("app").is_some_and(|app| app == "deployment-0");
    check(
        "DefaultTopologySpreading",
        [0, 80, 4],
        of_one,
        by_node,
        &expect![[r#"
        80 pods, 80 scheduled, 0 unschedulable
        1 on each of 20
    "#]],
    );
    check(
        "ScaleDeployments",
        [0, 80, 4],
        of_one,
        by_node,
        &expect![[r#"
        80 pods, 80 scheduled, 0 unschedulable
        1 on each of 20
    "#]],
    );
}

#[test]
fn topology_spreading_keeps_zones_within_the_skew() {
    check(
        "TopologySpreading",
        [20, 30, 0],
        measured,
        by_zone,
        &expect![[r#"
        30 pods, 30 scheduled, 0 unschedulable
        9 on each of 1
        10 on each of 1
        11 on each of 1
    "#]],
    );
    check(
        "PreferredTopologySpreading",
        [20, 30, 0],
        measured,
        by_zone,
        &expect![[r#"
        30 pods, 30 scheduled, 0 unschedulable
        10 on each of 3
    "#]],
    );
}

#[test]
fn pods_with_affinity_are_placed_in_the_one_zone() {
    check(
        "SchedulingPodAffinity",
        [20, 40, 0],
        all,
        by_zone,
        &expect![[r#"
        40 pods, 40 scheduled, 0 unschedulable
        60 on each of 1
    "#]],
    );
}

#[test]
fn pods_that_would_rather_be_together_share_nodes() {
    check(
        "SchedulingPreferredPodAffinity",
        [1, 39, 0],
        all,
        by_node,
        &expect![[r#"
        39 pods, 39 scheduled, 0 unschedulable
        0 on each of 19
        40 on each of 1
    "#]],
    );
}

#[test]
fn pods_with_required_anti_affinity_are_one_on_a_node_and_the_rest_waits() {
    check(
        "SchedulingPodAntiAffinity",
        [5, 20, 0],
        all,
        by_node,
        &expect![[r#"
        20 pods, 15 scheduled, 5 unschedulable
        1 on each of 20
    "#]],
    );
    check(
        "ZoneAntiAffinity",
        [0, 25, 0],
        all,
        by_node,
        &expect![[r#"
        25 pods, 20 scheduled, 5 unschedulable
        1 on each of 20
    "#]],
    );
    let name = "SchedulingRequiredPodAntiAffinityWithNSSelector";
    check(
        name,
        [5, 20, 0],
        all,
        by_node,
        &expect![[r#"
        20 pods, 15 scheduled, 5 unschedulable
        1 on each of 20
    "#]],
    );
}

#[test]
fn pods_that_would_rather_be_apart_are_spread_over_nodes() {
    check(
        "SchedulingPreferredPodAntiAffinity",
        [20, 40, 0],
        all,
        by_node,
        &expect![[r#"
        40 pods, 40 scheduled, 0 unschedulable
        3 on each of 20
    "#]],
    );
}

#[test]
fn plain_pods_among_pods_with_affinities_are_all_placed() {
    let apart = |pod: &Pod| !pod.affinity.required_anti.is_empty();
    check(
        "MixedSchedulingBasePod",
        [50, 40, 0],
        apart,
        by_node,
        &expect![[r#"
        40 pods, 40 scheduled, 0 unschedulable
        0 on each of 10
        1 on each of 10
    "#]],
    );
}

#[test]
fn each_preemptor_evicts_three_pods_of_a_node() {
    check(
        "PreemptionBasic",
        [80, 20, 0],
        all,
        by_node,
        &expect![[r#"
        20 pods, 20 scheduled, 0 unschedulable
        60 evicted
        2 on each of 20
    "#]],
    );
}

#[test]
fn pods_that_fit_nowhere_are_tried_once_and_again_when_a_large_node_comes() {
    let sizes = Sizes { nodes: 20, init_pods: 5, pods: 10, groups: 0 };
    let (measurement, _) = run("Unschedulable", sizes);
    let phases: Vec<_> = measurement
        .phases
        .iter()
        .map(|phase| (phase.name, phase.latency.decisions(), phase.scheduled, phase.failed))
        .collect();
    assert_eq!(phases, [("park", 10, 0, 10), ("wake", 10, 1, 9)]);
    assert_eq!(measurement.unschedulable, 9);
}

#[test]
fn a_node_holds_39_volumes() {
    check(
        "SchedulingCSIPVs",
        [400, 390, 0],
        all,
        by_node,
        &expect![[r#"
        390 pods, 380 scheduled, 10 unschedulable
        39 on each of 20
    "#]],
    );
}

#[test]
fn pods_get_the_devices_that_they_claim_and_no_device_is_given_twice() {
    for (name, [init_pods, pods, groups], expected) in [
        ("SchedulingWithResourceClaimTemplate", [80, 80, 0], 160),
        ("SchedulingWithResourceClaim", [100, 100, 0], 40),
        ("SteadyStateClusterResourceClaimTemplate", [80, 40, 0], 90),
        ("SteadyStateClusterResourceClaimTemplateFirstAvailable", [80, 40, 0], 90),
        ("SteadyStateClusterResourceClaimTemplatePartitionable", [20, 20, 0], 60),
        ("DeviceClassSweep", [80, 80, 10], 160),
    ] {
        let (measurement, scheduler) = run(name, Sizes { nodes: 20, init_pods, pods, groups });
        let n_placed = measurement.total().scheduled;
        assert_eq!((n_placed, measurement.unschedulable), (pods as usize, 0), "{name}");
        let view = scheduler.view();
        let mut given = BTreeSet::new();
        for claim in view.stores.of::<ResourceClaim>().iter() {
            assert!(!claim.reserved_for.is_empty(), "{name}: {}", claim.key);
            for device in claim.allocation.iter().flat_map(|allocation| &allocation.devices) {
                let is_new = given.insert((device.pool.clone(), device.device.clone()));
                assert!(is_new, "{name}: {}/{} is given twice", device.pool, device.device);
            }
        }
        assert_eq!(given.len(), expected, "{name}");
    }
}

#[test]
fn classes_differ_and_are_all_placed() {
    check(
        "ClassSweep",
        [0, 60, 30],
        all,
        by_node,
        &expect![[r#"
        60 pods, 60 scheduled, 0 unschedulable
        2 on each of 5
        3 on each of 11
        4 on each of 3
        5 on each of 1
    "#]],
    );
}

#[test]
fn pods_that_go_are_replaced() {
    check(
        "Churn",
        [10_000, 250, 10],
        all,
        |_| String::new(),
        &expect![[r#"
        250 pods, 250 scheduled, 0 unschedulable
        720 on each of 1
    "#]],
    );
}

#[test]
fn nodes_come_and_go_while_pods_are_placed() {
    let sizes = Sizes { nodes: 20, init_pods: 20, pods: 250, groups: 4 };
    let (measurement, scheduler) = run("NodeChurn", sizes);
    assert_eq!(measurement.total().scheduled, 250);
    let nodes = scheduler.view().nodes;
    assert_eq!(nodes.rows().count(), 20);
    // Three rounds of changes: nodes are added, relabelled and tainted.
    let named = |name: &str| nodes.rows().filter(|row| nodes.name_of(*row) == name).count();
    assert_eq!((20..23).map(|number| named(&format!("node-{number}"))).sum::<usize>(), 3);
    let relabelled =
        nodes.rows().filter(|row| Labels::at(nodes, *row).contains_key("example.com/round"));
    assert!(0 < relabelled.count());
}

#[test]
fn hot_nodes_are_filled_first() {
    let hot = |node: &Node| node.labels.contains_key("hot").to_string();
    check(
        "HotNodes",
        [0, 30, 5],
        all,
        hot,
        &expect![[r#"
        30 pods, 30 scheduled, 0 unschedulable
        0 on each of 1
        30 on each of 1
    "#]],
    );
}

#[test]
fn pods_go_to_the_nodes_that_hold_the_fewest() {
    check(
        "HostnameSpread",
        [10_000, 19, 0],
        all,
        by_node,
        &expect![[r#"
        19 pods, 19 scheduled, 0 unschedulable
        5 on each of 2
        6 on each of 5
        7 on each of 1
        8 on each of 1
        9 on each of 1
        10 on each of 1
        11 on each of 1
        12 on each of 1
        13 on each of 1
        14 on each of 1
        15 on each of 1
        16 on each of 1
        17 on each of 1
        18 on each of 1
        19 on each of 1
    "#]],
    );
}

#[test]
fn only_what_the_engine_does_is_on_the_clock() {
    let sizes = Sizes { nodes: 2, init_pods: 3, pods: 4, groups: 0 };
    let (measurement, _) = run("SchedulingBasic", sizes);
    let total = measurement.total();
    // One reading before and one after each of these: taking in the pods; four times a decision and the
    // handling of its answers; and one step that finds nothing to do.
    assert_eq!(total.wall, Duration::from_millis(1 + 4 * 2 + 1));
    assert_eq!(total.latency.decisions(), 4);
    assert_eq!(total.latency.quantile(0.99).as_millis(), 1);
    assert_eq!(measurement.set_up, Duration::from_millis(2 + 3 * 2 + 1));
    assert_eq!(measurement.cpu, None);
}

/// The rack of a node.
fn by_rack(node: &Node) -> String {
    node.labels.get("example.com/rack").expect("it is in a rack").to_string()
}

#[test]
fn pods_of_a_service_are_spread_over_nodes_and_zones_by_selector_spread() {
    check(
        "SelectorSpreading",
        [0, 40, 2],
        |pod| pod.labels.get("app").is_some_and(|app| app == "deployment-1"),
        by_node,
        &expect![[r#"
            40 pods, 40 scheduled, 0 unschedulable
            1 on each of 20
        "#]],
    );
}

#[test]
fn pods_of_a_service_are_in_one_rack_by_service_affinity() {
    check(
        "ServiceAffinity",
        [0, 40, 2],
        |pod| pod.labels.get("app").is_some_and(|app| app == "deployment-1"),
        by_rack,
        &expect![[r#"
            40 pods, 40 scheduled, 0 unschedulable
            0 on each of 19
            20 on each of 1
        "#]],
    );
}

#[test]
fn a_sample_places_all_pods() {
    check(
        "AdaptiveSample",
        [0, 40, 0],
        all,
        by_node,
        &expect![[r#"
        40 pods, 40 scheduled, 0 unschedulable
        2 on each of 20
    "#]],
    );
}

#[test]
fn the_same_seed_places_the_same() {
    let sizes = Sizes { nodes: 20, init_pods: 300, pods: 200, groups: 10 };
    let placed = || {
        let (_, scheduler) = run("Churn", sizes);
        let nodes = scheduler.view().nodes;
        let pods = |row| nodes.pods_on(row).iter().map(|pod| pod.key.clone()).collect::<Vec<_>>();
        nodes.rows().map(pods).collect::<Vec<_>>()
    };
    assert_eq!(placed(), placed());
}

#[test]
fn workloads_have_names_of_their_own_and_groups_where_they_say_so() {
    let mut names: Vec<_> = Workload::all().map(|workload| workload.name).collect();
    let n = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n);
    for workload in Workload::all() {
        let has_groups = workload.groups != WorkloadGroups::None;
        assert_eq!(0 < workload.sizes.groups, has_groups, "{}", workload.name);
        assert!(0 < workload.sizes.nodes && 0 < workload.sizes.pods, "{}", workload.name);
    }
}

#[test]
fn pods_of_groups_are_all_bound_and_a_gang_that_must_be_is_in_one_rack() {
    for name in ["BasicScheduling", "GangScheduling"] {
        check(
            name,
            [0, 40, 10],
            all,
            by_node,
            &expect![[r#"
                40 pods, 40 scheduled, 0 unschedulable
                2 on each of 20
            "#]],
        );
    }
    let sizes = Sizes { nodes: 300, init_pods: 0, pods: 60, groups: 3 };
    let (measurement, scheduler) = run("TopologyAwareScheduling", sizes);
    assert_eq!((measurement.total().scheduled, measurement.unschedulable), (60, 0));
    let nodes = scheduler.view().nodes;
    let mut racks: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in nodes.rows() {
        let rack = nodes.node(row).labels.get("topology.kubernetes.io/rack").expect("it is in one");
        for pod in nodes.pods_on(row).iter() {
            let group = pod.scheduling_group.as_ref().expect("all pods are in groups");
            racks.entry(group.to_string()).or_default().insert(rack.to_string());
        }
    }
    assert_eq!(racks.len(), 3);
    assert!(racks.values().all(|racks| racks.len() == 1), "{racks:?}");
}
