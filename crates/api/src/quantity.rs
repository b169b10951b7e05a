//! Amounts as Kubernetes writes them: `500m`, `2`, `1.5Gi`, `1e3`.
//!
//! A [`Quantity`] is a decimal number of at most nine decimal places together with the way it was
//! written. It follows `quantity.go`, `amount.go`, `math.go`, `scale_int.go` and `suffix.go` of
//! apimachinery 0.36 to the digit, even for numbers outside the range of 64 bits: both schedulers must
//! read the same amounts.
//!
//! Two things differ, and neither can reach a decision about a valid object. A number of more than
//! 37 significant digits is rounded away from zero to 37, where upstream keeps every digit. A
//! number too large for the suffixes is shown with an exponent (`1000E` as `1e21`), where upstream
//! drops the suffix and shows another number.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use self::amount::Amount;
use crate::Str;

mod amount;
mod text;

/// The exponent of the smallest unit of a quantity: finer parts are rounded up to it.
const NANO: i32 = -9;
/// The exponent of a thousandth, in which CPU is counted.
const MILLI: i32 = -3;

const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// An amount of some resource, and how it was written.
///
/// Equality and order are those of the number: `1` equals `1000m` and `1e0`.
///
/// ```
/// use plimsoll_api::quantity::Quantity;
///
/// let memory = Quantity::parse("1.5Gi").expect("well formed");
/// assert_eq!(memory.value(), 1_610_612_736);
/// assert_eq!(memory.to_string(), "1536Mi");
/// ```
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text it was parsed from, if upstream shows that instead of the canonical form.
    text: Option<Str>,
}

/// The three ways to write a quantity; sums and differences keep that of their first operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Suffixes that are powers of 1000: `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`.
    DecimalSi,
    /// Suffixes that are powers of 1024: `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`.
    BinarySi,
    /// A power of ten: `e3` or `E3`.
    DecimalExponent,
}

impl Quantity {
    /// A whole number.
    pub fn new(value: i64, format: Format) -> Self {
        Self { amount: Amount::Small { value, exponent: 0 }, format, text: None }
    }

