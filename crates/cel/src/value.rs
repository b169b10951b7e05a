//! Values, their equality and their order.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use plimsoll_api::Quantity;

use crate::budget::Budget;
use crate::error::Fault;
use crate::functions::{cidr::Cidr, format::NamedFormat, url::Url};

/// A value of an expression. Cloning is cheap.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    /// Nanoseconds since 1970.
    Timestamp(i128),
    List(Arc<List>),
    Map(Arc<Map>),
    /// A type, by its name.
    Type(Arc<str>),
    Optional(Option<Arc<Value>>),
    Quantity(Arc<Quantity>, Origin),
    Semver(Arc<semver::Version>),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Arc<Url>),
    Format(NamedFormat),
    /// The device itself.
    Device,
}

/// Where a quantity comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A device or a text.
    Read,
    /// `add` or `sub`. In Go these give a pointer to a quantity, and nothing is equal to a pointer.
    Computed,
}

/// The elements of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct List {
    values: Vec<Value>,
    /// Whether `+` made it of two lists. Such a list compares in its own way.
    pub(crate) concatenated: bool,
}

impl List {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self { values, concatenated: false }
    }
}

impl Deref for List {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.values
    }
}

/// A map, ordered by its keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Map {
    entries: Vec<(Value, Value)>,
    /// What a key that is not there stands for, when it is looked up.
    pub(crate) default: Option<Value>,
    /// Whether the expression itself made it: cel-go hashes what is looked up in such a map.
    hashes: bool,
}

impl Map {
    /// A map that an expression writes. The last entry of a key counts, also one without a value,
    /// which removes those before. The caller sees to it that the keys can be hashed.
    pub(crate) fn new(mut entries: Vec<(Value, Option<Value>)>) -> Self {
        entries.reverse();
        entries.sort_by(|a, b| key_order(&a.0, &b.0));
        entries.dedup_by(|later, earlier| later.0.is_same_key(&earlier.0));
        let entries = entries.into_iter().filter_map(|(key, value)| Some((key, value?)));
        Self { entries: entries.collect(), default: None, hashes: true }
    }

    /// A map of keys that must be different, or one of those that are not.
    pub(crate) fn of_inserted(mut entries: Vec<(Value, Value)>) -> Result<Self, Value> {
        entries.sort_by(|a, b| key_order(&a.0, &b.0));
        let map = Self { entries, default: None, hashes: true };
        let twice = map.entries.windows(2).find(|pair| pair[0].0.is_same_key(&pair[1].0));
        let twice = twice.map(|pair| &pair[0].0);
        let alike = |(key, _): &&(Value, Value)| map.alike(key).is_some();
        let twice = twice.or_else(|| map.entries.iter().find(alike).map(|(key, _)| key));
        match twice.cloned() {
            Some(key) => Err(key),
            None => Ok(map),
        }
    }

    /// A map whose keys are different texts.
    pub(crate) fn of_texts(mut entries: Vec<(Value, Value)>) -> Self {
        entries.sort_by(|a, b| key_order(&a.0, &b.0));
        Self { entries, default: None, hashes: false }
    }

    /// Whether the map has a key. The error is that of a key that cannot be hashed.
    pub(crate) fn contains(&self, key: &Value) -> Result<bool, Fault> {
        match key.hash_fault() {
            Some(fault) if self.hashes && !self.entries.is_empty() => Err(fault),
            _ => Ok(self.get(key).is_some()),
        }
    }

    /// The value of a key, if the map has it.
    pub(crate) fn get(&self, key: &Value) -> Option<&Value> {
        self.exact(key).or_else(|| self.alike(key))
    }

    fn exact(&self, key: &Value) -> Option<&Value> {
        let start = self.entries.partition_point(|(known, _)| key_order(known, key).is_lt());
        let equal = self.entries[start..].iter();
        let mut equal = equal.take_while(|(known, _)| key_order(known, key).is_eq());
        equal.find(|(known, _)| known.is_same_key(key)).map(|(_, value)| value)
    }

    /// The value of the same number of another type. As in map.go, a number is not looked for among
    /// the doubles.
    fn alike(&self, key: &Value) -> Option<&Value> {
        let among = |key: Option<Value>| self.exact(&key?);
        let int = |value: i128| i64::try_from(value).ok().map(Value::Int);
        let uint = |value: i128| u64::try_from(value).ok().map(Value::Uint);
        match key {
            Value::Int(key) => among(uint(i128::from(*key))),
            Value::Uint(key) => among(int(i128::from(*key))),
            #[expect(clippy::cast_possible_truncation, reason = "whole, and `as` saturates")]
            Value::Double(key) if key.fract() == 0.0 => {
                let key = *key as i128;
                among(int(key)).or_else(|| among(uint(key)))
            }
            _ => None,
        }
    }

    /// The value of a key that is a text, if the map has it.
    pub(crate) fn get_text(&self, key: &str) -> Option<&Value> {
        let order = |known: &Value| match known {
            Value::String(known) => (**known).cmp(key),
            other => rank(other).cmp(&TEXT_RANK),
        };
        let found = self.entries.binary_search_by(|(known, _)| order(known));
        found.ok().map(|i| &self.entries[i].1)
    }

