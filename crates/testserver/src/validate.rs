//! The validation of kube-apiserver that matters to schedulers and their tests: names, pods without
//! containers, changes of immutable fields.

use serde_json::Value;

use crate::devices;
use crate::failure::{FailureStatus, FieldError};
use crate::kinds::ResourceKind;
use crate::store::{UpdateMode, text};

/// The text for fields of a pod that cannot be changed (as in `ValidatePodUpdate`).
const POD_IMMUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// The message for a name that is not a DNS subdomain.
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Refuses an invalid new object.
pub(crate) fn new_object(kind: &ResourceKind, object: &Value) -> Result<(), FailureStatus> {
    let name = text(object, "/metadata/name");
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else if !may_be_named_freely(kind) && !is_subdomain(name) {
        errors.push(FieldError::invalid("metadata.name", format!("{name:?}"), SUBDOMAIN));
    }
    if kind.kind == "Pod" && is_empty_list(object.pointer("/spec/containers")) {
        errors.push(FieldError::required("spec.containers", ""));
    }
    match kind.kind {
        "ResourceClaim" => devices::check_spec(object, "spec", &mut errors),
        "ResourceClaimTemplate" => devices::check_spec(&object["spec"], "spec.spec", &mut errors),
        "ResourceSlice" => devices::check_slice(object, &mut errors),
        _ => {}
    }
    refuse(kind, name, &errors)
}

/// Refuses a change of immutable fields. `new` is the object that would be stored.
pub(crate) fn change(
    kind: &ResourceKind,
    mode: UpdateMode,
    old: &Value,
    new: &Value,
) -> Result<(), FailureStatus> {
    let mut errors = Vec::new();
    if kind.kind == "Pod" && mode == UpdateMode::Whole {
        let mut parts = [fixed_part(old), fixed_part(new)];
        if !names_of_gates(old).is_empty() {
            parts.iter_mut().for_each(forget_node_choice);
        }
        if parts[0] != parts[1] {
            errors.push(FieldError::forbidden("spec", POD_IMMUTABLE));
        }
        let old_gates = names_of_gates(old);
        if !names_of_gates(new).iter().all(|gate| old_gates.contains(gate)) {
            let detail = "only deletion is allowed, but found new scheduling gate";
            errors.push(FieldError::forbidden("spec.schedulingGates", detail));
        }
    }
    if kind.kind == "ResourceClaim" {
        devices::check_change(old, new, &mut errors);
    }
    refuse(kind, text(old, "/metadata/name"), &errors)
}

fn refuse(kind: &ResourceKind, name: &str, errors: &[FieldError]) -> Result<(), FailureStatus> {
    match errors {
        [] => Ok(()),
        errors => Err(FailureStatus::invalid(kind.group_kind(), name, errors)),
    }
}

/// Roles may have names such as `system:kube-scheduler`.
fn may_be_named_freely(kind: &ResourceKind) -> bool {
    kind.group() == "rbac.authorization.k8s.io"
}

fn is_empty_list(value: Option<&Value>) -> bool {
    value.and_then(Value::as_array).is_none_or(Vec::is_empty)
}

fn is_subdomain(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

fn names_of_gates(pod: &Value) -> Vec<&str> {
    let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
    gates.into_iter().flatten().map(|gate| text(gate, "/name")).collect()
}

/// While a pod is gated, its node selector and affinity may change.
fn forget_node_choice(spec: &mut Value) {
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("nodeSelector");
        fields.remove("affinity");
    }
}

/// The spec of a pod without the fields that an update may change.
fn fixed_part(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    let Some(fields) = spec.as_object_mut() else { return spec };
    for free in
        ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"]
    {
        fields.remove(free);
    }
    for list in ["containers", "initContainers"] {
        for container in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
            }
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_subdomains() {
        for good in ["a", "a-b.c", "1"] {
            assert!(is_subdomain(good), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a..b", "a_b", "a/b"] {
            assert!(!is_subdomain(bad), "{bad}");
        }
    }
}
