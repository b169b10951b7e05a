//! Parses the text of a quantity.

use super::amount::{Amount, LIMIT};
use super::{BINARY_SUFFIXES, DECIMAL_SUFFIXES, Fault, Format, NANO, Quantity};

/// How many nano-units make one.
const NANOS: u128 = 1_000_000_000;
/// Upstream keeps a decimal of up to this many digits in 64 bits, and a longer one in a big number.
const SMALL_DIGITS: usize = 18;
/// The same for a number with a binary suffix, whose suffix counts as digits too.
const SMALL_BINARY_DIGITS: usize = 15;

/// As in quantity.go, ParseQuantity.
pub(super) fn read(text: &str) -> Result<Quantity, Fault> {
    let written = take_apart(text)?;
    let (unit, format) = read_suffix(written.suffix).ok_or(Fault::Suffix)?;
    if let Some((exponent, bits)) = small_form(&written, unit) {
        let value = written.digits().fold(0, |value, digit| value * 10 + i64::from(digit));
        // If upstream considers the text canonical, it shows the text itself.
        let shown = match unit {
            Unit::PowerOfTwo(_) => value & 7 != 0,
            Unit::PowerOfTen(_) => exponent % 3 == 0 && value % 1000 != 0 && written.whole != "0",
        };
        let value = if written.negative { -(value << bits) } else { value << bits };
        let amount = Amount::Small { value, exponent };
        return Ok(Quantity { amount, format, text: shown.then(|| text.into()) });
    }
    if !written.has_digits {
        return Err(Fault::Number);
    }
    let (magnitude, format) = match unit {
        Unit::PowerOfTen(power) => (large_decimal(&written, power), format),
        Unit::PowerOfTwo(bits) => large_binary(&written, bits),
    };
    let amount = if written.negative { magnitude.negated() } else { magnitude };
    Ok(Quantity { amount, format, text: None })
}

/// A text taken apart.
struct Written<'a> {
    negative: bool,
    /// The digits before the point without leading zeros; `0` if there are none.
    whole: &'a str,
    /// The digits behind the point.
    fraction: &'a str,
    suffix: &'a str,
    /// Whether there is any digit before the suffix.
    has_digits: bool,
}

impl Written<'_> {
    /// The values of all digits, the most significant first.
    fn digits(&self) -> impl Iterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes()).map(|byte| byte - b'0')
    }
}

/// The factor of a suffix.
#[derive(Clone, Copy)]
enum Unit {
    PowerOfTen(i32),
    PowerOfTwo(u32),
}

/// As in quantity.go, parseQuantityString.
fn take_apart(text: &str) -> Result<Written<'_>, Fault> {
    if text.is_empty() {
        return Err(Fault::Format);
    }
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = split_digits(rest.trim_start_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let power = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let power = power.strip_prefix(['+', '-']).unwrap_or(power);
    if !power.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Format);
    }
    let number = &text[..text.len() - suffix.len()];
    let has_digits = number.bytes().any(|byte| byte.is_ascii_digit());
    Ok(Written { negative, whole, fraction, suffix, has_digits })
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// As in suffix.go, interpret.
fn read_suffix(suffix: &str) -> Option<(Unit, Format)> {
    if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some((Unit::PowerOfTen(*power), Format::DecimalSi));
    }
    if let Some((_, bits)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some((Unit::PowerOfTwo(*bits), Format::BinarySi));
    }
    let power: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "upstream keeps an exponent's low 32 bits")]
    let power = power as i32;
    Some((Unit::PowerOfTen(power), Format::DecimalExponent))
}

/// The decimal exponent and the binary one of a number that upstream keeps in 64 bits.
fn small_form(written: &Written<'_>, unit: Unit) -> Option<(i32, u32)> {
    match unit {
        Unit::PowerOfTen(power) => {
            let places = i32::try_from(written.fraction.len()).unwrap_or(i32::MAX);
            let exponent = power.saturating_sub(places);
            let short = written.whole.len() + written.fraction.len() <= SMALL_DIGITS;
            (short && NANO <= exponent).then_some((exponent, 0))
        }
        Unit::PowerOfTwo(bits) => {
            // Ten bits count as three digits, and one digit is kept in reserve.
            let digits = written.whole.len() + bits as usize * 3 / 10 + 1;
            (written.fraction.is_empty() && digits <= SMALL_BINARY_DIGITS).then_some((0, bits))
        }
    }
}

/// The magnitude of a decimal of any length, rounded up to nano.
fn large_decimal(written: &Written<'_>, power: i32) -> Amount {
    let mut at =
        i64::from(power).saturating_add(written.whole.len().try_into().unwrap_or(i64::MAX));
    let mut value: i128 = 0;
    let mut exponent = i64::from(NANO);
    let mut inexact = false;
    for digit in written.digits() {
        at -= 1;
        if at < i64::from(NANO) || LIMIT / 10 <= value {
            inexact |= digit != 0;
        } else {
            value = value * 10 + i128::from(digit);
            exponent = at;
        }
    }
    value += i128::from(inexact);
    // Upstream keeps these in nano-units, which matters when a negative one is cut to 64 bits.
    while 0 < value && value < LIMIT / 10 && i64::from(NANO) < exponent {
        value *= 10;
        exponent -= 1;
    }
    Amount::large(value, i32::try_from(exponent).unwrap_or(i32::MAX))
}

/// The magnitude of a number with a binary suffix, rounded up to nano and capped at the largest `i64`.
/// One below 1 gets a decimal format.
fn large_binary(written: &Written<'_>, bits: u32) -> (Amount, Format) {
    const CAP: u128 = i64::MAX as u128;
    let capped = (Amount::large(i128::from(i64::MAX), 0), Format::BinarySi);
    let unit = 1_u128 << bits;
    let Some(whole) = written.whole.parse().ok().and_then(|whole: u64| {
        let whole = u128::from(whole) * unit;
        (whole <= CAP).then(|| whole * NANOS)
    }) else {
        return capped;
    };
    // Multiplying digit by digit from the right is exact for a fraction of any length.
    let (mut carry, mut inexact) = (0, false);
    for byte in written.fraction.bytes().rev() {
        let product = u128::from(byte - b'0') * unit * NANOS + carry;
        inexact |= !product.is_multiple_of(10);
        carry = product / 10;
    }
    let nanos = whole + carry + u128::from(inexact);
    if CAP * NANOS < nanos {
        return capped;
    }
    let format = if 0 < nanos && nanos < NANOS { Format::DecimalSi } else { Format::BinarySi };
    let nanos = i128::try_from(nanos).expect("the cap in nano-units has 94 bits");
    (Amount::large(nanos, NANO), format)
}
