//! The parts of claims that the scheduler writes, as JSON.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use crate::Str;
use crate::devices::{
    Allocation, AllocationConfig, AllocationMode, ClaimConsumer, ClaimSpec, ConstraintKind,
    DeviceAsk, DeviceNodeSelector, DeviceNodeTerm, DeviceRequest, DeviceResult, DeviceToleration,
    OpaqueConfig, RequestKind, WrittenRequirement,
};

impl ClaimSpec {
    /// The spec of a claim in this API version, such as `resource.k8s.io/v1`.
    pub fn to_json(&self, api_version: &str) -> Value {
        let is_flat = super::is_flat(api_version);
        let mut devices = Map::new();
        add_list(&mut devices, "requests", &self.requests, |one| request(one, is_flat));
        add_list(&mut devices, "constraints", &self.constraints, |one| {
            let mut constraint = Map::new();
            add_list(&mut constraint, "requests", &one.requests, |name| json!(name));
            match &one.kind {
                ConstraintKind::Unknown => {}
                ConstraintKind::MatchAttribute(name) => {
                    add(&mut constraint, "matchAttribute", name);
                }
                ConstraintKind::DistinctAttribute(name) => {
                    add(&mut constraint, "distinctAttribute", name);
                }
            }
            Value::Object(constraint)
        });
        add_list(&mut devices, "config", &self.config, |one| {
            config(&one.requests, one.opaque.as_ref())
        });
        json!({ "devices": devices })
    }
}

impl Allocation {
    /// `status.allocation`. All API versions have the same.
    pub fn wire(&self) -> impl Serialize {
        Wire(self)
    }

    /// The same as a value.
    pub fn to_json(&self) -> Value {
        json!(Wire(self))
    }
}

impl ClaimConsumer {
    /// An item of `status.reservedFor`.
    pub fn wire(&self) -> impl Serialize {
        Wire(self)
    }
}

/// A part of a claim as it is written. Fields are in the order of their names, as in a [`Value`].
struct Wire<'a, T>(&'a T);

/// A list of such parts.
struct WireList<'a, T>(&'a [T]);

impl<T> Serialize for WireList<'_, T>
where
    for<'a> Wire<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(Wire))
    }
}

impl Serialize for Wire<'_, Allocation> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Wire(Allocation { devices, config, node_selector, timestamp }) = self;
        let mut fields = Fields::of(to)?;
        // As Go writes a metav1.Time: without a fraction.
        let time = timestamp.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        fields.optional("allocationTimestamp", time.as_ref())?;
        fields.any("devices", &Wire(&(&**config, &**devices)))?;
        fields.optional("nodeSelector", node_selector.as_ref().map(Wire).as_ref())?;
        fields.end()
    }
}

impl Serialize for Wire<'_, (&[AllocationConfig], &[DeviceResult])> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Wire((config, results)) = self;
        let mut fields = Fields::of(to)?;
        fields.list("config", config)?;
        fields.list("results", results)?;
        fields.end()
    }
}

impl Serialize for Wire<'_, DeviceResult> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Wire(one) = self;
        let mut fields = Fields::of(to)?;
        fields.optional("adminAccess", one.admin_access.as_ref())?;
        fields.texts("bindingConditions", &one.binding_conditions)?;
        fields.texts("bindingFailureConditions", &one.binding_failure_conditions)?;
        if !one.consumed_capacity.is_empty() {
            fields.any("consumedCapacity", &amounts(&one.consumed_capacity))?;
        }
        fields.text("device", &one.device)?;
        fields.text("driver", &one.driver)?;
        fields.text("pool", &one.pool)?;
        fields.text("request", &one.request)?;
        fields.text("shareID", one.share_id.as_deref().unwrap_or_default())?;
        fields.list("tolerations", &one.tolerations)?;
        fields.end()
    }
}

impl Serialize for Wire<'_, DeviceToleration> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Wire(DeviceToleration { key, operator, value, effect, seconds }) = self;
        let mut fields = Fields::of(to)?;
        fields.text("effect", effect)?;
        fields.text("key", key)?;
        fields.any("operator", operator.as_str())?;
        fields.optional("tolerationSeconds", seconds.as_ref())?;
        fields.text("value", value)?;
        fields.end()
    }
}

impl Serialize for Wire<'_, AllocationConfig> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Wire(AllocationConfig { source, requests, opaque }) = self;
        let mut fields = Fields::of(to)?;
        if let Some(opaque) = opaque {
            fields.any("opaque", &opaque_config(opaque))?;
        }
        fields.texts("requests", requests)?;
        fields.any("source", source.as_str())?;
        fields.end()
    }
}

impl Serialize for Wire<'_, ClaimConsumer> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Wire(ClaimConsumer { api_group, resource, name, uid }) = self;
        let mut fields = Fields::of(to)?;
        fields.text("apiGroup", api_group)?;
        fields.text("name", name)?;
        fields.text("resource", resource)?;
        fields.text("uid", uid)?;
        fields.end()
    }
}

