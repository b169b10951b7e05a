//! Writes manifests for claims of which only what decisions read is known, as in a recording.

use plimsoll_api::devices::ClaimSource;
use plimsoll_api::wire::{self, Object};
use plimsoll_api::{AnyObject, ObjectKey, PersistentVolumeClaim, Pod, ResourceClaim};
use serde_json::{Value, json};

use crate::change::Reference;
use crate::draft::{CLAIM_TEMPLATE, claim_of};
use crate::relaxations::volumes::{CLAIM, mode_name};

/// The version in which claims on devices are written.
const DEVICES: &str = "resource.k8s.io/v1";

/// Writes the manifest of a claim among `objects`, or of the template from which one was made for the pod: what may be changed
/// of it for the pod. `None` for other objects, and for claims that would not be read again as they are.
pub fn rebuilt_claim(pod: &Pod, objects: &[AnyObject], of: &Reference) -> Option<Value> {
    if of.namespace.as_deref() != Some(pod.key.namespace.as_str()) {
        return None;
    }
    let key = ObjectKey::new(pod.key.namespace.clone(), of.name.as_str());
    let metadata = json!({"name": of.name, "namespace": of.namespace});
    match of.kind.as_str() {
        "ResourceClaim" => {
            let claim = device_claim(objects, &key)?;
            Some(json!({
                "apiVersion": DEVICES, "kind": "ResourceClaim", "metadata": metadata,
                "spec": spec_of(claim)?,
            }))
        }
        // No decision reads a template. Its claims are like it.
        CLAIM_TEMPLATE => {
            let template = ClaimSource::Template(of.name.as_str().into());
            let names = pod.resource_claims.iter().filter(|one| one.source == template);
            let mut made = names.filter_map(|one| claim_of(pod, &one.name));
            let claim = made.find_map(|key| device_claim(objects, &key))?;
            Some(json!({
                "apiVersion": DEVICES, "kind": CLAIM_TEMPLATE, "metadata": metadata,
                "spec": {"spec": spec_of(claim)?},
            }))
        }
        CLAIM => {
            let mut claims = objects.iter().filter_map(AnyObject::get::<PersistentVolumeClaim>);
            volume_claim(claims.find(|claim| claim.key == key)?, &metadata)
        }
        _ => None,
    }
}

fn device_claim<'a>(objects: &'a [AnyObject], key: &ObjectKey) -> Option<&'a ResourceClaim> {
    objects.iter().filter_map(AnyObject::get::<ResourceClaim>).find(|claim| claim.key == *key)
}

/// The spec of a claim on devices, if it is read again as it is.
fn spec_of(claim: &ResourceClaim) -> Option<Value> {
    let spec = claim.spec.to_json(DEVICES);
    let manifest = json!({
        "apiVersion": DEVICES, "kind": "ResourceClaim",
        "metadata": {"name": claim.key.name, "namespace": claim.key.namespace}, "spec": spec,
    });
    let Object::Other(again) = wire::object(&manifest).ok()? else { return None };
    (again.get::<ResourceClaim>()?.spec == claim.spec).then_some(spec)
}

fn volume_claim(claim: &PersistentVolumeClaim, metadata: &Value) -> Option<Value> {
    let modes: Vec<_> = claim.access_modes.iter_names().map(|(name, _)| mode_name(name)).collect();
    let mut spec = json!({
        "accessModes": modes, "storageClassName": claim.class,
        "resources": {"requests": {"storage": claim.requested.canonical()}},
    });
    if let Some(volume) = &claim.volume {
        spec["volumeName"] = json!(volume);
    }
    let manifest = json!({"apiVersion": "v1", "kind": CLAIM, "metadata": metadata, "spec": spec});
    let Object::Other(again) = wire::object(&manifest).ok()? else { return None };
    let again = again.get::<PersistentVolumeClaim>()?;
    let is_same = again.class == claim.class
        && again.requested == claim.requested
        && again.access_modes == claim.access_modes;
    is_same.then_some(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The manifests of two claims on devices, the second made from a template, and of one on a volume.
    fn manifests() -> [Value; 3] {
        [
            json!({"apiVersion": DEVICES, "kind": "ResourceClaim",
            "metadata": {"name": "own", "namespace": "team", "uid": "o"},
            "spec": {"devices": {
                "requests": [
                    {"name": "gpus", "exactly": {
                        "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2,
                        "selectors": [{"cel": {"expression": "true"}}],
                        "tolerations": [{"key": "slow", "operator": "Exists", "effect": "NoSchedule"}],
                        "capacity": {"requests": {"memory": "10Gi"}},
                    }},
                    {"name": "any", "firstAvailable": [
                        {"name": "big", "deviceClassName": "gpu", "allocationMode": "All"},
                        {"name": "small", "deviceClassName": "mig", "allocationMode": "ExactCount", "count": 1},
                    ]},
                ],
                "constraints": [{"requests": ["gpus"], "matchAttribute": "example.com/numa"}],
            }}}),
            json!({"apiVersion": DEVICES, "kind": "ResourceClaim",
            "metadata": {"name": "made-x", "namespace": "team", "uid": "m"},
            "spec": {"devices": {"requests": [{"name": "nic", "exactly": {
                "deviceClassName": "nic", "allocationMode": "ExactCount", "count": 1,
            }}]}}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data", "namespace": "team", "uid": "d"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                    "resources": {"requests": {"storage": "10Gi"}}}}),
        ]
    }

    /// The spec that is written for an object of the kind and the name.
    fn spec(kind: &str, name: &str) -> Option<Value> {
        let objects: Vec<AnyObject> = manifests()
            .iter()
            .map(|manifest| match wire::object(manifest) {
                Ok(Object::Other(object)) => object,
                other => panic!("{other:?}"),
            })
            .collect();
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "team"},
            "spec": {"containers": [{"name": "c"}], "resourceClaims": [
                {"name": "own", "resourceClaimName": "own"},
                {"name": "made", "resourceClaimTemplateName": "template"},
            ]},
            "status": {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "made-x"}]}});
        let Ok(Object::Pod(pod)) = wire::object(&pod) else { panic!("it is a pod") };
        let of = Reference::of(kind, &ObjectKey::new("team", name));
        let told = rebuilt_claim(&pod, &objects, &of)?;
        assert_eq!((&told["kind"], &told["metadata"]["name"]), (&json!(kind), &json!(name)));
        Some(told["spec"].clone())
    }

    #[test]
    fn claims_are_written_as_they_are_read() {
        let [own, made, data] = manifests();
        assert_eq!(spec("ResourceClaim", "own"), Some(own["spec"].clone()));
        assert_eq!(spec("PersistentVolumeClaim", "data"), Some(data["spec"].clone()));
        assert_eq!(spec("ResourceClaim", "made-x"), Some(made["spec"].clone()));
        assert_eq!(spec("ResourceClaim", "none"), None);
        assert_eq!(spec("StorageClass", "fast"), None);
    }

    #[test]
    fn a_template_is_written_like_the_claim_that_was_made_from_it() {
        let [_, made, _] = manifests();
        let like = json!({"spec": made["spec"]});
        assert_eq!(spec("ResourceClaimTemplate", "template"), Some(like));
        assert_eq!(spec("ResourceClaimTemplate", "other"), None);
    }
}
