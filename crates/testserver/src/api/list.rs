//! `get` and `list`.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::stream;
use http::Response;
use serde_json::{Value, json};

use super::{ApiHandler, ObjectRequest, table};
use crate::failure::{FailureStatus, FieldError};
use crate::kinds::Qualified;
use crate::request::{Query, RequestTarget, ResponseShape};
use crate::respond::{self, Body};
use crate::selector::{Selection, parse_fields, parse_labels};
use crate::store::{Page, Stored, key_of};

/// Long lists are sent in chunks of about this many bytes.
const CHUNK: usize = 64 * 1024;

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You \
can start a new list without the continue parameter, or use the continue token in this response to retrieve the \
remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

impl ApiHandler {
    pub(super) fn get(&self, asked: &ObjectRequest) -> Result<Response<Body>, FailureStatus> {
        let target = &asked.target;
        let kind = target.id.kind();
        // Reading a status returns the whole object; other subresources cannot be read.
        if !["", "status"].contains(&&*target.subresource) {
            return Ok(respond::no_such_path());
        }
        let state = self.shared.lock();
        let object = state.get(target.id, &key_of(target.namespace(), target.name())).cloned();
        let version = state.version();
        drop(state);
        let object =
            object.ok_or_else(|| FailureStatus::not_found(kind.resource(), target.name()))?;
        Ok(match asked.shape {
            ResponseShape::Table => {
                respond::json(200, &table::of(target, &[object], version, None))
            }
            ResponseShape::Metadata => {
                respond::json(200, &metadata_of(&object, target, "PartialObjectMetadata"))
            }
            ResponseShape::Object | ResponseShape::Groups => {
                respond::bytes(200, written(target, &object))
            }
        })
    }

    pub(super) fn list(&self, asked: &ObjectRequest) -> Result<Response<Body>, FailureStatus> {
        let (target, query) = (&asked.target, &asked.query);
        check_list_options(query)?;
        let selection = selection(target, query)?;
        let page = self.page(target, query, &selection)?;
        let proceed = page.last.as_ref().map(|key| token(page.version.cast_signed(), key));
        let mut metadata = json!({ "resourceVersion": page.version.to_string() });
        if let Some(proceed) = proceed {
            metadata["continue"] = proceed.into();
        }
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        Ok(match asked.shape {
            ResponseShape::Table => {
                let table = table::of(target, &page.items, page.version, Some(metadata));
                respond::json(200, &table)
            }
            ResponseShape::Metadata => {
                let items = page.items.iter();
                let items = items.map(|o| metadata_of(o, target, "PartialObjectMetadata"));
                let list = json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                    "items": items.collect::<Vec<_>>(),
                });
                respond::json(200, &list)
            }
            ResponseShape::Object | ResponseShape::Groups => send(target, page, &metadata),
        })
    }

    fn page(
        &self,
        target: &RequestTarget,
        query: &Query,
        selection: &Selection,
    ) -> Result<Page, FailureStatus> {
        let state = self.shared.lock();
        if !query.proceed.is_empty() {
            let (version, key) = read_token(&query.proceed)?;
            // A token without a version continues with the present state.
            let at = u64::try_from(version).ok();
            let page = state.page(target.id, selection, at, Some(&key), query.limit);
            return page.ok_or_else(|| {
                let mut expired = FailureStatus::expired(CONTINUE_EXPIRED);
                expired.proceed = Some(token(-1, &key));
                expired
            });
        }
        let version = version_of(&query.version)?;
        if state.version() < version {
            return Err(too_large(version, state.version()));
        }
        // As in kube-apiserver, a limited list at a version is one at exactly that version.
        let is_exact = query.version_match == "Exact"
            || (query.version_match.is_empty() && 0 < query.limit && 0 < version);
        let at = is_exact.then_some(version);
        state.page(target.id, selection, at, None, query.limit).ok_or_else(|| {
            FailureStatus::expired("The resourceVersion for the provided list is too old.")
        })
    }
}

/// The object on the wire, in the form of its group and version.
pub(super) fn written(target: &RequestTarget, object: &Stored) -> Vec<u8> {
    let item = object.item(target.form());
    let mut out = target.head().into_bytes();
    out.extend_from_slice(&item[1..]);
    out
}

/// Only the metadata of an object.
pub(super) fn metadata_of(object: &Stored, target: &RequestTarget, kind: &str) -> Value {
    let mut object = object.shown(target.form(), &target.api_version, target.id.kind().kind);
    json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"].take() })
}

/// What a list or a watch is about.
pub(super) fn selection(target: &RequestTarget, query: &Query) -> Result<Selection, FailureStatus> {
    let kind = target.id.kind();
    let mut fields = parse_fields(kind, &query.fields)?;
    if let Some(name) = &target.name {
        fields.extend(parse_fields(kind, &format!("metadata.name={name}"))?);
    }
    let namespace = target.namespace.clone();
    Ok(Selection { namespace, labels: parse_labels(&query.labels)?, fields })
}

