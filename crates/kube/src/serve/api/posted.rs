//! `/api/v1/what-if` and `/api/v1/rebalance`: questions whose bodies are JSON.

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use plimsoll_engine::ClusterSnapshot;
use serde_json::Value;

use super::asker::{Asker, Picture, told};
use crate::serve::advisor::{AdviceError, Advisor};
use crate::serve::limits;
use crate::serve::routes::unavailable;

/// What the advisor is asked.
type Ask = fn(&dyn Advisor, ClusterSnapshot, &Value) -> Result<Value, AdviceError>;

/// What would happen if the cluster changed.
pub(in crate::serve) async fn what_if(asker: Asker, body: Body) -> Response {
    told(answer(&asker, body, <dyn Advisor>::what_if).await)
}

/// Which pods should move.
pub(in crate::serve) async fn rebalance(asker: Asker, body: Body) -> Response {
    told(answer(&asker, body, <dyn Advisor>::rebalance).await)
}

async fn answer(asker: &Asker, body: Body, ask: Ask) -> Result<Value, Response> {
    let request = asked(asker, body).await?;
    let permitted = asker.permitted().map_err(|refusal| *refusal)?;
    let taken = asker.state.scheduler.snapshot(None).await;
    let (snapshot, _) = taken.map_err(unavailable)?;
    let picture = Picture::of(&snapshot);
    asker.answer(permitted, picture, "", move |advisor| ask(advisor, snapshot, &request)).await
}

/// What the body of a question has.
pub(super) async fn asked(asker: &Asker, body: Body) -> Result<Value, Response> {
    let read = Limited::new(body, limits::QUESTION_BYTES).collect().await;
    let body = read.map_err(|error| match error.is::<LengthLimitError>() {
        true => asker.error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            "the body is too large",
        ),
        false => asker.wrong(&format!("the body cannot be read: {error}")),
    })?;
    serde_json::from_slice(&body.to_bytes())
        .map_err(|error| asker.wrong(&format!("the body is not JSON: {error}")))
}
