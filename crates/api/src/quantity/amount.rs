//! The number in a quantity, and its conversion to 64 bits.

use std::cmp::Ordering;

/// Magnitudes of [`Amount::Large`] stay below this, so that the sum of two fits in an `i128`.
pub(super) const LIMIT: i128 = 10_i128.pow(37);

/// The number `value * 10^exponent`; `exponent` is at least nano.
///
/// The variant decides how it is converted beyond 64 bits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Amount {
    /// A number that upstream keeps in 64 bits, its `int64Amount`.
    Small { value: i64, exponent: i32 },
    /// A number that upstream keeps as a big number, its `infDecAmount`. Magnitudes are below
    /// [`LIMIT`].
    Large { value: i128, exponent: i32 },
}

impl Amount {
    /// A big number, rounded away from zero where it has too many digits.
    pub(super) fn large(value: i128, exponent: i32) -> Self {
        if value == 0 {
            // Upstream keeps the decimal places of a zero. That matters only if a negative number is
            // added to a zero with more than nine places and the sum is cut to 64 bits.
            return Self::Large { value, exponent: 0 };
        }
        if value.abs() < LIMIT {
            return Self::Large { value, exponent };
        }
        Self::large(divide_away(value, 1), exponent.saturating_add(1))
    }

    /// Value and exponent of either variant.
    pub(super) fn parts(self) -> (i128, i32) {
        match self {
            Self::Small { value, exponent } => (value.into(), exponent),
            Self::Large { value, exponent } => (value, exponent),
        }
    }

    /// The negated number.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Small { value, exponent } => match value.checked_neg() {
                Some(value) => Self::Small { value, exponent },
                None => Self::large(-i128::from(value), exponent),
            },
            Self::Large { value, exponent } => Self::large(-value, exponent),
        }
    }

    /// The sum. As in amount.go, Add, and, if it exceeds 64 bits, in quantity.go, Add.
    pub(super) fn plus(self, other: Self) -> Self {
        if let (Self::Small { value, exponent }, Self::Small { value: more, exponent: finer }) =
            (self, other)
        {
            let sum = if finer <= exponent {
                small_sum((value, exponent), (more, finer))
            } else {
                small_sum((more, finer), (value, exponent))
            };
            if let Some(sum) = sum {
                return sum;
            }
        }
        let (coarse, fine) = (self.parts(), other.parts());
        if fine.1 <= coarse.1 { large_sum(coarse, fine) } else { large_sum(fine, coarse) }
    }

    /// The number rounded away from zero to steps of `10^unit`, which are coarser than its own.
    pub(super) fn rounded_up_to(self, unit: i32) -> Self {
        let (value, exponent) = self.parts();
        let rounded = divide_away(value, exponent.abs_diff(unit));
        match self {
            Self::Small { .. } => Self::Small { value: low_bits(rounded), exponent: unit },
            Self::Large { .. } => Self::large(rounded, unit),
        }
    }

    /// Compares two numbers by value.
    pub(super) fn compare(self, other: Self) -> Ordering {
        let (coarse, fine) = (self.parts(), other.parts());
        if fine.1 <= coarse.1 { compare(coarse, fine) } else { compare(fine, coarse).reverse() }
    }

    /// The number in units of `10^unit`, rounded away from zero, saturating at the bounds of 64 bits.
    pub(super) fn at_most_in_units_of(self, unit: i32) -> i64 {
        let (value, exponent) = self.parts();
        let distance = exponent.abs_diff(unit);
        let units = if unit <= exponent {
            let power = 10_i128.checked_pow(distance);
            power.and_then(|power| value.checked_mul(power))
        } else {
            Some(divide_away(value, distance))
        };
        let most = if value < 0 { i64::MIN } else { i64::MAX };
        match units {
            None if value == 0 => 0,
            None => most,
            Some(units) => i64::try_from(units).unwrap_or(most),
        }
    }

    /// The number in units of `10^unit`, rounded away from zero and cut to 64 bits; `unit` lies
    /// between nano and 0. As in amount.go, AsScaledInt64, and in scale_int.go, scaledValue.
    pub(super) fn in_units_of(self, unit: i32) -> i64 {
        let (_, exponent) = self.parts();
        let distance = exponent.abs_diff(unit);
        match self {
            Self::Small { value, .. } if unit <= exponent => {
                // Release 1.36 converts overflow to 0.
                let power = 10_i64.checked_pow(distance);
                power.and_then(|power| value.checked_mul(power)).unwrap_or(0)
            }
            Self::Small { value, .. } => {
                let power = 10_i64.pow(distance);
                value / power + (value % power).signum()
            }
            Self::Large { value, .. } if unit <= exponent => {
                low_bits(value).wrapping_mul(10_i64.wrapping_pow(distance))
            }
            // A big negative number also takes this branch, and is cut before it is divided. The
            // remainder rounds upwards whatever the sign, so that -1.5 becomes 0.
            Self::Large { value, .. } if value < i128::from(i64::MAX) => {
                let (value, power) = (low_bits(value), 10_i64.pow(distance));
                value / power + i64::from(value % power != 0)
            }
            Self::Large { value, .. } => low_bits(divide_away(value, distance)),
        }
    }
}

/// The sum of a coarse and a fine number in the fine one's exponent, if 64 bits hold it.
fn small_sum(coarse: (i64, i32), fine: (i64, i32)) -> Option<Amount> {
    if coarse.0 == 0 {
        return Some(Amount::Small { value: fine.0, exponent: fine.1 });
    }
    if fine.0 == 0 {
        return Some(Amount::Small { value: coarse.0, exponent: coarse.1 });
    }
    let power = 10_i64.checked_pow(coarse.1.abs_diff(fine.1))?;
    let value = coarse.0.checked_mul(power)?.checked_add(fine.0)?;
    Some(Amount::Small { value, exponent: fine.1 })
}

/// The sum of a coarse and a fine number, in the fine one's exponent if 37 digits suffice. Otherwise
/// the fine one is rounded away from zero to the last available digit.
fn large_sum(coarse: (i128, i32), fine: (i128, i32)) -> Amount {
    let (mut value, mut exponent) = coarse;
    if value == 0 {
        return Amount::large(fine.0, fine.1);
    }
    while fine.1 < exponent && value.abs() < LIMIT / 10 {
        value *= 10;
        exponent -= 1;
    }
    Amount::large(value + divide_away(fine.0, exponent.abs_diff(fine.1)), exponent)
}

/// Orders a coarse and a fine number.
fn compare(coarse: (i128, i32), fine: (i128, i32)) -> Ordering {
    let power = 10_i128.checked_pow(coarse.1.abs_diff(fine.1));
    match power.and_then(|power| coarse.0.checked_mul(power)) {
        Some(value) => value.cmp(&fine.0),
        None if coarse.0 == 0 => 0.cmp(&fine.0),
        // A number that does not fit is larger than any that does.
        None => coarse.0.cmp(&0),
    }
}

/// Drops the last `digits` digits and rounds away from zero.
fn divide_away(value: i128, digits: u32) -> i128 {
    match 10_i128.checked_pow(digits) {
        Some(power) => value / power + (value % power).signum(),
        None => value.signum(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low 64 bits are what upstream keeps")]
fn low_bits(value: i128) -> i64 {
    value as i64
}