    /// A number of thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self { amount: Amount::Small { value, exponent: MILLI }, format, text: None }
    }

    /// Reads a quantity: an optional sign, digits with an optional point, and an optional suffix.
    ///
    /// Whatever is finer than a nano-unit is rounded away from zero, and a number with a binary suffix
    /// is capped at the largest `i64`. A missing number counts as zero, as in upstream: `Ki`, `-` and
    /// `.` are zero. The errors are upstream's three, see [`QuantityError::reason`].
    ///
    /// As in quantity.go, ParseQuantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        text::read(text).map_err(|fault| QuantityError { text: text.into(), fault })
    }

    /// Adds `other`. A zero takes on the format of what is added to it.
    pub fn add(&mut self, other: &Self) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.amount = self.amount.plus(other.amount);
        self.text = None;
    }

    /// Takes `other` away. A zero takes on the format of what is taken from it.
    pub fn sub(&mut self, other: &Self) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.amount = self.amount.plus(other.amount.negated());
        self.text = None;
    }

    /// Rounds away from zero to thousandths, as the API server does with everything it stores. As in
    /// quantity.go, RoundUp, and in defaults.go of core/v1, SetDefaults_ResourceList.
    pub fn round_up_to_milli(&mut self) {
        if self.amount.parts().1 < MILLI {
            self.amount = self.amount.rounded_up_to(MILLI);
            self.text = None;
        }
    }

    /// The amount in whole units, rounded away from zero.
    ///
    /// For an amount beyond 64 bits it gives the same as release 1.36: 0 for a number that was written
    /// with at most 18 digits (`10E`), and the low 64 bits of any other. As in quantity.go, Value.
    pub fn value(&self) -> i64 {
        self.amount.in_units_of(0)
    }

    /// The amount in thousandths, rounded and cut to 64 bits like [`Quantity::value`].
    ///
    /// As in quantity.go, MilliValue.
    pub fn milli_value(&self) -> i64 {
        self.amount.in_units_of(MILLI)
    }

    /// The amount in whole units, rounded away from zero, saturating at the bounds of 64 bits.
    pub fn at_most_value(&self) -> i64 {
        self.amount.at_most_in_units_of(0)
    }

    /// The same in thousandths.
    pub fn at_most_milli_value(&self) -> i64 {
        self.amount.at_most_in_units_of(MILLI)
    }

    /// The amount, if upstream keeps it as a whole number of 64 bits: not `1000m` nor `1.5Gi`, although
    /// these are whole, too. As in quantity.go, AsInt64.
    ///
    /// ```
    /// # use plimsoll_api::quantity::Quantity;
    /// let whole = |text| Quantity::parse(text).expect("well formed").as_i64();
    /// assert_eq!((whole("2k"), whole("1Ki")), (Some(2000), Some(1024)));
    /// assert_eq!((whole("1000m"), whole("1.5Gi")), (None, None));
    /// ```
    pub fn as_i64(&self) -> Option<i64> {
        match self.amount {
            Amount::Small { value, exponent: 0 } => Some(value),
            Amount::Small { value, exponent } if 0 < exponent => {
                value.checked_mul(10_i64.checked_pow(exponent.unsigned_abs())?)
            }
            Amount::Small { .. } | Amount::Large { .. } => None,
        }
    }

    /// The amount as a floating-point number. As in quantity.go, AsApproximateFloat64.
    ///
    /// ```
    /// # use plimsoll_api::quantity::Quantity;
    /// let half = Quantity::parse("500m").expect("well formed").as_approximate_f64();
    /// assert!((half - 0.5).abs() < 1e-9);
    /// ```
    #[expect(clippy::cast_precision_loss, reason = "it is an approximation")]
    pub fn as_approximate_f64(&self) -> f64 {
        let (value, exponent) = self.amount.parts();
        if exponent == 0 { value as f64 } else { value as f64 * 10_f64.powi(exponent) }
    }

    /// How it was written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The fields as Go prints them with `%v`, which some messages of upstream contain: a quantity in a map is printed as
    /// the struct that it is, with the text it was parsed from, which a calculation drops. For an amount that upstream keeps as a
    /// big number Go prints an address; here it is the amount.
    ///
    /// ```
    /// # use plimsoll_api::quantity::Quantity;
    /// let half = Quantity::parse("500m").expect("well formed");
    /// assert_eq!(half.as_go_struct(), "{{500 -3} {<nil>} 500m DecimalSI}");
    /// ```
    pub fn as_go_struct(&self) -> String {
        let text = self.text.as_deref().unwrap_or_default();
        let format = match self.format {
            Format::DecimalSi => "DecimalSI",
            Format::BinarySi => "BinarySI",
            Format::DecimalExponent => "DecimalExponent",
        };
        match self.amount {
            Amount::Small { value, exponent } => {
                format!("{{{{{value} {exponent}}} {{<nil>}} {text} {format}}}")
            }
            Amount::Large { .. } => format!("{{{{0 0}} {{{}}} {text} {format}}}", self.canonical()),
        }
    }

    /// Whether it is less than zero.
    pub fn is_negative(&self) -> bool {
        self.amount.parts().0 < 0
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.amount.parts().0 == 0
    }

    /// The canonical text: no fraction, and the largest suffix that loses nothing.
    ///
    /// `Display` differs if upstream repeats the text it parsed: `+1`, `1.234` and `1E3` stay as they
    /// are, although their canonical forms are `1`, `1234m` and `1e3`. As in quantity.go,
    /// CanonicalizeBytes.
    pub fn canonical(&self) -> String {
        let (mut value, exponent) = self.amount.parts();
        if value == 0 {
            return "0".to_owned();
        }
        if self.format == Format::BinarySi
            && let Some(text) = binary_text(value, exponent)
        {
            return text;
        }
        let mut exponent = i64::from(exponent);
        while value % 10 == 0 {
            value /= 10;
            exponent += 1;
        }
        let zeros = match exponent.rem_euclid(3) {
            0 => "",
            1 => "0",
            _ => "00",
        };
        exponent -= exponent.rem_euclid(3);
        let suffix = DECIMAL_SUFFIXES.iter().find(|(_, power)| i64::from(*power) == exponent);
        match (self.format, suffix) {
            (Format::DecimalSi | Format::BinarySi, Some((suffix, _))) => {
                format!("{value}{zeros}{suffix}")
            }
            _ if exponent == 0 => format!("{value}{zeros}"),
            _ => format!("{value}{zeros}e{exponent}"),
        }
    }
}

