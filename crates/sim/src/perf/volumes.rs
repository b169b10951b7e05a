//! Pods with volumes.

use std::sync::Arc;

use plimsoll_api::quantity::Format;
use plimsoll_api::{
    AccessModes, ClaimPhase, ClaimRef, CsiNode, CsiNodeDriver, Node, ObjectKey, PersistentVolume,
    PersistentVolumeClaim, PodTemplate, PodVolume, PodVolumeKind, Quantity, Str, VolumeObject,
    VolumePhase, VolumeSource,
};
use plimsoll_engine::{Event, Seen};

use super::plan::Plan;
use super::template::{DEFAULT, GIB, named, node, node_name, pod};
use super::{Groups, Sizes, Workload};

const DRIVER: &str = "ebs.csi.aws.com";
/// How many volumes of the driver a node can hold.
const LIMIT: i32 = 39;

pub(super) const WORKLOADS: [Workload; 1] = [Workload {
    name: "SchedulingCSIPVs",
    about: "pods with a volume each, bound beforehand, where a node can hold 39",
    sizes: Sizes { nodes: 5_000, init_pods: 5_000, pods: 5_000, groups: 0 },
    groups: Groups::None,
    plan: |sizes, _| {
        let plain = pod();
        let with_volume = move |group: &'static str, number: u32| {
            let kind = PodVolumeKind::Claim(claim_name(group, number));
            let volumes = vec![PodVolume { name: "vol".into(), kind }];
            let template = PodTemplate { volumes, ..plain.clone() };
            named(&Arc::new(template), DEFAULT, group, number)
        };
        let drivers = (0..sizes.nodes).map(|number| event(VolumeObject::CsiNode(csi_node(number))));
        let volumes = [("init", sizes.init_pods), ("pod", sizes.pods)]
            .into_iter()
            .flat_map(|(group, n)| (0..n).flat_map(move |number| volume(group, number)));
        Plan::alike(sizes, limited_node, with_volume).with(drivers.chain(volumes))
    },
}];

/// A node that also says itself how many volumes it can hold.
fn limited_node(number: u32) -> Node {
    let mut node = node(number);
    let name = format!("attachable-volumes-csi-{DRIVER}");
    node.allocatable.scalar.insert(name.into(), i64::from(LIMIT));
    node
}

fn csi_node(number: u32) -> CsiNode {
    let name = node_name(number);
    let driver = CsiNodeDriver {
        name: DRIVER.into(),
        node_id: name.clone(),
        limit: Some(LIMIT),
        ..CsiNodeDriver::default()
    };
    CsiNode { name, drivers: vec![driver], ..CsiNode::default() }
}

fn claim_name(group: &str, number: u32) -> Str {
    format!("pvc-{group}-{number}").into()
}

/// A volume and the claim that is bound to it, as in pv-csi.yaml and runners.go,
/// CreatePodWithPersistentVolume.
fn volume(group: &str, number: u32) -> [Event; 2] {
    let name = Str::from(format!("pv-{group}-{number}"));
    let key = ObjectKey::new(DEFAULT, claim_name(group, number));
    let size = Quantity::new(GIB, Format::BinarySi);
    let volume = PersistentVolume {
        name: name.clone(),
        uid: name.clone(),
        resource_version: "1".into(),
        capacity: size.clone(),
        access_modes: AccessModes::READ_ONLY_MANY,
        claim: Some(ClaimRef { key: key.clone(), uid: key.name.clone() }),
        bound_by_controller: true,
        phase: VolumePhase::Bound,
        source: VolumeSource::Csi { driver: DRIVER.into(), handle: name.clone() },
        ..PersistentVolume::default()
    };
    let claim = PersistentVolumeClaim {
        uid: key.name.clone(),
        key,
        resource_version: "1".into(),
        requested: size,
        access_modes: AccessModes::READ_ONLY_MANY,
        volume: Some(name),
        bind_completed: true,
        phase: ClaimPhase::Bound,
        ..PersistentVolumeClaim::default()
    };
    [VolumeObject::PersistentVolume(volume), VolumeObject::PersistentVolumeClaim(claim)].map(event)
}

fn event(object: VolumeObject) -> Event {
    Event::Volume(Box::new(Seen::Is(object)))
}
