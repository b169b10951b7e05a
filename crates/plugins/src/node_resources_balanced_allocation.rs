//! NodeResourcesBalancedAllocation: prefers nodes whose resource usage a pod makes more balanced.

use plimsoll_api::ObjectStores;
use plimsoll_api::resources::is_for_devices;
use plimsoll_framework::prelude::*;
use serde::{Deserialize, Serialize};

use crate::bounds::{Evener, RequestedResource};
use crate::devices::{CountedDevices, DeviceGates, DeviceKinds, TaintRules};
use crate::resource_allocation::{self, ResourceAmounts, ResourceSpec, ScoredResource, Usage};

/// Prefers nodes whose resource usage becomes more balanced with the pod.
///
/// A node with free memory but no free CPU is of no use to the next pod. The balance is 100 minus the
/// standard deviation of the used shares in percent. The score is 75 if the pod does not change it, up
/// to 100 if the node becomes more balanced, and down to 50 if it becomes less balanced.
///
/// Example: of an empty node with 4 CPUs and 10 GB, a pod with 3 CPUs and 5 GB uses 75 and 50 percent.
/// The balance falls from 100 to 87, and the score is 50 + (50 + 87 - 100) / 2 = 68.
///
/// A pod that requests none of the resources does not change the balance, and gets no scores.
#[derive(Debug)]
pub struct NodeResourcesBalancedAllocation {
    resources: Vec<ScoredResource>,
    gates: DeviceGates,
}

/// The args of [`NodeResourcesBalancedAllocation`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct NodeResourcesBalancedAllocationArgs {
    #[serde(skip_serializing)]
    api_version: String,
    #[serde(skip_serializing)]
    kind: String,
    /// The resources to be kept even; CPU and memory if not given. Weights are 1 and do not count.
    pub resources: Vec<ResourceSpec>,
}

/// The plugin, where it stands.
pub fn entry() -> Entry {
    Entry::of::<NodeResourcesBalancedAllocation>()
        .score()
        .at(Point::PreScore)
        .pre_score_if(NodeResourcesBalancedAllocation::counts_devices)
        .reads_if::<DeviceKinds>(NodeResourcesBalancedAllocation::counts_devices)
        .reads_if::<TaintRules>(|plugin| plugin.gates.taint_rules)
        .score_by_amounts()
        .shows_args()
        .done()
}

impl Plugin for NodeResourcesBalancedAllocation {
    const NAME: &'static str = "NodeResourcesBalancedAllocation";
    type Args = NodeResourcesBalancedAllocationArgs;

    fn new(args: Self::Args, gates: &FeatureGates) -> Self {
        NodeResourcesBalancedAllocation {
            resources: ScoredResource::all(args.resources),
            gates: DeviceGates::of(gates),
        }
    }

    fn complete(args: &mut Self::Args, _: &FeatureGates) {
        resource_allocation::complete(&mut args.resources);
    }

    /// As in validation_pluginargs.go, ValidateNodeResourcesBalancedAllocationArgs.
    fn validate(args: &Self::Args, _: &FeatureGates, faults: &mut ArgsFaults) {
        let field = ArgsField::default().key("resources");
        for (index, resource) in args.resources.iter().enumerate() {
            if args.resources[..index].iter().any(|other| other.name == resource.name) {
                faults.duplicate(field.index(index).key("name"), &resource.name);
            }
            if resource.weight != 1 {
                faults.invalid(field.index(index).key("weight"), resource.weight, "must be 1");
            }
        }
    }
}

impl Score for NodeResourcesBalancedAllocation {
    type Pod = BalanceRequests;
    type Node = (Allocatable, Requested);

    fn applies(&self, requests: &Resources) -> bool {
        let asked = ResourceAmounts::exact(requests);
        self.resources.iter().any(|resource| asked.of(resource) != 0)
    }

    fn score(&self, requests: &Resources, node: (&Allocatable, &Requested)) -> i64 {
        let (mut without, mut with) = (Shares::new(), Shares::new());
        for usage in usages(&self.resources, requests, node) {
            without.push(share(usage.without, usage.allocatable));
            with.push(share(usage.with, usage.allocatable));
        }
        let (without, with) = (evenness(&without), evenness(&with));
        // As in balanced_allocation.go, balancedResourceScorer.
        MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2 + with - without) / 2
    }
}

