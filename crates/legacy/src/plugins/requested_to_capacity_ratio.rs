//! RequestedToCapacityRatio: prefers nodes by a function of their utilization.

use plimsoll_framework::prelude::*;
use plimsoll_plugins::resource_allocation::Usage;
use plimsoll_plugins::utilization_shape::{
    MAX_UTILIZATION, UtilizationShape, UtilizationShapePoint,
};
use serde::Deserialize;

use super::allocation::{RequestedResource, Room, Unbounded, Weighed};

/// Prefers nodes by a function of their utilization with the pod, the shape.
///
/// A shape gives each utilization of a resource a score. The score of a node is the weighted mean over
/// the resources, rounded half up; a resource with a score of 0 has no weight. The current
/// NodeResourcesFit does the same with its strategy `RequestedToCapacityRatio`, but there utilization
/// is truncated to whole percents instead of rounded up, and resources that a pod does not request or a
/// node does not have are ignored. Here such a resource counts as fully used.
///
/// Example: with the shape from 0 at 0 percent to 10 at 100, a pod with 1 of the 3 CPUs of a node gives
/// it 34.
#[derive(Debug)]
pub struct RequestedToCapacityRatio {
    shape: UtilizationShape,
    resources: Weighed,
}

/// The args of [`RequestedToCapacityRatio`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestedToCapacityRatioArgs {
    /// The score for each utilization. Required if there are args.
    shape: UtilizationShape,
    /// The resources by which nodes are scored: CPU and memory alike if none are named. Weights are 1
    /// or more, where 0 stands for 1.
    #[serde(default)]
    resources: Unbounded,
}

impl Default for RequestedToCapacityRatioArgs {
    /// Emptier nodes first. Release 1.20 has no default; earlier ones had this.
    fn default() -> Self {
        let point = |utilization, score| UtilizationShapePoint { utilization, score };
        let falling = UtilizationShape::try_from(vec![point(0, 10), point(100, 0)]);
        RequestedToCapacityRatioArgs {
            shape: falling.expect("utilizations rise from 0 to 100 and scores are 0 to 10"),
            resources: Unbounded::default(),
        }
    }
}

/// The plugin, where it stands.
pub fn entry() -> Entry {
    Entry::of::<RequestedToCapacityRatio>().score().done()
}

impl Plugin for RequestedToCapacityRatio {
    const NAME: &'static str = "RequestedToCapacityRatio";
    type Args = RequestedToCapacityRatioArgs;

    fn new(args: RequestedToCapacityRatioArgs, _: &FeatureGates) -> Self {
        RequestedToCapacityRatio { shape: args.shape, resources: args.resources.0 }
    }
}

impl Score for RequestedToCapacityRatio {
    type Pod = RequestedResource;
    type Node = Room;

    /// As in requested_to_capacity_ratio.go of release 1.20: the free part is truncated to whole
    /// percents, so the used part is rounded up.
    fn score(&self, pod: Ref<'_, RequestedResource>, node: Ref<'_, Room>) -> i64 {
        let by_shape = |usage: Option<Usage>| {
            let free = usage.map_or(0, Usage::free_share);
            Some(self.shape.score(MAX_UTILIZATION - free)).filter(|&score| 0 < score)
        };
        let sum = self.resources.sum(pod, node, by_shape);
        (2 * sum.scores + sum.weights).checked_div(2 * sum.weights).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{check, expect};
    use serde_json::json;

    use super::*;

    #[test]
    fn utilization_is_rounded_up_to_whole_percents() {
        check(
            entry(),
            r#"
            args {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
                  "resources": [{"name": "cpu"}]}
            node a {"allocatable": {"cpu": "3"}}
            node b {"allocatable": {"cpu": "4"}}
            pod p {"requests": {"cpu": "1"}}
            "#,
            &expect![[r"
                p a score 34
                p b score 25
            "]],
        );
    }

    #[test]
    fn the_mean_is_rounded_half_up() {
        check(
            entry(),
            r#"
            node a {"allocatable": {"cpu": "4", "memory": "10000Mi"}}
            pod p {"requests": {"cpu": "3", "memory": "5000Mi"}}
            "#,
            &expect![[r"
                p a score 38
            "]],
        );
    }

    #[test]
    fn a_resource_with_a_score_of_0_has_no_weight() {
        check(
            entry(),
            r#"
            args {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
                  "resources": [{"name": "cpu", "weight": 300}, {"name": "memory", "weight": 1}]}
            node a {"allocatable": {"cpu": "4", "memory": "10000Mi"}}
            pod p {"requests": {"cpu": "0", "memory": "5000Mi"}}
            pod nothing {"requests": {"cpu": "0", "memory": "0"}}
            "#,
            &expect![[r"
                p a score 50
                nothing a score 0
            "]],
        );
    }

    #[test]
    fn what_the_node_has_none_of_is_as_good_as_used_up() {
        check(
            entry(),
            r#"
            args {"shape": [{"utilization": 0, "score": 2}, {"utilization": 100, "score": 10}],
                  "resources": [{"name": "example.com/gpu"}]}
            node none
            node free {"allocatable": {"example.com/gpu": "4"}}
            node half {"allocatable": {"example.com/gpu": "4"}}
            node over {"allocatable": {"example.com/gpu": "4"}}
            pod x on half {"requests": {"example.com/gpu": "2"}}
            pod y on over {"requests": {"example.com/gpu": "5"}}
            pod p
            "#,
            &expect![[r"
                p none score 100
                p free score 20
                p half score 60
                p over score 100
            "]],
        );
    }

    #[test]
    fn args_without_a_shape_are_refused() {
        let told = |args| {
            let made = entry().make(Some(&args), &FeatureGates::default());
            made.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(
            told(json!({"shape": []})),
            "args.shape of plugin RequestedToCapacityRatio: at least one point must be specified"
        );
        assert_eq!(
            told(json!({})),
            "args of plugin RequestedToCapacityRatio: missing field `shape`"
        );
        assert_eq!(
            told(json!({"shape": [{"score": 1}], "resources": [{"name": "cpu", "weight": -1}]})),
            "args.resources of plugin RequestedToCapacityRatio: [0].weight: resource weight of cpu \
             not in valid range [1, inf)"
        );
    }
}
