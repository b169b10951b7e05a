//! Floating-point arithmetic as in Go, truncated to whole points.

use crate::priorities::{MAX_PRIORITY, Points};

/// `10 * (part / whole)` in 64 bits. Meaningless for a `whole` of 0.
#[expect(
    clippy::cast_precision_loss,
    reason = "the very rounding is what must be equal; counts are far below 2^52"
)]
pub(crate) fn tenths(part: i64, whole: i64) -> f64 {
    MAX_PRIORITY as f64 * (part as f64 / whole as f64)
}

/// The same in 32 bits.
#[expect(
    clippy::cast_precision_loss,
    reason = "the very rounding is what must be equal; counts are far below 2^24"
)]
pub(crate) fn tenths_in_32_bits(part: i64, whole: i64) -> f32 {
    MAX_PRIORITY as f32 * (part as f32 / whole as f32)
}

/// The score truncated to a whole number.
#[expect(clippy::cast_possible_truncation, reason = "scores are at most ten")]
pub(crate) fn cut_off(score: impl Into<f64>) -> Points {
    Points(score.into() as i64)
}
