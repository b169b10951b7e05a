//! Changes other objects: PersistentVolumes and claims, for the plugins that bind them.

use std::time::Duration;

use kube::core::{ApiResource, GroupVersionKind};
use plimsoll_framework::Patch;
use serde_json::Value;
use tokio::time::Instant;

use super::courier::{Again, Courier, earlier, json, may_be_done};
use crate::call::{Ask, MERGE_PATCH, segment};

/// The timeout for reading an object that may have been changed.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

impl Courier {
    /// Changes an object once.
    pub(super) async fn patch(&self, patch: &Patch, deadline: Instant) -> Result<(), String> {
        let object = path_of(patch);
        let target = match &patch.subresource {
            Some(subresource) => format!("{object}/{}", segment(subresource)),
            None => object.clone(),
        };
        let ask = Ask::patch(target, MERGE_PATCH, json(&patch.merge));
        let answered = self.deliver(&ask, Again::IfNotTaken, earlier(deadline, LOOK_TIMEOUT)).await;
        let Err(failed) = answered else { return Ok(()) };
        if may_be_done(&failed)
            && let Ok(body) = self.read(object, LOOK_TIMEOUT).await
            && let Ok(object) = serde_json::from_slice::<Value>(&body)
            && says(&object, &patch.merge)
        {
            tracing::info!(
                kind = %patch.kind,
                name = %patch.key,
                error = %failed,
                "the request failed, but the object is changed"
            );
            return Ok(());
        }
        Err(failed.to_string())
    }
}

fn path_of(patch: &Patch) -> String {
    let (group, version) = patch.api_version.split_once('/').unwrap_or(("", &patch.api_version));
    let kind = GroupVersionKind::gvk(group, version, &patch.kind);
    let plural = ApiResource::from_gvk(&kind).plural;
    let api = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let name = segment(&patch.key.name);
    match patch.key.namespace.as_str() {
        "" => format!("{api}/{plural}/{name}"),
        namespace => format!("{api}/namespaces/{}/{plural}/{name}", segment(namespace)),
    }
}

/// Whether `object` has the state that the merge patch requests. Preconditions in the patch are
/// ignored.
fn says(object: &Value, merge: &Value) -> bool {
    match (object, merge) {
        (object, Value::Null) => object.is_null(),
        (object, Value::Object(fields)) => fields.iter().all(|(name, wanted)| {
            name == "resourceVersion" || says(object.get(name).unwrap_or(&Value::Null), wanted)
        }),
        (object, wanted) => object == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_api::ObjectKey;
    use serde_json::json;

    #[test]
    fn objects_have_the_paths_of_their_kinds() {
        let path = |api_version: &str, kind: &str, key| {
            path_of(&Patch {
                api_version: api_version.into(),
                kind: kind.into(),
                key,
                subresource: None,
                merge: Value::Null,
            })
        };
        let claim = path("v1", "PersistentVolumeClaim", ObjectKey::new("ns", "c"));
        assert_eq!(claim, "/api/v1/namespaces/ns/persistentvolumeclaims/c");
        let volume = path("v1", "PersistentVolume", ObjectKey::new("", "v"));
        assert_eq!(volume, "/api/v1/persistentvolumes/v");
        let other = path("resource.k8s.io/v1", "ResourceClaim", ObjectKey::new("ns", "a b"));
        assert_eq!(other, "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/a%20b");
    }

    #[test]
    fn a_change_is_recognised_whatever_else_changed() {
        let merge = json!({
            "metadata": { "uid": "u", "resourceVersion": "4", "annotations": { "a": "b" } },
            "spec": { "gone": null },
        });
        let object = json!({
            "metadata": { "uid": "u", "resourceVersion": "9", "annotations": { "a": "b", "c": "d" } },
            "spec": { "x": 1 },
        });
        assert!(says(&object, &merge));
        for (pointer, other) in [("/metadata/uid", "v"), ("/metadata/annotations/a", "c")] {
            let mut object = object.clone();
            *object.pointer_mut(pointer).expect("it is there") = json!(other);
            assert!(!says(&object, &merge), "{pointer}");
        }
        assert!(!says(&json!({}), &merge));
    }
}
