//! Makes the pods of workloads, as their controllers would.

use plimsoll_api::wire::{self, Object};
use plimsoll_api::{ObjectKey, Pod};
use serde_json::{Map, Value, json};

/// A workload with its pods.
#[derive(Debug)]
pub(crate) struct Workload {
    /// The controller.
    pub(crate) controller: ObjectKey,
    /// Its pods.
    pub(crate) pods: Vec<Pod>,
}

/// The kinds whose pods are made.
pub(super) const KINDS: [&str; 5] =
    ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job"];

/// The workload that a manifest describes; `None` if it describes none. The error names the field.
pub(crate) fn workload(manifest: &Value) -> Option<Result<Workload, String>> {
    let kind = manifest["kind"].as_str().filter(|kind| KINDS.contains(kind))?;
    Some(WorkloadManifest::of(kind, manifest).and_then(|manifest| manifest.workload(kind)))
}

/// The manifests of the pods of a workload; `None` if the manifest describes none. A workload without pods has one here, too: it
/// has a template. The error names the field.
pub(crate) fn pods_of_workload(
    manifest: &Value,
) -> Option<Result<impl Iterator<Item = Value>, String>> {
    let kind = manifest["kind"].as_str().filter(|kind| KINDS.contains(kind))?;
    let pods = || {
        let workload = WorkloadManifest::of(kind, manifest)?;
        let n = workload.n_pods(kind)?.max(1);
        Ok((0..n).map(move |number| workload.pod(number)))
    };
    Some(pods())
}

/// The pod of a manifest. The error names the field.
pub(crate) fn read_pod(manifest: &Value) -> Result<Pod, String> {
    let mut manifest = manifest.clone();
    // In a list of pods it need not say what it is.
    if let Some(object) = manifest.as_object_mut() {
        object.entry("apiVersion").or_insert_with(|| json!("v1"));
        object.entry("kind").or_insert_with(|| json!("Pod"));
    }
    match wire::object(&manifest) {
        Ok(Object::Pod(pod)) => Ok(*pod),
        Ok(_) => Err("kind: is not Pod".to_owned()),
        Err(error) => Err(format!("{}: {}", error.field, error.message)),
    }
}

/// The manifest of a workload, and what its pods are made of.
struct WorkloadManifest<'a> {
    manifest: &'a Value,
    template: &'a Map<String, Value>,
    namespace: &'a str,
    name: &'a str,
    /// The controller of the pods: that of a Deployment is a ReplicaSet, whose name has a hash.
    owner: String,
    reference: Value,
}

impl<'a> WorkloadManifest<'a> {
    fn of(kind: &str, manifest: &'a Value) -> Result<Self, String> {
        let name = manifest["metadata"]["name"].as_str().ok_or("metadata.name: is missing")?;
        let namespace = manifest["metadata"]["namespace"].as_str().unwrap_or("default");
        let template = manifest["spec"]["template"].as_object();
        let template = template.ok_or("spec.template: is missing")?;
        let (api_version, owner_kind, owner) = match kind {
            "Deployment" => (json!("apps/v1"), "ReplicaSet", format!("{name}-applied")),
            _ => (manifest["apiVersion"].clone(), kind, name.to_owned()),
        };
        let uid = manifest["metadata"]["uid"].as_str().unwrap_or(&owner);
        let reference = json!({
            "apiVersion": api_version, "kind": owner_kind, "name": owner, "uid": uid, "controller": true,
        });
        Ok(WorkloadManifest { manifest, template, namespace, name, owner, reference })
    }

    /// The manifest of one of the pods.
    fn pod(&self, number: u32) -> Value {
        let metadata = self.template.get("metadata").and_then(Value::as_object);
        let mut metadata = metadata.cloned().unwrap_or_default();
        metadata.insert("name".to_owned(), json!(format!("{}-{number}", self.owner)));
        metadata.insert("namespace".to_owned(), json!(self.namespace));
        metadata.insert("ownerReferences".to_owned(), json!([self.reference]));
        let spec = self.template.get("spec").cloned().unwrap_or_default();
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    }

    /// How many pods it has.
    fn n_pods(&self, kind: &str) -> Result<u32, String> {
        let field = if kind == "Job" { "parallelism" } else { "replicas" };
        match &self.manifest["spec"][field] {
            Value::Null => Ok(1),
            number => number
                .as_u64()
                .and_then(|number| u32::try_from(number).ok())
                .ok_or_else(|| format!("spec.{field}: {number} is no number of pods")),
        }
    }

    fn workload(&self, kind: &str) -> Result<Workload, String> {
        let n = self.n_pods(kind)?;
        let pods = (0..n).map(|number| {
            read_pod(&self.pod(number)).map_err(|why| format!("spec.template.{why}"))
        });
        let pods = pods.collect::<Result<_, _>>()?;
        Ok(Workload { controller: ObjectKey::new(self.namespace, self.name), pods })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 2, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            }},
        })
    }

    #[test]
    fn a_deployment_stands_for_its_pods() {
        let workload = workload(&deployment()).expect("it is one").expect("it is right");
        assert_eq!(workload.controller, ObjectKey::new("shop", "web"));
        let names: Vec<_> = workload.pods.iter().map(|pod| pod.key.to_string()).collect();
        assert_eq!(names, ["shop/web-applied-0", "shop/web-applied-1"]);
        let pod = &workload.pods[0];
        assert_eq!((pod.requests.milli_cpu, pod.labels.get("app")), (1000, Some(&"web".into())));
        assert_eq!(pod.controller.as_ref().map(|one| one.kind.as_str()), Some("ReplicaSet"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mut wrong = deployment();
        wrong["spec"]["replicas"] = json!(-1);
        let error = workload(&wrong).expect("it is one").expect_err("it is wrong");
        assert_eq!(error, "spec.replicas: -1 is no number of pods");
        let mut wrong = deployment();
        wrong["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
            json!("x");
        let error = workload(&wrong).expect("it is one").expect_err("it is wrong");
        assert!(
            error.starts_with("spec.template.spec.containers[0].resources.requests"),
            "{error}"
        );
        assert!(workload(&json!({"kind": "Pod"})).is_none());
    }
}
