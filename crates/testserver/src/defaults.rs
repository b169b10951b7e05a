//! Default values for fields that an object does not set (as in `pkg/apis/*/v1/defaults.go`): the
//! fields that schedulers and kubectl read.

use serde_json::{Map, Value, json};

use crate::devices;
use crate::kinds::ResourceKind;
use crate::store::field_object;

/// Fills in the defaults of a kind. Fields that are set stay.
pub(crate) fn fill(kind: &ResourceKind, object: &mut Value) {
    match kind.kind {
        "Pod" => pod(object),
        "Node" => node(object),
        "Namespace" => namespace(object),
        "Service" => service(object),
        "PersistentVolumeClaim" => {
            missing(object, "spec", &[("volumeMode", json!("Filesystem"))]);
            missing(object, "status", &[("phase", json!("Pending"))]);
        }
        "PersistentVolume" => {
            let retain = json!("Retain");
            let mode = json!("Filesystem");
            missing(
                object,
                "spec",
                &[("persistentVolumeReclaimPolicy", retain), ("volumeMode", mode)],
            );
            missing(object, "status", &[("phase", json!("Pending"))]);
        }
        "StorageClass" => fill_in(
            object,
            &[("reclaimPolicy", json!("Delete")), ("volumeBindingMode", json!("Immediate"))],
        ),
        "CSIDriver" => missing(
            object,
            "spec",
            &[
                ("attachRequired", json!(true)),
                ("podInfoOnMount", json!(false)),
                ("storageCapacity", json!(false)),
                ("fsGroupPolicy", json!("ReadWriteOnceWithFSType")),
                ("volumeLifecycleModes", json!(["Persistent"])),
                ("requiresRepublish", json!(false)),
            ],
        ),
        "PriorityClass" => {
            fill_in(object, &[("preemptionPolicy", json!("PreemptLowerPriority"))]);
        }
        "ReplicaSet" | "StatefulSet" | "Deployment" | "ReplicationController" => {
            missing(object, "spec", &[("replicas", json!(1))]);
            template(object);
        }
        "DaemonSet" => template(object),
        "ResourceClaim" => devices::fill(object),
        "ResourceClaimTemplate" => {
            if let Some(spec) = object.get_mut("spec") {
                devices::fill(spec);
            }
        }
        _ => {}
    }
}

/// The status of a new object that came over the API, for kinds whose status others write.
pub(crate) fn reset_status(kind: &ResourceKind, object: &mut Value) {
    let status = match kind.kind {
        "PersistentVolumeClaim" | "PersistentVolume" => json!({ "phase": "Pending" }),
        "Namespace" => json!({ "phase": "Active" }),
        "Service" => json!({ "loadBalancer": {} }),
        "ReplicaSet" | "ReplicationController" | "StatefulSet" => json!({ "replicas": 0 }),
        "DaemonSet" => json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        }),
        "PodDisruptionBudget" => json!({
            "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
        }),
        "Pod" => json!({ "phase": "Pending", "qosClass": qos_class(object) }),
        _ => json!({}),
    };
    if let Some(object) = object.as_object_mut() {
        object.insert("status".to_owned(), status);
    }
}

fn fill_in(object: &mut Value, defaults: &[(&str, Value)]) {
    if let Some(object) = object.as_object_mut() {
        absent(object, defaults);
    }
}

fn missing(object: &mut Value, field: &str, defaults: &[(&str, Value)]) {
    absent(field_object(object, field), defaults);
}

fn absent(object: &mut Map<String, Value>, defaults: &[(&str, Value)]) {
    for (key, value) in defaults {
        let present = object.entry(*key).or_insert(Value::Null);
        if present.is_null() {
            *present = value.clone();
        }
    }
}

fn template(object: &mut Value) {
    if let Some(template) = object.pointer_mut("/spec/template")
        && template.is_object()
    {
        pod_spec(template);
    }
}

fn pod(object: &mut Value) {
    pod_spec(object);
    let qos = qos_class(object);
    missing(object, "status", &[("phase", json!("Pending")), ("qosClass", json!(qos))]);
}

