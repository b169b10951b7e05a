//! Functions of texts, version 2 of cel-go's extension. Positions count characters.

use std::fmt::Write as _;
use std::sync::Arc;

use super::{Arguments, Implementation};
use crate::error::Fault;
use crate::value::Value;

/// Why a write to a text does not fail.
const TAKES_ALL: &str = "a string takes all text";

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "charAt" => char_at,
        "indexOf" => index_of,
        "lastIndexOf" => last_index_of,
        "join" => join,
        "lowerAscii" => |call| map(call, str::to_ascii_lowercase),
        "upperAscii" => |call| map(call, str::to_ascii_uppercase),
        "trim" => |call| map(call, |text| text.trim().to_owned()),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "format" => super::string_format::format,
        "strings.quote" => |call| map(call, quote),
        _ => return None,
    })
}

fn map(call: &mut Arguments<'_>, of: fn(&str) -> String) -> Result<Value, Fault> {
    match call.args {
        [Value::String(text)] => Ok(Value::String(of(text).into())),
        _ => Err(Fault::NoOverload),
    }
}

fn out_of_range(index: i64) -> Fault {
    Fault::text(format!("index out of range: {index}"))
}

/// A number of characters or elements. Memory holds fewer than 2^63.
fn count(of: usize) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

fn char_at(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let [Value::String(text), Value::Int(at)] = call.args else { return Err(Fault::NoOverload) };
    let index = usize::try_from(*at).map_err(|_| out_of_range(*at))?;
    match text.chars().nth(index) {
        Some(c) => Ok(Value::string(c.encode_utf8(&mut [0; 4]))),
        None if text.chars().count() == index => Ok(Value::string("")),
        None => Err(out_of_range(*at)),
    }
}

fn index_of(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let (text, part, offset) = match call.args {
        [Value::List(values), value] => return super::lists::index_of(values, value, call.budget),
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, *offset),
        _ => return Err(Fault::NoOverload),
    };
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    let from = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    let Some((start, _)) = text.char_indices().nth(from) else { return Ok(Value::Int(-1)) };
    let found = text[start..].find(&**part);
    let found = found.map(|at| from + text[start..start + at].chars().count());
    Ok(Value::Int(found.map_or(-1, count)))
}

fn last_index_of(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let (text, part, offset) = match call.args {
        [Value::List(values), value] => {
            return super::lists::last_index_of(values, value, call.budget);
        }
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(at)] => (text, part, Some(*at)),
        _ => return Err(Fault::NoOverload),
    };
    let length = text.chars().count();
    let offset = match offset {
        None if part.is_empty() => return Ok(Value::Int(count(length))),
        None if length == 0 => return Ok(Value::Int(-1)),
        None => length - 1,
        Some(offset) if part.is_empty() => return Ok(Value::Int(offset)),
        Some(offset) => usize::try_from(offset).map_err(|_| out_of_range(offset))?,
    };
    if length <= offset {
        return Ok(Value::Int(-1));
    }
    // The last place at which the part may begin, in bytes.
    let start = text.char_indices().nth(offset).map_or(text.len(), |(at, _)| at);
    let end = (start + part.len()).min(text.len());
    let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let found = text[..end].rfind(&**part);
    Ok(Value::Int(found.map_or(-1, |at| count(text[..at].chars().count()))))
}

fn join(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let (values, separator) = match call.args {
        [Value::List(values)] => (values, ""),
        [Value::List(values), Value::String(separator)] => (values, &**separator),
        _ => return Err(Fault::NoOverload),
    };
    let mut text = String::new();
    for (i, value) in values.iter().enumerate() {
        let Value::String(value) = value else {
            return Err(if i == 0 {
                Fault::NoOverload
            } else {
                Fault::text("join: expected list of strings")
            });
        };
        call.budget.write(value.len() + separator.len())?;
        if i != 0 {
            text.push_str(separator);
        }
        text.push_str(value);
    }
    Ok(Value::String(text.into()))
}

fn replace(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let (text, old, new, times) = match call.args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(times)] => {
            (text, old, new, *times)
        }
        _ => return Err(Fault::NoOverload),
    };
    let places = if old.is_empty() { text.chars().count() + 1 } else { text.len() / old.len() };
    let times = usize::try_from(times).unwrap_or(usize::MAX);
    let growth = places.min(times).saturating_mul(new.len());
    call.budget.write(text.len().saturating_add(growth))?;
    Ok(Value::String(text.replacen(&**old, new, times).into()))
}

fn split(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let (text, separator, parts) = match call.args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(parts)] => {
            (text, separator, *parts)
        }
        _ => return Err(Fault::NoOverload),
    };
    let pieces = if separator.is_empty() { text.len() } else { text.matches(&**separator).count() };
    call.budget.keep(pieces)?;
    let parts = usize::try_from(parts).unwrap_or(usize::MAX);
    let values = if separator.is_empty() {
        split_characters(text, parts)
    } else {
        text.splitn(parts, &**separator).map(Value::string).collect()
    };
    Ok(Value::list(values))
}

fn split_characters(text: &str, parts: usize) -> Vec<Value> {
    let mut values = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next()
        && values.len() < parts
    {
        let length = if values.len() + 1 == parts { rest.len() } else { c.len_utf8() };
        values.push(Value::string(&rest[..length]));
        rest = &rest[length..];
    }
    values
}

fn substring(call: &mut Arguments<'_>) -> Result<Value, Fault> {
    let (text, start, end) = match call.args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(Fault::NoOverload),
    };
    let length = count(text.chars().count());
    let end = match end {
        Some(end) if end < start => {
            let message = format!("invalid substring range. start: {start}, end: {end}");
            return Err(Fault::text(message));
        }
        Some(end) => end,
        None => length,
    };
    if !(0..=length).contains(&start) {
        return Err(out_of_range(start));
    }
    if !(0..=length).contains(&end) {
        return Err(out_of_range(end));
    }
    let byte = |index: i64| {
        let index = usize::try_from(index).expect("checked not to be negative");
        text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
    };
    Ok(Value::String(Arc::from(&text[byte(start)..byte(end)])))
}

fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A text as `%q` of Go's fmt writes it: like `strings.quote`, and what cannot be printed by its number.
pub(super) fn go_quoted(text: &str) -> String {
    let mut quoted = String::new();
    for c in quote(text).chars() {
        match c {
            '\'' | '"' | '\\' => quoted.push(c),
            c if is_printable(c) => quoted.push(c),
            c if c.is_ascii() => write!(quoted, "\\x{:02x}", u32::from(c)).expect(TAKES_ALL),
            c if c <= '\u{ffff}' => write!(quoted, "\\u{:04x}", u32::from(c)).expect(TAKES_ALL),
            c => write!(quoted, "\\U{:08x}", u32::from(c)).expect(TAKES_ALL),
        }
    }
    quoted
}

fn is_printable(c: char) -> bool {
    // Alone, a mark that combines with the letter before it is escaped, too.
    String::from_iter(['a', c]).escape_debug().count() == 2
}
