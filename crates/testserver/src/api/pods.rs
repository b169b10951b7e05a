//! `pods/binding` (as in `pod/storage/storage.go`) and `pods/eviction` (as in `pod/storage/eviction.go`).

use http::Response;
use serde_json::{Map, Value, json};

use super::{ApiHandler, ObjectRequest, object_of};
use crate::counts::RequestOrigin;
use crate::failure::{FailureStatus, FieldError};
use crate::kinds::{self, Qualified};
use crate::respond::{self, Body};
use crate::selector;
use crate::store::{
    DeleteOptions, State, Stored, UpdateMode, field_object, key_of, metadata, now,
    precondition_failed, text,
};

/// The resource that the error of a refused binding names.
const BINDING: Qualified = Qualified { name: "pods/binding", group: "" };

const BUDGET: Qualified = Qualified { name: "poddisruptionbudget", group: "policy" };

/// Labels that pods get from their node (admission plugin `PodTopologyLabels`).
const TOPOLOGY: &[&str] = &["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

const WOULD_VIOLATE: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// The first release in which the admission plugin is on.
pub(super) const TOPOLOGY_LABELS_SINCE: u32 = 35;

/// The first release in which a binding clears the nomination.
const CLEARS_NOMINATION_SINCE: u32 = 35;

fn success(code: u16) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code,
    });
    respond::json(code, &status)
}

