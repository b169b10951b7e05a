//! `patch`: JSON patch, merge patch and strategic merge patch.

use http::Response;
use serde_json::Value;

use super::write::{answer, origin, stored_form};
use super::{ApiHandler, ObjectRequest, strategic};
use crate::failure::FailureStatus;
use crate::request::RequestTarget;
use crate::respond::Body;
use crate::store::UpdateMode;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

impl ApiHandler {
    pub(super) fn patch(
        &self,
        asked: &ObjectRequest,
        body: &[u8],
        mode: UpdateMode,
    ) -> Result<Response<Body>, FailureStatus> {
        let target = &asked.target;
        let patch = read(&asked.content_type, body)?;
        let name = (target.namespace(), target.name());
        let mut state = self.shared.lock();
        let change = |_: &_, old: Value| patched(target, old, &patch);
        let dry_run = asked.query.dry_run;
        let stored = state.update(target.id, name, mode, &origin(asked), dry_run, change)?;
        drop(state);
        Ok(answer(asked, 200, &stored))
    }
}

enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

fn read(content_type: &str, body: &[u8]) -> Result<Patch, FailureStatus> {
    let wrong = |error: serde_json::Error| {
        FailureStatus::bad_request(format!("error decoding patch: {error}"))
    };
    match content_type {
        JSON => serde_json::from_slice(body).map(Patch::Json).map_err(wrong),
        MERGE => serde_json::from_slice(body).map(Patch::Merge).map_err(wrong),
        STRATEGIC => serde_json::from_slice(body).map(Patch::Strategic).map_err(wrong),
        _ => Err(FailureStatus::unsupported_media_type(&[JSON, MERGE, STRATEGIC])),
    }
}

/// The stored object `old` after the patch. The patch is applied to the object as this group and
/// version shows it.
fn patched(target: &RequestTarget, old: Value, patch: &Patch) -> Result<Value, FailureStatus> {
    let mut object = target.form().show(old);
    object["apiVersion"] = target.api_version.clone().into();
    object["kind"] = target.id.kind().kind.into();
    match patch {
        Patch::Json(patch) => {
            json_patch::patch(&mut object, patch).map_err(|_| FailureStatus::patch_refused())?;
        }
        Patch::Merge(patch) => json_patch::merge(&mut object, patch),
        Patch::Strategic(patch) => strategic::apply(&mut object, patch)?,
    }
    let object = stored_form(target, object)?;
    super::write::check_name(target, &object)?;
    Ok(object)
}