    /// The value that a lookup finds: the default where there is one.
    pub(crate) fn find(&self, key: &Value) -> Option<&Value> {
        self.get(key).or(self.default.as_ref())
    }

    /// The same by text.
    pub(crate) fn find_text(&self, key: &str) -> Option<&Value> {
        self.get_text(key).or(self.default.as_ref())
    }

    /// Keys and values in the order of the keys.
    pub(crate) fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }
}

impl Value {
    pub(crate) fn string(text: &str) -> Self {
        Self::String(text.into())
    }

    pub(crate) fn list(values: Vec<Value>) -> Self {
        Self::List(Arc::new(List::new(values)))
    }

    pub(crate) fn some(value: Value) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The name of its type, as in messages.
    pub(crate) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            // To cel-go the device is a map.
            Self::Map(_) | Self::Device => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(..) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// The name of its type in cel-go's source, which some errors show.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Duration(_) => "types.Duration",
            Self::Timestamp(_) => "types.Timestamp",
            Self::List(values) if values.concatenated => "*types.concatList",
            Self::List(_) => "*types.baseList",
            Self::Map(map) if map.default.is_some() => "cel.mapper",
            Self::Map(_) => "*types.baseMap",
            Self::Type(_) => "*types.Type",
            Self::Optional(_) => "*types.Optional",
            Self::Quantity(..) => "cel.Quantity",
            Self::Semver(_) => "cel.Semver",
            Self::Ip(_) => "cel.IP",
            Self::Cidr(_) => "cel.CIDR",
            Self::Url(_) => "cel.URL",
            Self::Format(_) => "cel.Format",
            Self::Device => "map[string]interface {}",
        }
    }

    /// Whether its type has `+` in cel-go.
    pub(crate) fn can_be_added(&self) -> bool {
        use Value::{Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
        matches!(
            self,
            Int(_)
                | Uint(_)
                | Double(_)
                | String(_)
                | Bytes(_)
                | Duration(_)
                | Timestamp(_)
                | List(_)
        )
    }

    /// The panic of Go when it hashes a value of a type that has no hash.
    pub(crate) fn hash_fault(&self) -> Option<Fault> {
        let hashes = !matches!(self, Self::Bytes(_) | Self::Semver(_) | Self::Format(_));
        let of = Some(self.go_type()).filter(|_| !hashes)?;
        let why = format!("internal error: runtime error: hash of unhashable type {of}");
        Some(Fault::cancelled(why))
    }

    /// Whether two keys of a map are one. Go compares what it holds by a pointer by the pointer.
    fn is_same_key(&self, other: &Value) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) => Arc::ptr_eq(a, b),
            (Self::Map(a), Self::Map(b)) => Arc::ptr_eq(a, b),
            (Self::Quantity(a, _), Self::Quantity(b, _)) => Arc::ptr_eq(a, b),
            (Self::Url(a), Self::Url(b)) => Arc::ptr_eq(a, b),
            (Self::Optional(Some(a)), Self::Optional(Some(b))) => Arc::ptr_eq(a, b),
            (Self::Device, Self::Device) => false,
            _ => !is_nan(self) && key_order(self, other).is_eq(),
        }
    }

    /// What it counts for the cost of a call: characters, bytes, elements, or one.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) if text.is_ascii() => text.len(),
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(values) => values.len(),
            Self::Map(map) => map.entries.len(),
            Self::Optional(Some(value)) => return value.size(),
            Self::Ip(ip) => return if ip.is_ipv4() { 4 } else { 16 },
            Self::Cidr(cidr) => return if cidr.address.is_ipv4() { 4 } else { 16 },
            _ => return 1,
        };
        u64::try_from(size).unwrap_or(u64::MAX)
    }

    /// Whether two values are equal; values of different types are not, apart from numbers.
    pub(crate) fn equals(&self, other: &Value, budget: &mut Budget) -> Result<bool, Fault> {
        budget.step()?;
        if let Some(equal) = number_equality(self, other) {
            return Ok(equal);
        }
        Ok(match (self, other) {
            (Self::Null, Self::Null) | (Self::Device, Self::Device) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) | (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Quantity(a, _), Self::Quantity(b, Origin::Read)) => a == b,
            (Self::Semver(a), Self::Semver(b)) => a.cmp_precedence(b).is_eq(),
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Url(a), Self::Url(b)) => a == b,
            (Self::Format(a), Self::Format(b)) => a == b,
            (Self::Optional(None), Self::Optional(None)) => true,
            (Self::Optional(Some(a)), Self::Optional(Some(b))) => return a.equals(b, budget),
            (Self::List(a), Self::List(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                let mut fault = None;
                for (left, right) in a.iter().zip(b.iter()) {
                    match left.equals(right, budget) {
                        Ok(true) => {}
                        Ok(false) => return Ok(false),
                        Err(cancelled @ Fault::Cancelled(_)) => return Err(cancelled),
                        Err(other) => fault = fault.or(Some(other)),
                    }
                }
                // As in list.go: baseList takes what cannot be compared for equal, concatList does not.
                match fault.filter(|_| a.concatenated) {
                    Some(fault) => return Err(fault),
                    None => true,
                }
            }
            (Self::Map(a), Self::Map(b)) => {
                if a.entries.len() != b.entries.len() {
                    return Ok(false);
                }
                for (key, a) in &a.entries {
                    match b.get(key) {
                        Some(b) if a.equals_within(b, budget)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            // The types of Kubernetes reject to be compared with others.
            (
                Self::Quantity(..)
                | Self::Semver(_)
                | Self::Ip(_)
                | Self::Cidr(_)
                | Self::Url(_)
                | Self::Format(_),
                other,
            ) if !matches!(other, Self::Null) => return Err(Fault::overload()),
            _ => false,
        })
    }

    /// Whether two values of maps are equal. cel-go takes those that cannot be compared for equal.
    fn equals_within(&self, other: &Value, budget: &mut Budget) -> Result<bool, Fault> {
        match self.equals(other, budget) {
            Err(Fault::Error(_)) => Ok(true),
            result => result,
        }
    }

    /// Whether a value is in a list: what cannot be compared is not.
    pub(crate) fn is_among(&self, values: &[Value], budget: &mut Budget) -> Result<bool, Fault> {
        for value in values {
            match self.equals(value, budget) {
                Ok(false) | Err(Fault::Error(_)) => {}
                result => return result,
            }
        }
        Ok(false)
    }

    /// Whether it is of a type whose values have an order.
    pub(crate) fn is_comparable(&self) -> bool {
        use Value::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
        matches!(
            self,
            Bool(_)
                | Int(_)
                | Uint(_)
                | Double(_)
                | String(_)
                | Bytes(_)
                | Duration(_)
                | Timestamp(_)
        )
    }

    /// The order of two values: `None` if they have none, an error if one is no number.
    pub(crate) fn order(&self, other: &Value) -> Result<Option<Ordering>, Fault> {
        if is_nan(self) || is_nan(other) {
            let numbers = number(self).is_some() && number(other).is_some();
            return if numbers {
                Err(Fault::text("NaN values cannot be ordered"))
            } else {
                Ok(None)
            };
        }
        if let Some(order) = number_order(self, other) {
            return Ok(Some(order));
        }
        Ok(match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            _ => None,
        })
    }
}

