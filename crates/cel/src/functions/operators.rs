//! Operators, and the functions of the standard library that are like them.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Arguments, Implementation};
use crate::error::Fault;
use crate::value::{List, Value};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "!_" => not,
        "-_" => negate,
        "_+_" => |call| add(call.args[0], call.args[1], call),
        "_-_" => |call| subtract(call.args[0], call.args[1]),
        "_*_" => |call| multiply(call.args[0], call.args[1]),
        "_/_" => |call| divide(call.args[0], call.args[1]),
        "_%_" => |call| modulo(call.args[0], call.args[1]),
        "_<_" => |call| compare(call, "_<_", Ordering::is_lt),
        "_<=_" => |call| compare(call, "_<=_", Ordering::is_le),
        "_>_" => |call| compare(call, "_>_", Ordering::is_gt),
        "_>=_" => |call| compare(call, "_>=_", Ordering::is_ge),
        "_==_" => |call| call.args[0].equals(call.args[1], call.budget).map(Value::Bool),
        "@in" => is_in,
        "size" => size,
        "type" => |call| Ok(Value::Type(type_name(call.args[0]).into())),
        "dyn" => |call| Ok(call.args[0].clone()),
        "contains" => |call| on_texts(call, |text, part| text.contains(part)),
        "startsWith" => |call| on_texts(call, |text, part| text.starts_with(part)),
        "endsWith" => |call| on_texts(call, |text, part| text.ends_with(part)),
        _ => return None,
    })
}

/// The name of the type of a value, as a value.
fn type_name(value: &Value) -> &str {
    match value {
        Value::Device => "kubernetes.DRADevice",
        other => other.type_name(),
    }
}

/// The error for an operand that does not have the operator at all. cel-go asks those that have
/// methods for one, which names nothing.
pub(super) fn unsupported(operator: &str, operand: &Value) -> Fault {
    match operand {
        Value::String(_) | Value::Timestamp(_) | Value::Duration(_) => Fault::overload(),
        _ => Fault::text(format!("no such overload: {operator}")),
    }
}

fn not(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args[0] {
        Value::Bool(value) => Ok(Value::Bool(!value)),
        _ => Err(Fault::overload()),
    }
}

fn negate(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args[0] {
        Value::Int(value) => value.checked_neg().map(Value::Int).ok_or_else(integer_overflow),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Bool(_) => Err(Fault::overload()),
        Value::Duration(value) => {
            value.checked_neg().map(Value::Duration).ok_or_else(duration_overflow)
        }
        other => Err(unsupported("-_", other)),
    }
}

/// Sums beyond 64 bits.
pub(super) fn integer_overflow() -> Fault {
    Fault::text("integer overflow")
}

pub(super) fn unsigned_overflow() -> Fault {
    Fault::text("unsigned integer overflow")
}

pub(super) fn duration_overflow() -> Fault {
    Fault::text("duration overflow")
}

fn timestamp_overflow() -> Fault {
    Fault::text("timestamp overflow")
}

fn instant(nanoseconds: i128) -> Result<Value, Fault> {
    let valid = super::time::VALID.contains(&nanoseconds);
    valid.then_some(Value::Timestamp(nanoseconds)).ok_or_else(timestamp_overflow)
}

/// `_+_`, which `sum` uses too.
pub(super) fn add(a: &Value, b: &Value, call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            a.checked_add(*b).map(Value::Int).ok_or_else(integer_overflow)
        }
        (Value::Uint(a), Value::Uint(b)) => {
            a.checked_add(*b).map(Value::Uint).ok_or_else(unsigned_overflow)
        }
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => {
            call.budget.write(a.len() + b.len())?;
            Ok(Value::String([&**a, &**b].concat().into()))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            call.budget.write(a.len() + b.len())?;
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        (Value::List(a), Value::List(b)) if a.is_empty() => Ok(Value::List(Arc::clone(b))),
        (Value::List(a), Value::List(b)) if b.is_empty() => Ok(Value::List(Arc::clone(a))),
        (Value::List(a), Value::List(b)) => {
            call.budget.keep(a.len() + b.len())?;
            let mut both = List::new(a.iter().chain(b.iter()).cloned().collect());
            both.concatenated = true;
            Ok(Value::List(both.into()))
        }
        (Value::Duration(a), Value::Duration(b)) => {
            a.checked_add(*b).map(Value::Duration).ok_or_else(duration_overflow)
        }
        (Value::Timestamp(a), Value::Duration(b)) | (Value::Duration(b), Value::Timestamp(a)) => {
            instant(a + i128::from(*b))
        }
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Bytes(_) | Value::List(_),
            _,
        ) => Err(Fault::overload()),
        (other, _) => Err(unsupported("_+_", other)),
    }
}

