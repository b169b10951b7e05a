//! `'...'.format([...])`: texts with clauses for values.

use std::fmt::Write as _;

use super::{Arguments, time};
use crate::budget::Budget;
use crate::error::Fault;
use crate::value::Value;

/// The most digits that a clause may ask for after the point.
const MAX_PRECISION: usize = 1_000;

/// A piece of a format.
pub(crate) enum Piece {
    Text(char),
    Clause(Clause),
}

/// A clause for a value.
#[derive(Clone, Copy)]
pub(crate) struct Clause {
    /// The letter that says how the value is written.
    pub(crate) verb: char,
    pub(crate) precision: Option<usize>,
}

/// The pieces of a format, or what is wrong with it.
pub(crate) fn pieces(format: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            pieces.push(Piece::Text(c));
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            pieces.push(Piece::Text('%'));
            continue;
        }
        let mut precision = None;
        if chars.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let value = digits.parse().ok().filter(|value| *value <= MAX_PRECISION);
            let wrong = || {
                format!(
                    "could not parse formatting clause: error while parsing precision: \"{digits}\""
                )
            };
            precision = Some(value.ok_or_else(wrong)?);
        }
        let Some(verb) = chars.next() else { return Err("unexpected end of string".to_owned()) };
        if !matches!(verb, 's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o') {
            return Err(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            ));
        }
        pieces.push(Piece::Clause(Clause { verb, precision }));
    }
    Ok(pieces)
}

pub(super) fn format(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let [Value::String(format), Value::List(values)] = call.args else {
        return Err(Fault::NoOverload);
    };
    let mut text = String::new();
    let mut used = 0;
    for piece in pieces(format).map_err(Fault::text)? {
        let clause = match piece {
            Piece::Text(c) => {
                text.push(c);
                continue;
            }
            Piece::Clause(clause) => clause,
        };
        let value = values.get(used).ok_or_else(|| {
            Fault::text(format!("error during formatting: index {used} out of range"))
        })?;
        used += 1;
        let before = text.len();
        write(clause, value, &mut text, call.budget)?;
        call.budget.write(text.len() - before)?;
    }
    if used < values.len() {
        let message = format!(
            "too many arguments supplied to string.format (expected {used}, got {})",
            values.len()
        );
        return Err(Fault::text(message));
    }
    Ok(Value::String(text.into()))
}

fn write(
    clause: Clause,
    value: &Value,
    text: &mut String,
    budget: &mut Budget,
) -> Result<(), Fault> {
    let piece = match (clause.verb, value) {
        ('s', value) => return plain(value, text, budget),
        ('d', Value::Int(value)) => value.to_string(),
        ('d', Value::Uint(value)) => value.to_string(),
        ('d' | 'f' | 'e', Value::Double(value)) if !value.is_finite() => special(*value).to_owned(),
        ('f', number) => match double(number) {
            Some(value) => format!("{value:.*}", clause.precision.unwrap_or(6)),
            None => return Err(unfit("fixed-point", "doubles", value)),
        },
        ('e', number) => match double(number) {
            Some(value) => scientific(value, clause.precision.unwrap_or(6)),
            None => return Err(unfit("scientific", "doubles", value)),
        },
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('b', Value::Int(value)) => signed(*value, |magnitude| format!("{magnitude:b}")),
        ('b', Value::Uint(value)) => format!("{value:b}"),
        ('o', Value::Int(value)) => signed(*value, |magnitude| format!("{magnitude:o}")),
        ('o', Value::Uint(value)) => format!("{value:o}"),
        ('x' | 'X', value) => {
            let digits = match value {
                Value::Int(value) => signed(*value, |magnitude| format!("{magnitude:x}")),
                Value::Uint(value) => format!("{value:x}"),
                Value::String(value) => hexadecimal(value.as_bytes()),
                Value::Bytes(value) => hexadecimal(value),
                other => return Err(unfit("hex", "integers, byte buffers, and strings", other)),
            };
            if clause.verb == 'X' { digits.to_uppercase() } else { digits }
        }
        ('d', other) => return Err(unfit("decimal", "integers", other)),
        ('b', other) => return Err(unfit("binary", "integers and bools", other)),
        (_, other) => return Err(unfit("octal", "integers", other)),
    };
    text.push_str(&piece);
    Ok(())
}

fn unfit(clause: &str, allowed: &str, value: &Value) -> Fault {
    Fault::text(format!(
        "error during formatting: {clause} clause can only be used on {allowed}, was given {}",
        value.type_name()
    ))
}

#[expect(clippy::cast_precision_loss, reason = "a clause for doubles rounds")]
fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::Int(value) => Some(*value as f64),
        Value::Uint(value) => Some(*value as f64),
        _ => None,
    }
}

fn special(value: f64) -> &'static str {
    match () {
        () if value.is_nan() => "NaN",
        () if value < 0.0 => "-Infinity",
        () => "Infinity",
    }
}

fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').expect("`e` writes an exponent");
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

fn signed(value: i64, magnitude: fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", magnitude(value.unsigned_abs()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all text");
        text
    })
}

/// A value as `%s` writes it.
fn plain(value: &Value, text: &mut String, budget: &mut Budget) -> Result<(), Fault> {
    budget.step()?;
    let piece = match value {
        Value::String(value) => {
            text.push_str(value);
            return Ok(());
        }
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) if !value.is_finite() => special(*value).to_owned(),
        Value::Double(value) => format!("{value}"),
        Value::Bytes(value) => String::from_utf8_lossy(value).into_owned(),
        Value::Duration(value) => time::duration_text(*value),
        Value::Timestamp(value) => time::timestamp_text(*value),
        Value::Type(name) => name.to_string(),
        Value::List(values) => {
            text.push('[');
            for (i, value) in values.iter().enumerate() {
                text.push_str(if i == 0 { "" } else { ", " });
                plain(value, text, budget)?;
            }
            "]".to_owned()
        }
        Value::Map(map) => {
            text.push('{');
            for (i, (key, value)) in map.entries().iter().enumerate() {
                text.push_str(if i == 0 { "" } else { ", " });
                plain(key, text, budget)?;
                text.push_str(": ");
                plain(value, text, budget)?;
            }
            "}".to_owned()
        }
        other => {
            return Err(unfit(
                "string",
                "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
                other,
            ));
        }
    };
    text.push_str(&piece);
    Ok(())
}