fn is_nan(value: &Value) -> bool {
    matches!(value, Value::Double(value) if value.is_nan())
}

/// A number, as the integer it is or lies just above, and the fraction.
fn number(value: &Value) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "only whether it is a number matters")]
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Uint(value) => Some(*value as f64),
        Value::Double(value) => Some(*value),
        _ => None,
    }
}

fn number_equality(a: &Value, b: &Value) -> Option<bool> {
    if is_nan(a) || is_nan(b) {
        return Some(false);
    }
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a == b),
        _ => number_order(a, b).map(Ordering::is_eq),
    }
}

/// The order of two numbers of any types, neither of which is NaN.
fn number_order(a: &Value, b: &Value) -> Option<Ordering> {
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Uint(a), Value::Uint(b)) => a.cmp(b),
        (Value::Int(a), Value::Uint(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Value::Uint(a), Value::Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b)?,
        (Value::Int(a), Value::Double(b)) => integer_and_double(i128::from(*a), *b),
        (Value::Uint(a), Value::Double(b)) => integer_and_double(i128::from(*a), *b),
        (Value::Double(a), Value::Int(b)) => integer_and_double(i128::from(*b), *a).reverse(),
        (Value::Double(a), Value::Uint(b)) => integer_and_double(i128::from(*b), *a).reverse(),
        _ => return None,
    })
}

/// Compares exactly: a double has a whole part that fits, or is beyond all integers.
fn integer_and_double(a: i128, b: f64) -> Ordering {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`as` saturates, beyond all integers of 64 bits"
    )]
    let whole = b.trunc() as i128;
    a.cmp(&whole).then_with(|| 0.0_f64.total_cmp(&(b - b.trunc())))
}

/// The rank of texts among keys.
const TEXT_RANK: u8 = 4;

fn rank(key: &Value) -> u8 {
    match key {
        Value::Bool(_) => 0,
        Value::Int(_) => 1,
        Value::Uint(_) => 2,
        Value::Double(_) => 3,
        Value::String(_) => TEXT_RANK,
        Value::Null => 5,
        Value::Duration(_) => 6,
        Value::Timestamp(_) => 7,
        Value::Type(_) => 8,
        Value::Ip(_) => 9,
        Value::Cidr(_) => 10,
        Value::Optional(None) => 11,
        // What is held by a pointer stays in the order of the expression.
        _ => 12,
    }
}

/// The order of keys, by type.
fn key_order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::String(a), Value::String(b)) | (Value::Type(a), Value::Type(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) | (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Uint(a), Value::Uint(b)) => a.cmp(b),
        (Value::Double(a), Value::Double(b)) => {
            a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Ip(a), Value::Ip(b)) => a.cmp(b),
        (Value::Cidr(a), Value::Cidr(b)) => (a.address, a.bits).cmp(&(b.address, b.bits)),
        _ => rank(a).cmp(&rank(b)),
    }
}