/// Counts devices where classes stand for resources that args name. As in resource_allocation.go,
/// calculateResourceAllocatableRequest.
impl PreScore for NodeResourcesBalancedAllocation {
    type Pod = BalanceRequests;
    type Node = ((Name, Labels), (Allocatable, Requested));
    type Cluster = ObjectsOf<DeviceKinds>;
    type State = (Resources, CountedDevices);

    fn applies(&self, requests: &Resources) -> bool {
        Score::applies(self, requests)
    }

    fn pre_score(
        &self,
        requests: &Resources,
        _: Feasible<'_, <Self as PreScore>::Node>,
        objects: &ObjectStores,
    ) -> Option<Self::State> {
        let named = self.resources.iter().filter_map(ScoredResource::scalar);
        Some((requests.clone(), CountedDevices::of(&self.gates, named, objects)))
    }

    fn score(
        &self,
        (requests, devices): &Self::State,
        _: Row,
        ((name, labels), (Allocatable(allocatable), Requested(requested))): Ref<
            '_,
            <Self as PreScore>::Node,
        >,
    ) -> i64 {
        let (allocatable, requested) = devices.count(name, labels, allocatable, requested);
        let node = (&Allocatable(allocatable.into_owned()), &Requested(requested.into_owned()));
        Score::score(self, requests, node)
    }
}

impl NodeResourcesBalancedAllocation {
    /// Whether devices can stand for a resource that args name.
    fn counts_devices(&self) -> bool {
        let mut named = self.resources.iter().filter_map(ScoredResource::scalar);
        self.gates.extended_resources && named.any(|name| is_for_devices(name))
    }
}

impl ScoreByAmounts for NodeResourcesBalancedAllocation {
    #[expect(clippy::cast_precision_loss, reason = "it is a whole number from 50 to 100")]
    fn bound(&self, requests: &Resources) -> Option<Box<dyn ScoreBound>> {
        let asked: SmallVec<[RequestedResource; 2]> =
            ScoredResource::asked(&self.resources, ResourceAmounts::exact(requests)).collect();
        let asked = asked.into_inner().ok()?;
        let (resources, requests) = (self.resources.clone(), requests.clone());
        let without = move |nodes: &Columns, row| {
            let node = <Self as Score>::Node::at(nodes, row);
            let usages = usages(&resources, &requests, node);
            let without: Shares =
                usages.map(|usage| share(usage.without, usage.allocatable)).collect();
            evenness(&without) as f32
        };
        Some(Box::new(Evener { asked, without }))
    }
}

/// The used shares of some resources, 0 to 1.
type Shares = SmallVec<[f64; 4]>;

fn usages<'a>(
    resources: &'a [ScoredResource],
    requests: &'a Resources,
    (Allocatable(allocatable), Requested(requested)): (&'a Allocatable, &'a Requested),
) -> impl Iterator<Item = Usage> {
    let (node, pod) = (ResourceAmounts::exact(requested), ResourceAmounts::exact(requests));
    resources.iter().filter_map(move |resource| Usage::of(resource, allocatable, node, pod))
}

fn share(used: i64, allocatable: i64) -> f64 {
    (float(used) / float(allocatable)).min(1.0)
}

/// 100 minus the standard deviation of the used shares in percent, truncated to a whole number.
///
/// The order of the operations is that of balanced_allocation.go, balancedResourceScore: a different
/// order can give a result just below a whole number.
#[expect(clippy::cast_possible_truncation, reason = "it is a whole number from 50 to 100")]
fn evenness(shares: &[f64]) -> i64 {
    let deviation = match *shares {
        [] | [_] => 0.0,
        [a, b] => ((a - b) / 2.0).abs(),
        _ => standard_deviation(shares),
    };
    ((1.0 - deviation) * float(MAX_NODE_SCORE)) as i64
}

#[expect(clippy::cast_precision_loss, reason = "there are few resources")]
fn standard_deviation(shares: &[f64]) -> f64 {
    let count = shares.len() as f64;
    let mean = shares.iter().fold(0.0, |sum, share| sum + share) / count;
    let squares = shares.iter().fold(0.0, |sum, share| sum + (share - mean) * (share - mean));
    (squares / count).sqrt()
}

