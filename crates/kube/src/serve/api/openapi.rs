//! The description of the API.

use axum::response::Response;
use http::StatusCode;

use crate::serve::reply;

/// The description, as OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("openapi.json");

/// `/api/v1/openapi.json`.
pub(in crate::serve) async fn description() -> Response {
    reply::json(StatusCode::OK, OPENAPI)
}