/// The text with a binary suffix. There is none for a fraction or a number below 1024: these are
/// written in decimal, so that nothing is lost.
fn binary_text(value: i128, exponent: i32) -> Option<String> {
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    let mut value = if exponent < 0 {
        (value % power == 0).then_some(value / power)?
    } else {
        value.checked_mul(power)?
    };
    if value.abs() < 1024 {
        return None;
    }
    let mut suffix = "";
    for (larger, _) in BINARY_SUFFIXES {
        if value % 1024 != 0 {
            break;
        }
        value /= 1024;
        suffix = larger;
    }
    Some(format!("{value}{suffix}"))
}

impl Default for Quantity {
    /// Zero.
    fn default() -> Self {
        Self::new(0, Format::DecimalSi)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(other.amount)
    }
}

impl fmt::Display for Quantity {
    /// As in quantity.go, String.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.pad(text),
            None => f.pad(&self.canonical()),
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_any(QuantityVisitor),
            // A binary format does not say what comes next, and we write only strings.
            false => deserializer.deserialize_str(QuantityVisitor),
        }
    }
}

/// As in quantity.go, UnmarshalJSON: a string with or without space around it, a number, or null,
/// which is zero.
struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHAPE)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        Quantity::parse(text.trim()).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        // In upstream a YAML manifest passes through Go's encoding of floats, which uses an exponent
        // outside this range.
        if number == 0.0 || (1e-6..1e21).contains(&number.abs()) {
            self.visit_str(&number.to_string())
        } else {
            self.visit_str(&format!("{number:e}"))
        }
    }

    fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::default())
    }
}

/// What a quantity looks like, for error messages.
const SHAPE: &str = "a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3";

/// A text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: got {text:?}, a quantity is {SHAPE}", .fault.reason())]
pub struct QuantityError {
    text: Str,
    fault: Fault,
}

impl QuantityError {
    /// The text that could not be read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The exact message of upstream for the same error.
    pub fn reason(&self) -> &'static str {
        self.fault.reason()
    }
}

/// Which part of a text is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Format,
    Number,
    Suffix,
}

