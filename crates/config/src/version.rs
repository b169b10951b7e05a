//! The version and kind that a document says it has.

use plimsoll_document::{Document, FieldPath};
use serde_json::Value;

use crate::faults::Faults;
use crate::origin::Form;

/// The API group of the configuration.
pub(crate) const GROUP: &str = "kubescheduler.config.k8s.io";
/// The group with its latest version.
pub const GROUP_VERSION: &str = "kubescheduler.config.k8s.io/v1";
const KIND: &str = "KubeSchedulerConfiguration";

/// The form of a document: v1, or that which `other` has for its `apiVersion`. None, with an error in `faults`, if it is
/// not a configuration of such a version.
pub fn form_of(
    document: &Document,
    other: impl Fn(&str) -> Option<Form>,
    faults: &mut Faults<'_>,
) -> Option<Form> {
    if !document.value.is_object() {
        let message = format!("is not an object: expected a {KIND}");
        faults.report(FieldPath::root(), message);
        return None;
    }
    let text =
        |key: &str| document.value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (kind_field, version_field) =
        (FieldPath::root().key("kind"), FieldPath::root().key("apiVersion"));
    let Some(kind) = text("kind") else {
        faults.report(kind_field, format!("Object 'Kind' is missing: write `kind: {KIND}`"));
        return None;
    };
    let Some(version) = text("apiVersion") else {
        let message =
            format!("Object 'apiVersion' is missing: write `apiVersion: {GROUP_VERSION}`");
        faults.report(version_field, message);
        return None;
    };
    let form = if version == GROUP_VERSION { Some(Form::V1) } else { other(version) };
    if kind == KIND && form.is_some() {
        return form;
    }
    let message = format!(
        "{}: expected `apiVersion: {GROUP_VERSION}` and `kind: {KIND}`",
        not_registered(kind, version)
    );
    let field = if form.is_some() { kind_field } else { version_field };
    faults.report(field, message);
    None
}

/// The message for a kind that a version does not have. As in apimachinery's runtime/error.go, notRegisteredErr.
pub fn not_registered(kind: &str, version: &str) -> String {
    format!("no kind {kind:?} is registered for version {version:?}")
}
