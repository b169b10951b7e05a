//! Writes objects for plugins.

use std::time::Duration;

use http::StatusCode;
use plimsoll_api::ObjectKey;
use plimsoll_engine::{WriteCause, WriteError};
use plimsoll_framework::{Json, ObjectWrite, WriteVerb};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::sender::{RequestSender, RetryPolicy, earlier, json as body, may_have_taken_effect};
use crate::api_resource::ApiResource;
use crate::call::{ApiError, ApiRequest, MERGE_PATCH, segment};

/// The timeout for reading an object that may have been changed.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

impl RequestSender {
    /// Writes an object, once.
    pub(super) async fn write_object(
        &self,
        write: &ObjectWrite,
        deadline: Instant,
    ) -> Result<(), WriteError> {
        let resource = self.options().served.resource(write.kind);
        let object = resource.object_path(&write.key);
        let request = request(write, resource);
        let result =
            self.send(&request, RetryPolicy::IfNotProcessed, earlier(deadline, READ_TIMEOUT)).await;
        let Err(failed) = result else { return Ok(()) };
        if may_have_taken_effect(&failed) && self.is_done(write, object).await {
            let (verb, kind, name) = (write.verb.as_str(), write.kind.as_str(), &write.key);
            tracing::info!(verb, kind, %name, error = %failed, "the request failed, but the write has taken effect");
            return Ok(());
        }
        Err(WriteError::new(cause(&failed), failed.to_string()))
    }

    /// Whether an unanswered write has taken effect.
    async fn is_done(&self, write: &ObjectWrite, object: String) -> bool {
        let read = self.read(object, READ_TIMEOUT).await;
        match &write.verb {
            WriteVerb::Delete { .. } => read.is_err_and(|failed| failed.is_not_found()),
            // An object of this name may have been created by somebody else.
            WriteVerb::Create(_) => false,
            WriteVerb::Update(wanted) | WriteVerb::Patch { merge: wanted, .. } => {
                let object = read.ok().and_then(|body| serde_json::from_slice::<Value>(&body).ok());
                object.is_some_and(|object| matches_patch(&object, &wanted.to_value()))
            }
        }
    }
}

/// The request for a write.
fn request(write: &ObjectWrite, resource: ApiResource) -> ApiRequest {
    let object = resource.object_path(&write.key);
    match &write.verb {
        WriteVerb::Create(manifest) => ApiRequest::post(
            resource.collection_path(&write.key),
            body(&complete(manifest, resource, &write.key)),
        ),
        WriteVerb::Update(manifest) => {
            ApiRequest::put(object, body(&complete(manifest, resource, &write.key)))
        }
        WriteVerb::Patch { subresource, merge } => {
            let target = match subresource {
                Some(subresource) => format!("{object}/{}", segment(subresource)),
                None => object,
            };
            ApiRequest::patch(target, MERGE_PATCH, merge.as_str().into())
        }
        WriteVerb::Delete { uid } if uid.is_empty() => ApiRequest::delete(object, Vec::new()),
        WriteVerb::Delete { uid } => {
            let options = json!({
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": { "uid": uid },
            });
            ApiRequest::delete(object, body(&options))
        }
    }
}

/// A manifest with the fields that follow from its kind and key.
fn complete(manifest: &Json, resource: ApiResource, key: &ObjectKey) -> Value {
    let mut complete = resource.kind.convert(manifest.to_value(), resource.api_version);
    complete["apiVersion"] = json!(resource.api_version);
    complete["kind"] = json!(resource.kind.as_str());
    complete["metadata"]["name"] = json!(key.name);
    if resource.kind.is_namespaced() {
        complete["metadata"]["namespace"] = json!(key.namespace);
    }
    complete
}

/// The cause of a failed write.
fn cause(failed: &ApiError) -> WriteCause {
    let status = match failed {
        ApiError::Status(status) => status,
        ApiError::NoResponse(_) => return WriteCause::TimedOut,
        ApiError::NotSent(_) => return WriteCause::Other,
    };
    match status.code {
        StatusCode::NOT_FOUND => WriteCause::NotFound,
        StatusCode::CONFLICT if status.reason == "AlreadyExists" => WriteCause::AlreadyExists,
        StatusCode::CONFLICT => WriteCause::Conflict,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => WriteCause::Other,
        code if code.is_client_error() => WriteCause::Refused,
        _ => WriteCause::Other,
    }
}

/// Whether `object` has the values of a merge patch. Its `resourceVersion` is a precondition and does not
/// count.
fn matches_patch(object: &Value, merge: &Value) -> bool {
    match (object, merge) {
        (object, Value::Null) => object.is_null(),
        (object, Value::Object(fields)) => fields.iter().all(|(name, wanted)| {
            name == "resourceVersion"
                || matches_patch(object.get(name).unwrap_or(&Value::Null), wanted)
        }),
        (object, wanted) => object == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_recognised_whatever_else_changed() {
        let merge = json!({
            "metadata": { "uid": "u", "resourceVersion": "4", "annotations": { "a": "b" } },
            "spec": { "gone": null },
        });
        let object = json!({
            "metadata": { "uid": "u", "resourceVersion": "9", "annotations": { "a": "b", "c": "d" } },
            "spec": { "x": 1 },
        });
        assert!(matches_patch(&object, &merge));
        for (pointer, other) in [("/metadata/uid", "v"), ("/metadata/annotations/a", "c")] {
            let mut object = object.clone();
            *object.pointer_mut(pointer).expect("it is there") = json!(other);
            assert!(!matches_patch(&object, &merge), "{pointer}");
        }
        assert!(!matches_patch(&json!({}), &merge));
    }
}
