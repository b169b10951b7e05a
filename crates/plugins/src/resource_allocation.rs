//! The utilization of the resources of a node, for all plugins that score by resources.

use plimsoll_api::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use plimsoll_framework::MAX_NODE_SCORE;
use plimsoll_framework::prelude::{NonZero, Resources, Str};
use serde::{Deserialize, Serialize};

use crate::bounds::RequestedResource;
use crate::utilization_shape::MAX_UTILIZATION;

/// A resource that counts in scoring, as in args.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct ResourceSpec {
    /// Its name, such as `cpu` or `nvidia.com/gpu`.
    pub name: String,
    /// How much it counts: 1 to 100, where 0 stands for 1.
    pub weight: i64,
}

/// CPU and memory alike if no resources are named; a weight of 0 is 1.
pub(crate) fn complete(resources: &mut Vec<ResourceSpec>) {
    if resources.is_empty() {
        let alike = |name: &str| ResourceSpec { name: name.to_owned(), weight: 1 };
        resources.extend([alike(CPU), alike(MEMORY)]);
    }
    for resource in resources {
        if resource.weight == 0 {
            resource.weight = 1;
        }
    }
}

/// A resource that counts in scoring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoredResource {
    kind: ResourceType,
    /// Its weight.
    pub weight: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ResourceType {
    Cpu,
    Memory,
    EphemeralStorage,
    Scalar(Str),
}

impl ScoredResource {
    /// The resource called `name`.
    pub fn new(name: Str, weight: i64) -> Self {
        let kind = match name.as_str() {
            CPU => ResourceType::Cpu,
            MEMORY => ResourceType::Memory,
            EPHEMERAL_STORAGE => ResourceType::EphemeralStorage,
            _ => ResourceType::Scalar(name),
        };
        ScoredResource { kind, weight }
    }

    /// The resources that args name.
    pub fn all(mut specs: Vec<ResourceSpec>) -> Vec<Self> {
        complete(&mut specs);
        specs.into_iter().map(|spec| ScoredResource::new(spec.name.into(), spec.weight)).collect()
    }

    /// Its name.
    pub(crate) fn name(&self) -> Str {
        match &self.kind {
            ResourceType::Cpu => Str::const_new(CPU),
            ResourceType::Memory => Str::const_new(MEMORY),
            ResourceType::EphemeralStorage => Str::const_new(EPHEMERAL_STORAGE),
            ResourceType::Scalar(name) => name.clone(),
        }
    }

    /// Its name, unless it is CPU, memory or ephemeral storage.
    pub(crate) fn scalar(&self) -> Option<&Str> {
        match &self.kind {
            ResourceType::Scalar(name) => Some(name),
            ResourceType::Cpu | ResourceType::Memory | ResourceType::EphemeralStorage => None,
        }
    }

    /// Whether it counts only for pods that request it.
    fn is_scalar(&self) -> bool {
        matches!(self.kind, ResourceType::Scalar(_))
    }

    /// The requests of `pod` for those `resources` that count for it.
    pub(crate) fn asked<'a>(
        resources: &'a [ScoredResource],
        pod: ResourceAmounts<'a>,
    ) -> impl Iterator<Item = RequestedResource> {
        let asked = resources.iter().map(move |one| (one, pod.of(one)));
        let counts = |&(one, amount): &(&ScoredResource, i64)| amount != 0 || !one.is_scalar();
        asked.filter(counts).map(|(one, amount)| RequestedResource::new(one, amount))
    }
}

/// Amounts of resources; CPU and memory are counted in one of two ways.
#[derive(Clone, Copy, Debug)]
pub struct ResourceAmounts<'a> {
    milli_cpu: i64,
    memory: i64,
    others: &'a Resources,
}

impl<'a> ResourceAmounts<'a> {
    /// The exact requests.
    pub(crate) fn exact(asked: &'a Resources) -> Self {
        ResourceAmounts { milli_cpu: asked.milli_cpu, memory: asked.memory, others: asked }
    }

    /// CPU and memory count with a default for containers without a request.
    pub fn non_zero(counted: NonZero, asked: &'a Resources) -> Self {
        ResourceAmounts { milli_cpu: counted.milli_cpu, memory: counted.memory, others: asked }
    }

    /// The amount of `resource`.
    pub(crate) fn of(&self, resource: &ScoredResource) -> i64 {
        match &resource.kind {
            ResourceType::Cpu => self.milli_cpu,
            ResourceType::Memory => self.memory,
            ResourceType::EphemeralStorage => self.others.ephemeral_storage,
            ResourceType::Scalar(name) => self.others.scalar.get(name).copied().unwrap_or(0),
        }
    }
}

/// The usage of one resource of a node, without and with the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What pods can use; not 0.
    pub allocatable: i64,
    /// What the pods on the node use.
    pub without: i64,
    /// The same with the pod.
    pub with: i64,
}