fn pod_spec(object: &mut Value) {
    missing(
        object,
        "spec",
        &[
            ("restartPolicy", json!("Always")),
            ("dnsPolicy", json!("ClusterFirst")),
            ("schedulerName", json!("default-scheduler")),
            ("terminationGracePeriodSeconds", json!(30)),
            ("enableServiceLinks", json!(true)),
            ("securityContext", json!({})),
        ],
    );
    let host_network = object.pointer("/spec/hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        let containers = object.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            container_defaults(container, host_network);
        }
    }
}

fn container_defaults(container: &mut Value, host_network: bool) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let is_latest = !image.contains('@') && name.split_once(':').is_none_or(|(_, t)| t == "latest");
    let pull = if is_latest { "Always" } else { "IfNotPresent" };
    fill_in(
        container,
        &[
            ("imagePullPolicy", json!(pull)),
            ("resources", json!({})),
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
        ],
    );
    // As in SetDefaults_Pod: a resource with a limit but without a request gets the limit as its
    // request.
    if let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned()
    {
        let requests = field_object(&mut container["resources"], "requests");
        for (resource, limit) in limits {
            requests.entry(resource).or_insert(limit);
        }
    }
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        fill_in(port, &[("protocol", json!("TCP"))]);
        if host_network && let Some(number) = port.get("containerPort").cloned() {
            fill_in(port, &[("hostPort", number)]);
        }
    }
}

/// As in `core/v1/helper/qos`: from the CPU and memory of all containers.
fn qos_class(pod: &Value) -> &'static str {
    let containers = ["/spec/containers", "/spec/initContainers"].into_iter();
    let containers = containers.filter_map(|list| pod.pointer(list).and_then(Value::as_array));
    let containers: Vec<&Value> = containers.flatten().collect();
    let has = |container: &Value, what: &str, resource: &str| {
        container.pointer(&format!("/resources/{what}/{resource}")).cloned()
    };
    let (mut any, mut all) = (false, !containers.is_empty());
    for container in containers {
        for resource in ["cpu", "memory"] {
            let (request, limit) =
                (has(container, "requests", resource), has(container, "limits", resource));
            any |= request.is_some() || limit.is_some();
            all &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn node(object: &mut Value) {
    field_object(object, "spec");
    let status = field_object(object, "status");
    if let Some(capacity) = status.get("capacity").cloned() {
        status.entry("allocatable").or_insert(capacity);
    }
}

fn namespace(object: &mut Value) {
    let name = crate::store::text(object, "/metadata/name").to_owned();
    let meta = field_object(object, "metadata");
    let labels = meta.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    missing(object, "spec", &[("finalizers", json!(["kubernetes"]))]);
    missing(object, "status", &[("phase", json!("Active"))]);
}

fn service(object: &mut Value) {
    missing(object, "spec", &[("type", json!("ClusterIP")), ("sessionAffinity", json!("None"))]);
    let ports = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        fill_in(port, &[("protocol", json!("TCP"))]);
        if let Some(number) = port.get("port").cloned() {
            fill_in(port, &[("targetPort", number)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::named;

    fn filled(resource: &str, mut object: Value) -> Value {
        fill(named(resource).expect("the table has it").kind(), &mut object);
        object
    }

    #[test]
    fn a_pod_gets_what_schedulers_read() {
        let container = json!({
            "name": "c", "image": "r:5000/a", "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        });
        let pod = filled("pods", json!({"spec": {"hostNetwork": true, "containers": [container]}}));
        assert_eq!(pod["spec"]["schedulerName"], "default-scheduler");
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "Guaranteed"}));
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
        assert_eq!(container["ports"][0]["hostPort"], 80);
        assert_eq!(container["imagePullPolicy"], "Always");
    }

    #[test]
    fn what_is_said_stays() {
        let pod = filled(
            "pods",
            json!({"spec": {"schedulerName": "mine"}, "status": {"phase": "Running"}}),
        );
        assert_eq!(pod["spec"]["schedulerName"], "mine");
        assert_eq!(pod["status"]["phase"], "Running");
        let node = filled("nodes", json!({"status": {"capacity": {"cpu": "4"}}}));
        assert_eq!(node["status"]["allocatable"]["cpu"], "4");
    }
}
