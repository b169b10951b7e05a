//! Which versions and kinds of configuration are read.

use plimsoll_document::{Document, FieldPath};
use serde_json::Value;

use crate::faults::Faults;

/// The API group of the configuration.
pub(crate) const GROUP: &str = "kubescheduler.config.k8s.io";
/// The group with the version that is read.
pub(crate) const GROUP_VERSION: &str = "kubescheduler.config.k8s.io/v1";
const KIND: &str = "KubeSchedulerConfiguration";

/// What earlier releases read beside [`GROUP_VERSION`].
const OLDER_VERSIONS: [&str; 6] = [
    "kubescheduler.config.k8s.io/v1beta3",
    "kubescheduler.config.k8s.io/v1beta2",
    "kubescheduler.config.k8s.io/v1beta1",
    "kubescheduler.config.k8s.io/v1alpha2",
    "kubescheduler.config.k8s.io/v1alpha1",
    "componentconfig/v1alpha1",
];

/// Reports a document that is not a configuration of the version that is read.
pub(crate) fn check(document: &Document, faults: &mut Faults<'_>) {
    if !document.value.is_object() {
        let message = format!("is not an object: expected a {KIND}");
        faults.report(FieldPath::root(), message);
        return;
    }
    let text =
        |key: &str| document.value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (kind_field, version_field) =
        (FieldPath::root().key("kind"), FieldPath::root().key("apiVersion"));
    let Some(kind) = text("kind") else {
        faults.report(kind_field, format!("Object 'Kind' is missing: write `kind: {KIND}`"));
        return;
    };
    if kind == "Policy" {
        let message = format!(
            "a scheduler Policy is not supported yet: write it as a {KIND} of version \
             {GROUP_VERSION}, its predicates as `plugins.filter` and its priorities as \
             `plugins.score`"
        );
        faults.report(kind_field, message);
        return;
    }
    let Some(version) = text("apiVersion") else {
        let message =
            format!("Object 'apiVersion' is missing: write `apiVersion: {GROUP_VERSION}`");
        faults.report(version_field, message);
        return;
    };
    if version == GROUP_VERSION && kind == KIND {
        return;
    }
    if OLDER_VERSIONS.contains(&version) {
        let message =
            format!("version {version} is not supported yet: convert the file to {GROUP_VERSION}");
        faults.report(version_field, message);
    } else {
        let message = format!(
            "{}: expected `apiVersion: {GROUP_VERSION}` and `kind: {KIND}`",
            not_registered(kind, version)
        );
        let field = if version == GROUP_VERSION { kind_field } else { version_field };
        faults.report(field, message);
    }
}

/// As in apimachinery's runtime/error.go, notRegisteredErr.
pub(crate) fn not_registered(kind: &str, version: &str) -> String {
    format!("no kind {kind:?} is registered for version {version:?}")
}
