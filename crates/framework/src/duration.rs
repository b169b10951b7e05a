//! Durations as Go writes them: `15s`, `1m30s`, `100ms`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A duration in nanoseconds, which may be negative; `metav1.Duration` in Kubernetes.
///
/// Read and written as a string in the notation of Go's `time.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration {
    /// The length in nanoseconds.
    pub nanoseconds: i64,
}

/// The text is not a duration in Go's notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError {
    message: String,
}

impl GoDuration {
    /// A duration of this many seconds, clamped to the range of the type (292 years).
    pub const fn from_seconds(seconds: i64) -> Self {
        Self { nanoseconds: seconds.saturating_mul(1_000_000_000) }
    }

    /// The duration without a sign, if it is not negative.
    pub fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.nanoseconds).ok().map(std::time::Duration::from_nanos)
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    /// As in time/format.go, ParseDuration.
    fn from_str(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError { message: format!("time: invalid duration {text:?}") };
        let (is_negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (part, tail) = read_part(rest, text)?;
            total = total.checked_add(part).ok_or_else(invalid)?;
            rest = tail;
        }
        let nanoseconds =
            if is_negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
        nanoseconds.map(|nanoseconds| Self { nanoseconds }).ok_or_else(invalid)
    }
}

/// Reads one number with its unit, such as `1.5h`. Also returns the rest of the text.
fn read_part<'a>(part: &'a str, whole: &str) -> Result<(u64, &'a str), DurationError> {
    let invalid = || DurationError { message: format!("time: invalid duration {whole:?}") };
    let (integer, rest) = split_digits(part);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if integer.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let unit = match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        "" => {
            let message = format!("time: missing unit in duration {whole:?}");
            return Err(DurationError { message });
        }
        unknown => {
            let message = format!("time: unknown unit {unknown:?} in duration {whole:?}");
            return Err(DurationError { message });
        }
    };
    let integer: u64 = match integer {
        "" => 0,
        digits => digits.parse().map_err(|_| invalid())?,
    };
    let value = integer.checked_mul(unit).ok_or_else(invalid)?;
    let value = value.checked_add(fraction_of(unit, fraction)).ok_or_else(invalid)?;
    Ok((value, rest))
}

/// The nanoseconds of `0.digits` units, rounded down.
fn fraction_of(unit: u64, digits: &str) -> u64 {
    // Even for hours the 18th digit is only a few millionths of a nanosecond, so further digits do not matter.
    let digits = &digits.as_bytes()[..digits.len().min(18)];
    let (numerator, denominator) = digits.iter().fold((0_u128, 1_u128), |(sum, scale), digit| {
        (sum * 10 + u128::from(digit - b'0'), scale * 10)
    });
    let share = u128::from(unit) * numerator / denominator;
    u64::try_from(share).expect("a fraction is less than its unit")
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

impl fmt::Display for GoDuration {
    /// As in time/time.go, Duration.String.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanoseconds < 0 {
            f.write_str("-")?;
        }
        let total = self.nanoseconds.unsigned_abs();
        match total {
            0 => f.write_str("0s"),
            1..MICROSECOND => write!(f, "{total}ns"),
            MICROSECOND..MILLISECOND => write_decimal(f, total, MICROSECOND, "\u{b5}s"),
            MILLISECOND..SECOND => write_decimal(f, total, MILLISECOND, "ms"),
            _ => {
                if HOUR <= total {
                    write!(f, "{}h", total / HOUR)?;
                }
                if MINUTE <= total {
                    write!(f, "{}m", total % HOUR / MINUTE)?;
                }
                write_decimal(f, total % MINUTE, SECOND, "s")
            }
        }
    }
}

fn write_decimal(
    f: &mut fmt::Formatter<'_>,
    nanoseconds: u64,
    unit: u64,
    name: &str,
) -> fmt::Result {
    let (whole, fraction) = (nanoseconds / unit, nanoseconds % unit);
    if fraction == 0 {
        return write!(f, "{whole}{name}");
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    write!(f, "{whole}.{}{name}", digits.trim_end_matches('0'))
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DurationError {}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(GoDurationVisitor)
    }
}

struct GoDurationVisitor;

impl Visitor<'_> for GoDurationVisitor {
    type Value = GoDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"15s\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<GoDuration, E> {
        text.parse().map_err(E::custom)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, nanoseconds: u64, written: &str) {
        let duration: GoDuration = text.parse().expect("the text is a duration");
        assert_eq!(duration.nanoseconds.unsigned_abs(), nanoseconds, "{text}");
        assert_eq!(duration.to_string(), written, "{text}");
    }

    fn check_error(text: &str, message: &str) {
        let error = text.parse::<GoDuration>().expect_err("the text is no duration");
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        check("0", 0, "0s");
        check("0s", 0, "0s");
        check("15s", 15 * SECOND, "15s");
        check("90s", 90 * SECOND, "1m30s");
        check("10m", 600 * SECOND, "10m0s");
        check("2h45m", 165 * MINUTE, "2h45m0s");
        check("-1.5h", 90 * MINUTE, "-1h30m0s");
        check("+5.001s", 5_001 * MILLISECOND, "5.001s");
        check(".5m", 30 * SECOND, "30s");
        check("1.s", SECOND, "1s");
        check("300ms", 300 * MILLISECOND, "300ms");
        check("1.5us", 1_500, "1.5\u{b5}s");
        check("2\u{b5}s", 2_000, "2\u{b5}s");
        check("7ns", 7, "7ns");
        check("1h15m30.918273645s", 4_530_918_273_645, "1h15m30.918273645s");
        check("0.9223372036854775807h", 3_320_413_933_267, "55m20.413933267s");
        check("-9223372036854775808ns", 1 << 63, "-2562047h47m16.854775808s");
    }

    #[test]
    fn text_that_go_rejects_is_rejected_with_the_same_message() {
        check_error("", "time: invalid duration \"\"");
        check_error("-", "time: invalid duration \"-\"");
        check_error("s", "time: invalid duration \"s\"");
        check_error(".s", "time: invalid duration \".s\"");
        check_error("3", "time: missing unit in duration \"3\"");
        check_error("3d", "time: unknown unit \"d\" in duration \"3d\"");
        check_error("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\"");
        check_error("3000000h", "time: invalid duration \"3000000h\"");
    }

    #[test]
    fn a_duration_in_json_is_a_string() {
        let parsed: GoDuration = serde_json::from_str("\"15s\"").expect("it is a duration");
        assert_eq!(parsed, GoDuration::from_seconds(15));
        assert_eq!(serde_json::to_string(&parsed).expect("it has a notation"), "\"15s\"");
        let error = serde_json::from_str::<GoDuration>("15").expect_err("a number has no unit");
        assert!(error.to_string().contains("a duration such as \"15s\""), "{error}");
    }
}
