//! What plugins write about claims into the status of pods.

use plimsoll_api::wire::Object;
use plimsoll_api::{KindRef, Pod, PodDevices};
use plimsoll_engine::{WriteCause, WriteError};
use plimsoll_framework::{ObjectWrite, WriteVerb};
use serde_json::{Value, json};

/// The fields of a pod's status about claims that plugins write.
const FIELDS: [&str; 2] = ["extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"];

/// What the API server makes of a write of the status of `pod`, the pod of that name. `None` if the write is about
/// something else.
pub(crate) fn patched_pod(
    pod: Option<&Pod>,
    write: &ObjectWrite,
) -> Option<Result<Pod, WriteError>> {
    let WriteVerb::Patch { subresource: Some(part), merge } = &write.verb else { return None };
    if !write.kind.is::<Pod>() || part != "status" {
        return None;
    }
    let merge = merge.to_value();
    let is_about_claims = FIELDS.iter().any(|field| merge["status"].get(field).is_some());
    is_about_claims.then(|| pod_with(pod, write, &merge))
}

fn pod_with(pod: Option<&Pod>, write: &ObjectWrite, merge: &Value) -> Result<Pod, WriteError> {
    let name = &write.key.name;
    let error = |cause, why: &str| WriteError::new(cause, format!("pods {name:?} {why}"));
    let pod = pod.ok_or_else(|| error(WriteCause::NotFound, "not found"))?;
    if merge["metadata"]["uid"].as_str().is_some_and(|wanted| wanted != pod.uid) {
        return Err(error(WriteCause::Conflict, "has another uid"));
    }
    let manifest = json!({
        "metadata": { "namespace": write.key.namespace, "name": name },
        "spec": {},
        "status": merge["status"],
    });
    let reader = KindRef::of::<Pod>().reader("v1").expect("pods have this version");
    let written = match reader.read(&manifest.to_string()) {
        Ok(Object::Pod(written)) => written.devices.unwrap_or_default(),
        Ok(_) => unreachable!("a reader reads its own kind"),
        Err(why) => return Err(error(WriteCause::Refused, &why.to_string())),
    };
    let mut devices = pod.devices.as_deref().cloned().unwrap_or_default();
    let [extended, node_allocatable] = FIELDS.map(|field| merge["status"].get(field).is_some());
    if extended {
        devices.extended = written.extended;
    }
    if node_allocatable {
        devices.node_allocatable = written.node_allocatable;
    }
    Ok(Pod { devices: boxed(devices), ..pod.clone() })
}

/// What a pod has: nothing if nothing is said.
pub(crate) fn boxed(devices: PodDevices) -> Option<Box<PodDevices>> {
    (!devices.is_empty()).then(|| Box::new(devices))
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{PodKey, Str};

    use super::*;

    fn done(field: &str, value: &Value) -> String {
        let pod = Pod { key: PodKey::new("a", "p"), uid: "u".into(), ..Pod::default() };
        let merge = json!({ "metadata": { "uid": "u" }, "status": { field: value } });
        let verb = WriteVerb::Patch { subresource: Some(Str::from("status")), merge: merge.into() };
        let kind = KindRef::of::<Pod>();
        let write = ObjectWrite { kind, key: pod.key.clone(), verb, purpose: 0 };
        match patched_pod(Some(&pod), &write) {
            None => "not about claims".to_owned(),
            Some(Err(error)) => error.to_string(),
            Some(Ok(pod)) => {
                let said = pod.devices.expect("something is said");
                let extended = said.extended.map(|one| (one.claim, one.requests));
                let allocatable = said.node_allocatable.iter().map(|one| &one.claim);
                format!("{extended:?} {:?}", allocatable.collect::<Vec<_>>())
            }
        }
    }

    #[test]
    fn the_status_of_a_pod_says_what_was_written_about_its_claims() {
        let mapping = json!({ "containerName": "c", "resourceName": "r", "requestName": "q" });
        let extended = json!({ "resourceClaimName": "x", "requestMappings": [mapping] });
        assert_eq!(
            done("extendedResourceClaimStatus", &extended),
            r#"Some(("x", [("c", "r", "q")])) []"#
        );
        let uses = json!([{ "resourceClaimName": "y", "containers": [], "resources": {} }]);
        assert_eq!(done("nodeAllocatableResourceClaimStatuses", &uses), r#"None ["y"]"#);
        assert_eq!(done("phase", &json!("Running")), "not about claims");
    }
}
