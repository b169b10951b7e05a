//! `delete` and `deletecollection`.

use std::time::Duration;

use http::Response;
use serde_json::{Value, json};

use super::{ApiHandler, ObjectRequest, admission, list, object_of};
use crate::counts::RequestOrigin;
use crate::failure::FailureStatus;
use crate::kinds::{self, Trait};
use crate::options::Terminating;
use crate::request::Query;
use crate::respond::{self, Body};
use crate::store::{DeleteOptions, Deleted, State, field_object, metadata, now};

impl ApiHandler {
    pub(super) fn delete(
        &self,
        asked: &ObjectRequest,
        body: &[u8],
    ) -> Result<Response<Body>, FailureStatus> {
        let target = &asked.target;
        let kind = target.id.kind();
        let mut options = read_options(body, &asked.query)?;
        let mut state = self.shared.lock();
        let origin = RequestOrigin::new("delete");
        if kind.kind == "Namespace" {
            empty_namespace(&mut state, target.name(), &options)?;
            // It has been checked, and has another version now.
            options.version = None;
        }
        let name = (target.namespace(), target.name());
        let lasts = self.options().terminating_namespaces != Terminating::GoneAfter(Duration::ZERO);
        let deleted = match kind.kind == "Namespace" && lasts && !options.dry_run {
            true => state.end_namespace(target.id, target.name(), &origin).map(Deleted::Ending),
            false => None,
        };
        let deleted = match deleted {
            Some(deleted) => deleted,
            None => state.delete(target.id, name, &options, &origin)?,
        };
        drop(state);
        self.shared.dying.notify_one();
        Ok(match deleted {
            Deleted::Gone(object) if !kind.has(Trait::ReturnsDeleted) => {
                let mut details = json!({
                    "name": object.name, "kind": kind.plural, "uid": object.uid,
                });
                if !kind.group().is_empty() {
                    details["group"] = kind.group().into();
                }
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                });
                respond::json(200, &status)
            }
            Deleted::Gone(object) | Deleted::Ending(object) => {
                super::write::answer(asked, 200, &object)
            }
        })
    }

    pub(super) fn delete_all(
        &self,
        asked: &ObjectRequest,
        body: &[u8],
    ) -> Result<Response<Body>, FailureStatus> {
        let target = &asked.target;
        let kind = target.id.kind();
        if kind.kind == "Namespace" || kind.namespaced != target.namespace.is_some() {
            return Err(FailureStatus::method_not_allowed());
        }
        let options = read_options(body, &asked.query)?;
        let selection = list::selection(target, &asked.query)?;
        let mut state = self.shared.lock();
        let all = state.page(target.id, &selection, None, None, asked.query.limit);
        let all = all.map(|page| page.items).unwrap_or_default();
        let mut items = Vec::new();
        for object in &all {
            let name = (object.namespace.as_str(), object.name.as_str());
            let (Deleted::Gone(object) | Deleted::Ending(object)) =
                state.delete(target.id, name, &options, &RequestOrigin::new("deletecollection"))?;
            items.push(object.shown(target.form(), &target.api_version, kind.kind));
        }
        let version = state.version().to_string();
        drop(state);
        self.shared.dying.notify_one();
        let list = json!({
            "kind": format!("{}List", kind.kind), "apiVersion": target.api_version,
            "metadata": { "resourceVersion": version }, "items": items,
        });
        Ok(respond::json(200, &list))
    }
}

fn read_options(body: &[u8], query: &Query) -> Result<DeleteOptions, FailureStatus> {
    let options = if body.is_empty() { Value::Null } else { object_of(body)? };
    Ok(options_of(&options, query))
}

/// `DeleteOptions` of a body, and what the query says.
pub(super) fn options_of(options: &Value, query: &Query) -> DeleteOptions {
    let owned = |pointer: &str| options.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let grace = options.get("gracePeriodSeconds").and_then(Value::as_i64);
    let dry_run = options.get("dryRun").and_then(Value::as_array);
    DeleteOptions {
        grace_seconds: grace.or(query.grace_seconds),
        uid: owned("/preconditions/uid"),
        version: owned("/preconditions/resourceVersion"),
        dry_run: query.dry_run || dry_run.is_some_and(|all| all.iter().any(|how| how == "All")),
    }
}

/// Deletes everything in a namespace, as its controller does once it terminates. Objects with
/// finalizers stay, but the namespace is removed nevertheless.
fn empty_namespace(
    state: &mut State,
    name: &str,
    options: &DeleteOptions,
) -> Result<(), FailureStatus> {
    let id = kinds::named("namespaces").expect("the table has namespaces");
    if admission::LASTING.contains(&name) {
        let why = "this namespace may not be deleted";
        return Err(FailureStatus::forbidden(id.kind().resource(), name, why));
    }
    let namespace = state.check_delete(id, ("", name), options)?;
    if options.dry_run {
        return Ok(());
    }
    let origin = RequestOrigin::new("delete");
    let mut object = namespace.value();
    metadata(&mut object).insert("deletionTimestamp".to_owned(), now().into());
    field_object(&mut object, "status").insert("phase".to_owned(), "Terminating".into());
    state.put(id, object, &origin);
    let at_once = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
    for (kind_id, kind) in kinds::all().filter(|(_, kind)| kind.namespaced) {
        let inside = state.objects(kind_id).filter(|object| object.namespace == name);
        let inside: Vec<_> = inside.map(|object| object.name.clone()).collect();
        for object in inside {
            let gone = state.delete(kind_id, (name, &object), &at_once, &origin);
            debug_assert!(gone.is_ok(), "{} {object} was there", kind.kind);
        }
    }
    Ok(())
}
