//! Manifests of the objects of a scenario, as users would write them.

use serde_json::{Map, Value, json};

/// A JSON object.
pub(crate) type Fields = Map<String, Value>;

/// Fields of a pod's `spec` that a statement may name directly.
const POD_SPEC: [&str; 20] = [
    "affinity",
    "containers",
    "hostNetwork",
    "initContainers",
    "nodeName",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
];

/// Kinds of objects that select pods: the keyword of the statement, `apiVersion` and `kind`.
const SELECTING: [(&str, &str, &str); 4] = [
    ("service", "v1", "Service"),
    ("rc", "v1", "ReplicationController"),
    ("rs", "apps/v1", "ReplicaSet"),
    ("sts", "apps/v1", "StatefulSet"),
];

/// Kinds of objects for storage, and budgets: the keyword of the statement, `apiVersion`, `kind`, whether the kind is
/// namespaced, and whether its fields are in `spec`.
const AROUND: [(&str, &str, &str, bool, bool); 12] = [
    ("pv", "v1", "PersistentVolume", false, true),
    ("pvc", "v1", "PersistentVolumeClaim", true, true),
    ("sc", "storage.k8s.io/v1", "StorageClass", false, false),
    ("csinode", "storage.k8s.io/v1", "CSINode", false, true),
    ("csidriver", "storage.k8s.io/v1", "CSIDriver", false, true),
    ("csicapacity", "storage.k8s.io/v1", "CSIStorageCapacity", true, false),
    ("va", "storage.k8s.io/v1", "VolumeAttachment", false, true),
    ("pdb", "policy/v1", "PodDisruptionBudget", true, true),
    ("claim", "resource.k8s.io/v1", "ResourceClaim", true, true),
    ("slice", "resource.k8s.io/v1", "ResourceSlice", false, true),
    ("deviceclass", "resource.k8s.io/v1", "DeviceClass", false, true),
    ("podgroup", "scheduling.k8s.io/v1beta1", "PodGroup", true, true),
];

/// What all objects have.
#[derive(Debug)]
pub(crate) struct ObjectHead<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) labels: Fields,
}

/// A node: `fields` merged into the defaults.
pub(crate) fn node(head: &ObjectHead<'_>, fields: Fields) -> Result<Value, String> {
    let mut manifest = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": head.name, "labels": head.labels },
        "status": {
            "allocatable": {
                "cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "1000",
            },
        },
    });
    for (key, value) in fields {
        let patch = match key.as_str() {
            "taints" | "unschedulable" => json!({ "spec": { key: value } }),
            "allocatable" | "images" => json!({ "status": { key: value } }),
            "features" => json!({ "status": { "declaredFeatures": value } }),
            "annotations" => json!({ "metadata": { key: value } }),
            "metadata" | "spec" | "status" => json!({ key: value }),
            _ => return Err(format!("a node has no {key:?}")),
        };
        merge(&mut manifest, patch);
    }
    Ok(manifest)
}

/// A pod on node `on`, if given: `fields` merged into a pod with one container without requests.
pub(crate) fn pod(
    head: &ObjectHead<'_>,
    on: Option<&str>,
    fields: Fields,
) -> Result<Value, String> {
    let key = format!("{}/{}", head.namespace, head.name);
    let mut manifest = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": head.namespace, "name": head.name, "uid": key, "labels": head.labels,
        },
        "spec": {},
    });
    let mut container = json!({ "name": "main", "image": "app:1" });
    let own_containers = fields.contains_key("containers");
    for (key, value) in fields {
        let patch = match key.as_str() {
            "requests" | "limits" | "image" | "ports" if own_containers => {
                return Err(format!("put {key:?} into \"containers\", which are given"));
            }
            "requests" | "limits" => {
                merge(&mut container, json!({ "resources": { key: value } }));
                continue;
            }
            "image" | "ports" => {
                merge(&mut container, json!({ key: value }));
                continue;
            }
            "annotations" => json!({ "metadata": { key: value } }),
            "owner" => json!({ "metadata": { "ownerReferences": [owner(&value)?] } }),
            "metadata" | "spec" | "status" => json!({ key: value }),
            field if POD_SPEC.contains(&field) => json!({ "spec": { key: value } }),
            _ => return Err(format!("a pod has no {key:?} that a scheduler reads")),
        };
        merge(&mut manifest, patch);
    }
    if manifest["spec"]["containers"].is_null() {
        merge(&mut manifest, json!({ "spec": { "containers": [container] } }));
    }
    if let Some(node) = on {
        merge(&mut manifest, json!({ "spec": { "nodeName": node } }));
    }
    Ok(manifest)
}

/// A namespace.
pub(crate) fn namespace(head: &ObjectHead<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": head.name, "labels": head.labels },
    })
}