fn subtract(a: &Value, b: &Value) -> Result<Value, Fault> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            a.checked_sub(*b).map(Value::Int).ok_or_else(integer_overflow)
        }
        (Value::Uint(a), Value::Uint(b)) => {
            a.checked_sub(*b).map(Value::Uint).ok_or_else(unsigned_overflow)
        }
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => {
            a.checked_sub(*b).map(Value::Duration).ok_or_else(duration_overflow)
        }
        (Value::Timestamp(a), Value::Duration(b)) => instant(a - i128::from(*b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            i64::try_from(a - b).map(Value::Duration).map_err(|_| duration_overflow())
        }
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => Err(Fault::overload()),
        (other, _) => Err(unsupported("_-_", other)),
    }
}

fn multiply(a: &Value, b: &Value) -> Result<Value, Fault> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            a.checked_mul(*b).map(Value::Int).ok_or_else(integer_overflow)
        }
        (Value::Uint(a), Value::Uint(b)) => {
            a.checked_mul(*b).map(Value::Uint).ok_or_else(unsigned_overflow)
        }
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => Err(Fault::overload()),
        (other, _) => Err(unsupported("_*_", other)),
    }
}

fn divide(a: &Value, b: &Value) -> Result<Value, Fault> {
    let by_zero = || Fault::text("division by zero");
    match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Err(by_zero()),
        (Value::Int(a), Value::Int(b)) => {
            a.checked_div(*b).map(Value::Int).ok_or_else(integer_overflow)
        }
        (Value::Uint(a), Value::Uint(b)) => Ok(Value::Uint(a / b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => Err(Fault::overload()),
        (other, _) => Err(unsupported("_/_", other)),
    }
}

fn modulo(a: &Value, b: &Value) -> Result<Value, Fault> {
    let by_zero = || Fault::text("modulus by zero");
    match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Err(by_zero()),
        (Value::Int(a), Value::Int(b)) => {
            a.checked_rem(*b).map(Value::Int).ok_or_else(integer_overflow)
        }
        (Value::Uint(a), Value::Uint(b)) => Ok(Value::Uint(a % b)),
        (Value::Int(_) | Value::Uint(_), _) => Err(Fault::overload()),
        (other, _) => Err(unsupported("_%_", other)),
    }
}

fn compare(
    call: &mut Arguments<'_>,
    operator: &str,
    is: fn(Ordering) -> bool,
) -> Result<Value, Fault> {
    let first = call.args[0];
    if let Some(order) = first.order(call.args[1])? {
        return Ok(Value::Bool(is(order)));
    }
    match first.is_comparable() {
        true => Err(Fault::overload()),
        false => Err(unsupported(operator, first)),
    }
}

fn is_in(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let value = call.args[0];
    match call.args[1] {
        Value::List(values) => value.is_among(values, call.budget).map(Value::Bool),
        Value::Map(map) => map.contains(value).map(Value::Bool),
        _ => Err(Fault::overload()),
    }
}

fn size(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args[0] {
        value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_)) => {
            Ok(Value::Int(i64::try_from(value.size()).map_err(|_| integer_overflow())?))
        }
        other => Err(unsupported("size", other)),
    }
}

fn on_texts(call: &mut Arguments<'_>, is: fn(&str, &str) -> bool) -> Result<Value, Fault> {
    match call.args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(is(text, part))),
        _ => Err(Fault::overload()),
    }
}
