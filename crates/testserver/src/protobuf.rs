//! Bodies in protobuf, which kube-scheduler and parts of kubectl (`create namespace`, `drain`,
//! `auth can-i`) send, converted to JSON. This covers only requests, and only the kinds of [`schema`].
//! Answers are JSON, which these clients also read.

mod schema;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use schema::{FieldType, SchemaField};

/// The content type of such bodies.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What such bodies begin with.
const MAGIC: &[u8] = b"k8s\0";

/// How deep messages may be nested.
const DEPTH: usize = 16;

/// A body that cannot be read: it is malformed, or contains something that the schema does not have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// The object that a body stands for, with its kind and version.
pub(crate) fn to_json(body: &[u8]) -> Result<Value, Unreadable> {
    let envelope = body.strip_prefix(MAGIC).ok_or(Unreadable)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in fields(envelope) {
        match field? {
            (1, WireType::Bytes(meta)) => {
                for field in fields(meta) {
                    match field? {
                        (1, WireType::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, WireType::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, WireType::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let name = match (kind.as_str(), api_version.as_str()) {
        ("Event", "events.k8s.io/v1") => "NewEvent",
        (kind, _) => kind,
    };
    let mut object = message(name, raw, DEPTH)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// A value as it is on the wire.
enum WireType<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in their order.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = Result<(u64, WireType<'_>), Unreadable>> {
    std::iter::from_fn(move || {
        (!rest.is_empty()).then(|| {
            let field = next_field(&mut rest);
            if field.is_err() {
                rest = &[];
            }
            field
        })
    })
}

fn next_field<'a>(rest: &mut &'a [u8]) -> Result<(u64, WireType<'a>), Unreadable> {
    let tag = varint(rest)?;
    let value = match tag & 7 {
        0 => WireType::Number(varint(rest)?),
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| Unreadable)?;
            let (bytes, behind) = rest.split_at_checked(length).ok_or(Unreadable)?;
            *rest = behind;
            WireType::Bytes(bytes)
        }
        _ => return Err(Unreadable),
    };
    Ok((tag >> 3, value))
}

fn varint(rest: &mut &[u8]) -> Result<u64, Unreadable> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first().ok_or(Unreadable)?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Unreadable)
}

fn text(bytes: &[u8]) -> Result<String, Unreadable> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Unreadable)
}

fn message(name: &str, raw: &[u8], depth: usize) -> Result<Map<String, Value>, Unreadable> {
    let depth = depth.checked_sub(1).ok_or(Unreadable)?;
    let known = schema::fields_of(name).ok_or(Unreadable)?;
    let mut object = Map::new();
    for field in fields(raw) {
        let (number, wire) = field?;
        let SchemaField { name, kind, is_list, is_kept } = known.get(&number).ok_or(Unreadable)?;
        if let FieldType::Map(values) = kind {
            let (key, value) = entry(&wire, values)?;
            let map = object.entry(*name).or_insert_with(|| json!({}));
            map[key] = value;
            continue;
        }
        let value = value(kind, &wire, depth)?;
        if *is_list {
            let list = object.entry(*name).or_insert_with(|| json!([]));
            list.as_array_mut().ok_or(Unreadable)?.push(value);
        } else if *is_kept || !is_empty(&value) {
            object.insert((*name).to_owned(), value);
        }
    }
    Ok(object)
}

/// Go writes the empty values of fields that are not pointers, but leaves them out in JSON.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn value(kind: &FieldType, wire: &WireType<'_>, depth: usize) -> Result<Value, Unreadable> {
    Ok(match (kind, wire) {
        (FieldType::Ignored, _) => Value::Null,
        (FieldType::Text, WireType::Bytes(bytes)) => text(bytes)?.into(),
        (FieldType::Base64, WireType::Bytes(bytes)) => BASE64_STANDARD.encode(bytes).into(),
        (FieldType::Int, WireType::Number(number)) => number.cast_signed().into(),
        (FieldType::Bool, WireType::Number(number)) => (*number != 0).into(),
        (FieldType::Time(digits), WireType::Bytes(bytes)) => time(bytes, *digits)?,
        (FieldType::IntOrText, WireType::Bytes(bytes)) => int_or_text(bytes)?,
        (FieldType::Quantity, WireType::Bytes(bytes)) => match fields(bytes).next().transpose()? {
            Some((1, WireType::Bytes(amount))) => text(amount)?.into(),
            _ => return Err(Unreadable),
        },
        (FieldType::Message(name), WireType::Bytes(bytes)) => message(name, bytes, depth)?.into(),
        _ => return Err(Unreadable),
    })
}

