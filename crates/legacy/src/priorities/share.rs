//! The reduce step of proportional priorities: each node's fraction of the highest raw value.

use crate::priorities::float::cut_off;
use crate::priorities::{MAX_PRIORITY, OldRelease, Points, Raw};

/// How the fraction is subtracted from ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reckoning {
    /// The fraction in whole points. As in reduce.go, NormalizeReduce (1.9 on).
    Whole,
    /// The fraction itself; the result is truncated to whole points, as before 1.9.
    Float,
}

impl Reckoning {
    /// The method of a release.
    pub fn of(release: OldRelease) -> Self {
        match release {
            OldRelease::V1_5 => Reckoning::Float,
            OldRelease::Described | OldRelease::V1_16 => Reckoning::Whole,
        }
    }
}

/// Ten points for the highest raw value, and proportional points for the others, truncated to whole
/// points; 0 for all if the highest is 0. As in reduce.go, NormalizeReduce; the floating point of
/// releases before 1.9 gives the same.
pub fn of_max(raw: &[Raw]) -> Vec<Points> {
    let max = max(raw);
    raw.iter().map(|one| Points(share(one.0, max))).collect()
}

/// Reversed: 10 minus the fraction, so that 0 is best; 10 for all if the highest is 0.
pub fn of_max_reversed(raw: &[Raw], reckoning: Reckoning) -> Vec<Points> {
    let max = max(raw);
    let rest_of = |one: &Raw| match reckoning {
        Reckoning::Float if 0 < max => cut_off(rest(one.0, max)),
        Reckoning::Whole | Reckoning::Float => Points(MAX_PRIORITY - share(one.0, max)),
    };
    raw.iter().map(rest_of).collect()
}

fn share(part: i64, max: i64) -> i64 {
    if max <= 0 { 0 } else { MAX_PRIORITY * part / max }
}

/// As in taint_toleration.go of 1.5, ComputeTaintTolerationPriorityReduce.
#[expect(
    clippy::cast_precision_loss,
    reason = "the very rounding is what must be equal; counts are far below 2^52"
)]
fn rest(part: i64, max: i64) -> f64 {
    (1.0 - part as f64 / max as f64) * MAX_PRIORITY as f64
}

fn max(raw: &[Raw]) -> i64 {
    raw.iter().map(|raw| raw.0).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reversed(reckoning: Reckoning, raw: &[i64]) -> Vec<i64> {
        let raw: Vec<Raw> = raw.iter().copied().map(Raw).collect();
        of_max_reversed(&raw, reckoning).into_iter().map(|points| points.0).collect()
    }

    #[test]
    fn one_of_three_costs_three_whole_points_or_leaves_what_is_cut_off() {
        assert_eq!(reversed(Reckoning::Whole, &[0, 1, 3]), [10, 7, 0]);
        assert_eq!(reversed(Reckoning::Float, &[0, 1, 3]), [10, 6, 0]);
    }

    #[test]
    fn where_all_have_none_each_gets_everything() {
        assert_eq!(reversed(Reckoning::Whole, &[0, 0]), [10, 10]);
        assert_eq!(reversed(Reckoning::Float, &[0, 0]), [10, 10]);
    }
}
