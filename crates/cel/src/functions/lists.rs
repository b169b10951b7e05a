//! Functions of lists: cel-go's sets and lists, and those of Kubernetes.

use std::cmp::Ordering;

use super::operators::{add, unsupported};
use super::{Arguments, Implementation};
use crate::budget::Budget;
use crate::error::Fault;
use crate::value::Value;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "sets.contains" => |call| {
            let (a, b) = two(call.args)?;
            contains(a, b, call.budget).map(Value::Bool)
        },
        "sets.equivalent" => |call| {
            let (a, b) = two(call.args)?;
            let equivalent = contains(a, b, call.budget)? && contains(b, a, call.budget)?;
            Ok(Value::Bool(equivalent))
        },
        "sets.intersects" => intersects,
        "slice" => slice,
        "flatten" => flatten,
        "sort" => sort,
        "lists.range" => range,
        "reverse" => reverse,
        "distinct" => distinct,
        "isSorted" => is_sorted,
        "sum" => sum,
        "min" => |call| extreme(call, "min", Ordering::Greater),
        "max" => |call| extreme(call, "max", Ordering::Less),
        "includes" => includes,
        _ => return None,
    })
}

fn one<'a>(args: &[&'a Value]) -> Result<&'a [Value], Fault> {
    match args {
        [Value::List(values)] => Ok(values),
        _ => Err(Fault::NoOverload),
    }
}

fn two<'a>(args: &[&'a Value]) -> Result<(&'a [Value], &'a [Value]), Fault> {
    match args {
        [Value::List(a), Value::List(b)] => Ok((a, b)),
        _ => Err(Fault::NoOverload),
    }
}

