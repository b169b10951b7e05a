//! Scoring strategies: whether pods go to emptier or to fuller nodes.

use plimsoll_framework::prelude::{Resources, ScoreBound, Str};

use super::args::{LEAST_ALLOCATED, MOST_ALLOCATED, ScoringStrategyArgs};
use crate::bounds::{HighestOfShape, MeanShare, Prefer};
use crate::resource_allocation::{ResourceAmounts, ScoredResource, Usage};
use crate::utilization_shape::UtilizationShape;

/// How NodeResourcesFit scores a node, and by which resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScoringStrategy {
    kind: StrategyType,
    resources: Vec<ScoredResource>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum StrategyType {
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio(UtilizationShape),
}

impl Default for ScoringStrategy {
    fn default() -> Self {
        ScoringStrategy {
            kind: StrategyType::LeastAllocated,
            resources: ScoredResource::all(Vec::new()),
        }
    }
}

impl ScoringStrategy {
    /// The score of a node with `pod` on it, 0 to 100: the weighted mean over the resources.
    ///
    /// As in least_allocated.go, most_allocated.go and requested_to_capacity_ratio.go: the first two
    /// truncate the mean to a whole number, and the last one rounds it half up.
    pub(super) fn score(
        &self,
        allocatable: &Resources,
        node: ResourceAmounts<'_>,
        pod: ResourceAmounts<'_>,
    ) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for resource in &self.resources {
            let usage = Usage::of(resource, allocatable, node, pod);
            if let Some(score) = usage.and_then(|usage| self.kind.score(usage)) {
                sum += score * resource.weight;
                weights += resource.weight;
            }
        }
        match self.kind {
            _ if weights == 0 => 0,
            StrategyType::LeastAllocated | StrategyType::MostAllocated => sum / weights,
            StrategyType::RequestedToCapacityRatio(_) => (2 * sum + weights) / (2 * weights),
        }
    }

    /// The resources that it counts besides CPU, memory and ephemeral storage.
    pub(super) fn scalars(&self) -> impl Iterator<Item = &Str> {
        self.resources.iter().filter_map(ScoredResource::scalar)
    }

    /// The resources that it counts.
    pub(super) fn resources(&self) -> &[ScoredResource] {
        &self.resources
    }

    /// The upper bounds of [the scores](Self::score) of nodes.
    pub(super) fn bound(&self, pod: ResourceAmounts<'_>) -> Box<dyn ScoreBound> {
        let asked = ScoredResource::asked(&self.resources, pod).collect();
        match &self.kind {
            StrategyType::LeastAllocated => Box::new(MeanShare { prefer: Prefer::Empty, asked }),
            StrategyType::MostAllocated => Box::new(MeanShare { prefer: Prefer::Full, asked }),
            StrategyType::RequestedToCapacityRatio(shape) => {
                Box::new(HighestOfShape::new(shape, asked))
            }
        }
    }
}

impl StrategyType {
    /// The score for one resource. `None` if it does not count: with a shape, a score of 0 does
    /// not.
    fn score(&self, usage: Usage) -> Option<i64> {
        match self {
            StrategyType::LeastAllocated => Some(usage.free_share()),
            StrategyType::MostAllocated => Some(usage.used_share()),
            StrategyType::RequestedToCapacityRatio(shape) => {
                Some(shape.score(usage.used_share())).filter(|&score| score > 0)
            }
        }
    }
}

