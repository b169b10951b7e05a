//! Reduces manifests to what decisions need.
//!
//! What is read is not listed a second time: the manifest is read, and the fields that reading passed over are removed.
//! So a field that scheduling begins to read is kept from then on, and everything else never is.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_ignored::Path;
use serde_json::{Map, Value};

use super::error::{Result, WireError};
use super::{Json, Manifest, Object, Reader, avoided, devices, storage, volumes};
use crate::pod_group::PREFERRED_TOPOLOGY;
use crate::{KindRef, Pod};

/// The annotations that objects of Kubernetes are read for. Annotations of other keys change no decision of an in-tree
/// plugin.
pub const READ_ANNOTATIONS: [&str; 13] = [
    avoided::KEY,
    devices::EXTENDED,
    PREFERRED_TOPOLOGY,
    storage::BETA_DEFAULT_CLASS,
    storage::DEFAULT_CLASS,
    storage::MIGRATED_PLUGINS,
    volumes::BETA_CLASS,
    volumes::BETA_PROVISIONER,
    volumes::BIND_COMPLETED,
    volumes::BOUND_BY_CONTROLLER,
    volumes::PROVISIONED_BY,
    volumes::PROVISIONER,
    volumes::SELECTED_NODE,
];

/// The conditions of a pod that are read.
const READ_CONDITIONS: [&str; 2] = ["DisruptionTarget", "PodScheduled"];

/// Where DeviceClasses, ResourceClaims, their allocations and ResourceClaimTemplates have configurations of devices.
const CONFIGURATIONS_OF_DEVICES: [&str; 4] = [
    "/spec/config",
    "/spec/devices/config",
    "/status/allocation/devices/config",
    "/spec/spec/devices/config",
];

impl Reader {
    /// The parts of a manifest that decisions need, in the same API version. The rest is removed: what is not read at all,
    /// and what is read but decides nothing. That is annotations of other keys than [`READ_ANNOTATIONS`] and those that
    /// `keeps_annotation` names, the messages of conditions but those of devices, and the parameters of devices, which are only passed on.
    ///
    /// It is an error if the manifest cannot be read.
    pub fn reduce(
        self,
        manifest: &Value,
        keeps_annotation: &dyn Fn(&str) -> bool,
    ) -> std::result::Result<Value, WireError> {
        let mut reduced = manifest.clone();
        remove_what_decides_nothing(&mut reduced, self.kind, keeps_annotation);
        let unread = Unread::default();
        let read = self.read_watched(&reduced, &unread)?;
        unread.remove_from(&mut reduced);
        remove_empty_mounts(&mut reduced);
        if let Value::Object(fields) = &mut reduced {
            fields.insert("apiVersion".to_owned(), self.api_version.into());
            fields.insert("kind".to_owned(), self.kind.as_str().into());
        }
        debug_assert_eq!(
            self.take(&reduced).map(|object| format!("{object:?}")),
            Ok(format!("{read:?}")),
            "a reduced manifest is read as the same object"
        );
        Ok(reduced)
    }

    fn read_watched(self, manifest: &Value, unread: &Unread) -> Result<Object> {
        let json = Json::Watched(manifest, unread);
        self.kind.read(Manifest { api_version: self.api_version, json })
    }
}

/// The parts of a manifest that reading passes over.
#[derive(Default)]
pub(super) struct Unread(
    /// `None` before the manifest was read. A cell, because [`super::Kind::read`] takes manifests by value, and may read
    /// them more than once.
    Cell<Option<BTreeSet<Part>>>,
);

impl fmt::Debug for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unread").finish_non_exhaustive()
    }
}

/// A part of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    steps: Vec<Step>,
    /// Whether it is read that the part is there, although not what is in it.
    counts: bool,
}

/// A step into a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    Item(usize),
}