impl Usage {
    /// The usage of `resource` on the node. `None` if it does not count: the node does not have it, or
    /// it is an extended resource or huge pages that the pod does not request.
    ///
    /// As in resource_allocation.go, `calculateNodeAllocatableRequest`.
    #[inline]
    pub(crate) fn of(
        resource: &ScoredResource,
        allocatable: &Resources,
        node: ResourceAmounts<'_>,
        pod: ResourceAmounts<'_>,
    ) -> Option<Usage> {
        let unasked_scalar = pod.of(resource) == 0 && resource.is_scalar();
        if unasked_scalar { None } else { Usage::of_any(resource, allocatable, node, pod) }
    }

    /// The same, whether or not the pod requests `resource`. `None` if the node does not have it.
    #[inline]
    pub fn of_any(
        resource: &ScoredResource,
        allocatable: &Resources,
        node: ResourceAmounts<'_>,
        pod: ResourceAmounts<'_>,
    ) -> Option<Usage> {
        let allocatable = ResourceAmounts::exact(allocatable).of(resource);
        let without = node.of(resource);
        let with = without.saturating_add(pod.of(resource));
        (allocatable != 0).then_some(Usage { allocatable, without, with })
    }

    /// The free share of the node with the pod, from 0 to 100, truncated to a whole number.
    pub fn free_share(self) -> i64 {
        let free = self.allocatable.saturating_sub(self.used()).max(0);
        share(free, self.allocatable, MAX_NODE_SCORE)
    }

    /// The used share of the node with the pod, from 0 to 100, truncated to a whole number.
    pub fn used_share(self) -> i64 {
        share(self.used(), self.allocatable, MAX_UTILIZATION)
    }

    /// The usage with the pod, limited to the capacity: it can exceed it because pods count with
    /// defaults.
    fn used(self) -> i64 {
        self.with.clamp(0, self.allocatable.max(0))
    }
}

/// `part` of `whole` on a scale up to `scale`. Exact even if 64 bits would overflow.
fn share(part: i64, whole: i64, scale: i64) -> i64 {
    if let Some(scaled) = part.checked_mul(scale) {
        return scaled / whole;
    }
    let share = i128::from(part) * i128::from(scale) / i128::from(whole);
    i64::try_from(share).expect("a part of the whole is within the scale")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(name: &'static str) -> ScoredResource {
        ScoredResource::new(Str::const_new(name), 1)
    }

    fn usage(
        name: &'static str,
        node: &Resources,
        taken: &Resources,
        pod: &Resources,
    ) -> Option<(i64, i64, i64)> {
        let usage = Usage::of(
            &counted(name),
            node,
            ResourceAmounts::exact(taken),
            ResourceAmounts::exact(pod),
        );
        usage.map(|usage| (usage.without, usage.with, usage.allocatable))
    }

    fn disk_and_gpus(ephemeral_storage: i64, gpus: i64) -> Resources {
        let scalar = [(Str::const_new("nvidia.com/gpu"), gpus)].into();
        Resources { ephemeral_storage, scalar, ..Resources::default() }
    }

    #[test]
    fn only_scalar_resources_are_left_out_when_the_pod_asks_for_none() {
        let (node, taken) = (disk_and_gpus(10, 8), disk_and_gpus(3, 2));
        let nothing = Resources::default();
        assert_eq!(usage("ephemeral-storage", &node, &taken, &nothing), Some((3, 3, 10)));
        assert_eq!(usage("nvidia.com/gpu", &node, &taken, &nothing), None);
        assert_eq!(usage("nvidia.com/gpu", &node, &taken, &disk_and_gpus(0, 1)), Some((2, 3, 8)));
    }

    #[test]
    fn what_the_node_has_none_of_is_left_out() {
        let pod = disk_and_gpus(1, 1);
        let nothing = Resources::default();
        assert_eq!(usage("ephemeral-storage", &nothing, &nothing, &pod), None);
        assert_eq!(usage("nvidia.com/gpu", &nothing, &nothing, &pod), None);
        assert_eq!(usage("memory", &nothing, &nothing, &pod), None);
    }

    #[test]
    fn defaults_count_for_cpu_and_memory_only() {
        let counted_as = NonZero { milli_cpu: 100, memory: 200 };
        let asked = disk_and_gpus(7, 1);
        let amounts = ResourceAmounts::non_zero(counted_as, &asked);
        let of = |name| amounts.of(&counted(name));
        let names = ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "example.com/other"];
        assert_eq!(names.map(of), [100, 200, 7, 1, 0]);
    }

    #[test]
    fn shares_stay_within_0_and_100_and_do_not_overflow() {
        let of = |with, allocatable| Usage { allocatable, without: 0, with };
        let shares = |usage: Usage| (usage.free_share(), usage.used_share());
        assert_eq!(shares(of(1, 3)), (66, 33));
        assert_eq!(shares(of(4, 3)), (0, 100));
        assert_eq!(shares(of(i64::MAX / 4, i64::MAX)), (75, 24));
        assert_eq!(shares(of(i64::MIN, 1)), (100, 0));
    }
}
