//! Objects of `resource.k8s.io`: their form in `v1beta1`, their defaults, and the validation that a scheduler meets (as
//! in `pkg/apis/resource`: `v1beta1/conversion.go`, `v1/defaults.go` and `validation/validation.go`, and in
//! `pkg/registry/resource/resourceclaim/strategy.go`).

use serde_json::{Map, Value};

use crate::failure::FieldError;
use crate::store::text;

/// The most consumers of a claim.
const MOST_CONSUMERS: usize = 256;

/// The most requests of a claim.
const MOST_REQUESTS: usize = 32;

const NOT_ALLOCATED: &str = "may not be specified when `allocated` is not set";
const DELETED: &str =
    "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
const IMMUTABLE: &str = "field is immutable";

/// An object as `v1beta1` shows it.
pub(crate) fn to_flat(mut object: Value) -> Value {
    for request in requests(&mut object).into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(Value::Object(exactly)) = request.remove("exactly") {
            request.extend(exactly);
        }
    }
    for device in slice_devices(&mut object).filter_map(Value::as_object_mut) {
        let mut basic = std::mem::take(device);
        let name = basic.remove("name");
        device.extend(name.map(|name| ("name".to_owned(), name)));
        device.insert("basic".to_owned(), Value::Object(basic));
    }
    object
}

/// An object of `v1beta1` as it is stored.
pub(crate) fn from_flat(mut object: Value) -> Value {
    for request in requests(&mut object).into_iter().flatten().filter_map(Value::as_object_mut) {
        if !request.contains_key("deviceClassName") {
            continue;
        }
        let mut exactly = std::mem::take(request);
        let name = exactly.remove("name");
        request.extend(name.map(|name| ("name".to_owned(), name)));
        request.insert("exactly".to_owned(), Value::Object(exactly));
    }
    for device in slice_devices(&mut object).filter_map(Value::as_object_mut) {
        if let Some(Value::Object(basic)) = device.remove("basic") {
            device.extend(basic);
        }
    }
    object
}

/// The requests of a claim, or of the claims of a template.
fn requests(object: &mut Value) -> Option<&mut Vec<Value>> {
    let is_template = object.pointer("/spec/spec").is_some();
    let at = if is_template { "/spec/spec/devices/requests" } else { "/spec/devices/requests" };
    object.pointer_mut(at).and_then(Value::as_array_mut)
}

/// The devices of a slice.
fn slice_devices(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    let devices = object.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
    devices.into_iter().flatten()
}

/// Fills in the defaults of a claim, or of the part of a template that is like one.
pub(crate) fn fill(claim: &mut Value) {
    let requests = claim.pointer_mut("/spec/devices/requests").and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(Value::Object(exactly)) = request.get_mut("exactly") {
            fill_request(exactly);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        for one in alternatives.into_iter().flatten().filter_map(Value::as_object_mut) {
            fill_request(one);
        }
    }
}

fn fill_request(request: &mut Map<String, Value>) {
    let mode = request.entry("allocationMode").or_insert_with(|| "ExactCount".into());
    if mode == "ExactCount" {
        request.entry("count").or_insert_with(|| 1.into());
    }
    let tolerations = request.get_mut("tolerations").and_then(Value::as_array_mut);
    for one in tolerations.into_iter().flatten().filter_map(Value::as_object_mut) {
        one.entry("operator").or_insert_with(|| "Equal".into());
    }
}

