//! Values, their equality and their order.

use std::cmp::Ordering;
use std::net::IpAddr;
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
    List(Arc<Vec<Value>>),
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

/// A map, ordered by its keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Map {
    entries: Vec<(Value, Value)>,
    /// What a key that is not there stands for, when it is looked up.
    pub(crate) default: Option<Value>,
}

impl Map {
    /// A map of entries; `None` if a key occurs twice or is none.
    pub(crate) fn new(mut entries: Vec<(Value, Value)>) -> Option<Self> {
        if !entries.iter().all(|(key, _)| key.is_key()) {
            return None;
        }
        entries.sort_by(|a, b| key_order(&a.0, &b.0));
        let twice = entries.windows(2).any(|pair| key_order(&pair[0].0, &pair[1].0).is_eq());
        (!twice).then_some(Self { entries, default: None })
    }

    /// The value of a key, if the map has it.
    pub(crate) fn get(&self, key: &Value) -> Option<&Value> {
        if !key.is_key() {
            return None;
        }
        let found = self.entries.binary_search_by(|(known, _)| key_order(known, key));
        found.ok().map(|i| &self.entries[i].1)
    }

    /// The value of a key that is a text, if the map has it.
    pub(crate) fn get_text(&self, key: &str) -> Option<&Value> {
        let order = |known: &Value| match known {
            Value::String(known) => (**known).cmp(key),
            other => rank(other).cmp(&2),
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
        Self::List(Arc::new(values))
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
            Self::List(_) => "*types.baseList",
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

    fn is_key(&self) -> bool {
        matches!(self, Self::Bool(_) | Self::Int(_) | Self::Uint(_) | Self::String(_))
            || matches!(self, Self::Double(value) if !value.is_nan())
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
                for (a, b) in a.iter().zip(&**b) {
                    if !a.equals_within(b, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::Map(a), Self::Map(b)) => {
                if a.entries.len() != b.entries.len() {
                    return Ok(false);
                }
                for ((key, a), (other, b)) in a.entries.iter().zip(&b.entries) {
                    if key_order(key, other).is_ne() || !a.equals_within(b, budget)? {
                        return Ok(false);
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

    /// Whether two elements of lists or maps are equal. cel-go takes those that cannot be compared
    /// for equal.
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

fn rank(key: &Value) -> u8 {
    match key {
        Value::Bool(_) => 0,
        Value::String(_) => 2,
        _ => 1,
    }
}

/// The order of keys: numbers that are equal are the same key whatever their types.
fn key_order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)).then_with(|| number_order(a, b).unwrap_or(Ordering::Equal)),
    }
}
