//! The reduce step of shares: each node's part of the highest raw value.

use crate::{MAX_PRIORITY, Points, Raw};

/// Ten points for the highest raw value, the others in proportion, cut off to whole points; 0 for all
/// where the highest is 0. As in reduce.go, NormalizeReduce (1.9 on).
pub fn of_max(raw: &[Raw]) -> Vec<Points> {
    raw.iter().map(|raw_one| Points(share(*raw_one, max(raw)))).collect()
}

/// The other way round: 10 less the share, so that 0 is best; 10 for all where the highest is 0.
pub fn of_max_reversed(raw: &[Raw]) -> Vec<Points> {
    raw.iter().map(|raw_one| Points(MAX_PRIORITY - share(*raw_one, max(raw)))).collect()
}

fn max(raw: &[Raw]) -> i64 {
    raw.iter().map(|raw| raw.0).max().unwrap_or(0)
}

fn share(raw: Raw, max: i64) -> i64 {
    if max <= 0 { 0 } else { MAX_PRIORITY * raw.0 / max }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_a_share_are_cut_off_before_it_is_reversed() {
        let points = |all: Vec<Points>| all.into_iter().map(|one| one.0).collect::<Vec<_>>();
        let raw = [0, 1, 2, 3].map(Raw);
        assert_eq!(points(of_max(&raw)), [0, 3, 6, 10]);
        assert_eq!(points(of_max_reversed(&raw)), [10, 7, 4, 0]);
        let none = [0, 0].map(Raw);
        assert_eq!(points(of_max(&none)), [0, 0]);
        assert_eq!(points(of_max_reversed(&none)), [10, 10]);
    }
}
