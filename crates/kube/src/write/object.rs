//! Writing the objects of other kinds, for plugins.

use std::time::Duration;

use http::StatusCode;
use plimsoll_api::ObjectKey;
use plimsoll_engine::{WriteCause, WriteError};
use plimsoll_framework::{ObjectWrite, WriteVerb};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::courier::{Again, Courier, earlier, json as body, may_be_done};
use crate::api_resource::ApiResource;
use crate::call::{Ask, Failed, MERGE_PATCH, segment};

/// The timeout for reading an object that may have been changed.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

impl Courier {
    /// Writes an object, once.
    pub(super) async fn write_object(
        &self,
        write: &ObjectWrite,
        deadline: Instant,
    ) -> Result<(), WriteError> {
        let resource = self.options().served.resource(write.kind);
        let object = resource.object_path(&write.key);
        let ask = ask(write, resource);
        let answered = self.deliver(&ask, Again::IfNotTaken, earlier(deadline, LOOK_TIMEOUT)).await;
        let Err(failed) = answered else { return Ok(()) };
        if may_be_done(&failed) && self.is_done(write, object).await {
            let (verb, kind, name) = (write.verb.as_str(), write.kind.as_str(), &write.key);
            tracing::info!(verb, kind, %name, error = %failed, "the write was done although it was not answered");
            return Ok(());
        }
        Err(WriteError::new(cause(&failed), failed.to_string()))
    }

    /// Whether an object is as a write without an answer wanted it.
    async fn is_done(&self, write: &ObjectWrite, object: String) -> bool {
        let found = self.read(object, LOOK_TIMEOUT).await;
        match &write.verb {
            WriteVerb::Delete { .. } => found.is_err_and(|failed| failed.is_not_found()),
            // Whether an object of this name is the one that was to be made nobody can tell.
            WriteVerb::Create(_) => false,
            WriteVerb::Update(wanted) | WriteVerb::Patch { merge: wanted, .. } => {
                let object =
                    found.ok().and_then(|body| serde_json::from_slice::<Value>(&body).ok());
                object.is_some_and(|object| says(&object, wanted))
            }
        }
    }
}

/// The request that does it.
fn ask(write: &ObjectWrite, resource: ApiResource) -> Ask {
    let object = resource.object_path(&write.key);
    match &write.verb {
        WriteVerb::Create(manifest) => Ask::post(
            resource.collection_path(&write.key),
            body(&whole(manifest, resource, &write.key)),
        ),
        WriteVerb::Update(manifest) => {
            Ask::put(object, body(&whole(manifest, resource, &write.key)))
        }
        WriteVerb::Patch { subresource, merge } => {
            let target = match subresource {
                Some(subresource) => format!("{object}/{}", segment(subresource)),
                None => object,
            };
            Ask::patch(target, MERGE_PATCH, body(merge))
        }
        WriteVerb::Delete { uid } if uid.is_empty() => Ask::delete(object, Vec::new()),
        WriteVerb::Delete { uid } => {
            let options = json!({
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": { "uid": uid },
            });
            Ask::delete(object, body(&options))
        }
    }
}

/// A manifest with what it need not say.
fn whole(manifest: &Value, resource: ApiResource, key: &ObjectKey) -> Value {
    let mut whole = manifest.clone();
    whole["apiVersion"] = json!(resource.api_version);
    whole["kind"] = json!(resource.kind.as_str());
    whole["metadata"]["name"] = json!(key.name);
    if resource.kind.is_namespaced() {
        whole["metadata"]["namespace"] = json!(key.namespace);
    }
    whole
}

/// What kind of failure it is.
fn cause(failed: &Failed) -> WriteCause {
    let refusal = match failed {
        Failed::Refused(refusal) => refusal,
        Failed::Unanswered(_) => return WriteCause::TimedOut,
        Failed::NotSent(_) => return WriteCause::Other,
    };
    match refusal.code {
        StatusCode::NOT_FOUND => WriteCause::NotFound,
        StatusCode::CONFLICT if refusal.reason == "AlreadyExists" => WriteCause::AlreadyExists,
        StatusCode::CONFLICT => WriteCause::Conflict,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => WriteCause::Other,
        code if code.is_client_error() => WriteCause::Refused,
        _ => WriteCause::Other,
    }
}

/// Whether `object` is as a merge patch wants it. What the patch takes for granted of the version before
/// does not count.
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
