//! The checks before a request is answered: rate limit, authentication and authorization.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::{Method, StatusCode};

use super::auth::{Access, AuthorizationResult};
use super::server_state::{Peer, ServerState};
use super::ui::is_of_page;
use super::{limits, reply};

/// Health checks cost almost nothing, and must always be answered.
const FREE: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Passes a request on, or answers why not.
pub(super) async fn pass(
    State(state): State<Arc<ServerState>>,
    Extension(peer): Extension<Arc<Peer>>,
    mut request: Request,
    next: Next,
) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = match admit(&state, &peer, &mut request).await {
        Err(refusal) => refusal,
        Ok(()) if FREE.contains(&path.as_str()) => next.run(request).await,
        Ok(()) => {
            if let Ok(_permit) = state.work.try_acquire() {
                next.run(request).await
            } else {
                let why = "too many requests are being answered, please try again later";
                reply::busy(StatusCode::TOO_MANY_REQUESTS, why, 1)
            }
        }
    };
    tracing::debug!(%method, path, status = response.status().as_u16(), peer = %peer.address, "HTTP");
    reply::uncached(response)
}

async fn admit(state: &ServerState, peer: &Peer, request: &mut Request) -> Result<(), Response> {
    let allowed = {
        let mut rates = state.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.allows(peer.address, Instant::now())
    };
    if !allowed {
        let why = "too many requests, please try again later";
        return Err(reply::busy(StatusCode::TOO_MANY_REQUESTS, why, 1));
    }
    let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let length = length.and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
    let is_question = request.uri().path().starts_with("/api/v1/");
    let most = if is_question { limits::QUESTION_BYTES } else { limits::BODY_BYTES };
    if most < length {
        return Err(reply::error(StatusCode::PAYLOAD_TOO_LARGE, "http: request body too large"));
    }
    if is_of_page(request.uri().path()) {
        return Ok(());
    }
    let material = state.material.borrow().clone();
    let (headers, uri) = (request.headers(), request.uri());
    let user = match state.authenticator.who(&peer.chain, headers, &material).await {
        Ok(user) => user,
        Err(error) => {
            tracing::warn!(peer = %peer.address, %error, "Unable to authenticate the request");
            return Err(reply::unauthorized(headers, uri));
        }
    };
    let verb = verb(request.method());
    match state.authorizer.may(&user, Access::Path { path: uri.path(), verb: &verb }).await {
        AuthorizationResult::Allowed => {}
        AuthorizationResult::Forbidden(why) => {
            return Err(reply::forbidden(headers, uri, &user, &verb, &why));
        }
        AuthorizationResult::Unknown(why) => {
            tracing::warn!(user = %user.name, %verb, path = uri.path(), %why, "could not authorize the request");
            return Err(reply::internal(uri, &why));
        }
    }
    // As in filters/authentication.go: the handlers do not need it.
    request.headers_mut().remove(AUTHORIZATION);
    request.extensions_mut().insert(Arc::new(user));
    Ok(())
}

/// As in request/requestinfo.go: for non-resource paths the verb is the method.
fn verb(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}