impl Unread {
    /// Reads a manifest, and notes what was passed over. A part is unread if it is unread every time.
    pub(super) fn parse<T: DeserializeOwned>(&self, manifest: &Value) -> Result<T> {
        let mut passed_over = BTreeSet::new();
        let mut pass_over = |path: Path<'_>| {
            passed_over.insert(Part::of(&path));
        };
        let noting = serde_ignored::Deserializer::new(manifest, &mut pass_over);
        let parsed =
            erased_serde::deserialize(&mut <dyn erased_serde::Deserializer<'_>>::erase(noting));
        // Only the usual way names the field of an error.
        let Ok(parsed) = parsed else { return super::source::Source::parse(manifest) };
        let unread = match self.0.take() {
            None => passed_over,
            Some(before) => before.intersection(&passed_over).cloned().collect(),
        };
        self.0.set(Some(unread));
        Ok(parsed)
    }

    /// Removes the unread parts.
    fn remove_from(self, manifest: &mut Value) {
        for Part { steps, counts } in self.0.into_inner().unwrap_or_default() {
            let Some((last, outer)) = steps.split_last() else { continue };
            let found = outer.iter().try_fold(&mut *manifest, |value, step| match step {
                Step::Field(name) => value.get_mut(name),
                Step::Item(index) => value.get_mut(index),
            });
            let Some(found) = found else { continue };
            match (last, found) {
                (Step::Field(name), Value::Object(fields)) if !counts => {
                    fields.remove(name);
                }
                (Step::Field(name), Value::Object(fields)) => {
                    fields.insert(name.clone(), Value::Object(Map::new()));
                }
                (Step::Item(index), Value::Array(items)) => {
                    if let Some(item) = items.get_mut(*index) {
                        *item = Value::Object(Map::new());
                    }
                }
                _ => {}
            }
        }
    }
}

impl Part {
    fn of(path: &Path<'_>) -> Self {
        // A value in an `Option` of which nothing is read says by being there what it has to say.
        let mut part = Part { steps: Vec::new(), counts: matches!(path, Path::Some { .. }) };
        let mut path = path;
        loop {
            path = match path {
                Path::Root => break,
                Path::Seq { parent, index } => {
                    part.steps.push(Step::Item(*index));
                    parent
                }
                Path::Map { parent, key } => {
                    part.steps.push(Step::Field(key.clone()));
                    parent
                }
                Path::Some { parent }
                | Path::NewtypeStruct { parent }
                | Path::NewtypeVariant { parent } => parent,
            };
        }
        part.steps.reverse();
        part
    }
}

/// Removes what is read but decides nothing.
fn remove_what_decides_nothing(
    manifest: &mut Value,
    kind: KindRef,
    keeps_annotation: &dyn Fn(&str) -> bool,
) {
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.retain(|key, _| READ_ANNOTATIONS.contains(&&**key) || keeps_annotation(key));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    if let Some(conditions) =
        manifest.pointer_mut("/status/conditions").and_then(Value::as_array_mut)
    {
        if kind.is::<Pod>() {
            let is_read = |one: &Value| READ_CONDITIONS.iter().any(|read| one["type"] == *read);
            conditions.retain(is_read);
        }
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.remove("message");
        }
    }
    for config in CONFIGURATIONS_OF_DEVICES {
        let items = manifest.pointer_mut(config).and_then(Value::as_array_mut);
        let opaque = items.into_iter().flatten().filter_map(|item| item.get_mut("opaque"));
        for opaque in opaque.filter_map(Value::as_object_mut) {
            opaque.remove("parameters");
        }
    }
}

