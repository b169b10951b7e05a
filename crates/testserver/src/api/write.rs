//! Requests that write: dispatch by verb and subresource, and `update` itself.

use std::sync::Arc;

use http::Response;
use serde_json::Value;

use super::create::create_stored;
use super::{ApiHandler, ObjectRequest, list, object_of, table};
use crate::counts::RequestOrigin;
use crate::failure::FailureStatus;
use crate::kinds::Trait;
use crate::protobuf;
use crate::request::{RequestTarget, ResponseShape};
use crate::respond::{self, Body};
use crate::store::{Stored, UpdateMode, key_of, metadata, text};

impl ApiHandler {
    pub(super) fn write(
        &self,
        asked: &ObjectRequest,
        body: &[u8],
    ) -> Result<Response<Body>, FailureStatus> {
        let target = &asked.target;
        let kind = target.id.kind();
        let readable = ["", "application/json", protobuf::CONTENT_TYPE];
        if asked.verb != "patch" && !readable.contains(&&*asked.content_type) {
            return Err(FailureStatus::unsupported_media_type(&["application/json"]));
        }
        match (kind.kind, asked.verb, &*target.subresource) {
            (_, "create", "") => self.create(asked, body),
            (_, "update", "") => self.update(asked, body, UpdateMode::Whole),
            (_, "patch", "") => self.patch(asked, body, UpdateMode::Whole),
            (_, "delete", "") => self.delete(asked, body),
            (_, "deletecollection", "") => self.delete_all(asked, body),
            (_, "update", "status") if kind.has(Trait::Status) => {
                self.update(asked, body, UpdateMode::Status)
            }
            (_, "patch", "status") if kind.has(Trait::Status) => {
                self.patch(asked, body, UpdateMode::Status)
            }
            ("Pod", "create", "binding") => self.bind(asked, body),
            ("Pod", "create", "eviction") => self.evict(asked, body),
            // A namespace is finalized by the controller that empties it. This server does that at
            // once.
            ("Namespace", "update", "finalize") => self.update(asked, body, UpdateMode::Whole),
            _ => Ok(respond::no_such_path()),
        }
    }

    fn update(
        &self,
        asked: &ObjectRequest,
        body: &[u8],
        mode: UpdateMode,
    ) -> Result<Response<Body>, FailureStatus> {
        let target = &asked.target;
        let kind = target.id.kind();
        let object = stored_form(target, object_of(body)?)?;
        check_name(target, &object)?;
        let origin = origin(asked);
        let mut state = self.shared.lock();
        let is_there = state.get(target.id, &key_of(target.namespace(), target.name())).is_some();
        if !is_there && mode == UpdateMode::Whole && kind.has(Trait::CreatedByUpdate) {
            let created = create_stored(&mut state, asked, object, self.options().release)?;
            drop(state);
            return Ok(answer(asked, 201, &created));
        }
        let name = (target.namespace(), target.name());
        let dry_run = asked.query.dry_run;
        let stored = state.update(target.id, name, mode, &origin, dry_run, |_, _| Ok(object))?;
        drop(state);
        Ok(answer(asked, 200, &stored))
    }
}

/// Where a write comes from, for the log.
pub(super) fn origin(asked: &ObjectRequest) -> RequestOrigin {
    let subresource = match &*asked.target.subresource {
        "status" => "status",
        _ => "",
    };
    RequestOrigin::at(asked.verb, subresource)
}

/// One object, in the form that was asked for.
pub(super) fn answer(asked: &ObjectRequest, code: u16, object: &Arc<Stored>) -> Response<Body> {
    let target = &asked.target;
    match asked.shape {
        ResponseShape::Table => {
            let table = table::of(target, std::slice::from_ref(object), object.version, None);
            respond::json(code, &table)
        }
        ResponseShape::Metadata => {
            respond::json(code, &list::metadata_of(object, target, "PartialObjectMetadata"))
        }
        ResponseShape::Object | ResponseShape::Groups => {
            respond::bytes(code, list::written(target, object))
        }
    }
}

/// An object of a request in the form in which it is stored. Its kind must match the path.
pub(super) fn stored_form(target: &RequestTarget, object: Value) -> Result<Value, FailureStatus> {
    let (api_version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
    let wanted = target.id.kind().kind;
    if !kind.is_empty() && kind != wanted {
        let why =
            format!("the kind in the data ({kind}) does not match the expected kind ({wanted})");
        return Err(FailureStatus::bad_request(why));
    }
    if !api_version.is_empty() && api_version != target.api_version {
        let why = format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            target.api_version
        );
        return Err(FailureStatus::bad_request(why));
    }
    let mut object = target.form().store(object);
    set_namespace(target, &mut object)?;
    Ok(object)
}

/// The namespace of the path is that of the object.
fn set_namespace(target: &RequestTarget, object: &mut Value) -> Result<(), FailureStatus> {
    let meta = metadata(object);
    match &target.namespace {
        None => {
            meta.remove("namespace");
        }
        Some(namespace) => {
            let said = meta.get("namespace").and_then(Value::as_str).unwrap_or_default();
            if !said.is_empty() && said != namespace {
                let why = "the namespace of the provided object does not match the namespace sent on the request";
                return Err(FailureStatus::bad_request(why));
            }
            meta.insert("namespace".to_owned(), namespace.clone().into());
        }
    }
    Ok(())
}

/// The name of the path is that of the object.
pub(super) fn check_name(target: &RequestTarget, object: &Value) -> Result<(), FailureStatus> {
    let name = text(object, "/metadata/name");
    if name == target.name() {
        return Ok(());
    }
    let wanted = target.name();
    let why =
        format!("the name of the object ({name}) does not match the name on the URL ({wanted})");
    Err(FailureStatus::bad_request(why))
}
