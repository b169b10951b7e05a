//! The parts of claims that the scheduler writes, as JSON.

use serde_json::{Map, Value, json};

use crate::Str;
use crate::devices::{
    Allocation, AllocationConfig, AllocationMode, ClaimConsumer, ClaimSpec, ConstraintKind,
    DeviceAsk, DeviceNodeSelector, DeviceRequest, DeviceResult, DeviceToleration, OpaqueConfig,
    RequestKind, WrittenRequirement,
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
            config(None, &one.requests, one.opaque.as_ref())
        });
        json!({ "devices": devices })
    }
}

impl Allocation {
    /// `status.allocation`. All API versions have the same.
    pub fn to_json(&self) -> Value {
        let mut devices = Map::new();
        add_list(&mut devices, "results", &self.devices, result);
        add_list(&mut devices, "config", &self.config, |one: &AllocationConfig| {
            config(Some(one.source.as_str()), &one.requests, one.opaque.as_ref())
        });
        let mut allocation = Map::new();
        allocation.insert("devices".to_owned(), Value::Object(devices));
        if let Some(selector) = &self.node_selector {
            allocation.insert("nodeSelector".to_owned(), selector.to_json());
        }
        if let Some(time) = self.timestamp {
            // As Go writes a metav1.Time: without a fraction.
            let time = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            allocation.insert("allocationTimestamp".to_owned(), json!(time));
        }
        Value::Object(allocation)
    }
}

impl ClaimConsumer {
    /// An item of `status.reservedFor`.
    pub fn to_json(&self) -> Value {
        let mut consumer = Map::new();
        add(&mut consumer, "apiGroup", &self.api_group);
        add(&mut consumer, "resource", &self.resource);
        add(&mut consumer, "name", &self.name);
        add(&mut consumer, "uid", &self.uid);
        Value::Object(consumer)
    }
}

impl DeviceNodeSelector {
    /// A `NodeSelector`.
    pub fn to_json(&self) -> Value {
        let requirement = |one: &WrittenRequirement| {
            let mut requirement = Map::new();
            add(&mut requirement, "key", &one.key);
            add(&mut requirement, "operator", &one.operator);
            add_list(&mut requirement, "values", &one.values, |value| json!(value));
            Value::Object(requirement)
        };
        let terms = self.terms().iter().map(|one| {
            let mut term = Map::new();
            add_list(&mut term, "matchExpressions", &one.expressions, requirement);
            add_list(&mut term, "matchFields", &one.fields, requirement);
            Value::Object(term)
        });
        json!({ "nodeSelectorTerms": terms.collect::<Vec<_>>() })
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
    add_list(&mut asked, "tolerations", &ask.tolerations, toleration);
    if let Some(capacity) = &ask.capacity {
        asked.insert("capacity".to_owned(), json!({ "requests": amounts(capacity) }));
    }
    asked
}

fn result(one: &DeviceResult) -> Value {
    let mut result = Map::new();
    for (field, text) in [
        ("request", &one.request),
        ("driver", &one.driver),
        ("pool", &one.pool),
        ("device", &one.device),
    ] {
        add(&mut result, field, text);
    }
    if let Some(admin) = one.admin_access {
        result.insert("adminAccess".to_owned(), json!(admin));
    }
    add_list(&mut result, "tolerations", &one.tolerations, toleration);
    add_list(&mut result, "bindingConditions", &one.binding_conditions, |name| json!(name));
    let failures = &one.binding_failure_conditions;
    add_list(&mut result, "bindingFailureConditions", failures, |name| json!(name));
    if let Some(share) = &one.share_id {
        add(&mut result, "shareID", share);
    }
    if !one.consumed_capacity.is_empty() {
        result.insert("consumedCapacity".to_owned(), amounts(&one.consumed_capacity));
    }
    Value::Object(result)
}

fn toleration(one: &DeviceToleration) -> Value {
    let mut toleration = Map::new();
    add(&mut toleration, "key", &one.key);
    toleration.insert("operator".to_owned(), json!(one.operator.as_str()));
    add(&mut toleration, "value", &one.value);
    add(&mut toleration, "effect", &one.effect);
    if let Some(seconds) = one.seconds {
        toleration.insert("tolerationSeconds".to_owned(), json!(seconds));
    }
    Value::Object(toleration)
}

fn config(source: Option<&str>, requests: &[Str], opaque: Option<&OpaqueConfig>) -> Value {
    let mut config = Map::new();
    if let Some(source) = source {
        config.insert("source".to_owned(), json!(source));
    }
    add_list(&mut config, "requests", requests, |name| json!(name));
    if let Some(OpaqueConfig { driver, parameters }) = opaque {
        let parameters: Value = serde_json::from_str(parameters).unwrap_or_default();
        let opaque = json!({ "driver": driver, "parameters": parameters });
        config.insert("opaque".to_owned(), opaque);
    }
    Value::Object(config)
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
