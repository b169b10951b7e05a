//! Devices as expressions see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::Quantity;

use crate::functions::semver::parse;
use crate::value::{Map, Origin, Value};

/// The value of an attribute of a device, as the API has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// `int`
    Int(i64),
    /// `bool`
    Bool(bool),
    /// `string`
    String(String),
    /// `version`: a semantic version. One that is not well formed makes every expression fail for
    /// this device.
    Version(String),
    /// A list of values, as with the feature gate `DRAListTypeAttributes`.
    List(Vec<AttributeValue>),
    /// No value that this release knows. It makes every expression fail for this device.
    Unsupported,
}

/// What attributes an expression is compiled for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Attributes {
    /// Each has one value. The type of an attribute is `google.protobuf.Any`.
    #[default]
    Single,
    /// Some may be lists: with the feature gate `DRAListTypeAttributes`, and since 1.37. The type of an attribute is `dyn`,
    /// so that macros iterate over it, and an expression of the type `dyn` selects devices, too.
    Lists,
}

/// A device, prepared for expressions.
///
/// The names of attributes and capacities are qualified (`example.com/model`); those without a
/// domain get that of the driver.
#[derive(Debug, Clone)]
pub struct Device {
    driver: Value,
    allow_multiple_allocations: bool,
    attributes: Value,
    capacity: Value,
    /// Why it cannot be judged at all.
    fault: Option<String>,
}

impl Device {
    /// A device of a driver. `allow_multiple_allocations` is the field of that name in the API,
    /// false where it is absent; `attributes` and `capacity` are the maps of the API.
    ///
    /// An attribute without a usable value is no error here but of every
    /// [`Expression::matches`](crate::Expression::matches), as in kube-scheduler.
    pub fn new<'a>(
        driver: &str,
        allow_multiple_allocations: bool,
        attributes: impl IntoIterator<Item = (&'a str, AttributeValue)>,
        capacity: impl IntoIterator<Item = (&'a str, Quantity)>,
    ) -> Self {
        let mut fault = None;
        let mut values = Domains::new();
        let mut attributes = attributes.into_iter().collect::<Vec<_>>();
        attributes.sort_by_key(|(name, _)| *name);
        for (name, value) in attributes {
            let (domain, id) = qualified(name, driver);
            match native(value) {
                Ok(value) => values.entry(domain).or_default().push((Value::string(id), value)),
                Err(why) => {
                    fault.get_or_insert_with(|| format!("attribute {name}: {why}"));
                }
            }
        }
        let mut amounts = Domains::new();
        for (name, amount) in capacity {
            let (domain, id) = qualified(name, driver);
            let amount = Value::Quantity(Arc::new(amount), Origin::Read);
            amounts.entry(domain).or_default().push((Value::string(id), amount));
        }
        Self {
            driver: Value::string(driver),
            allow_multiple_allocations,
            attributes: map(values),
            capacity: map(amounts),
            fault,
        }
    }

    /// Why it cannot be judged at all.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// The name of its driver.
    pub(crate) fn driver(&self) -> &Value {
        &self.driver
    }

    /// A field of the variable `device`.
    pub(crate) fn field(&self, name: &str) -> Option<Value> {
        match name {
            "driver" => Some(self.driver.clone()),
            "allowMultipleAllocations" => Some(Value::Bool(self.allow_multiple_allocations)),
            "attributes" => Some(self.attributes.clone()),
            "capacity" => Some(self.capacity.clone()),
            _ => None,
        }
    }

    /// An attribute, or an amount of the capacity.
    pub(crate) fn value(&self, capacity: bool, domain: &str, id: &str) -> Option<&Value> {
        let domains = if capacity { &self.capacity } else { &self.attributes };
        let Value::Map(domains) = domains else { return None };
        match domains.get_text(domain)? {
            Value::Map(values) => values.get_text(id),
            _ => None,
        }
    }
}

type Domains<'a> = BTreeMap<&'a str, Vec<(Value, Value)>>;

fn map(domains: Domains<'_>) -> Value {
    let domains = domains.into_iter().map(|(domain, mut values)| {
        // A name can be there with and without the domain of the driver. kube-scheduler keeps
        // either, by chance; here the last by name wins.
        values.reverse();
        values.sort_by(|a, b| a.0.order(&b.0).ok().flatten().unwrap_or(std::cmp::Ordering::Equal));
        values.dedup_by(
            |a, b| matches!((&a.0, &b.0), (Value::String(a), Value::String(b)) if a == b),
        );
        (Value::string(domain), Value::Map(Map::of_texts(values).into()))
    });
    let mut domains = Map::of_texts(domains.collect());
    domains.default = Some(Value::Map(Arc::default()));
    Value::Map(domains.into())
}

/// Domain and identifier of a name.
fn qualified<'a>(name: &'a str, driver: &'a str) -> (&'a str, &'a str) {
    name.split_once('/').unwrap_or((driver, name))
}

fn native(value: AttributeValue) -> Result<Value, String> {
    Ok(match value {
        AttributeValue::Int(value) => Value::Int(value),
        AttributeValue::Bool(value) => Value::Bool(value),
        AttributeValue::String(value) => Value::String(value.into()),
        AttributeValue::Version(value) => {
            let version = parse(&value).map_err(|why| format!("parse semantic version: {why}"))?;
            Value::Semver(Arc::new(version))
        }
        AttributeValue::List(values) => {
            Value::list(values.into_iter().map(native).collect::<Result<_, _>>()?)
        }
        AttributeValue::Unsupported => return Err("unsupported attribute value".to_owned()),
    })
}
