//! Pods with volumes that most nodes cannot have: the nodes that would be the best are at their limit or in another zone, or
//! there is no storage left.

use std::sync::Arc;

use plimsoll_api::quantity::Format;
use plimsoll_api::{
    AccessModes, BindingMode, CsiDriver, CsiStorageCapacity, Labels, Node, NodeSelectorTerm,
    ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, Quantity, Requirement, Resources,
    Selector, StorageClass, Str,
};
use plimsoll_engine::Event;

use super::plan::{PODS, WorkloadPlan, at_once, come, nodes};
use super::template::{DEFAULT, GIB, ZONE, node_in_zone, node_name, pod_is};
use super::volumes::{
    DRIVER, LIMIT, bound, claim_name, csi_node, limited_node, volume, with_volume,
};
use super::{Sizes, Workload, WorkloadGroups};

/// One of this many nodes can have the volumes of the measured pods, or one of this many zones.
const PARTS: u32 = 10;
/// The class of claims that are not bound yet.
const CLASS: &str = "local";

pub(super) const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "FullVolumeLimits",
        about: "SchedulingCSIPVs, where nine of ten nodes have all the volumes that they can hold",
        sizes: Sizes { nodes: 5_000, init_pods: 18_000, pods: 5_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| full_limits(sizes),
    },
    Workload {
        name: "VolumesInOneZone",
        about: "pods with a volume each, all of which are in one of ten zones",
        sizes: Sizes { nodes: 5_000, init_pods: 0, pods: 5_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| in_one_zone(sizes),
    },
    Workload {
        name: "StorageUsedUp",
        about: "pods that wait for storage, of which none of ten zones has enough",
        sizes: Sizes { nodes: 5_000, init_pods: 0, pods: 5_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: None,
        plan: |sizes, _| used_up(sizes),
    },
];

/// Whether measured pods do not fit on the node of this number.
fn is_closed(number: u32) -> bool {
    !number.is_multiple_of(PARTS)
}

/// A node that is larger if it is closed, so that it would be the best.
fn sized(number: u32, node: Node) -> Node {
    let larger = Resources { milli_cpu: 16_000, memory: 128 * GIB, ..node.allocatable.clone() };
    match is_closed(number) {
        true => Node { allocatable: larger, ..node },
        false => node,
    }
}

fn zone(number: u32) -> Str {
    format!("zone-{}", number % PARTS).into()
}

fn node_in_its_zone(number: u32) -> Node {
    sized(number, node_in_zone(&zone(number), number))
}

/// The initial pods are on the closed nodes in turn, and a closed node can hold no more than these.
fn full_limits(sizes: Sizes) -> WorkloadPlan {
    let closed: Arc<[u32]> = (0..sizes.nodes).filter(|&number| is_closed(number)).collect();
    let n_closed = u32::try_from(closed.len()).expect("there are as many nodes as that");
    let limit = move |number| match is_closed(number) {
        true => i32::try_from(sizes.init_pods.div_ceil(n_closed)).unwrap_or(i32::MAX),
        false => LIMIT,
    };
    let pair = |claim| volume(DEFAULT, claim, AccessModes::READ_WRITE_ONCE);
    let volumes = [("init", sizes.init_pods), ("pod", sizes.pods)]
        .into_iter()
        .flat_map(|(group, n)| (0..n).map(move |number| claim_name(group, number)))
        .flat_map(pair);
    let node = move |number| sized(number, limited_node(number, limit(number)));
    let drivers = (0..sizes.nodes).map(move |number| csi_node(number, limit(number)));
    let make = with_volume();
    let init = make.clone();
    let init_pods = (0..sizes.init_pods).map(move |number| {
        let node = closed[(number % n_closed) as usize];
        pod_is(Pod { node_name: Some(node_name(node)), ..init("init", number) })
    });
    WorkloadPlan {
        objects: Box::new(drivers.chain(volumes).chain(nodes(sizes.nodes, node))),
        init_pods: Box::new(init_pods),
        rounds: at_once(PODS, come("pod", make, 0..sizes.pods)),
    }
}

fn in_one_zone(sizes: Sizes) -> WorkloadPlan {
    let term = NodeSelectorTerm {
        labels: vec![Requirement::equals(ZONE, zone(0).as_str())],
        ..NodeSelectorTerm::default()
    };
    let in_zone = move |number| {
        let (volume, claim) =
            bound(DEFAULT, claim_name("pod", number), AccessModes::READ_WRITE_ONCE);
        let volume = PersistentVolume {
            labels: Labels::from_iter([(ZONE, zone(0).as_str())]),
            node_affinity: Some(vec![term.clone()]),
            ..volume
        };
        [Event::object(volume), Event::object(claim)]
    };
    let volumes = (0..sizes.pods).flat_map(in_zone);
    WorkloadPlan::alike(sizes, node_in_its_zone, with_volume()).with(volumes)
}

fn used_up(sizes: Sizes) -> WorkloadPlan {
    let class = StorageClass {
        name: CLASS.into(),
        provisioner: DRIVER.into(),
        binding_mode: BindingMode::WaitForFirstConsumer,
        ..StorageClass::default()
    };
    let driver = CsiDriver { name: DRIVER.into(), storage_capacity: true, ..CsiDriver::default() };
    let left = |number| CsiStorageCapacity {
        key: ObjectKey::new(DEFAULT, zone(number)),
        class: CLASS.into(),
        topology: Selector::All(vec![Requirement::equals(ZONE, zone(number).as_str())]),
        capacity: Some(Quantity::new(GIB, Format::BinarySi)),
        ..CsiStorageCapacity::default()
    };
    let claim = |number| {
        let name = claim_name("pod", number);
        PersistentVolumeClaim {
            uid: name.clone(),
            key: ObjectKey::new(DEFAULT, name),
            class: CLASS.into(),
            requested: Quantity::new(2 * GIB, Format::BinarySi),
            access_modes: AccessModes::READ_WRITE_ONCE,
            ..PersistentVolumeClaim::default()
        }
    };
    let objects = [Event::object(class), Event::object(driver)].into_iter();
    let objects = objects
        .chain((0..PARTS).map(move |number| Event::object(left(number))))
        .chain((0..sizes.pods).map(move |number| Event::object(claim(number))));
    WorkloadPlan::alike(sizes, node_in_its_zone, with_volume()).with(objects)
}
