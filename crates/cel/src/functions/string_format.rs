//! `'...'.format([...])`: texts with clauses for values, as the second version of cel-go's extension
//! writes them for the locale `en_US`.

use std::fmt::Write as _;

use super::strings::go_quoted;
use super::{Arguments, conversions};
use crate::budget::Budget;
use crate::error::Fault;
use crate::value::{Map, Value};

/// The most digits that a clause may ask for after the point.
const MAX_PRECISION: usize = 1_000;
/// How many digits there are after the point if the clause does not say.
const DEFAULT_PRECISION: usize = 6;

/// A piece of a format.
pub(crate) enum Piece {
    Text(char),
    /// A clause, or what is wrong with it. Nothing follows one that is wrong.
    Clause(Result<Clause, String>),
    /// `%` at the end.
    End,
}

/// A clause for a value.
#[derive(Clone, Copy)]
pub(crate) struct Clause {
    /// The letter that says how the value is written.
    pub(crate) verb: char,
    pub(crate) precision: Option<usize>,
}

impl Clause {
    /// What the clause can be used on, as messages say it.
    pub(crate) fn allowed(self) -> &'static str {
        match self.verb {
            's' => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
                 types, durations, and timestamps"
            }
            'd' => "decimal clause can only be used on integers",
            'f' => "fixed-point clause can only be used on doubles",
            'e' => "scientific clause can only be used on doubles",
            'b' => "only integers and bools can be formatted as binary",
            'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
            _ => "octal clause can only be used on integers",
        }
    }
}

/// The pieces of a format.
pub(crate) fn pieces(format: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '%' if rest.is_empty() => pieces.push(Piece::End),
            '%' if rest.starts_with('%') => {
                rest = &rest[1..];
                pieces.push(Piece::Text('%'));
            }
            '%' => match clause(rest) {
                Ok((clause, after)) => {
                    pieces.push(Piece::Clause(Ok(clause)));
                    rest = after;
                }
                Err(why) => {
                    let why = format!("could not parse formatting clause: {why}");
                    pieces.push(Piece::Clause(Err(why)));
                    return pieces;
                }
            },
            c => pieces.push(Piece::Text(c)),
        }
    }
    pieces
}

/// A clause after its `%`, and what follows it.
fn clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, text) = match text.strip_prefix('.') {
        Some(text) => {
            let (precision, text) =
                precision(text).map_err(|why| format!("error while parsing precision: {why}"))?;
            (Some(precision), text)
        }
        None => (None, text),
    };
    // cel-go looks at bytes.
    let verb = char::from(text.as_bytes()[0]);
    match verb {
        's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o' => {
            Ok((Clause { verb, precision }, &text[1..]))
        }
        _ => Err(format!("unrecognized formatting clause \"{verb}\"")),
    }
}

fn precision(text: &str) -> Result<(usize, &str), String> {
    let Some(end) = text.find(|c: char| !c.is_ascii_digit()) else {
        return Err("could not find end of precision specifier".to_owned());
    };
    let (digits, rest) = text.split_at(end);
    let precision = digits.parse().ok().filter(|precision| *precision <= MAX_PRECISION);
    let precision = precision.ok_or_else(|| {
        let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
        format!(
            "error while converting precision to integer: strconv.Atoi: parsing \"{digits}\": {why}"
        )
    })?;
    Ok((precision, rest))
}

pub(super) fn format(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let [Value::String(format), Value::List(values)] = call.args else {
        return Err(Fault::NoOverload);
    };
    let mut text = String::new();
    let mut values = values.iter().enumerate();
    let count = values.len();
    for piece in pieces(format) {
        if let Piece::Text(c) = piece {
            text.push(c);
            continue;
        }
        let Some((_, value)) = values.next() else {
            return Err(Fault::text(format!("index {count} out of range")));
        };
        let clause = match piece {
            Piece::Clause(clause) => clause.map_err(Fault::text)?,
            _ => return Err(Fault::text("unexpected end of string")),
        };
        let before = text.len();
        write(clause, value, &mut text, call.budget)?;
        call.budget.write(text.len() - before)?;
    }
    Ok(Value::String(text.into()))
}

fn write(
    clause: Clause,
    value: &Value,
    text: &mut String,
    budget: &mut Budget,
) -> Result<(), Fault> {
    let unfit = || {
        let (allowed, of) = (clause.allowed(), value.type_name());
        Fault::text(format!("error during formatting: {allowed}, was given {of}"))
    };
    let piece = match (clause.verb, value) {
        ('s', value) => match plain(value, text, budget) {
            Err(Fault::NoOverload) => return Err(unfit()),
            result => return result,
        },
        ('d', Value::Int(value)) => value.to_string(),
        ('d', Value::Uint(value)) => value.to_string(),
        ('f', value) => {
            let precision = clause.precision.unwrap_or(DEFAULT_PRECISION);
            fixed(double(value).ok_or_else(unfit)?, precision)
        }
        ('e', value) => {
            // As in formatting.go, Scientific, which takes the precision for a width.
            let width = clause.precision.unwrap_or(DEFAULT_PRECISION);
            format!("{:>width$}", scientific(double(value).ok_or_else(unfit)?))
        }
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
                _ => return Err(unfit()),
            };
            if clause.verb == 'X' { digits.to_uppercase() } else { digits }
        }
        _ => return Err(unfit()),
    };
    text.push_str(&piece);
    Ok(())
}

