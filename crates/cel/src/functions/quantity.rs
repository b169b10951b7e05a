//! Functions of quantities, and the comparisons that they share with semantic versions.

use std::cmp::Ordering;
use std::sync::Arc;

use plimsoll_api::Quantity;
use plimsoll_api::quantity::Format;

use super::{Arguments, Implementation};
use crate::error::Fault;
use crate::value::{Origin, Value};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "quantity" => |call| {
            let quantity = Quantity::parse(text(call.args)?);
            let quantity = quantity.map_err(|error| Fault::text(error.reason()))?;
            Ok(Value::Quantity(quantity.into(), Origin::Read))
        },
        "isQuantity" => |call| Ok(Value::Bool(Quantity::parse(text(call.args)?).is_ok())),
        "sign" => |call| {
            let quantity = quantity(call.args)?;
            Ok(Value::Int(match () {
                () if quantity.is_zero() => 0,
                () if quantity.is_negative() => -1,
                () => 1,
            }))
        },
        "isGreaterThan" => |call| order(call.args).map(|order| Value::Bool(order.is_gt())),
        "isLessThan" => |call| order(call.args).map(|order| Value::Bool(order.is_lt())),
        "compareTo" => |call| order(call.args).map(|order| Value::Int(order as i64)),
        "asApproximateFloat" => |call| Ok(Value::Double(quantity(call.args)?.as_approximate_f64())),
        "asInteger" => |call| {
            let value = quantity(call.args)?.as_i64();
            let value = value.ok_or_else(|| Fault::text("cannot convert value to integer"))?;
            Ok(Value::Int(value))
        },
        "isInteger" => |call| Ok(Value::Bool(quantity(call.args)?.as_i64().is_some())),
        "add" => |call| combine(call, Quantity::add),
        "sub" => |call| combine(call, Quantity::sub),
        _ => return None,
    })
}

/// The only argument, a text.
pub(super) fn text<'a>(args: &[&'a Value]) -> Result<&'a str, Fault> {
    match args {
        [Value::String(text)] => Ok(text),
        _ => Err(Fault::NoOverload),
    }
}

fn quantity<'a>(args: &[&'a Value]) -> Result<&'a Quantity, Fault> {
    match args {
        [Value::Quantity(quantity, _)] => Ok(quantity),
        _ => Err(Fault::NoOverload),
    }
}

/// The order of two quantities or two versions.
fn order(args: &[&Value]) -> Result<Ordering, Fault> {
    match args {
        [Value::Quantity(a, _), Value::Quantity(b, _)] => Ok(a.cmp(b)),
        [Value::Semver(a), Value::Semver(b)] => Ok(a.cmp_precedence(b)),
        _ => Err(Fault::NoOverload),
    }
}

fn combine(call: &mut Arguments<'_>, by: fn(&mut Quantity, &Quantity)) -> Result<Value, Fault> {
    let (mut quantity, other) = match call.args {
        [Value::Quantity(quantity, _), Value::Quantity(other, _)] => {
            ((**quantity).clone(), (**other).clone())
        }
        [Value::Quantity(quantity, _), Value::Int(other)] => {
            ((**quantity).clone(), Quantity::new(*other, Format::DecimalExponent))
        }
        _ => return Err(Fault::NoOverload),
    };
    by(&mut quantity, &other);
    Ok(Value::Quantity(Arc::new(quantity), Origin::Computed))
}