/// One entry of a map from text.
fn entry(wire: &WireType<'_>, values: &FieldType) -> Result<(String, Value), Unreadable> {
    let WireType::Bytes(bytes) = wire else { return Err(Unreadable) };
    let (mut key, mut found) = (String::new(), Value::String(String::new()));
    for field in fields(bytes) {
        match field? {
            (1, WireType::Bytes(bytes)) => key = text(bytes)?,
            (2, wire) => found = value(values, &wire, 1)?,
            _ => return Err(Unreadable),
        }
    }
    Ok((key, found))
}

/// Seconds and nanoseconds; an empty message is no time.
fn time(bytes: &[u8], digits: usize) -> Result<Value, Unreadable> {
    let (mut seconds, mut nanos) = (0, 0);
    for field in fields(bytes) {
        match field? {
            (1, WireType::Number(number)) => seconds = number.cast_signed(),
            (2, WireType::Number(number)) => {
                nanos = i32::try_from(number).map_err(|_| Unreadable)?;
            }
            _ => return Err(Unreadable),
        }
    }
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let time = jiff::Timestamp::new(seconds, nanos).map_err(|_| Unreadable)?;
    Ok(format!("{time:.digits$}").into())
}

fn int_or_text(bytes: &[u8]) -> Result<Value, Unreadable> {
    let (mut is_text, mut number, mut said) = (false, 0, String::new());
    for field in fields(bytes) {
        match field? {
            (1, WireType::Number(kind)) => is_text = kind != 0,
            (2, WireType::Number(value)) => number = value.cast_signed(),
            (3, WireType::Bytes(bytes)) => said = text(bytes)?,
            _ => return Err(Unreadable),
        }
    }
    Ok(if is_text { said.into() } else { number.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes, shorter than 128.
    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).expect("a short field");
        [&[number << 3 | 2, length][..], content].concat()
    }

    fn enveloped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC, &bytes(1, &meta), &bytes(2, raw)].concat()
    }

    #[test]
    fn a_binding_is_read() {
        let meta = [bytes(1, b"p"), bytes(3, b"ns"), bytes(5, b"u"), bytes(8, b"")].concat();
        let target = [bytes(1, b"Node"), bytes(3, b"n"), bytes(4, b"")].concat();
        let raw = [bytes(1, &meta), bytes(2, &target)].concat();
        assert_eq!(
            to_json(&enveloped("v1", "Binding", &raw)),
            Ok(json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
                "target": {"kind": "Node", "name": "n"},
            }))
        );
    }

    #[test]
    fn numbers_times_and_maps_are_read() {
        // 1 second and 500 microseconds; 15 seconds of duration.
        let micro = [&[1 << 3, 1, 2 << 3][..], &[0xa0, 0xc2, 0x1e]].concat();
        let spec = [bytes(1, b"me"), vec![2 << 3, 15], bytes(3, &micro), vec![5 << 3, 0]].concat();
        let label = [bytes(1, b"a"), bytes(2, b"b")].concat();
        let meta = [bytes(1, b"l"), bytes(11, &label)].concat();
        let raw = [bytes(1, &meta), bytes(2, &spec)].concat();
        assert_eq!(
            to_json(&enveloped("coordination.k8s.io/v1", "Lease", &raw)),
            Ok(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "l", "labels": {"a": "b"}},
                "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                         "acquireTime": "1970-01-01T00:00:01.000500Z"},
            }))
        );
    }

    #[test]
    fn what_is_not_known_or_cut_off_is_refused() {
        let unknown = bytes(9, b"x");
        assert_eq!(to_json(&enveloped("v1", "Binding", &unknown)), Err(Unreadable));
        assert_eq!(to_json(&enveloped("v1", "Thing", &[])), Err(Unreadable));
        assert_eq!(to_json(b"{}"), Err(Unreadable));
        let whole = enveloped("v1", "Namespace", &bytes(1, &bytes(1, b"team")));
        assert!(to_json(&whole).is_ok());
        assert_eq!(to_json(&whole[..whole.len() - 1]), Err(Unreadable));
        let endless = [MAGIC, &[0xff; 20]].concat();
        assert_eq!(to_json(&endless), Err(Unreadable));
    }
}
