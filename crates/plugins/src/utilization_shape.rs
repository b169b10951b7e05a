//! A piecewise linear function of utilization, as in the `shape` of several plugins' args.

use std::fmt;

use plimsoll_framework::args::shape;
pub use plimsoll_framework::args::shape::UtilizationShapePoint;
use plimsoll_framework::{ArgsFaults, ArgsField, MAX_NODE_SCORE};
use serde::Deserialize;

/// The highest score that a point of a shape may have.
const MAX_SHAPE_SCORE: i64 = 10;

/// The highest utilization, in percent.
pub const MAX_UTILIZATION: i64 = 100;

/// A score for each utilization from 0 to 100 percent: linear between points, constant before the first
/// and after the last. As in shape_score.go, `BuildBrokenLinearFunction`.
///
/// In args a point's score goes from 0 to 10; here it is scaled to the range of node scores.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<UtilizationShapePoint>")]
pub struct UtilizationShape(Vec<CurvePoint>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CurvePoint {
    utilization: i64,
    score: i64,
}

impl UtilizationShape {
    /// The score at `utilization` percent, 0 to 100. Between two points it is truncated to a whole
    /// number, towards the score of the lower point.
    pub fn score(&self, utilization: i64) -> i64 {
        let next = self.0.iter().position(|point| utilization <= point.utilization);
        match next {
            Some(0) => self.0[0].score,
            Some(next) => self.0[next - 1].towards(self.0[next], utilization),
            None => self.0[self.0.len() - 1].score,
        }
    }
}

impl CurvePoint {
    fn towards(self, next: CurvePoint, utilization: i64) -> i64 {
        let rise = (next.score - self.score) * (utilization - self.utilization);
        self.score + rise / (next.utilization - self.utilization)
    }
}

/// Reports what keeps the points at `field` from being a shape.
pub(crate) fn validate(
    points: &[UtilizationShapePoint],
    field: &ArgsField,
    faults: &mut ArgsFaults,
) {
    shape::validate(points, |at, message| {
        let field = at.map_or_else(|| field.clone(), |(index, key)| field.index(index).key(key));
        faults.report(field, message);
    });
}

/// Why some points are not a shape. As in validation_pluginargs.go, `validateFunctionShape`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// There are none.
    Empty,
    /// The utilization of this point is not greater than that of the previous one.
    Unsorted(usize),
    /// The utilization of this point is not in 0 to 100.
    Utilization(usize),
    /// The score of this point is not in 0 to 10.
    Score(usize),
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::Empty => f.write_str("at least one point must be specified"),
            ShapeError::Unsorted(at) => {
                write!(f, "[{at}].utilization: values must be sorted in increasing order")
            }
            ShapeError::Utilization(at) => {
                write!(f, "[{at}].utilization: not in valid range [0, 100]")
            }
            ShapeError::Score(at) => write!(f, "[{at}].score: not in valid range [0, 10]"),
        }
    }
}

impl std::error::Error for ShapeError {}

impl TryFrom<Vec<UtilizationShapePoint>> for UtilizationShape {
    type Error = ShapeError;

    fn try_from(points: Vec<UtilizationShapePoint>) -> Result<Self, ShapeError> {
        if points.is_empty() {
            return Err(ShapeError::Empty);
        }
        let ascends = |pair: &[UtilizationShapePoint]| pair[0].utilization < pair[1].utilization;
        if let Some(at) = points.windows(2).position(|pair| !ascends(pair)) {
            return Err(ShapeError::Unsorted(at + 1));
        }
        points
            .into_iter()
            .enumerate()
            .map(|(at, point)| stretched(at, point))
            .collect::<Result<_, _>>()
            .map(UtilizationShape)
    }
}

fn stretched(at: usize, point: UtilizationShapePoint) -> Result<CurvePoint, ShapeError> {
    let (utilization, score) = (i64::from(point.utilization), i64::from(point.score));
    if !(0..=MAX_UTILIZATION).contains(&utilization) {
        return Err(ShapeError::Utilization(at));
    }
    if !(0..=MAX_SHAPE_SCORE).contains(&score) {
        return Err(ShapeError::Score(at));
    }
    Ok(CurvePoint { utilization, score: score * (MAX_NODE_SCORE / MAX_SHAPE_SCORE) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(points: &[(i32, i32)]) -> Result<UtilizationShape, ShapeError> {
        let point = |&(utilization, score)| UtilizationShapePoint { utilization, score };
        UtilizationShape::try_from(points.iter().map(point).collect::<Vec<_>>())
    }

    fn scores(points: &[(i32, i32)], at: &[i64]) -> Vec<i64> {
        let shape = shape(points).expect("the points are valid");
        at.iter().map(|&utilization| shape.score(utilization)).collect()
    }

    #[test]
    fn a_shape_is_level_outside_its_points_and_straight_between_them() {
        let at = [0, 10, 11, 15, 20, 89, 90, 100];
        assert_eq!(scores(&[(10, 1), (90, 9)], &at), [10, 10, 11, 15, 20, 89, 90, 90]);
        let at = [0, 20, 30, 40, 70, 100];
        assert_eq!(scores(&[(0, 2), (40, 10), (100, 0)], &at), [20, 60, 80, 100, 50, 0]);
        assert_eq!(scores(&[(0, 2), (40, 2), (100, 2)], &at), [20; 6]);
        assert_eq!(scores(&[(50, 7)], &at), [70; 6]);
    }

    #[test]
    fn fractions_are_cut_off_towards_the_lower_point() {
        assert_eq!(scores(&[(0, 0), (30, 1)], &[1, 2, 3]), [0, 0, 1]);
        assert_eq!(scores(&[(0, 1), (30, 0)], &[1, 2, 3]), [10, 10, 9]);
    }

    #[test]
    fn points_that_are_no_shape_are_refused() {
        assert_eq!(shape(&[]), Err(ShapeError::Empty));
        assert_eq!(shape(&[(0, 1), (0, 2)]), Err(ShapeError::Unsorted(1)));
        assert_eq!(shape(&[(0, 1), (101, 2)]), Err(ShapeError::Utilization(1)));
        assert_eq!(shape(&[(-1, 1)]), Err(ShapeError::Utilization(0)));
        assert_eq!(shape(&[(0, 11)]), Err(ShapeError::Score(0)));
    }
}
