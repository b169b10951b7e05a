//! Random nodes.

use plimsoll_api::features::USER_NAMESPACES_HOST_NETWORK;
use plimsoll_api::{Effect, Labels, Node, Resources, Scalars, Str, Taint};
use rand::RngExt;

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
const MIB: i64 = 1 << 20;

impl Maker {
    /// The node of this number, as it may be at some time.
    pub(super) fn node(&mut self, number: u32) -> Node {
        let name = Str::from(format!("n{number}"));
        let mut labels = vec![(HOSTNAME, name.to_string())];
        if !self.once_in(6) {
            labels.push((ZONE, self.pick(&ZONES).to_owned()));
        }
        if self.once_in(2) {
            labels.push(("disk", self.pick(&["ssd", "hdd"]).to_owned()));
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
            unschedulable: self.once_in(10),
            allocatable: self.allocatable(),
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
        Resources {
            milli_cpu: 500 * self.rng.random_range(1..=8),
            memory: 512 * MIB * self.rng.random_range(1..=8),
            ephemeral_storage: 1024 * MIB,
            pods: self.rng.random_range(2..=8),
            scalar,
        }
    }
}