/// An object that selects pods by these labels, with `fields` merged into its `spec`. `None` if `word` is not the
/// keyword of such a kind.
pub(crate) fn selecting(word: &str, head: &ObjectHead<'_>, fields: &Fields) -> Option<Value> {
    let (_, api_version, kind) = SELECTING.iter().find(|(name, ..)| *name == word)?;
    let mut manifest = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "namespace": head.namespace, "name": head.name },
        "spec": {},
    });
    if !head.labels.is_empty() {
        let by_labels = *api_version == "apps/v1";
        let labels = &head.labels;
        let selector = if by_labels { json!({ "matchLabels": labels }) } else { json!(labels) };
        merge(&mut manifest, json!({ "spec": { "selector": selector } }));
    }
    merge(&mut manifest, json!({ "spec": fields }));
    Some(manifest)
}

/// An object for storage, or a budget. `None` if `word` is not the keyword of such a kind.
pub(crate) fn around(word: &str, head: &ObjectHead<'_>, fields: &Fields) -> Option<Value> {
    let (_, api_version, kind, namespaced, has_spec) =
        AROUND.iter().find(|(name, ..)| *name == word)?;
    let key = format!("{}/{}", head.namespace, head.name);
    let (namespace, uid) =
        if *namespaced { (Some(head.namespace), key.as_str()) } else { (None, head.name) };
    let mut manifest = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "namespace": namespace, "name": head.name, "uid": uid },
    });
    let labels = &head.labels;
    let labelled = match word {
        "pv" => json!({ "metadata": { "labels": labels }, "status": { "phase": "Available" } }),
        "pdb" => json!({ "spec": { "selector": { "matchLabels": labels } } }),
        "csicapacity" if !labels.is_empty() => {
            json!({ "nodeTopology": { "matchLabels": labels } })
        }
        _ => json!({ "metadata": { "labels": labels } }),
    };
    merge(&mut manifest, labelled);
    for (key, value) in fields {
        let patch = match key.as_str() {
            "annotations" => json!({ "metadata": { key: value } }),
            "owner" => json!({ "metadata": { "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": value, "uid": value, "controller": true,
            }] } }),
            "metadata" | "spec" | "status" => json!({ key: value }),
            _ if *has_spec => json!({ "spec": { key: value } }),
            _ => json!({ key: value }),
        };
        merge(&mut manifest, patch);
    }
    Some(manifest)
}

/// The owner reference of a controller such as `rs/web`.
fn owner(value: &Value) -> Result<Value, String> {
    let parts = value.as_str().and_then(|text| text.split_once('/'));
    let known = parts.and_then(|(word, name)| {
        let (_, api_version, kind) = SELECTING.iter().find(|(known, ..)| *known == word)?;
        Some(json!({ "apiVersion": api_version, "kind": kind, "name": name, "controller": true }))
    });
    known.ok_or_else(|| format!("an owner is written as \"rs/NAME\", not as {value}"))
}

/// Merges `patch` into `target`, as in RFC 7386.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().expect("it has been made an object");
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(&key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(name: &str) -> ObjectHead<'_> {
        ObjectHead { namespace: "default", name, labels: Fields::new() }
    }

    fn fields(value: &Value) -> Fields {
        value.as_object().expect("the tests give objects").clone()
    }

    #[test]
    fn allocatable_resources_of_a_node_replace_only_those_named() {
        let said = json!({ "allocatable": { "cpu": "2", "memory": null, "example.com/gpu": "1" } });
        let manifest = node(&head("a"), fields(&said)).expect("the fields are known");
        let room = json!({
            "cpu": "2", "ephemeral-storage": "1Ti", "pods": "1000", "example.com/gpu": "1",
        });
        assert_eq!(manifest["status"]["allocatable"], room);
    }

    #[test]
    fn requests_and_ports_of_a_pod_go_into_its_only_container() {
        let said = json!({ "requests": { "cpu": "1" }, "ports": [{ "hostPort": 80 }] });
        let manifest = pod(&head("p"), Some("a"), fields(&said)).expect("the fields are known");
        let containers = json!([{
            "name": "main",
            "image": "app:1",
            "resources": { "requests": { "cpu": "1" } },
            "ports": [{ "hostPort": 80 }],
        }]);
        assert_eq!(manifest["spec"], json!({ "nodeName": "a", "containers": containers }));
    }

    #[test]
    fn an_unknown_field_is_reported() {
        for (said, told) in [
            (json!({ "toleration": [] }), r#"a pod has no "toleration" that a scheduler reads"#),
            (
                json!({ "containers": [], "image": "nginx" }),
                r#"put "image" into "containers", which are given"#,
            ),
            (json!({ "owner": "web" }), r#"an owner is written as "rs/NAME", not as "web""#),
        ] {
            assert_eq!(pod(&head("p"), None, fields(&said)), Err(told.to_owned()));
        }
        let unknown = node(&head("a"), fields(&json!({ "taint": [] })));
        assert_eq!(unknown, Err(r#"a node has no "taint""#.to_owned()));
    }
}
