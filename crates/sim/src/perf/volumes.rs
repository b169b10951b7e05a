//! Pods with volumes.

use std::sync::Arc;

use plimsoll_api::quantity::Format;
use plimsoll_api::{
    AccessModes, ClaimPhase, ClaimRef, CsiNode, CsiNodeDriver, Node, ObjectKey, PersistentVolume,
    PersistentVolumeClaim, Pod, PodTemplate, PodVolume, PodVolumeKind, Quantity, Str, VolumePhase,
    VolumeSource,
};
use plimsoll_engine::Event;

use super::plan::WorkloadPlan;
use super::template::{DEFAULT, GIB, named, node, node_name, pod};
use super::{Sizes, Workload, WorkloadGroups};

pub(super) const DRIVER: &str = "ebs.csi.aws.com";
/// How many volumes of the driver a node can attach.
pub(super) const LIMIT: i32 = 39;

pub(super) const WORKLOADS: [Workload; 1] = [Workload {
    name: "SchedulingCSIPVs",
    about: "pods with a volume each, bound beforehand, where a node can hold 39",
    sizes: Sizes { nodes: 5_000, init_pods: 5_000, pods: 5_000, groups: 0 },
    groups: WorkloadGroups::None,
    configuration: None,
    plan: |sizes, _| {
        let drivers = (0..sizes.nodes).map(|number| csi_node(number, LIMIT));
        let volumes =
            [("init", sizes.init_pods), ("pod", sizes.pods)].into_iter().flat_map(|(group, n)| {
                let claim = move |number| claim_name(group, number);
                let bound = |claim| volume(DEFAULT, claim, AccessModes::READ_ONLY_MANY);
                (0..n).map(claim).flat_map(bound)
            });
        WorkloadPlan::alike(sizes, |number| limited_node(number, LIMIT), with_volume())
            .with(drivers.chain(volumes))
    },
}];

/// A pod with a claim of its own.
pub(super) fn with_volume() -> impl Fn(&'static str, u32) -> Pod + Clone + 'static {
    let plain = pod();
    move |group, number| {
        let kind = PodVolumeKind::Claim(claim_name(group, number));
        let volumes = vec![PodVolume { name: "vol".into(), kind }];
        let template = PodTemplate { volumes, ..plain.clone() };
        named(&Arc::new(template), DEFAULT, group, number)
    }
}

/// A node whose status also has the limit of volumes.
pub(super) fn limited_node(number: u32, limit: i32) -> Node {
    let mut node = node(number);
    let name = format!("attachable-volumes-csi-{DRIVER}");
    node.allocatable.scalar.insert(name.into(), i64::from(limit));
    node
}

/// The drivers of the node of this number.
pub(super) fn csi_node(number: u32, limit: i32) -> Event {
    let name = node_name(number);
    let driver = CsiNodeDriver {
        name: DRIVER.into(),
        node_id: name.clone(),
        limit: Some(limit),
        ..CsiNodeDriver::default()
    };
    Event::object(CsiNode { name, drivers: vec![driver], ..CsiNode::default() })
}

/// The claim of a pod.
pub(super) fn claim_name(group: &str, number: u32) -> Str {
    format!("pvc-{group}-{number}").into()
}

/// A claim and the volume that it is bound to, as in pv-csi.yaml and runners.go,
/// CreatePodWithPersistentVolume.
pub(super) fn volume(namespace: &str, claim: Str, access_modes: AccessModes) -> [Event; 2] {
    let (volume, claim) = bound(namespace, claim, access_modes);
    [Event::object(volume), Event::object(claim)]
}

/// The same as objects.
pub(super) fn bound(
    namespace: &str,
    claim: Str,
    access_modes: AccessModes,
) -> (PersistentVolume, PersistentVolumeClaim) {
    let name = Str::from(format!("pv-{namespace}-{claim}"));
    let key = ObjectKey::new(namespace, claim);
    let size = Quantity::new(GIB, Format::BinarySi);
    let volume = PersistentVolume {
        name: name.clone(),
        uid: name.clone(),
        resource_version: "1".into(),
        capacity: size.clone(),
        access_modes,
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
        access_modes,
        volume: Some(name),
        bind_completed: true,
        phase: ClaimPhase::Bound,
        ..PersistentVolumeClaim::default()
    };
    (volume, claim)
}
