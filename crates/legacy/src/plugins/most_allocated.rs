//! NodeResourcesMostAllocated: prefers fuller nodes.

use plimsoll_framework::prelude::*;
use plimsoll_plugins::resource_allocation::Usage;

use super::allocation::{RequestedResource, Room, Weighed};

pub use super::allocation::ResourcesArgs;

/// Prefers nodes with fewer free resources after placing the pod.
///
/// Filling nodes leaves others empty, which can then be removed. The score is the weighted mean of the
/// used shares in percent. A resource whose usage exceeds the node, because pods count with defaults,
/// scores 0. The current NodeResourcesFit does nearly the same with its strategy `MostAllocated`, but
/// there such a resource scores 100, and resources that a pod does not request are ignored.
///
/// Example: of a node with 4 CPUs and 10 GB, a pod with 3 CPUs and 5 GB uses 75 and 50 percent, and the
/// score is 62.
#[derive(Debug)]
pub struct NodeResourcesMostAllocated {
    resources: Weighed,
}

/// The plugin, where it stands.
pub fn entry() -> Entry {
    Entry::of::<NodeResourcesMostAllocated>().score().done()
}

impl Plugin for NodeResourcesMostAllocated {
    const NAME: &'static str = "NodeResourcesMostAllocated";
    type Args = ResourcesArgs;

    fn new(args: ResourcesArgs, _: &FeatureGates) -> Self {
        NodeResourcesMostAllocated { resources: args.resources.0 }
    }
}

impl Score for NodeResourcesMostAllocated {
    type Pod = RequestedResource;
    type Node = Room;

    /// As in most_allocated.go of release 1.20.
    fn score(&self, pod: Ref<'_, RequestedResource>, node: Ref<'_, Room>) -> i64 {
        let used = |usage: Option<Usage>| {
            let within = usage.filter(|usage| usage.with <= usage.allocatable);
            Some(within.map_or(0, Usage::used_share))
        };
        self.resources.sum(pod, node, used).mean()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{check, expect};

    use super::*;

    #[test]
    fn the_fuller_node_is_preferred() {
        check(
            entry(),
            r#"
            node a {"allocatable": {"cpu": "4", "memory": "10000Mi"}}
            node b {"allocatable": {"cpu": "6", "memory": "10000Mi"}}
            node c {"allocatable": {"cpu": "10", "memory": "20000Mi"}}
            pod x on c {"requests": {"cpu": "3", "memory": "5000Mi"}}
            pod p {"requests": {"cpu": "3", "memory": "5000Mi"}}
            pod nothing {"requests": {"cpu": "0", "memory": "0"}}
            "#,
            &expect![[r#"
                p a score 62
                p b score 50
                p c score 55
                nothing a score 0
                nothing b score 0
                nothing c score 27
            "#]],
        );
    }

    #[test]
    fn what_seems_more_than_used_up_counts_as_unused() {
        check(
            entry(),
            r#"
            node a {"allocatable": {"cpu": "50m", "memory": "1000Mi"}}
            node b {"allocatable": {"cpu": "100m", "memory": "1000Mi"}}
            pod defaults
            "#,
            &expect![[r"
                defaults a score 10
                defaults b score 60
            "]],
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
                p with score 31
                p without score 18
            "#]],
        );
    }
}