impl ApiHandler {
    pub(super) fn bind(
        &self,
        asked: &ObjectRequest,
        body: &[u8],
    ) -> Result<Response<Body>, FailureStatus> {
        let binding = object_of(body)?;
        let target = &asked.target;
        let name = text(&binding, "/metadata/name").to_owned();
        if target.name.as_ref().is_some_and(|wanted| *wanted != name) {
            return Err(FailureStatus::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
        let node = text(&binding, "/target/name").to_owned();
        check_target(&binding, &node)?;
        let origin =
            RequestOrigin { node: Some(node.clone()), ..RequestOrigin::at("create", "binding") };
        let release = self.options().release;
        let change = |state: &State, pod: Value| bound(state, pod, &binding, &name, &node, release);
        let key = (target.namespace(), name.as_str());
        let dry_run = asked.query.dry_run;
        self.shared.lock().update(target.id, key, UpdateMode::Free, &origin, dry_run, change)?;
        Ok(success(201))
    }

    pub(super) fn evict(
        &self,
        asked: &ObjectRequest,
        body: &[u8],
    ) -> Result<Response<Body>, FailureStatus> {
        let eviction = object_of(body)?;
        let target = &asked.target;
        if text(&eviction, "/metadata/name") != target.name() {
            return Err(FailureStatus::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let empty = Value::Null;
        let options = eviction.get("deleteOptions").unwrap_or(&empty);
        let mut options = super::remove::options_of(options, &asked.query);
        options.dry_run |= asked.query.dry_run;
        let mut state = self.shared.lock();
        let pod = state.get(target.id, &key_of(target.namespace(), target.name())).cloned();
        let pods = target.id.kind().resource();
        let pod = pod.ok_or_else(|| FailureStatus::not_found(pods, target.name()))?;
        spend_budget(&mut state, &pod, &options)?;
        let origin = RequestOrigin::at("create", "eviction");
        state.delete(target.id, (target.namespace(), target.name()), &options, &origin)?;
        Ok(success(201))
    }
}

/// As in `ValidatePodBinding`. In kube-apiserver its errors are not a Status, so they are answered with
/// a plain 500.
fn check_target(binding: &Value, node: &str) -> Result<(), FailureStatus> {
    let kind = text(binding, "/target/kind");
    let error = if !["", "Node"].contains(&kind) {
        FieldError::not_supported("target.kind", kind, "\"Node\", \"<empty>\"")
    } else if node.is_empty() {
        FieldError::required("target.name", "")
    } else {
        return Ok(());
    };
    Err(FailureStatus::plain(500, &format!("{}: {}", error.field, error.body)))
}

/// The pod on its node, if it may be there.
fn bound(
    state: &State,
    mut pod: Value,
    binding: &Value,
    name: &str,
    node: &str,
    release: u32,
) -> Result<Value, FailureStatus> {
    let conflict = |why: String| Err(FailureStatus::conflict(BINDING, name, why));
    // Check the preconditions first: this may be a new pod with the same name.
    check_identity(state, &pod, binding)?;
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let present = text(&pod, "/spec/nodeName");
    if !present.is_empty() {
        return conflict(format!("pod {name} is already assigned to node {present:?}"));
    }
    let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    field_object(&mut pod, "spec").insert("nodeName".to_owned(), node.into());
    let status = field_object(&mut pod, "status");
    if CLEARS_NOMINATION_SINCE <= release {
        status.remove("nominatedNodeName");
    }
    set_scheduled(status);
    let meta = metadata(&mut pod);
    add(meta, "annotations", binding.pointer("/metadata/annotations").and_then(Value::as_object));
    if TOPOLOGY_LABELS_SINCE <= release {
        // The binding's own labels win over those of the node, and both over those of the pod.
        add(meta, "labels", Some(&topology_of(state, node)));
        add(meta, "labels", binding.pointer("/metadata/labels").and_then(Value::as_object));
    }
    Ok(pod)
}

/// A binding may say which pod it means, and at which version.
fn check_identity(state: &State, pod: &Value, binding: &Value) -> Result<(), FailureStatus> {
    let pods = kinds::named("pods").expect("the table has pods");
    let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
    let Some(present) = state.get(pods, &key_of(namespace, name)) else { return Ok(()) };
    for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let at = format!("/metadata/{field}");
        let (wanted, is) = (text(binding, &at), text(pod, &at));
        if !wanted.is_empty() && wanted != is {
            let why = format!("{called} in precondition: {wanted}, {called} in object meta: {is}");
            return Err(precondition_failed(pods.kind(), present, &why));
        }
    }
    Ok(())
}

fn add(meta: &mut Map<String, Value>, field: &str, more: Option<&Map<String, Value>>) {
    let Some(more) = more.filter(|more| !more.is_empty()) else { return };
    let present = meta.entry(field).or_insert_with(|| json!({}));
    if let Some(present) = present.as_object_mut() {
        present.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

/// The topology labels of a node; a node that is not known has none.
pub(super) fn topology_of(state: &State, node: &str) -> Map<String, Value> {
    let nodes = kinds::named("nodes").expect("the table has nodes");
    let Some(node) = state.get(nodes, node) else { return Map::new() };
    let labels = node.labels().iter().filter(|(key, _)| TOPOLOGY.contains(&key.as_str()));
    labels.map(|(key, value)| (key.clone(), value.clone().into())).collect()
}

/// As `UpdatePodCondition` with PodScheduled=True: the time changes only if the status changes.
fn set_scheduled(status: &mut Map<String, Value>) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    let place = conditions.iter().position(|c| text(c, "/type") == "PodScheduled");
    let since = place
        .filter(|place| text(&conditions[*place], "/status") == "True")
        .map(|place| conditions[place]["lastTransitionTime"].clone());
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": since.unwrap_or_else(|| now().into()),
    });
    match place {
        Some(place) => conditions[place] = condition,
        None => conditions.push(condition),
    }
}

/// Takes one disruption out of the budget that covers the pod, or refuses.
fn spend_budget(
    state: &mut State,
    pod: &Stored,
    options: &DeleteOptions,
) -> Result<(), FailureStatus> {
    let value = pod.value();
    let phase = text(&value, "/status/phase");
    let is_ending = value.pointer("/metadata/deletionTimestamp").is_some();
    if is_ending || ["Succeeded", "Failed", "Pending"].contains(&phase) {
        return Ok(());
    }
    let id = kinds::named("poddisruptionbudgets").expect("the table has budgets");
    let covers = |budget: &Value| {
        let selector = budget.pointer("/spec/selector").and_then(selector::of_object);
        selector.is_some_and(|all| all.iter().all(|r| r.matches(pod.labels())))
    };
    let budgets = state.objects(id).filter(|budget| budget.namespace == pod.namespace);
    let mut budgets: Vec<Value> = budgets.map(|budget| budget.value()).filter(covers).collect();
    let Some(mut budget) = budgets.pop() else { return Ok(()) };
    if !budgets.is_empty() {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(FailureStatus::plain(500, message));
    }
    let number = |field: &str| budget.pointer(field).and_then(Value::as_i64).unwrap_or(0);
    let (healthy, desired) = (number("/status/currentHealthy"), number("/status/desiredHealthy"));
    let always = text(&budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
    if !is_ready(&value) && (always || (desired <= healthy && 0 < desired)) {
        return Ok(());
    }
    let name = text(&budget, "/metadata/name").to_owned();
    if number("/status/observedGeneration") < number("/metadata/generation") {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        let failure = FailureStatus::too_many_requests(WOULD_VIOLATE, 10);
        return Err(failure.cause("DisruptionBudget", cause));
    }
    let allowed = number("/status/disruptionsAllowed");
    if allowed < 0 {
        return Err(FailureStatus::forbidden(BUDGET, &name, "pdb disruptions allowed is negative"));
    }
    if allowed == 0 {
        let cause = format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        );
        let failure = FailureStatus::too_many_requests(WOULD_VIOLATE, 0);
        return Err(failure.cause("DisruptionBudget", cause));
    }
    if options.dry_run {
        return Ok(());
    }
    let status = field_object(&mut budget, "status");
    status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
    let disrupted = status.entry("disruptedPods").or_insert_with(|| json!({}));
    disrupted[&pod.name] = now().into();
    state.put(id, budget, &RequestOrigin::at("update", "status"));
    Ok(())
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| text(c, "/type") == "Ready" && text(c, "/status") == "True")
}
