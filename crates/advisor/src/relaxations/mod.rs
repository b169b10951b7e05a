//! What a pod could give up, or put up with, so that it fits on more nodes. Each module knows one field of its manifest.

pub(crate) mod affinity;
pub(crate) mod devices;
mod ports;
pub(crate) mod requests;
pub(crate) mod spread;
mod tolerations;
pub(crate) mod volumes;

use plimsoll_api::{Pod, Str, Taint};
use serde_json::Value;

pub(crate) use self::tolerations::taint_text;
use crate::draft::{Draft, Step};
use crate::remedy::{RemedyKind, size};

/// One thing that a pod could give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Relaxation {
    /// To request so much of a resource.
    Request(Str),
    /// To avoid nodes with these taints.
    Taints(Vec<Taint>),
    /// A label of `spec.nodeSelector`.
    NodeLabel(String),
    /// An expression of the only term of the required node affinity: its list and its index there.
    NodeExpression(&'static str, usize),
    /// That a label of `spec.nodeSelector` has its value: this other one is allowed, too.
    LabelValue(String, String),
    /// The same of an expression with the operator `In`.
    ExpressionValue(&'static str, usize, String),
    /// All of the required node affinity.
    NodeAffinity,
    /// A required term of `podAffinity` or `podAntiAffinity`.
    PodTerm(&'static str, usize),
    /// A topology spread constraint that must be satisfied.
    Spread(usize),
    /// A host port: the list of containers, the container, and the port.
    HostPort(&'static str, usize, usize),
    /// The profile that decides it.
    Profile(String),
    /// Something about its volumes or devices.
    Steps(Steps),
    /// The same, from a little to all of it.
    Graded(Vec<Steps>),
}

/// Changes of the pod, and of objects that it needs, which belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) text: String,
    pub(crate) size: u32,
    pub(crate) kind: RemedyKind,
    pub(crate) field: Field,
    pub(crate) all: Vec<Step>,
}

impl Steps {
    pub(crate) fn take(&self, draft: &mut Draft) {
        for step in &self.all {
            draft.take(step);
        }
    }

    /// Whether the pod changes, and not only objects that it needs.
    pub(crate) fn changes_pod(&self) -> bool {
        self.all.iter().any(|step| step.of.is_none())
    }
}

/// Relaxations of one field can be needed together, although each by itself changes no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Requests,
    Taints,
    Nodes,
    Pods,
    Spread,
    Ports,
    Profile,
    Volumes,
    Devices,
}

impl Relaxation {
    /// All that the pod could give up, except for taints, which depend on the nodes.
    pub(crate) fn all_of(pod: &Pod, manifest: &Value) -> Vec<Self> {
        let mut all: Vec<_> = requests::names(pod).into_iter().map(Relaxation::Request).collect();
        all.extend(affinity::all_of(manifest));
        all.extend(spread::all_of(manifest).into_iter().map(Relaxation::Spread));
        all.extend(ports::all_of(manifest));
        all
    }

    /// The field that it relaxes.
    pub(crate) fn field(&self) -> Field {
        match self {
            Relaxation::Request(_) => Field::Requests,
            Relaxation::Taints(_) => Field::Taints,
            Relaxation::NodeLabel(_)
            | Relaxation::NodeExpression(..)
            | Relaxation::LabelValue(..)
            | Relaxation::ExpressionValue(..)
            | Relaxation::NodeAffinity => Field::Nodes,
            Relaxation::PodTerm(..) => Field::Pods,
            Relaxation::Spread(_) => Field::Spread,
            Relaxation::HostPort(..) => Field::Ports,
            Relaxation::Profile(_) => Field::Profile,
            Relaxation::Steps(steps) => steps.field,
            Relaxation::Graded(grades) => grades[0].field,
        }
    }

    /// What it changes.
    pub(crate) fn kind(&self) -> RemedyKind {
        match self {
            Relaxation::Steps(steps) => steps.kind,
            Relaxation::Graded(grades) => grades[0].kind,
            _ => RemedyKind::Pod,
        }
    }

    /// Relaxes the manifests as far as this goes. Of a request nothing is left, and a spread constraint is only a wish.
    pub(crate) fn loosen(&self, draft: &mut Draft) {
        let manifest = &mut draft.pod;
        match self {
            Relaxation::Request(name) => requests::remove(manifest, name),
            Relaxation::Taints(taints) => tolerations::add(manifest, taints),
            Relaxation::NodeLabel(key) => affinity::drop_label(manifest, key),
            Relaxation::NodeExpression(list, at) => affinity::drop_expression(manifest, list, *at),
            Relaxation::LabelValue(key, value) => affinity::allow_label(manifest, key, value),
            Relaxation::ExpressionValue(list, at, value) => {
                affinity::allow_in_expression(manifest, list, *at, value);
            }
            Relaxation::NodeAffinity => affinity::drop_node_affinity(manifest),
            Relaxation::PodTerm(list, at) => affinity::drop_term(manifest, list, *at),
            Relaxation::Spread(at) => spread::make_soft(manifest, *at),
            Relaxation::HostPort(list, container, port) => {
                ports::drop(manifest, list, *container, *port);
            }
            Relaxation::Profile(name) => manifest["spec"]["schedulerName"] = name.as_str().into(),
            Relaxation::Steps(steps) => steps.take(draft),
            Relaxation::Graded(grades) => loosest(grades).take(draft),
        }
    }

    /// What it comes to, in words, for a pod with this manifest.
    pub(crate) fn text(&self, manifest: &Value) -> String {
        match self {
            Relaxation::Request(name) => format!("request no {name}"),
            Relaxation::Taints(taints) => tolerations::text(taints),
            Relaxation::NodeLabel(key) => {
                let value = manifest["spec"]["nodeSelector"][key].as_str().unwrap_or_default();
                format!("drop {key}={value} from the node selector")
            }
            Relaxation::NodeExpression(list, at) => {
                let expression = affinity::expression(manifest, list, *at);
                format!("drop \"{expression}\" from the node affinity")
            }
            Relaxation::LabelValue(key, value) => {
                let before = manifest["spec"]["nodeSelector"][key].as_str().unwrap_or_default();
                format!("allow nodes with {key}={value} besides those with {key}={before}")
            }
            Relaxation::ExpressionValue(list, at, value) => {
                let expression = affinity::expression(manifest, list, *at);
                let key = affinity::key(manifest, list, *at);
                format!("allow nodes with {key}={value} besides those with \"{expression}\"")
            }
            Relaxation::NodeAffinity => "drop the required node affinity".to_owned(),
            Relaxation::PodTerm(list, at) => affinity::term_text(manifest, list, *at),
            Relaxation::Spread(at) => {
                let key = spread::key(manifest, *at);
                format!(
                    "make the spread over {key} a preference (whenUnsatisfiable: ScheduleAnyway)"
                )
            }
            Relaxation::HostPort(list, container, port) => {
                ports::text(manifest, list, *container, *port)
            }
            Relaxation::Profile(name) => format!("use the profile {name} (spec.schedulerName)"),
            Relaxation::Steps(steps) => steps.text.clone(),
            Relaxation::Graded(grades) => loosest(grades).text.clone(),
        }
    }

    /// How large it is, if it is relaxed as far as it goes.
    pub(crate) fn size(&self) -> u32 {
        match self {
            Relaxation::Request(_) => size::REQUEST + size::WHOLE_REQUEST,
            Relaxation::Taints(taints) => {
                size::TOLERATION * u32::try_from(taints.len()).unwrap_or(u32::MAX)
            }
            Relaxation::NodeLabel(_) | Relaxation::NodeExpression(..) => size::SELECTOR,
            Relaxation::LabelValue(..) | Relaxation::ExpressionValue(..) => size::WIDER,
            Relaxation::NodeAffinity => size::NODE_AFFINITY,
            Relaxation::PodTerm(..) => size::POD_AFFINITY,
            Relaxation::Spread(_) => size::NO_SPREAD,
            Relaxation::HostPort(..) => size::PORT,
            Relaxation::Profile(_) => size::PROFILE,
            Relaxation::Steps(steps) => steps.size,
            Relaxation::Graded(grades) => loosest(grades).size,
        }
    }
}

/// All that can be given up in part. There is always something.
fn loosest(grades: &[Steps]) -> &Steps {
    grades.last().expect("there is at least one grade")
}

/// The elements of a list in a manifest; none if it is absent.
pub(crate) fn list<'m>(manifest: &'m Value, pointer: &str) -> &'m [Value] {
    manifest.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Removes an element of a list.
pub(crate) fn remove_at(manifest: &mut Value, pointer: &str, at: usize) {
    if let Some(list) = manifest.pointer_mut(pointer).and_then(Value::as_array_mut)
        && at < list.len()
    {
        list.remove(at);
    }
}

/// Removes a key of an object.
pub(crate) fn remove_key(manifest: &mut Value, pointer: &str, key: &str) {
    if let Some(object) = manifest.pointer_mut(pointer).and_then(Value::as_object_mut) {
        object.remove(key);
    }
}
