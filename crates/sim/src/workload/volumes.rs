//! Random volumes, and claims on them.

use plimsoll_api::quantity::Format;
use plimsoll_api::storage::NO_PROVISIONER;
use plimsoll_api::{
    AccessModes, AnyObject, BindingMode, ClaimPhase, CsiNode, CsiNodeDriver, Labels,
    NodeSelectorTerm, ObjectKey, PersistentVolume, PersistentVolumeClaim, PodVolume, PodVolumeKind,
    Quantity, Requirement, StorageClass, Str, VolumeSource,
};
use rand::RngExt;

use super::nodes::{ZONE, ZONES};
use super::{Maker, NAMESPACES};

const CLASSES: [(&str, &str, BindingMode); 3] = [
    ("late", "example.com/disks", BindingMode::WaitForFirstConsumer),
    ("local", NO_PROVISIONER, BindingMode::WaitForFirstConsumer),
    ("soon", "example.com/disks", BindingMode::Immediate),
];
/// The driver of the volumes.
const DRIVER: &str = "example.com/disks";
const GIB: i64 = 1 << 30;
/// The number of claims in each namespace.
const CLAIMS: u32 = 6;

impl Maker {
    /// What is there at the beginning: classes, volumes in zones, and claims in all namespaces.
    pub(super) fn volumes(&mut self) -> Vec<AnyObject> {
        let mut objects: Vec<AnyObject> = CLASSES
            .map(|(name, provisioner, binding_mode)| StorageClass {
                name: name.into(),
                provisioner: provisioner.into(),
                binding_mode,
                ..StorageClass::default()
            })
            .map(AnyObject::new)
            .into();
        for number in 0..self.n_nodes {
            if self.once_in(2) {
                let driver = CsiNodeDriver {
                    name: DRIVER.into(),
                    node_id: format!("n{number}").into(),
                    limit: Some(self.rng.random_range(0..=2)),
                    ..CsiNodeDriver::default()
                };
                let name = format!("n{number}").into();
                let node = CsiNode { name, drivers: vec![driver], ..CsiNode::default() };
                objects.push(AnyObject::new(node));
            }
        }
        for number in 0..self.rng.random_range(0..6) {
            objects.push(AnyObject::new(self.volume(number)));
        }
        for (namespace, _) in NAMESPACES {
            for number in 0..CLAIMS {
                objects.push(AnyObject::new(self.claim(namespace, number)));
            }
        }
        objects
    }

    fn volume(&mut self, number: u32) -> PersistentVolume {
        let zone = self.pick(&ZONES);
        let in_zone = NodeSelectorTerm {
            labels: vec![Requirement::equals(ZONE, zone)],
            ..NodeSelectorTerm::default()
        };
        let zones = match self.rng.random_range(0..3) {
            0 => vec![(ZONE, zone.to_owned())],
            1 => vec![(ZONE, format!("{zone}__{}", self.pick(&ZONES)))],
            _ => vec![],
        };
        let source =
            VolumeSource::Csi { driver: DRIVER.into(), handle: format!("h{number}").into() };
        PersistentVolume {
            labels: Labels::from_iter(zones),
            source: if self.once_in(3) { VolumeSource::Other } else { source },
            name: format!("v{number}").into(),
            uid: format!("v{number}").into(),
            resource_version: "1".into(),
            class: self.pick(&["late", "local", "soon"]).into(),
            capacity: gib(self.rng.random_range(1..=4)),
            access_modes: AccessModes::all(),
            node_affinity: (!self.once_in(3)).then(|| vec![in_zone]),
            ..PersistentVolume::default()
        }
    }

    fn claim(&mut self, namespace: &str, number: u32) -> PersistentVolumeClaim {
        let alone = self.once_in(3);
        PersistentVolumeClaim {
            key: ObjectKey::new(namespace, format!("c{number}")),
            uid: format!("{namespace}-c{number}").into(),
            resource_version: "1".into(),
            class: self.pick(&["late", "late", "local", "soon"]).into(),
            requested: gib(self.rng.random_range(1..=4)),
            access_modes: match alone {
                true => AccessModes::READ_WRITE_ONCE_POD,
                false => AccessModes::READ_WRITE_ONCE,
            },
            phase: ClaimPhase::Pending,
            ..PersistentVolumeClaim::default()
        }
    }

    /// A volume of a pod: a disk that it names itself, or one of the claims.
    pub(super) fn mount(&mut self) -> PodVolume {
        if self.once_in(4) {
            let read_only = self.once_in(2);
            let kind = PodVolumeKind::Inline { source: self.disk(), read_only };
            return PodVolume { name: "disk".into(), kind };
        }
        let claim = Str::from(format!("c{}", self.rng.random_range(0..CLAIMS)));
        PodVolume { name: "data".into(), kind: PodVolumeKind::Claim(claim) }
    }
}

impl Maker {
    fn disk(&mut self) -> VolumeSource {
        let name = Str::from(self.pick(&["d0", "d1"]));
        match self.rng.random_range(0..4) {
            0 => VolumeSource::GcePersistentDisk { name },
            1 => VolumeSource::AwsElasticBlockStore { volume_id: name },
            2 => VolumeSource::Iscsi { iqn: name },
            _ => {
                let monitors =
                    vec![self.pick(&["m0", "m1"]).into(), self.pick(&["m1", "m2"]).into()];
                VolumeSource::Rbd { monitors, pool: "rbd".into(), image: name }
            }
        }
    }
}

fn gib(n: i64) -> Quantity {
    Quantity::new(n * GIB, Format::BinarySi)
}
