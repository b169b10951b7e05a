//! NodeResourcesLeastAllocated: prefers emptier nodes.

use plimsoll_framework::prelude::*;
use plimsoll_plugins::resource_allocation::Usage;

use super::allocation::{RequestedResource, Room, Weighed};

pub use super::allocation::ResourcesArgs;

/// Prefers nodes with more free resources after placing the pod.
///
/// Placing pods on the emptiest nodes spreads them over the cluster and leaves each room to grow. The
/// score is the weighted mean of the free shares in percent. The current NodeResourcesFit does the same
/// with its strategy `LeastAllocated`, but ignores resources that a pod does not request.
///
/// Example: of a node with 4 CPUs and 10 GB, a pod with 3 CPUs and 5 GB leaves 25 and 50 percent, and
/// the score is 37.
#[derive(Debug)]
pub struct NodeResourcesLeastAllocated {
    resources: Weighed,
}

/// The plugin, where it stands.
pub fn entry() -> Entry {
    Entry::of::<NodeResourcesLeastAllocated>().score().done()
}

impl Plugin for NodeResourcesLeastAllocated {
    const NAME: &'static str = "NodeResourcesLeastAllocated";
    type Args = ResourcesArgs;

    fn new(args: ResourcesArgs, _: &FeatureGates) -> Self {
        NodeResourcesLeastAllocated { resources: args.resources.0 }
    }
}

impl Score for NodeResourcesLeastAllocated {
    type Pod = RequestedResource;
    type Node = Room;

    /// As in least_allocated.go of release 1.20: nothing is free of a resource that the node does not
    /// have.
    fn score(&self, pod: Ref<'_, RequestedResource>, node: Ref<'_, Room>) -> i64 {
        let free = |usage: Option<Usage>| Some(usage.map_or(0, Usage::free_share));
        self.resources.sum(pod, node, free).mean()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{check, expect};

    use super::*;

    #[test]
    fn the_emptier_node_is_preferred() {
        check(
            entry(),
            r#"
            node a {"allocatable": {"cpu": "4", "memory": "10000Mi"}}
            node b {"allocatable": {"cpu": "6", "memory": "10000Mi"}}
            node c {"allocatable": {"cpu": "10", "memory": "20000Mi"}}
            pod x on c {"requests": {"cpu": "6", "memory": "10000Mi"}}
            pod p {"requests": {"cpu": "3", "memory": "5000Mi"}}
            pod nothing {"requests": {"cpu": "0", "memory": "0"}}
            "#,
            &expect![[r#"
                p a score 37
                p b score 50
                p c score 17
                nothing a score 100
                nothing b score 100
                nothing c score 45
            "#]],
        );
    }

    #[test]
    fn a_resource_counts_though_the_pod_does_not_ask_for_it_or_the_node_has_none() {
        check(
            entry(),
            r#"
            args {"resources": [{"name": "cpu", "weight": 3}, {"name": "example.com/gpu", "weight": 1}]}
            node with {"allocatable": {"cpu": "4", "example.com/gpu": "4"}}
            node without {"allocatable": {"cpu": "4"}}
            pod x on with {"requests": {"cpu": "0", "example.com/gpu": "2"}}
            pod p {"requests": {"cpu": "1"}}
            "#,
            &expect![[r#"
                p with score 68
                p without score 56
            "#]],
        );
    }

    #[test]
    fn a_node_that_is_more_than_full_has_nothing_left() {
        check(
            entry(),
            r#"
            node a {"allocatable": {"cpu": "50m", "memory": "1000Mi"}}
            pod defaults
            "#,
            &expect![[r"
                defaults a score 40
            "]],
        );
    }

    #[test]
    fn overhead_hardly_counts_for_cpu() {
        check(
            entry(),
            r#"
            args {"resources": [{"name": "cpu"}]}
            node a {"allocatable": {"cpu": "1"}}
            pod p {"requests": {"cpu": "100m"}, "overhead": {"cpu": "500m", "memory": "1Gi"}}
            "#,
            &expect![[r"
                p a score 89
            "]],
        );
    }
}
