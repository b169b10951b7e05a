//! Random nodes.

use plimsoll_api::features::USER_NAMESPACES_HOST_NETWORK;
use plimsoll_api::{
    AvoidedController, Effect, Labels, Node, NodeImage, Resources, Scalars, Str, Taint,
};
use rand::RngExt;

use super::pods::APPS;
use super::{BEGINNING, Maker};
use crate::lifecycle;

pub(super) const ZONES: [&str; 3] = ["z1", "z2", "z3"];
pub(super) const GPU: &str = "example.com/gpu";
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const TAINTS: [(&str, &str, Effect); 3] = [
    ("gpu", "yes", Effect::NoSchedule),
    ("spot", "", Effect::PreferNoSchedule),
    ("old", "", Effect::NoExecute),
];
/// The label with the size of a node.
pub(super) const SIZE: &str = "size";
/// Images with their sizes in MiB.
pub(super) const IMAGES: [(&str, i64); 3] = [("nginx:1", 180), ("redis:7", 40), ("huge:v1", 2500)];
const MIB: i64 = 1 << 20;
/// Amounts at which sums and products overflow 64 bits, and zero.
const EXTREMES: [i64; 4] = [i64::MAX, i64::MAX - 1, 1 << 57, 0];

impl Maker {
    /// A random state of the node with this number.
    pub(super) fn node(&mut self, number: u32) -> Node {
        let name = Str::from(format!("n{number}"));
        let mut labels = vec![(HOSTNAME, name.to_string())];
        if !self.once_in(6) {
            labels.push((ZONE, self.pick(&ZONES).to_owned()));
        }
        if self.once_in(2) {
            labels.push(("disk", self.pick(&["ssd", "hdd"]).to_owned()));
        }
        if self.once_in(2) {
            labels.push((SIZE, self.pick(&["0", "1", "2", "3", "4", "big"]).to_owned()));
        }
        let mut images = IMAGES.to_vec();
        images.retain(|_| self.once_in(3));
        let image = |(name, size): (&str, i64)| NodeImage {
            names: vec![Str::from(name)],
            size: size * MIB,
        };
        let mut avoided = Vec::new();
        if self.has(self.traits.owners) && self.once_in(3) {
            let uid = format!("default-ReplicaSet-{}", self.pick(&APPS)).into();
            avoided.push(AvoidedController { kind: "ReplicaSet".into(), uid });
        }
        let mut taints = Vec::new();
        for (key, value, effect) in TAINTS {
            if self.once_in(10) {
                taints.push(Taint { key: key.into(), value: value.into(), effect });
            }
        }
        let declares = self.once_in(2);
        Node {
            name,
            labels: Labels::from_iter(labels),
            taints,
            avoided,
            unschedulable: self.once_in(10),
            allocatable: self.allocatable(),
            images: images.into_iter().map(image).collect(),
            declared_features: declares
                .then(|| USER_NAMESPACES_HOST_NETWORK.into())
                .into_iter()
                .collect(),
            created: lifecycle::timestamp(plimsoll_framework::Time::from_millis(BEGINNING)),
            ..Node::default()
        }
    }

    fn allocatable(&mut self) -> Resources {
        let mut scalar = Scalars::default();
        if self.once_in(3) {
            scalar.insert(Str::from(GPU), self.rng.random_range(1..=2));
        }
        let mut allocatable = Resources {
            milli_cpu: 500 * self.rng.random_range(1..=8),
            memory: 512 * MIB * self.rng.random_range(1..=8),
            ephemeral_storage: 1024 * MIB,
            pods: self.rng.random_range(2..=8),
            scalar,
        };
        let Resources { milli_cpu, memory, ephemeral_storage, pods, .. } = &mut allocatable;
        for amount in [milli_cpu, memory, ephemeral_storage, pods] {
            if self.has(self.traits.extremes) && self.once_in(6) {
                *amount = self.pick(&EXTREMES);
            }
        }
        allocatable
    }
}
