//! Random volumes, the claims on them, and what provides them.

use serde_json::{Value, json};

use super::{NAMESPACES, Random, ZONES};

/// Classes with their provisioner and binding mode.
const CLASSES: [(&str, &str, &str); 3] = [
    ("late", "disks.example.com", "WaitForFirstConsumer"),
    ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    ("soon", "disks.example.com", "Immediate"),
];
const DRIVER: &str = "disks.example.com";
/// How many claims there may be in a namespace.
const CLAIMS: u64 = 3;

impl Random {
    /// The storage of the cluster; none in half of all scenarios.
    pub(super) fn storage(&mut self, nodes: u64, lines: &mut Vec<String>) {
        if self.one_in(2) {
            return;
        }
        for (name, provisioner, mode) in CLASSES {
            let class = json!({ "provisioner": provisioner, "volumeBindingMode": mode });
            lines.push(format!("sc {name} {class}"));
        }
        for node in 0..nodes {
            if self.one_in(4) {
                continue;
            }
            let driver = json!({ "name": DRIVER, "nodeID": format!("n{node}"),
                "allocatable": { "count": 1 + self.below(2) } });
            lines.push(format!("csinode n{node} {}", json!({ "drivers": [driver] })));
        }
        if self.one_in(2) {
            let driver = json!({ "storageCapacity": true, "attachRequired": true });
            lines.push(format!("csidriver {DRIVER} {driver}"));
        }
        for zone in ZONES {
            if self.one_in(2) {
                let left = json!({ "storageClassName": "late",
                    "capacity": format!("{}Gi", self.below(4)) });
                lines.push(format!("csicapacity {zone} zone={zone} {left}"));
            }
        }
        let mut volumes = 0;
        for namespace in NAMESPACES {
            for claim in 0..CLAIMS {
                if self.one_in(6) {
                    continue;
                }
                let claim = self.claim(namespace, claim, &mut volumes, lines);
                lines.push(claim);
            }
        }
        for volume in volumes..volumes + self.below(4) {
            let class = self.pick(&["late", "local", "soon"]);
            lines.push(self.volume(volume, class, None));
        }
        for attachment in 0..self.below(3) {
            let source = json!({ "persistentVolumeName": format!("v{}", self.below(volumes + 1)) });
            let fields = json!({ "attacher": DRIVER, "nodeName": format!("n{}", self.below(nodes)),
                "source": source });
            lines.push(format!("va a{attachment} {fields}"));
        }
    }

    /// A claim. If it is bound, the volume is added to `lines`.
    fn claim(
        &mut self,
        namespace: &str,
        number: u64,
        volumes: &mut u64,
        lines: &mut Vec<String>,
    ) -> String {
        let class = self.pick(&["late", "local", "soon"]);
        let mode = self.pick(&["ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"]);
        let storage = format!("{}Gi", 1 + self.below(3));
        let mut fields = json!({ "storageClassName": class, "accessModes": [mode],
            "resources": { "requests": { "storage": storage } } });
        if self.one_in(2) {
            fields["volumeName"] = json!(format!("v{volumes}"));
            fields["annotations"] = json!({ "pv.kubernetes.io/bind-completed": "yes" });
            fields["status"] = json!({ "phase": "Bound" });
            let claim = json!({ "namespace": namespace, "name": format!("c{number}"),
                "uid": format!("{namespace}/c{number}") });
            lines.push(self.volume(*volumes, class, Some(claim)));
            *volumes += 1;
        }
        format!("pvc {namespace}/c{number} {fields}")
    }

    fn volume(&mut self, number: u64, class: &str, claim: Option<Value>) -> String {
        let mut fields = json!({
            "storageClassName": class,
            "capacity": { "storage": format!("{}Gi", 1 + self.below(3)) },
            "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
            "csi": { "driver": DRIVER, "volumeHandle": format!("h{}", self.handle(number)) },
        });
        let zone = self.pick(&ZONES);
        if self.one_in(2) {
            let in_zone = json!({ "key": "zone", "operator": "In", "values": [zone] });
            fields["nodeAffinity"] =
                json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [in_zone] }] } });
        }
        if let Some(claim) = claim {
            fields["claimRef"] = claim;
            fields["status"] = json!({ "phase": "Bound" });
        }
        let label = match self.below(3) {
            0 => format!(" topology.kubernetes.io/zone={zone}"),
            1 => format!(" topology.kubernetes.io/zone={zone}__{}", self.pick(&ZONES)),
            _ => String::new(),
        };
        format!("pv v{number}{label} {fields}")
    }

    /// The handle of a volume: seldom that of another one.
    fn handle(&mut self, number: u64) -> u64 {
        if self.one_in(8) { self.below(number + 1) } else { number }
    }

    /// The volumes of a pod; mostly none.
    pub(super) fn volumes(&mut self) -> Vec<Value> {
        let mut volumes = Vec::new();
        if self.one_in(3) {
            let claim = format!("c{}", self.below(CLAIMS));
            volumes.push(json!({ "name": "a", "persistentVolumeClaim": { "claimName": claim } }));
        }
        if self.one_in(6) {
            let disk = format!("d{}", self.below(2));
            let read_only = self.one_in(2);
            let mut volume = match self.below(4) {
                0 => json!({ "awsElasticBlockStore": { "volumeID": disk } }),
                1 => json!({ "iscsi": { "iqn": disk, "targetPortal": "10.0.0.1", "lun": 0,
                    "readOnly": read_only } }),
                2 => json!({ "rbd": { "monitors": ["m1", "m2"], "pool": "rbd", "image": disk,
                    "readOnly": read_only } }),
                _ => json!({ "gcePersistentDisk": { "pdName": disk, "readOnly": read_only } }),
            };
            volume["name"] = json!("b");
            volumes.push(volume);
        }
        volumes
    }
}
