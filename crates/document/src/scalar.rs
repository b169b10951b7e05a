//! The meaning of a YAML scalar, by the rules of YAML 1.1 as Kubernetes reads it.
//!
//! As in sigs.k8s.io/yaml, goyaml.v2/resolve.go, resolve, and yaml.go, convertToJSONableObject: the
//! rules include the handling of malformed input (`08` is eight, although it is not an octal number).

use granit_parser::{ScalarStyle, Tag};
use serde_json::{Number, Value};

const CORE_TAGS: &str = "tag:yaml.org,2002:";

/// The value of the scalar `text`, written in `style` with the tag `tag`.
///
/// Quoted and block scalars are strings unless a tag says otherwise. The error is that the value does
/// not match its tag, or that JSON cannot express a number.
pub(crate) fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain => resolve_plain(text),
            _ => Ok(Value::String(text.to_owned())),
        };
    };
    match tag.suffix_in_namespace(CORE_TAGS).as_deref() {
        Some(tag @ ("bool" | "int" | "float" | "null")) => {
            let value = resolve_plain(text)?;
            if has_type(&value, tag) {
                Ok(value)
            } else {
                Err(format!("cannot read `{text}` as a !!{tag}"))
            }
        }
        Some("binary") => Err("the tag !!binary is not supported: \
                               write the base64 text without the tag"
            .to_owned()),
        _ => Ok(Value::String(text.to_owned())),
    }
}

/// The field name for the value of a scalar; none if it cannot be a field name.
///
/// Kubernetes accepts numbers and booleans as names: `1: x` is the field `"1"`.
pub(crate) fn key_name(value: Value) -> Option<String> {
    match value {
        Value::String(name) => Some(name),
        Value::Bool(name) => Some(name.to_string()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Some(integer.to_string()),
            (None, Some(float)) if number.is_f64() => Some(format_float(float)),
            _ => None,
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn resolve_plain(text: &str) -> Result<Value, String> {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
        | "-.inf" | "-.Inf" | "-.INF" => {
            return Err(format!("the number `{text}` is not supported: a number must be finite"));
        }
        _ => match resolve_number(text) {
            Some(number) => Value::Number(number),
            None => Value::String(text.to_owned()),
        },
    };
    Ok(value)
}

fn resolve_number(text: &str) -> Option<Number> {
    match text.as_bytes().first()? {
        // A number that starts with a dot must not contain underscores.
        b'.' => parse_float(text),
        b'0'..=b'9' | b'+' | b'-' => {
            let digits = text.replace('_', "");
            parse_integer(&digits).or_else(|| parse_float(&digits))
        }
        _ => None,
    }
}

/// An integer with the prefixes of Go's literals: `0x`, `0o`, `0b`, and `0` for octal.
fn parse_integer(text: &str) -> Option<Number> {
    let (sign, magnitude) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("+", &text[1..]),
        _ => ("", text),
    };
    let (digits, radix) = match magnitude.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&magnitude[2..], 16),
        [b'0', b'o' | b'O', ..] => (&magnitude[2..], 8),
        [b'0', b'b' | b'B', ..] => (&magnitude[2..], 2),
        [b'0', _, ..] => (&magnitude[1..], 8),
        _ => (magnitude, 10),
    };
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let signed = i64::from_str_radix(&format!("{sign}{digits}"), radix).map(Number::from);
    signed.ok().or_else(|| match sign {
        "" => u64::from_str_radix(digits, radix).map(Number::from).ok(),
        _ => None,
    })
}

/// A decimal number. One without a fraction becomes an integer, as in JSON written by Go.
fn parse_float(text: &str) -> Option<Number> {
    let is_float =
        text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let float = text.parse::<f64>().ok().filter(|float| is_float && float.is_finite())?;
    // `{:.0}` of a whole number below 2^64 is exact, so no conversion can round.
    if float.fract() == 0.0 && float.abs() < 1e19 {
        let whole = format!("{float:.0}");
        return whole
            .parse::<i64>()
            .map(Number::from)
            .or_else(|_| whole.parse::<u64>().map(Number::from))
            .ok();
    }
    Number::from_f64(float)
}

