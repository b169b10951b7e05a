//! What kube-apiserver's admission does to new objects where a scheduler would notice: namespaces must
//! exist (`NamespaceLifecycle`), pods get their priority from their class (`Priority`), and pods that
//! are created on a node get its topology labels (`PodTopologyLabels`).

use std::sync::Arc;

use serde_json::{Value, json};

use super::pods::{TOPOLOGY_LABELS_SINCE, topology_of};
use crate::failure::FailureStatus;
use crate::kinds::{self, Qualified, ResourceKind};
use crate::store::{State, Stored, field_object, metadata, text};

/// Nobody may delete these.
pub(super) const LASTING: &[&str] = &["default", "kube-system", "kube-public"];

/// Refuses an object in a namespace that does not exist or is terminating.
pub(super) fn namespace_exists(
    state: &State,
    kind: &ResourceKind,
    namespace: &str,
    object: &Value,
) -> Result<(), FailureStatus> {
    if !kind.namespaced {
        return Ok(());
    }
    let namespaces = kinds::named("namespaces").expect("the table has namespaces");
    let Some(found) = state.get(namespaces, namespace) else {
        return Err(FailureStatus::not_found(namespaces.kind().resource(), namespace));
    };
    let is_going = found.value().pointer("/metadata/deletionTimestamp").is_some();
    if !is_going {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let failure = FailureStatus::forbidden(kind.resource(), text(object, "/metadata/name"), why);
    Err(failure.cause("NamespaceTerminating", format!("namespace {namespace} is being terminated")))
}

/// Changes or refuses a new object.
pub(super) fn admit(
    state: &State,
    kind: &ResourceKind,
    object: &mut Value,
    release: u32,
) -> Result<(), FailureStatus> {
    if kind.kind != "Pod" {
        return Ok(());
    }
    let node = text(object, "/spec/nodeName").to_owned();
    if TOPOLOGY_LABELS_SINCE <= release && !node.is_empty() {
        let labels = metadata(object).entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            for (key, value) in topology_of(state, &node) {
                labels.entry(key).or_insert(value);
            }
        }
    }
    set_priority(state, kind, object)
}

/// As in `plugin/pkg/admission/priority`: the class named, else the global default, else 0.
fn set_priority(state: &State, kind: &ResourceKind, pod: &mut Value) -> Result<(), FailureStatus> {
    let classes = kinds::named("priorityclasses").expect("the table has classes");
    let name = text(pod, "/spec/priorityClassName").to_owned();
    let class = match name.as_str() {
        "" => default_class(state.objects(classes)),
        name => {
            let class = state.get(classes, name).ok_or_else(|| {
                let why = format!("no PriorityClass with name {name} was found");
                FailureStatus::forbidden(kind.resource(), text(pod, "/metadata/name"), why)
            })?;
            Some(class.value())
        }
    };
    let value = class.as_ref().and_then(|class| class.get("value")).and_then(Value::as_i64);
    let value = value.unwrap_or(0);
    let preempts = class.as_ref().map(|class| text(class, "/preemptionPolicy")).unwrap_or_default();
    let preempts = if preempts.is_empty() { "PreemptLowerPriority" } else { preempts };
    if let Some(said) = pod.pointer("/spec/priority").and_then(Value::as_i64)
        && said != value
    {
        let why = format!(
            "the integer value of priority ({said}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        );
        let what = Qualified { name: kind.plural, group: kind.group() };
        return Err(FailureStatus::forbidden(what, text(pod, "/metadata/name"), why));
    }
    let spec = field_object(pod, "spec");
    spec.insert("priority".to_owned(), value.into());
    spec.insert("preemptionPolicy".to_owned(), preempts.into());
    if let Some(class) = class.filter(|_| name.is_empty()) {
        spec.insert("priorityClassName".to_owned(), text(&class, "/metadata/name").into());
    }
    Ok(())
}

/// The global default; of several the one with the lowest value.
fn default_class<'a>(classes: impl Iterator<Item = &'a Arc<Stored>>) -> Option<Value> {
    let classes = classes.map(|class| class.value());
    let defaults = classes.filter(|class| class.get("globalDefault") == Some(&Value::Bool(true)));
    defaults.min_by_key(|class| class.get("value").and_then(Value::as_i64))
}
