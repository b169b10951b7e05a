//! The utilization of the resources of a node that args name, as release 1.20 computed it.
//!
//! It differs from the current [`resource_allocation`](plimsoll_plugins::resource_allocation) as follows:
//!
//! * Every resource that the args name counts, with its weight, even an extended one that the pod does
//!   not request, and one that the node does not have.
//! * The CPU of a pod's overhead is rounded up to whole cores, which are then counted as thousandths:
//!   250m counts as 1m.
//! * A resource that is listed twice counts once, with its last weight.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_framework::prelude::*;
use plimsoll_plugins::resource_allocation::{ResourceAmounts, ScoredResource, Usage};
use serde::Deserialize;

/// What these plugins read of a pod.
pub(super) type RequestedResource = (RoomRequests, NonZeroRequests, OverheadMilliCpu);
/// What they read of a node.
pub(super) type Room = (Allocatable, Requested, NonZeroRequested);

const MILLIS: i64 = 1000;

/// The resources that count, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Weighed(Vec<ScoredResource>);

impl Default for Weighed {
    fn default() -> Self {
        Weighed(ScoredResource::all(Vec::new()))
    }
}

impl From<Vec<LegacyResourceSpec>> for Weighed {
    fn from(specs: Vec<LegacyResourceSpec>) -> Self {
        let weights: BTreeMap<Str, i64> =
            specs.into_iter().map(|spec| (spec.name, spec.weight)).collect();
        Weighed(
            weights.into_iter().map(|(name, weight)| ScoredResource::new(name, weight)).collect(),
        )
    }
}

/// The weighted sum of the scores of resources, and the sum of their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) scores: i64,
    pub(super) weights: i64,
}

impl Sum {
    /// The mean, truncated to a whole number.
    pub(super) fn mean(self) -> i64 {
        self.scores.checked_div(self.weights).unwrap_or(0)
    }
}

impl Weighed {
    /// Adds up `score` of each resource on a node with the pod; its argument is `None` for a resource
    /// that the node does not have. A resource without a score has no weight.
    ///
    /// As in resource_allocation.go of release 1.20, calculateResourceAllocatableRequest.
    pub(super) fn sum(
        &self,
        (requests, non_zero, overhead): Ref<'_, RequestedResource>,
        node: Ref<'_, Room>,
        score: impl Fn(Option<Usage>) -> Option<i64>,
    ) -> Sum {
        let (Allocatable(allocatable), Requested(requested), NonZeroRequested(taken)) = node;
        let node = ResourceAmounts::non_zero(*taken, requested);
        let pod = ResourceAmounts::non_zero(with_cores_for_millis(*non_zero, overhead), requests);
        let mut sum = Sum::default();
        for resource in &self.0 {
            if let Some(score) = score(Usage::of_any(resource, allocatable, node, pod)) {
                sum.scores += score * resource.weight;
                sum.weights += resource.weight;
            }
        }
        sum
    }
}

/// As in resource_allocation.go of release 1.20, calculatePodResourceRequest: overhead is added in
/// whole units, rounded up, even where containers count in thousandths.
fn with_cores_for_millis(requests: NonZero, overhead_milli_cpu: i64) -> NonZero {
    let cores = -(-overhead_milli_cpu).div_euclid(MILLIS);
    NonZero { milli_cpu: requests.milli_cpu - overhead_milli_cpu + cores, ..requests }
}

/// Args of plugins that take nothing but resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourcesArgs {
    /// The resources by which nodes are scored: CPU and memory with equal weights by default. Weights
    /// are 1 to 100, where 0 stands for 1.
    pub(super) resources: UpTo100,
}

/// A resource that counts in scoring, as in args.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LegacyResourceSpec {
    /// Its name, such as `cpu` or `nvidia.com/gpu`.
    name: Str,
    /// How much it counts.
    #[serde(default = "one")]
    weight: i64,
}

fn one() -> i64 {
    1
}

/// Resources with weights up to 100.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<LegacyResourceSpec>")]
pub(super) struct UpTo100(pub(super) Weighed);