/// Checks the spec of a new claim, which is at `field`.
pub(crate) fn check_spec(claim: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let requests = list(claim, "/spec/devices/requests");
    let all = format!("{field}.devices.requests");
    if MOST_REQUESTS < requests.len() {
        errors.push(FieldError::too_many(&all, requests.len(), MOST_REQUESTS));
    }
    for (index, request) in requests.iter().enumerate() {
        let one = format!("{all}[{index}]");
        if text(request, "/name").is_empty() {
            errors.push(FieldError::required(&format!("{one}.name"), ""));
        }
        match (request.get("exactly"), request.get("firstAvailable")) {
            (None, None) => {
                let why = "exactly one of `exactly` or `firstAvailable` is required";
                errors.push(FieldError::required(&one, why));
            }
            (Some(exactly), None) if text(exactly, "/deviceClassName").is_empty() => {
                errors.push(FieldError::required(&format!("{one}.exactly.deviceClassName"), ""));
            }
            (Some(_), Some(_)) => {
                let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                errors.push(FieldError::invalid(&one, request, why));
            }
            _ => {}
        }
    }
}

/// Checks a new slice.
pub(crate) fn check_slice(slice: &Value, errors: &mut Vec<FieldError>) {
    let devices = list(slice, "/spec/devices");
    for (index, device) in devices.iter().enumerate() {
        let name = text(device, "/name");
        if devices[..index].iter().any(|earlier| text(earlier, "/name") == name) {
            errors.push(FieldError::duplicate(&format!("spec.devices[{index}].name"), name));
        }
    }
}

/// Checks a change of a claim.
pub(crate) fn check_change(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let is_changed = |at: &str| match (old.pointer(at), new.pointer(at)) {
        (Some(old), Some(new)) => !old.is_null() && !new.is_null() && old != new,
        _ => false,
    };
    if is_changed("/spec") {
        errors.push(FieldError::invalid("spec", &new["spec"], IMMUTABLE));
    }
    check_consumers(old, new, errors);
    if is_changed("/status/allocation") {
        let allocation = &new["status"]["allocation"];
        errors.push(FieldError::invalid("status.allocation", allocation, IMMUTABLE));
    }
}

fn check_consumers(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "status.reservedFor";
    let consumers = list(new, "/status/reservedFor");
    if consumers.is_empty() {
        return;
    }
    if MOST_CONSUMERS < consumers.len() {
        errors.push(FieldError::too_many(FIELD, consumers.len(), MOST_CONSUMERS));
    }
    for (index, consumer) in consumers.iter().enumerate() {
        for field in ["resource", "name", "uid"] {
            if text(consumer, &format!("/{field}")).is_empty() {
                errors.push(FieldError::required(&format!("{FIELD}[{index}].{field}"), ""));
            }
        }
        let uid = text(consumer, "/uid");
        if consumers[..index].iter().any(|earlier| text(earlier, "/uid") == uid) {
            errors.push(FieldError::duplicate(&format!("{FIELD}[{index}]"), uid));
        }
    }
    let before = list(old, "/status/reservedFor");
    if new.pointer("/status/allocation").is_none_or(Value::is_null) {
        errors.push(FieldError::forbidden(FIELD, NOT_ALLOCATED));
    } else if new.pointer("/metadata/deletionTimestamp").is_some()
        && consumers.iter().any(|consumer| !before.contains(consumer))
    {
        errors.push(FieldError::forbidden(FIELD, DELETED));
    }
}

/// Removes what drivers reported about devices that a claim no longer has.
pub(crate) fn forget_deallocated(claim: &mut Value) {
    let names = ["driver", "pool", "device"];
    let id_of = |one: &Value| names.map(|name| text(one, &format!("/{name}")).to_owned());
    let allocated = list(claim, "/status/allocation/devices/results").iter();
    let allocated: Vec<_> = allocated.map(id_of).collect();
    let Some(status) = claim.get_mut("status").and_then(Value::as_object_mut) else { return };
    let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) else { return };
    devices.retain(|device| allocated.contains(&id_of(device)));
    if devices.is_empty() {
        status.remove("devices");
    }
}

