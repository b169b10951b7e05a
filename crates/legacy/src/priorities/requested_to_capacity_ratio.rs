//! RequestedToCapacityRatioPriority: nodes by a function of how full they are.

use plimsoll_api::Str;

use crate::priorities::room::{Use, uses};
use crate::priorities::{Priority, Raw, Subject};

/// How full a resource can be, in percent.
const MAX_UTILIZATION: i64 = 100;

/// Prefers nodes by a function of utilization, 0 to 10 points for each resource. The points of resources
/// that give any are averaged by their weights and rounded. There is no reduce step.
///
/// As in 1.16. In 1.12 to 1.15 the resources are CPU and memory, and their mean is truncated.
#[derive(Clone, Debug)]
pub struct RequestedToCapacityRatio {
    /// The points of the piecewise linear function, sorted by utilization; at least one.
    pub shape: Vec<ShapePoint>,
    /// The resources with their weights.
    pub resources: Vec<(Str, i64)>,
}

/// One point of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapePoint {
    /// How full, in percent: 0 to 100.
    pub utilization: i64,
    /// The points there: 0 to 10.
    pub score: i64,
}

impl Priority for RequestedToCapacityRatio {
    /// As in requested_to_capacity_ratio.go, buildRequestedToCapacityRatioScorerFunction.
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let raw = uses(subject).map(|node| {
            let scores = self.resources.iter().map(|(name, weight)| {
                (at_utilization(&self.shape, utilization(node.of(name))), *weight)
            });
            Raw(average(scores.filter(|(score, _)| 0 < *score)))
        });
        raw.collect()
    }
}

/// How full a resource is; full if the node has none of it, or less than is requested.
fn utilization(of: Use) -> i64 {
    if of.capacity == 0 || of.capacity < of.requested {
        return MAX_UTILIZATION;
    }
    MAX_UTILIZATION - of.share(of.free(), MAX_UTILIZATION)
}

/// The score of a shape: constant before the first point and after the last; between two points
/// truncated to a whole number, towards the score of the lower point. As in buildBrokenLinearFunction.
pub fn at_utilization(shape: &[ShapePoint], utilization: i64) -> i64 {
    let next = shape.iter().position(|point| utilization <= point.utilization);
    match next {
        Some(0) => shape[0].score,
        Some(next) => {
            let (before, after) = (shape[next - 1], shape[next]);
            let rise = (after.score - before.score) * (utilization - before.utilization);
            before.score + rise / (after.utilization - before.utilization)
        }
        None => shape.last().map_or(0, |point| point.score),
    }
}

/// The weighted mean, rounded.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the very rounding is what must be equal"
)]
fn average(scores: impl Iterator<Item = (i64, i64)>) -> i64 {
    let (sum, weights) = scores.fold((0_i64, 0_i64), |(sum, weights), (score, weight)| {
        (sum.saturating_add(score.saturating_mul(weight)), weights.saturating_add(weight))
    });
    if weights == 0 { 0 } else { (sum as f64 / weights as f64).round() as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    fn shape(points: &[(i64, i64)]) -> Vec<ShapePoint> {
        points.iter().map(|&(utilization, score)| ShapePoint { utilization, score }).collect()
    }

    #[test]
    fn a_shape_is_level_outside_its_points_and_whole_between_them() {
        let shape = shape(&[(10, 1), (90, 9)]);
        let scores = [0, 10, 19, 20, 50, 90, 100].map(|percent| at_utilization(&shape, percent));
        assert_eq!(scores, [1, 1, 1, 2, 5, 9, 9]);
    }

    #[test]
    fn resources_that_give_points_are_averaged_by_weight_and_rounded() {
        check(
            &RequestedToCapacityRatio {
                shape: shape(&[(0, 0), (100, 10)]),
                resources: vec![("cpu".into(), 1), ("memory".into(), 1), ("a.com/gpu".into(), 3)],
            },
            r#"
            node a {"allocatable": {"cpu": "4", "memory": "10Gi", "a.com/gpu": "4"}}
            node b {"allocatable": {"cpu": "4", "memory": "10Gi", "a.com/gpu": "4"}}
            node c {"allocatable": {"cpu": "1", "memory": "10Gi", "a.com/gpu": "0"}}
            pod x on b {"requests": {"cpu": "1", "memory": "1Gi", "a.com/gpu": "2"}}
            pod p {"requests": {"cpu": "1", "memory": "5Gi", "a.com/gpu": "1"}}
            "#,
            &expect![[r#"
                a raw 3, 3 points
                b raw 6, 6 points
                c raw 9, 9 points
            "#]],
        );
    }

    #[test]
    fn a_resource_without_points_does_not_count_in_the_mean() {
        check(
            &RequestedToCapacityRatio {
                shape: shape(&[(0, 0), (50, 0), (100, 10)]),
                resources: vec![("cpu".into(), 1), ("memory".into(), 5)],
            },
            r#"
            node a {"allocatable": {"cpu": "1", "memory": "10Gi"}}
            node b {"allocatable": {"cpu": "4", "memory": "10Gi"}}
            pod p {"requests": {"cpu": "1", "memory": "1Gi"}}
            "#,
            &expect![[r#"
                a raw 10, 10 points
                b raw 0, 0 points
            "#]],
        );
    }
}