/// Resources with weights of any size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<LegacyResourceSpec>")]
pub(super) struct Unbounded(pub(super) Weighed);

/// The largest weight. The sum of weights times scores, which are at most 100, then fits into 64 bits.
const MOST: i64 = i64::MAX >> 32;

/// As in validation_pluginargs.go of release 1.20, validateResources.
impl TryFrom<Vec<LegacyResourceSpec>> for UpTo100 {
    type Error = WeightError;

    fn try_from(specs: Vec<LegacyResourceSpec>) -> Result<Self, WeightError> {
        weighed(specs, 100, "(0, 100]").map(UpTo100)
    }
}

/// As in validation_pluginargs.go of release 1.20, validateResourcesNoMax.
impl TryFrom<Vec<LegacyResourceSpec>> for Unbounded {
    type Error = WeightError;

    fn try_from(specs: Vec<LegacyResourceSpec>) -> Result<Self, WeightError> {
        weighed(specs, MOST, "[1, inf)").map(Unbounded)
    }
}

/// A weight that no resource can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WeightError {
    index: usize,
    name: Str,
    range: &'static str,
}

impl fmt::Display for WeightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WeightError { index, name, range } = self;
        write!(f, "[{index}].weight: resource weight of {name} not in valid range {range}")
    }
}

fn weighed(
    mut specs: Vec<LegacyResourceSpec>,
    most: i64,
    range: &'static str,
) -> Result<Weighed, WeightError> {
    if specs.is_empty() {
        return Ok(Weighed::default());
    }
    for (index, spec) in specs.iter_mut().enumerate() {
        if spec.weight == 0 {
            spec.weight = 1;
        }
        if !(1..=most).contains(&spec.weight) {
            return Err(WeightError { index, name: spec.name.clone(), range });
        }
    }
    Ok(Weighed::from(specs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(weights: &[(&str, i64)]) -> Vec<LegacyResourceSpec> {
        let spec = |&(name, weight): &(&str, i64)| LegacyResourceSpec { name: name.into(), weight };
        weights.iter().map(spec).collect()
    }

    #[test]
    fn a_resource_that_is_named_twice_counts_once_with_its_last_weight() {
        let twice = Weighed::from(specs(&[("cpu", 1), ("memory", 3), ("cpu", 5)]));
        assert_eq!(twice, Weighed::from(specs(&[("cpu", 5), ("memory", 3)])));
    }

    #[test]
    fn no_resources_are_cpu_and_memory_and_no_weight_is_1() {
        let alike = Weighed::from(specs(&[("cpu", 1), ("memory", 1)]));
        assert_eq!(UpTo100::try_from(specs(&[])), Ok(UpTo100(alike.clone())));
        assert_eq!(Unbounded::try_from(specs(&[("cpu", 0), ("memory", 0)])), Ok(Unbounded(alike)));
    }

    #[test]
    fn weights_that_are_too_small_or_too_large_are_refused() {
        let told = |weight| {
            let specs = || specs(&[("memory", 1), ("cpu", weight)]);
            let bounded = UpTo100::try_from(specs()).err().map(|error| error.to_string());
            let unbounded = Unbounded::try_from(specs()).err().map(|error| error.to_string());
            [bounded, unbounded].map(Option::unwrap_or_default)
        };
        let bounded = "[1].weight: resource weight of cpu not in valid range (0, 100]";
        let unbounded = "[1].weight: resource weight of cpu not in valid range [1, inf)";
        assert_eq!(told(-1), [bounded, unbounded]);
        assert_eq!(told(100), ["", ""]);
        assert_eq!(told(101), [bounded, ""]);
        assert_eq!(told(i64::MAX), [bounded, unbounded]);
    }

    #[test]
    fn the_cpu_of_overhead_counts_in_cores_taken_for_thousandths() {
        let of = |overhead| {
            let requests = NonZero { milli_cpu: 100 + overhead, memory: 7 };
            let counted = with_cores_for_millis(requests, overhead);
            assert_eq!(counted.memory, 7);
            counted.milli_cpu
        };
        assert_eq!([0, 1, 250, 1000, 1001].map(of), [100, 101, 101, 101, 102]);
    }
}