/// A `NodeSelector`.
impl Serialize for Wire<'_, DeviceNodeSelector> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = Fields::of(to)?;
        fields.any("nodeSelectorTerms", &WireList(self.0.terms()))?;
        fields.end()
    }
}

impl Serialize for Wire<'_, DeviceNodeTerm> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Wire(term) = self;
        let mut fields = Fields::of(to)?;
        fields.list("matchExpressions", &term.expressions)?;
        fields.list("matchFields", &term.fields)?;
        fields.end()
    }
}

impl Serialize for Wire<'_, WrittenRequirement> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Wire(WrittenRequirement { key, operator, values }) = self;
        let mut fields = Fields::of(to)?;
        fields.text("key", key)?;
        fields.text("operator", operator)?;
        fields.texts("values", values)?;
        fields.end()
    }
}

/// The fields of an object. What is empty is left out.
struct Fields<S: Serializer>(S::SerializeMap);

impl<S: Serializer> Fields<S> {
    fn of(to: S) -> Result<Self, S::Error> {
        to.serialize_map(None).map(Fields)
    }

    fn any(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), S::Error> {
        self.0.serialize_entry(name, value)
    }

    fn text(&mut self, name: &str, text: &str) -> Result<(), S::Error> {
        if text.is_empty() { Ok(()) } else { self.any(name, text) }
    }

    fn texts(&mut self, name: &str, texts: &[Str]) -> Result<(), S::Error> {
        if texts.is_empty() { Ok(()) } else { self.any(name, texts) }
    }

    fn optional(&mut self, name: &str, value: Option<&impl Serialize>) -> Result<(), S::Error> {
        value.map_or(Ok(()), |value| self.any(name, value))
    }

    fn list<T>(&mut self, name: &str, items: &[T]) -> Result<(), S::Error>
    where
        for<'a> Wire<'a, T>: Serialize,
    {
        if items.is_empty() { Ok(()) } else { self.any(name, &WireList(items)) }
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}

fn request(one: &DeviceRequest, is_flat: bool) -> Value {
    let mut request = Map::new();
    match &one.kind {
        RequestKind::Unknown => {}
        RequestKind::Exactly { ask, admin_access } => {
            let mut exactly = asked(ask);
            if let Some(admin) = admin_access {
                exactly.insert("adminAccess".to_owned(), json!(admin));
            }
            if is_flat {
                request = exactly;
            } else {
                request.insert("exactly".to_owned(), Value::Object(exactly));
            }
        }
        RequestKind::FirstAvailable(alternatives) => {
            add_list(&mut request, "firstAvailable", alternatives, |one| {
                let mut alternative = asked(&one.ask);
                add(&mut alternative, "name", &one.name);
                Value::Object(alternative)
            });
        }
    }
    add(&mut request, "name", &one.name);
    Value::Object(request)
}

fn asked(ask: &DeviceAsk) -> Map<String, Value> {
    let mut asked = Map::new();
    add(&mut asked, "deviceClassName", &ask.class);
    add_list(&mut asked, "selectors", &ask.selectors, |selector| match selector {
        Some(expression) => json!({ "cel": { "expression": expression } }),
        None => json!({}),
    });
    let mode = match &ask.mode {
        AllocationMode::ExactCount(count) => {
            asked.insert("count".to_owned(), json!(count));
            "ExactCount"
        }
        AllocationMode::All => "All",
        AllocationMode::Other(word) => word,
    };
    asked.insert("allocationMode".to_owned(), json!(mode));
    add_list(&mut asked, "tolerations", &ask.tolerations, |one| json!(Wire(one)));
    if let Some(capacity) = &ask.capacity {
        asked.insert("capacity".to_owned(), json!({ "requests": amounts(capacity) }));
    }
    asked
}

fn config(requests: &[Str], opaque: Option<&OpaqueConfig>) -> Value {
    let mut config = Map::new();
    add_list(&mut config, "requests", requests, |name| json!(name));
    if let Some(opaque) = opaque {
        config.insert("opaque".to_owned(), opaque_config(opaque));
    }
    Value::Object(config)
}

fn opaque_config(OpaqueConfig { driver, parameters }: &OpaqueConfig) -> Value {
    let parameters: Value = serde_json::from_str(parameters).unwrap_or_default();
    json!({ "driver": driver, "parameters": parameters })
}

fn amounts(amounts: &[(Str, crate::Quantity)]) -> Value {
    let entries =
        amounts.iter().map(|(name, amount)| (name.to_string(), json!(amount.to_string())));
    Value::Object(entries.collect())
}

/// Adds a text if it is not empty.
fn add(object: &mut Map<String, Value>, field: &str, text: &str) {
    if !text.is_empty() {
        object.insert(field.to_owned(), json!(text));
    }
}

/// Adds a list if it is not empty.
fn add_list<T>(
    object: &mut Map<String, Value>,
    field: &str,
    items: &[T],
    item: impl Fn(&T) -> Value,
) {
    if !items.is_empty() {
        object.insert(field.to_owned(), items.iter().map(item).collect());
    }
}
