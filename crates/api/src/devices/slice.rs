//! Devices as drivers publish them.

use serde::{Deserialize, Serialize};

use super::{DeviceNodeSelector, DeviceTaint};
use crate::{Quantity, Str};

/// resource.k8s.io ResourceSlice: some devices of a pool, or counters that devices of the pool consume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSlice {
    /// Its name, unique in the cluster.
    pub name: Str,
    /// The driver of the devices.
    pub driver: Str,
    /// The name of the pool. Only together with the driver is it unique.
    pub pool: Str,
    /// The generation of the pool. Slices of older generations do not count.
    pub generation: i64,
    /// How many slices the pool has in this generation.
    pub slice_count: i64,
    /// The nodes from which the devices can be reached.
    pub nodes: DeviceNodes,
    /// The devices, in their order.
    pub devices: Vec<Device>,
    /// Counters that devices of the pool consume.
    pub shared_counters: Vec<CounterSet>,
}

/// The nodes from which devices can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceNodes {
    /// Nothing that is known is given: no node.
    #[default]
    Unknown,
    /// The node of this name.
    Node(Str),
    /// All nodes.
    All,
    /// The nodes that are selected.
    Selected(Box<DeviceNodeSelector>),
    /// Each device of the slice says it (`perDeviceNodeSelection`). A device itself does not have this value.
    PerDevice,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name, unique in its pool.
    pub name: Str,
    /// Its attributes, sorted by name. A name without a domain is in the domain of the driver.
    pub attributes: Vec<(Str, AttributeValue)>,
    /// Its capacities, sorted by name. A name without a domain is in the domain of the driver.
    pub capacity: Vec<(Str, DeviceCapacity)>,
    /// The counters of its pool that it consumes while it is allocated.
    pub consumes_counters: Vec<CounterConsumption>,
    /// Its taints.
    pub taints: Vec<DeviceTaint>,
    /// The nodes from which it can be reached, if its slice leaves that to the devices.
    pub nodes: DeviceNodes,
    /// Whether an allocation with it can be used only on the node for which it was made.
    pub binds_to_node: bool,
    /// The conditions that must be true before a pod with it is bound.
    pub binding_conditions: Vec<Str>,
    /// The conditions of which none may be true then.
    pub binding_failure_conditions: Vec<Str>,
    /// Whether several claims can share it.
    pub allow_multiple_allocations: bool,
    /// The resources of the node for which it stands, sorted by resource (`nodeAllocatableResourceMappings`).
    pub node_allocatable: Vec<(Str, NodeAllocatableMapping)>,
}

impl Device {
    /// The attribute with this name, which has a domain, if the device is one of `driver`. As in the allocator,
    /// lookupAttribute: the full name is looked up first, then the name in the domain of the driver.
    pub fn attribute(&self, driver: &str, name: &str) -> Option<&AttributeValue> {
        let own = |name: &str| {
            let at = self.attributes.binary_search_by(|(key, _)| key.as_str().cmp(name)).ok()?;
            Some(&self.attributes[at].1)
        };
        own(name).or_else(|| {
            let (domain, id) = name.split_once('/')?;
            if domain == driver { own(id) } else { None }
        })
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AttributeValue {
    /// None that is known.
    #[default]
    Unknown,
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A text.
    String(Str),
    /// A version, as in semver 2.0.0.
    Version(Str),
    /// Integers.
    Ints(Vec<i64>),
    /// Truth values.
    Bools(Vec<bool>),
    /// Texts.
    Strings(Vec<Str>),
    /// Versions.
    Versions(Vec<Str>),
}

/// A capacity of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCapacity {
    /// How much there is.
    pub value: Quantity,
    /// How claims that share the device can consume it; `None` for any amount.
    pub policy: Option<Box<CapacityPolicy>>,
}

/// The amounts that claims can consume of a capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityPolicy {
    /// The amount of a claim that does not say how much it needs.
    pub default: Option<Quantity>,
    /// The amounts that are allowed, in ascending order.
    pub valid_values: Vec<Quantity>,
    /// The range of the amounts that are allowed.
    pub valid_range: Option<CapacityRange>,
}

/// A range of amounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityRange {
    /// The smallest. It is required, but may be missing in an object of another release.
    pub min: Option<Quantity>,
    /// The largest.
    pub max: Option<Quantity>,
    /// The distance of allowed amounts from the smallest is a multiple of this.
    pub step: Option<Quantity>,
}

/// Counters that devices of a pool share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSet {
    /// Its name, unique in the pool.
    pub name: Str,
    /// The counters and their values, sorted by name.
    pub counters: Vec<(Str, Quantity)>,
}

/// What a device consumes of a counter set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterConsumption {
    /// The name of the set.
    pub counter_set: Str,
    /// The amounts, sorted by the name of the counter.
    pub counters: Vec<(Str, Quantity)>,
}

/// How much of a resource of the node a device stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAllocatableMapping {
    /// The capacity of the device that counts; `None` if each allocation counts the same.
    pub capacity_key: Option<Str>,
    /// The factor for the consumed capacity, or the amount of an allocation. The default is 1.
    pub multiplier: Option<Quantity>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_without_a_domain_is_in_that_of_the_driver() {
        let attributes = [("a.io/model", "full"), ("model", "bare"), ("size", "bare")];
        let device = Device {
            attributes: attributes
                .map(|(name, text)| (name.into(), AttributeValue::String(text.into())))
                .into(),
            ..Device::default()
        };
        let value = |driver, name| match device.attribute(driver, name) {
            Some(AttributeValue::String(text)) => text.as_str(),
            _ => "",
        };
        assert_eq!(value("a.io", "a.io/model"), "full");
        assert_eq!(value("a.io", "a.io/size"), "bare");
        assert_eq!(value("b.io", "b.io/model"), "bare");
        assert_eq!(value("b.io", "a.io/size"), "");
        assert_eq!(value("b.io", "a.io/model"), "full");
    }
}