#[expect(clippy::cast_precision_loss, reason = "as in Go, amounts beyond 2^53 are rounded")]
fn float(amount: i64) -> f64 {
    amount as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(milli_cpu: i64, memory: i64, gpus: i64) -> Resources {
        let scalar = (gpus != 0).then(|| (Str::const_new("nvidia.com/gpu"), gpus));
        Resources {
            milli_cpu,
            memory,
            scalar: scalar.into_iter().collect(),
            ..Resources::default()
        }
    }

    fn plugin(names: &[&'static str]) -> NodeResourcesBalancedAllocation {
        let spec = |name: &&str| ResourceSpec { name: (*name).to_owned(), weight: 1 };
        let args = NodeResourcesBalancedAllocationArgs {
            resources: names.iter().map(spec).collect(),
            ..Default::default()
        };
        NodeResourcesBalancedAllocation::new(args, &FeatureGates::default())
    }

    const CPU_AND_MEMORY: &[&str] = &["cpu", "memory"];
    const ALL: &[&str] = &["cpu", "memory", "nvidia.com/gpu"];

    fn score(names: &[&'static str], node: Resources, taken: Resources, pod: &Resources) -> i64 {
        Score::score(&plugin(names), pod, (&Allocatable(node), &Requested(taken)))
    }

    #[test]
    fn it_stands_at_pre_score_and_score() {
        assert_eq!(*entry().points(), [Point::PreScore, Point::Score].into());
    }

    #[test]
    fn an_empty_node_that_the_pod_fills_evenly_beats_one_that_it_fills_unevenly() {
        let pod = resources(3000, 5000, 0);
        let empty = Resources::default;
        assert_eq!(score(CPU_AND_MEMORY, resources(4000, 10_000, 0), empty(), &pod), 68);
        assert_eq!(score(CPU_AND_MEMORY, resources(6000, 10_000, 0), empty(), &pod), 75);
    }

    #[test]
    fn a_pod_that_evens_a_node_out_gives_it_more_than_75() {
        let node = || resources(10_000, 20_000, 0);
        let pod = resources(0, 12_000, 0);
        // From 60 and 0 percent to 60 and 60: the evenness rises from 70 to 100.
        assert_eq!(score(CPU_AND_MEMORY, node(), resources(6000, 0, 0), &pod), 90);
        // From 0 and 0 to 0 and 60.
        assert_eq!(score(CPU_AND_MEMORY, node(), Resources::default(), &pod), 60);
    }

    #[test]
    fn a_node_counts_as_no_more_than_full() {
        let pod = resources(9000, 0, 0);
        assert_eq!(
            score(CPU_AND_MEMORY, resources(3000, 10_000, 0), Resources::default(), &pod),
            50
        );
    }

    #[test]
    fn three_resources_are_as_even_as_their_standard_deviation_is_small() {
        let taken = || resources(3000, 5000, 3);
        // From 85.7, 12.5 and 37.5 percent to 85.7, 12.5 and 50: the evenness rises from 69 to 70.
        let node = || resources(3500, 40_000, 8);
        assert_eq!(score(ALL, node(), taken(), &resources(0, 0, 1)), 75);
        // From 85.7, 12.5 and 0 percent to 85.7, 12.5 and 50: it rises from 62 to 70.
        assert_eq!(score(ALL, node(), resources(3000, 5000, 0), &resources(0, 0, 4)), 79);
    }

    #[test]
    fn an_extended_resource_counts_only_if_the_pod_asks_for_it_and_the_node_has_it() {
        let pod = resources(3000, 5000, 0);
        let of = |node, taken| score(ALL, node, taken, &pod);
        let expected = of(resources(3500, 40_000, 0), Resources::default());
        assert_eq!(of(resources(3500, 40_000, 8), resources(0, 0, 4)), expected);
        let asks = resources(3000, 5000, 1);
        let without = score(ALL, resources(3500, 40_000, 0), Resources::default(), &asks);
        assert_eq!(without, expected);
    }

    #[test]
    fn a_pod_that_asks_for_none_of_the_resources_is_skipped() {
        assert!(!Score::applies(&plugin(CPU_AND_MEMORY), &resources(0, 0, 1)));
        assert!(Score::applies(&plugin(CPU_AND_MEMORY), &resources(1, 0, 0)));
        assert!(Score::applies(&plugin(ALL), &resources(0, 0, 1)));
    }
}