fn list<'a>(object: &'a Value, at: &str) -> &'a [Value] {
    object.pointer(at).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_and_a_slice_have_another_form_in_v1beta1() {
        let exactly = json!({"deviceClassName": "gpu", "count": 2});
        let either =
            json!({"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "y"}]});
        let stored = json!({"spec": {"devices": {"requests": [
            {"name": "a", "exactly": exactly}, either,
        ]}}});
        let flat = json!({"spec": {"devices": {"requests": [
            {"name": "a", "deviceClassName": "gpu", "count": 2}, either,
        ]}}});
        assert_eq!(to_flat(stored.clone()), flat);
        assert_eq!(from_flat(flat.clone()), stored);
        let template = |claim: &Value| json!({"spec": {"metadata": {}, "spec": claim["spec"]}});
        assert_eq!(to_flat(template(&stored)), template(&flat));
        assert_eq!(from_flat(template(&flat)), template(&stored));
        let slice = |device: Value| json!({"spec": {"driver": "d", "devices": [device]}});
        let attributes = json!({"model": {"string": "a"}});
        let stored = slice(json!({"name": "gpu-0", "attributes": attributes}));
        let flat = slice(json!({"name": "gpu-0", "basic": {"attributes": attributes}}));
        assert_eq!(to_flat(stored.clone()), flat);
        assert_eq!(from_flat(flat), stored);
    }

    #[test]
    fn a_claim_changes_only_as_the_api_server_lets_it() {
        let claim = |status: Value| json!({"spec": {"devices": {}}, "status": status});
        let check = |old: &Value, new: &Value| {
            let mut errors = Vec::new();
            check_change(old, new, &mut errors);
            let texts = errors.iter().map(|error| format!("{}: {}", error.field, error.body));
            texts.collect::<Vec<_>>().join(", ")
        };
        let pod = |uid: usize| json!({"resource": "pods", "name": "p", "uid": uid.to_string()});
        let pods = |n: usize| (0..n).map(pod).collect::<Vec<_>>();
        let empty = claim(json!({}));
        let allocated = |device: &str, n: usize| {
            claim(json!({"allocation": {"device": device}, "reservedFor": pods(n)}))
        };
        assert_eq!(check(&empty, &allocated("a", 256)), "");
        assert_eq!(check(&allocated("a", 2), &allocated("a", 3)), "");
        assert_eq!(check(&allocated("a", 2), &empty), "");
        assert_eq!(
            check(&empty, &allocated("a", 257)),
            "status.reservedFor: Too many: 257: must have at most 256 items"
        );
        assert_eq!(
            check(&empty, &claim(json!({"reservedFor": pods(1)}))),
            format!("status.reservedFor: Forbidden: {NOT_ALLOCATED}")
        );
        assert_eq!(
            check(&allocated("a", 1), &allocated("b", 1)),
            r#"status.allocation: Invalid value: {"device":"b"}: field is immutable"#
        );
        let twice = claim(json!({"allocation": {}, "reservedFor": [pod(1), pod(1)]}));
        assert_eq!(check(&empty, &twice), r#"status.reservedFor[1]: Duplicate value: "1""#);
        let mut going = allocated("a", 2);
        going["metadata"] = json!({"deletionTimestamp": "2026-01-02T03:04:05Z"});
        assert_eq!(
            check(&allocated("a", 1), &going),
            format!("status.reservedFor: Forbidden: {DELETED}")
        );
        let mut other = empty.clone();
        other["spec"] = json!({});
        assert_eq!(check(&empty, &other), "spec: Invalid value: {}: field is immutable");
    }

    #[test]
    fn a_new_claim_names_its_requests_and_classes() {
        let mut errors = Vec::new();
        let claim = json!({"spec": {"devices": {"requests": [
            {"name": "a", "exactly": {}}, {"name": "b"}, {"exactly": {"deviceClassName": "c"}},
        ]}}});
        check_spec(&claim, "spec", &mut errors);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.devices.requests[0].exactly.deviceClassName",
                "spec.devices.requests[1]",
                "spec.devices.requests[2].name",
            ]
        );
    }
}
