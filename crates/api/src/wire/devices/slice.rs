//! Devices as drivers publish them, on the wire.

mod check;

use serde::Deserialize;

use super::super::error::{Result, Within};
use super::super::meta::{Meta, Metadata};
use super::super::primitive::{List, Table, given};
use super::super::{Manifest, Wire};
use super::{NO_DEVICES, VERSIONS, WireNodeSelector, WireTaint, sorted};
use crate::devices::{
    AttributeValue, CapacityPolicy, CapacityRange, CounterConsumption, CounterSet, Device,
    DeviceCapacity, DeviceNodes, NodeAllocatableMapping,
};
use crate::{Kind, ObjectKey, Quantity, ResourceSlice, Str};

/// resource.k8s.io ResourceSlice.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireResourceSlice {
    metadata: Option<Metadata>,
    spec: Option<SliceSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SliceSpec {
    driver: Option<Str>,
    pool: Option<Pool>,
    node_name: Option<Str>,
    node_selector: Option<WireNodeSelector>,
    all_nodes: Option<bool>,
    per_device_node_selection: Option<bool>,
    devices: List<WireDevice>,
    shared_counters: List<WireCounterSet>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Pool {
    name: Option<Str>,
    generation: Option<i64>,
    resource_slice_count: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireDevice {
    name: Option<Str>,
    /// The other fields in `v1beta1`.
    basic: Option<Box<WireDevice>>,
    attributes: Table<WireAttribute>,
    capacity: Table<WireCapacity>,
    consumes_counters: List<WireConsumption>,
    node_name: Option<Str>,
    node_selector: Option<WireNodeSelector>,
    all_nodes: Option<bool>,
    taints: List<WireTaint>,
    binds_to_node: Option<bool>,
    binding_conditions: List<Str>,
    binding_failure_conditions: List<Str>,
    allow_multiple_allocations: Option<bool>,
    node_allocatable_resource_mappings: Table<WireMapping>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireAttribute {
    int: Option<i64>,
    bool: Option<bool>,
    string: Option<Str>,
    version: Option<Str>,
    ints: Option<Vec<i64>>,
    bools: Option<Vec<bool>>,
    strings: Option<Vec<Str>>,
    versions: Option<Vec<Str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireCapacity {
    value: Quantity,
    request_policy: Option<WirePolicy>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WirePolicy {
    default: Option<Quantity>,
    valid_values: List<Quantity>,
    valid_range: Option<WireRange>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireRange {
    min: Option<Quantity>,
    max: Option<Quantity>,
    step: Option<Quantity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireCounterSet {
    name: Option<Str>,
    counters: Table<WireCounter>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireConsumption {
    counter_set: Option<Str>,
    counters: Table<WireCounter>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireCounter {
    value: Quantity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireMapping {
    capacity_key: Option<Str>,
    allocation_multiplier: Option<Quantity>,
}

impl Wire for WireResourceSlice {
    type Value = ResourceSlice;

    fn take(self) -> Result<ResourceSlice> {
        let meta = Meta::take(self.metadata)?;
        let spec = self.spec.unwrap_or_default();
        spec.check().within("spec")?;
        let pool = spec.pool.unwrap_or_default();
        let nodes = nodes(spec.node_name, spec.all_nodes, spec.node_selector);
        let nodes = match nodes {
            DeviceNodes::Unknown if spec.per_device_node_selection == Some(true) => {
                DeviceNodes::PerDevice
            }
            nodes => nodes,
        };
        let sets = spec.shared_counters.into_iter().map(|set| CounterSet {
            name: set.name.unwrap_or_default(),
            counters: counters(set.counters),
        });
        Ok(ResourceSlice {
            name: meta.name,
            driver: spec.driver.unwrap_or_default(),
            pool: pool.name.unwrap_or_default(),
            generation: pool.generation.unwrap_or_default(),
            slice_count: pool.resource_slice_count.unwrap_or_default(),
            nodes,
            devices: spec.devices.into_iter().map(WireDevice::take).collect(),
            shared_counters: sets.collect(),
        })
    }
}

/// In the order in which kube-scheduler asks. As in pools_incubating.go, nodeMatches.
fn nodes(name: Option<Str>, all: Option<bool>, selector: Option<WireNodeSelector>) -> DeviceNodes {
    match (given(name), all, selector) {
        (Some(name), ..) => DeviceNodes::Node(name),
        (None, Some(true), _) => DeviceNodes::All,
        (None, _, Some(selector)) => DeviceNodes::Selected(Box::new(selector.take())),
        (None, _, None) => DeviceNodes::Unknown,
    }
}

fn counters(table: Table<WireCounter>) -> Vec<(Str, Quantity)> {
    sorted(table.0.into_iter().map(|(name, counter)| (name, counter.value)))
}

impl WireDevice {
    fn take(mut self) -> Device {
        let name = self.name.take();
        let fields = match self.basic {
            Some(basic) => *basic,
            None => self,
        };
        let consumes = fields.consumes_counters.into_iter().map(|one| CounterConsumption {
            counter_set: one.counter_set.unwrap_or_default(),
            counters: counters(one.counters),
        });
        let attributes = fields.attributes.0.into_iter();
        let capacity = fields.capacity.0.into_iter();
        let mappings = fields.node_allocatable_resource_mappings.0.into_iter();
        let mappings = mappings.map(|(resource, mapping)| {
            let WireMapping { capacity_key, allocation_multiplier } = mapping;
            let capacity_key = given(capacity_key);
            (resource, NodeAllocatableMapping { capacity_key, multiplier: allocation_multiplier })
        });
        Device {
            name: name.unwrap_or_default(),
            attributes: sorted(attributes.map(|(name, value)| (name, value.take()))),
            capacity: sorted(capacity.map(|(name, capacity)| (name, capacity.take()))),
            consumes_counters: consumes.collect(),
            taints: fields.taints.into_iter().map(WireTaint::take).collect(),
            nodes: nodes(fields.node_name, fields.all_nodes, fields.node_selector),
            binds_to_node: fields.binds_to_node.unwrap_or_default(),
            binding_conditions: fields.binding_conditions.0,
            binding_failure_conditions: fields.binding_failure_conditions.0,
            allow_multiple_allocations: fields.allow_multiple_allocations.unwrap_or_default(),
            node_allocatable: sorted(mappings),
        }
    }
}

impl WireAttribute {
    /// In the order in which the allocator asks.
    fn take(self) -> AttributeValue {
        None.or(self.string.map(AttributeValue::String))
            .or(self.int.map(AttributeValue::Int))
            .or(self.bool.map(AttributeValue::Bool))
            .or(self.version.map(AttributeValue::Version))
            .or(self.ints.map(AttributeValue::Ints))
            .or(self.bools.map(AttributeValue::Bools))
            .or(self.strings.map(AttributeValue::Strings))
            .or(self.versions.map(AttributeValue::Versions))
            .unwrap_or_default()
    }
}

impl WireCapacity {
    fn take(self) -> DeviceCapacity {
        let policy = self.request_policy.map(|policy| {
            Box::new(CapacityPolicy {
                default: policy.default,
                valid_values: policy.valid_values.0,
                valid_range: policy.valid_range.map(|range| CapacityRange {
                    min: range.min,
                    max: range.max,
                    step: range.step,
                }),
            })
        });
        DeviceCapacity { value: self.value, policy }
    }
}

impl Kind for ResourceSlice {
    const NAME: &'static str = "ResourceSlice";
    const PLURAL: &'static str = "resourceslices";
    const VERSIONS: &'static [&'static str] = VERSIONS;
    const NAMESPACED: bool = false;
    const WITHOUT: Option<&'static str> = Some(NO_DEVICES);

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireResourceSlice>()?.take()
    }
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::table;

    fn show_nodes(nodes: &DeviceNodes) -> String {
        match nodes {
            DeviceNodes::Selected(selector) => {
                let labels = [("zone", "a")].into_iter().collect();
                format!("selected {:?}", selector.matches("n", &labels))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_slice_is_read_with_its_pool_and_nodes() {
        let pool = r#""driver":"d","pool":{"name":"p","resourceSliceCount":1}"#;
        let of = |spec: &str| format!(r#"{{"metadata":{{"name":"s"}},"spec":{{{spec}}}}}"#);
        let terms = |operator: &str| {
            let one = r#"{"key":"zone","operator":"OP","values":["a"]}"#.replace("OP", operator);
            format!(
                r#"{pool},"nodeSelector":{{"nodeSelectorTerms":[{{"matchExpressions":[{one}]}}]}}"#
            )
        };
        for (spec, expected) in [
            (
                r#""driver":"d","pool":{"name":"p","generation":3,"resourceSliceCount":2},"nodeName":"n""#.to_owned(),
                r#"s d/p 3 2 Node("n")"#,
            ),
            (format!(r#"{pool},"nodeName":"","allNodes":true"#), "s d/p 0 1 All"),
            (format!(r#"{pool},"perDeviceNodeSelection":true"#), "s d/p 0 1 PerDevice"),
            (terms("In"), "s d/p 0 1 selected Ok(true)"),
            (terms("NotIn"), "s d/p 0 1 selected Ok(false)"),
            (
                terms("Near"),
                r#"s d/p 0 1 selected Err("nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator")"#,
            ),
        ] {
            table(WireResourceSlice::take, &[(&of(&spec), expected)], |slice| {
                let ResourceSlice { name, driver, pool, generation, slice_count, nodes, .. } = slice;
                let nodes = show_nodes(&nodes);
                format!("{name} {driver}/{pool} {generation} {slice_count} {nodes}")
            });
        }
    }

    fn show_device(device: &Device) -> String {
        let mut words = vec![device.name.to_string()];
        words.extend(device.attributes.iter().map(|(name, value)| format!("{name}={value:?}")));
        for (name, capacity) in &device.capacity {
            words.push(format!("{name}:{}", capacity.value));
            let Some(policy) = &capacity.policy else { continue };
            words.extend(policy.default.iter().map(|one| format!("default={one}")));
            words.extend(policy.valid_values.iter().map(|one| format!("valid={one}")));
            let range = policy.valid_range.iter().flat_map(|range| {
                [("min", &range.min), ("max", &range.max), ("step", &range.step)]
            });
            let range = range.filter_map(|(name, one)| Some(format!("{name}={}", one.as_ref()?)));
            words.extend(range);
        }
        for one in &device.consumes_counters {
            let counters = one.counters.iter().map(|(name, value)| format!(" {name}={value}"));
            words.push(format!("{}:{}", one.counter_set, counters.collect::<String>()));
        }
        words.extend(device.taints.iter().map(|one| format!("{}:{}", one.key, one.effect)));
        words.push(show_nodes(&device.nodes));
        words.extend(device.binding_conditions.iter().map(|one| format!("if {one}")));
        words.extend(device.binding_failure_conditions.iter().map(|one| format!("unless {one}")));
        for (resource, mapping) in &device.node_allocatable {
            let multiplier = mapping.multiplier.as_ref().map(ToString::to_string);
            words.push(format!("{resource}={:?}*{multiplier:?}", mapping.capacity_key));
        }
        words.push(format!("{} {}", device.binds_to_node, device.allow_multiple_allocations));
        words.join(" ")
    }

    #[test]
    fn a_device_is_read_in_the_shape_of_each_version() {
        let fields = r#""attributes":{"model":{"string":"a"},"c.io/index":{"int":1},"ok":{"bool":true},
            "v":{"version":"1.0.0"},"x":{},"l":{"ints":[1,2]}},"capacity":{"memory":{"value":"1Gi"}},
            "taints":[{"key":"hot","effect":"NoSchedule"}],"allNodes":true"#;
        let expected = r#"gpu c.io/index=Int(1) l=Ints([1, 2]) model=String("a") ok=Bool(true) v=Version("1.0.0") x=Unknown memory:1Gi hot:NoSchedule All false false"#;
        table(
            |device: WireDevice| Ok(device.take()),
            &[
                (&format!(r#"{{"name":"gpu",{fields}}}"#), expected),
                (&format!(r#"{{"name":"gpu","basic":{{{fields}}}}}"#), expected),
                (r#"{"name":"bare"}"#, "bare Unknown false false"),
                (
                    r#"{"name":"nic","bindsToNode":true,"allowMultipleAllocations":true,"nodeName":"n",
                        "bindingConditions":["up"],"bindingFailureConditions":["down"],
                        "consumesCounters":[{"counterSet":"set","counters":{"b":{"value":"2"},"a":{"value":1}}}],
                        "capacity":{"queues":{"value":8,"requestPolicy":{"default":"1","validValues":["1","2"],
                            "validRange":{"min":"1","max":"8","step":"500m"}}}},
                        "nodeAllocatableResourceMappings":{"memory":{"capacityKey":"queues"},
                            "cpu":{"allocationMultiplier":"2"}}}"#,
                    r#"nic queues:8 default=1 valid=1 valid=2 min=1 max=8 step=500m set: a=1 b=2 Node("n") if up unless down cpu=None*Some("2") memory=Some("queues")*None true true"#,
                ),
                (
                    r#"{"name":"nic","capacity":{"memory":{"value":"1 gig"}}}"#,
                    r#"capacity[memory].value: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': got "1 gig", a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3"#,
                ),
            ],
            |device| show_device(&device),
        );
    }

    #[test]
    fn counters_are_those_of_their_sets() {
        table(
            WireResourceSlice::take,
            &[(
                r#"{"metadata":{"name":"s"},"spec":{"driver":"d","allNodes":true,
                    "pool":{"name":"p","resourceSliceCount":1},"sharedCounters":[
                    {"name":"set","counters":{"memory":{"value":"40Gi"},"cores":{"value":"7"}}}]}}"#,
                "set cores=7 memory=40Gi",
            )],
            |slice| {
                let set = &slice.shared_counters[0];
                let counters = set.counters.iter().map(|(name, value)| format!(" {name}={value}"));
                format!("{}{}", set.name, counters.collect::<String>())
            },
        );
    }
}
