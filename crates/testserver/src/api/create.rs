//! `create`.

use std::sync::Arc;

use http::Response;
use serde_json::Value;

use super::write::{answer, origin, stored_form};
use super::{ApiHandler, ObjectRequest, admission, object_of};
use crate::defaults;
use crate::failure::FailureStatus;
use crate::kinds::Trait;
use crate::respond::Body;
use crate::store::{State, Stored};

impl ApiHandler {
    pub(super) fn create(
        &self,
        asked: &ObjectRequest,
        body: &[u8],
    ) -> Result<Response<Body>, FailureStatus> {
        let target = &asked.target;
        if target.name.is_some() || target.id.kind().namespaced != target.namespace.is_some() {
            return Err(FailureStatus::method_not_allowed());
        }
        let object = stored_form(target, object_of(body)?)?;
        let mut state = self.shared.lock();
        let created = create_stored(&mut state, asked, object, self.options().release)?;
        drop(state);
        Ok(answer(asked, 201, &created))
    }
}

/// Stores a new object as a request may create it. The object is in its stored form.
pub(super) fn create_stored(
    state: &mut State,
    asked: &ObjectRequest,
    mut object: Value,
    release: u32,
) -> Result<Arc<Stored>, FailureStatus> {
    let target = &asked.target;
    let kind = target.id.kind();
    admission::namespace_exists(state, kind, target.namespace(), &object)?;
    if kind.has(Trait::Status) && !kind.has(Trait::BornWithStatus) {
        defaults::reset_status(kind, &mut object);
    }
    admission::admit(state, kind, &mut object, release)?;
    defaults::fill(kind, &mut object);
    state.create(target.id, object, &origin(asked), asked.query.dry_run)
}