fn contains(values: &[Value], all: &[Value], budget: &mut Budget) -> Result<bool, Fault> {
    for value in all {
        if !value.is_among(values, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let (a, b) = two(call.args)?;
    for value in a {
        if value.is_among(b, call.budget)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn slice(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let [Value::List(values), Value::Int(start), Value::Int(end)] = call.args else {
        return Err(Fault::NoOverload);
    };
    let wrong = |why: &str| Err(Fault::text(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return wrong("negative indexes not supported");
    };
    if to < from {
        return wrong("start index must be less than or equal to end index");
    }
    if values.len() < to {
        return wrong(&format!("list is length {}", values.len()));
    }
    call.budget.keep(to - from)?;
    Ok(Value::list(values[from..to].to_vec()))
}

fn flatten(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let (values, depth) = match call.args {
        [Value::List(values)] => (values, 1),
        [Value::List(values), Value::Int(depth)] => (values, *depth),
        // These have no guard in cel-go, which names the types itself.
        [other] => {
            let message = format!("no such overload: {}.flatten()", other.type_name());
            return Err(Fault::text(message));
        }
        [list, depth] => {
            let (list, depth) = (list.type_name(), depth.type_name());
            return Err(Fault::text(format!("no such overload: {list}.flatten({depth})")));
        }
        _ => return Err(Fault::NoOverload),
    };
    if depth < 0 {
        return Err(Fault::text("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(values, depth, &mut flat, call.budget)?;
    Ok(Value::list(flat))
}

fn flatten_into(
    values: &[Value],
    depth: i64,
    flat: &mut Vec<Value>,
    budget: &mut Budget,
) -> Result<(), Fault> {
    for value in values {
        budget.keep(1)?;
        match value {
            Value::List(inner) if depth != 0 => flatten_into(inner, depth - 1, flat, budget)?,
            other => flat.push(other.clone()),
        }
    }
    Ok(())
}

fn sort(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args[0] {
        list @ Value::List(_) => sort_by_keys(list, list, call.budget),
        other => Err(unsupported("sort", other)),
    }
}

/// The elements of a list in the order of keys.
pub(crate) fn sort_by_keys(
    list: &Value,
    keys: &Value,
    budget: &mut Budget,
) -> Result<Value, Fault> {
    let (Value::List(values), Value::List(keys)) = (list, keys) else {
        return Err(unsupported("@sortByAssociatedKeys", list));
    };
    if values.len() != keys.len() {
        let message = format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, \
             but got {} and {} elements respectively",
            values.len(),
            keys.len()
        );
        return Err(Fault::text(message));
    }
    let Some(first) = keys.first() else { return Ok(list.clone()) };
    if !first.is_comparable() {
        return Err(Fault::text("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Fault::text("list elements must have the same type"));
    }
    // A sort compares each element some twenty times.
    budget.steps(values.len().saturating_mul(20))?;
    let mut order = (0..values.len()).collect::<Vec<_>>();
    order.sort_by(|a, b| keys[*a].order(&keys[*b]).ok().flatten().unwrap_or(Ordering::Equal));
    Ok(Value::list(order.into_iter().map(|i| values[i].clone()).collect()))
}

fn range(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let [Value::Int(end)] = call.args else { return Err(Fault::NoOverload) };
    call.budget.keep(usize::try_from(*end).unwrap_or(0))?;
    Ok(Value::list((0..*end).map(Value::Int).collect()))
}

fn reverse(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let values = one(call.args)?;
    call.budget.keep(values.len())?;
    Ok(Value::list(values.iter().rev().cloned().collect()))
}

fn distinct(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let values = one(call.args)?;
    let mut all: Vec<Value> = Vec::new();
    for value in values {
        if !value.is_among(&all, call.budget)? {
            all.push(value.clone());
        }
    }
    Ok(Value::list(all))
}

/// The guard for lists whose elements must be comparable looks at the first one.
fn comparable<'a>(args: &[&'a Value]) -> Result<&'a [Value], Fault> {
    let values = one(args)?;
    match values.first() {
        Some(first) if !first.is_comparable() => Err(Fault::NoOverload),
        _ => Ok(values),
    }
}

fn is_sorted(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let values = comparable(call.args)?;
    for pair in values.windows(2) {
        call.budget.step()?;
        if pair[0].order(&pair[1])? == Some(Ordering::Greater) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let values = one(call.args)?;
    let mut total = match values.first() {
        None | Some(Value::Int(_)) => Value::Int(0),
        Some(Value::Uint(_)) => Value::Uint(0),
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Duration(_)) => Value::Duration(0),
        Some(_) => return Err(Fault::NoOverload),
    };
    for value in values {
        call.budget.step()?;
        total = add(&total, value, call)?;
    }
    Ok(total)
}

fn extreme(call: &mut Arguments<'_>, name: &str, replace: Ordering) -> Result<Value, Fault> {
    let values = comparable(call.args)?;
    let Some(mut best) = values.first() else {
        return Err(Fault::text(format!("{name} called on empty list")));
    };
    for value in values {
        call.budget.step()?;
        if best.order(value)? == Some(replace) {
            best = value;
        }
    }
    Ok(best.clone())
}

fn includes(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    match call.args {
        [Value::List(values), value] => value.is_among(values, call.budget).map(Value::Bool),
        [target, value] => {
            target.is_among(std::slice::from_ref(value), call.budget).map(Value::Bool)
        }
        _ => Err(Fault::NoOverload),
    }
}

/// The first place of a value in a list, or -1.
pub(super) fn index_of(
    values: &[Value],
    value: &Value,
    budget: &mut Budget,
) -> Result<Value, Fault> {
    for (i, other) in (0..).zip(values) {
        if other.is_among(std::slice::from_ref(value), budget)? {
            return Ok(Value::Int(i));
        }
    }
    Ok(Value::Int(-1))
}

/// The last place of a value in a list, or -1.
pub(super) fn last_index_of(
    values: &[Value],
    value: &Value,
    budget: &mut Budget,
) -> Result<Value, Fault> {
    for (i, other) in (0..).zip(values).collect::<Vec<(i64, _)>>().into_iter().rev() {
        if other.is_among(std::slice::from_ref(value), budget)? {
            return Ok(Value::Int(i));
        }
    }
    Ok(Value::Int(-1))
}