/// The strategy of valid args.
impl From<ScoringStrategyArgs> for ScoringStrategy {
    fn from(args: ScoringStrategyArgs) -> Self {
        let kind = match args.kind.as_str() {
            LEAST_ALLOCATED => StrategyType::LeastAllocated,
            MOST_ALLOCATED => StrategyType::MostAllocated,
            _ => {
                let ratio = args.requested_to_capacity_ratio.expect("it is there with this type");
                StrategyType::RequestedToCapacityRatio(
                    ratio.shape.try_into().expect("a valid shape"),
                )
            }
        };
        ScoringStrategy { kind, resources: ScoredResource::all(args.resources) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::RequestedToCapacityRatioParam;
    use super::*;
    use crate::utilization_shape::UtilizationShapePoint;

    const GPU: &str = "nvidia.com/gpu";

    fn amounts([milli_cpu, memory, gpus]: [i64; 3]) -> Resources {
        let scalar = [(Str::const_new(GPU), gpus)].into();
        Resources { milli_cpu, memory, scalar, ..Resources::default() }
    }

    fn strategy(kind: StrategyType, weights: &[(&'static str, i64)]) -> ScoringStrategy {
        let counted = |&(name, weight)| ScoredResource::new(Str::const_new(name), weight);
        ScoringStrategy { kind, resources: weights.iter().map(counted).collect() }
    }

    fn shape(points: &[(i32, i32)]) -> UtilizationShape {
        let point = |&(utilization, score)| UtilizationShapePoint { utilization, score };
        let points: Vec<_> = points.iter().map(point).collect();
        points.try_into().expect("the points are valid")
    }

    fn ratio(points: &[(i32, i32)]) -> StrategyType {
        StrategyType::RequestedToCapacityRatio(shape(points))
    }

    const ALIKE: &[(&str, i64)] = &[("cpu", 1), ("memory", 1)];
    const WITH_GPU: &[(&str, i64)] = &[("cpu", 1), ("memory", 1), (GPU, 1)];

    /// Scores of `node` with `taken` and then `pod` on it.
    fn score(strategy: &ScoringStrategy, node: [i64; 3], taken: [i64; 3], pod: [i64; 3]) -> i64 {
        let (node, taken, pod) = (amounts(node), amounts(taken), amounts(pod));
        strategy.score(&node, ResourceAmounts::exact(&taken), ResourceAmounts::exact(&pod))
    }

    #[test]
    fn least_allocated_prefers_emptier_nodes() {
        let least = strategy(StrategyType::LeastAllocated, ALIKE);
        let of = |node, taken, pod| score(&least, node, taken, pod);
        assert_eq!(of([4000, 10_000, 0], [0; 3], [0; 3]), 100);
        assert_eq!(of([4000, 10_000, 0], [0; 3], [3000, 5000, 0]), 37);
        assert_eq!(of([6000, 10_000, 0], [0; 3], [3000, 5000, 0]), 50);
        assert_eq!(of([10_000, 50_000, 0], [3000, 5000, 0], [3000, 5000, 0]), 60);
        // Requests beyond the capacity of the node count as all of it.
        assert_eq!(of([4000, 10_000, 0], [3000, 5000, 0], [3000, 0, 0]), 25);
        assert_eq!(of([0; 3], [3000, 5000, 0], [0; 3]), 0);
    }

    #[test]
    fn most_allocated_prefers_fuller_nodes() {
        let most = strategy(StrategyType::MostAllocated, ALIKE);
        let of = |node, taken, pod| score(&most, node, taken, pod);
        assert_eq!(of([4000, 10_000, 0], [0; 3], [0; 3]), 0);
        assert_eq!(of([4000, 10_000, 0], [0; 3], [3000, 5000, 0]), 62);
        assert_eq!(of([10_000, 20_000, 0], [3000, 5000, 0], [3000, 5000, 0]), 55);
        assert_eq!(of([250, 1000, 0], [200, 400, 0], [100, 200, 0]), 80);
        assert_eq!(of([0; 3], [0; 3], [3000, 5000, 0]), 0);
    }

    #[test]
    fn weights_count() {
        let weights = &[("memory", 2), ("cpu", 1)];
        let of = |kind| score(&strategy(kind, weights), [4000, 10_000, 0], [0; 3], [3000, 5000, 0]);
        assert_eq!(of(StrategyType::LeastAllocated), 41);
        assert_eq!(of(StrategyType::MostAllocated), 58);
        // (25 + 2 * 50) / 3 = 41.67 is rounded.
        assert_eq!(of(ratio(&[(0, 10), (100, 0)])), 42);
    }

    #[test]
    fn an_extended_resource_counts_only_if_the_pod_asks_for_it_and_the_node_has_it() {
        let least = strategy(StrategyType::LeastAllocated, WITH_GPU);
        let of = |gpus, asked| score(&least, [6000, 10_000, gpus], [0; 3], [3000, 5000, asked]);
        assert_eq!(of(4, 0), 50);
        assert_eq!(of(0, 2), 50);
        assert_eq!(of(10, 2), 60);
    }

    #[test]
    fn a_shape_gives_each_utilization_its_score() {
        let fall = strategy(ratio(&[(0, 10), (100, 0)]), ALIKE);
        assert_eq!(score(&fall, [4000, 10_000, 0], [0; 3], [0; 3]), 100);
        // 25 and 50: the half is rounded up.
        assert_eq!(score(&fall, [4000, 10_000, 0], [0; 3], [3000, 5000, 0]), 38);
        let rise = strategy(ratio(&[(0, 0), (100, 10)]), &[(GPU, 1)]);
        let of = |gpus, taken, asked| score(&rise, [0, 0, gpus], [0, 0, taken], [0, 0, asked]);
        assert_eq!(of(8, 0, 0), 0);
        assert_eq!(of(8, 0, 2), 25);
        assert_eq!(of(4, 2, 2), 100);
        assert_eq!(of(4, 4, 2), 100);
    }

    #[test]
    fn with_a_shape_a_resource_with_a_score_of_0_has_no_weight() {
        let rise = strategy(ratio(&[(0, 0), (100, 10)]), &[("cpu", 3), ("memory", 1)]);
        assert_eq!(score(&rise, [4000, 10_000, 0], [0; 3], [0, 5000, 0]), 50);
    }

    #[test]
    fn the_strategy_of_args_has_the_type_and_the_shape_that_they_name() {
        let of = |kind: &str, points: Option<&[(i32, i32)]>| {
            let shape = |points: &[(i32, i32)]| {
                let point = |&(utilization, score)| UtilizationShapePoint { utilization, score };
                points.iter().map(point).collect()
            };
            ScoringStrategy::from(ScoringStrategyArgs {
                kind: kind.to_owned(),
                resources: Vec::new(),
                requested_to_capacity_ratio: points
                    .map(|points| RequestedToCapacityRatioParam { shape: shape(points) }),
            })
        };
        assert_eq!(of("LeastAllocated", None), ScoringStrategy::default());
        assert_eq!(of("MostAllocated", None), strategy(StrategyType::MostAllocated, ALIKE));
        let with_shape = strategy(ratio(&[(0, 1)]), ALIKE);
        assert_eq!(of("RequestedToCapacityRatio", Some(&[(0, 1)])), with_shape);
    }
}