/// The number of a clause for doubles, which takes the names of those that are no numbers, too.
fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(name) => match &**name {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(value: f64) -> Option<&'static str> {
    match () {
        () if value.is_nan() => Some("NaN"),
        () if value.is_finite() => None,
        () if value < 0.0 => Some("-∞"),
        () => Some("∞"),
    }
}

/// With commas between the thousands.
fn fixed(value: f64, precision: usize) -> String {
    if let Some(special) = special(value) {
        return special.to_owned();
    }
    let digits = format!("{:.precision$}", value.abs());
    let whole = digits.find('.').unwrap_or(digits.len());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (i, digit) in digits.char_indices() {
        if 0 < i && i < whole && (whole - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn scientific(value: f64) -> String {
    if let Some(special) = special(value) {
        return special.to_owned();
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let text = format!("{:.DEFAULT_PRECISION$e}", value.abs());
    let (digits, exponent) = text.split_once('e').expect("`e` writes an exponent");
    let exponent: i32 = exponent.parse().expect("`e` writes a number after it");
    let raised = format!("{:02}", exponent.unsigned_abs());
    let raised = raised.chars().map(|digit| {
        let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
        digits[digit.to_digit(10).expect("a decimal number") as usize]
    });
    let minus = if exponent < 0 { "⁻" } else { "" };
    format!("{sign}{digits}×10{minus}{}", raised.collect::<String>())
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

/// A value as `%s` writes it. It is no overload if the clause cannot be used on it.
fn plain(value: &Value, text: &mut String, budget: &mut Budget) -> Result<(), Fault> {
    budget.step()?;
    match value {
        Value::List(values) => return list(values, text, budget),
        Value::Map(entries) => return map(entries, text, budget),
        Value::Null => text.push_str("null"),
        Value::Type(name) => text.push_str(name),
        // Texts that cel-go does not format, although it converts them.
        Value::Ip(_) | Value::Cidr(_) => return Err(Fault::NoOverload),
        other => match conversions::text(other) {
            Err(Fault::Error(why)) => {
                let why = go_quoted(&why);
                return Err(wrong(&format!("could not convert argument {why} to string")));
            }
            converted => text.push_str(&converted?),
        },
    }
    Ok(())
}

fn wrong(why: &str) -> Fault {
    Fault::text(format!("error during formatting: {why}"))
}

fn list(values: &[Value], text: &mut String, budget: &mut Budget) -> Result<(), Fault> {
    text.push('[');
    for (i, value) in values.iter().enumerate() {
        text.push_str(if i == 0 { "" } else { ", " });
        literal(value, text, budget)?;
    }
    text.push(']');
    Ok(())
}

fn map(map: &Map, text: &mut String, budget: &mut Budget) -> Result<(), Fault> {
    let mut entries = Vec::new();
    for (key, value) in map.entries() {
        let (mut entry, mut written) = (String::new(), String::new());
        match key {
            Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => {
                literal(key, &mut entry, budget)?;
            }
            other => {
                let of = other.type_name();
                return Err(wrong(&format!("no formatting function for map key of type {of}")));
            }
        }
        literal(value, &mut written, budget)?;
        entries.push((entry, written));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    text.push('{');
    for (i, (key, value)) in entries.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        write!(text, "{comma}{key}:{value}").expect("a string takes all text");
    }
    text.push('}');
    Ok(())
}

/// A value within a list or a map, which is written as in an expression.
fn literal(value: &Value, text: &mut String, budget: &mut Budget) -> Result<(), Fault> {
    let around = match value {
        Value::String(_) => "",
        Value::Bytes(_) => "b",
        Value::Duration(_) => "duration",
        Value::Timestamp(_) => "timestamp",
        Value::Double(value) if value.is_finite() => {
            write!(text, "{value:.DEFAULT_PRECISION$}").expect("a string takes all text");
            return budget.step();
        }
        Value::Double(_) => "",
        other => {
            return plain(other, text, budget).map_err(|fault| match fault {
                Fault::NoOverload => {
                    wrong(&format!("no formatting function for {}", other.type_name()))
                }
                fault => fault,
            });
        }
    };
    let mut written = String::new();
    plain(value, &mut written, budget)?;
    let quoted = go_quoted(&written);
    match around {
        "duration" | "timestamp" => write!(text, "{around}({quoted})"),
        _ => write!(text, "{around}{quoted}"),
    }
    .expect("a string takes all text");
    Ok(())
}