/// Removes lists of mounts that have become empty: of a mount hardly anything is read.
fn remove_empty_mounts(manifest: &mut Value) {
    for list in ["containers", "initContainers"] {
        let list = manifest.get_mut("spec").and_then(|spec| spec.get_mut(list));
        let containers = list.and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            let mounts = container.get("volumeMounts").and_then(Value::as_array);
            let is_empty = |mount: &Value| mount.as_object().is_some_and(Map::is_empty);
            if mounts.is_some_and(|mounts| mounts.iter().all(is_empty)) {
                container.remove("volumeMounts");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(kind: &str, api_version: &str, manifest: &Value, expected: &Value) {
        let reader = Reader::of(api_version, kind).expect("the kind is read");
        let reduced = reader.reduce(manifest, &|key| key == "example.com/kept");
        let reduced = reduced.expect("the manifest is right");
        assert_eq!(reduced, *expected, "{reduced:#}");
        // There is nothing more to remove.
        let again = reader.reduce(&reduced, &|_| true).expect("it is still right");
        assert_eq!(again, reduced);
    }

    #[test]
    fn of_a_pod_nothing_is_left_that_scheduling_does_not_read() {
        check(
            "Pod",
            "v1",
            &json!({
                "metadata": {
                    "name": "web", "namespace": "shop", "labels": {"app": "web"}, "generateName": "we",
                    "annotations": {"secret": "s3cret", "example.com/kept": "yes"},
                    "managedFields": [{"manager": "s3cret"}],
                },
                "spec": {
                    "containers": [{
                        "name": "c", "image": "web:1", "command": ["s3cret"], "args": ["s3cret"],
                        "env": [{"name": "PASSWORD", "value": "s3cret"}],
                        "envFrom": [{"secretRef": {"name": "s3cret"}}],
                        "resources": {"requests": {"cpu": "1"}},
                        "volumeMounts": [{"name": "v", "mountPath": "/s3cret"}],
                        "livenessProbe": {"exec": {"command": ["s3cret"]}},
                    }],
                    "imagePullSecrets": [{"name": "s3cret"}],
                    "serviceAccountName": "s3cret",
                    "volumes": [{"name": "v", "secret": {"secretName": "s3cret"}}],
                    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["s3cret"]}],
                    "nodeSelector": {"disk": "ssd"},
                },
                "status": {"phase": "Pending", "podIP": "10.0.0.7", "conditions": [
                    {"type": "Ready", "status": "False", "message": "s3cret"},
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "s3cret",
                     "lastProbeTime": null},
                ]},
            }),
            &json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": "web", "namespace": "shop", "labels": {"app": "web"},
                    "annotations": {"example.com/kept": "yes"},
                },
                "spec": {
                    "containers": [{"name": "c", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}],
                    "volumes": [{"name": "v"}],
                    "nodeSelector": {"disk": "ssd"},
                },
                "status": {"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
                ]},
            }),
        );
    }

    #[test]
    fn what_counts_by_being_there_stays_there() {
        check(
            "PodDisruptionBudget",
            "policy/v1",
            &json!({
                "metadata": {"name": "b", "namespace": "shop"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
                "status": {"disruptionsAllowed": 1, "currentHealthy": 2,
                           "disruptedPods": {"web-1": "2026-01-02T03:04:05Z"}},
            }),
            &json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "b", "namespace": "shop"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}},
                "status": {"disruptionsAllowed": 1, "disruptedPods": {"web-1": {}}},
            }),
        );
    }

    #[test]
    fn parameters_of_devices_are_removed() {
        let request = json!([{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]);
        let config = |opaque: Value| json!([{"requests": ["gpu"], "opaque": opaque}]);
        check(
            "ResourceClaim",
            "resource.k8s.io/v1",
            &json!({
                "metadata": {"name": "c", "namespace": "shop"},
                "spec": {"devices": {
                    "requests": request,
                    "config": config(json!({"driver": "d", "parameters": {"key": "s3cret"}})),
                }},
            }),
            &json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {"name": "c", "namespace": "shop"},
                "spec": {"devices": {"requests": request, "config": config(json!({"driver": "d"}))}},
            }),
        );
    }

    #[test]
    fn an_error_names_the_field() {
        let reader = Reader::of("v1", "Pod").expect("pods are read");
        let pod = json!({"metadata": {"name": "p"}, "spec": {"priority": "high"}});
        let error = reader.reduce(&pod, &|_| false).expect_err("the priority is no number");
        assert_eq!(error.field, "spec.priority");
    }

    #[test]
    fn annotations_that_are_read_are_kept() {
        for key in READ_ANNOTATIONS {
            let class = json!({"metadata": {"name": "c", "annotations": {key: "true"}}, "provisioner": "p"});
            let reader = Reader::of("storage.k8s.io/v1", "StorageClass").expect("it is read");
            let reduced = reader.reduce(&class, &|_| false).expect("it is right");
            assert_eq!(reduced["metadata"]["annotations"], json!({key: "true"}));
        }
    }
}