impl Fault {
    fn reason(self) -> &'static str {
        match self {
            Self::Format => {
                "quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Self::Number => "unable to parse numeric part of quantity",
            Self::Suffix => "unable to parse quantity's suffix",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Format::{BinarySi, DecimalExponent, DecimalSi};
    use super::*;
    use proptest::prelude::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Each text is parsed as the number in the second column and has this format. The same holds with
    /// a sign.
    fn check_parse(cases: &[(&str, &str)], format: Format) {
        for (text, canonical) in cases {
            for (sign, shown) in [("", ""), ("+", ""), ("-", "-")] {
                let read = quantity(&format!("{sign}{text}"));
                let shown = if *canonical == "0" { "" } else { shown };
                assert_eq!(read.canonical(), format!("{shown}{canonical}"), "{sign}{text}");
                assert_eq!(read.format(), format, "{sign}{text}");
                assert_eq!(read.is_negative(), shown == "-", "{sign}{text}");
                assert_eq!(read.is_zero(), *canonical == "0", "{sign}{text}");
            }
        }
    }

    #[test]
    fn a_decimal_suffix_is_a_power_of_a_thousand() {
        let cases = [
            ("0", "0"),
            ("00", "0"),
            ("0n", "0"),
            ("0u", "0"),
            ("0m", "0"),
            ("0k", "0"),
            ("0T", "0"),
            ("1", "1"),
            ("9", "9"),
            ("5n", "5n"),
            ("4u", "4u"),
            ("3m", "3m"),
            ("8k", "8k"),
            ("50k", "50k"),
            ("7M", "7M"),
            ("6G", "6G"),
            ("5T", "5T"),
            ("40T", "40T"),
            ("300T", "300T"),
            ("2P", "2P"),
            ("1E", "1E"),
            ("12E", "12E"),
            ("1000M", "1G"),
            ("1000000k", "1G"),
            ("1000000000", "1G"),
            ("0.001T", "1G"),
            ("1080000000n", "1080m"),
            ("1000u", "1m"),
            ("5000m", "5"),
        ];
        check_parse(&cases, DecimalSi);
    }

    #[test]
    fn a_binary_suffix_is_a_power_of_1024() {
        let cases = [
            ("0Ki", "0"),
            ("0Ti", "0"),
            ("1Ki", "1Ki"),
            ("8Ki", "8Ki"),
            ("7Mi", "7Mi"),
            ("6Gi", "6Gi"),
            ("5Ti", "5Ti"),
            ("10Ti", "10Ti"),
            ("100Ti", "100Ti"),
            ("4Pi", "4Pi"),
            ("3Ei", "3Ei"),
            ("1024Mi", "1Gi"),
            ("307200Ki", "300Mi"),
            ("1025024Mi", "1001Gi"),
            ("1024Gi", "1Ti"),
            ("0.5Mi", "512Ki"),
            ("100.035Ki", "102435840m"),
            ("0.05Gi", "53687091200m"),
            ("0.025Ti", "27487790694400m"),
            (".001Ki", "1024m"),
        ];
        check_parse(&cases, BinarySi);
    }

    #[test]
    fn an_exponent_is_a_power_of_ten() {
        let cases = [
            ("1E-3", "1e-3"),
            ("1e3", "1e3"),
            ("1E6", "1e6"),
            ("1e9", "1e9"),
            ("1E12", "1e12"),
            ("1e13", "10e12"),
            ("1e14", "100e12"),
            ("1E18", "1e18"),
            ("1e21", "1e21"),
            ("0.5e0", "500e-3"),
            ("0.5e-1", "50e-3"),
            ("0.5e-2", "5e-3"),
            ("1.2e3", "1200"),
            ("1.3E+6", "1300e3"),
            ("1.40e9", "1400e6"),
            ("1.53E12", "1530e9"),
            ("1.7E18", "1700e15"),
            (".001e12", "1e9"),
            ("1000e-12", "1e-9"),
            ("0e0", "0"),
        ];
        check_parse(&cases, DecimalExponent);
    }

    #[test]
    fn a_point_may_stand_anywhere_among_the_digits() {
        let cases = [
            ("0.001", "1m"),
            ("0.0005k", "500m"),
            ("0.00050k", "500m"),
            ("0.05000", "50m"),
            ("0.50000", "500m"),
            ("1.08", "1080m"),
            ("9.01", "9010m"),
            ("8.1k", "8100"),
            ("100.035k", "100035"),
            ("10.035M", "10035k"),
            ("7.123456M", "7123456"),
            ("6.987654321G", "6987654321"),
            ("5.444T", "5444G"),
            ("300.2T", "300200G"),
            ("1.01E", "1010P"),
            (".001", "1m"),
            (".0001k", "100m"),
            ("1.", "1"),
            ("1.G", "1G"),
        ];
        check_parse(&cases, DecimalSi);
    }

    #[test]
    fn digits_below_nano_are_rounded_away_from_zero() {
        let cases = [
            ("3.001n", "4n"),
            ("0.0000000001", "1n"),
            ("0.0000000005", "1n"),
            ("0.00000000050", "1n"),
            ("0.9n", "1n"),
            ("0.00000012345", "124n"),
            ("0.00000012354", "124n"),
            ("12345678901234567890.0000000001", "12345678901234567890000000001n"),
        ];
        check_parse(&cases, DecimalSi);
        check_parse(&[("1.1E-9", "2e-9"), ("0.5e-9", "1e-9"), ("1e-99", "1e-9")], DecimalExponent);
        check_parse(&[("1.0000000000000000001Ki", "1024000000001n")], BinarySi);
        // Below one, a binary suffix becomes a decimal one.
        let cases = [(".000001Ki", "1024u"), (".000000001Ki", "1024n"), ("0.000000000001Ki", "2n")];
        check_parse(&cases, DecimalSi);
    }

    #[test]
    fn a_number_with_a_binary_suffix_is_capped_at_the_largest_i64() {
        let largest = "9223372036854775807";
        let cases = [
            ("9Ei", largest),
            ("8Ei", largest),
            ("7.99999999999999999999999999Ei", largest),
            ("9223372036854775807Ki", largest),
            ("99999999999999999999999999999999999999999999Ki", largest),
        ];
        check_parse(&cases, BinarySi);
        assert_eq!(quantity("9Ei").value(), i64::MAX);
    }

    #[test]
    fn a_missing_number_is_zero() {
        for text in ["-", "+", ".", "-.", "Ki", "m", "e3", ".Ki"] {
            assert!(quantity(text).is_zero(), "{text}");
        }
    }

    #[test]
    fn invalid_text_is_rejected_with_the_message_of_upstream() {
        let form = "quantities must match the regular expression \
                    '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        let number = "unable to parse numeric part of quantity";
        let suffix = "unable to parse quantity's suffix";
        let cases = [
            ("", form),
            (" 1", form),
            ("1 ", form),
            ("aoeu", form),
            ("0.1am", form),
            ("1.1.M", form),
            ("1+1.0M", form),
            ("5 µ", form),
            ("Non-Numeric", form),
            ("0.1mi", suffix),
            (".5i", suffix),
            ("1i", suffix),
            ("1K", suffix),
            ("-3.01i", suffix),
            ("-3.01e-", suffix),
            ("--1", suffix),
            ("1e9223372036854775808", suffix),
            ("e-10", number),
            ("-.e-10", number),
        ];
        for (text, reason) in cases {
            let error = Quantity::parse(text).expect_err(text);
            assert_eq!((error.text(), error.reason()), (text, reason));
        }
        assert_eq!(
            Quantity::parse("2 GB").unwrap_err().to_string(),
            format!("{form}: got \"2 GB\", a quantity is {SHAPE}")
        );
    }

    #[test]
    fn whole_units_and_thousandths_are_rounded_away_from_zero() {
        let cases = [
            ("0", 0, 0),
            ("1", 1, 1000),
            ("-1", -1, -1000),
            ("1n", 1, 1),
            ("-1n", -1, -1),
            ("1u", 1, 1),
            ("1m", 1, 1),
            ("999m", 1, 999),
            ("1001m", 2, 1001),
            ("-1001m", -2, -1001),
            ("1500100u", 2, 1501),
            ("2k", 2000, 2_000_000),
            ("0.5Ki", 512, 512_000),
            ("1.0001Ki", 1025, 1_024_103),
            ("4Pi", 4 << 50, (4 << 50) * 1000),
            ("9223372036854775807m", 9_223_372_036_854_776, i64::MAX),
            ("9223372036854775807", i64::MAX, -1000),
        ];
        for (text, value, milli) in cases {
            let read = quantity(text);
            assert_eq!((read.value(), read.milli_value()), (value, milli), "{text}");
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_cut_as_in_release_1_36() {
        let cases = [
            // If written with up to 18 digits, it becomes 0.
            ("9E", 9_000_000_000_000_000_000, 0),
            ("10E", 0, 0),
            ("-10E", 0, 0),
            ("1e19", 0, 0),
            ("1e999999999", 0, 0),
            // With more digits, its low 64 bits remain.
            ("10000000000000000000", -8_446_744_073_709_551_616, 1_864_712_049_423_024_128),
            ("18446744073709551617", 1, 1000),
            ("1.0000000000000000000e99", 0, 0),
            // The remainder of a long negative fraction is rounded upwards.
            ("-1.5000000000000000000", 0, -1500),
            // A negative one is cut to 64 bits in nano-units before it is divided.
            ("-10000000000.00000000", 8_446_744_074, 8_446_744_073_710),
        ];
        for (text, value, milli) in cases {
            let read = quantity(text);
            assert_eq!((read.value(), read.milli_value()), (value, milli), "{text}");
        }
    }

    #[test]
    fn text_that_upstream_considers_canonical_is_shown_unchanged() {
        let cases = [
            ("1Gi", "1Gi", "1Gi"),
            ("+1", "+1", "1"),
            ("01", "01", "1"),
            ("1.234", "1.234", "1234m"),
            ("1E3", "1E3", "1e3"),
            ("1.Ki", "1.Ki", "1Ki"),
            ("1000", "1k", "1k"),
            ("0.5", "500m", "500m"),
            ("1024Ki", "1Mi", "1Mi"),
            ("5Pi", "5Pi", "5Pi"),
        ];
        for (text, shown, canonical) in cases {
            let read = quantity(text);
            assert_eq!((read.to_string(), read.canonical()), (shown.into(), canonical.into()));
        }
        assert_eq!(format!("{:>6}|", quantity("1Gi")), "   1Gi|");
    }

    #[test]
    fn a_format_that_would_lose_digits_is_not_used() {
        let cases = [
            (Quantity::new(1024, BinarySi), "1Ki"),
            (Quantity::new(1025, BinarySi), "1025"),
            (Quantity::new(6 << 10, BinarySi), "6Ki"),
            (Quantity::new(5, BinarySi), "5"),
            (Quantity::new(1000, BinarySi), "1k"),
            (Quantity::new(i64::MIN, BinarySi), "-8Ei"),
            (Quantity::from_milli(500, BinarySi), "500m"),
            (Quantity::from_milli(1024, BinarySi), "1024m"),
            (Quantity::from_milli(1_234_567, BinarySi), "1234567m"),
            (Quantity::from_milli(1_024_000, BinarySi), "1Ki"),
            (Quantity::from_milli(1_234_000, DecimalSi), "1234"),
            (Quantity::new(1_234_000, DecimalSi), "1234k"),
            (Quantity::from_milli(1_000_000, DecimalExponent), "1e3"),
            (Quantity::from_milli(1000, DecimalExponent), "1"),
            (quantity("1000E"), "1e21"),
            (quantity("12000E"), "12e21"),
        ];
        for (number, shown) in cases {
            assert_eq!(number.to_string(), shown);
        }
    }

    #[test]
    fn rounding_as_the_api_server_does_leaves_thousandths() {
        let cases = [
            ("1.234", "1.234"),
            ("1001u", "2m"),
            ("-1001u", "-2m"),
            ("1n", "1m"),
            ("0.3Gi", "322122547200m"),
            ("1.0000000001Ki", "1024001m"),
            ("9000000000000000000.0000001", "9000000000000000000001m"),
        ];
        for (text, stored) in cases {
            let mut rounded = quantity(text);
            rounded.round_up_to_milli();
            assert_eq!(rounded.to_string(), stored, "{text}");
        }
    }

    #[test]
    fn order_is_that_of_the_numbers() {
        let cases = [
            ("0", "0", Ordering::Equal),
            ("1", "1000m", Ordering::Equal),
            ("1Ki", "1.024k", Ordering::Equal),
            ("100m", "50m", Ordering::Greater),
            ("10000T", "100Gi", Ordering::Greater),
            ("1e999999999", "1n", Ordering::Greater),
            ("-1e999999999", "1n", Ordering::Less),
            ("0e999999999", "1n", Ordering::Less),
            ("0.99999999999999999999", "1", Ordering::Equal),
            ("10000000000000000000000000000", "10000000000000000000000000001", Ordering::Less),
        ];
        for (left, right, order) in cases {
            assert_eq!(quantity(left).cmp(&quantity(right)), order, "{left} {right}");
            assert_eq!(quantity(right).cmp(&quantity(left)), order.reverse(), "{right} {left}");
        }
    }

    #[test]
    fn a_sum_keeps_the_format_of_its_first_operand_unless_that_is_zero() {
        let cases = [
            // left, right, sum, difference
            ("10", "1e1", "20", "0"),
            ("10", "1Ki", "1034", "-1014"),
            ("1Ki", "1k", "2024", "24"),
            ("1Ki", "1024", "2Ki", "0"),
            ("1Ki", "1m", "1024001m", "1023999m"),
            ("0", "1Gi", "1Gi", "-1Gi"),
            ("1Gi", "0", "1Gi", "1Gi"),
            ("0", "100m", "100m", "-100m"),
            ("4Ei", "4Ei", "8Ei", "0"),
            ("1e30", "1", "1000000000000000000000000000001", "999999999999999999999999999999"),
            ("5E", "1n", "5000000000000000000000000001n", "4999999999999999999999999999n"),
        ];
        for (left, right, sum, difference) in cases {
            let (mut added, mut taken) = (quantity(left), quantity(left));
            added.add(&quantity(right));
            taken.sub(&quantity(right));
            let shown = (added.to_string(), taken.to_string());
            assert_eq!(shown, (sum.into(), difference.into()), "{left} {right}");
        }
    }

    #[test]
    fn a_sum_beyond_37_digits_is_rounded_away_from_zero() {
        let mut sum = quantity("1e999999999");
        sum.add(&quantity("1"));
        assert!(quantity("1e999999999") < sum);
        assert!(sum < quantity("1.0000000000000001e999999999"));
    }

    #[test]
    fn json_holds_a_quantity_as_text_or_number() {
        let cases = [
            ("\"1Gi\"", "1Gi"),
            ("\" 1\"", "1"),
            ("\"1 \"", "1"),
            ("1", "1"),
            ("-1", "-1"),
            ("10", "10"),
            ("0.5", "500m"),
            ("1e3", "1k"),
            ("20000000000000000000", "20E"),
            ("1e21", "1e21"),
            ("1e-7", "100e-9"),
            ("null", "0"),
        ];
        for (json, shown) in cases {
            let read: Quantity = serde_json::from_str(json).expect(json);
            assert_eq!(read.to_string(), shown, "{json}");
        }
        assert_eq!(serde_json::to_string(&quantity("1024Mi")).unwrap(), "\"1Gi\"");
    }

    #[test]
    fn an_error_about_json_shows_what_a_quantity_looks_like() {
        let refuse = |json| serde_json::from_str::<Quantity>(json).unwrap_err().to_string();
        let of_text = refuse("\"5Q\"");
        assert!(of_text.contains("got \"5Q\", a quantity is a number with"), "{of_text}");
        let of_truth = refuse("true");
        assert!(of_truth.contains("boolean `true`, expected a number with"), "{of_truth}");
    }

    /// A text that resembles a quantity, of any length.
    const NEARLY: &str = r"[+-]?[0-9]{0,40}\.?[0-9]{0,40}[eEinumkKMGTP+-]{0,3}[0-9]{0,12}";
    /// A quantity of moderate size.
    const MODERATE: &str = r"-?[0-9]{1,12}(\.[0-9]{1,12})?(m|k|G|Ki|Gi|e3)?";

    proptest! {
        #[test]
        fn displayed_text_parses_as_the_same_number(text in NEARLY) {
            if let Ok(read) = Quantity::parse(&text) {
                prop_assert_eq!(quantity(&read.to_string()), read.clone());
                prop_assert_eq!(quantity(&read.canonical()), read);
            }
        }

        #[test]
        fn a_number_of_nanos_has_the_right_value(nanos in -10_i128.pow(25)..10_i128.pow(25)) {
            let written = format!("{nanos}n");
            let read = quantity(&written);
            let away = |unit: i128| nanos / unit + (nanos % unit).signum();
            // Upstream cuts long negative numbers, which the tables above have.
            if 0 <= nanos || written.len() < 19 {
                prop_assert_eq!(i128::from(read.value()), away(1_000_000_000));
            }
            if (0..10_i128.pow(24)).contains(&nanos) {
                prop_assert_eq!(i128::from(read.milli_value()), away(1_000_000));
            }
        }

        #[test]
        fn subtraction_undoes_addition(left in MODERATE, right in MODERATE) {
            let (left, right) = (quantity(&left), quantity(&right));
            let mut sum = left.clone();
            sum.add(&right);
            prop_assert_eq!(sum.cmp(&left), right.cmp(&Quantity::default()));
            sum.sub(&right);
            prop_assert_eq!(sum, left);
        }
    }
}