fn has_type(value: &Value, tag: &str) -> bool {
    match value {
        Value::Null => tag == "null",
        Value::Bool(_) => tag == "bool",
        Value::Number(number) => tag == "float" || (tag == "int" && !number.is_f64()),
        Value::String(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// A float as Go's `strconv.FormatFloat(float, 'g', -1, 32)` writes it.
fn format_float(float: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "Go rounds to 32 bits here")]
    let float = float as f32;
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => format!("{mantissa}e{exponent:+03}"),
        _ => float.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: &Value) {
        assert_eq!(resolve(text, ScalarStyle::Plain, None).as_ref(), Ok(expected), "{text:?}");
    }

    #[test]
    fn words_of_yaml_1_1_are_booleans_and_nulls() {
        for text in ["y", "Yes", "YES", "true", "True", "on", "ON"] {
            check(text, &json!(true));
        }
        for text in ["n", "No", "NO", "false", "FALSE", "off", "Off"] {
            check(text, &json!(false));
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            check(text, &Value::Null);
        }
        for text in ["yEs", "tRUE", "nUll", "oN", "nil", "<<", "none"] {
            check(text, &json!(text));
        }
    }

    #[test]
    fn integers_have_the_prefixes_of_go() {
        check("16", &json!(16));
        check("+16", &json!(16));
        check("-16", &json!(-16));
        check("010", &json!(8));
        check("-010", &json!(-8));
        check("0o10", &json!(8));
        check("0x1F", &json!(31));
        check("0b101", &json!(5));
        check("-0b101", &json!(-5));
        check("1_000", &json!(1000));
        check("0", &json!(0));
        check("9223372036854775807", &json!(i64::MAX));
        check("-9223372036854775808", &json!(i64::MIN));
        check("18446744073709551615", &json!(u64::MAX));
    }

    #[test]
    fn a_leading_zero_without_octal_digits_is_decimal() {
        check("08", &json!(8));
        check("0899", &json!(899));
        check("09.5", &json!(9.5));
    }

    #[test]
    fn floats_without_fraction_are_integers() {
        check("10.0", &json!(10));
        check("1e3", &json!(1000));
        check("1.", &json!(1));
        check("-0.0", &json!(0));
        check("1.5", &json!(1.5));
        check(".5", &json!(0.5));
        check("+.5", &json!(0.5));
        check("5e-1", &json!(0.5));
        check("36893488147419103232", &json!(36_893_488_147_419_103_232.0));
    }

    #[test]
    fn what_only_resembles_a_number_is_a_string() {
        for text in [
            "100m",
            "1Gi",
            "0x",
            "0b2",
            "-",
            "+",
            ".",
            "..",
            "1.2.3",
            "1e",
            "10:30",
            "._5",
            ".5_0",
            "--1",
            "0x-1",
            "1e400",
            "infinity",
            "2024-01-01",
            "2024-01-01T00:00:00Z",
        ] {
            check(text, &json!(text));
        }
    }

    #[test]
    fn a_quoted_scalar_is_a_string() {
        let quoted = resolve("yes", ScalarStyle::DoubleQuoted, None);
        assert_eq!(quoted, Ok(json!("yes")));
        assert_eq!(resolve("", ScalarStyle::SingleQuoted, None), Ok(json!("")));
    }

    #[test]
    fn a_number_must_be_finite() {
        let error = resolve(".inf", ScalarStyle::Plain, None).expect_err("JSON has no infinity");
        assert_eq!(error, "the number `.inf` is not supported: a number must be finite");
    }

    #[test]
    fn a_tag_overrides_the_notation() {
        let tagged = |text, tag: &str| {
            resolve(text, ScalarStyle::SingleQuoted, Some(&Tag::new(CORE_TAGS, tag)))
        };
        assert_eq!(tagged("5", "int"), Ok(json!(5)));
        assert_eq!(tagged("5", "float"), Ok(json!(5)));
        assert_eq!(tagged("5", "str"), Ok(json!("5")));
        assert_eq!(tagged("yes", "int"), Err("cannot read `yes` as a !!int".to_owned()));
        assert!(tagged("aGk=", "binary").is_err());
        let local = Tag::new("!", "custom");
        assert_eq!(resolve("5", ScalarStyle::Plain, Some(&local)), Ok(json!("5")));
    }

    #[test]
    fn numbers_and_booleans_can_name_a_field() {
        let name = |text| key_name(resolve(text, ScalarStyle::Plain, None).expect("it resolves"));
        assert_eq!(name("8080").as_deref(), Some("8080"));
        assert_eq!(name("yes").as_deref(), Some("true"));
        assert_eq!(name("1.5").as_deref(), Some("1.5"));
        assert_eq!(name("1234567.5").as_deref(), Some("1.2345675e+06"));
        assert_eq!(name("~"), None);
    }
}
