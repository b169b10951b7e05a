//! Functions of optional values. `or` and `orValue` are in the evaluator, since they evaluate their
//! second operand only if they need it.

use super::{Arguments, Implementation};
use crate::error::Fault;
use crate::value::Value;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "optional.of" => |call| match call.args {
            [value] => Ok(Value::some((*value).clone())),
            _ => Err(Fault::NoOverload),
        },
        "optional.ofNonZeroValue" => |call| match call.args {
            [value] if is_zero(value) => Ok(Value::Optional(None)),
            [value] => Ok(Value::some((*value).clone())),
            _ => Err(Fault::NoOverload),
        },
        "optional.none" => |_| Ok(Value::Optional(None)),
        "optional.unwrap" | "unwrapOpt" => unwrap,
        "value" => |call| match call.args {
            [Value::Optional(Some(value))] => Ok((**value).clone()),
            [Value::Optional(None)] => Err(Fault::text("optional.none() dereference")),
            _ => Err(Fault::NoOverload),
        },
        "hasValue" => |call| match call.args {
            [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
            _ => Err(Fault::NoOverload),
        },
        "first" => |call| end(call, <[Value]>::first),
        "last" => |call| end(call, <[Value]>::last),
        _ => return None,
    })
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => value.abs() <= 0.0,
        Value::Duration(value) => *value == 0,
        Value::Timestamp(value) => value == super::time::VALID.start(),
        Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => value.size() == 0,
        _ => false,
    }
}

fn unwrap(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let [Value::List(values)] = call.args else { return Err(Fault::NoOverload) };
    call.budget.keep(values.len())?;
    let mut unwrapped = Vec::new();
    for value in values.iter() {
        match value {
            Value::Optional(value) => unwrapped.extend(value.as_deref().cloned()),
            _ => return Err(Fault::text("value is not an optional")),
        }
    }
    Ok(Value::list(unwrapped))
}

fn end(call: &mut Arguments<'_>, of: fn(&[Value]) -> Option<&Value>) -> Result<Value, Fault> {
    match call.args {
        [Value::List(values)] => Ok(match of(values) {
            Some(value) => Value::some(value.clone()),
            None => Value::Optional(None),
        }),
        _ => Err(Fault::NoOverload),
    }
}
