//! `/api/v1/capacity`: how many more pods fit.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use plimsoll_api::{KindRef, ObjectKey, PodGroup};
use serde_json::Value;

use super::asker::{Asker, Picture, told};
use super::manifests::AskedManifests;
use super::posted::asked;
use crate::serve::capacity_question::{CapacityQuestion, CapacityRequest, CapacitySubject};
use crate::serve::routes::unavailable;

/// Answers how many more pods fit.
pub(in crate::serve) async fn capacity(asker: Asker, body: Body) -> Response {
    told(answer(&asker, body).await)
}

async fn answer(asker: &Asker, body: Body) -> Result<Value, Response> {
    let request = CapacityRequest::read(&asked(asker, body).await?);
    let request = request.map_err(|why| asker.wrong(&why))?;
    match &request.subject {
        CapacitySubject::Group(group) => must_see(asker, group).await?,
        CapacitySubject::AllShapes { namespace: Some(one) } => asker.must("list", one, "").await?,
        CapacitySubject::AllShapes { namespace: None } | CapacitySubject::Manifests(_) => {}
    }
    let permitted = asker.permitted().map_err(|refusal| *refusal)?;
    let (snapshot, _) = asker.state.scheduler.snapshot(None).await.map_err(unavailable)?;
    let picture = Picture::of(&snapshot);
    let hidden = match &request.subject {
        CapacitySubject::AllShapes { namespace: None } => hidden(asker, &picture).await?,
        _ => BTreeSet::new(),
    };
    let manifests = Arc::new(AskedManifests::new(asker));
    let question = CapacityQuestion { request, snapshot, manifests, hidden };
    asker.answer(permitted, picture, "", move |advisor| advisor.capacity(question)).await
}

/// The answer names the pods of the group and is based on their manifests and that of its PodGroup, so the user must be allowed
/// to read these.
async fn must_see(asker: &Asker, group: &ObjectKey) -> Result<(), Response> {
    asker.must("list", &group.namespace, "").await?;
    asker.must("get", &group.namespace, "").await?;
    asker.must_with(KindRef::of::<PodGroup>(), "get", &group.namespace, &group.name).await
}

/// The namespaces whose shapes the user may not see by name.
async fn hidden(asker: &Asker, picture: &Picture) -> Result<BTreeSet<String>, Response> {
    let hidden = asker.hidden_of_few(picture.namespaces().clone()).await?;
    hidden.ok_or_else(|| {
        asker.wrong("you may not list the pods of all namespaces: name one (namespace)")
    })
}