/// A resource version in a query; none is 0.
pub(super) fn version_of(text: &str) -> Result<u64, FailureStatus> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let what = Qualified { name: "ListOptions", group: "meta.k8s.io" };
        let why = "strconv.ParseUint: parsing: invalid syntax";
        FailureStatus::invalid(
            what,
            "",
            &[FieldError::invalid("resourceVersion", format!("{text:?}"), why)],
        )
    })
}

/// As `NewTooLargeResourceVersionError`: the client has seen a newer version than this server has.
pub(super) fn too_large(wanted: u64, current: u64) -> FailureStatus {
    let message = format!("Too large resource version: {wanted}, current: {current}");
    FailureStatus::timeout(&message, 1)
        .cause("ResourceVersionTooLarge", "Too large resource version")
}

/// As in `ValidateListOptions`.
fn check_list_options(query: &Query) -> Result<(), FailureStatus> {
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    let wanted = query.version_match.as_str();
    if !wanted.is_empty() {
        if query.version.is_empty() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(field, detail));
        }
        if !query.proceed.is_empty() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(field, detail));
        }
        if !["Exact", "NotOlderThan"].contains(&wanted) {
            let supported = "\"Exact\", \"NotOlderThan\", \"\"";
            errors.push(FieldError::not_supported(field, wanted, supported));
        }
        if wanted == "Exact" && query.version == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    if query.initial_events.is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden("sendInitialEvents", detail));
    }
    if !query.proceed.is_empty() && !["", "0"].contains(&&*query.version) {
        let why = "specifying resource version is not allowed when using continue";
        return Err(FailureStatus::bad_request(why));
    }
    refuse(&errors)
}

/// An error about the options of a list or a watch, if there are any.
pub(super) fn refuse(errors: &[FieldError]) -> Result<(), FailureStatus> {
    match errors {
        [] => Ok(()),
        errors => {
            let what = Qualified { name: "ListOptions", group: "meta.k8s.io" };
            Err(FailureStatus::invalid(what, "", errors))
        }
    }
}

/// A continue token in the format of kube-apiserver; version −1 continues with the present state.
fn token(version: i64, key: &str) -> String {
    let token = json!({ "v": "meta.k8s.io/v1", "rv": version, "start": format!("{key}\u{0}") });
    BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
}

fn read_token(text: &str) -> Result<(i64, String), FailureStatus> {
    let invalid = || FailureStatus::bad_request("continue key is not valid");
    let token = BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| invalid())?;
    let token: Value = serde_json::from_slice(&token).map_err(|_| invalid())?;
    let version = token.get("rv").and_then(Value::as_i64).ok_or_else(invalid)?;
    let start = token.get("start").and_then(Value::as_str).ok_or_else(invalid)?;
    Ok((version, start.trim_end_matches('\u{0}').to_owned()))
}

/// Sends a list: in one piece if it is short, else in chunks that are put together while they are sent.
fn send(target: &RequestTarget, page: Page, metadata: &Value) -> Response<Body> {
    let kind = target.id.kind().kind;
    let api_version = &target.api_version;
    let head = format!(
        "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
    );
    let form = target.form();
    let mut items = page.items.into_iter();
    let mut out = head.into_bytes();
    let is_whole = fill(&mut out, &mut items, |object| object.item(form).clone());
    if is_whole {
        return respond::bytes(200, out);
    }
    let chunks = stream::unfold((Some(out), items), move |(first, mut items)| async move {
        if let Some(first) = first {
            return Some((Ok(first.into()), (None, items)));
        }
        let mut out = Vec::with_capacity(CHUNK + CHUNK / 4);
        if items.as_slice().is_empty() {
            return None;
        }
        out.push(b',');
        fill(&mut out, &mut items, |object| object.item(form).clone());
        Some((Ok(Bytes::from(out)), (None, items)))
    });
    respond::stream(chunks)
}

/// Writes items until a chunk is full. After the last item, ends the list and returns that it has
/// ended.
fn fill(
    out: &mut Vec<u8>,
    items: &mut std::vec::IntoIter<Arc<Stored>>,
    item: impl Fn(&Stored) -> Bytes,
) -> bool {
    let mut is_first = true;
    while out.len() < CHUNK {
        let Some(object) = items.next() else { break };
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        out.extend_from_slice(&item(&object));
    }
    let is_end = items.as_slice().is_empty();
    if is_end {
        out.extend_from_slice(b"]}");
    }
    is_end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_where_to_go_on() {
        assert_eq!(read_token(&token(7, "ns/a")), Ok((7, "ns/a".to_owned())));
        assert_eq!(read_token("nonsense").map_err(|failure| failure.code), Err(400));
    }
}
