//! Whether the nodes have as much left as a group needs at least.

use std::collections::BTreeMap;

use plimsoll_api::quantity::Format;
use plimsoll_api::{Quantity, Resources};
use plimsoll_framework::prelude::*;

use super::group_of;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
const PODS: &str = "pods";
const HUGE_PAGES: &str = "hugepages-";

/// What a node has left if the pods of the group that is asked about were not on it.
pub(super) struct FreeRoom {
    left: Resources,
    pods: i64,
}

impl FreeRoom {
    /// As in core.go, getNodeResource.
    pub(super) fn on(
        (allocatable, requested, pods): (&Allocatable, &Requested, &PodSet),
        group: &ObjectKey,
    ) -> Self {
        let mut left = allocatable.0.clone();
        left.sub(&requested.0);
        let mut n_others = pods.len();
        for own in pods.iter().filter(|pod| group_of(pod).as_ref() == Some(group)) {
            left.add(&own.requests);
            n_others -= 1;
        }
        let n_others = i64::try_from(n_others).unwrap_or(i64::MAX);
        FreeRoom { left, pods: allocatable.0.pods.saturating_sub(n_others) }
    }

    /// As in util/resource.go, ResourceList: what a node does not have is zero.
    fn amount(&self, name: &str) -> Quantity {
        match name {
            CPU => Quantity::from_milli(self.left.milli_cpu, Format::DecimalSi),
            MEMORY => Quantity::new(self.left.memory, Format::BinarySi),
            EPHEMERAL_STORAGE => Quantity::new(self.left.ephemeral_storage, Format::BinarySi),
            PODS => Quantity::new(self.pods, Format::BinarySi),
            other if other.starts_with(HUGE_PAGES) => {
                Quantity::new(self.left.get(other), Format::BinarySi)
            }
            other => Quantity::new(self.left.get(other), Format::DecimalSi),
        }
    }
}

/// Whether the nodes have `least` left, and room for `min_member` pods. The error says what is missing. As in core.go,
/// CheckClusterResource: node by node, and what is covered is not looked at any more.
pub(super) fn check(
    least: &BTreeMap<Str, Quantity>,
    min_member: u32,
    rooms: impl Iterator<Item = FreeRoom>,
) -> Result<(), String> {
    let mut missing = least.clone();
    missing.insert(PODS.into(), Quantity::new(i64::from(min_member), Format::DecimalSi));
    for room in rooms {
        missing.retain(|name, amount| {
            amount.sub(&room.amount(name));
            !amount.is_negative() && !amount.is_zero()
        });
        if missing.is_empty() {
            return Ok(());
        }
    }
    // Go prints the map with the fields of its values.
    let missing: Vec<String> =
        missing.iter().map(|(name, amount)| format!("{name}:{}", amount.as_go_struct())).collect();
    Err(format!("resource gap: map[{}]", missing.join(" ")))
}
