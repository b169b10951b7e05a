//! Conversions between the types of the standard library.

use super::operators::{integer_overflow, unsigned_overflow};
use super::{Arguments, Implementation, time};
use crate::error::Fault;
use crate::value::Value;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "bool" => to_bool,
        "bytes" => to_bytes,
        "double" => to_double,
        "duration" => to_duration,
        "int" => to_int,
        "string" => to_string,
        "timestamp" => to_timestamp,
        "uint" => to_uint,
        _ => return None,
    })
}

/// Whether a call of this function with one constant is made when the expression is compiled.
pub(crate) fn is_conversion(name: &str) -> bool {
    matches!(name, "type" | "dyn") || implementation(name).is_some()
}

fn impossible(value: &Value, to: &str) -> Fault {
    Fault::text(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

fn to_bool(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args[0] {
        value @ Value::Bool(_) => Ok(value.clone()),
        value @ Value::String(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(impossible(value, "bool")),
        },
        _ => Err(Fault::NoOverload),
    }
}

fn to_bytes(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args[0] {
        value @ Value::Bytes(_) => Ok(value.clone()),
        Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(Fault::NoOverload),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a conversion to a double rounds")]
fn to_double(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args[0] {
        value @ Value::Double(_) => Ok(value.clone()),
        Value::Int(value) => Ok(Value::Double(*value as f64)),
        Value::Uint(value) => Ok(Value::Double(*value as f64)),
        value @ Value::String(text) => {
            let number = text.parse::<f64>().ok();
            // In Go a number that is too large is an error, not infinite.
            let digits = text.contains(|c: char| c.is_ascii_digit());
            let number = number.filter(|number| number.is_finite() || !digits);
            number.map(Value::Double).ok_or_else(|| impossible(value, "double"))
        }
        _ => Err(Fault::NoOverload),
    }
}

fn to_duration(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args[0] {
        value @ Value::Duration(_) => Ok(value.clone()),
        value @ Value::String(text) => {
            let duration = time::duration(text).map(Value::Duration);
            duration.ok_or_else(|| impossible(value, "google.protobuf.Duration"))
        }
        value @ Value::Int(_) => Err(impossible(value, "google.protobuf.Duration")),
        _ => Err(Fault::NoOverload),
    }
}

fn to_int(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let number = match call.args[0] {
        Value::Int(value) => *value,
        Value::Uint(value) => i64::try_from(*value).map_err(|_| integer_overflow())?,
        Value::Double(value) => {
            // The bounds themselves are not exact as doubles, so cel-go leaves them out.
            let bound = 9_223_372_036_854_775_808.0;
            if value.is_nan() || *value <= -bound || bound <= *value {
                return Err(integer_overflow());
            }
            #[expect(clippy::cast_possible_truncation, reason = "in range; the fraction is cut")]
            {
                *value as i64
            }
        }
        value @ Value::String(text) => text.parse().map_err(|_| impossible(value, "int"))?,
        Value::Duration(nanoseconds) => *nanoseconds,
        Value::Timestamp(nanoseconds) => {
            let seconds = nanoseconds.div_euclid(time::SECOND);
            i64::try_from(seconds).map_err(|_| integer_overflow())?
        }
        _ => return Err(Fault::NoOverload),
    };
    Ok(Value::Int(number))
}

fn to_uint(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let number = match call.args[0] {
        Value::Uint(value) => *value,
        Value::Int(value) => u64::try_from(*value).map_err(|_| unsigned_overflow())?,
        Value::Double(value) => {
            if value.is_nan() || *value < 0.0 || 18_446_744_073_709_551_616.0 <= *value {
                return Err(unsigned_overflow());
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "in range; the fraction is cut"
            )]
            {
                *value as u64
            }
        }
        value @ Value::String(text) => {
            let signed = text.starts_with('+');
            let number = text.parse().ok().filter(|_| !signed);
            number.ok_or_else(|| impossible(value, "uint"))?
        }
        _ => return Err(Fault::NoOverload),
    };
    Ok(Value::Uint(number))
}

fn to_string(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args[0] {
        value @ Value::String(_) => Ok(value.clone()),
        other => text(other).map(|text| Value::String(text.into())),
    }
}

/// The text that a value converts to.
pub(super) fn text(value: &Value) -> Result<String, Fault> {
    Ok(match value {
        Value::String(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => double_text(*value),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec())
            .map_err(|_| Fault::text("invalid UTF-8 in bytes, cannot convert to string"))?,
        Value::Duration(nanoseconds) => time::duration_text(*nanoseconds),
        Value::Timestamp(nanoseconds) => time::timestamp_text(*nanoseconds),
        Value::Ip(ip) => ip.to_string(),
        Value::Cidr(cidr) => cidr.to_string(),
        _ => return Err(Fault::NoOverload),
    })
}

fn to_timestamp(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args[0] {
        value @ Value::Timestamp(_) => Ok(value.clone()),
        Value::Int(seconds) => {
            let nanoseconds = i128::from(*seconds) * time::SECOND;
            if time::VALID.contains(&nanoseconds) {
                return Ok(Value::Timestamp(nanoseconds));
            }
            Err(Fault::text("timestamp overflow"))
        }
        value @ Value::String(text) => {
            let timestamp = time::timestamp(text).map(Value::Timestamp);
            timestamp.ok_or_else(|| impossible(value, "google.protobuf.Timestamp"))
        }
        _ => Err(Fault::NoOverload),
    }
}

/// A double as Go's `%g` writes it: the fewest digits that tell it apart, with an exponent from
/// a million on and below a ten-thousandth.
pub(crate) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Inf" } else { "+Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').expect("`e` writes an exponent");
    let exponent: i32 = exponent.parse().expect("`e` writes a number after it");
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}
